"""Figures of Liu 2017: target maps (Fig. 3), histograms of improvement (Fig. 4), maps side by side (Fig. 5 and 6).

They are drawn by matplotlib without a display; the format is that of the file's suffix (.png, .pdf, .svg).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image

from captrial.attribution.dataset_attribution import CaptionAttributor
from captrial.attribution.word_maps import square_maps, stretch_contrast
from captrial.data.datasets.coco import region_shapes
from captrial.data.images import open_image
from captrial.data.sample_sizes import size_of, with_size
from captrial.errors import InputError
from captrial.files import atomic_path
from captrial.grounding.attention_correctness import (
    OF_CLASSES,
    OF_REFERENCES,
    AttentionResult,
    PhraseScore,
    share_inside,
)
from captrial.grounding.attention_tables import improvements, same_matches
from captrial.grounding.phrases import forced_phrases, generated_phrases, has_phrases
from captrial.language.class_words import scene_words
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize_all
from captrial.records import Box, Region, Sample
from captrial.training.attention_supervision import (
    Painter,
    label_by_head_nouns,
    noun_positions,
    to_elements,
    weak_targets,
)
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.preprocess import Preprocess, union_on_square

Floats = NDArray[np.float64]
COLOURS = ("#2f6fb0", "#d9822b", "#3f9d6c", "#8a63b8")
BOX = "#e5484d"
TEXT: dict[str, Any] = {"fontsize": 8}
CELLS = 14  # a side of the attention map that target maps are shown on
TARGETS = 4  # images with target maps
LOOKED_THROUGH = 200  # images among which those with a scene word are sought
DETERMINERS = frozenset({"a", "an", "the", "his", "her", "its", "their", "some", "of", "and"})


@dataclass(frozen=True, eq=False)
class FigurePanel:
    """A map on an image: its title, the ground-truth boxes, and a line below."""

    title: str
    map: Floats | None = None  # (s, s); None shows the image alone
    boxes: tuple[Box, ...] = ()  # relative to the square
    below: str = ""


def draw_panels(
    rows: Sequence[tuple[Image.Image, Sequence[FigurePanel]]], path: Path, captions: Sequence[str] = ()
) -> Path:
    """Images in rows, panels side by side (Fig. 3, 5, 6), `captions` under the rows.

    Images are the squares that the model saw; a map is stretched in contrast and overlaid in yellow.
    """
    if not rows:
        raise InputError("no panel to draw: no phrase was measured")
    columns = max(len(panels) for _, panels in rows)
    figure = Figure(figsize=(2.1 * columns, 2.85 * len(rows)), dpi=150)
    figure.set_layout_engine("constrained", h_pad=0.24)  # for the captions
    grid: Any = figure.subplots(len(rows), columns, squeeze=False)
    lines = []
    for number, (image, panels) in enumerate(rows):
        for column in range(columns):
            axes = grid[number][column]
            axes.set_axis_off()
            if column < len(panels):
                _draw_panel(axes, image, panels[column])
        if captions:
            text = textwrap.fill(captions[number], 30 * columns)
            lines.append(grid[number][0].text(0, -0.13, text, transform=grid[number][0].transAxes, va="top", **TEXT))
            lines[-1].set_in_layout(False)  # it runs under all panels of the row
    figure.draw_without_rendering()  # fixes the layout
    figure.set_layout_engine("none")
    for line in lines:
        line.set_in_layout(True)  # else the last one would be cut off
    return _save(figure, path)


def _draw_panel(axes: Axes, image: Image.Image, panel: FigurePanel) -> None:
    pixels = np.asarray(image.convert("RGB"), np.float64) / 255
    side = len(pixels)
    if panel.map is not None:
        light = np.asarray(_resized(stretch_contrast(panel.map.reshape(1, -1)).reshape(panel.map.shape), side))
        grey = np.repeat(pixels.mean(2, keepdims=True), 3, axis=2) * 0.45
        pixels = np.clip(grey + light[..., None] * (0.35 * pixels + np.array([0.42, 0.36, 0.05])), 0, 1)
    axes.imshow(pixels)
    for box in panel.boxes:
        corner, width, height = (box.x1 * side - 0.5, box.y1 * side - 0.5), box.x2 - box.x1, box.y2 - box.y1
        axes.add_patch(Rectangle(corner, width * side, height * side, fill=False, edgecolor=BOX, linewidth=1.6))
    axes.set_title(panel.title, **TEXT)
    if panel.below:
        axes.text(0.5, -0.03, panel.below, transform=axes.transAxes, ha="center", va="top", fontsize=7)


def _resized(values: Floats, side: int) -> Floats:
    image = Image.fromarray(values.astype(np.float32)).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image, np.float64)


def draw_histograms(improvements: Mapping[str, Floats], path: Path, title: str = "") -> Path:
    """Histograms of correctness minus baseline, a line a model (Fig. 4): the more to the right the better."""
    figure = Figure(figsize=(5.2, 3.0), dpi=150, layout="constrained")
    axes = figure.subplots()
    edges = np.linspace(-1, 1, 41).tolist()
    for number, (model, values) in enumerate(improvements.items()):
        colour = COLOURS[number % len(COLOURS)]
        style = ("-", "--", ":", "-.")[number % 4]  # readable without colours too
        mean = f", mean {values.mean():+.3f}" if len(values) else ", no phrase"
        weights = np.full(len(values), 1 / max(len(values), 1))
        axes.hist(
            values, edges, weights=weights, histtype="step", color=colour, linestyle=style, label=f"{model}{mean}"
        )
    axes.axvline(0, color="#98a2b3", linewidth=0.8)
    axes.set_xlabel("attention correctness minus uniform baseline")
    axes.set_ylabel("share of phrases")
    axes.set_title(title, fontsize=9)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center")
    axes.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def _save(figure: Figure, path: Path) -> Path:
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise InputError(f"{path}: figures are written as .png, .pdf or .svg")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], facecolor="white", bbox_inches="tight")
    return path


# Examples of a study --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AttentionStudy:
    """Captioners, their measured attention, and the images: the input of figures."""

    attributors: Sequence[CaptionAttributor]
    results: Sequence[AttentionResult]
    samples: Sequence[Sample]
    similarity: Similarity = field(default_factory=Similarity.default)
    masks: bool = False  # whether regions are their masks, where they have one

    def draw(self, settings: Sequence[str], folder: Path, most: int) -> None:
        """Liu 2017 Fig. 4 for every setting; with `most` examples Fig. 3, 5 and 6."""
        names = [f"{result.model}, {result.method}" for result in self.results]
        for setting in settings:
            values = {name: improvements(result, setting) for name, result in zip(names, self.results, strict=True)}
            draw_histograms(values, folder / f"histogram-{setting}.png", f"{setting} captions")
            if most:
                draw_side_by_side(self, setting, folder / f"examples-{setting}.png", most)
        boxed = any(region.label for sample in self.samples for region in sample.regions)
        if most and (boxed or has_phrases(self.samples)):
            preprocess = self.attributors[0].preprocess
            draw_targets(self.samples, preprocess, folder / "targets.png", self.similarity, masks=self.masks)


def draw_targets(
    samples: Sequence[Sample],
    preprocess: Preprocess,
    path: Path,
    similarity: Similarity | None = None,
    most: int = TARGETS,
    masks: bool = False,
) -> Path:
    """Liu 2017 Fig. 3: target maps of weak supervision for the nouns of a caption, exactly as training uses them.

    A scene word has two: without the list of scene words, by the classes that its vector is near, and with it: uniform.
    Images whose first caption has such a word come first; data with phrases alone is labelled by head nouns.
    """
    similarity = similarity or Similarity.default()
    shown = [with_size(sample) for sample in samples if sample.captions and sample.image.path][:LOOKED_THROUGH]
    if not any(region.label for sample in shown for region in sample.regions):
        shown = label_by_head_nouns(shown)
    nouns, threshold = noun_positions(shown), similarity.threshold - 1e-6
    painter = Painter(shown, preprocess, masks)
    listed = weak_targets(painter, nouns, similarity.sim, threshold, scene_words())
    unlisted = weak_targets(painter, nouns, similarity.sim, threshold)
    rows: list[tuple[bool, Image.Image, list[FigurePanel], str]] = []
    for number, sample in enumerate(shown):
        words = tokenize_all([sample.captions[0]])[0].split()
        with_list, without = listed.maps(number, 0), unlisted.maps(number, 0)
        panels, differs = [FigurePanel("image")], False
        for position, square in sorted(with_list.items()):
            near = without.get(position)
            if square is None and near is not None:
                differs = True
                panels.append(FigurePanel(f"{words[position]}, without the list", _cells(near)))
            below = "uniform: a scene word" if square is None else ""
            panels.append(FigurePanel(words[position], _cells(square), below=below))
        image = _square(sample, preprocess)
        if image is not None and len(panels) > 1:
            rows.append((differs, image, panels[:5], sample.captions[0]))
    rows.sort(key=lambda row: not row[0])  # stable: the first half of the figure shows the list at work
    chosen = [*rows[: most // 2], *[row for row in rows[most // 2 :] if not row[0]][: most - most // 2]] or rows[:most]
    return draw_panels([(image, panels) for _, image, panels, _ in chosen], path, [row[3] for row in chosen])


def _cells(square: Floats | None) -> Floats:
    """A painted square, or a uniform target, as the shares of the cells of an attention grid."""
    shares = to_elements(square, grid_boxes(CELLS, CELLS).double().numpy())
    return shares.reshape(CELLS, CELLS)


def draw_side_by_side(study: AttentionStudy, setting: str, path: Path, most: int = 6) -> Path | None:
    """Liu 2017 Fig. 5 (forced) and 6 (generated): phrases on which the last model gains most over the first.

    Only phrases that all models have, one an image; None if there is none with an image file. A generated caption has
    the maps of two words of the phrase, and phrases with two words come first.
    """
    shared = same_matches(study.results, setting)
    if not shared or not shared[0]:
        return None
    gains = np.array([last.correctness - first.correctness for first, last in zip(shared[0], shared[-1], strict=True)])
    by_id = {sample.id: sample for sample in study.samples}
    rows: list[tuple[Image.Image, list[FigurePanel]]] = []
    captions: list[str] = []
    shown: set[str] = set()
    if setting not in OF_REFERENCES:
        gains += 2.0 * np.array([len(_content_words(score.text)) > 1 for score in shared[0]])
    for number in np.argsort(-gains, kind="stable"):
        score = shared[0][number]
        sample = with_size(by_id[score.image])
        image = None if score.image in shown else _square(sample, study.attributors[0].preprocess)
        if image is None:
            continue
        own = [scores[number] for scores in shared]
        rows.append((image, _model_panels(study, own, sample, setting)))
        captions.append(f"{score.text!r}: {_caption(sample, study.results[-1], own[-1], setting)}")
        shown.add(score.image)
        if len(rows) == most:
            break
    return draw_panels(rows, path, captions) if rows else None


def _model_panels(
    study: AttentionStudy, scores: Sequence[PhraseScore], sample: Sample, setting: str
) -> list[FigurePanel]:
    """The image, then the map of a phrase by every model."""
    panels = [FigurePanel("image")]
    for attributor, result, score in zip(study.attributors, study.results, scores, strict=True):
        words = tokenize_all([_caption(sample, result, score, setting)])[0].split()
        regions = _regions(sample, result, score, setting, study.similarity)
        found = attributor.attribute([sample.id], [[words]])[0][0]
        maps = square_maps(found.weights[score.start : score.start + len(score.text.split())], found.boxes, found.grid)
        width, height = size_of(sample)
        shapes = region_shapes(sample, regions, masks=study.masks)
        mask = union_on_square(shapes, width, height, attributor.preprocess)
        shares = share_inside(maps, mask)
        moved = (attributor.preprocess.move_box(region.box, width, height) for region in regions)
        boxes = tuple(box for box in moved if isinstance(box, Box))
        shown = [int(shares.argmax())] if setting in OF_REFERENCES else _content_words(score.text)[-2:]
        for place in shown:
            word = f", {score.text.split()[place]}" if len(shown) > 1 else ""
            below = f"{shares[place]:.2f} (uniform {score.area:.2f})"
            panels.append(FigurePanel(f"{attributor.name}{word}", maps[place], boxes, below))
    return panels


def _content_words(text: str) -> list[int]:
    """The positions of the words of a phrase that are no determiners; of all words where there are no others."""
    words = text.split()
    found = [place for place, word in enumerate(words) if word not in DETERMINERS]
    return found or list(range(len(words)))


def _caption(sample: Sample, result: AttentionResult, score: PhraseScore, setting: str) -> str:
    return sample.captions[score.caption] if setting in OF_REFERENCES else result.captions[sample.id]


def _regions(
    sample: Sample, result: AttentionResult, score: PhraseScore, setting: str, similarity: Similarity
) -> tuple[Region, ...]:
    classes = setting in OF_CLASSES
    if setting in OF_REFERENCES:
        phrases = forced_phrases([sample], similarity, classes)[0][score.caption]
    else:
        phrases = generated_phrases([sample], result.captions, similarity, classes)[0]
    return next(phrase.regions for phrase in phrases if phrase.start == score.start)


def _square(sample: Sample, preprocess: Preprocess) -> Image.Image | None:
    if sample.image.path is None:
        return None
    return preprocess.to_square(open_image(sample.image.path))
