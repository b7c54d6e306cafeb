"""METEOR's data files: where they are found, how the paraphrase table is indexed, and what is done without them.

The files come with the `pycocoevalcap` wheel (extra `meteor`): word lists and synonyms inside `meteor-1.5.jar`, the
paraphrase table in `data/paraphrase-en.gz`. Nothing of Java is run; a jar is a zip file.

The paraphrase table is a trie of phrases on disk, built once and memory-mapped from then on. A node of the trie is a
phrase: node `w < len(words)` is the one-word phrase `w`, longer phrases follow level by level, the children of a node
side by side and sorted by their last word. So a node is reached by binary search among its parent's children, and the
paraphrases of a phrase are a slice of node numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from captrial.arrays import map_npy
from captrial.errors import InputError
from captrial.files import atomic_path, atomic_write, cache_directory
from captrial.metrics.wordnet import WordNet, read_wordnet
from captrial.progress import progress_bar

JAR = "meteor-1.5.jar"
NUMERIC_ONLY = "#NUMERIC_ONLY#"  # marks prefixes whose dot ends no sentence only before a number
TABLE = "data/paraphrase-en.gz"

# For the reduced variant only: our own list of English closed-class words.
_CLOSED_CLASS = """
    a an the this that these those some any no each every all both and or but nor if while because as than of in on at
    to from by with without for about into onto over under near up down out off is are was were be been being am has
    have had do does did will would can could may might must shall should not he she it they them his her its their we
    us our you your i me my who which what where when there here
"""


class MeteorWordNet(WordNet):
    """Synonym sets as METEOR's jar looks them up: words in -ful have no base form there ("handsful")."""

    def morph(self, word: str) -> str:
        """The base form of a regularly inflected word; the word itself where there is none."""
        return word if word.endswith("ful") else super().morph(word)


@dataclass(frozen=True)
class MeteorResources:
    """What METEOR knows of English. `synonyms` and `paraphrases` are both there, or both absent: then it is another
    metric, and `name` says so."""

    function_words: frozenset[str]
    prefixes: dict[str, bool]  # words whose dot ends no sentence -> only before a number?
    synonyms: WordNet | None = None
    paraphrases: ParaphraseTable | None = None

    @property
    def name(self) -> str:
        """`meteor`, or `meteor_exact_stem` for the reduced variant that matches by exact word and stem only."""
        return "meteor_exact_stem" if self.paraphrases is None else "meteor"

    @classmethod
    def find(cls, path: Path | str | None = None) -> MeteorResources:
        """Load the data files from a folder, or from the installed `pycocoevalcap`; without both, the reduced variant.

        `path` is a folder with `meteor-1.5.jar` and `data/paraphrase-en.gz`.
        """
        if path is not None:
            return _load(Path(path).resolve())
        spec = find_spec("pycocoevalcap")
        for place in (spec.submodule_search_locations or []) if spec else []:
            if all((Path(place) / "meteor" / name).exists() for name in (JAR, TABLE)):
                return _load(Path(place).resolve() / "meteor")
        return cls.reduced()

    @classmethod
    def reduced(cls) -> MeteorResources:
        """Exact and stem matches only; needs no files."""
        return cls(frozenset(_CLOSED_CLASS.split()), {})


@lru_cache(maxsize=4)
def _load(directory: Path) -> MeteorResources:
    for name in (JAR, TABLE):
        if not (directory / name).is_file():
            raise InputError(f"{directory}: METEOR's {name} is not there; pip install 'captrial[meteor]'")
    try:
        with ZipFile(directory / JAR) as jar:
            functions = jar.read("function/english.words").decode()
            prefixes = jar.read("nonbreaking/english.prefixes").decode()
    except (BadZipFile, KeyError) as error:
        raise InputError(f"{directory / JAR}: not METEOR's jar ({error}); install pycocoevalcap again") from None
    return MeteorResources(
        frozenset(functions.split()),
        _prefixes(prefixes),
        read_wordnet(directory / JAR, MeteorWordNet),
        ParaphraseTable.load(directory / TABLE),
    )


def _prefixes(text: str) -> dict[str, bool]:
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {line[0]: NUMERIC_ONLY in line for line in lines if line}


