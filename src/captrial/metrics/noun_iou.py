"""Noun IoU: a soft intersection over union of the nouns of caption and reference (show-control-and-tell).

I = best assignment with profit (sim + 1) / 2, IoU = I / (m + n - I); 1 where the reference has no noun, otherwise 0
where the caption has none. Several references: their mean. This is not `coverage`.
"""

from __future__ import annotations

import numpy as np

from captrial.metrics.corpus import Corpus
from captrial.metrics.coverage import assigned
from captrial.metrics.nouns import WordSimilarity, default_similarity, pair_similarities, similarity_note
from captrial.metrics.scores import Candidates, MeanState, References, Scores


def noun_iou(
    candidates: Candidates | Corpus, references: References | None = None, similarity: WordSimilarity | None = None
) -> Scores:
    """Noun IoU, in [0, 1]."""
    return NounIouState.of(Corpus.prepare(candidates, references), similarity=similarity).scores()


class NounIouState(MeanState):
    """The mean of image scores."""

    @classmethod
    def of(cls, corpus: Corpus, similarity: WordSimilarity | None = None) -> NounIouState:
        """Score one shard."""
        n = len(corpus)
        pairs = np.arange(n, len(corpus.texts))
        similarity = similarity or default_similarity()
        matches = pair_similarities(corpus.nouns, corpus.image_of[pairs], pairs, similarity)
        common = np.array([assigned((matrix + 1) / 2) for matrix in matches])
        union = matches.rows + matches.columns - common
        values = np.where(matches.columns == 0, 1.0, common / np.where(union > 0, union, 1.0))
        mean = np.bincount(corpus.image_of[pairs], values, minlength=n) / corpus.reference_counts
        return cls({"noun_iou": mean}, similarity_note(similarity))
