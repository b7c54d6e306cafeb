"""p_ij: the metric of model i on the labelled images of D_ij, for every pair, as `Evidence`.

Document frequencies (CIDEr) are those of the references of D_ij, so that adding a model changes no earlier number;
`frequencies="all"` takes them from all labelled images, a table from anywhere. Metrics without document frequencies
are computed once a model and image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.evidence import Evidence, PairEvidence
from captrial.errors import InputError
from captrial.language import tokenize_all
from captrial.metrics import Corpus, State
from captrial.metrics.ngram.cider import cider_per_image
from captrial.metrics.ngram.cider_subsets import CiderPanel
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.registry import Metric, MetricOptions, choose_metrics

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Frequencies = str | DocumentFrequencies  # "pair", "all", or a table
T = TypeVar("T")

CIDER = {"cider": True, "cider_plain": False}  # name -> whether damped
SIGNED = {"nw"}  # metrics that can be negative: mapped to [0, 1] by (1 + value) / 2


@dataclass(frozen=True)
class Contest:
    """One pair of models and its images, in the order of selection."""

    models: tuple[int, int]
    images: tuple[str, ...]


class Jury:
    """Scores what models said about labelled images; tokenises every sentence once and keeps what it computed."""

    def __init__(
        self,
        models: Sequence[str],
        contests: Sequence[Contest],
        captions: Mapping[str, Sequence[str]],
        references: Mapping[str, Sequence[str]],
        tokenize: Callable[[Sequence[str]], list[str]] | None = None,
    ) -> None:
        """`captions[image][model]` and `references[image]` are texts; images without references are left out."""
        self.models, self.contests = tuple(models), tuple(contests)
        wanted = {image for contest in contests for image in contest.images}
        self.images = tuple(sorted(image for image in wanted if references.get(image)))
        self._index = {image: index for index, image in enumerate(self.images)}
        said = [list(captions[image]) for image in self.images]
        heard = [list(references[image]) for image in self.images]
        tokens = iter((tokenize or tokenize_all)([text for texts in (*said, *heard) for text in texts]))
        ready = [[next(tokens) for _ in texts] for texts in (*said, *heard)]
        self._heard = ready[len(said) :]  # [image][reference]
        self._said = [[texts[model] for texts in ready[: len(said)]] for model in range(len(models))]
        self._panels: dict[bool, CiderPanel] = {}
        self._states: dict[tuple[str, int], tuple[Ints, State]] = {}

    def evidence(
        self,
        metric: str = "cider",
        k: int | None = None,
        frequencies: Frequencies = "pair",
        only: Collection[str] | None = None,
    ) -> Evidence:
        """What the labels say under one metric.

        With `k`, the first k images of every pair only; with `only`, as if no other images were labelled.
        """
        known = self._index if only is None else {p: self._index[p] for p in only if p in self._index}
        rows = [
            np.array([known[image] for image in contest.images[:k] if image in known], np.int64)
            for contest in self.contests
        ]
        if metric in CIDER:
            score = self._cider(metric, frequencies)
            value: Callable[[Floats], Floats] = _mean
        else:
            score = partial(self._of_state, metric)
            value = self._value(metric)
        pairs = []
        for contest, images in zip(self.contests, rows, strict=True):
            parts = [score(model, images) for model in contest.models]
            statistics = np.stack([part[0] for part in parts], axis=1)
            per_image = np.stack([part[1] for part in parts], axis=1)
            wanted = len(contest.images[:k])
            pairs.append(PairEvidence(contest.models, images, statistics, per_image, wanted))
        return Evidence(metric, self.models, self.images, tuple(pairs), value)

    def corpus(self, model: int, images: Ints) -> Corpus:
        """One model's captions of some images (by number) with their references, tokenised."""
        return Corpus(
            [self.images[image] for image in images],
            [self._said[model][image] for image in images],
            [self._heard[image] for image in images],
        )

    def own_images(self, model: int) -> Ints:
        """Numbers of the labelled images of all D_ij in which this model takes part."""
        images = {image for contest in self.contests if model in contest.models for image in contest.images}
        return np.array([self._index[image] for image in sorted(images) if image in self._index], np.int64)

    @property
    def waiting(self) -> list[list[str]]:
        """Of every contest, the images that have no label yet."""
        return [[image for image in contest.images if image not in self._index] for contest in self.contests]

    @property
    def references(self) -> list[list[str]]:
        """Reference captions of `images`, as tokens joined by blanks."""
        return self._heard

    def people(self, metric: str) -> Floats:
        """How a person scores: the first reference of each image against its others, where there are several."""
        several = [texts for texts in self._heard if len(texts) > 1]
        first, others = [texts[0] for texts in several], [texts[1:] for texts in several]
        if not several:
            return np.zeros(0)
        if metric in CIDER:
            return CiderPanel([first], others, CIDER[metric]).scores(0, np.arange(len(several)))
        corpus = Corpus([str(index) for index in range(len(several))], first, others)
        entry = _entry(metric)
        return _per_image(entry.state(corpus, MetricOptions()), entry)

    def scores_on_own(self, metric: str, model: int) -> float:
        """A model's score on D (Wan 2022 Fig. 6): over all images of its own D_ij, frequencies of these images."""
        images = self.own_images(model)
        if metric in CIDER:
            values = self._panel(CIDER[metric]).scores(model, images)
            return float(values.mean()) if len(values) else float("nan")
        _, state = self._state(metric, model)
        return float(_column(state.corpus_scores(state.statistics().sum(axis=0)), _entry(metric)))

    def _cider(self, metric: str, frequencies: Frequencies) -> Callable[[int, Ints], tuple[Floats, Floats]]:
        if frequencies == "pair":
            panel = self._panel(CIDER[metric])
            return lambda model, images: _as_mean(panel.scores(model, images))
        everything = np.arange(len(self.images))
        if frequencies == "all":
            panel = self._panel(CIDER[metric])
            tables = [panel.scores(model, everything) for model in range(len(self.models))]
        elif isinstance(frequencies, DocumentFrequencies):
            corpora = [self.corpus(model, everything) for model in range(len(self.models))]
            tables = [cider_per_image(corpus, frequencies, CIDER[metric]) for corpus in corpora]
        else:
            raise InputError(f"document frequencies come from 'pair', 'all' or a table, not {frequencies!r}")
        return lambda model, images: _as_mean(tables[model][images])

    def _panel(self, damped: bool) -> CiderPanel:
        if damped not in self._panels:
            self._panels[damped] = CiderPanel(self._said, self._heard, damped)
        return self._panels[damped]

    def _of_state(self, metric: str, model: int, images: Ints) -> tuple[Floats, Floats]:
        own, state = self._state(metric, model)
        rows = np.searchsorted(own, images)
        return state.statistics()[rows], _per_image(state, _entry(metric))[rows]

    def _state(self, metric: str, model: int) -> tuple[Ints, State]:
        entry = _entry(metric)
        if (entry.name, model) not in self._states:
            own = self.own_images(model)
            self._states[entry.name, model] = own, entry.state(self.corpus(model, own), MetricOptions())
        return self._states[entry.name, model]

    def _value(self, metric: str) -> Callable[[Floats], Floats]:
        _, state = self._state(metric, 0)
        entry = _entry(metric)
        return lambda totals: _positive(_column(state.corpus_scores(totals), entry), entry)


