"""Judges: do corrected intervals cover whatever the judge does, how many votes are saved, are the gate's bounds right?

    python -m studies.judges rates        simulated judges: coverage and widths of win rates
    python -m studies.judges limits       the same judges: how many votes the best method would save
    python -m studies.judges ranking      simulated judges: coverage of scores and ranks of three models
    python -m studies.judges strata       the same where votes are a random part of each stratum only
    python -m studies.judges sequences    simulated judges: confidence sequences and the stop rule, looked at always
    python -m studies.judges battles      WildVision-Bench: some battles play people, noisy copies play judges
    python -m studies.judges battle_ranks  the same: scores and ranks of its 20 models and their reference model
    python -m studies.judges gate         `captrial gate` on published captioners: how often its bounds are wrong
    python -m studies.judges tables       put the tables of what is stored into docs/judges.md

Each writes `studies/results/judges_<part>.json`, cell by cell, and continues where it was interrupted; delete the file
to begin again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.compete import Judgement, rank_preferences, read_judgements
from captrial.compete.analysis.confidence_sequence import running_log_wealth
from captrial.data import read_captions, read_references
from captrial.judges import FairBets, corrected_mean, plan_votes, rank_corrected
from captrial.metrics import State, score
from captrial.metrics.significance import GateSettings, check_not_worse
from studies.data_paths import DATA
from studies.preferences import BATTLES, RESULTS, Row, markdown, resumed, share
from studies.printing import run_parts

PAGE = Path(__file__).parents[1] / "docs" / "judges.md"
PUBLISHED = DATA / "captioners" / "karpathy_test"
VOTES = (20, 50, 200)
RATES = (0.5, 0.8, 0.9)
ITEMS_A_VOTE = 10
RATE_DRAWS, RANKING_DRAWS, SEQUENCE_DRAWS, BATTLE_DRAWS, GATE_DRAWS = 1000, 1000, 1000, 1000, 1000
THREE_DRAWS = 250
BATTLE_RANK_DRAWS = 200  # of 21 models each
LIMIT_DRAWS = 1_000_000
TIES = 0.1  # share of votes
LONGER = 0.7  # share of items on which the first model's caption is the longer one

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Judge:
    """Right with probability `accuracy` on an item; biases come before its opinion."""

    accuracy: float
    position: float = 0.0
    length: float = 0.0
    fresh: bool = False  # another draw for the second order, as by `SimulatedJudge`; else the same opinion in both

    def verdicts(self, votes: Floats, longer: NDArray[np.bool_], random: np.random.Generator) -> Floats:
        """Mean verdicts (n,) over both orders; a tie of people is a coin for it."""
        n = len(votes)
        truth = np.where(votes == 0.5, random.random(n) < 0.5, votes > 0.5)
        opinions = [np.where(random.random(n) < self.accuracy, truth, ~truth) for _ in range(1 + self.fresh)]
        opinions = [np.where(random.random(n) < self.length, longer, opinion) for opinion in opinions]
        shown = zip((True, False), (opinions[0], opinions[-1]), strict=True)
        return np.asarray(np.mean([np.where(random.random(n) < self.position, *each) for each in shown], axis=0))


JUDGES = {
    "always right": Judge(1.0),
    "95%": Judge(0.95),
    "90%": Judge(0.9),
    "75%": Judge(0.75),
    "60%": Judge(0.6),
    "40%": Judge(0.4),
    "always wrong": Judge(0.0),
    "90%, position bias 0.5": Judge(0.9, position=0.5),
    "90%, length bias 0.5": Judge(0.9, length=0.5),
    "60%, both 0.5": Judge(0.6, 0.5, 0.5),
    "90%, orders apart": Judge(0.9, fresh=True),
}


def draw_votes(rate: float, count: int, random: np.random.Generator) -> Floats:
    """Votes (n,) for the first model, whose mean is `rate` with ties half."""
    won = (rate - TIES / 2) / (1 - TIES)
    votes = (random.random(count) < won).astype(np.float64)
    votes[random.random(count) < TIES] = 0.5
    return votes


# Win rates ----------------------------------------------------------------------------------------------------------


def study_rates() -> list[Row]:
    """Coverage of nominal 95% intervals of a win rate, ten judged items a vote."""
    cells = {
        f"{name}, {rate}, {votes} votes": partial(_rate_row, name, rate, votes)
        for name, rate, votes in product(JUDGES, RATES, VOTES)
    }
    return resumed("rates", cells, "judges")


def _rate_row(name: str, rate: float, votes: int) -> Row:
    random = np.random.default_rng([VOTES.index(votes), RATES.index(rate), list(JUDGES).index(name)])
    count = ITEMS_A_VOTE * votes
    found: dict[str, list[tuple[bool, float]]] = {"corrected": [], "people": [], "judge": []}
    errors, weights = [], []
    for _ in range(RATE_DRAWS):
        truth = draw_votes(rate, count, random)
        verdicts = JUDGES[name].verdicts(truth, random.random(count) < LONGER, random)
        human = np.where(np.arange(count) < votes, truth, np.nan)  # items are alike: the first are a random part
        mean = corrected_mean(human, verdicts)
        for kind, hits in found.items():
            one = getattr(mean, kind)
            hits.append((one.low <= rate <= one.high, one.width))
        errors.append(mean.corrected.mean - rate)
        weights.append(mean.weight)
    row: Row = {"judge": name, "rate": rate, "votes": votes, "items": count, "draws": RATE_DRAWS}
    for kind, hits in found.items():
        row |= {f"{kind}_covered": float(np.mean([hit for hit, _ in hits])), f"{kind}_width": _mean_width(hits)}
    needed = (row["corrected_width"] / row["people_width"]) ** 2
    return {**row, "bias": float(np.mean(errors)), "weight": float(np.mean(weights)), "votes_needed": needed}


def study_limits() -> list[Row]:
    """Votes needed at the least by anybody who knows a judge's verdicts and nothing else, whatever the method.

    That is 1 - (1 - 1/10) eta^2, ten items a vote: eta^2 is the share of the variance of votes between verdicts.
    """
    cells = {f"{name}, {rate}": partial(_limit_row, name, rate) for name, rate in product(JUDGES, RATES)}
    return resumed("limits", cells, "judges")


def _limit_row(name: str, rate: float) -> Row:
    random = np.random.default_rng([31, RATES.index(rate), list(JUDGES).index(name)])
    votes = draw_votes(rate, LIMIT_DRAWS, random)
    verdicts = JUDGES[name].verdicts(votes, random.random(LIMIT_DRAWS) < LONGER, random)
    kinds = np.unique(verdicts, return_inverse=True)[1]
    counts = np.bincount(kinds)
    means = np.bincount(kinds, votes) / counts
    eta = float(counts @ (means - votes.mean()) ** 2 / LIMIT_DRAWS / votes.var())
    return {"judge": name, "rate": rate, "draws": LIMIT_DRAWS, "votes_needed": 1 - (1 - 1 / ITEMS_A_VOTE) * eta}


def _mean_width(hits: Sequence[tuple[bool, float]]) -> float:
    return float(np.mean([width for _, width in hits]))


# Rankings -----------------------------------------------------------------------------------------------------------

RANKED_JUDGES = [name for name in JUDGES if name not in ("60%, both 0.5", "90%, orders apart")]
STRENGTHS = np.array([0.8, 0.0, -0.8])
NAMES = tuple("abc")


def study_ranking() -> list[Row]:
    """Coverage of scores and of ranks of three models; votes on all three pairs of 10, 20 or 67 images."""
    chosen = [(name, 20) for name in RANKED_JUDGES]
    chosen += product(("always right", "75%", "90%, length bias 0.5"), (10, 67))
    cells = {f"{name}, {images} images with votes": partial(_ranking_row, name, images) for name, images in chosen}
    return resumed("ranking", cells, "judges")


def _ranking_row(name: str, images: int) -> Row:
    random = np.random.default_rng([7, images, list(JUDGES).index(name)])
    rates = 1 / (1 + np.exp(STRENGTHS[None, :] - STRENGTHS[:, None]))
    truth = (rates.sum(axis=1) - 0.5) / (len(NAMES) - 1)
    ranks = np.arange(1, len(NAMES) + 1)
    found: dict[str, list[float]] = {}
    for _ in range(RANKING_DRAWS):
        everybody, verdicts = _ranking_draw(JUDGES[name], images, random)
        result = rank_corrected(everybody[: len(everybody) // ITEMS_A_VOTE], verdicts)
        for kind in ("corrected", "people", "judge"):
            one = getattr(result, kind)
            low, high = one.score_intervals()
            below, above = one.rank_intervals()
            found.setdefault(f"{kind}_covered", []).append(float(((low <= truth) & (truth <= high)).mean()))
            found.setdefault(f"{kind}_width", []).append(float(np.mean(high - low)))
            found.setdefault(f"{kind}_ranks", []).append(float(((below <= ranks) & (ranks <= above)).mean()))
    row = {"judge": name, "images": images, "draws": RANKING_DRAWS}
    return {**row, **{key: float(np.nanmean(values)) for key, values in found.items()}}


def _ranking_draw(
    judge: Judge, images: int, random: np.random.Generator, strengths: Floats = STRENGTHS
) -> tuple[list[Judgement], list[Judgement]]:
    """What people would say on all images, and verdicts; people vote on the first tenth.

    The longer caption is more often the weaker model's.
    """
    first, second = np.triu_indices(len(NAMES), 1)
    count = ITEMS_A_VOTE * images * len(first)
    place = np.tile(np.arange(len(first)), ITEMS_A_VOTE * images)
    chance = 1 / (1 + np.exp(strengths[second] - strengths[first]))
    votes = (random.random(count) < chance[place]).astype(np.float64)
    verdicts = judge.verdicts(votes, random.random(count) < 1 - LONGER, random)
    image = np.arange(count) // len(first)
    pairs = [(NAMES[i], NAMES[j]) for i, j in zip(first, second, strict=True)]
    rows = zip(image, place, votes, verdicts, strict=True)
    machine = [Judgement(f"{at:05d}", *pairs[pair], float(verdict)) for at, pair, _, verdict in rows]
    everybody = [replace(one, outcome=float(vote)) for one, vote in zip(machine, votes, strict=True)]
    return everybody, machine


def study_strata() -> list[Row]:
    """Scores where half of the votes are on 20 of 200 images that were selected because models differ there."""
    cells = {f"{name}, length bias 0.3": partial(_strata_row, name) for name in ("95%", "75%")}
    return resumed("strata", cells, "judges")


def _strata_row(name: str) -> Row:
    """The first model wins a tenth of the selected images and 80% of the others; people vote on 18 of each."""
    random = np.random.default_rng([37, list(JUDGES).index(name)])
    selected, names = np.arange(200) < 20, [f"{at:03d}" for at in range(200)]
    voted, truth = [*range(18), *range(20, 38)], 0.1 * 0.1 + 0.9 * 0.8
    judge, found = replace(JUDGES[name], length=0.3), dict[str, list[float]]()
    for _ in range(RANKING_DRAWS):
        votes = (random.random(200) < np.where(selected, 0.1, 0.8)).astype(np.float64)
        verdicts = judge.verdicts(votes, np.zeros(200, np.bool_), random)
        judged = [Judgement(at, "a", "b", float(verdict)) for at, verdict in zip(names, verdicts, strict=True)]
        people = [replace(judged[at], outcome=float(votes[at])) for at in voted]
        for kind, strata in (("stratified", selected.astype(np.int64)), ("plain", None)):
            one = rank_corrected(people, judged, strata=strata).corrected
            low, high = one.score_intervals()
            found.setdefault(f"{kind}_covered", []).append(float(low[0] <= truth <= high[0]))
            found.setdefault(f"{kind}_width", []).append(float(high[0] - low[0]))
            found.setdefault(f"{kind}_bias", []).append(float(one.scores[0] - truth))
    return {"judge": name, "draws": RANKING_DRAWS, **{key: float(np.mean(values)) for key, values in found.items()}}


# Sequences ----------------------------------------------------------------------------------------------------------


def study_sequences() -> list[Row]:
    """Confidence sequences (was the truth ever refuted?) and the stop rule (was the best ever put out?)."""
    cells = {
        f"sequence {name}, {rate}": partial(_sequence_row, name, rate) for name, rate in product(JUDGES, (0.7, 0.9))
    }
    cells |= {f"stop {name}, {gap}": partial(_stop_row, name, gap) for name, gap in product(JUDGES, (0.0, 0.1))}
    cells |= {
        f"three models {name}, {gap}": partial(_stop_of_three_row, name, gap)
        for name, gap in product(("75%", "90%, length bias 0.5"), (0.0, 0.8))
    }
    return resumed("sequences", cells, "judges")


def _sequence_row(name: str, rate: float) -> Row:
    votes, count = 200, 2000
    random = np.random.default_rng([11, int(10 * rate), list(JUDGES).index(name)])
    refuted, alone, widths = 0, 0, []
    for _ in range(SEQUENCE_DRAWS):
        truth = draw_votes(rate, count, random)
        verdicts = JUDGES[name].verdicts(truth, random.random(count) < LONGER, random)
        bets = FairBets.of(truth[:votes], verdicts[:votes], float(verdicts.mean()), count)
        refuted += bool(bets.refuted(float(truth.mean()), 0.05).any())
        half = 1.96 * verdicts.std() / np.sqrt(count)
        alone += bool(abs(verdicts.mean() - truth.mean()) <= half)
        if len(widths) < 20:
            low, high = bets.interval(0.05)
            widths.append(high - low)
    covered = 1 - refuted / SEQUENCE_DRAWS
    row = {"judge": name, "rate": rate, "votes": votes, "items": count, "draws": SEQUENCE_DRAWS}
    return {**row, "always_covered": covered, "width": float(np.mean(widths)), "judge_covered": alone / SEQUENCE_DRAWS}


def _stop_row(name: str, gap: float) -> Row:
    """Two models; the first wins a half and `gap` of the votes. Looked at after each of 200 votes; 2 000 items."""
    random = np.random.default_rng([13, int(10 * gap), list(JUDGES).index(name)])
    wrong, settled, needed = 0, 0, []
    for _ in range(SEQUENCE_DRAWS):
        truth = draw_votes(0.5 + gap, 2000, random)
        verdicts = JUDGES[name].verdicts(truth, random.random(2000) < LONGER, random)
        bets = FairBets.of(truth[:200], verdicts[:200], float(verdicts.mean()), 2000)
        out = [  # after each vote: is the first model, is the second put out? As `plan_votes` does for two models
            running_log_wealth(gains(0.5)) >= math.log(1 / 0.05) for gains in (bets.gains_below, bets.gains_above)
        ]
        best = 0 if truth.mean() >= 0.5 else 1
        wrong += bool(out[best].any())
        first = np.flatnonzero(out[0] | out[1])
        settled += bool(len(first))
        needed.append(int(first[0]) + 1 if len(first) else 10**9)
    row = {"judge": name, "gap": gap, "draws": SEQUENCE_DRAWS, "median_votes": None}
    middle = int(np.median(needed))
    row |= {"median_votes": middle} if middle < 10**9 else {}
    return {**row, "best_put_out": wrong / SEQUENCE_DRAWS, "settled": settled / SEQUENCE_DRAWS}


def _stop_of_three_row(name: str, gap: float) -> Row:
    """Three models, of which the first has a larger strength by `gap`; `plan_votes` after 201 of 2 010 items.

    Its evidence is the largest so far, so a model that was ever put out is out in the end.
    """
    random = np.random.default_rng([19, int(10 * gap), list(JUDGES).index(name)])
    wrong, settled, known = 0, 0, 0
    for _ in range(THREE_DRAWS):
        everybody, verdicts = _ranking_draw(JUDGES[name], 67, random, np.array([gap, 0.0, 0.0]))
        best = _best_of(everybody)
        known += best is not None
        plan = plan_votes(everybody[: len(everybody) // ITEMS_A_VOTE], verdicts)
        wrong += best is not None and best not in plan.contenders
        settled += plan.settled
    row = {"judge": name, "gap": gap, "draws": THREE_DRAWS, "with_a_best": known / THREE_DRAWS}
    return {**row, "best_put_out": wrong / THREE_DRAWS, "settled": settled / THREE_DRAWS}


def _best_of(votes: Sequence[Judgement]) -> str | None:
    """The model that beats every other on all items; None where none does."""
    ahead: dict[tuple[str, str], float] = {}
    for one in votes:
        for pair, side in (((one.first, one.second), 1), ((one.second, one.first), -1)):
            ahead[pair] = ahead.get(pair, 0.0) + side * (one.outcome - 0.5)
    return next((name for name in NAMES if all(ahead[name, other] > 0 for other in NAMES if other != name)), None)


# Battles ------------------------------------------------------------------------------------------------------------


BATTLE_JUDGES = ("95%", "90%", "75%", "60%", "40%", "90%, position bias 0.5", "90%, length bias 0.5")


def study_battles() -> list[Row]:
    """Win rates of 20 VLMs against one; questions are drawn with replacement, the truth is that of all questions."""
    found = _battle_votes(read_judgements(BATTLES))[1]
    votes = {str(number): row[~np.isnan(row)] for number, row in enumerate(found)}
    cells: dict[str, Callable[[], Row]] = {
        f"{name}, {count} votes": partial(_battle_row, votes, name, count)
        for name, count in product(BATTLE_JUDGES, (20, 50))
    }
    return resumed("battles", cells, "judges")


def _battle_votes(judgements: Sequence[Judgement]) -> tuple[tuple[str, ...], Floats]:
    """The models, the reference model last, and the share of each other against it by question; NaN without battle."""
    reference = max({one.first for one in judgements}, key=lambda name: sum(one.first == name for one in judgements))
    found: dict[tuple[str, str], list[float]] = {}
    for one in judgements:
        if one.first == one.second:  # the reference model against itself: nothing to estimate
            continue
        other = one.second if one.first == reference else one.first
        share_of = one.outcome if one.second == reference else 1 - one.outcome
        found.setdefault((other, one.image), []).append(share_of)
    models, questions = (list(dict.fromkeys(key[side] for key in found)) for side in (0, 1))
    shares = np.full((len(models), len(questions)), np.nan)
    for (model, question), values in found.items():
        shares[models.index(model), questions.index(question)] = np.mean(values)
    return (*models, reference), shares


def _battle_row(votes: dict[str, Floats], name: str, count: int) -> Row:
    random = np.random.default_rng([17, count, list(JUDGES).index(name)])
    found: dict[str, list[tuple[bool, float]]] = {"corrected": [], "people": [], "judge": []}
    draws = BATTLE_DRAWS // len(votes)
    for model in votes:
        truth = float(votes[model].mean())
        for _ in range(draws):
            drawn = random.choice(votes[model], 500)
            verdicts = JUDGES[name].verdicts(drawn, random.random(500) < LONGER, random)
            mean = corrected_mean(np.where(np.arange(500) < count, drawn, np.nan), verdicts)
            for kind, hits in found.items():
                one = getattr(mean, kind)
                hits.append((one.low <= truth <= one.high, one.width))
    row: Row = {"judge": name, "votes": count, "items": 500, "draws": draws * len(votes)}
    for kind, hits in found.items():
        row |= {f"{kind}_covered": float(np.mean([hit for hit, _ in hits])), f"{kind}_width": _mean_width(hits)}
    return {**row, "votes_needed": (row["corrected_width"] / row["people_width"]) ** 2}


def study_battle_ranks() -> list[Row]:
    """Scores and ranks of 20 VLMs and of the model that all were compared with, by votes on 50 of 500 questions."""
    models, shares = _battle_votes(read_judgements(BATTLES))
    cells = {
        f"{name}, 50 questions with votes": partial(_battle_ranks_row, models, shares, name)
        for name in ("95%", "75%", "90%, length bias 0.5")
    }
    return resumed("battle_ranks", cells, "judges")


def _battle_ranks_row(models: tuple[str, ...], shares: Floats, name: str) -> Row:
    random = np.random.default_rng([29, list(JUDGES).index(name)])
    whole = rank_preferences(_battles(models, shares), models=models)
    found: dict[str, list[float]] = {}
    for _ in range(BATTLE_RANK_DRAWS):
        drawn = shares[:, random.integers(shares.shape[1], size=500)]
        verdicts = JUDGES[name].verdicts(np.nan_to_num(drawn).ravel(), random.random(drawn.size) < LONGER, random)
        verdicts = np.where(np.isnan(drawn), np.nan, verdicts.reshape(drawn.shape))
        result = rank_corrected(_battles(models, drawn[:, :50]), _battles(models, verdicts))
        order = [result.items.models.index(model) for model in models]
        for kind in ("corrected", "people", "judge"):
            one = getattr(result, kind)
            low, high = (bound[order] for bound in one.score_intervals())
            below, above = (bound[order] for bound in one.rank_intervals())
            scores, ranks = (
                (low <= whole.scores) & (whole.scores <= high),
                (below <= whole.ranks) & (whole.ranks <= above),
            )
            found.setdefault(f"{kind}_covered", []).append(float(scores.mean()))
            found.setdefault(f"{kind}_ranks", []).append(float(ranks.mean()))
            found.setdefault(f"{kind}_rank_width", []).append(float((above - below).mean()))
            found.setdefault(f"{kind}_width", []).append(float((high - low).mean()))
    row = {"judge": name, "questions": 50, "of": 500, "draws": BATTLE_RANK_DRAWS}
    return {**row, **{key: float(np.nanmean(values)) for key, values in found.items()}}


def _battles(models: tuple[str, ...], shares: Floats) -> list[Judgement]:
    """Battles of all models with the last; shares (models - 1, questions), NaN where there was none."""
    places = zip(*np.nonzero(~np.isnan(shares)), strict=True)
    return [
        Judgement(f"{question:03d}", models[at], models[-1], float(shares[at, question])) for at, question in places
    ]


# The gate -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Some images of a metric's state."""

    state: State
    rows: NDArray[np.int64]

    def statistics(self) -> Floats:
        return np.asarray(self.state.statistics()[self.rows])

    def corpus_scores(self, totals: Floats) -> dict[str, Floats]:
        return self.state.corpus_scores(totals)


