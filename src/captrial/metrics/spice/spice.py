"""SPICE: scene tuples of captions, how many agree with those of the references, and their F scores by category.

Texts are parsed, corrected towards the original's parser, converted to dependencies, and tuples are extracted; what was
parsed before comes from a cache on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.errors import damage_named
from captrial.files import content_hash
from captrial.language.nouns import pipeline_name
from captrial.language.text_cache import TextCache
from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores
from captrial.metrics.spice.dependencies import Graph, universal
from captrial.metrics.spice.parser import Parse, lemmatizer, parse
from captrial.metrics.spice.parser_corrections import correct_parse
from captrial.metrics.spice.synonym_graph import Concept, SceneGraph, SynonymVocabulary, Tuples
from captrial.metrics.spice.tuple_patterns import LocatedTuple, SceneTuple, extract, extract_located
from captrial.metrics.spice.wordlists import COLORS, COUNTS, SIZES
from captrial.metrics.wordnet import default_wordnet

GraphTuple = tuple[Concept, ...]


def _has_attribute(item: GraphTuple, words: frozenset[str]) -> bool:
    """An attribute merged from several strings is in no list, as in the original ("red/scarlet" is no colour)."""
    return len(item) == 2 and len(item[1].strings) == 1 and not words.isdisjoint(item[1].strings)


CATEGORIES: dict[str, Callable[[GraphTuple], bool]] = {
    "all": lambda _: True,
    "object": lambda item: len(item) == 1,
    "attribute": lambda item: len(item) == 2,
    "relation": lambda item: len(item) == 3,
    "color": lambda item: _has_attribute(item, COLORS),
    "count": lambda item: _has_attribute(item, COUNTS),
    "size": lambda item: _has_attribute(item, SIZES),
}
"""SPICE and its sub-scores, in the order of the columns of `Counts`."""

NAMES = ("spice", "spice_object", "spice_attribute", "spice_relation", "spice_color", "spice_count", "spice_size")
NOT_JAVA = "spice: parsed by spaCy, not by the Java tool, whose values differ a little (docs/spice.md)"
Counts = NDArray[np.int64]
"""Per category: matched candidate tuples, candidate tuples, reference tuples; shape (7, 3), or (images, 7, 3)."""


def tuple_counts(candidate: Tuples, references: Sequence[Tuples], vocabulary: SynonymVocabulary) -> Counts:
    """Counts of one image, shape (7, 3): the candidate's tuples against those of all references in one graph."""
    ours, theirs = SceneGraph(vocabulary), SceneGraph(vocabulary)
    ours.add(candidate)
    for tuples in references:
        theirs.add(tuples)
    return _count(ours.tuples(), theirs.tuples())


def f_scores(counts: Counts) -> NDArray[np.float64]:
    """F of counts (..., 7, 3) -> (..., 7): clipped to 1; sub-scores without reference tuples are NaN, SPICE is 0."""
    matched, ours, theirs = np.moveaxis(counts.astype(np.float64), -1, 0)
    # 2pr/(p+r), p = matched/ours, r = matched/theirs; candidate tuples may share a reference tuple, hence the clip.
    f = np.minimum(2 * matched / np.maximum(ours + theirs, 1), 1.0)
    f[..., 1:][theirs[..., 1:] == 0] = np.nan
    return np.asarray(f)


def _count(ours: list[GraphTuple], theirs: list[GraphTuple]) -> Counts:
    counts = np.zeros((len(CATEGORIES), 3), dtype=np.int64)
    for row, member in zip(counts, CATEGORIES.values(), strict=True):
        candidates, references = list(filter(member, ours)), list(filter(member, theirs))
        row[:] = sum(_matches(item, references) for item in candidates), len(candidates), len(references)
    return counts


def _matches(item: GraphTuple, references: list[GraphTuple]) -> bool:
    """Whether a reference tuple of the same length has pairwise similar parts (one may serve several candidates)."""
    return any(
        len(item) == len(other) and all(mine.similar(yours) for mine, yours in zip(item, other, strict=True))
        for other in references
    )


class CaptionGraph(NamedTuple):
    """The scene graph of one caption: its objects, their attributes, and relations (subject, object, predicate)."""

    objects: list[str]
    attributes: list[tuple[str, str]]
    relations: list[tuple[str, str, str]]


def scene_tuples(texts: Sequence[str]) -> list[list[SceneTuple]]:
    """SPICE's tuples of texts of PTB tokens (lower-case, joined by blanks), in the original's order of emission.

    A text is parsed once: results are kept in the cache directory by content, for this parser and these rules.
    """
    cache = TextCache(f"spice-{version()}", "parsing captions for SPICE")
    lines = cache.complete(texts, _lines)
    with damage_named(cache.path, "the same command after removing it"):
        return [[_scene_tuple(item) for item in orjson.loads(line)] for line in lines]