_FORMAT = 1  # part of the index's name: raise it when the arrays change
_ARRAYS = ("first_child", "last_word", "first_target", "targets")

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class ParaphraseTable:
    """Phrases and their paraphrases, in the order of the table.

    `words`: the number of each word; `first_child` (nodes + 1,): where a node's children begin; `last_word` (nodes,):
    the last word of a node's phrase; `first_target` (nodes + 1,): where a node's paraphrases begin in `targets`.
    """

    words: dict[str, int]
    first_child: Ints
    last_word: Ints
    first_target: Ints
    targets: Ints

    @classmethod
    def load(cls, source: Path) -> ParaphraseTable:
        """Open the index of a table `paraphrase-en.gz` (triples of lines: probability, phrase, paraphrase)."""
        directory = index_directory(source)
        listing = directory / "words.txt"  # written last: when it exists, the index is whole
        if not listing.exists():
            _build(source, directory)
        try:
            return cls._open(directory)
        except (OSError, ValueError, InputError):  # damaged: it is only a cache
            _build(source, directory)
            return cls._open(directory)

    @classmethod
    def _open(cls, directory: Path) -> ParaphraseTable:
        words = (directory / "words.txt").read_text(encoding="utf-8").split("\n")
        table = cls(
            dict(zip(words, range(len(words)), strict=True)),
            *(np.asarray(map_npy(directory / f"{name}.npy")) for name in _ARRAYS),
        )
        if not table.is_consistent():
            raise ValueError(f"{directory}: the arrays do not fit each other")
        return table

    def is_consistent(self) -> bool:
        """Whether all numbers are in range: the kernel that follows them does not check."""
        nodes = len(self.last_word)
        limits = [
            (self.first_child, nodes + 1, nodes),
            (self.last_word, nodes, len(self.words) - 1),
            (self.first_target, nodes + 1, len(self.targets)),
            (self.targets, len(self.targets), nodes - 1),
        ]
        return nodes >= len(self.words) and all(
            values.dtype == np.int32 and values.shape == (size,) and 0 <= values.min() <= values.max() <= largest
            for values, size, largest in limits
        )


def index_directory(source: Path) -> Path:
    """Where the index of a table is kept; its name has the checksum and size that end every gzip file."""
    with source.open("rb") as stream:
        stream.seek(-min(8, source.stat().st_size), 2)
        fingerprint = stream.read().hex()
    return cache_directory() / "meteor" / f"paraphrases-{_FORMAT}-{fingerprint}"


def _build(source: Path, directory: Path) -> None:
    with progress_bar() as bar:
        task = bar.add_task("indexing METEOR's paraphrases (once)", total=4)
        phrases, rows = _read(source)
        bar.advance(task)
        words, vocabulary, start = _split(phrases)
        del phrases
        bar.advance(task)
        parents, last_word, node = _trie(words, start, len(vocabulary))
        bar.advance(task)
        keys, targets = node[rows[0]], node[rows[1]]
        arrays = (_begins(parents, len(last_word), len(vocabulary)), last_word, _begins(keys, len(last_word), 0))
        by_key = np.argsort(keys, kind="stable")  # the table's order among the paraphrases of one phrase decides ties
        for name, array in zip(_ARRAYS, (*arrays, targets[by_key]), strict=True):
            with atomic_path(directory / f"{name}.npy") as temporary:
                np.save(temporary, array.astype(np.int32))
        atomic_write(directory / "words.txt", "\n".join(vocabulary))
        bar.advance(task)


def _read(source: Path) -> tuple[object, NDArray[np.int64]]:
    """The distinct phrases (a pyarrow string array) and the rows of the table as phrase numbers, (2, rows)."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        with pa.input_stream(str(source), compression="gzip") as stream:
            lines = csv.read_csv(
                stream,
                csv.ReadOptions(column_names=["line"], block_size=1 << 24),
                csv.ParseOptions(delimiter="\x01", quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(column_types={"line": pa.string()}, strings_can_be_null=False),
            )["line"].combine_chunks()
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{source}: not a readable paraphrase table ({error}); install pycocoevalcap again") from None
    if len(lines) % 3 or not len(lines):
        raise InputError(f"{source}: {len(lines)} lines, not triples; install pycocoevalcap again")
    sides = [lines.take(pa.array(np.arange(side, len(lines), 3))) for side in (1, 2)]
    encoded = pa.chunked_array(sides).combine_chunks().dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int64).reshape(2, -1)


def _split(phrases: object) -> tuple[NDArray[np.int64], list[str], NDArray[np.int64]]:
    """The words of all phrases one after another, the vocabulary they are numbers of, and where each phrase begins."""
    import pyarrow.compute as pc

    split = pc.split_pattern(phrases, " ")
    words = split.values.dictionary_encode()
    start = split.offsets.to_numpy().astype(np.int64)
    return words.indices.to_numpy().astype(np.int64), words.dictionary.to_pylist(), start


def _trie(
    words: NDArray[np.int64], start: NDArray[np.int64], vocabulary: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Parents and last words of the nodes beyond the single words', and the node of every phrase."""
    length, node = np.diff(start), words[start[:-1]]
    parents, last_word, nodes = [], [np.arange(vocabulary)], vocabulary
    for depth in range(1, int(length.max())):
        longer = np.flatnonzero(length > depth)
        child = node[longer] * vocabulary + words[start[longer] + depth]
        distinct, node_of_child = np.unique(child, return_inverse=True)
        node[longer] = nodes + node_of_child
        nodes += len(distinct)
        parents.append(distinct // vocabulary)
        last_word.append(distinct % vocabulary)
    return np.concatenate([np.empty(0, np.int64), *parents]), np.concatenate(last_word), node


def _begins(owner: NDArray[np.int64], owners: int, offset: int) -> NDArray[np.int64]:
    """Where each owner's items begin, once the items are sorted by owner; (owners + 1,)."""
    return offset + np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=owners))])