def study_gate() -> list[Row]:
    """Captions of 5 000 images play the truth; images are drawn with replacement."""
    cells = {
        f"{pair[0]} to {pair[1]}, {metric}, {images}": partial(_gate_row, pair, metric, images)
        for pair, metric, images in product((("SATIC", "Paddle-UpDown"),), ("cider", "bleu_4"), (20, 50, 200))
    }
    return resumed("gate", cells, "judges")


def _gate_row(pair: tuple[str, str], column: str, images: int) -> Row:
    references = read_references(PUBLISHED / "references.json")
    captions = {name: read_captions(PUBLISHED / f"{name}.json", known_ids=references).to_dict() for name in pair}
    captions = {name: {image: of[image] for image in references} for name, of in captions.items()}
    table = score(captions, references, [column])
    states = [next(iter(table.states[name].values())) for name in pair]
    values = [table.scores[name][column].corpus for name in pair]
    truth = values[1] - values[0]
    random = np.random.default_rng([23, images])
    low, high = [], []
    for seed in range(GATE_DRAWS):
        rows = random.integers(len(references), size=images)
        parts: dict[str, Any] = dict(zip(("old", "new"), (_Part(state, rows) for state in states), strict=True))
        result = check_not_worse(parts, column, GateSettings(risk=0.05, replicates=500, seed=seed))
        low.append(result.low)
        high.append(result.high)
    row = {"old": pair[0], "new": pair[1], "metric": column, "images": images, "draws": GATE_DRAWS, "truth": truth}
    wrong = {"low_wrong": float(np.mean(np.array(low) > truth)), "high_wrong": float(np.mean(np.array(high) < truth))}
    return {**row, **wrong, "width": float(np.mean(np.array(high) - np.array(low)))}


