"""The tables of Liu 2017: correctness, correctness by size, caption quality, correlations with other measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from captrial.grounding.attention_correctness import (
    FORCED,
    GENERATED,
    OF_REFERENCES,
    SETTINGS,
    AttentionResult,
    PhraseScore,
)
from captrial.grounding.tables import Cell, Table, estimate

if TYPE_CHECKING:
    from captrial.records import Sample

Floats = NDArray[np.float64]
SIZES = ("small", "medium", "large")
LEVELS = ("low", "middle", "high")
QUALITY = ("bleu", "meteor", "cider")
MEASURES = {"correctness": "correctness", "l1": "-L1", "l2": "-L2", "kl": "-KL", "pointing": "pointing", "auc": "AUC"}
MOST_KINDS = 12  # kinds of entities in a table


def correctness_table(results: Sequence[AttentionResult], seed: int = 0) -> Table:
    """Liu 2017 Table 1: baseline and correctness of every model and setting, pointing game and AUC beside them."""
    rows: list[tuple[Cell, ...]] = []
    for setting in SETTINGS:
        for result in results:
            scores = [score for score in result.scores if score.setting == setting]
            if setting in result.dropped:
                rows.append((setting, result.model, result.method, len(scores), *_means(scores, seed)))
    columns = ("captions", "model", "method", "phrases", "baseline", "correctness", "gain", "pointing", "AUC")
    return Table("correctness", "Attention correctness (Liu 2017 Table 1)", columns, tuple(rows), _notes(results))


def size_table(results: Sequence[AttentionResult], setting: str = GENERATED, seed: int = 0) -> Table | None:
    """Liu 2017 Table 2: terciles by size of the ground truth, over the phrases that all models have; None if none."""
    shared = same_matches(results, setting)
    if not shared or not shared[0]:
        return None
    areas = np.array([score.area for score in shared[0]])
    parts = terciles(areas)
    rows: list[tuple[Cell, ...]] = []
    for number, size in enumerate(SIZES):
        for result, scores in zip(results, shared, strict=True):
            chosen = [score for score, part in zip(scores, parts, strict=True) if part == number]
            rows.append((size, result.model, result.method, len(chosen), *_means(chosen, seed)[:3]))
    columns = ("size", "model", "method", "phrases", "baseline", "correctness", "gain")
    title = f"Attention correctness by the size of the region, {setting} captions (Liu 2017 Table 2)"
    notes = (f"{len(areas)} phrases that every model has; a third of them is {_limits(areas, parts)}",)
    return Table(f"size-{setting}", title, columns, tuple(rows), notes)


def lead_table(results: Sequence[AttentionResult], seed: int = 0) -> Table | None:
    """Differences of every further model from the first, phrase by phrase, with intervals; None if there are none."""
    rows: list[tuple[Cell, ...]] = []
    for setting in SETTINGS:
        for result in results[1:]:
            before, after = same_matches([results[0], result], setting)
            if not before:
                continue
            images = [score.image for score in before]
            leads = np.array([[new.correctness - old.correctness] for old, new in zip(before, after, strict=True)])
            parts = terciles(np.array([score.area for score in before]))
            cells = [*estimate(images, leads, seed=seed)]
            for size in range(len(SIZES)):
                chosen = np.flatnonzero(parts == size)
                cells += estimate([images[number] for number in chosen], leads[chosen], seed=seed)
            rows.append((setting, f"{_label(result)} - {_label(results[0])}", len(leads), *cells))
    columns = ("captions", "models", "phrases", "all", *SIZES)
    return Table("leads", "What a model adds to attention correctness", columns, tuple(rows)) if rows else None


def _label(result: AttentionResult) -> str:
    return result.model if result.method == "attention" else f"{result.model} ({result.method})"


def quality_table(result: AttentionResult, samples: Sequence[Sample], metrics: Sequence[str] = QUALITY) -> Table | None:
    """Liu 2017 Table 4: caption scores by correctness (low, middle, high); None with fewer than three captions.

    A caption's correctness is the mean over its matched phrases; captions without one are left out.
    """
    from captrial.metrics import score as score_captions

    means = caption_correctness(result)
    if len(means) < len(LEVELS):
        return None
    images = list(means)
    parts = terciles(np.array([means[image] for image in images]))
    references = {sample.id: list(sample.captions) for sample in samples}
    rows: list[tuple[Cell, ...]] = []
    columns: list[str] = []
    for number in reversed(range(len(LEVELS))):
        chosen = [image for image, part in zip(images, parts, strict=True) if part == number]
        captions = {image: result.captions[image] for image in chosen}
        table = score_captions(captions, {image: references[image] for image in chosen}, list(metrics))
        values = next(iter(table.to_dict().values()))
        columns = list(values)
        mean = float(np.mean([means[image] for image in chosen]))
        rows.append((LEVELS[number], len(chosen), mean, *(_percent(value) for value in values.values())))
    head = ("correctness", "captions", "mean", *columns)
    notes = (
        f"{result.model}, {result.method}: {len(result.captions) - len(images)} of {len(result.captions)} captions "
        "have no matched phrase and are left out; scores x100, CIDEr with the document frequencies of its third",
    )
    title = "Caption quality by attention correctness (Liu 2017 Table 4)"
    return Table("quality", title, head, tuple(rows), notes, decimals=2)


def caption_correctness(result: AttentionResult) -> dict[str, float]:
    """The mean correctness of each generated caption that has a matched phrase (or else, a noun linked to a class)."""
    measured = {score.setting for score in result.scores}
    setting = next((name for name in SETTINGS if name in measured and name not in OF_REFERENCES), None)
    values: dict[str, list[float]] = {}
    for score in result.scores:
        if score.setting == setting:
            values.setdefault(score.image, []).append(score.correctness)
    return {image: float(np.mean(found)) for image, found in values.items()}


def spearman_table(results: Sequence[AttentionResult], setting: str = FORCED) -> Table:
    """Rank correlations over phrases of any two of the measures: correctness, -L1, -L2, -KL(beta || alpha) ..."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        scores = [score for score in result.scores if score.setting == setting]
        values = {name: np.array([getattr(score, name) for score in scores]) for name in MEASURES}
        for name, title in MEASURES.items():
            cells = [None if other == name else spearman(values[name], values[other]) for other in MEASURES]
            rows.append((result.model, result.method, len(scores), title, *cells))
    title = f"Spearman's correlation of any two measures, {setting} captions"
    return Table("spearman", title, ("model", "method", "phrases", "measure", *MEASURES.values()), tuple(rows))


