"""Does the stop of `captrial compete plan` keep its word, and how many labels does it take?

python -m studies.competition_stop [--replays 1000] [--metric cider] [--risk 0.05] [--seconds 300] [--tied|--skewed]

A replay is a competition between 2, 5 or 9 of ten captioners on all 5 000 images, with an order of sampling of its own.
Labels arrive one by one, and one looks after each. *random*: images in random order. *controlled*: the same, with the
control variates of the planner (agreement between captions), which need three models. *weighted*: with them, the
weighted sample; after 40 labels, and again whenever a third more have been added, the sample goes on between the two
models that `plan` names as open first (`select --between`). All stop by the same rule at the same risk. An error is a
stop with a winner that all images do not put first. A run continues where an earlier one ended.

`--tied` is the hardest case for the risk: real scores, each model's shifted by a constant so that the means over the
pool are equal, all eleven captioners (LLaVA's scores are 0 but for a few images), two or five models, a look after
every label until the pool is used up. By the rule's word, a given model is ever put out in at most 5% of the replays.

`--skewed` looks for where the rule fails, since it is exact for normal differences only: two models, equally good on
the whole pool, of which the first is a little worse nearly everywhere and much better on a few images; random images,
a look after each of the first 400 labels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from captrial.compete.analysis.confidence_sequence import exclusion, running_log_t
from captrial.compete.analysis.planner import DrawnLabels, PlanSettings, excluded, plan_labels, unbiased_terms
from captrial.compete.selection.design import SampleOrder, rates
from captrial.progress import track
from studies.competition_scores import Captioners, DrawnCompetition, read_results, write_results

ARMS = ("random", "controlled", "weighted")
SKEWED_LOOKS = 400
FIRST, GROWTH = 40, 4 / 3  # labels of the first wave; each wave has this many times as many in all


def drawn_labels(trial: DrawnCompetition, order: SampleOrder, count: int, controlled: bool = True) -> DrawnLabels:
    """The first labels of an order, as `plan` sees them."""
    rows = order.rows[:count]
    known = (trial.agreement - trial.agreement.mean(axis=0))[rows] if controlled else None
    return DrawnLabels(trial.scores[rows], *order.draws(count), trial.size, known)


def stop(drawn: DrawnLabels, risk: float) -> tuple[int, int] | None:
    """After how many labels the rule stops, and for which model; None if it does not stop with these labels."""
    out = excluded(unbiased_terms(drawn), risk)  # (n, m)
    alone = out.sum(axis=1) == out.shape[1] - 1
    if not alone.any():
        return None
    at = int(np.argmax(alone))
    return at + 1, int(np.argmin(out[at]))


def random_stop(trial: DrawnCompetition, seed: int, risk: float, controlled: bool) -> tuple[int, int]:
    """By random images."""
    found = stop(drawn_labels(trial, trial.order(seed, False, trial.size), trial.size, controlled), risk)
    return found or (trial.size, int(np.argmax(trial.truth)))


def plain_stop(trial: DrawnCompetition, seed: int, risk: float) -> tuple[int, int]:
    """By random images and the usual rule: each rival by itself at risk / (m - 1), whatever is left of the pool."""
    scores = trial.scores[trial.order(seed, False, trial.size).rows]
    against = [running_log_t(scores[:, [model]] - np.delete(scores, model, axis=1)) for model in range(trial.m)]
    evidence = np.stack([found.min(axis=1) for found in against], axis=1)  # (n, m) that the model is the best
    reached = evidence.max(axis=1) >= np.log((trial.m - 1) / risk)
    at = int(np.argmax(reached))
    return (at + 1, int(np.argmax(evidence[at]))) if reached.any() else (trial.size, int(np.argmax(trial.truth)))


def weighted_stop(trial: DrawnCompetition, seed: int, risk: float) -> tuple[int, int]:
    """By the weighted sample, later waves between the models that are open."""
    waves = [(trial.rates, FIRST)]
    count = FIRST
    while True:
        drawn = drawn_labels(trial, SampleOrder(trial.images, seed, waves), count)
        found = stop(drawn, risk)
        if found is not None or count == trial.size:
            return found or (trial.size, int(np.argmax(trial.truth)))
        waves[-1] = waves[-1][0], count
        count = min(int(GROWTH * count), trial.size)
        waves.append((contender_rates(trial, drawn, risk), count))


def contender_rates(trial: DrawnCompetition, drawn: DrawnLabels, risk: float) -> np.ndarray:
    """Rates by the disagreement of the comparison that has the least evidence: `plan` names it first."""
    found = plan_labels(trial.names, drawn, PlanSettings(risk=risk)).open
    if not found:
        return trial.rates
    pair = sorted(trial.names.index(name) for name in (found[0].ahead, found[0].behind))
    return rates(trial.source.agreement(trial.models[pair].tolist())[trial.pool])


def ratios(own: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """The ratio of the mean labels, its standard error, and the median of the ratios."""
    ratio = float(own.sum() / other.sum())
    error = float((own - ratio * other).std(ddof=1) / np.sqrt(len(own)) / other.mean())
    return {"ratio": ratio, "ratio_standard_error": error, "median_ratio": float(np.median(own / other))}


def replayed(source: Captioners, m: int, seed: int) -> DrawnCompetition:
    """The competition of one replay."""
    usual = [model for model, name in enumerate(source.names) if not name.startswith("LLaVA")]
    return source.competition(np.random.default_rng([11, m, seed]).choice(usual, m, replace=False).tolist())


def plain(source: Captioners, m: int, kept: list[list[list[int]]], risk: float) -> dict[str, float]:
    """The usual rule on the competitions of the replays, beside what the weighted sample needed."""
    found, wrong = [], []
    for seed in track(range(len(kept)), f"{m} models, usual rule"):
        trial = replayed(source, m, seed)
        count, winner = plain_stop(trial, seed, risk)
        found.append(float(count))
        wrong.append(winner != int(np.argmax(trial.truth)))
    weighted = np.array([counts[ARMS.index("weighted")] for counts, _ in kept], float)
    row: dict[str, float] = {"models": m, "replays": len(kept), "error": float(np.mean(wrong))}
    return row | {"labels": float(np.mean(found))} | ratios(weighted, np.array(found))


def replay(source: Captioners, m: int, seed: int, risk: float) -> list[list[int]]:
    """Labels until the stop, and whether the winner was wrong, by arm."""
    trial = replayed(source, m, seed)
    found = [random_stop(trial, seed, risk, controlled) for controlled in (False, True)]
    found.append(weighted_stop(trial, seed, risk))
    best = int(np.argmax(trial.truth))
    return [[count for count, _ in found], [int(winner != best) for _, winner in found]]


def tied(source: Captioners, m: int, replays: int, risk: float) -> dict[str, float]:
    """How often the first model, as good as all others on the whole pool, is ever put out, by design."""
    row: dict[str, float] = {"models": m, "replays": replays}
    out: dict[str, list[bool]] = {"random": [], "weighted": []}
    for seed in track(range(replays), f"{m} tied models"):
        chosen = np.random.default_rng([12, m, seed]).choice(len(source.names), m, replace=False)
        trial = source.competition(chosen.tolist())
        trial.scores = trial.scores - trial.truth
        first = int(np.searchsorted(trial.models, chosen[0]))
        for name, found in out.items():
            order = trial.order(seed, name == "weighted", trial.size)
            terms = unbiased_terms(drawn_labels(trial, order, trial.size - 1))  # the last label leaves no doubt
            rivals = np.delete(terms, first, axis=1) - terms[:, [first]]
            found.append(bool(exclusion(rivals, running_log_t).max() >= np.log(1 / risk)))
    for name, found in out.items():
        row[f"{name}_error"] = float(np.mean(found))
    return row


def skewed(source: Captioners, replays: int, risk: float) -> list[dict[str, float | str]]:
    """How often the first of two equally good models is ever put out, by what their differences look like."""
    size = len(source.images)
    usual = [model for model, name in enumerate(source.names) if not name.startswith("LLaVA")]

    def silent(rng: np.random.Generator, share: float) -> np.ndarray:
        """Two captioners, the second of which says nothing about some of the images."""
        scores = source.scores[:, rng.choice(usual, 2, replace=False)].copy()
        scores[rng.random(size) < share, 1] = 0.0
        return np.asarray(scores[:, 0] - scores[:, 1])

    worlds: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
        "captioners, the second silent on 2% of images": lambda rng: silent(rng, 0.02),
        "captioners, the second silent on 10%": lambda rng: silent(rng, 0.1),
        "the same captions on 90%, else normal": lambda rng: rng.normal(0, 1, size) * (rng.random(size) < 0.1),
        "exponential (skewness 2)": lambda rng: rng.exponential(1, size),
        "lognormal (skewness 33)": lambda rng: rng.lognormal(0, 1.5, size),
        "20 standard deviations better on 2%": lambda rng: rng.normal(0, 0.05, size) + (rng.random(size) < 0.02),
    }
    rows: list[dict[str, float | str]] = []
    for name, draw in worlds.items():
        wrong = []
        for seed in track(range(replays), name):
            generator = np.random.default_rng([13, seed])
            apart = draw(generator)
            same = apart == 0  # stays as it is
            apart = np.where(same, 0.0, apart - apart[~same].mean())
            scores = np.stack([apart, np.zeros(size)], axis=1)[generator.permutation(size)[:SKEWED_LOOKS]]
            left = np.arange(size, size - SKEWED_LOOKS, -1, dtype=np.float64)
            drawn = DrawnLabels(scores, np.ones(SKEWED_LOOKS), left, size)
            wrong.append(bool(excluded(unbiased_terms(drawn), risk)[-1, 0]))
        rows.append({"world": name, "replays": replays, "error": float(np.mean(wrong))})
        print(rows[-1], flush=True)
    return rows


def summary(m: int, replays: list[list[list[int]]], images: int) -> dict[str, float]:
    """One row of the table."""
    counts, wrong = np.array(replays, float).transpose(1, 0, 2)  # (replays, arms)
    row: dict[str, float] = {"models": m, "replays": len(replays)}
    for arm, name in enumerate(ARMS):
        row[f"{name}_error"] = float(wrong[:, arm].mean())
        row[f"{name}_labels"] = float(counts[:, arm].mean())
        row[f"{name}_median"] = float(np.median(counts[:, arm]))
    early = (counts < images / 2).any(axis=1)
    for arm in (0, 1):
        row |= {f"{name}_of_{ARMS[arm]}": value for name, value in ratios(counts[:, 2], counts[:, arm]).items()}
        half = ratios(counts[early, 2], counts[early, arm])["ratio"]
        row[f"ratio_of_{ARMS[arm]}_where_half_the_pool_is_enough"] = half
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--metric", default="cider")
    parser.add_argument("--risk", type=float, default=0.05)
    parser.add_argument("--models", default="2,5,9")
    parser.add_argument("--tied", action="store_true", help="the risk where all models are equally good")
    parser.add_argument("--skewed", action="store_true", help="the risk where differences are far from normal")
    parser.add_argument("--plain", action="store_true", help="the usual rule on the competitions of earlier replays")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="processor time; run again to continue")
    options = parser.parse_args()
    source, name = Captioners(options.metric), f"stop_{options.metric}"
    if options.tied:
        rows = []
        for m in (2, 5):
            rows.append(tied(source, m, options.replays, options.risk))
            print(rows[-1], flush=True)
            write_results(f"{name}_tied", {"metric": options.metric, "risk": options.risk, "rows": rows})
        return
    if options.skewed:
        found = skewed(source, options.replays, options.risk)
        write_results(f"{name}_skewed", {"metric": options.metric, "risk": options.risk, "rows": found})
        return
    done = read_results(f"{name}_replays") or {}
    if options.plain:
        rows = [plain(source, int(m), replays, options.risk) for m, replays in done.items()]
        print(*rows, sep="\n")
        write_results(f"{name}_plain", {"metric": options.metric, "risk": options.risk, "rows": rows})
        return
    for m in map(int, options.models.split(",")):
        replays = done.setdefault(str(m), [])
        for seed in track(range(len(replays), options.replays), f"{m} models"):
            if time.process_time() > options.seconds:
                break
            replays.append(replay(source, m, seed, options.risk))
        write_results(f"{name}_replays", done, indent=None)
    rows = [summary(int(m), replays, len(source.images)) for m, replays in done.items() if len(replays) > 1]
    print(*rows, sep="\n")
    write_results(name, {"metric": options.metric, "risk": options.risk, "rows": rows})


if __name__ == "__main__":
    main()
