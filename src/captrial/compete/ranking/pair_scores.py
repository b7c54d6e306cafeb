"""p_ij, the metric of model i on the labelled images of D_ij, for every pair of models.

`PairScorer` scores the captions of a competition and returns `PairwiseScores`, the common input of ranking, bootstrap,
flip report and planner. A metric is a function of sums over images (see `captrial.metrics.scores.State`), so dropping,
repeating or weighting images is arithmetic on those sums; no caption is scored twice.

CIDEr's document frequencies are those of the references of D_ij, so that adding a model changes no earlier number;
`frequencies="all"` takes them from all labelled images, a `DocumentFrequencies` table from any other corpus. Metrics
without document frequencies are computed once for each model and image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

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
FEWEST_OF_REST = 8  # labels among images that earlier pairs do not hold, for a number of an added model
SIGNED = {"nw"}  # metrics that can be negative: mapped to [0, 1] by (1 + value) / 2


@dataclass(frozen=True)
class PairStatistics:
    """The labelled images of one D_ij in the order of selection, and what each adds to both models' scores."""

    models: tuple[int, int]  # i < j
    images: Ints  # (n,) indices into `PairwiseScores.images`
    statistics: Floats  # (n, 2, s) additive statistics of models i and j
    per_image: Floats  # (n, 2) the metric of the single image; NaN where it is undefined
    wanted: int  # number of images that D_ij should have


@dataclass(frozen=True)
class PairwiseScores:
    """All pairs of a competition under one metric.

    `value` turns sums of statistics (..., s) into the metric (...), already mapped to be non-negative.
    """

    metric: str
    models: tuple[str, ...]
    images: tuple[str, ...]  # labelled images of all pairs, sorted
    pairs: tuple[PairStatistics, ...]
    value: Callable[[Floats], Floats]
    probability: Floats | None = None  # (images,) with which each image was labelled; None: all of them were
    table: str = "those of each D_ij"  # document frequencies

    @classmethod
    def of_scores(
        cls,
        metric: str,
        models: Sequence[str],
        scores: Floats,
        pairs: Mapping[tuple[int, int], Ints],
        labelled: Mapping[int, float] | None = None,
    ) -> PairwiseScores:
        """Of image scores (images, m) that are known already: `pairs` are the rows of each D_ij.

        `labelled` are the rows that have labels, with their probability; None: all of them.
        """
        found = []
        for pair, images in pairs.items():
            rows = (
                images if labelled is None else np.array([row for row in images.tolist() if row in labelled], np.int64)
            )
            both = scores[rows][:, list(pair)]  # (n, 2)
            found.append(PairStatistics(pair, rows, np.stack([both, np.ones_like(both)], axis=2), both, len(images)))
        chance = None if labelled is None else np.array([labelled.get(row, 1.0) for row in range(len(scores))])
        names = tuple(str(row) for row in range(len(scores)))
        return cls(metric, tuple(models), names, tuple(found), _mean, chance)

    @property
    def complete(self) -> bool:
        """Whether every image of every D_ij is labelled."""
        return all(len(pair.images) == pair.wanted for pair in self.pairs)

    @cached_property
    def weights(self) -> Floats:
        """(images,) inverse probabilities: what each labelled image stands for."""
        return np.ones(len(self.images)) if self.probability is None else 1 / self.probability

    def pair_weights(self, pair: PairStatistics, weights: Floats | None = None) -> Floats:
        """(..., n) what each labelled image of one D_ij stands for, from weights (..., images); by default `weights`.

        Where some images of D_ij were certain to be labelled, as those of an added model that are in earlier pairs,
        they stand for themselves and the others for all the rest (post-stratification, Holt and Smith 1979).
        """
        chosen = (self.weights if weights is None else weights)[..., pair.images]
        certain = np.zeros(len(pair.images), np.bool_) if self.probability is None else self._certain[pair.images]
        if not certain.any() or certain.all():
            return np.asarray(chosen)
        total = np.where(certain, 0.0, chosen).sum(axis=-1, keepdims=True)
        scale = (pair.wanted - int(certain.sum())) / np.where(total > 0, total, 1.0)
        return np.where(certain, chosen, scale * chosen)

    @cached_property
    def _certain(self) -> NDArray[np.bool_]:
        return np.zeros(0, np.bool_) if self.probability is None else self.probability >= 1

    def weighted(self) -> PairwiseScores:
        """The same with the weights in the statistics, so that plain sums over images are weighted ones."""
        if self.probability is None:
            return self
        pairs = [
            replace(pair, statistics=self.pair_weights(pair)[:, None, None] * pair.statistics) for pair in self.pairs
        ]
        return replace(self, pairs=tuple(pairs), probability=None)

    def among(self, kept: NDArray[np.bool_]) -> PairwiseScores:
        """The competition among some models (m,) only."""
        if kept.all():
            return self
        place = {int(model): number for number, model in enumerate(np.flatnonzero(kept))}
        pairs = [
            replace(pair, models=(place[pair.models[0]], place[pair.models[1]]))
            for pair in self.pairs
            if all(model in place for model in pair.models)
        ]
        return replace(self, models=tuple(self.models[model] for model in place), pairs=tuple(pairs))

    @cached_property
    def contributions(self) -> Floats:
        """(images, pairs, 2, s): what each image adds to each pair; 0 where it is not in D_ij."""
        width = max((pair.statistics.shape[2] for pair in self.pairs), default=1)
        table = np.zeros((len(self.images), len(self.pairs), 2, width))
        for index, pair in enumerate(self.pairs):
            table[pair.images, index] = pair.statistics
        return table

    @cached_property
    def membership(self) -> NDArray[np.bool_]:
        """(images, pairs): whether the image is in D_ij."""
        table = np.zeros((len(self.images), len(self.pairs)), np.bool_)
        for index, pair in enumerate(self.pairs):
            table[pair.images, index] = True
        return table

    @cached_property
    def labelled(self) -> Ints:
        """(pairs,) how many images of each D_ij have labels."""
        return np.array([len(pair.images) for pair in self.pairs], np.int64)

    def matrix(self, weights: Floats | None = None) -> Floats:
        """P (m, m), or (replicates, m, m) for weights (replicates, images); NaN on the diagonal and without labels."""
        shape = () if weights is None else weights.shape[:1]
        totals, counts = (
            np.empty((*shape, *self.contributions.shape[1:])),
            np.empty((*shape, len(self.pairs)), np.int64),
        )
        for index, pair in enumerate(self.pairs):
            chosen = np.ones(len(pair.images)) if weights is None else self.pair_weights(pair, weights)
            totals[..., index, :, :] = np.tensordot(chosen, pair.statistics, axes=1)
            counts[..., index] = (chosen > 0).sum(axis=-1)
        return self.matrix_of_totals(totals, counts)

    def matrix_of_totals(self, totals: Floats, counts: Ints) -> Floats:
        """P (..., m, m) from sums (..., pairs, 2, s) over `counts` (..., pairs) images."""
        some = counts[..., None] > 0  # (..., pairs, 1); a metric need not be defined for no images
        values = np.where(some, self.value(np.where(some[..., None], totals, 1.0)), np.nan)  # (..., pairs, 2)
        p = np.full((*values.shape[:-2], len(self.models), len(self.models)), np.nan)
        first, second = self._places
        p[..., first, second], p[..., second, first] = values[..., 0], values[..., 1]
        return p

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        places = np.array([pair.models for pair in self.pairs], np.int64).reshape(-1, 2)
        return places[:, 0], places[:, 1]


