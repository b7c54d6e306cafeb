"""Simulated judges of captions: strengths, ties, judges who share an image, and a bias for place or length.

`World.comparisons` draws judgements and `World.truth` gives what infinitely many of them would say, so that coverage of
intervals and errors of stop rules can be counted (`coverage`, `studies.preferences`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from captrial.compete import Judgement, PreferenceResult
from captrial.compete.ranking.bradley_terry import Comparisons, DavidsonFit, fit_davidson, probabilities
from captrial.compete.ranking.preferences import PreferenceSettings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DESIGNS = ("all", "pairs", "reference")
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_LENGTHS = np.linspace(-0.6, 0.6, 13)  # values of the length covariate, equally likely


@dataclass(frozen=True)
class World:
    """Models with log strengths from -spread to spread, and how their captions are judged.

    Designs: `all` pairs on every image; every image for one of the `pairs`; all models against the first (`reference`).
    On an image every model's caption is better or worse than usual by a normal `image_effect`, which all judges share.
    """

    models: int = 5
    spread: float = 1.0
    design: str = "all"
    judges: int = 1
    image_effect: float = 0.0
    nu: float = 0.0  # of ties, in Davidson's model
    position: float = 0.0  # added to the log odds of the caption shown first
    length: float = 0.0  # times the length covariate, added to the log odds
    gap: float = 0.0  # added to the strength of the best model

    @cached_property
    def strength(self) -> Floats:
        """(m,) log strengths, best first."""
        found = np.linspace(self.spread, -self.spread, self.models)
        found[0] += self.gap
        return found

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Models that are compared."""
        if self.design == "reference":
            return np.zeros(self.models - 1, np.int64), np.arange(1, self.models)
        first, second = np.triu_indices(self.models, 1)
        return first, second

    @property
    def controls(self) -> tuple[str, ...]:
        """The covariates that explain the biases."""
        return tuple(name for name in ("position", "length") if getattr(self, name))

    @property
    def log_nu(self) -> float:
        """Minus infinity where there are no ties."""
        return float(np.log(self.nu)) if self.nu else -np.inf

    def comparisons(self, images: int, random: np.random.Generator) -> Comparisons:
        """Draw the judgements of some images; with the design `pairs`, of so many images per pair."""
        first, second = self.pairs
        if self.design == "pairs":
            first, second = np.repeat(first, images), np.repeat(second, images)
            image = np.arange(len(first))
        else:
            image = np.repeat(np.arange(images), len(first))
            first, second = np.tile(first, images), np.tile(second, images)
        effects = self.image_effect * random.standard_normal((int(image[-1]) + 1, self.models))
        lengths = random.choice(_LENGTHS, len(first))  # of the pair, the first model's being longer where positive
        first, second, image, lengths = (np.repeat(part, self.judges) for part in (first, second, image, lengths))
        swap = random.random(len(first)) < 0.5
        first, second = np.where(swap, second, first), np.where(swap, first, second)
        columns = {"position": np.ones(len(first)), "length": np.where(swap, -lengths, lengths)}
        covariates = np.stack([columns[name] for name in self.controls], axis=1) if self.controls else None
        eta = self.strength[first] - self.strength[second] + effects[image, first] - effects[image, second]
        eta = eta + self.position + self.length * columns["length"]
        won, lost, _ = probabilities(eta, self.log_nu)
        draw = random.random(len(first))
        outcome = np.where(draw < won, 1.0, np.where(draw < won + lost, 0.0, 0.5))
        empty = np.zeros((len(first), 0))
        return Comparisons(self.models, first, second, outcome, image, empty if covariates is None else covariates)

    def judgements(self, images: int, random: np.random.Generator) -> list[Judgement]:
        """The same as judgements of models `m0` (the best), `m1`, ...; without lengths."""
        data = self.comparisons(images, random)
        rows = zip(data.cluster, data.first, data.second, data.outcome, strict=True)
        return [Judgement(f"{image:05d}", f"m{a}", f"m{b}", float(won)) for image, a, b, won in rows]

    def truth(self) -> DavidsonFit:
        """The fit to infinitely many judgements; with image effects it is not the strengths themselves."""
        rows = []
        lengths = _LENGTHS if self.length else np.zeros(1)
        shares = _WEIGHTS / _WEIGHTS.sum()
        for a, b in zip(*self.pairs, strict=True):
            for (first, second), length in product([(a, b), (b, a)], lengths):
                eta = self.strength[first] - self.strength[second] + self.position + self.length * length
                chances = probabilities(eta + np.sqrt(2) * self.image_effect * _NODES, self.log_nu)
                for outcome, chance in zip((1.0, 0.0, 0.5), chances, strict=True):
                    if outcome != 0.5 or self.nu:
                        rows.append((first, second, outcome, float((shares * chance).sum()), length))
        table = np.array(rows)
        columns = {"position": np.ones(len(table)), "length": table[:, 4]}
        covariates = [columns[name] for name in self.controls]
        return fit_davidson(
            Comparisons(
                self.models,
                table[:, 0].astype(np.int64),
                table[:, 1].astype(np.int64),
                table[:, 2],
                np.arange(len(table)),
                np.stack(covariates, axis=1) if covariates else np.zeros((len(table), 0)),
                1e7 * table[:, 3],
            )
        )

    def result(self, data: Comparisons) -> PreferenceResult:
        """The ranking by drawn judgements."""
        names = tuple(f"m{model}" for model in range(self.models))
        images = tuple(f"{image:05d}" for image in range(int(data.cluster.max()) + 1))
        return PreferenceResult(names, images, data, fit_davidson(data), PreferenceSettings(self.controls, fewest=1))


