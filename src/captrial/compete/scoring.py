"""p_ij: the metric of model i on the labelled pictures of D_ij, for every pair, as `Evidence`.

Document frequencies (CIDEr) are those of the references of D_ij, so that adding a model changes no earlier number;
`frequencies="all"` takes them from all labelled pictures, a table from anywhere. Metrics without document frequencies
are computed once a model and picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from captrial.compete.evidence import Evidence, PairEvidence
from captrial.errors import InputError
from captrial.metrics import Corpus, State
from captrial.metrics.cider import cider_per_image
from captrial.metrics.df import DocumentFrequencies
from captrial.metrics.panel import CiderPanel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Frequencies = str | DocumentFrequencies  # "pair", "all", or a table

CIDER = {"cider": True, "cider_plain": False}  # name -> whether damped
# name -> where its state is
STATES = {
    **dict.fromkeys(["bleu_1", "bleu_2", "bleu_3", "bleu_4"], ("captrial.metrics.bleu", "BleuState")),
    "rouge_l": ("captrial.metrics.rouge", "RougeState"),
    "spice": ("captrial.metrics.spice", "SpiceState"),
    "nw": ("captrial.metrics.nw", "NwState"),
    "coverage": ("captrial.metrics.coverage", "CoverageState"),
    "noun_iou": ("captrial.metrics.noun_iou", "NounIouState"),
}
SIGNED = {"nw"}  # metrics that can be negative: mapped to [0, 1] by (1 + value) / 2


def metric_names() -> list[str]:
    """Metrics that a competition can be ranked by."""
    return [*CIDER, *STATES]


@dataclass(frozen=True)
class Contest:
    """One pair of models and its pictures, in the order of selection."""

    models: tuple[int, int]
    images: tuple[str, ...]


class Jury:
    """Scores what models said about labelled pictures; tokenises every sentence once and keeps what it computed."""

    def __init__(
        self,
        models: Sequence[str],
        contests: Sequence[Contest],
        captions: Mapping[str, Sequence[str]],
        references: Mapping[str, Sequence[str]],
        tokenize: Callable[[Sequence[str]], list[str]] | None = None,
    ) -> None:
        """`captions[picture][model]` and `references[picture]` are texts; pictures without references are left out."""
        self.models, self.contests = tuple(models), tuple(contests)
        wanted = {picture for contest in contests for picture in contest.images}
        self.images = tuple(sorted(picture for picture in wanted if references.get(picture)))
        self._index = {picture: index for index, picture in enumerate(self.images)}
        said = [list(captions[picture]) for picture in self.images]
        heard = [list(references[picture]) for picture in self.images]
        tokenize = tokenize or import_module("captrial.language").tokenize_all
        tokens = iter(tokenize([text for texts in (*said, *heard) for text in texts]))
        ready = [[next(tokens) for _ in texts] for texts in (*said, *heard)]
        self._heard = ready[len(said) :]  # [picture][reference]
        self._said = [[texts[model] for texts in ready[: len(said)]] for model in range(len(models))]
        self._panels: dict[bool, CiderPanel] = {}
        self._states: dict[tuple[str, int], tuple[Ints, State]] = {}

    def evidence(self, metric: str = "cider", k: int | None = None, frequencies: Frequencies = "pair") -> Evidence:
        """What the labels say under one metric; with `k`, the first k pictures of every pair only."""
        rows = [
            np.array([self._index[picture] for picture in contest.images[:k] if picture in self._index], np.int64)
            for contest in self.contests
        ]
        if metric in CIDER:
            score = self._cider(metric, frequencies)
            value: Callable[[Floats], Floats] = _mean
        elif metric in STATES:
            score = partial(self._of_state, metric)
            value = self._value(metric)
        else:
            raise InputError(f"no metric {metric!r} for a competition; choose from {', '.join(metric_names())}")
        pairs = []
        for contest, chosen in zip(self.contests, rows, strict=True):
            parts = [score(model, chosen) for model in contest.models]
            statistics = np.stack([part[0] for part in parts], axis=1)
            per_image = np.stack([part[1] for part in parts], axis=1)
            wanted = len(contest.images[:k])
            pairs.append(PairEvidence(contest.models, chosen, statistics, per_image, wanted))
        return Evidence(metric, self.models, self.images, tuple(pairs), value)

    def corpus(self, model: int, images: Ints) -> Corpus:
        """One model's captions of some pictures (by number) with their references, tokenised."""
        return Corpus(
            [self.images[image] for image in images],
            [self._said[model][image] for image in images],
            [self._heard[image] for image in images],
        )

    def own_images(self, model: int) -> Ints:
        """Numbers of the labelled pictures of all D_ij in which this model takes part."""
        pictures = {picture for contest in self.contests if model in contest.models for picture in contest.images}
        return np.array([self._index[picture] for picture in sorted(pictures) if picture in self._index], np.int64)

    def scores_on_own(self, metric: str, model: int) -> float:
        """A model's score on D (002 Fig. 6): over all pictures of its own D_ij, frequencies of these pictures."""
        images = self.own_images(model)
        if metric in CIDER:
            values = self._panel(CIDER[metric]).scores(model, images)
            return float(values.mean()) if len(values) else float("nan")
        _, state = self._state(metric, model)
        return float(state.corpus_scores(state.statistics().sum(axis=0))[metric])

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
        scores = state.scores()
        per_image = (scores if scores.name == metric else scores.parts[metric]).per_image
        values = (1 + per_image) / 2 if metric in SIGNED else per_image
        return state.statistics()[rows], values[rows]

    def _state(self, metric: str, model: int) -> tuple[Ints, State]:
        module, name = STATES[metric]
        if (name, model) not in self._states:
            own = self.own_images(model)
            self._states[name, model] = own, getattr(import_module(module), name).of(self.corpus(model, own))
        return self._states[name, model]

    def _value(self, metric: str) -> Callable[[Floats], Floats]:
        _, state = self._state(metric, 0)

        def value(totals: Floats) -> Floats:
            found = state.corpus_scores(totals)[metric]
            return np.asarray((1 + found) / 2 if metric in SIGNED else found)

        return value


def _as_mean(values: Floats) -> tuple[Floats, Floats]:
    """Statistics (n, 2) of a metric that is the mean of its image scores, and these scores."""
    return np.stack([values, np.ones(len(values))], axis=1), values


def _mean(totals: Floats) -> Floats:
    counts = totals[..., 1]
    return np.asarray(np.where(counts > 0, totals[..., 0] / np.where(counts > 0, counts, 1.0), np.nan))
