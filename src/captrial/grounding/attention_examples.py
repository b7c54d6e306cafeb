"""Examples for figures like Liu 2017's: target maps of nouns (Fig. 3), maps of several models side by side (Fig. 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from captrial.attribution.dataset_attribution import CaptionAttributor
from captrial.attribution.maps import square_maps
from captrial.data.images import open_image, size_of, with_size
from captrial.grounding.attention_correctness import attention_correctness
from captrial.grounding.attention_figures import Floats, Panel, draw_panels
from captrial.grounding.attention_study import FORCED, Attended, PhraseScore
from captrial.grounding.attention_tables import same_matches
from captrial.grounding.phrases import forced_mentions, generated_mentions, linked_to_classes
from captrial.language.class_words import is_scene
from captrial.language.nouns import analyse
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize_all
from captrial.records import Box, Region, Sample
from captrial.vision.preprocess import Preprocess, union_on_square

CELLS = 14  # a side of the attention map that target maps are shown on
_Row = tuple[Image.Image, list[Panel]]


def draw_targets(
    samples: Sequence[Sample], preprocess: Preprocess, path: Path, similarity: Similarity | None = None
) -> Path:
    """Liu 2017 Fig. 3: the first caption of each sample, and where its nouns should look by the classes of the boxes."""
    similarity = similarity or Similarity.default()
    rows, captions = [], []
    for sample in map(with_size, samples):
        (one,) = analyse([sample.captions[0]], phrases=False)
        image = _square(sample, preprocess)
        if image is None:
            continue
        mentions = linked_to_classes(one, sample, similarity)
        placed = [mention for mention in mentions if mention.regions or is_scene(mention.text)]
        targets = [Panel(mention.text, _target(sample, mention.regions, preprocess)) for mention in placed]
        rows.append((image, [Panel("image"), *targets[:4]]))
        captions.append(sample.captions[0])
    return draw_panels(rows, path, captions)


def draw_side_by_side(
    attributors: Sequence[CaptionAttributor], results: Sequence[Attended], samples: Sequence[Sample], setting: str, path: Path,
    most: int = 6, similarity: Similarity | None = None,
) -> Path | None:  # fmt: skip
    """Liu 2017 Fig. 5 (forced) and 6 (generated): phrases on which the last model gains most over the first, a row each.

    Only phrases that all models have, one an image; None where there is none with an image file.
    """
    shared = same_matches(results, setting)
    if not shared or not shared[0]:
        return None
    gains = np.array([last.correctness - first.correctness for first, last in zip(shared[0], shared[-1], strict=True)])
    by_id = {sample.id: sample for sample in samples}
    rows: list[_Row] = []
    captions: list[str] = []
    shown: set[str] = set()
    for number in np.argsort(-gains, kind="stable"):
        score = shared[0][number]
        sample = with_size(by_id[score.image])
        image = None if score.image in shown else _square(sample, attributors[0].preprocess)
        if image is None:
            continue
        own = [scores[number] for scores in shared]
        rows.append((image, _panels(attributors, results, own, sample, setting, similarity or Similarity.default())))
        captions.append(f"{score.text!r}: {_caption(sample, results[-1], own[-1], setting)}")
        shown.add(score.image)
        if len(rows) == most:
            break
    return draw_panels(rows, path, captions) if rows else None


def _panels(
    attributors: Sequence[CaptionAttributor],
    results: Sequence[Attended],
    scores: Sequence[PhraseScore],
    sample: Sample,
    setting: str,
    similarity: Similarity,
) -> list[Panel]:
    panels = [Panel("image")]
    for attributor, result, score in zip(attributors, results, scores, strict=True):
        words = tokenize_all([_caption(sample, result, score, setting)])[0].split()
        regions = _regions(sample, result, score, setting, similarity)
        found = attributor.attribute([sample.id], [[words]])[0][0]
        maps = square_maps(found.weights[score.start : score.start + len(score.text.split())], found.boxes, found.grid)
        width, height = size_of(sample)
        mask = union_on_square([Region(region.box) for region in regions], width, height, attributor.preprocess)
        best = maps[int(attention_correctness(maps, mask).argmax())]
        moved = (attributor.preprocess.move_box(region.box, width, height) for region in regions)
        boxes = tuple(box for box in moved if isinstance(box, Box))
        panels.append(Panel(attributor.name, best, boxes, f"{score.correctness:.2f} (uniform {score.area:.2f})"))
    return panels


def _caption(sample: Sample, result: Attended, score: PhraseScore, setting: str) -> str:
    return sample.captions[score.caption] if setting == FORCED else result.captions[sample.id]


def _regions(
    sample: Sample, result: Attended, score: PhraseScore, setting: str, similarity: Similarity
) -> tuple[Region, ...]:
    if setting == FORCED:
        mentions = forced_mentions([sample], similarity)[0][score.caption]
    else:
        mentions = generated_mentions([sample], result.captions, similarity)[0]
    return next(mention.regions for mention in mentions if mention.start == score.start)


def _target(sample: Sample, regions: Sequence[Region], preprocess: Preprocess) -> Floats:
    width, height = size_of(sample)
    if not regions:  # a place word: anywhere
        return np.full((CELLS, CELLS), 1 / CELLS**2)
    mask = union_on_square(regions, width, height, preprocess)
    size = len(mask) // CELLS
    cells = mask.reshape(CELLS, size, CELLS, size).mean((1, 3))
    return np.asarray(cells / max(cells.sum(), 1e-12))


def _square(sample: Sample, preprocess: Preprocess) -> Image.Image | None:
    if sample.image.path is None:
        return None
    return preprocess.to_square(open_image(sample.image.path))
