"""The claims of Wan 2022, by intervals over the labelled images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from captrial.compete.analysis.repetition import ModelRepetition
from captrial.compete.analysis.stability import Stability, spearman
from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores
from captrial.compete.ranking.perron import ranking_vector, ranking_vectors, ratios
from captrial.compete.ranking.result import RankingResult
from captrial.metrics.registry import column_title
from captrial.metrics.significance.bootstrap import percentile_bounds, resamples
from captrial.papers.claims import PaperClaim, agreement_bounds, all_hold, beyond

Floats = NDArray[np.float64]
REPLICATES = 1000
LEVEL = 0.05
AGREEMENT = 0.9  # of ranks, Spearman's correlation
SETTLED = 47 / 70  # of k: from here on the paper's SRCC stays above 0.9
MANY_TIMES = 6  # as often as the others one captioner of the paper repeats itself


def discrepancy_claims(
    scorer: PairScorer, metric: str, everything: Mapping[str, float], on_d: Mapping[str, float], seed: int = 0
) -> list[PaperClaim]:
    """Fig. 6: captioners score less on D, and D tells them further apart.

    `everything` and `on_d` are scores by model, fractions. Images of D are resampled, the scores on everything are
    taken as they are. All captioners together: each is judged at a level of 5% divided by their number. The distance
    is that of the captioners that are best and worst on everything, so that chance cannot choose them on D.
    """
    names = list(everything)
    drawn = _scores_on_d(scorer, metric, [scorer.models.index(name) for name in names], seed)
    drawn = drawn - drawn.mean(0) + np.array([on_d[name] for name in names])
    limits = percentile_bounds(drawn, 1 - LEVEL / len(names))
    less = [
        beyond(everything[name] - high, everything[name] - low) for name, low, high in zip(names, *limits, strict=True)
    ]
    title = column_title(metric)
    seen = f"{_range(everything.values())} on everything, {_range(on_d.values())} on D; {less.count(True)} for sure"
    best, worst = (names.index(pick(names, key=lambda name: everything[name])) for pick in (max, min))
    apart, on_d_apart = (_ratio(values[names[best]], values[names[worst]]) for values in (everything, on_d))
    low, high = percentile_bounds(_ratio(drawn[:, best], drawn[:, worst]))
    shown = f"best over worst {apart:.2f} on everything, {on_d_apart:.2f} [{low:.2f}, {high:.2f}] on D"
    return [
        PaperClaim.decided(f"Every captioner scores less on D ({title})", all_hold(less), seen),
        PaperClaim.decided(f"D tells captioners further apart ({title})", beyond(low, high, float(apart)), shown),
    ]


def _ratio(first: Floats | float, second: Floats | float) -> Floats:
    """NaN where the second is not above 0: then nothing is said."""
    positive = np.asarray(second) > 0
    return np.where(positive, first / np.where(positive, second, 1.0), np.nan)


def _range(values: Iterable[float]) -> str:
    found = 100 * np.array(list(values))
    return f"{found.min():.1f}–{found.max():.1f}"


def _scores_on_d(scorer: PairScorer, metric: str, models: Sequence[int], seed: int) -> Floats:
    """Resampled means (replicates, models) over each model's images of D, the same resamples for all models."""
    scores = scorer.image_scores(metric)
    member = np.zeros(scores.shape, np.bool_)
    for model in models:
        member[scorer.own_images(model), model] = True
    member &= ~np.isnan(scores)
    sums, counts = np.where(member, scores, 0.0)[:, models], member[:, models].astype(np.float64)
    weights = np.concatenate(list(resamples(len(scores), REPLICATES, seed)))
    number = weights @ counts
    return np.where(number > 0, weights @ sums / np.maximum(number, 1.0), np.nan)


def dominance_claim(found: RankingResult) -> PaperClaim:
    """Fig. 7 and 8: the first beats all others, the last none, by the intervals of f_ij."""
    best, last = found.order[0], found.order[-1]
    others = [model for model in found.order if model not in (best, last)]
    parts = [
        *(beyond(found.f_low[best, other], found.f_high[best, other], 1.0) for other in (*others, last)),
        *(beyond(found.f_low[other, last], found.f_high[other, last], 1.0) for other in others),
    ]
    wins = (found.f_low > 1).sum(1)
    seen = (
        f"{found.models[best]} beats {wins[best]} of {len(wins) - 1} for sure, "
        f"{int((found.f_high[last] < 1).sum())} of {len(wins) - 1} beat {found.models[last]} for sure"
    )
    return PaperClaim.decided("Few captioners dominate all others, one is dominated by all", all_hold(parts), seen)


