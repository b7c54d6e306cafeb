"""The compiled alignment against a slow, plain one written from the description of METEOR's search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.metrics.meteor import MeteorResources, meteor_stats
from captrial.metrics.meteor.alignment import align_pairs
from captrial.metrics.meteor.matching import java_hash, prepare
from captrial.metrics.meteor.stem import stem

from .conftest import FUNCTION_WORDS, PARAPHRASES

WORDS = ["a", "the", "of", "in", "front", "before", "big", "fat", "dog", "dogs", "hound", "man", "men", "guy", "run"]
WORDS += ["runs", "is", "lot", "large", "geese", "bird", "an", "c0"]
captions = st.lists(st.sampled_from(WORDS), max_size=12)


class Match(NamedTuple):
    module: int
    at: int
    length: int
    first_at: int
    first_length: int


@dataclass
class Path:
    taken: tuple[Match, ...] = ()
    words: int = 0
    chunks: int = 0
    distance: int = 0
    ready: int = 0
    last: int = -1

    def rank(self) -> tuple[int, int, int]:
        return (-self.words, self.chunks, self.distance)

    def take(self, match: Match) -> Path:
        weight = 1.0 if match.module == 0 else 0.5
        return replace(
            self,
            taken=(*self.taken, match),
            words=self.words + int(weight * match.length) + int(weight * match.first_length),
            chunks=self.chunks + (self.last not in (-1, match.first_at)),
            ready=match.at + match.length,
            last=match.first_at + match.first_length,
        )

    def blocks(self, match: Match) -> bool:
        return any(set(span(match)) & set(span(other)) for other in self.taken)


def span(match: Match) -> range:
    return range(match.first_at, match.first_at + match.first_length)


def occurrences(phrase: str, caption: list[str]) -> list[int]:
    words = phrase.split()
    return [k for k in range(len(caption)) if caption[k : k + len(words)] == words]


def paraphrase_matches(source: list[str], target: list[str]) -> list[tuple[int, int, int, int]]:
    found = []
    for at, length in product(range(len(source)), range(1, 4)):
        for phrase, other in PARAPHRASES:
            if at + length <= len(source) and source[at : at + length] == phrase.split():
                found += [(at, length, k, len(other.split())) for k in occurrences(other, target)]
    return found


def all_matches(first: list[str], second: list[str], tiny: MeteorResources) -> list[Match]:
    assert tiny.synonyms
    same = [(j, i) for j, b in enumerate(second) for i, a in enumerate(first) if java_hash(a) == java_hash(b)]
    matches = [Match(0, j, 1, i, 1) for j, i in same]
    if [java_hash(word) for word in first] == [java_hash(word) for word in second]:
        return matches
    pairs = [pair for pair in product(range(len(second)), range(len(first))) if pair not in same]
    matches += [Match(1, j, 1, i, 1) for j, i in pairs if stem(first[i]) == stem(second[j])]
    matches += [
        Match(2, j, 1, i, 1) for j, i in pairs if tiny.synonyms.synsets(first[i]) & tiny.synonyms.synsets(second[j])
    ]
    matches += [Match(3, *row) for row in paraphrase_matches(second, first)]
    return matches + [Match(3, j, m, i, n) for i, n, j, m in paraphrase_matches(first, second)]


def model_alignment(first: list[str], second: list[str], tiny: MeteorResources) -> tuple[Match, ...]:
    matches = all_matches(first, second, tiny)
    at = [[match for match in matches if match.at == j] for j in range(len(second))]

    def alone(match: Match) -> bool:
        second_span = set(range(match.at, match.at + match.length))
        rivals = [
            m for m in matches if set(span(m)) & set(span(match)) or second_span & set(range(m.at, m.at + m.length))
        ]
        return len(rivals) == 1

    fixed = [len(found) == 1 and alone(found[0]) for found in at]
    paths = [Path()]
    for j in range(len(second)):
        extended: list[Path] = []
        for path in sorted(paths, key=Path.rank)[:40]:
            if j < path.ready:
                extended.append(path)
            elif fixed[j]:
                match = at[j][0]
                extended.append(replace(path.take(match), distance=path.distance + abs(j - match.first_at)))
            else:
                distance = path.distance
                for match in at[j]:
                    if not path.blocks(match):
                        extended.append(replace(path.take(match), distance=distance))
                        distance += abs(j - match.first_at)
                extended.append(replace(path, distance=distance, chunks=path.chunks + (path.last >= 0), last=-1))
        paths = extended
    best = sorted(paths, key=Path.rank)[:40]
    return min((replace(path, chunks=path.chunks + (path.last >= 0)) for path in best), key=Path.rank).taken


def model_stats(first: list[str], second: list[str], tiny: MeteorResources) -> list[int]:
    matches = model_alignment(first, second, tiny)
    sides = [len(first), len(second), *(sum(word in FUNCTION_WORDS for word in side) for side in (first, second))]
    counts = np.zeros((4, 2, 2), int)  # module, content or function, side
    for match in matches:
        for k in span(match):
            counts[match.module, int(first[k] in FUNCTION_WORDS), 0] += 1
        for k in range(match.at, match.at + match.length):
            counts[match.module, int(second[k] in FUNCTION_WORDS), 1] += 1
    joined = sum(a.at + a.length == b.at and a.first_at + a.first_length == b.first_at for a, b in pairwise(matches))
    words = [sum(match.first_length for match in matches), sum(match.length for match in matches)]
    return [*sides, *counts.ravel().tolist(), len(matches) - joined, *words]


@settings(max_examples=200, deadline=None)
@given(first=captions, second=captions)
def test_compiled_search_is_the_plain_one(tiny: MeteorResources, first: list[str], second: list[str]) -> None:
    stats = meteor_stats([" ".join(first)], [[" ".join(second)]], resources=tiny)
    assert stats[0].tolist() == model_stats(first, second, tiny)


@settings(max_examples=5, deadline=None)
@given(
    first=st.lists(st.sampled_from(WORDS[:9]), min_size=60, max_size=80),
    second=st.lists(st.sampled_from(WORDS[:9]), min_size=20, max_size=30),
)
def test_full_beam_and_more_words_than_bits(tiny: MeteorResources, first: list[str], second: list[str]) -> None:
    stats = meteor_stats([" ".join(first)], [[" ".join(second)]], resources=tiny)
    assert stats[0].tolist() == model_stats(first, second, tiny)


def test_pairs_do_not_disturb_each_other(tiny: MeteorResources) -> None:
    lines = ["a big dog in front of the man", "the hound before a guy", "", "geese", "a lot of men run a lot"]
    ready = prepare(lines, tiny)
    first, second = (np.array(side, np.int32) for side in zip(*product(range(5), repeat=2), strict=True))
    together = align_pairs(ready, first, second)
    for k in range(len(first)):
        apart = align_pairs(prepare([lines[first[k]], lines[second[k]]], tiny), *np.array([[0], [1]], np.int32))
        assert together[k].tolist() == apart[0].tolist()


def test_java_hash() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("an") == java_hash("c0")  # METEOR takes them for the same word
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_hash("😀") == 1772899  # two UTF-16 units
