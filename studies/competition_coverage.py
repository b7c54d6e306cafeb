"""Do the intervals of `captrial compete rank` cover? And what does a model have before its own images are labelled?

python -m studies.competition_coverage [--draws 2000] [--metric cider] [--add-draws 300]

Coverage: labels are drawn at random from the pool (designs random, weighted and hybrid, D included) or from D (k = 70,
in the order in which D is labelled, n images of each D_ij on average); the truth is the value with all of the pool, or
all of D, labelled. `add`: a competition labelled by the hybrid design gets a newcomer; its score on the pool before any
new label against the value from all labels, and the width of its interval against as many random labels.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from captrial.compete.ranking.estimates import pool_estimate
from captrial.compete.ranking.intervals import Uncertainty, mid_ranks, uncertainty
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.result import RankingResult, rank_models
from captrial.compete.selection.design import DISCREPANCY_SHARE, uniform_order
from captrial.progress import track
from studies.competition_scores import LABELS, Captioners, DrawnCompetition, read_results, write_results

K = 70
SIZES = (2, 2, 2, 2, 3, 3, 5, 5) * 3 + (9, 11)


class Tally:
    """Counts of intervals given, covering, and their widths."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = defaultdict(int)
        self.covered: dict[str, list[bool]] = defaultdict(list)
        self.widths: dict[str, list[float]] = defaultdict(list)

    def add(self, kind: str, low: np.ndarray, high: np.ndarray, truth: np.ndarray, logarithmic: bool = False) -> None:
        """Intervals that are NaN were not given."""
        low, high, truth = np.ravel(low), np.ravel(high), np.ravel(truth)
        given = ~np.isnan(low)
        self.asked[kind] += len(low)
        slack = 1e-9 * np.abs(truth[given])
        self.covered[kind] += ((low[given] <= truth[given] + slack) & (truth[given] <= high[given] + slack)).tolist()
        ends = np.log([low[given], high[given]]) if logarithmic else np.array([low[given], high[given]])
        self.widths[kind] += (ends[1] - ends[0]).tolist()

    def row(self) -> dict[str, float | None]:
        """Coverage, median width and share given, by kind."""
        found: dict[str, float | None] = {}
        for kind in ("pairs", "scores", "ranks"):
            asked = max(self.asked[kind], 1)
            covered = self.covered[kind]
            found[f"{kind}_coverage"] = float(np.mean(covered)) if covered else None
            found[f"{kind}_width"] = float(np.median(self.widths[kind])) if covered else None
            found[f"{kind}_given"] = len(covered) / asked
        return found


def add_ranks(tally: Tally, found: Uncertainty, truth: np.ndarray) -> None:
    if found.ranked:
        tally.add("ranks", found.rank_low.astype(float), found.rank_high.astype(float), mid_ranks(truth))
    else:
        tally.asked["ranks"] += len(truth)


def pool_cell(drawn: list[DrawnCompetition], labels: int, design: str, draws: int) -> dict[str, float | None]:
    """Coverage on the whole pool; with one image a pair, D may take half of the labels of the hybrid design at most."""
    tally = Tally()
    if design == "hybrid":
        drawn = [trial for trial in drawn if len(trial.union(1)) <= labels / 2]
    for seed in range(draws if drawn else 0):
        trial = drawn[seed % len(drawn)]
        if design == "hybrid":
            selected = trial.union(trial.largest_k(int(DISCREPANCY_SHARE * labels)))
            rows, probability = trial.hybrid(seed, selected, labels - len(selected))
            rate = trial.rates
        else:
            order = trial.order(seed, design == "weighted", labels)
            rows, probability, rate = order.rows[:labels], order.probabilities(labels), order.rate(0)
        found = uncertainty(pool_estimate(trial.scores[rows], trial.sample(rows, probability, rate)))
        upper = np.triu_indices(trial.m, 1)
        apart = trial.truth[:, None] - trial.truth[None, :]
        tally.add("pairs", found.difference_low[upper], found.difference_high[upper], apart[upper])
        tally.add("scores", found.low, found.high, trial.truth)
        add_ranks(tally, found, trial.truth)
    return tally.row()


def discrepancy_cell(drawn: list[DrawnCompetition], labels: int, draws: int) -> dict[str, float | None]:
    """Coverage on D: f_ij, the scores of Eq. 7, ranks."""
    tally = Tally()
    for seed in range(draws):
        on_d = discrepancy_set(drawn, seed % len(drawn))
        count = max(round(labels / K * len(on_d.images)), 1)
        row = {image: number for number, image in enumerate(on_d.images)}
        chosen = [row[image] for image in uniform_order(on_d.images, seed)[:count]]
        chance = dict.fromkeys(chosen, count / len(on_d.images))
        part = PairwiseScores.of_scores("cider", on_d.names, on_d.scores, on_d.pairs, chance)
        found, truth = rank_models(part, seed=seed), on_d.truth
        upper = np.triu_indices(len(on_d.names), 1)
        tally.add("pairs", found.f_low[upper], found.f_high[upper], truth.dominance.f[upper], logarithmic=True)
        bounds = found.uncertainty
        tally.add("scores", bounds.low, bounds.high, truth.scores, logarithmic=True)
        add_ranks(tally, bounds, truth.scores)
    return tally.row()