def _scene_tuple(words: Sequence[str]) -> SceneTuple:
    if not 1 <= len(words) <= 3 or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{words} are no object, attribute or relation")
    return tuple(words)


def caption_graph(tuples: Iterable[SceneTuple]) -> CaptionGraph:
    """Sort the tuples of one caption by kind, once each; objects include those of attributes and relations.

    >>> caption_graph([("man", "horse", "ride"), ("horse", "brown"), ("man",)])
    CaptionGraph(objects=['man', 'horse'], attributes=[('horse', 'brown')], relations=[('man', 'horse', 'ride')])
    """
    unique = list(dict.fromkeys(tuples))
    ends = (word for item in unique for word in (item[:2] if len(item) == 3 else item[:1]))
    return CaptionGraph(
        list(dict.fromkeys(ends)),
        [(item[0], item[1]) for item in unique if len(item) == 2],
        [(item[0], item[1], item[2]) for item in unique if len(item) == 3],
    )


def tuples_of(parses: Iterable[Parse]) -> list[SceneTuple]:
    """The tuples of the parses of one text, which are changed on the way."""
    return [item for tree in parses for item in extract(_graph(tree))]


def located_tuples(parses: Iterable[Parse]) -> list[LocatedTuple]:
    """The same, each with the numbers of the words that it came from, counted in the text."""
    found: list[LocatedTuple] = []
    before = 0
    for tree in parses:
        found += [(item, tuple(before + word for word in words)) for item, words in extract_located(_graph(tree))]
        before += len(tree)
    return found


def _graph(tree: Parse) -> Graph:
    """The dependencies of a parse, which is corrected on the way."""
    lemma = lemmatizer().lemma
    correct_parse(tree)
    return universal(tree, [lemma(word, tag) for word, tag in zip(tree.words, tree.tags, strict=True)])


@cache
def version() -> str:
    """Fingerprint of the parser and of our rules: what another one produced is not used."""
    rules = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return f"{pipeline_name()}-{content_hash(rules)}"


def _lines(texts: list[str]) -> Iterator[str]:
    return (orjson.dumps(tuples_of(parses)).decode() for parses in parse(texts))


@dataclass(frozen=True)
class SpiceState(MeanState):
    """SPICE and its sub-scores of some images; a sub-score is NaN where the references have no such tuple."""

    @classmethod
    def of(cls, corpus: Corpus, *, synonyms: bool = True) -> Self:
        """Parse (or look up) all texts and score every image."""
        return cls.from_counts(spice_counts(corpus.candidates, corpus.references, synonyms=synonyms))

    @classmethod
    def from_counts(cls, counts: Counts) -> Self:
        """From `spice_counts`, shape (n, 7, 3)."""
        return cls(dict(zip(NAMES, np.ascontiguousarray(f_scores(counts).T), strict=True)), (NOT_JAVA,))


def spice(candidates: Candidates | Corpus, references: References | None = None, *, synonyms: bool = True) -> Scores:
    """SPICE 1.0 with spaCy's parser: F over scene-graph tuples, and by kind of tuple.

    `synonyms=False` matches and merges by equal strings only (the original's `-noSynsets`).
    """
    return SpiceState.of(Corpus.prepare(candidates, references), synonyms=synonyms).scores()


def spice_counts(candidates: Sequence[str], references: Sequence[Sequence[str]], *, synonyms: bool = True) -> Counts:
    """Matched, candidate and reference tuples of each image and category; shape (n, 7, 3). Texts are tokenised."""
    ends = np.cumsum([0, *map(len, references)])
    tuples = scene_tuples([*candidates, *chain.from_iterable(references)])
    ours, theirs = tuples[: len(candidates)], tuples[len(candidates) :]
    grouped = [theirs[start:end] for start, end in pairwise(ends)]
    return counts_of_tuples(ours, grouped, synonyms=synonyms)


def counts_of_tuples(
    candidates: Sequence[Tuples], references: Sequence[Sequence[Tuples]], *, synonyms: bool = True
) -> Counts:
    """Counts (n, 7, 3) from given tuples: everything of SPICE but the parser."""
    vocabulary = SynonymVocabulary(default_wordnet() if synonyms else None)
    rows = [tuple_counts(ours, theirs, vocabulary) for ours, theirs in zip(candidates, references, strict=True)]
    return np.stack(rows) if rows else np.zeros((0, len(CATEGORIES), 3), dtype=np.int64)