def kind_table(results: Sequence[AttentionResult], setting: str, seed: int = 0) -> Table | None:
    """Correctness by the kind of the entity (people, clothing, animals ...); None where phrases have no kinds."""
    counts = Counter(score.kind for result in results for score in result.scores if score.setting == setting)
    kinds = [kind for kind, _ in counts.most_common(MOST_KINDS) if kind]
    rows: list[tuple[Cell, ...]] = []
    for kind in kinds:
        for result in results:
            chosen = [score for score in result.scores if score.setting == setting and score.kind == kind]
            rows.append((kind, result.model, result.method, len(chosen), *_means(chosen, seed)))
    columns = ("kind", "model", "method", "phrases", "baseline", "correctness", "gain", "pointing", "AUC")
    title = f"Attention correctness by kind of entity, {setting} captions"
    return Table(f"kind-{setting}", title, columns, tuple(rows)) if rows else None


def spearman(first: Floats, second: Floats) -> float | None:
    """Spearman's rank correlation; None if one of the two does not vary or there are fewer than two values."""
    from scipy.stats import rankdata

    if len(first) < 2 or not np.ptp(first) or not np.ptp(second):
        return None
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def same_matches(results: Sequence[AttentionResult], setting: str) -> list[list[PhraseScore]]:
    """For every model its scores of the phrases that all models have, in one order."""
    found: list[dict[tuple[object, ...], PhraseScore]] = []
    for result in results:
        own: dict[tuple[object, ...], PhraseScore] = {}
        for score in result.scores:
            if score.setting == setting:
                place = (
                    score.start if setting in OF_REFERENCES else None
                )  # a generated caption may have the phrase at any position
                own.setdefault((score.image, score.caption, score.text, place), score)
        found.append(own)
    keys = [key for key in found[0] if all(key in own for own in found)] if found else []
    return [[own[key] for key in keys] for own in found]


def terciles(values: Floats) -> NDArray[np.int64]:
    """0, 1 or 2 for each value: three parts as equal in number as can be, equal values in input order.

    >>> terciles(np.array([5.0, 1.0, 3.0])).tolist()
    [2, 0, 1]
    """
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks * 3 // max(len(values), 1)


def improvements(result: AttentionResult, setting: str) -> Floats:
    """Correctness minus baseline of every phrase (Liu 2017 Fig. 4)."""
    return np.array([score.correctness - score.area for score in result.scores if score.setting == setting])


def _means(scores: Sequence[PhraseScore], seed: int) -> list[Cell]:
    """Baseline, correctness, gain, pointing and AUC, with intervals over images."""
    values = np.array([(s.area, s.correctness, s.correctness - s.area, s.pointing, s.auc) for s in scores])
    return [*estimate([score.image for score in scores], values.reshape(-1, 5), seed=seed)]


def _notes(results: Sequence[AttentionResult]) -> tuple[str, ...]:
    notes = ["baseline: uniform attention (the region's share of the image); ± half of the 95% interval over images"]
    for result in results:
        for setting, counts in result.dropped.items():
            if counts:
                shown = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()))
                notes.append(f"{result.model}, {setting}: left out phrases with {shown}")
    return tuple(notes)


def _limits(areas: Floats, parts: NDArray[np.int64]) -> str:
    edges = [float(areas[parts == number].max()) for number in range(2) if (parts == number).any()]
    return " and ".join(f"up to {100 * edge:.1f}%" for edge in edges) + " of the image"


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def all_tables(results: Sequence[AttentionResult], samples: Sequence[Sample], seed: int = 0) -> list[Table]:
    """Every table that these results allow; the caption-quality table is that of the first model."""
    settings = [setting for setting in SETTINGS if all(setting in result.dropped for result in results)]
    tables: list[Table | None] = [correctness_table(results, seed)]
    tables += [size_table(results, setting, seed) for setting in settings]
    tables += [kind_table(results, setting, seed) for setting in settings]
    tables.append(lead_table(results, seed))
    if any(setting not in OF_REFERENCES for setting in settings):
        tables.append(quality_table(results[0], samples))
    tables += [spearman_table(results, setting) for setting in settings if setting in OF_REFERENCES]
    return [table for table in tables if table is not None]