@dataclass(frozen=True)
class Coverage:
    """Shares of intervals that hold the truth, and median widths."""

    pairs: float
    scores: float
    ranks: float
    effects: float | None  # of the covariates
    pair_width: float
    score_width: float
    rank_width: float
    draws: int


def coverage(world: World, images: int, draws: int, seed: int = 0) -> Coverage:
    """Draw judgements `draws` times and count the intervals (nominal 95%) that hold the truth."""
    truth, random = world.truth(), np.random.default_rng(seed)
    above = np.triu_indices(world.models, 1)
    rates, scores = truth.win_rates()[above], truth.scores()
    ranks = 1 + (scores[None, :] > scores[:, None] + 1e-9).sum(axis=1)
    found: dict[str, list[Floats]] = {name: [] for name in ("pairs", "scores", "ranks", "effects")}
    widths: dict[str, list[Floats]] = {name: [] for name in found}
    for _ in range(draws):
        result = world.result(world.comparisons(images, random))
        low, high = (bound[above] for bound in result.pair_intervals())
        bounds = {"pairs": (low, high, rates), "scores": (*result.score_intervals(), scores)}
        bounds["ranks"] = (*(part.astype(np.float64) for part in result.rank_intervals()), ranks.astype(np.float64))
        if world.controls:
            effects = result.effects()
            units = [np.log(one.odds) / value for one, value in zip(effects, result.fit.effects, strict=True)]
            real = np.exp(np.array(units) * truth.effects)
            bounds["effects"] = (np.array([one.low for one in effects]), np.array([one.high for one in effects]), real)
        for name, (below, over, value) in bounds.items():
            found[name].append((below <= value) & (value <= over))
            widths[name].append(over - below)
    share = {name: float(np.mean(hits)) if hits else None for name, hits in found.items()}
    width = {name: float(np.median(values)) if values else None for name, values in widths.items()}
    assert share["pairs"] is not None
    assert share["scores"] is not None
    assert share["ranks"] is not None
    return Coverage(
        share["pairs"],
        share["scores"],
        share["ranks"],
        share["effects"],
        width["pairs"] or 0.0,
        width["scores"] or 0.0,
        width["ranks"] or 0.0,
        draws,
    )
