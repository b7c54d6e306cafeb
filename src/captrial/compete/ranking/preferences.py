"""A ranking by preferences: judgements of which of two models' captions of an image is better.

`rank_preferences` fits Davidson's model (`bradley_terry`) and gives every model a score, the share of comparisons it
would win against one of the other models at random (ties count half), with intervals for scores, pairs and ranks.
Images are the unit of uncertainty: judgements of one image may depend on each other in any way.

`control` adds covariates, so that scores hold for captions of equal length (`length`) or for either place on the
screen (`position`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from captrial.compete.ranking.bradley_terry import Comparisons, DavidsonFit, fit_davidson
from captrial.compete.storage.judgements import Judgement, models_of, read_judgements, read_words, with_words
from captrial.errors import InputError, StateError
from captrial.result_table import ResultTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PREFERENCES = "preferences"  # where a metric is named: rank by judgements
FEWEST_IMAGES = 5  # of a model, below which no interval is given (see docs/preferences.md)
DRAWS = 4000  # of the strengths, for ranks
_TWICE = 1 / 3  # the length covariate of a caption that is twice as long as the other
_EQUAL = 1e-9  # difference of scores below which two models are tied


@dataclass(frozen=True)
class Control:
    """A covariate that rankings can control for."""

    title: str  # "scores are those of ..."
    values: Callable[[Sequence[Judgement]], Floats]  # (n,) positive where it favours the first
    unit: float  # the value whose effect is reported
    described: str  # that value in words
    missing: str  # why it cannot be told from the strengths, and what to do


def _length(judgements: Sequence[Judgement]) -> Floats:
    """(a - b) / (a + b) of the two lengths in words: 0 for equal ones, 1/3 for twice as long."""
    unknown = sum(judgement.words is None for judgement in judgements)
    if unknown:
        raise InputError(
            f"{unknown} of {len(judgements)} judgements have no lengths; give columns words_a and words_b, a table by "
            "--lengths FILE (image, model, words), or the competition's directory, whose captions are counted"
        )
    words = np.array([judgement.words for judgement in judgements], np.float64).reshape(-1, 2)
    return np.asarray((words[:, 0] - words[:, 1]) / np.maximum(words.sum(axis=1), 1.0))


def _position(judgements: Sequence[Judgement]) -> Floats:
    return np.ones(len(judgements))


CONTROLS = {
    "length": Control(
        "captions of equal length",
        _length,
        _TWICE,
        "twice as long",
        "lengths follow from which models are compared; judge captions whose lengths vary, or leave it out",
    ),
    "position": Control(
        "captions shown in either place",
        _position,
        1.0,
        "shown first",
        "every pair of models was shown in one order only (model_a first); judge in both orders, or leave it out",
    ),
}


@dataclass(frozen=True)
class PreferenceSettings:
    """What to control for (names of CONTROLS), and the level of the intervals."""

    control: tuple[str, ...] = ()
    level: float = 0.95
    seed: int = 0
    fewest: int = FEWEST_IMAGES  # images of a model below which no interval is given


@dataclass(frozen=True)
class ControlEffect:
    """By which factor a covariate multiplies the odds of winning, e.g. for a caption that is twice as long."""

    control: str
    described: str
    odds: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class WinRate:
    """The share of comparisons that the first of two models wins, ties half, with bounds (NaN without an interval)."""

    models: tuple[str, str]
    images: int  # that compare the two
    win_rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairRecord(WinRate):
    """Beside the fitted win rate: the verdicts counted, and the share observed (NaN where the two never met)."""

    judgements: int
    wins: int
    ties: int
    losses: int
    observed: float


@dataclass(frozen=True, repr=False)
class PreferenceResult(ResultTable):
    """The ranking by preferences; NaN bounds where a model has too few images for an interval."""

    models: tuple[str, ...]
    images: tuple[str, ...]  # in the order of the numbers in `comparisons.cluster`
    comparisons: Comparisons
    fit: DavidsonFit
    settings: PreferenceSettings
    left_out: int = 0  # judgements of a model against itself
    repeated: int = 0  # verdicts on one image and pair by nobody in particular

    @property
    def scores(self) -> Floats:
        """(m,) expected share of comparisons won against the other models."""
        return self.fit.scores()

    @property
    def ranks(self) -> Ints:
        """(m,) 1 is the best; models of equal score share a rank."""
        scores = self.scores
        return np.asarray(1 + (scores[None, :] > scores[:, None] + _EQUAL).sum(axis=1))

    @property
    def order(self) -> list[int]:
        """Model indices, best first."""
        return [int(index) for index in np.argsort(self.ranks, kind="stable")]

    @cached_property
    def images_of(self) -> Ints:
        """(m,) images with a judgement about the model."""
        data = self.comparisons
        pairs = {
            (int(i), int(g)) for side in (data.first, data.second) for i, g in zip(side, data.cluster, strict=True)
        }
        return np.bincount([model for model, _ in pairs], minlength=len(self.models))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """(m,) whether the model has enough images for an interval."""
        return np.asarray(self.images_of >= self.settings.fewest)

    def score_intervals(self) -> tuple[Floats, Floats]:
        """Bounds (m,) of the scores; symmetric on the logit scale."""
        gradients = self.fit.win_rate_gradients().sum(axis=1) / max(len(self.models) - 1, 1)
        return self._bounds(self.scores, gradients, self.images_of)

    def pair_intervals(self) -> tuple[Floats, Floats]:
        """Bounds (m, m) of the win rate of i against j; symmetric on the logit scale."""
        size = len(self.models)
        rates, gradients = self.fit.win_rates(), self.fit.win_rate_gradients()
        images = np.minimum(self.images_of[:, None], self.images_of)
        low, high = self._bounds(rates.ravel(), gradients.reshape(size * size, -1), images.ravel())
        both = low.reshape(size, size), high.reshape(size, size)
        for bound in both:
            np.fill_diagonal(bound, np.nan)
        return both

    def _bounds(self, rates: Floats, gradients: Floats, images: Ints) -> tuple[Floats, Floats]:
        slope = gradients / (rates * (1 - rates))[:, None]
        half_width = self.fit.half_widths(slope, (1 - self.settings.level) / 2, np.maximum(images - 1, 1))
        half_width = np.where(images >= self.settings.fewest, half_width, np.nan)
        return np.asarray(expit(logit(rates) - half_width)), np.asarray(expit(logit(rates) + half_width))

    def rank_intervals(self) -> tuple[Ints, Ints]:
        """Ranks (m,) that the data leave possible: behind the models surely better, before those surely worse.

        The level holds for all comparisons of the model together, so for its rank whatever the true differences.
        """
        size = len(self.models)
        low, high = np.ones(size, np.int64), np.full(size, size)
        drawn = self._draws()
        identity = np.eye(size, len(self.fit.covariance))
        for model in np.flatnonzero(self.known):
            rivals = np.delete(np.arange(size), model)
            differences = drawn[:, [model]] - drawn[:, rivals]
            largest = np.abs(differences / differences.std(axis=0)).max(axis=1)
            tail = float(ndtr(-np.quantile(largest, self.settings.level)))  # of one comparison
            freedom = np.maximum(np.minimum(self.images_of[model], self.images_of[rivals]) - 1, 1)
            half_width = self.fit.half_widths(identity[model] - identity[rivals], tail, freedom)
            lead = self.fit.strength[model] - self.fit.strength[rivals]
            low[model] += int((self.known[rivals] & (lead < -half_width)).sum())
            high[model] -= int((self.known[rivals] & (lead > half_width)).sum())
        return low, high

    def first(self) -> Floats:
        """(m,) how probable it is that each model is the best; NaN where some model has no interval."""
        if not self.known.all():
            return np.full(len(self.models), np.nan)
        best = np.argmax(self.fit.strength + self._draws(), axis=1)
        return np.bincount(best, minlength=len(self.models)) / DRAWS

    def _draws(self) -> Floats:
        """(draws, m) errors of the log strengths, normal."""
        values, vectors = np.linalg.eigh(self.fit.joint)
        normal = np.random.default_rng(self.settings.seed).standard_normal((DRAWS, len(self.models)))
        return np.asarray(normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T)

    def effects(self) -> list[ControlEffect]:
        """What the covariates do, with intervals."""
        size, found = len(self.models), []
        for number, name in enumerate(self.settings.control):
            control = CONTROLS[name]
            unit = np.zeros((1, len(self.fit.covariance)))
            unit[0, size + number] = control.unit
            images = np.array([len(self.images)])
            half_width = self.fit.half_widths(unit, (1 - self.settings.level) / 2, np.maximum(images - 1, 1))[0]
            middle = control.unit * self.fit.effects[number]
            half_width = half_width if images[0] >= self.settings.fewest else np.nan
            low, high = np.exp([middle - half_width, middle + half_width])
            found.append(ControlEffect(name, control.described, float(np.exp(middle)), float(low), float(high)))
        return found

    def rows(self) -> list[dict[str, Any]]:
        """The ranking, best first, with intervals; None where there are too few images for one."""
        low, high = self.score_intervals()
        rank_low, rank_high = self.rank_intervals()
        first, places, data = self.first(), self.ranks, self.comparisons
        judged = np.bincount(np.concatenate([data.first, data.second]), minlength=len(self.models))
        return [
            {
                "model": self.models[index],
                "score": float(self.scores[index]),
                "low": _number(low[index]),
                "high": _number(high[index]),
                "rank": int(places[index]),
                "rank_low": int(rank_low[index]),
                "rank_high": int(rank_high[index]),
                "first": _number(first[index]),
                "strength": float(self.fit.strength[index]),
                "judgements": int(judged[index]),
                "images": int(self.images_of[index]),
            }
            for index in self.order
        ]

    def pairs(self) -> list[PairRecord]:
        """All pairs of models, the better one first."""
        data, rates = self.comparisons, self.fit.win_rates()
        low, high = self.pair_intervals()
        found = []
        for place, i in enumerate(self.order):
            for j in self.order[place + 1 :]:
                own, other = (data.first == i) & (data.second == j), (data.first == j) & (data.second == i)
                points = np.concatenate([data.outcome[own], 1 - data.outcome[other]])
                weights = np.concatenate([data.weights[own], data.weights[other]])
                wins, ties, losses = (int((points == value).sum()) for value in (1.0, 0.5, 0.0))
                share = float(np.average(points, weights=weights)) if len(points) else np.nan
                fitted = (float(rates[i, j]), float(low[i, j]), float(high[i, j]))
                images = len(np.unique(data.cluster[own | other]))
                names = (self.models[i], self.models[j])
                found.append(PairRecord(names, images, *fitted, len(points), wins, ties, losses, share))
        return found

    @property
    def notes(self) -> list[str]:
        """What a reader of the ranking must know."""
        notes = []
        if self.settings.control:
            notes.append("scores are those of " + " and ".join(CONTROLS[name].title for name in self.settings.control))
        few = [index for index in self.order if not self.known[index]]
        if few:
            counts = ", ".join(f"{self.models[index]} {self.images_of[index]}" for index in few[:5])
            more = f" and {len(few) - 5} models more" if len(few) > 5 else ""
            notes.append(
                f"no interval below {self.settings.fewest} judged images of a model: {counts}{more}; judge more images"
            )
        if self.left_out:
            notes.append(f"{self.left_out} judgements of a model against itself are left out")
        if self.repeated:
            notes.append(
                f"{self.repeated} verdicts repeat an image and a pair; those on one image and pair share one vote"
            )
        return notes

    def to_json(self) -> dict[str, Any]:
        """The JSON of `compete rank --json` for preferences; p are the observed win rates, f their ratios."""
        index = {name: number for number, name in enumerate(self.models)}
        size = len(self.models)
        p: list[list[float | None]] = [[None] * size for _ in range(size)]
        f: list[list[float | None]] = [[None] * size for _ in range(size)]
        pairs = self.pairs()
        for pair in pairs:
            i, j = (index[name] for name in pair.models)
            if pair.judgements:
                p[i][j], p[j][i] = pair.observed, 1 - pair.observed
                f[i][j], f[j][i] = _ratio(pair.observed), _ratio(1 - pair.observed)
        return {
            "metric": PREFERENCES,
            "models": list(self.models),
            "p": p,
            "f": f,
            "ranking": self.rows(),
            "pairs": [_record(pair) for pair in pairs],
            "judgements": len(self.comparisons.first),
            "images": len(self.images),
            "ties": float((self.comparisons.outcome == 0.5).mean()),
            "control": [_record(effect) for effect in self.effects()],
            "notes": self.notes,
        }


def rank_preferences(
    judgements: Sequence[Judgement] | Path | str,
    *,
    models: Sequence[str] | None = None,
    control: Sequence[str] = (),
    words: Path | str | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> PreferenceResult:
    """Rank models by judgements, or by a file of them (see `captrial.compete.storage.judgements` for its columns).

    `control` names covariates, "length" and "position". Lengths come from the judgements or from `words`, a table with
    the columns image, model and words.

    >>> battles = [Judgement(str(n), "m2", "att2in", float(n % 4 > 0)) for n in range(40)]
    >>> [(row["model"], round(row["score"], 2)) for row in rank_preferences(battles).rows()]
    [('m2', 0.74), ('att2in', 0.26)]
    """
    if isinstance(judgements, Path | str):
        judgements = read_judgements(judgements, models)
    control = check_controls(control)
    if words is not None:
        judgements = with_words(judgements, read_words(words))
    data, names, images = as_comparisons(judgements, models, control)
    connected = data.connected
    if len(names) > 1 and connected.max() > 0:
        other = names[int(np.argmax(connected != connected[0]))]
        raise StateError(f"no judgements connect {other} with {names[0]}; judge pairs that do, or rank them apart")
    alone = data.unidentified()
    if alone:
        name = control[alone[0]]
        raise InputError(f"cannot control for {name}: {CONTROLS[name].missing}")
    settings = PreferenceSettings(tuple(control), level, seed)
    unsigned = np.array([one.annotator is None for one in judgements if one.first != one.second])
    repeated = int((unsigned & (data.repeats > 1)).sum())
    left_out = len(judgements) - len(data.first)
    return PreferenceResult(names, images, data, fit_davidson(data), settings, left_out, repeated)


def check_controls(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once; an error where one is no covariate."""
    unknown = [name for name in names if name not in CONTROLS]
    if unknown:
        raise InputError(f"cannot control for {unknown[0]!r}; choose from {', '.join(CONTROLS)}")
    return tuple(dict.fromkeys(names))


