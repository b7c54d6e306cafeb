"""ROUGE-L as the COCO toolkit computes it: beta 1.2, best precision and best recall over references apart."""

from __future__ import annotations

import numpy as np

from captrial.metrics.corpus import Corpus
from captrial.metrics.lcs import lcs_lengths
from captrial.metrics.scores import Candidates, MeanState, References, Scores

BETA = 1.2


def rouge_l(candidates: Candidates | Corpus, references: References | None = None) -> Scores:
    """ROUGE-L: F of the longest common subsequence.

    >>> from captrial.metrics.corpus import Corpus
    >>> round(rouge_l(Corpus(["1"], ["a dog runs"], [["a dog runs fast"]])).corpus, 6)
    0.835616
    """
    return RougeState.of(Corpus.prepare(candidates, references)).scores()


class RougeState(MeanState):
    """The mean of image scores."""

    @classmethod
    def of(cls, corpus: Corpus) -> RougeState:
        """Score one shard."""
        n = len(corpus)
        if not n:
            return cls({"rouge_l": np.zeros(0)})
        sentences = corpus.sentences_at_blanks
        pairs = np.arange(n, len(corpus.texts))
        said = corpus.image_of[pairs]
        common = lcs_lengths(sentences, said, pairs)
        starts = np.cumsum(corpus.reference_counts) - corpus.reference_counts
        precision = np.maximum.reduceat(common / sentences.lengths[said], starts)
        recall = np.maximum.reduceat(common / sentences.lengths[pairs], starts)
        below = recall + BETA**2 * precision
        return cls({"rouge_l": (1 + BETA**2) * precision * recall / np.where(below > 0, below, 1.0)})
