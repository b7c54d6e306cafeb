"""The tables of docs/attend.md from studies/results/attend (written by `studies.attend_entities measure`).

    python -m studies.attend_tables

Everything about attention comes from the results alone; caption scores need the references of Flickr8k. Intervals
resample the 500 test photographs, with the captions of all seeds of a photograph together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.data.datasets import read_entities
from captrial.grounding.attention_correctness import FORCED, GENERATED, AttentionResult, PhraseScore
from captrial.grounding.attention_tables import (
    LEVELS,
    SIZES,
    caption_correctness,
    correctness_table,
    improvements,
    kind_table,
    lead_table,
    same_matches,
    size_table,
    spearman,
    terciles,
)
from captrial.grounding.figures import draw_histograms
from captrial.grounding.tables import Cell, Estimate, Table
from captrial.metrics import score
from captrial.metrics.scoring import ScoreTable
from captrial.metrics.significance.bootstrap import REPLICATES, interval, resamples
from studies.attend_entities import KINDS, RESULTS, SEEDS
from studies.data_paths import ENTITIES, ROOT

Floats = NDArray[np.float64]
SUPERVISED = KINDS[1:]
QUALITY = {"bleu_3": "BLEU-3", "bleu_4": "BLEU-4", "meteor": "METEOR", "cider": "CIDEr"}
OF_SEED = 100  # captions of seed s have numbers from 100 s on, so that those of several seeds can be pooled


def read(kind: str, seed: int) -> tuple[AttentionResult, dict[str, Any]]:
    """The measured attention of a run, and its whole document."""
    document = orjson.loads((RESULTS / f"{kind}-{seed}.json").read_bytes())
    places = orjson.loads((RESULTS / "phrases.json").read_bytes())
    columns = ("correctness", "pointing", "auc")
    scores = []
    for place, *values in zip(places, *(document["forced"][name] for name in columns), strict=True):
        image, caption, start, area, of = place
        scores.append(PhraseScore(*values, 0, 0, 0, kind, FORCED, image, caption, "", start, area, of))
    own = document["generated"]
    rows = zip(own["places"], own["texts"], *(own[name] for name in columns), strict=True)
    for (image, start, area, of), text, *values in rows:
        scores.append(PhraseScore(*values, 0, 0, 0, kind, GENERATED, image, 0, text, start, area, of))
    dropped = {setting: Counter(counts) for setting, counts in document["dropped"].items()}
    return AttentionResult(kind, "attention", scores, document["captions"], dropped), document


def pooled(results: dict[tuple[str, int], AttentionResult], kind: str) -> AttentionResult:
    """All seeds of a kind as one result."""
    from dataclasses import replace

    own = {seed: result for (name, seed), result in results.items() if name == kind}
    scores = [replace(s, caption=OF_SEED * seed + s.caption) for seed, result in own.items() for s in result.scores]
    dropped = {
        setting: sum((result.dropped[setting] for result in own.values()), Counter[str]())
        for setting in (FORCED, GENERATED)
    }
    return AttentionResult(kind, "attention", scores, {}, dropped)


def seeds_table(results: dict[tuple[str, int], AttentionResult]) -> Table:
    """Correctness of every run, and what supervision adds within a seed, paired by phrase, with its interval."""
    rows: list[tuple[Cell, ...]] = []
    for setting in (FORCED, GENERATED):
        for kind in KINDS:
            means = [_mean(results[kind, seed], setting) for seed in SEEDS]
            rows.append((setting, kind, *means, f"{np.mean(means):.3f} ± {np.std(means, ddof=1):.3f}"))
        for kind in SUPERVISED:
            cells = []
            for seed in SEEDS:
                leads = lead_table([results[KINDS[0], seed], results[kind, seed]])
                assert leads is not None
                row = next(row for row in leads.rows if row[0] == setting)
                cells.append(_bounds(row[3]))
            rows.append((setting, f"{kind} - {KINDS[0]}", *cells, ""))
    columns = ("captions", "model", *(f"seed {seed}" for seed in SEEDS), "mean ± sd")
    return Table("seeds", "Attention correctness by seed; differences with 95% intervals", columns, tuple(rows))


def _mean(result: AttentionResult, setting: str) -> float:
    return float(np.mean([one.correctness for one in result.scores if one.setting == setting]))


def _bounds(cell: Cell, decimals: int = 3) -> str:
    """An estimate as `0.023 [0.017, 0.029]`."""
    assert isinstance(cell, Estimate)
    assert cell.value is not None
    assert cell.low is not None
    assert cell.high is not None
    return f"{cell.value:+.{decimals}f} [{cell.low:+.{decimals}f}, {cell.high:+.{decimals}f}]"


def bootstrap(images: Sequence[str], statistic: Callable[[Floats], float], seed: int = 0) -> Estimate:
    """A statistic of weights on rows, with its interval over resampled images; `images` are those of the rows."""
    names, rows = np.unique(np.asarray(images), return_inverse=True)
    drawn = [statistic(weights[rows]) for block in resamples(len(names), REPLICATES, seed) for weights in block]
    limits = interval(np.array(drawn))
    return Estimate(statistic(np.ones(len(rows))), limits.low, limits.high, len(rows))


def size_contrasts(results: Sequence[AttentionResult]) -> Table:
    """Whether supervision adds most on small regions: its gain there minus its gain on the large ones."""
    rows: list[tuple[Cell, ...]] = []
    for setting in (FORCED, GENERATED):
        for result in results[1:]:
            before, after = same_matches([results[0], result], setting)
            gains = np.array([new.correctness - old.correctness for old, new in zip(before, after, strict=True)])
            parts = terciles(np.array([one.area for one in before]))
            images = [one.image for one in before]
            cells = []
            for other in (1, 2):

                def contrast(weights: Floats, other: int = other, parts: Any = parts, gains: Floats = gains) -> float:
                    means = [np.average(gains[parts == p], weights=weights[parts == p]) for p in (0, other)]
                    return float(means[0] - means[1])

                cells.append(_bounds(bootstrap(images, contrast)))
            rows.append((setting, f"{result.model} - {results[0].model}", len(gains), *cells))
    columns = ("captions", "models", "phrases", f"{SIZES[0]} - {SIZES[1]}", f"{SIZES[0]} - {SIZES[2]}")
    return Table("contrasts", "What supervision adds: differences between sizes", columns, tuple(rows))


def score_all(results: dict[tuple[str, int], AttentionResult], references: dict[str, list[str]]) -> ScoreTable:
    """Caption scores of all runs."""
    captions = {f"{kind}-{seed}": result.captions for (kind, seed), result in results.items()}
    return score(captions, references, ["bleu", "meteor", "cider"])


def captioning_table(table: ScoreTable) -> Table:
    """Liu 2017 Table 3: mean and deviation over seeds."""
    found = table.to_dict()
    rows: list[tuple[Cell, ...]] = []
    for kind in KINDS:
        values = np.array([[100 * float(found[f"{kind}-{seed}"][name] or 0) for name in QUALITY] for seed in SEEDS])
        spread = zip(values.mean(0), values.std(0, ddof=1), strict=True)
        rows.append((kind, *(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in spread)))
    title = "Caption quality, mean ± standard deviation over seeds (Liu 2017 Table 3)"
    return Table("captions", title, ("model", *QUALITY.values()), tuple(rows))


def captioning_tests(table: ScoreTable) -> Table:
    """Differences of caption scores within a seed: bootstrap interval and p of the exchange test."""
    found = {(one.first, one.second, one.metric): one for one in table.compare()}
    rows: list[tuple[Cell, ...]] = []
    for kind in SUPERVISED:
        for seed in SEEDS:
            cells = []
            for name in QUALITY:
                one = found[f"{KINDS[0]}-{seed}", f"{kind}-{seed}", name]
                low, high = -100 * one.interval.high, -100 * one.interval.low
                cells.append(f"{-100 * one.difference:+.1f} [{low:+.1f}, {high:+.1f}], p {one.permutation_p:.2f}")
            rows.append((f"{kind} - {KINDS[0]}", seed, *cells))
    title = "What supervision adds to caption scores (x100); p is corrected for all pairs of the nine runs"
    return Table("caption-tests", title, ("models", "seed", *QUALITY.values()), tuple(rows))


def quality_tables(
    results: dict[tuple[str, int], AttentionResult], table: ScoreTable, references: dict[str, list[str]]
) -> list[Table]:
    """Liu 2017 Table 4 for every kind, means over seeds; and rank correlations of correctness with quality."""
    levels: list[tuple[Cell, ...]] = []
    correlations: list[tuple[Cell, ...]] = []
    per_image = table.per_image().to_pylist()
    of_image = {(row["system"], row["image_id"]): row for row in per_image}
    for kind in KINDS:
        parts = [_by_level(results[kind, seed], references) for seed in SEEDS]
        for place, level in enumerate(reversed(LEVELS)):
            values = np.array([part[place] for part in parts])  # (seeds, columns)
            shown = (f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(values.mean(0), values.std(0, ddof=1), strict=True))
            first, *rest = shown
            levels.append((kind, level, round(float(values[:, 1].mean()), 2), first.split(".")[0], *rest[1:]))
        rows = [
            (image, correctness, of_image[f"{kind}-{seed}", image])
            for seed in SEEDS
            for image, correctness in caption_correctness(results[kind, seed]).items()
        ]
        cells = [_correlation(rows, name) for name in ("bleu_4", "meteor", "cider")]
        correlations.append((kind, len(rows), *cells))
    title = "Caption quality by attention correctness, generated captions, means over seeds (Liu 2017 Table 4)"
    columns = ("model", "correctness", "mean", "captions", *QUALITY.values())
    other = "Spearman's correlation of a caption's correctness with its own score, all seeds, 95% intervals"
    return [
        Table("quality", title, columns, tuple(levels)),
        Table("quality-ranks", other, ("model", "captions", "BLEU-4", "METEOR", "CIDEr"), tuple(correlations)),
    ]


def _by_level(result: AttentionResult, references: dict[str, list[str]]) -> list[list[float]]:
    """Captions, mean correctness and scores of the high, middle and low third of one run."""
    means = caption_correctness(result)
    images = list(means)
    parts = terciles(np.array([means[image] for image in images]))
    rows = []
    for number in reversed(range(len(LEVELS))):
        chosen = [image for image, part in zip(images, parts, strict=True) if part == number]
        captions = {image: result.captions[image] for image in chosen}
        found = score(captions, {image: references[image] for image in chosen}, ["bleu", "meteor", "cider"])
        values = next(iter(found.to_dict().values()))
        mean = float(np.mean([means[image] for image in chosen]))
        rows.append([float(len(chosen)), mean, *(100 * float(values[name] or 0) for name in QUALITY)])
    return rows


def _correlation(rows: Sequence[tuple[str, float, dict[str, Any]]], name: str) -> str:
    first = np.array([correctness for _, correctness, _ in rows])
    second = np.array([float(scores[name] or 0) for *_, scores in rows])

    def ranked(weights: Floats) -> float:
        drawn = np.repeat(np.arange(len(rows)), weights.astype(int))
        return spearman(first[drawn], second[drawn]) or 0.0

    return _bounds(bootstrap([image for image, *_ in rows], ranked), 2)


def measures_table(documents: dict[tuple[str, int], dict[str, Any]]) -> Table:
    """Spearman's correlation of any two measures over forced phrases, means over seeds."""
    names = ["correctness", "-L1", "-L2", "-KL"]
    rows: list[tuple[Cell, ...]] = []
    for kind in KINDS:
        found = [documents[kind, seed]["spearman"][FORCED] for seed in SEEDS]
        for row, name in enumerate(names):
            values = [float(np.mean([one[name][column] for one in found])) for column in range(len(names))]
            rows.append((kind, name, *(None if column <= row else value for column, value in enumerate(values))))
    title = "Spearman's correlation of any two measures, forced captions, means over seeds"
    return Table("measures", title, ("model", "measure", *names), tuple(rows))