def as_comparisons(
    judgements: Sequence[Judgement], models: Sequence[str] | None = None, control: Sequence[str] = ()
) -> tuple[Comparisons, tuple[str, ...], tuple[str, ...]]:
    """Judgements as arrays, the models' names, and the images in the order of their first judgement."""
    kept = [judgement for judgement in judgements if judgement.first != judgement.second]
    if not kept:
        raise StateError("there are no judgements of two different models yet")
    names = tuple(models) if models is not None else models_of(kept)
    index = {name: number for number, name in enumerate(names)}
    images = {image: number for number, image in enumerate(dict.fromkeys(judgement.image for judgement in kept))}
    columns = [CONTROLS[name].values(kept) for name in control]
    data = Comparisons(
        len(names),
        np.array([index[judgement.first] for judgement in kept], np.int64),
        np.array([index[judgement.second] for judgement in kept], np.int64),
        np.array([judgement.outcome for judgement in kept]),
        np.array([images[judgement.image] for judgement in kept], np.int64),
        np.column_stack(columns) if columns else np.zeros((len(kept), 0)),
    )
    return data, names, tuple(images)


def _record(found: PairRecord | ControlEffect) -> dict[str, Any]:
    """Plain values; None instead of NaN."""
    return {name: _number(value) if isinstance(value, float) else value for name, value in asdict(found).items()}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _ratio(share: float) -> float | None:
    return share / (1 - share) if share < 1 else None
