"""transformers detectors of the DETR type (DETR, Conditional and Deformable DETR, RT-DETR, YOLOS, ...) as detectors.

Boxes come from the set of queries, features from the decoder's last state of each query (or, on request, from a grid).
Checkpoints whose convolutions come from timm need timm and torchvision; those with `use_timm_backbone=False` do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from captrial.errors import InputError
from captrial.records import Box
from captrial.vision.backbones.base import weights_hash
from captrial.vision.descriptions import BackboneName, yes_or_no
from captrial.vision.detectors.base import Detection
from captrial.vision.hub_checkpoints import (
    image_processor_settings,
    load_config,
    load_network,
    refuse_random_weights,
    resolve_source,
)
from captrial.vision.preprocess import RESAMPLING, normalisation, resampling

NO_CLASS = "N/A"  # holes in COCO's numbering, as DETR's checkpoints name them


class DetrDetector(nn.Module):
    """A DETR-type detector by name on the hub or local folder.

    Regions are queries whose best class reaches `threshold`, and the `least` best ones in any case. With `features`
    each has the decoder's state of its query (d_model wide); without, regions are to be pooled from a grid backbone.
    """

    name = "detr"

    def __init__(
        self, source: str, threshold: float = 0.5, least: int = 1, features: bool = True, pickle: bool = False
    ) -> None:
        super().__init__()
        self.source, self.threshold, self.least = resolve_source(source), threshold, least
        config = load_config(self.source)
        self.frame = Frame(image_processor_settings(self.source), source)
        self.network, missing = load_network(self.source, "AutoModelForObjectDetection", config, pickle)
        names = config.id2label
        self.labels: tuple[str, ...] = tuple(names.get(number, NO_CLASS) for number in range(max(names) + 1))
        blank = [self.frame(Image.new("RGB", (32, 32)))]
        refuse_random_weights(self.network, missing, lambda: self._run(blank)[:2], source)
        self.width: int | None = self._run(blank)[2].shape[-1] if features else None

    @torch.no_grad()
    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The regions of each image, best first, boxes in its pixels."""
        pixels = [self.frame(image) for image in images]
        shapes = [part.shape for part in pixels]
        found: dict[int, list[Detection]] = {}
        for shape in dict.fromkeys(shapes):  # with padding, results would depend on the rest of the batch
            rows = [row for row, other in enumerate(shapes) if other == shape]
            logits, boxes, states = self._run([pixels[row] for row in rows])
            for place, row in enumerate(rows):
                found[row] = self._regions(logits[place], boxes[place], states[place], images[row].size)
        return [found[row] for row in range(len(pixels))]

    def describe(self) -> dict[str, Any]:
        """Weights (by content), how images are prepared, thresholds; see `Detector.describe`."""
        return {
            "detector": self.name,
            "source": self.source,
            "weights": self._weights,
            "frame": self.frame.describe(),
            "threshold": self.threshold,
            "least": self.least,
            "features": self.width is not None,
        }

    @cached_property
    def _weights(self) -> str:
        return weights_hash(self.network)

    def _run(self, pixels: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (b, q, classes), relative boxes (b, q, 4) as centre and size, states (b, q, d)."""
        device = next(self.network.parameters()).device
        output = self.network(torch.stack(list(pixels)).to(device))
        queries = output.logits.shape[1]
        states = output.last_hidden_state[:, -queries:]  # YOLOS: the patches' states come first
        return output.logits.cpu(), output.pred_boxes.cpu(), states.cpu()

    def _regions(self, logits: Tensor, boxes: Tensor, states: Tensor, size: tuple[int, int]) -> list[Detection]:
        scores, classes = class_scores(logits, self.labels)
        order = torch.argsort(scores, descending=True, stable=True)
        keep = max(int((scores >= self.threshold).sum()), self.least)
        corners = corner_boxes(boxes, size)
        return [
            Detection(
                Box(*corners[query].tolist()),
                self.labels[classes[query]],
                float(scores[query]),
                feature=states[query].clone() if self.width is not None else None,
            )
            for query in order[:keep].tolist()
            if corners[query, 0] < corners[query, 2] and corners[query, 1] < corners[query, 3]
        ]


def load_detr(name: BackboneName, features: bool) -> DetrDetector:
    """By name: `detr:MODEL?threshold=0.3&least=10`."""
    return DetrDetector(
        name.need_source("a model by name or folder"),
        name.take("threshold", float, 0.5),
        name.take("least", int, 1),
        features,
        name.take("pickle", yes_or_no, False),
    )


def restore_detr(description: Mapping[str, Any]) -> DetrDetector:
    """From a description."""
    how = description
    return DetrDetector(how["source"], how["threshold"], how["least"], how["features"])


class Frame:
    """How a detector's images are resized (their shape kept, or to a fixed size) and normalised."""

    def __init__(self, settings: Mapping[str, Any], source: str) -> None:
        self.mean, self.std = normalisation(settings, source)
        self.resample = resampling(settings, "bilinear")
        size = settings.get("size", 800)
        self.size = dict(size) if isinstance(size, Mapping) else {"shortest_edge": size}
        if "shortest_edge" in self.size:
            self.size.setdefault("longest_edge", settings.get("max_size", 1333))
        elif not {"height", "width"} <= set(self.size):
            raise InputError(f"{source}: images of size {self.size} are not supported for detection")

    def __call__(self, image: Image.Image) -> Tensor:
        """The normalised image, (3, height, width) float32."""
        resized = image.convert("RGB").resize(self.fit(*image.size), RESAMPLING[self.resample])
        pixels = torch.from_numpy(np.asarray(resized).copy()).permute(2, 0, 1).float() / 255
        return (pixels - torch.tensor(self.mean).view(3, 1, 1)) / torch.tensor(self.std).view(3, 1, 1)

    def fit(self, width: int, height: int) -> tuple[int, int]:
        """The (width, height) an image is resized to: shorter side as asked, unless the longer would be too long."""
        if "shortest_edge" not in self.size:
            return int(self.size["width"]), int(self.size["height"])
        short, long = min(width, height), max(width, height)
        exact = min(float(self.size["shortest_edge"]), self.size["longest_edge"] * short / long)
        sides = max(round(exact), 1), max(int(exact * long / short + 1e-6), 1)  # rounded as in DETR's own processor
        return sides if width < height else (sides[1], sides[0])

    def describe(self) -> dict[str, Any]:
        """Plain values that name this preprocessing."""
        return {"size": self.size, "mean": list(self.mean), "std": list(self.std), "resample": self.resample}


def class_scores(logits: Tensor, labels: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Score and class (q,) of each query's best class.

    One column more than there are labels is "no object" (DETR, YOLOS: softmax); as many, and every class has its own
    sigmoid (Deformable DETR, RT-DETR). Classes without a name cannot win.
    """
    chances = logits.sigmoid() if logits.shape[-1] == len(labels) else logits.softmax(-1)[:, : len(labels)]
    named = torch.tensor([label != NO_CLASS for label in labels])
    scores, classes = chances.masked_fill(~named, -1.0).max(-1)
    return scores, classes


def corner_boxes(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Relative centres and sizes (q, 4) as corners in pixels of a (width, height) image, cut off at its border."""
    middle, half = boxes[:, :2], boxes[:, 2:] / 2
    return torch.cat([middle - half, middle + half], 1).clamp(0, 1) * torch.tensor([*size, *size])
