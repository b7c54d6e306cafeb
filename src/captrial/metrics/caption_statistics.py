"""Statistics of captions as texts: length, vocabulary, distinct and novel captions, repeated words.

`statistics` describes captions; `repetition` (Wan 2022, Fig. 11-12) finds captions that repeat a word three or
more times in a row. `find_runs` is the detector behind it, on flat arrays of word ids.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from captrial.language import tokenize_all
from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores, State

IN_A_ROW = 3  # times that make a word repeated
Ints = NDArray[np.int64]


def statistics(
    candidates: Candidates | Corpus,
    references: References | None = None,
    training: Collection[str] | None = None,
) -> Scores:
    """Words per caption, with the parts `vocabulary`, `distinct` and, given `training` captions, `novelty`.

    `vocabulary` counts distinct words, `distinct` is the number of distinct captions divided by the number of captions,
    `novelty` is the share of captions that are not, word for word after tokenising, among the training captions.
    """
    return StatisticsState.of(Corpus.prepare(candidates, references), training).scores()


@dataclass(frozen=True)
class StatisticsState:
    """Captions, and whether each is among the training captions; distinct ones and words are counted at the end."""

    captions: Sequence[str]
    novel: NDArray[np.float64] | None = None  # (n,)

    @classmethod
    def of(cls, corpus: Corpus, training: Collection[str] | None = None) -> Self:
        """The state of one shard."""
        if training is None:
            return cls(corpus.candidates)
        seen = set(tokenize_all(list(training)))
        return cls(corpus.candidates, np.array([caption not in seen for caption in corpus.candidates], dtype=float))

    @classmethod
    def merge(cls, states: Sequence[Self]) -> Self:
        """All shards; novelty only where every shard has it."""
        captions = [caption for state in states for caption in state.captions]
        known = [state.novel for state in states if state.novel is not None]
        return cls(captions, np.concatenate(known) if len(known) == len(states) else None)

    def scores(self) -> Scores:
        """Lengths and the rest; per image, `vocabulary` counts the caption's own distinct words."""
        words = [caption.split() for caption in self.captions]
        own = np.array([len(set(row)) for row in words], dtype=float)
        times: dict[str, int] = {}
        for caption in self.captions:
            times[caption] = times.get(caption, 0) + 1
        alone = np.array([times[caption] == 1 for caption in self.captions], dtype=float)
        share = len(times) / max(len(self.captions), 1)
        parts = {
            "vocabulary": Scores("vocabulary", float(len({word for row in words for word in row})), own),
            "distinct": Scores("distinct", share, alone),
        }
        means = self._means.scores()
        return Scores("length", means.corpus, means.per_image, {**parts, **means.parts})

    def statistics(self) -> NDArray[np.float64]:
        """(n, 2 or 4): of the parts that are means, `length` and `novelty`; vocabularies do not add up."""
        return self._means.statistics()

    def corpus_scores(self, totals: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Means."""
        return self._means.corpus_scores(totals)

    def with_statistics(self, statistics: NDArray[np.float64]) -> State:
        """Only the parts that are means; the metric is registered as not additive."""
        return self._means.with_statistics(statistics)

    @property
    def _means(self) -> MeanState:
        lengths = np.array([len(caption.split()) for caption in self.captions], dtype=float)
        return MeanState({"length": lengths} | ({} if self.novel is None else {"novelty": self.novel}))


def repetition(
    candidates: Candidates | Corpus, references: References | None = None, in_a_row: int = IN_A_ROW
) -> Scores:
    """The share of captions with a word `in_a_row` or more times in a row; 0 or 1 for an image.

    >>> corpus = Corpus(["1", "2"], ["a dog dog dog", "a dog and a dog"], [["a dog"], ["dogs"]])
    >>> repetition(corpus).corpus
    0.5
    """
    return RepetitionState.of(Corpus.prepare(candidates, references), in_a_row=in_a_row).scores()


class RepetitionState(MeanState):
    """The mean of zeros and ones."""

    @classmethod
    def of(cls, corpus: Corpus, in_a_row: int = IN_A_ROW) -> RepetitionState:
        """Score one shard."""
        values = np.zeros(len(corpus))
        values[[image for image, _, _ in repeated_words(corpus, in_a_row)]] = 1.0
        return cls({"repetition": values})


class Runs(NamedTuple):
    """Words that are repeated several times in a row; one entry a run, in the order of the texts."""

    text: Ints  # (runs,) number of the text
    word: Ints  # (runs,) word id
    length: Ints  # (runs,) times in a row


def find_runs(words: NDArray[np.integer], offsets: NDArray[np.integer], in_a_row: int = IN_A_ROW) -> Runs:
    """Find every word that is repeated `in_a_row` or more times in a row.

    `words[offsets[i]:offsets[i + 1]]` are the word ids of text i.

    >>> find_runs(np.array([3, 7, 7, 7, 3, 7, 7]), np.array([0, 4, 7]))
    Runs(text=array([0]), word=array([7]), length=array([3]))
    """
    words = words[offsets[0] : offsets[-1]]
    text = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    breaks = np.flatnonzero((words[1:] != words[:-1]) | (text[1:] != text[:-1])) + 1
    starts = np.concatenate([[0], breaks]) if len(words) else breaks
    lengths = np.diff(starts, append=len(words))
    long = lengths >= in_a_row
    return Runs(text[starts[long]], words[starts[long]].astype(np.int64), lengths[long])


def repeated_words(corpus: Corpus, in_a_row: int = IN_A_ROW) -> list[tuple[int, str, int]]:
    """Every run in a candidate: number of the image, word, times in a row."""
    tokens = corpus.tokens
    runs = find_runs(tokens.words, tokens.offsets[: len(corpus) + 1], in_a_row)
    return [
        (image, tokens.vocabulary[word], length)
        for image, word, length in zip(*map(np.ndarray.tolist, runs), strict=True)
    ]
