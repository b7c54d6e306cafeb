"""What there is to look at in an explanation: maps as images, regions a word, verdicts; for pages and figures."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps
from numpy.typing import NDArray
from PIL import Image

from captrial.attribution.attribution import Array, Attribution
from captrial.attribution.regions import region_scores, relative_boxes, stretch_contrast
from captrial.grounding.grounding_score import DELTAS, Grounding, Verdict
from captrial.records import Region

Floats = NDArray[np.float64]
COLOURS = "inferno"  # even in brightness and for colour-blind people
IMAGE_SIDE = 720  # of the image in a page
MAP_SIDE = 112  # of a map; the browser enlarges it smoothly
TOP = 3  # regions listed a word
MARKS = {Verdict.GROUNDED: "✓", Verdict.EARLY: "◷", Verdict.UNCHECKABLE: "?", Verdict.HALLUCINATED: "✗"}


@dataclass(frozen=True, eq=False)
class View:
    """One captioner's words about one image, where it looked, and what to think of its nouns."""

    image: Image.Image
    attribution: Attribution
    regions: Sequence[Region] = ()
    grounding: Grounding | None = None
    captioner: str = ""
    notes: Sequence[str] = ()  # how the verdicts came about: similarity, threshold, labels

    def scores(self) -> Floats:
        """(words, regions): the attribution of each region; (words, 0) where the image has none."""
        boxes = relative_boxes(self.regions, *self.image.size)
        return region_scores(self.attribution.scores, self.attribution.boxes, boxes)

    def maps(self, side: int = MAP_SIDE) -> Floats:
        """(words, rows, columns): stretched maps over the whole image, in [0, 1]."""
        width, height = self.image.size
        scale = side / max(width, height)
        return heat(self.attribution, max(1, round(height * scale)), max(1, round(width * scale)))

    def verdict(self, word: int) -> Verdict | None:
        """The verdict on a word; None where it is no noun, or nothing could be judged."""
        nouns = self.grounding.nouns if self.grounding else ()
        return next((noun.verdict for noun in nouns if noun.position == word), None)


def heat(attribution: Attribution, rows: int, columns: int) -> Floats:
    """Maps (words, rows, columns) over the whole image, each stretched to [0, 1]; what the model did not see is 0.

    Elements that tile a window are enlarged smoothly; regions paint their score into their box, the highest on top.
    """
    stretched = stretch_contrast(attribution.scores)
    if not stretched.shape[1]:
        return np.zeros((len(attribution), rows, columns))
    if attribution.grid is None:
        return _painted(stretched, attribution.boxes, rows, columns)
    left, top, right, bottom = (
        round(edge * side) for edge, side in zip(attribution.window, (columns, rows) * 2, strict=True)
    )
    maps = np.zeros((len(attribution), rows, columns))
    size = (max(right - left, 1), max(bottom - top, 1))
    for number, cells in enumerate(stretched.reshape(-1, *attribution.grid)):
        enlarged = Image.fromarray(cells.astype(np.float32)).resize(size, Image.Resampling.BICUBIC)
        place = np.clip(np.asarray(enlarged), 0, 1)[: rows - top, : columns - left]
        maps[number, top : top + place.shape[0], left : left + place.shape[1]] = place
    return maps


def _painted(scores: Floats, boxes: Array, rows: int, columns: int) -> Floats:
    maps = np.zeros((len(scores), rows, columns))
    for element in range(len(boxes)):
        x1, y1, x2, y2 = np.clip(boxes[element], 0, 1) * (columns, rows, columns, rows)
        area = maps[:, math.floor(y1) : max(math.ceil(y2), 1), math.floor(x1) : max(math.ceil(x2), 1)]
        np.maximum(area, scores[:, element, None, None], out=area)
    return maps


def coloured(values: Floats) -> Image.Image:
    """A map (rows, columns) in [0, 1] as an overlay: the brighter the more opaque."""
    pixels = colormaps[COLOURS](0.15 + 0.85 * values)
    pixels[..., 3] = 0.12 + 0.7 * values
    return Image.fromarray((255 * pixels).astype(np.uint8), "RGBA")


def data_url(image: Image.Image, form: str) -> str:
    """An image as text that an `<img>` shows: JPEG or PNG."""
    stream = io.BytesIO()
    image.save(stream, form, quality=85, optimize=True)
    return f"data:image/{form.lower()};base64,{base64.b64encode(stream.getvalue()).decode()}"


def panel(view: View) -> dict[str, Any]:
    """Everything a page shows of a view, as plain values: what `panel.js` reads."""
    image = view.image.convert("RGB")
    image.thumbnail((IMAGE_SIDE, IMAGE_SIDE))
    scores, width, height = view.scores(), *view.image.size
    found = view.attribution
    words = [
        {
            "text": text,
            "map": data_url(coloured(heated), "PNG"),
            "verdict": verdict and verdict.value,
            "mark": verdict and MARKS[verdict],
            "top": _top(scores[number]),
            "error": None if found.errors is None else float(found.errors[number]),
        }
        for number, (text, heated) in enumerate(zip(found.words, view.maps(), strict=True))
        for verdict in [view.verdict(number)]
    ]
    return {
        "captioner": view.captioner,
        "method": found.method,
        "image": data_url(image, "JPEG"),
        "width": width,
        "height": height,
        "words": words,
        "regions": [
            {"box": list(map(float, region.box)), "label": region.label or "", "score": float(region.score)}
            for region in view.regions
        ],
        "grounding": _array(view.grounding),
        "problem": view.grounding.problem if view.grounding else "grounding was not measured: no labelled regions",
        "notes": list(view.notes),
    }


def _top(scores: Floats) -> list[dict[str, float]]:
    best = np.argsort(-scores, kind="stable")[:TOP]
    total = float(scores.sum()) or 1.0
    return [{"region": int(index), "share": float(scores[index]) / total} for index in best]


def _array(grounding: Grounding | None) -> list[dict[str, Any]]:
    if grounding is None:
        return []
    names = ["∞" if math.isinf(delta) else str(int(delta)) for delta in DELTAS]
    return [{"delta": name, "score": score} for name, score in zip(names, grounding.scores(), strict=True)]