# Tables of the page -------------------------------------------------------------------------------------------------


def page_tables() -> dict[str, list[str]]:
    """The Markdown tables of docs/judges.md, from the stored results."""
    stored = {part: orjson.loads((RESULTS / f"judges_{part}.json").read_bytes()) for part in PARTS}
    kinds = ("corrected", "people", "judge")
    return {
        "rates": markdown(
            [
                *("judge", "votes", "items", *(f"{kind} covers" for kind in kinds)),
                *("width", "people alone", "votes needed", "at the least"),
            ],
            [
                [*_rate_line(name, votes, stored["rates"]), _least_votes(name, stored["limits"])]
                for name, votes in product(JUDGES, VOTES)
            ],
        ),
        "ranking": markdown(
            [
                *("judge", "images with votes", "scores", "ranks", "people alone", "judge alone", "judge's ranks"),
                *("width", "alone"),
            ],
            [
                [
                    *(row["judge"], row["images"], share(row["corrected_covered"]), share(row["corrected_ranks"])),
                    *(share(row[key]) for key in ("people_covered", "judge_covered", "judge_ranks")),
                    *(f"{row[key]:.3f}" for key in ("corrected_width", "people_width")),
                ]
                for row in _in_order(stored["ranking"], RANKED_JUDGES)
            ],
        ),
        "strata": markdown(
            ["judge", *(f"{what}, {kind}" for kind in ("stratified", "plain") for what in ("covers", "bias", "width"))],
            [
                [
                    row["judge"],
                    *(
                        share(row[f"{kind}_{what}"]) if what == "covered" else f"{row[f'{kind}_{what}']:.3f}"
                        for kind in ("stratified", "plain")
                        for what in ("covered", "bias", "width")
                    ),
                ]
                for row in stored["strata"]
            ],
        ),
        "sequences": markdown(
            [
                "judge",
                *(f"{what}, {rate}" for what in ("never refuted", "width", "judge covers") for rate in (0.7, 0.9)),
            ],
            [
                [
                    name,
                    *(share(row["always_covered"]) for row in rows),
                    *(f"{row['width']:.2f}" for row in rows),
                    *(share(row["judge_covered"]) for row in rows),
                ]
                for name, rows in _by_judge(stored["sequences"], "sequence")
            ],
        ),
        "stop": markdown(
            ["judge", "best put out, no lead", "best put out, lead 0.1", "settled within 200 votes", "median votes"],
            [
                [
                    name,
                    *(share(row["best_put_out"]) for row in rows),
                    *(share(rows[1]["settled"]), rows[1]["median_votes"] or "–"),
                ]
                for name, rows in _by_judge(stored["sequences"], "stop")
            ],
        ),
        "three": markdown(
            ["judge", "lead of a strength of 0.8: put out", "settled", "no lead: put out", "settled"],
            [
                [name, *(share(row[key]) for row in rows[::-1] for key in ("best_put_out", "settled"))]
                for name, rows in _by_judge(stored["sequences"], "three")
            ],
        ),
        "battles": markdown(
            ["judge", "votes", *(f"{kind} covers" for kind in kinds), "width", "people alone", "votes needed"],
            [
                [
                    *(row["judge"], row["votes"]),
                    *(share(row[f"{kind}_covered"]) for kind in kinds),
                    *(f"{row[f'{kind}_width']:.3f}" for kind in kinds[:2]),
                    share(row["votes_needed"]),
                ]
                for row in _in_order(stored["battles"], BATTLE_JUDGES)
            ],
        ),
        "battle_ranks": markdown(
            [
                *("judge", *(f"{kind} covers" for kind in kinds), "width", "people alone"),
                *("ranks cover", "ranks left to a model", "by people alone"),
            ],
            [
                [
                    *(row["judge"], *(share(row[f"{kind}_covered"]) for kind in kinds)),
                    *(f"{row[f'{kind}_width']:.3f}" for kind in kinds[:2]),
                    share(row["corrected_ranks"]),
                    *(f"{row[f'{kind}_rank_width'] + 1:.1f}" for kind in kinds[:2]),
                ]
                for row in stored["battle_ranks"]
            ],
        ),
        "gate": markdown(
            ["old to new", "metric", "images", "lower bound wrong", "upper bound wrong", "mean width"],
            [
                [
                    *(f"{row['old']} to {row['new']}", row["metric"], row["images"]),
                    *(share(row["low_wrong"]), share(row["high_wrong"]), f"{row['width']:.3f}"),
                ]
                for row in stored["gate"]
            ],
        ),
    }


