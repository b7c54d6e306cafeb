"""The result of a metric, `Scores`, and the mergeable `State` behind it.

A metric is a pure function `metric(candidates, references, **options) -> Scores`, or `metric(corpus, **options)`. It is
computed by a small class, its state, so that shards can be scored separately and merged, and so that confidence
intervals and tests between systems are those of the corpus metric itself:

    state = BleuState.of(corpus)                    # one shard
    state = BleuState.merge([state, other])         # images of the first, then of the second
    state.scores()                                  # equal to scoring everything at once
    state.statistics()                              # (n, s) what each image adds
    state.corpus_scores(weights @ state.statistics())  # {"bleu_4": (replicates,), ...}
    state.with_statistics(table)                    # the state whose statistics these are, e.g. gathered from workers

`statistics` are additive: the corpus value is a function of their sum over images, for a mean (value, 1), for BLEU the
n-gram counts and lengths, for METEOR its match counts. A resample of images is then a matrix product. What is not
additive (CIDEr's document frequencies) is held fixed, as is usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

Candidates = Sequence[str] | Mapping[str, str]
References = Sequence[Sequence[str]] | Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Scores:
    """A metric's value for the corpus and for every image, in the order of the corpus.

    `per_image` is (n,) and NaN where the metric has no value for an image (which is then left out of the corpus value
    and counted in a note). `parts` are sub-scores by name (`bleu_1`, `spice_color`). Values are fractions, never x100.
    """

    name: str
    corpus: float
    per_image: NDArray[np.float64]  # (n,)
    parts: Mapping[str, Scores] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def flat(self) -> Iterator[Scores]:
        """The parts in order, then this score itself unless it is one of its parts (`bleu_4` is)."""
        for part in self.parts.values():
            yield from part.flat()
        if self.name not in self.parts:
            yield self


class State(Protocol):
    """What one shard contributes to a metric; see the module's docstring.

    Each metric's class also has a classmethod `of(corpus, **options)`, not declared here since the options differ.
    """

    @classmethod
    def merge(cls, states: Sequence[Self], /) -> Self:
        """The state of the images of all shards, in order."""
        ...

    def scores(self) -> Scores:
        """Scores of all images of the shard."""
        ...

    def statistics(self) -> NDArray[np.float64]:
        """(n, s): additive statistics of each image."""
        ...

    def corpus_scores(self, totals: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """(..., s) weighted sums of `statistics` -> (...) corpus values by name, the parts' names included."""
        ...

    def with_statistics(self, statistics: NDArray[np.float64], /) -> State:
        """The state of the same metric, for other images, whose `statistics` these are."""
        ...


@dataclass(frozen=True)
class MeanState:
    """The state of any metric whose corpus value is the mean of its image scores.

    `values` are (n,) by name; the first name is the metric, the others are its parts; NaN leaves an image out.
    A metric of this kind subclasses it and adds `of`.
    """

    values: Mapping[str, NDArray[np.float64]]
    notes: tuple[str, ...] = ()

    @classmethod
    def merge(cls, states: Sequence[Self]) -> Self:
        """Images of all shards, in order; notes are kept once."""
        names = list(states[0].values)
        values = {name: np.concatenate([state.values[name] for state in states]) for name in names}
        notes = tuple(dict.fromkeys(note for state in states for note in state.notes))
        return cls(values=values, notes=notes)

    def scores(self) -> Scores:
        """Means over the images that have a value (NaN where none has)."""
        corpus = self.corpus_scores(self.statistics().sum(axis=0))
        name, *parts = self.values
        scores = {part: Scores(part, float(corpus[part]), self.values[part]) for part in parts}
        return Scores(name, float(corpus[name]), self.values[name], scores, self.notes + self._left_out(name))

    def statistics(self) -> NDArray[np.float64]:
        """(n, 2 * names): value (0 where left out) and whether it counts."""
        columns = [column for value in self.values.values() for column in (np.nan_to_num(value), ~np.isnan(value))]
        return np.stack(columns, axis=1).astype(np.float64)

    def corpus_scores(self, totals: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Sum / count; NaN where nothing counts."""
        means = {}
        for index, name in enumerate(self.values):
            total, count = totals[..., 2 * index], totals[..., 2 * index + 1]
            means[name] = np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)
        return means

    def with_statistics(self, statistics: NDArray[np.float64]) -> State:
        """Values and gaps from (n, 2 * names); notes stay."""
        columns = zip(self.values, statistics.T[::2], statistics.T[1::2], strict=True)
        return MeanState({name: np.where(counts > 0, value, np.nan) for name, value, counts in columns}, self.notes)

    def _left_out(self, name: str) -> tuple[str, ...]:
        missing = int(np.isnan(self.values[name]).sum())
        return (f"{name}: {missing} of {len(self.values[name])} images have no value and are left out",) * bool(missing)