def agreement_claim(first: PairwiseScores, second: PairwiseScores, seed: int = 0) -> PaperClaim:
    """Fig. 9: two metrics agree on the ranking; images are resampled, for both metrics the same."""
    observed = spearman(*(ranking_vector(ratios(one.matrix()), one.models) for one in (first, second)))
    vectors = [_resampled(one, seed) for one in (first, second)]
    drawn = np.array([spearman(a, b) for a, b in zip(*vectors, strict=True)])
    low, high = agreement_bounds(observed, drawn)
    names = " and ".join(column_title(one.metric) for one in (first, second))
    seen = f"SRCC {observed:.3f} [{low:.3f}, {high:.3f}]"
    text = f"{names} agree on the ranking, SRCC of at least {AGREEMENT} (0.93 in the paper)"
    return PaperClaim.decided(text, beyond(low, high, AGREEMENT), seen)


def _resampled(scores: PairwiseScores, seed: int, replicates: int = REPLICATES) -> Floats:
    """Ranking vectors (replicates, m) on resampled images."""
    blocks = resamples(len(scores.images), replicates, seed)
    return np.concatenate([ranking_vectors(ratios(scores.matrix(weights))) for weights in blocks])


def change_claim(found: RankingResult, external: Mapping[str, float]) -> PaperClaim:
    """Tables 3 and 4: ranks on D differ from external ranks.

    It holds if D is sure about the opposite order of at least one pair, and fails if it is sure about the same order of
    all pairs: at a level of 5%, divided by the number of pairs in the first case.
    """
    names = [name for name in found.models if name in external]
    places = [found.models.index(name) for name in names]
    beats = found.uncertainty.beats
    pairs = [
        (a, b) for a, name in zip(places, names, strict=True) for b, other in zip(places, names, strict=True)
        if external[name] > external[other]
    ]  # fmt: skip
    opposite = [beats[b, a] > 1 - LEVEL / 2 / max(len(pairs), 1) for a, b in pairs]
    same = [beats[a, b] > 1 - LEVEL / 2 for a, b in pairs]
    ordered = sorted(names, key=lambda name: -external[name])
    own = sorted(names, key=lambda name: -found.scores[found.models.index(name)])
    moved = sum(first != second for first, second in zip(ordered, own, strict=True))
    agreement = spearman(np.array([external[name] for name in names]), found.scores[places])
    seen = (
        f"{moved} of {len(names)} moved, SRCC {agreement:.3f}; {sum(opposite)} of {len(pairs)} pairs reversed for sure"
    )
    return PaperClaim.decided(
        "Ranks on D differ from external ranks", True if any(opposite) else False if all(same) else None, seen
    )


def stability_claim(curve: Stability, score: Callable[[int | None], PairwiseScores], seed: int = 0) -> PaperClaim:
    """Fig. 10: the smallest SRCC with the final ranking from two thirds of k on, with resampled images."""
    settled = curve.settled(AGREEMENT)
    seen = f"from k = {settled} of {curve.k[-1]} on" if settled else "never for good"
    text = f"SRCC stays above {AGREEMENT} from two thirds of k on, or earlier ({column_title(curve.metric)})"
    final = _resampled(score(None), seed, STABILITY_REPLICATES)
    late = [k for k in curve.k if k >= SETTLED * curve.k[-1]]
    lowest = np.ones(len(final))
    for k in late:
        drawn = _resampled(score(k), seed, STABILITY_REPLICATES)
        lowest = np.minimum(lowest, [spearman(a, b) for a, b in zip(drawn, final, strict=True)])
    observed = min(value for k, value in zip(curve.k, curve.srcc, strict=True) if k in late)
    low, high = agreement_bounds(observed, lowest)
    holds = beyond(low, high, AGREEMENT)
    return PaperClaim.decided(text, holds, f"{seen}; lowest SRCC {observed:.3f} [{low:.3f}, {high:.3f}]")


STABILITY_REPLICATES = 200  # of every k


def repetition_claim(repeated: Sequence[ModelRepetition]) -> PaperClaim:
    """Fig. 12: one captioner repeats itself six times as often as the next, by the exact interval of two counts."""
    from scipy.stats import binomtest

    first, second = (part.repeated for part in repeated[:2])
    text = f"One captioner repeats itself at least {MANY_TIMES} times as often as all others (so in the paper)"
    seen = f"{first} and {second} captions"
    if first + second == 0:
        return PaperClaim.decided(text, None, seen)
    limits = binomtest(first, first + second).proportion_ci(1 - LEVEL, "exact")  # of the two, the share of the first
    return PaperClaim.decided(text, beyond(limits.low, limits.high, MANY_TIMES / (MANY_TIMES + 1)), seen)