def _in_order(rows: Sequence[Row], judges: Iterable[str]) -> list[Row]:
    """By judge and number of images, else as they were stored."""
    place = {name: number for number, name in enumerate(judges)}
    return sorted(rows, key=lambda row: (place[row["judge"]], row.get("images", 0)))


def _by_judge(rows: Sequence[Row], kind: str) -> list[tuple[str, list[Row]]]:
    """The rows of each judge whose cells begin with `kind`."""
    own = _in_order([row for row in rows if row["cell"].startswith(kind)], JUDGES)
    return [(name, list(of)) for name, of in groupby(own, key=lambda row: str(row["judge"]))]


def _rate_line(name: str, votes: int, rows: Sequence[Row]) -> list[object]:
    """Over the win rates: the lowest and highest coverage, mean widths."""
    own = [row for row in rows if row["judge"] == name and row["votes"] == votes]
    cells: list[object] = [name, votes, own[0]["items"]]
    for kind in ("corrected", "people", "judge"):
        values = [row[f"{kind}_covered"] for row in own]
        cells.append(f"{share(min(values))} to {share(max(values))}")
    widths = [float(np.mean([row[f"{kind}_width"] for row in own])) for kind in ("corrected", "people")]
    return [*cells, *(f"{width:.3f}" for width in widths), _range([row["votes_needed"] for row in own])]


def _least_votes(name: str, rows: Sequence[Row]) -> str:
    return _range([row["votes_needed"] for row in rows if row["judge"] == name])


def _range(shares: Sequence[float]) -> str:
    return " to ".join(f"{bound:.0%}" for bound in (min(shares), max(shares)))


PARTS: dict[str, Callable[[], list[Row]]] = {
    "rates": study_rates,
    "limits": study_limits,
    "ranking": study_ranking,
    "strata": study_strata,
    "sequences": study_sequences,
    "battles": study_battles,
    "battle_ranks": study_battle_ranks,
    "gate": study_gate,
}


def main(names: Sequence[str]) -> None:
    """Run the parts that are named, or all, and print their rows; `tables` writes those of the page."""
    run_parts(PARTS, names, PAGE, page_tables)


if __name__ == "__main__":
    main(sys.argv[1:])