def _entry(metric: str) -> Metric:
    """The metric's entry in the registry; it must judge, and be available here."""
    entry = choose_metrics([metric], MetricOptions())[0]
    if entry.better is None:
        raise InputError(f"{metric} describes captions but does not judge them; rank by another metric")
    return entry


def _column(values: Mapping[str, T], entry: Metric) -> T:
    """The column that stands for the metric: of BLEU the last, of METEOR whichever could be computed."""
    return [values[name] for name in entry.columns if name in values][-1]


def _positive(values: Floats, entry: Metric) -> Floats:
    """Mapped so that no score is negative and more is better: ratios need that."""
    mapped = (1 + values) / 2 if entry.name in SIGNED else values
    return np.asarray(mapped if entry.better == "higher" else 1 - mapped)


def _per_image(state: State, entry: Metric) -> Floats:
    scores = {part.name: part.per_image for part in state.scores().flat()}
    return _positive(_column(scores, entry), entry)


def _as_mean(values: Floats) -> tuple[Floats, Floats]:
    """Statistics (n, 2) of a metric that is the mean of its image scores, and these scores."""
    return np.stack([values, np.ones(len(values))], axis=1), values


def _mean(totals: Floats) -> Floats:
    counts = totals[..., 1]
    return np.asarray(np.where(counts > 0, totals[..., 0] / np.where(counts > 0, counts, 1.0), np.nan))
