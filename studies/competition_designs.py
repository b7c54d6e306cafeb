"""Which design finds the best captioner of the pool with as many labels: discrepancy, random, weighted or hybrid?

python -m studies.competition_designs [--competitions 250] [--metric cider] [--half 0|1 [--shares 0.4,0.2,0.1]]

A competition is a random choice of 2, 5 or 9 of ten captioners (LLaVA is out: it loses every comparison) on a random
half of the images. k sets the budget: as many labels as D has images for that k. Winner and order by
- eq7: discrepancy design, Eq. 7 of Wan 2022 as `rank` computes it;
- selected: the same labels, each used for every model: the mean over D;
- random: the mean over as many random images;
- weighted: the pool estimate of `rank --target pool` from the weighted sample; `weighted, all` is the plain mean;
- hybrid: the pool estimate from D (`DISCREPANCY_SHARE` of the labels) and a weighted sample; `hybrid, all` is the plain
  mean over everything that the hybrid design labels.
The truth is the mean over all images of the competition. `--half` restricts the images to one half, chosen by hash;
`--shares` compares hybrid designs with other shares of D.
"""

from __future__ import annotations

import argparse

import numpy as np

from captrial.compete.analysis.stability import spearman
from captrial.compete.ranking.estimates import pool_estimate
from captrial.compete.ranking.pair_scores import PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ratios
from captrial.compete.selection.design import DISCREPANCY_SHARE, random_numbers
from captrial.progress import track
from studies.competition_scores import Captioners, DrawnCompetition, write_results

MODELS = (2, 5, 9)
BUDGETS = (5, 10, 20, 40, 70)  # k


def estimates(trial: DrawnCompetition, k: int, seed: int) -> tuple[int, dict[str, np.ndarray]]:
    """The number of labels, and the scores (m,) that every design gives."""
    pairs = trial.pair_sets(k)
    selected = trial.union(k)
    labels = len(selected)
    found = {"selected": trial.scores[selected].mean(axis=0)}
    inside = {pair: np.searchsorted(selected, rows) for pair, rows in pairs.items()}
    wan = PairwiseScores.of_scores("cider", trial.names, trial.scores[selected], inside)
    found["eq7"] = ranking_vector(ratios(wan.matrix()))
    random = trial.order(seed, False, labels)
    found["random"] = trial.scores[random.rows[:labels]].mean(axis=0)
    weighted = trial.order(seed, True, labels)
    rows = weighted.rows[:labels]
    sample = trial.sample(rows, weighted.probabilities(labels), trial.rates)
    found["weighted"] = pool_estimate(trial.scores[rows], sample).value
    found["weighted, all"] = trial.scores[rows].mean(axis=0)
    found |= hybrid(trial, labels, seed, DISCREPANCY_SHARE)
    return labels, found


def hybrid_estimates(
    trial: DrawnCompetition, k: int, seed: int, shares: list[float]
) -> tuple[int, dict[str, np.ndarray]]:
    """As `estimates`, of random images and of hybrid designs with these shares of D."""
    labels = len(trial.union(k))
    found = {"random": trial.scores[trial.order(seed, False, labels).rows[:labels]].mean(axis=0)}
    for share in shares:
        found |= {f"{name} {share:g}": value for name, value in hybrid(trial, labels, seed, share).items()}
    return labels, found


def hybrid(trial: DrawnCompetition, labels: int, seed: int, share: float) -> dict[str, np.ndarray]:
    """A share of the labels for D, the others for a weighted sample."""
    selected = trial.union(trial.largest_k(int(share * labels)))
    rows, probability = trial.hybrid(seed, selected, labels - len(selected))
    pool = pool_estimate(trial.scores[rows], trial.sample(rows, probability, trial.rates)).value
    return {"hybrid": pool, "hybrid, all": trial.scores[rows].mean(axis=0)}


def cell(
    source: Captioners, m: int, k: int, competitions: int, images: np.ndarray, shares: list[float]
) -> dict[str, float]:
    """How often each design names the winner, and the mean SRCC with the order on all images."""
    generator = np.random.default_rng([m, k])
    usual = [model for model, name in enumerate(source.names) if not name.startswith("LLaVA")]
    right: dict[str, list[bool]] = {}
    order: dict[str, list[float]] = {}
    labels = []
    for seed in range(competitions):
        pool = generator.choice(images, len(images) // 2, replace=False)
        trial = source.competition(generator.choice(usual, m, replace=False), pool)
        count, found = hybrid_estimates(trial, k, seed, shares) if shares else estimates(trial, k, seed)
        labels.append(count)
        for name, scores in found.items():
            right.setdefault(name, []).append(int(np.argmax(scores)) == int(np.argmax(trial.truth)))
            order.setdefault(name, []).append(spearman(scores, trial.truth))
    row = {"models": m, "k": k, "labels": float(np.mean(labels)), "competitions": competitions}
    for name in right:
        row[f"{name}_winner"], row[f"{name}_srcc"] = float(np.mean(right[name])), float(np.mean(order[name]))
        row[f"{name}_wins_more"] = float(np.mean(right[name]) - np.mean(right["random"]))
        apart = np.array(right[name], float) - np.array(right["random"], float)
        row[f"{name}_wins_more_se"] = float(apart.std(ddof=1) / np.sqrt(competitions))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--competitions", type=int, default=250)
    parser.add_argument("--metric", default="cider")
    parser.add_argument("--half", type=int, choices=(0, 1))
    parser.add_argument("--shares", type=lambda text: list(map(float, text.split(","))), default=[])
    options = parser.parse_args()
    source = Captioners(options.metric)
    images = np.arange(len(source.images))
    if options.half is not None:
        images = images[(random_numbers(source.images, "half", 0) < 0.5) == bool(options.half)]
    rows = []
    for m in MODELS:
        for k in track(BUDGETS, f"{m} models"):
            rows.append(cell(source, m, k, options.competitions, images, options.shares))
            print({name: round(value, 3) for name, value in rows[-1].items() if "_more" not in name}, flush=True)
    suffix = ("" if options.half is None else f"_half{options.half}") + ("_shares" if options.shares else "")
    print(write_results(f"designs_{options.metric}{suffix}", {"metric": options.metric, "rows": rows}))


if __name__ == "__main__":
    main()
