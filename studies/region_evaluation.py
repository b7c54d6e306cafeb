"""How well detectors find what captions mention: average precision, pointing and phrase recall on human boxes.

Protocol for Flickr30k Entities: a class is measured on the images whose captions mention it and that have a box of
it (an object that no caption mentions has no box, so other images say nothing). A box around a group (one box for
"people") is neither to be found nor wrong: detections that lie inside it, or overlap it, are left out unless they
match another box. IoU is that of relative boxes, which is the same as in pixels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from captrial.records import Box, Sample
from captrial.vision.boxes import ScoredBox, areas, average_precision, covered_share, hits, iou_matrix
from captrial.vision.detectors.region_detector import CellPredictions, RegionDetector, log_odds
from captrial.vision.detectors.region_network import SLOTS, TYPES
from studies.region_labels import LabelledImage

Found = dict[str, dict[str, list[ScoredBox]]]  # class -> image -> detections, best first


class Truth(NamedTuple):
    """The human boxes of one class: to be found, and around groups; image -> boxes, both relative."""

    boxes: dict[str, list[Box]]
    groups: dict[str, list[Box]]


def truths(images: Sequence[LabelledImage]) -> dict[str, Truth]:
    """The boxes of every class and type (`type:people`)."""
    found: dict[str, Truth] = defaultdict(lambda: Truth({}, {}))
    for image in images:
        for box in image.boxes:
            types = {f"type:{kind}" for kind in box.types}
            for name in {*types, *box.classes}:
                kept = found[name].groups if box.group else found[name].boxes
                kept.setdefault(image.id, []).append(Box(*box.box))
            if "group of people" in box.classes:
                found["person"].groups.setdefault(image.id, []).append(Box(*box.box))
                found["group of people"].boxes.setdefault(image.id, []).append(Box(*box.box))
    return dict(found)


def frequent_classes(images: Sequence[LabelledImage], count: int = 30) -> list[str]:
    """The merged classes with the most boxes (of training images), without groups."""
    boxes = Counter(name for image in images for box in image.boxes for name in box.classes)
    return [name for name, _ in boxes.most_common() if name != "group of people"][:count]


def class_precision(
    found: Mapping[str, Sequence[ScoredBox]], truth: Truth, iou: float, everywhere: bool = False
) -> float:
    """Average precision of a class on the images that have a box of it, or `everywhere`."""
    chosen = found if everywhere else truth.boxes
    kept = [
        each
        for image in chosen
        for each in _outside_groups(found.get(image, ()), truth.groups.get(image, ()), truth.boxes.get(image, ()), iou)
    ]
    return average_precision(kept, truth.boxes, iou)


def _outside_groups(
    found: Sequence[ScoredBox], groups: Sequence[Box], boxes: Sequence[Box], iou: float
) -> Sequence[ScoredBox]:
    if not groups or not found:
        return found
    corners = np.array([each.box for each in found])
    overlap = iou_matrix(corners, groups)
    both = areas(corners)[:, None] + areas(groups)[None]
    common = overlap * both / (1 + overlap)
    inside = (common / np.maximum(areas(corners)[:, None], 1e-9)).max(1) >= 0.5
    right = iou_matrix(corners, boxes).max(1) >= iou if boxes else np.zeros(len(found), bool)
    return [each for each, within, matched in zip(found, inside, right, strict=True) if matched or not within]


def pointing(found: Mapping[str, Sequence[ScoredBox]], truth: Truth) -> dict[str, float]:
    """Whether the middle of the best detection is in a box, beside the image's centre and chance; means over images."""
    rows = []
    for image, boxes in truth.boxes.items():
        best = found.get(image, ())
        middle = ((best[0].box.x1 + best[0].box.x2) / 2, (best[0].box.y1 + best[0].box.y2) / 2) if best else (-1, -1)
        rows.append((hits(middle, boxes), hits((0.5, 0.5), boxes), covered_share(boxes, (1, 1), 50)))
    means = np.array(rows, float).mean(0) if rows else np.full(3, np.nan)
    return dict(zip(("pointing", "centre", "chance"), means.tolist(), strict=True))


def precision_table(found: Found, truth: Mapping[str, Truth], names: Iterable[str]) -> dict[str, dict[str, float]]:
    """AP at 0.5 and 0.3 (percent), pointing and counts of each class that has boxes."""
    table = {}
    for name in names:
        if name in truth and truth[name].boxes:
            own = found.get(name, {})
            table[name] = {
                "boxes": sum(map(len, truth[name].boxes.values())),
                "images": len(truth[name].boxes),
                "ap50": 100 * class_precision(own, truth[name], 0.5),
                "ap30": 100 * class_precision(own, truth[name], 0.3),
                "ap50_everywhere": 100 * class_precision(own, truth[name], 0.5, everywhere=True),
                "ap30_everywhere": 100 * class_precision(own, truth[name], 0.3, everywhere=True),
                **{key: 100 * value for key, value in pointing(own, truth[name]).items()},
            }
    return table


