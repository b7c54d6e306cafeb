"""Captions normalised, and everything in them that can match as integers.

`normalize` is METEOR's `-norm`: Moses-like normalisation that keeps punctuation, then lower-casing and splitting at
blanks. Its rules are applied in the order of the original, each as one substitution over the whole line. A substitution
consumes the characters it matched, so overlapping contexts ("a-b-c") are only rewritten at every other place, exactly
as the original does.

Words are numbered over the whole data set and looked up once each. Exact and stem matches compare Java's 32-bit hash of
a string, as the original does. Phrases of the paraphrase table are found in every caption by walking its trie; those
that have no partner anywhere in the data set are dropped at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from captrial.kernels import kernel
from captrial.metrics.meteor.resources import MeteorResources, ParaphraseTable
from captrial.metrics.meteor.stem import stem
from captrial.metrics.wordnet import WordNet

Ints = NDArray[np.int32]


class Captions(NamedTuple):
    """Caption c is `words[start[c]:start[c + 1]]`."""

    words: Ints
    start: Ints


class Lexicon(NamedTuple):
    """What is known of word w; its synsets are `synsets[synset_start[w]:synset_start[w + 1]]`, sorted."""

    exact: Ints
    stem: Ints
    function: NDArray[np.bool_]
    synsets: Ints
    synset_start: Ints
    signature: NDArray[np.uint64]  # one bit a synset (modulo 64): no common bit, no common synset


class Phrases(NamedTuple):
    """Phrases found in the captions. Caption c has the finds `start[c]:start[c + 1]`, by position, then length.

    A find is a `phrase` (a number below `len(target_start) - 1`) at `position`, `length` words long; the paraphrases of
    phrase p are `targets[target_start[p]:target_start[p + 1]]`.
    """

    start: Ints
    position: Ints
    length: Ints
    phrase: Ints
    target_start: Ints
    targets: Ints


class Matchable(NamedTuple):
    """A set of captions, ready to be aligned with each other."""

    captions: Captions
    lexicon: Lexicon
    phrases: Phrases


def prepare(captions: Iterable[str], resources: MeteorResources) -> Matchable:
    """Normalise the captions and look up their words and phrases."""
    numbers: dict[str, int] = {}
    number = numbers.setdefault
    lines = [[number(word, len(numbers)) for word in normalize(line, resources.prefixes)] for line in captions]
    vocabulary = list(numbers)
    packed = Captions(*pack(lines))
    return Matchable(packed, _lexicon(vocabulary, resources), _phrases(packed, vocabulary, resources.paraphrases))


def pack(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lists one after another, and where each begins (n + 1,)."""
    lengths = np.fromiter(map(len, lists), np.int32, len(lists))
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    flat = np.fromiter((item for items in lists for item in items), np.int32, start[-1])
    return flat, start


def java_hash(text: str) -> int:
    """`String.hashCode`: 31-adic over the UTF-16 units, as a signed 32-bit integer."""
    value = 0
    units = map(ord, text) if text.isascii() else np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    for unit in units:
        value = (31 * value + int(unit)) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def _lexicon(vocabulary: list[str], resources: MeteorResources) -> Lexicon:
    return Lexicon(
        np.array([java_hash(word) for word in vocabulary], np.int32),
        np.array([java_hash(stem(word)) for word in vocabulary], np.int32),
        np.array([word in resources.function_words for word in vocabulary], np.bool_),
        *_synsets(vocabulary, resources.synonyms),
    )


def _synsets(vocabulary: list[str], synonyms: WordNet | None) -> tuple[Ints, Ints, NDArray[np.uint64]]:
    """The synsets that at least two of the words share, where each word's begin, and each word's signature."""
    synsets, start = pack([sorted(synonyms.synsets(word)) if synonyms else [] for word in vocabulary])
    owner = np.repeat(np.arange(len(vocabulary)), np.diff(start))
    _, numbers, words = np.unique(synsets, return_inverse=True, return_counts=True)
    shared = words[numbers] > 1
    synsets, owner = numbers[shared].astype(np.int32), owner[shared]
    signature = np.zeros(len(vocabulary), np.uint64)
    np.bitwise_or.at(signature, owner, np.left_shift(np.uint64(1), (synsets % 64).astype(np.uint64)))
    return synsets, _starts(owner, len(vocabulary)), signature


def _phrases(captions: Captions, vocabulary: list[str], table: ParaphraseTable | None) -> Phrases:
    if table is None:
        nothing = np.zeros(0, np.int32)
        return Phrases(np.zeros_like(captions.start), nothing, nothing, nothing, np.zeros(1, np.int32), nothing)
    known = np.array([table.words.get(word, -1) for word in vocabulary], np.int32)
    tree = table.first_child, table.last_word
    counts = np.zeros(len(captions.start) - 1, np.int32)
    none = np.empty((0, 3), np.int32)
    _walk(captions.words, captions.start, known, *tree, counts, none)
    finds = np.empty((counts.sum(), 3), np.int32)
    _walk(captions.words, captions.start, known, *tree, counts, finds)
    return _with_partners(counts, finds, table)