@dataclass(frozen=True)
class PairImages:
    """One pair of models (indices i < j) and its images, in the order of selection."""

    models: tuple[int, int]
    images: tuple[str, ...]


@dataclass(frozen=True)
class LabelDesign:
    """Which images beyond D have labels, and with what probability each image was to be labelled."""

    sampled: tuple[str, ...] = ()  # images whose labels count although they are in no D_ij
    probability: Mapping[str, float] = field(default_factory=dict)  # of images in D or sampled; not named: 1

    def reaches(self, images: Sequence[str], labelled: Collection[str]) -> bool:
        """Whether the labelled ones of these images tell about all of them.

        Every image must have had a chance to be labelled: otherwise labelled ones are no random part. Where some were
        certain to be labelled, because earlier pairs hold them, `FEWEST_OF_REST` of the others must be labelled, too.
        """
        chance = {image: self.probability.get(image, 1.0) for image in images}
        if not self.probability or all(image in labelled for image in images):
            return True
        if not all(value > 0 for value in chance.values()):
            return False
        rest = [image for image, value in chance.items() if value < 1]
        known = sum(image in labelled for image in rest)
        return len(rest) == len(chance) or known >= min(FEWEST_OF_REST, len(rest))


class PairScorer:
    """Scores the captions of labelled images; every caption is tokenised once and results are cached."""

    def __init__(
        self,
        models: Sequence[str],
        pairs: Sequence[PairImages],
        captions: Mapping[str, Sequence[str]],
        references: Mapping[str, Sequence[str]],
        tokenize: Callable[[Sequence[str]], list[str]] | None = None,
        design: LabelDesign | None = None,
    ) -> None:
        """`captions[image][model]` and `references[image]` are texts; images without references are left out."""
        self.models, self.pairs, self.design = tuple(models), tuple(pairs), design or LabelDesign()
        self.options = MetricOptions()  # what metrics need beside captions and references
        wanted = {image for pair in pairs for image in pair.images} | set(self.design.sampled)
        self.images = tuple(sorted(image for image in wanted if references.get(image)))
        self._index = {image: index for index, image in enumerate(self.images)}
        texts = [*(list(captions[image]) for image in self.images), *(list(references[image]) for image in self.images)]
        tokens = iter((tokenize or tokenize_all)([text for group in texts for text in group]))
        tokenized = [[next(tokens) for _ in group] for group in texts]
        count = len(self.images)
        self._captions = [[group[model] for group in tokenized[:count]] for model in range(len(models))]
        self._references = tokenized[count:]  # [image][reference]
        self._panels: dict[bool, CiderPanel] = {}
        self._states: dict[tuple[str, int], tuple[Ints, State]] = {}

    def score(
        self,
        metric: str = "cider",
        k: int | None = None,
        frequencies: Frequencies = "pair",
        only: Collection[str] | None = None,
    ) -> PairwiseScores:
        """Score all pairs by one metric.

        With `k`, the first k images of every pair only; with `only`, as if no other images were labelled. A pair with
        images that had no chance to be labelled yet counts as not labelled (see `LabelDesign`).
        """
        known = self._index if only is None else {image: self._index[image] for image in only if image in self._index}
        rows = [
            np.array([known[image] for image in pair.images[:k] if image in known], np.int64)
            if self.design.reaches(pair.images[:k], known)
            else np.zeros(0, np.int64)
            for pair in self.pairs
        ]
        if metric in CIDER:
            score = self._cider(metric, frequencies)
            value: Callable[[Floats], Floats] = _mean
        else:
            score = partial(self._of_state, metric)
            value = self._value(metric)
        pairs = []
        for pair, images in zip(self.pairs, rows, strict=True):
            parts = [score(model, images) for model in pair.models]
            statistics = np.stack([part[0] for part in parts], axis=1)
            per_image = np.stack([part[1] for part in parts], axis=1)
            pairs.append(PairStatistics(pair.models, images, statistics, per_image, len(pair.images[:k])))
        table = self.table_name(metric, frequencies)
        return PairwiseScores(metric, self.models, self.images, tuple(pairs), value, self._probability(), table)

    @property
    def frequencies(self) -> str:
        """The default document frequencies: of each D_ij, or one table while one that has a number lacks labels."""
        both = zip(self.pairs, self.unlabelled, strict=True)
        partly = any(missing and self.design.reaches(pair.images, self._index) for pair, missing in both)
        return "all" if partly else "pair"

    def table_name(self, metric: str, frequencies: Frequencies) -> str:
        """What the output calls the document frequencies."""
        if metric not in CIDER:
            return "none"
        if isinstance(frequencies, DocumentFrequencies):
            return f"a table of {frequencies.images} images"
        return "those of each D_ij" if frequencies == "pair" else f"those of all {len(self.images)} labelled images"

    def image_scores(self, metric: str = "cider", frequencies: Frequencies = "all") -> Floats:
        """(images, m): every model's score of every labelled image, in D or not; NaN where it is undefined."""
        everything = np.arange(len(self.images))
        if metric in CIDER:
            score = self._cider(metric, "all" if frequencies == "pair" else frequencies)
            return np.stack([score(model, everything)[1] for model in range(len(self.models))], axis=1)
        entry = self._entry(metric)
        states = [entry.state(self.corpus(model, everything), self.options) for model in range(len(self.models))]
        return np.stack([_per_image(state, entry) for state in states], axis=1)

    def _probability(self) -> Floats | None:
        if not self.design.probability:
            return None
        return np.array([self.design.probability.get(image, 1.0) for image in self.images])

    def corpus(self, model: int, images: Ints) -> Corpus:
        """One model's captions of some images (by index) with their references, tokenised."""
        return Corpus(
            [self.images[image] for image in images],
            [self._captions[model][image] for image in images],
            [self._references[image] for image in images],
        )

    def own_images(self, model: int) -> Ints:
        """Indices of the labelled images of all D_ij of this model."""
        images = {image for pair in self.pairs if model in pair.models for image in pair.images}
        return np.array([self._index[image] for image in sorted(images) if image in self._index], np.int64)

    def words(self, model: int) -> float:
        """Mean number of words of a model's captions of labelled images."""
        return float(np.mean([len(text.split()) for text in self._captions[model]] or [0]))

    @property
    def unlabelled(self) -> list[list[str]]:
        """Of every pair, the images that have no label yet."""
        return [[image for image in pair.images if image not in self._index] for pair in self.pairs]

    @property
    def references(self) -> list[list[str]]:
        """Reference captions of `images`, as tokens joined by blanks."""
        return self._references

    def human_scores(self, metric: str) -> Floats:
        """Scores of human captions: the first reference of each image against its others, where there are several."""
        several = [texts for texts in self._references if len(texts) > 1]
        first, others = [texts[0] for texts in several], [texts[1:] for texts in several]
        if not several:
            return np.zeros(0)
        if metric in CIDER:
            return CiderPanel([first], others, CIDER[metric]).scores(0, np.arange(len(several)))
        corpus = Corpus([str(index) for index in range(len(several))], first, others)
        entry = self._entry(metric)
        return _per_image(entry.state(corpus, self.options), entry)

    def score_on_own_images(self, metric: str, model: int) -> float:
        """A model's score on D (Wan 2022 Fig. 6): over all images of its own D_ij, frequencies of these images."""
        images = self.own_images(model)
        if metric in CIDER:
            values = self.cider_panel(CIDER[metric]).scores(model, images)
            return float(values.mean()) if len(values) else float("nan")
        _, state = self._state(metric, model)
        return float(_column(state.corpus_scores(state.statistics().sum(axis=0)), self._entry(metric)))

    def cider_panel(self, damped: bool) -> CiderPanel:
        """CIDEr of all models on any subset of `images`; `damped` is CIDEr-D."""
        if damped not in self._panels:
            self._panels[damped] = CiderPanel(self._captions, self._references, damped)
        return self._panels[damped]

    def _cider(self, metric: str, frequencies: Frequencies) -> Callable[[int, Ints], tuple[Floats, Floats]]:
        if frequencies == "pair":
            panel = self.cider_panel(CIDER[metric])
            return lambda model, images: _as_mean(panel.scores(model, images))
        everything = np.arange(len(self.images))
        if frequencies == "all":
            panel = self.cider_panel(CIDER[metric])
            tables = [panel.scores(model, everything) for model in range(len(self.models))]
        elif isinstance(frequencies, DocumentFrequencies):
            corpora = [self.corpus(model, everything) for model in range(len(self.models))]
            tables = [cider_per_image(corpus, frequencies, CIDER[metric]) for corpus in corpora]
        else:
            raise InputError(f"document frequencies come from 'pair', 'all' or a table, not {frequencies!r}")
        return lambda model, images: _as_mean(tables[model][images])

    def _of_state(self, metric: str, model: int, images: Ints) -> tuple[Floats, Floats]:
        own, state = self._state(metric, model)
        rows = np.searchsorted(own, images)
        return state.statistics()[rows], _per_image(state, self._entry(metric))[rows]

    def _state(self, metric: str, model: int) -> tuple[Ints, State]:
        entry = self._entry(metric)
        if (entry.name, model) not in self._states:
            own = self.own_images(model)
            self._states[entry.name, model] = own, entry.state(self.corpus(model, own), self.options)
        return self._states[entry.name, model]

    def _entry(self, metric: str) -> Metric:
        """The metric's entry in the registry; it must say which value is better, and be available here."""
        try:
            entry = choose_metrics([metric], self.options)[0]
        except InputError as error:
            if "--images" not in str(error):
                raise
            raise InputError(f"{error}; a competition has those of `captrial compete new --images`") from None
        if entry.better is None:
            raise InputError(f"{metric} describes captions but does not judge them; rank by another metric")
        return entry

    def _value(self, metric: str) -> Callable[[Floats], Floats]:
        _, state = self._state(metric, 0)
        entry = self._entry(metric)
        return lambda totals: _positive(_column(state.corpus_scores(totals), entry), entry)


def _column(values: Mapping[str, T], entry: Metric) -> T:
    """The column used for ranking: the last of BLEU, whichever of METEOR's could be computed."""
    return [values[name] for name in entry.columns if name in values][-1]


def _positive(values: Floats, entry: Metric) -> Floats:
    """Map scores so that none is negative and more is better, as ratios require."""
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
