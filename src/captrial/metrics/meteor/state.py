"""METEOR as a metric among the others: a function of captions, and a state that merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.errors import MismatchError
from captrial.metrics.corpus import Corpus
from captrial.metrics.meteor.resources import MeteorResources
from captrial.metrics.meteor.score import additive, meteor_corpus, meteor_scores
from captrial.metrics.meteor.stats import meteor_stats
from captrial.metrics.scores import Candidates, References, Scores

_REDUCED = "meteor_exact_stem matches exact words and stems only; METEOR's data files: pip install 'captrial[meteor]'"


def meteor(
    candidates: Candidates | Corpus, references: References | None = None, resources: MeteorResources | None = None
) -> Scores:
    """METEOR 1.5; called `meteor_exact_stem`, and another metric, where its data files are not to be found."""
    return MeteorState.of(Corpus.prepare(candidates, references), resources).scores()


@dataclass(frozen=True)
class MeteorState:
    """The statistics of each image's best reference, (n, 23)."""

    name: str
    stats: NDArray[np.int64]

    @classmethod
    def of(cls, corpus: Corpus, resources: MeteorResources | None = None) -> MeteorState:
        """Align one shard."""
        resources = resources or MeteorResources.find()
        return cls(resources.name, meteor_stats(corpus.candidates, corpus.references, resources=resources))

    @classmethod
    def merge(cls, states: Sequence[MeteorState]) -> MeteorState:
        """The images of all shards, in order."""
        names = sorted({state.name for state in states})
        if len(names) != 1:
            raise MismatchError(f"shards of {' and '.join(names)} cannot be merged; score all with the same data files")
        return cls(names[0], np.concatenate([state.stats for state in states]))

    def scores(self) -> Scores:
        """METEOR of the summed statistics, and of each image's own."""
        notes = () if self.name == "meteor" else (_REDUCED,)
        return Scores(self.name, meteor_corpus(self.stats), meteor_scores(self.stats), notes=notes)

    def statistics(self) -> NDArray[np.float64]:
        """(n, 23): the statistics that add up; a segment matched as a whole adds no chunk."""
        return additive(self.stats).astype(np.float64)

    def corpus_scores(self, totals: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The formula applied to sums of statistics."""
        return {self.name: meteor_scores(totals)}