def all_study_tables() -> list[Table]:
    """Every table, in the order of the page."""
    both = {(kind, seed): read(kind, seed) for seed in SEEDS for kind in KINDS}
    results = {key: result for key, (result, _) in both.items()}
    documents = {key: document for key, (_, document) in both.items()}
    together = [pooled(results, kind) for kind in KINDS]
    numbers = {image.split("_")[0]: image for image in results[KINDS[0], SEEDS[0]].captions}  # as Entities has them
    found = {one.id.removesuffix(".jpg"): list(one.captions) for one in read_entities(ENTITIES)}
    references = {image: found[number] for number, image in numbers.items()}
    scores = score_all(results, references)
    tables: list[Table | None] = [
        correctness_table(together),
        seeds_table(results),
        size_table(together, GENERATED),
        size_table(together, FORCED),
        lead_table(together),
        size_contrasts(together),
        kind_table(together, FORCED),
        captioning_table(scores),
        captioning_tests(scores),
        *quality_tables(results, scores, references),
        measures_table(documents),
    ]
    return [table for table in tables if table is not None]


def main() -> None:
    """Print the tables as Markdown; draw Liu 2017 Fig. 4."""
    together = [pooled({(kind, seed): read(kind, seed)[0] for seed in SEEDS}, kind) for kind in KINDS]
    for setting in (FORCED, GENERATED):
        values = {result.model: improvements(result, setting) for result in together}
        title = f"{setting} captions, three seeds"
        draw_histograms(values, ROOT / "docs" / "images" / f"attend-histogram-{setting}.png", title)
    for table in all_study_tables():
        print(f"\n### {table.title}\n\n| {' | '.join(table.headings())} |\n|{' --- |' * len(table.columns)}")
        print("\n".join(f"| {' | '.join(row)} |" for row in table.shown()))
        print("".join(f"\n{note}" for note in table.notes))


if __name__ == "__main__":
    main()
