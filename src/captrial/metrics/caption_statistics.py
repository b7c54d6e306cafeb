"""What captions look like as a body of text: length, vocabulary, how many are distinct, how many are new."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from captrial.language import tokenize_all
from captrial.metrics.corpus import Corpus
from captrial.metrics.scores import Candidates, MeanState, References, Scores


def statistics(
    candidates: Candidates | Corpus,
    references: References | None = None,
    training: Collection[str] | None = None,
) -> Scores:
    """Words a caption, with the parts `vocabulary`, `distinct` and, given `training` captions, `novelty`.

    `vocabulary` counts distinct words; `distinct` is the share of captions nobody else has; `novelty` the share of
    captions that do not stand, word for word after tokenising, among the training captions.
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

    @property
    def _means(self) -> MeanState:
        lengths = np.array([len(caption.split()) for caption in self.captions], dtype=float)
        return MeanState({"length": lengths} | ({} if self.novel is None else {"novelty": self.novel}))