@dataclass
class DiscrepancySet:
    """D of one competition: all D_ij as rows of `images`, and the ranking when all of it is labelled."""

    names: list[str]
    images: list[str]
    scores: np.ndarray
    pairs: dict[tuple[int, int], np.ndarray]
    truth: RankingResult


_SETS: dict[int, DiscrepancySet] = {}


def discrepancy_set(drawn: list[DrawnCompetition], number: int) -> DiscrepancySet:
    """D of one of the competitions; computed once."""
    if number not in _SETS:
        trial = drawn[number]
        pairs = trial.pair_sets(K)
        union = trial.union(K)
        inside = {pair: np.searchsorted(union, rows) for pair, rows in pairs.items()}
        scores = trial.scores[union]
        truth = rank_models(PairwiseScores.of_scores("cider", trial.names, scores, inside))
        _SETS[number] = DiscrepancySet(trial.names, [trial.images[row] for row in union], scores, inside, truth)
    return _SETS[number]


def adding(source: Captioners, draws: int, k: int = 20) -> dict[str, float]:
    """A newcomer's score on the pool before it has labels of its own, hybrid design."""
    generator = np.random.default_rng(7)
    errors, covered, ratios = [], [], []
    usual = [model for model in range(len(source.names)) if not source.names[model].startswith("LLaVA")]
    for seed in range(draws):
        models = generator.choice(usual, 4, replace=False)
        base, newcomer = source.competition(models[:3]), int(models[3])
        union = base.union(k)
        rows, probability = base.hybrid(seed, union, round(len(union) * (1 / DISCREPANCY_SHARE - 1)))
        trial = source.competition(models)
        at = int(np.searchsorted(trial.models, newcomer))
        estimate = pool_estimate(trial.scores[rows], trial.sample(rows, probability, base.rates))
        found = uncertainty(estimate)
        plain = trial.order(seed, False, len(rows))
        chosen = plain.rows[: len(rows)]
        random = uncertainty(
            pool_estimate(trial.scores[chosen], trial.sample(chosen, plain.probabilities(len(rows)), plain.rate(0)))
        )
        errors.append(estimate.value[at] - trial.truth[at])
        covered.append(found.low[at] <= trial.truth[at] <= found.high[at])
        ratios.append((found.high[at] - found.low[at]) / (random.high[at] - random.low[at]))
    deviation = float(np.std(errors, ddof=1) / np.sqrt(draws))
    return {
        "draws": draws,
        "bias": float(np.mean(errors)),
        "bias_standard_error": deviation,
        "covered": float(np.mean(covered)),
        "median_width_ratio": float(np.median(ratios)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--add-draws", type=int, default=300)
    parser.add_argument("--metric", default="cider")
    parser.add_argument(
        "--parts", default="pool,discrepancy,few,add", help="or one row, like pool:hybrid; results of others are kept"
    )
    parser.add_argument("--labels", type=lambda text: tuple(map(int, text.split(","))), default=LABELS)
    options = parser.parse_args()
    source, name = Captioners(options.metric), f"coverage_{options.metric}"
    generator = np.random.default_rng(0)
    drawn = [source.competition(generator.choice(len(source.names), m, replace=False)) for m in SIZES]
    cells = {
        "pool, random": lambda n: pool_cell(drawn, n, "random", options.draws),
        "pool, weighted": lambda n: pool_cell(drawn, n, "weighted", options.draws),
        "pool, hybrid": lambda n: pool_cell(drawn, n, "hybrid", options.draws),
        "discrepancy": lambda n: discrepancy_cell(drawn, n, options.draws),
    }
    wanted = [part.replace(":", ", ") for part in options.parts.split(",")]
    found = read_results(name) or {"metric": options.metric, "coverage": [], "add": None}
    for target, cell in cells.items():
        if target in wanted or target.partition(",")[0] in wanted:
            for labels in track(options.labels, target):
                row = {"target": target, "labels": labels, "draws": options.draws, **cell(labels)}
                kept = [one for one in found["coverage"] if (one["target"], one["labels"]) != (target, labels)]
                order = list(cells)
                found["coverage"] = sorted([*kept, row], key=lambda one: (order.index(one["target"]), one["labels"]))
                print(row, flush=True)
                write_results(name, found)
    if "few" in wanted:
        row = {"target": "pool, hybrid", "labels": 20, "draws": options.draws}
        few = [trial for trial in drawn if trial.m <= 3]
        found["two_or_three_models"] = row | pool_cell(few, 20, "hybrid", options.draws)
        write_results(name, found)
    if "add" in wanted:
        found["add"] = adding(source, options.add_draws)
        print(found["add"])
        write_results(name, found)


if __name__ == "__main__":
    main()
