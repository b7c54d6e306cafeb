"""Attention correctness of every layer and head of a captioner's cross-attention, on the references' phrases.

`captrial attend --heads`. Table 1 has the mean over the heads of the last layer; here each has a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from captrial.attribution.dataset_attribution import DatasetAttributor, without_class_token
from captrial.attribution.methods.cross_attention import attend_heads
from captrial.attribution.word_maps import shares_inside
from captrial.data.sample_sizes import with_size
from captrial.grounding.attention_correctness import BATCH, FORCED, OF_CLASSES, ReferenceItem, reference_items
from captrial.grounding.phrases import PhrasePlacer
from captrial.grounding.tables import Cell, Table, estimate
from captrial.language.similarity import Similarity
from captrial.progress import track
from captrial.records import Sample

Floats = NDArray[np.float64]


@dataclass
class HeadScores:
    """Correctness of the phrases of one captioner, by layer and head."""

    model: str
    images: list[str] = field(default_factory=list)  # of each phrase
    areas: list[float] = field(default_factory=list)  # of each phrase: what uniform attention scores
    correctness: dict[tuple[str, int], list[float]] = field(default_factory=dict)  # (layer, head) -> of each phrase


def measure_heads(
    attributor: DatasetAttributor,
    samples: Sequence[Sample],
    setting: str = FORCED,
    *,
    similarity: Similarity | None = None,
    masks: bool = False,
) -> HeadScores:
    """Measure every head on the references; a phrase is its best word (Liu 2017 Eq. 13), for each head of its own."""
    similarity = similarity or Similarity.default()
    placer = PhrasePlacer(attributor.preprocess, masks)
    items = reference_items([with_size(sample) for sample in samples], similarity, setting in OF_CLASSES)
    found = HeadScores(attributor.name)
    for start in track(range(0, len(items), BATCH), f"{attributor.name}, heads"):
        for image, area, scores in _batch(attributor, items[start : start + BATCH], placer):
            found.images.append(image)
            found.areas.append(area)
            for head, value in scores.items():
                found.correctness.setdefault(head, []).append(value)
    return found


@torch.no_grad()
def _batch(
    attributor: DatasetAttributor, items: Sequence[ReferenceItem], placer: PhrasePlacer
) -> Iterator[tuple[str, float, dict[tuple[str, int], float]]]:
    """Image, area and correctness by head of every phrase of some images."""
    features = attributor.features.get([item.sample.id for item in items])
    tokens = attributor.tokens([item.captions for item in items])
    layers = attend_heads(attributor.checkpoint.captioner, features.to(tokens.device), tokens)
    assert features.boxes is not None, "these features have no boxes"
    for number, item in enumerate(items):
        present = features.mask[number]
        boxes = features.boxes[number][present].numpy()
        heads = {
            (layer.layer, head): weights[..., present].double().cpu().numpy()  # (n, t, k)
            for layer in layers
            for head, weights in enumerate(layer.weights[number], 1)
        }
        for caption, phrases in enumerate(item.phrases):
            for phrase in phrases:
                placed = placer.place(item.sample, phrase) if phrase.end <= len(item.captions[caption]) else None
                if placed is None:
                    continue
                scores = {}
                for head, weights in heads.items():
                    own = without_class_token(weights[caption, phrase.start : phrase.end], boxes)
                    scores[head] = float(shares_inside(own.weights, own.boxes, own.grid, placed.mask).max())
                yield item.sample.id, placed.area, scores


def heads_table(results: Sequence[HeadScores], seed: int = 0) -> Table:
    """A row a layer and head, with intervals over images."""
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        areas = np.array(result.areas)
        for (layer, head), values in sorted(result.correctness.items()):
            scores = np.array(values)
            cells = estimate(result.images, np.stack([areas, scores, scores - areas], 1), seed=seed)
            rows.append((result.model, layer, head, len(scores), *cells))
    columns = ("model", "layer", "head", "phrases", "baseline", "correctness", "gain")
    return Table("heads", "Attention correctness by layer and head, forced captions", columns, tuple(rows))