@kernel()
def _walk(words: Ints, start: Ints, known: Ints, first_child: Ints, last_word: Ints, counts: Ints, finds: Any) -> None:
    """Count the phrases in every caption; given room, also write down (position, length, node) of each."""
    found = 0
    for caption in range(len(start) - 1):
        before = found
        for position in range(start[caption], start[caption + 1]):
            node = known[words[position]]
            length = 1
            while node >= 0:
                if len(finds):
                    finds[found, 0] = position - start[caption]
                    finds[found, 1] = length
                    finds[found, 2] = node
                found += 1
                end = position + length
                if end == start[caption + 1]:
                    break
                word = known[words[end]]
                low, high = first_child[node], first_child[node + 1]
                while low < high:
                    middle = (low + high) // 2
                    if last_word[middle] < word:
                        low = middle + 1
                    else:
                        high = middle
                node = low if low < first_child[node + 1] and last_word[low] == word else -1
                length += 1
        counts[caption] = found - before


def _with_partners(counts: Ints, finds: Ints, table: ParaphraseTable) -> Phrases:
    """Keep the finds whose phrase has, or is, a paraphrase that also occurs; number those phrases again."""
    present = np.zeros(len(table.last_word), np.bool_)
    present[finds[:, 2]] = True
    nodes = np.flatnonzero(present)
    first, last = table.first_target[nodes], table.first_target[nodes + 1]
    sources = np.repeat(nodes, last - first)
    rows = np.arange(len(sources)) + np.repeat(
        first - np.concatenate([[0], np.cumsum(last - first)[:-1]]), last - first
    )
    targets = table.targets[rows]
    both = present[targets]
    sources, targets = sources[both], targets[both]
    nodes = np.unique(np.concatenate([sources, targets]))
    number = np.full(len(present), -1, np.int32)
    number[nodes] = np.arange(len(nodes))
    keep = number[finds[:, 2]] >= 0
    caption = np.repeat(np.arange(len(counts)), counts)[keep]
    position, length, node = finds[keep].T
    return Phrases(
        _starts(caption, len(counts)),
        np.ascontiguousarray(position),
        np.ascontiguousarray(length),
        number[node],
        _starts(number[sources], len(nodes)),
        number[targets],
    )


def _starts(owner: NDArray[Any], owners: int) -> Ints:
    """Where each owner's items begin, the items being sorted by owner; (owners + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=owners))]).astype(np.int32)


_ALPHA = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e\u0400-\u0527\u1d00-\u1d7f\ua640-\ua66e\ua67e-\ua697"
_ALNUM = _ALPHA + "0-9"
_SPACE = " \t\n\x0b\f\r"  # what the original calls white space
_CONTROL = "".join(map(chr, range(33)))  # the original trims these from both ends
_DOT = "\ud800"  # stands for a dot of a run such as "..."; a lone surrogate cannot occur in the input

_PLAIN = re.compile(r"[a-z0-9 ]*").fullmatch
_RULES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(f"([^{_ALNUM}{_SPACE}.'`,\\-‘’])"), r" \1 "),
    (re.compile(r"\.{2,}"), lambda run: f" {_DOT * len(run[0])} "),
    (re.compile(r"([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([^0-9]),([0-9])"), r"\1 , \2"),
    (re.compile("[`‘’]"), "'"),
    (re.compile("[“”]|''"), ' " '),
    (re.compile("–|--"), "-"),
    (re.compile(f"([{_ALNUM}.])-([{_ALNUM}])"), r"\1 \2"),
    (re.compile(f"([^{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(f"([^{_ALNUM}])'([{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(f"([{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(f"([{_ALPHA}])'([{_ALPHA}])"), r"\1 '\2"),
    (re.compile(r"([0-9])'(s)"), r"\1 '\2"),
]
_BLANKS = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")  # words of their own until the very end
_SPLIT = re.compile("[ \t\n\r\f]+").split
_HAS_LETTER = re.compile(f"[{_ALPHA}]").search


def normalize(line: str, prefixes: Mapping[str, bool]) -> list[str]:
    """The words METEOR compares: normalised, lower-cased, split at blanks.

    `prefixes` are words after which a dot does not end a sentence; its value tells whether that holds only before a
    number.

    >>> normalize("a man in a t-shirt doesn't eat 3/4 of it", {})
    ['a', 'man', 'in', 'a', 't', 'shirt', 'doesn', "'t", 'eat', '3', '/', '4', 'of', 'it']
    """
    if _PLAIN(line):
        return line.split()  # most tokenised captions: no rule applies
    line = f" {line.encode('utf-16', 'replace').decode('utf-16') if _DOT in line else line} "
    for pattern, replacement in _RULES:
        line = pattern.sub(replacement, line)
    words = _words(line)
    tokens = [_dotted(word, words[k + 1] if k + 1 < len(words) else "", prefixes) for k, word in enumerate(words)]
    line = _BLANKS.sub(" ", " ".join(tokens)).strip(_CONTROL)
    return _words(line.replace(_DOT, ".").lower())


def _words(line: str) -> list[str]:
    return [word for word in _SPLIT(line) if word]


def _dotted(word: str, following: str, prefixes: Mapping[str, bool]) -> str:
    """Decide what becomes of the dot at the end of a word: dropped, kept, or a word of its own."""
    if len(word) < 2 or not word.endswith("."):
        return word
    stem = word[:-1]
    if "." in stem and _HAS_LETTER(stem):
        return word.replace(".", "")  # an abbreviation: u.s. -> us
    if stem in prefixes and (not prefixes[stem] or "0" <= following[:1] <= "9"):
        return word
    return word if "a" <= following[:1] <= "z" else f"{stem} ."
