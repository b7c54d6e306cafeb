"""Noun IoU: a soft intersection over union of the sets of nouns of caption and reference (show-control-and-tell).

I = best assignment with profit (sim + 1) / 2, IoU = I / (m + n - I); 1 where the reference has no noun, otherwise 0
where the caption has none. Several references: their mean. This is not `coverage`.
"""

from __future__ import annotations

import numpy as np

from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram_counts import TokenArrays
from captrial.metrics.nouns.coverage import assigned, set_similarities
from captrial.metrics.nouns.word_similarity import WordSimilarity, default_similarity, similarity_note
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
        similarity = similarity or default_similarity()
        sets = TokenArrays.of_words([list(dict.fromkeys(nouns)) for nouns in corpus.noun_lists])
        pairs = np.arange(n, len(sets))
        image = corpus.image_of[pairs]
        common = np.array([assigned((match + 1) / 2) for match in set_similarities(sets, image, pairs, similarity)])
        union = sets.lengths[image] + sets.lengths[pairs] - common
        values = np.where(sets.lengths[pairs] == 0, 1.0, common / np.where(union > 0, union, 1.0))
        return cls(
            {"noun_iou": np.bincount(image, values, minlength=n) / corpus.reference_counts}, similarity_note(similarity)
        )
