"""Similarity of a word and a class: the table of words for classes, then word vectors.

`sim(word, class)` is 1 where the table says that the word means the class, else the cosine of their vectors; in the
mode `"vectors"` it is the cosine alone, as in the papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError
from captrial.language.class_words import ClassTable, default_table
from captrial.language.vectors import WordVectors

Mode = Literal["table+vectors", "vectors"]


class Similarity:
    """Similarities of words and classes, with the threshold from which on they count as linked.

    >>> similarity = Similarity()
    >>> similarity.sim("puppy", "dog"), similarity.sim("qxqz", "dog"), similarity.sim("qxqz", "qxqz")
    (1.0, 0.0, 1.0)
    """

    def __init__(
        self,
        vectors: WordVectors | None = None,
        table: ClassTable | None = None,
        mode: Mode = "table+vectors",
        threshold: float | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise InputError(f"no similarity {mode!r}; there are {' and '.join(map(repr, get_args(Mode)))}")
        self.vectors = vectors if vectors is not None else WordVectors.open()
        self.table = table if table is not None else default_table()
        self.mode = mode
        self._threshold = threshold
        self._sim = lru_cache(maxsize=1 << 16)(self._compute)

    @classmethod
    def default(cls) -> Similarity:
        """The table and the installed vectors, made once a process."""
        return _default()

    @property
    def threshold(self) -> float:
        """The similarity from which on a word and a class count as linked: given, or calibrated for these vectors."""
        if self._threshold is not None:
            return self._threshold
        if self.mode not in self.vectors.thresholds:
            raise InputError(f"{self.vectors.description} has no calibrated threshold; give one")
        return self.vectors.thresholds[self.mode]

    @cached_property
    def description(self) -> str:
        """Mode, vectors, post-processing and threshold, to be printed with every table."""
        table = f"class table {self.table.fingerprint}, else " if self.mode == "table+vectors" else ""
        known = self._threshold is not None or self.mode in self.vectors.thresholds
        threshold = f"threshold {self.threshold:g}" if known else "no threshold"
        return f"{self.mode}: {table}cosine of {self.vectors.description}; {threshold}"

    def sim(self, word: str, class_: str) -> float:
        """The similarity of a word (a lemma) and a class, in [-1, 1]."""
        return self._sim(word, class_)

    def matrix(self, words: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32]:
        """Similarities (words, classes); each distinct name is looked up once."""
        rows, row = _distinct(words)
        columns, column = _distinct(classes)
        scores = self.vectors.similarities(rows, columns)
        if self.mode == "table+vectors":
            self._apply_table(scores, rows, columns)
        return np.asarray(scores[np.ix_(row, column)])

    def linked(self, words: Sequence[str], classes: Sequence[str]) -> NDArray[np.bool_]:
        """Which words are linked to which classes (words, classes): similarity at or above the threshold."""
        return np.asarray(self.matrix(words, classes) >= np.float32(self.threshold) - 1e-6)

    def _apply_table(self, scores: NDArray[np.float32], rows: list[str], columns: list[str]) -> None:
        """Put 1 where the table says that a row's word means a column's class."""
        places: dict[str, list[int]] = {}
        for row, word in enumerate(rows):
            for name in {word, self.table.canonical(word)}:
                places.setdefault(name, []).append(row)
        for column, class_ in enumerate(columns):
            if class_ in self.table:
                scores[[row for word in self.table.words(class_) for row in places.get(word, ())], column] = 1

    def _compute(self, word: str, class_: str) -> float:
        return float(self.matrix([word], [class_])[0, 0])


@dataclass(frozen=True)
class SimilaritySettings:
    """Which similarity to use: a mode and a vector file, None for the installed vectors.

    With `"vectors"` it is the plain cosine of raw vectors, as in the papers.

    Compares words like the `Similarity` it names, which is loaded on first use; workers are sent the settings.
    """

    mode: Mode = "table+vectors"
    vectors: Path | None = None

    def __reduce__(self) -> tuple[type[SimilaritySettings], tuple[Mode, Path | None]]:
        return SimilaritySettings, (self.mode, self.vectors)  # without what was loaded

    def load(self) -> Similarity:
        """The similarity, loaded when first asked for and then kept."""
        return self._similarity

    @cached_property
    def _similarity(self) -> Similarity:  # orjson leaves names with an underscore out of a dataclass' JSON
        if self == SimilaritySettings():
            return Similarity.default()
        if self.mode == "vectors":  # the papers' cosine is that of raw vectors
            return Similarity(WordVectors.open(self.vectors, components=None), mode=self.mode)
        return Similarity(WordVectors.open(self.vectors), mode=self.mode)

    def matrix(self, words: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32]:
        """Similarities (words, classes)."""
        return self._similarity.matrix(words, classes)

    @property
    def description(self) -> str:
        """As `Similarity.description`."""
        return self._similarity.description


def _distinct(names: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Each name once, and for every place the index of its name."""
    places: dict[str, int] = {}
    index = [places.setdefault(name, len(places)) for name in names]
    return list(places), np.array(index, np.int64)


@cache
def _default() -> Similarity:
    return Similarity()
