"""CHAIR: objects that a caption mentions and the image does not have.

CHAIRi = hallucinated mentions / mentions of objects; CHAIRs = captions with a hallucinated object / captions. An object
is there if it is in the given list or, as in the original, if a reference mentions it (`references_count`). The words
that mention a class are in `language/classes.txt`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from captrial.metrics.corpus import Corpus
from captrial.metrics.nouns.coverage import Objects
from captrial.metrics.scores import Candidates, References, Scores

Classes = Callable[[Sequence[str]], list[list[str]]]  # texts -> the classes each mentions, one for each mention


def chair(
    candidates: Candidates | Corpus,
    references: References | None = None,
    *,
    objects: Objects,
    classes: Classes | None = None,
    references_count: bool = True,
) -> Scores:
    """CHAIRi, with CHAIRs as a part; lower is better. `objects` are the classes in each image, by id."""
    corpus = Corpus.prepare(candidates, references)
    return ChairState.of(corpus, objects=objects, classes=classes, references_count=references_count).scores()


def mentioned_classes(objects: Objects) -> Classes:
    """Finds COCO's 80 classes in texts, or the classes of `objects` where these are not all COCO's."""
    from captrial.language.class_words import COCO_CLASSES, mentioned

    given = {name for names in objects.values() for name in names}
    return partial(mentioned, classes=COCO_CLASSES if given <= set(COCO_CLASSES) else sorted(given))


@dataclass(frozen=True)
class ChairState:
    """(n, 2): mentions of objects, and hallucinated ones."""

    mentions: NDArray[np.float64]

    @classmethod
    def of(
        cls, corpus: Corpus, *, objects: Objects, classes: Classes | None = None, references_count: bool = True
    ) -> Self:
        """Count one shard."""
        n = len(corpus)
        mentioned = (classes or mentioned_classes(objects))(corpus.texts)
        ends = np.cumsum([n, *corpus.reference_counts])
        rows = np.zeros((n, 2))
        for image, (start, stop) in enumerate(pairwise(ends)):
            present = set(objects.get(corpus.ids[image], ()))
            if references_count:
                present.update(name for row in mentioned[start:stop] for name in row)
            names = mentioned[image]
            rows[image] = len(names), sum(name not in present for name in names)
        return cls(rows)

    @classmethod
    def merge(cls, states: Sequence[Self]) -> Self:
        """All shards, in order."""
        return cls(np.concatenate([state.mentions for state in states]))

    def scores(self) -> Scores:
        """Shares of the corpus, and of each image (CHAIRi is NaN where no object is mentioned)."""
        corpus, images = self.corpus_scores(self.statistics().sum(axis=0)), self.corpus_scores(self.statistics())
        parts = {name: Scores(name, float(corpus[name]), images[name]) for name in ("chair_i", "chair_s")}
        return Scores("chair_i", parts["chair_i"].corpus, parts["chair_i"].per_image, parts)

    def statistics(self) -> NDArray[np.float64]:
        """(n, 4): mentions, hallucinated mentions, 1, whether any was hallucinated."""
        ones = np.ones(len(self.mentions))
        return np.column_stack([self.mentions, ones, self.mentions[:, 1] > 0]).astype(np.float64)

    def with_statistics(self, statistics: NDArray[np.float64]) -> ChairState:
        """Mentions of other images from (n, 4)."""
        return ChairState(statistics[:, :2])

    def corpus_scores(self, totals: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """CHAIRi and CHAIRs."""
        mentions, wrong, captions, with_wrong = np.moveaxis(totals, -1, 0)
        shares = [(wrong, mentions), (with_wrong, captions)]
        values = [np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan) for above, below in shares]
        return dict(zip(("chair_i", "chair_s"), values, strict=True))
