"""Repetition (Wan 2022, Fig. 11-12): captions in which one word stands three or more times in a row."""

from __future__ import annotations

import numpy as np

from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores

IN_A_ROW = 3


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
        """Look at one shard."""
        values = np.zeros(len(corpus))
        values[[image for image, _, _ in repeated_words(corpus, in_a_row)]] = 1.0
        return cls({"repetition": values})


def repeated_words(corpus: Corpus, in_a_row: int = IN_A_ROW) -> list[tuple[int, str, int]]:
    """Every run: number of the image, word, times in a row."""
    n = len(corpus)
    sentences = corpus.sentences
    words = sentences.words[: sentences.offsets[n]]
    image = np.repeat(np.arange(n), sentences.lengths[:n])
    breaks = np.flatnonzero((words[1:] != words[:-1]) | (image[1:] != image[:-1])) + 1
    starts = np.concatenate([[0], breaks]) if len(words) else breaks
    lengths = np.diff(starts, append=len(words))
    long = np.flatnonzero(lengths >= in_a_row)
    return [(int(image[starts[run]]), sentences.vocabulary[words[starts[run]]], int(lengths[run])) for run in long]