def mean_row(table: Mapping[str, Mapping[str, float]], names: Iterable[str]) -> dict[str, float]:
    """Means of the columns over classes; sums of the counts."""
    rows = [table[name] for name in names if name in table]
    keys = [key for key in rows[0] if key not in ("boxes", "images")] if rows else []
    sums = {key: sum(row[key] for row in rows) for key in ("boxes", "images")}
    return {"classes": len(rows), **sums, **{key: float(np.mean([row[key] for row in rows])) for key in keys}}


def phrase_recall(
    samples: Sequence[Sample], head: Callable[[str], str | None], search: Callable[[str, str | None], Sequence[Box]]
) -> dict[str, Any]:
    """How often one of the best 1 or 5 boxes for a phrase overlaps one of its boxes, or their hull, by 0.5.

    `head(text)` is the noun of a phrase, `search(image id, noun)` gives boxes, best first. By type and in all.
    """
    rows: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    cache: dict[tuple[str, str | None], Sequence[Box]] = {}
    for sample in samples:
        width, height = sample.image.width or 1, sample.image.height or 1
        for phrase in (phrase for each in sample.phrases for phrase in each):
            if not phrase.regions or phrase.kinds[0] not in TYPES:
                continue
            key = sample.id, head(phrase.text)
            if key not in cache:
                cache[key] = search(*key)
            boxes = np.array([region.box for region in phrase.regions]) / [width, height, width, height]
            hull = np.concatenate([boxes[:, :2].min(0), boxes[:, 2:].max(0)])
            best = iou_matrix(cache[key][:5], np.concatenate([boxes, hull[None]])).max(1, initial=0) >= 0.5
            rows[phrase.kinds[0]].append((bool(best[:1].any()), bool(best.any())))
    rows["all"] = [row for kind in list(rows) for row in rows[kind]]
    return {
        kind: dict(
            zip(("phrases", "recall1", "recall5"), [len(own), *(100 * np.array(own).mean(0)).tolist()], strict=True)
        )
        for kind, own in rows.items()
    }


class Judged(NamedTuple):
    """A region of `RegionDetector` whose class captions mention: its two probabilities, and whether it is right."""

    slot: int
    of_class: float
    noun: float
    right: bool


def calibration_rows(detector: RegionDetector, seen: CellPredictions, image: LabelledImage) -> list[Judged]:
    """The regions of an image whose label's class has a human box there, each with whether it overlaps one by 0.5.

    A noun without a class of its own (its parent is a type) counts where the noun itself was said.
    """
    labels = detector.network.labels
    parents = dict(zip(labels.nouns, labels.parents, strict=True))
    rows = []
    for slot, of_class, noun, region in detector.candidates(replace(seen, size=(1, 1))):
        parent = parents[str(region.label)]
        names = {str(region.label)} if parent.startswith("type:") else {parent}
        boxes = [each.box for each in image.boxes if not each.group and names & {*each.classes, *each.nouns}]
        groups = [each.box for each in image.boxes if each.group]
        if boxes:
            right = bool(iou_matrix([region.box], boxes).max() >= 0.5)
            if right or not groups or iou_matrix([region.box], groups).max() < 0.2:
                rows.append(Judged(slot, of_class, noun, right))
    return rows


def fit_calibration(rows: Sequence[Judged], steps: int = 50, ridge: float = 1.0) -> tuple[tuple[float, ...], ...]:
    """Weights of the two log-odds and an offset for each slot: logistic regression by Newton's method."""
    fitted = []
    for slot in range(len(SLOTS)):
        own = [row for row in rows if row.slot == slot]
        given = np.array([[row.of_class, row.noun] for row in own]).reshape(-1, 2)
        inputs = np.concatenate([log_odds(given), np.ones((len(own), 1))], 1)
        right = np.array([row.right for row in own], float)
        weights = np.array([1.0, 0.0, 0.0])
        for _ in range(steps):
            likely = 1 / (1 + np.exp(-inputs @ weights))
            gradient = inputs.T @ (right - likely) - ridge * (weights - [1, 0, 0])
            curvature = (inputs * (likely * (1 - likely))[:, None]).T @ inputs + ridge * np.eye(3)
            weights = weights + np.linalg.solve(curvature, gradient)
        fitted.append(tuple(round(float(weight), 4) for weight in weights))
    return tuple(fitted)


def reliability(rows: Sequence[Judged], detector: RegionDetector, bins: int = 10) -> dict[str, Any]:
    """Stated scores against how often regions are right, in bins; and the mean distance, weighted by counts."""
    scores = np.array([detector.calibrate(row.slot, np.array(row.of_class), np.array(row.noun)) for row in rows])
    right = np.array([row.right for row in rows], float)
    numbers = np.minimum((scores * bins).astype(int), bins - 1)
    table = [
        {
            "stated": float(scores[numbers == n].mean()),
            "right": float(right[numbers == n].mean()),
            "regions": int((numbers == n).sum()),
        }
        for n in range(bins)
        if (numbers == n).any()
    ]
    error = sum(abs(row["stated"] - row["right"]) * row["regions"] for row in table) / max(len(rows), 1)
    return {"regions": len(rows), "expected_calibration_error": float(error), "bins": table}
