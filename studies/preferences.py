"""Preferences: do intervals cover, does the stop rule keep its word, and what do 10 000 battles between VLMs say?

    python -m studies.preferences coverage    simulated judges: coverage and widths
    python -m studies.preferences stop        simulated judges: errors and images needed of the stop rule
    python -m studies.preferences battles     WildVision-Bench: rankings, length control, battles needed, coverage
    python -m studies.preferences position    simulated judges who prefer the caption shown first
    python -m studies.preferences tables      put the tables of what is stored into docs/preferences.md

Each writes `studies/results/preferences_<part>.json`, cell by cell, and continues where it was interrupted; delete the
file to begin again. docs/preferences.md shows the results.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from captrial.compete import Judgement, read_judgements
from captrial.compete.analysis.preference_analysis import ImageGains, exclusion_evidence, flip_judgements
from captrial.compete.analysis.stability import spearman
from captrial.compete.ranking.preferences import as_comparisons, rank_preferences
from captrial.compete.storage.judgements import read_words, with_words
from captrial.errors import InputError
from captrial.files import atomic_write
from studies.data_paths import DATA
from studies.printing import run_parts
from studies.simulated_judging import World, coverage

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "preferences.md"
BATTLES = DATA / "battles" / "wildvision.jsonl"
WORDS = DATA / "battles" / "wildvision_words.tsv"
IMAGES = (3, 5, 10, 20, 40)
COVERAGE_DRAWS, STOP_RUNS, BATTLE_RUNS, SUBSETS = 500, 1000, 1000, 60


@dataclass(frozen=True)
class Stop:
    """One replay: after how many images one model was left, and whether the best was ever put out."""

    images: int | None
    wrong: bool


def replay_stop(world: World, images: int, seed: int, risk: float = 0.05) -> Stop:
    """Judge image by image and look after each; model 0 is (one of) the best."""
    data = world.comparisons(images, np.random.default_rng(seed))
    return _stop(exclusion_evidence(ImageGains(data).over, data.models), 0, risk)


def _stop(evidence: np.ndarray, best: int, risk: float) -> Stop:
    out = np.maximum.accumulate(evidence, axis=0) >= np.log(1 / risk)  # (images, m)
    left = np.flatnonzero((~out).sum(axis=1) <= 1)
    return Stop(int(left[0]) + 1 if len(left) else None, bool(out[:, best].any()))


# Parts --------------------------------------------------------------------------------------------------------------

Row = dict[str, Any]


def resumed(part: str, cells: Mapping[str, Callable[[], Row]], study: str = "preferences") -> list[Row]:
    """The rows of all cells, each written as soon as it is known: an interrupted study goes on from there."""
    path = RESULTS / f"{study}_{part}.json"
    rows: list[Row] = orjson.loads(path.read_bytes()) if path.is_file() else []
    known = {row["cell"] for row in rows}
    for name, compute in cells.items():
        if name not in known:
            rows.append({"cell": name, **compute()})
            content = orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY)
            atomic_write(path, content + b"\n")
    place = {name: number for number, name in enumerate(cells)}
    return sorted((row for row in rows if row["cell"] in place), key=lambda row: place[row["cell"]])


SHARED = World(image_effect=1.0, nu=0.5)
WORLDS = {
    "2 models, one judge, no ties": World(models=2, spread=0.25),
    "2 models, far apart": World(models=2, spread=1.0, nu=0.3, image_effect=1.0),
    "2 models, three judges": World(models=2, spread=0.5, nu=0.5, image_effect=1.0, judges=3),
    "5 models, images of their own for every pair": replace(SHARED, design="pairs"),
    "5 models, all pairs on every image": SHARED,
    "5 models, all pairs, three judges": replace(SHARED, judges=3),
    "9 models against one": World(models=9, image_effect=1.0, nu=0.3, design="reference"),
    "4 models, position and length controlled": World(models=4, nu=0.5, position=0.5, length=1.0),
}


def study_coverage() -> list[Row]:
    """Nominal 95% intervals of win rates of pairs, scores and ranks."""
    cells: dict[str, Callable[[], Row]] = {}
    for (name, world), images in product(WORLDS.items(), IMAGES):
        if images >= 5 or not world.controls:
            cells[f"{name}: {images}"] = partial(_coverage_row, name, world, images)
    return resumed("coverage", cells)


def _coverage_row(name: str, world: World, images: int) -> Row:
    return {"world": name, "images": images, **asdict(coverage(world, images, COVERAGE_DRAWS))}


def study_stop() -> list[Row]:
    """Errors at a risk of 5%, looked at after every image, and images until the winner was settled."""
    worlds = {
        "2 equal models": World(models=2, spread=0.0, nu=0.3),
        "5 equal models": World(models=5, spread=0.0, nu=0.3, image_effect=0.5),
        "2 models, 60% : 40%": World(models=2, spread=0.2),
        "2 models, 75% : 25%": World(models=2, spread=0.55),
        "5 models, the best 0.5 ahead": World(models=5, spread=0.5, gap=0.25, nu=0.3, image_effect=0.5),
        "9 models, the best 0.75 ahead": World(models=9, spread=1.0, gap=0.5, nu=0.3, image_effect=0.5),
        "9 models against one, 0.75 ahead": World(
            models=9, spread=1.0, gap=0.5, nu=0.3, design="reference", image_effect=0.5
        ),
    }
    return resumed("stop", {name: partial(_stop_row, world) for name, world in worlds.items()})


def _stop_row(world: World) -> Row:
    return _stop_summary([replay_stop(world, 400, seed) for seed in range(STOP_RUNS)])


def _stop_summary(runs: Sequence[Stop]) -> Row:
    needed = sorted(run.images if run.images is not None else 10**9 for run in runs)
    middle = needed[len(needed) // 2]
    return {
        "runs": len(runs),
        "best_put_out": float(np.mean([run.wrong for run in runs])),
        "settled": float(np.mean([run.images is not None for run in runs])),
        "median_images": middle if middle < 10**9 else None,
    }


def study_battles() -> list[Row]:
    """20 VLMs, each against Claude 3 Sonnet on 500 questions, judged by GPT-4o."""
    judgements = with_words(read_judgements(BATTLES), read_words(WORDS))
    cells: dict[str, Callable[[], Row]] = {"rankings": partial(_rankings, judgements)}
    order = [row["model"] for row in rank_preferences(judgements).rows()]
    groups = {
        "all": set(order),
        "without the first": set(order[1:]),
        "without the first two": set(order[2:]),
        "first and third": {order[0], order[2]},
        "first and second": set(order[:2]),
    }
    for name, chosen in groups.items():
        best = next(model for model in order if model in chosen)
        cells[f"needed: {name}"] = partial(_battles_needed, judgements, chosen, best)
    cells |= {f"subset: {count}": partial(_subset, judgements, count) for count in (5, 10, 20, 40, 100)}
    return resumed("battles", cells)


def _rankings(judgements: Sequence[Judgement]) -> Row:
    plain, equal = rank_preferences(judgements), rank_preferences(judgements, control=["length"])
    controlled, words = {row["model"]: row for row in equal.rows()}, _mean_words(judgements)
    lengths = np.array([words[name] for name in plain.models])
    flip = flip_judgements(plain)
    return {
        "judgements": len(plain.comparisons.first),
        "battles": len(np.unique(plain.comparisons.cell)),
        "images": len(plain.images),
        "ties": plain.to_json()["ties"],
        "ranking": [
            {**row, "words": words[row["model"]], "controlled": {key: controlled[row["model"]][key] for key in KEPT}}
            for row in plain.rows()
        ],
        "length": asdict(equal.effects()[0]),
        "srcc_plain_controlled": spearman(plain.scores, equal.scores),
        "srcc_plain_words": spearman(plain.scores, lengths),
        "srcc_controlled_words": spearman(equal.scores, lengths),
        "flip": {"new_winner": flip.new_winner, "images": len(flip.removed), "margin": flip.margin},
    }


KEPT = ("rank", "score", "low", "high", "rank_low", "rank_high")


def _mean_words(judgements: Sequence[Judgement]) -> dict[str, float]:
    counts: dict[str, dict[str, int]] = {}
    for one in judgements:
        for name, length in zip((one.first, one.second), one.words or (), strict=False):
            counts.setdefault(name, {})[one.image] = length
    return {name: float(np.mean(list(lengths.values()))) for name, lengths in counts.items()}


def _battles_needed(judgements: Sequence[Judgement], chosen: set[str], winner: str) -> Row:
    """Questions until the winner among some models was settled at a risk of 5%.

    Questions are drawn with replacement, as if there were many more than 500; the winner is that of all 500.
    """
    reference = judgements[0].first
    kept = [one for one in judgements if {one.first, one.second} <= {*chosen, reference}]
    data, names, _ = as_comparisons(kept)
    rows = [index for index, model in enumerate(names) if model in chosen]
    found = ImageGains(data)
    gains = np.stack([found.over(model)[:, rows] for model in rows], axis=2)  # (questions, i, j)
    best = rows.index(names.index(winner))
    few, random = len(rows) < 5, np.random.default_rng(0)
    runs = []
    for _ in range(BATTLE_RUNS if few else BATTLE_RUNS // 16):
        drawn = gains[random.integers(len(gains), size=(4 if few else 2) * len(gains))]
        runs.append(_stop(exclusion_evidence(partial(np.take, drawn, axis=2), len(rows)), best, 0.05))
    summary = _stop_summary(runs)
    each = len(chosen - {reference})  # battles a question
    middle = summary["median_images"]
    return {"best": winner, **summary, "median_battles": None if middle is None else each * middle}


def _subset(judgements: Sequence[Judgement], count: int) -> Row:
    """Rankings from random questions against those of all 500: coverage of scores, width, SRCC, right winner."""
    by_image: dict[str, list[Judgement]] = {}
    for one in judgements:
        by_image.setdefault(one.image, []).append(one)
    images, random = sorted(by_image), np.random.default_rng(0)
    truths = {control: rank_preferences(judgements, control=control).scores for control in ((), ("length",))}
    draws: dict[str, list[float]] = {}
    for _ in range(SUBSETS):
        kept = [one for at in random.permutation(len(images))[:count] for one in by_image[images[at]]]
        for control, truth in truths.items():
            result = rank_preferences(kept, control=control)
            low, high = result.score_intervals()
            values = {
                "covered": float(((low <= truth) & (truth <= high))[result.known].mean()),
                "width": float(np.nanmedian(high - low)),
                "srcc": spearman(result.scores, truth),
                "winner": float(np.argmax(result.scores) == np.argmax(truth)),
            }
            for key, value in values.items():
                draws.setdefault(f"{'length' if control else 'plain'}_{key}", []).append(value)
    return {"questions": count, "draws": SUBSETS, **{key: float(np.mean(values)) for key, values in draws.items()}}


def study_position() -> list[Row]:
    """Judges who prefer what is shown first: with and without control, and where the best model is always first."""
    cells = {
        f"odds {odds}, {order}": partial(_position_row, odds, order)
        for odds, order in product((1.0, 1.65, 2.72), ("random order", "best model first", "always the same order"))
    }
    return resumed("position", cells)


def _position_row(odds: float, order: str) -> Row:
    world = World(models=3, spread=0.4, nu=0.3, position=float(np.log(odds)))
    truth = World(models=3, spread=0.4, nu=0.3).truth().scores()
    found: dict[str, list[float]] = {"plain_error": [], "controlled_error": [], "covered": [], "odds_found": []}
    for seed in range(300):
        judged = _ordered(world, order, np.random.default_rng(seed))
        found["plain_error"].append(float(rank_preferences(judged).scores[0] - truth[0]))
        try:
            result = rank_preferences(judged, control=["position"])
        except InputError:  # position cannot be told from the strengths
            continue
        low, high = result.score_intervals()
        found["controlled_error"].append(float(result.scores[0] - truth[0]))
        found["covered"].append(float(((low <= truth) & (truth <= high)).mean()))
        found["odds_found"].append(result.effects()[0].odds)
    means = {name: float(np.mean(values)) if values else None for name, values in found.items()}
    return {"odds": odds, "order": order, "draws": 300, **means}


def _ordered(world: World, order: str, random: np.random.Generator) -> list[Judgement]:
    """Judgements of three pairs on 60 images each, in random order or with some models always in front."""
    judged = world.judgements(60, random)
    if order == "random order":
        return judged
    fixed = ("m0",) if order == "best model first" else ("m0", "m1", "m2")
    found: list[Judgement] = []
    while len(found) < 3 * 60:  # draw again until the order is the wanted one
        found += [one for one in judged if one.first < one.second or one.second not in fixed]
        judged = world.judgements(60, random)
    return found[: 3 * 60]


# Tables of the page -------------------------------------------------------------------------------------------------


def page_tables() -> dict[str, list[str]]:
    """The Markdown tables of docs/preferences.md, from the stored results."""
    stored = {part: orjson.loads((RESULTS / f"preferences_{part}.json").read_bytes()) for part in PARTS}
    battles = {row["cell"]: row for row in stored["battles"]}
    needed = [row for name, row in battles.items() if name.startswith("needed")]
    subsets = [row for name, row in battles.items() if name.startswith("subset")]
    subsets.sort(key=lambda row: int(row["questions"]))
    return {
        "coverage": markdown(
            ["judgements", "images", "pairs", "scores", "ranks", "controls", "width, pair", "score", "rank"],
            [
                [
                    row["world"],
                    row["images"],
                    *(share(row[name]) for name in ("pairs", "scores", "ranks", "effects")),
                    *(f"{row[name]:.2f}" for name in ("pair_width", "score_width")),
                    f"{row['rank_width']:.0f}",
                ]
                for row in stored["coverage"]
            ],
        ),
        "stop": markdown(
            ["judgements", "replays", "best put out", "settled within 400 images", "median images"],
            [
                [
                    row["cell"],
                    row["runs"],
                    share(row["best_put_out"]),
                    share(row["settled"]),
                    _known(row["median_images"]),
                ]
                for row in stored["stop"]
            ],
        ),
        "battles": markdown(
            ["rank", "model", "score", "95% interval", "ranks", "words", "equal length: rank", "score", "95% interval"],
            [
                [
                    *(row["rank"], row["model"], *_scored(row), f"{row['rank_low']}–{row['rank_high']}"),
                    *(f"{row['words']:.0f}", row["controlled"]["rank"], *_scored(row["controlled"])),
                ]
                for row in battles["rankings"]["ranking"]
            ],
        ),
        "needed": markdown(
            ["models", "best", "replays", "best put out", "settled", "median questions", "median battles"],
            [
                [
                    *(row["cell"].removeprefix("needed: "), row["best"], row["runs"], share(row["best_put_out"])),
                    *(share(row["settled"]), _known(row["median_images"]), _known(row["median_battles"])),
                ]
                for row in needed
            ],
        ),
        "subsets": markdown(
            [
                "questions",
                "covered",
                "width",
                "SRCC",
                "winner right",
                "equal length: covered",
                "width",
                "SRCC",
                "winner right",
            ],
            [
                [
                    row["questions"],
                    *(
                        cell
                        for kind in ("plain", "length")
                        for cell in (
                            share(row[f"{kind}_covered"]),
                            f"{row[f'{kind}_width']:.2f}",
                            f"{row[f'{kind}_srcc']:.3f}",
                            f"{row[f'{kind}_winner']:.0%}",
                        )
                    ),
                ]
                for row in subsets
            ],
        ),
        "position": markdown(
            ["odds of the first", "shown", "error of the best model's score", "with control", "covered", "odds found"],
            [
                [
                    *(f"{row['odds']:.2f}", row["order"], f"{row['plain_error']:+.3f}"),
                    *("refused" if row[name] is None else f"{row[name]:+.3f}" for name in ("controlled_error",)),
                    share(row["covered"]),
                    "–" if row["odds_found"] is None else f"{row['odds_found']:.2f}",
                ]
                for row in stored["position"]
            ],
        ),
    }


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table as lines of Markdown."""
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def _scored(row: Row) -> tuple[str, str]:
    return f"{row['score']:.3f}", f"{row['low']:.3f}–{row['high']:.3f}"


def share(value: float | None) -> str:
    """As per cent, a dash where there is none."""
    return "–" if value is None else f"{value:.1%}"


def _known(value: int | None) -> object:
    return "–" if value is None else value


PARTS: dict[str, Callable[[], list[Row]]] = {
    "coverage": study_coverage,
    "stop": study_stop,
    "battles": study_battles,
    "position": study_position,
}


def main(names: Sequence[str]) -> None:
    """Run the parts that are named, or all, and print their rows; `tables` writes those of the page."""
    run_parts(PARTS, names, PAGE, page_tables)


if __name__ == "__main__":
    main(sys.argv[1:])
