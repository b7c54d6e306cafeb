"""From the description in a checkpoint or feature store back to the backbone (unchecked: see `load_backbone`).

Pickles are never loaded on the word of a description, which may be a stranger's: people ask for them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from captrial.errors import InputError
from captrial.vision.backbone import Backbone
from captrial.vision.efficientnet import EfficientNetLite
from captrial.vision.preprocess import Preprocess
from captrial.vision.regions import Detector, GridDetector, RegionBackbone

LITE = "efficientnet-lite"
PRECOMPUTED = "precomputed"  # how descriptions of features from elsewhere begin


def restore_backbone(vision: Mapping[str, Any]) -> Backbone:
    """The backbone that `Backbone.describe` described, loaded from the place it names."""
    name = str(vision.get("backbone", ""))
    try:
        if "detector" in vision:
            return _regions(vision)
        if name.removeprefix(LITE).isdigit() and name.startswith(LITE):
            how = vision["preprocess"]
            return EfficientNetLite(int(name.removeprefix(LITE)), int(how["size"]), str(how["mode"]))
        if name == "vgg19":
            return _vgg(vision)
        if name.startswith("hf:"):
            return _transformers(vision)
    except KeyError as error:
        raise InputError(f"the description of {name!r} has no {error.args[0]!r}: {dict(vision)}") from None
    if name.startswith(PRECOMPUTED):
        raise InputError(f"these features were brought from elsewhere ({name}): new pictures cannot be seen that way")
    raise InputError(f"this captioner looks through {name or 'nothing'!r}, which cannot be made from its name alone")


def _vgg(vision: Mapping[str, Any]) -> Backbone:
    from captrial.vision.vgg import VGG19

    return VGG19(vision["source"], Preprocess.from_description(vision["preprocess"]))


def _transformers(vision: Mapping[str, Any]) -> Backbone:
    from captrial.vision.transformer import TransformersBackbone

    how = Preprocess.from_description(vision["preprocess"])
    return TransformersBackbone(vision["source"], how, vision["stage"], vision["class_token"])


def _regions(vision: Mapping[str, Any]) -> Backbone:
    grid, choice = vision["grid"], vision["regions"]
    detector = restore_detector(vision["detector"])
    if isinstance(detector, GridDetector) and vision["detector"]["grid"] == grid:
        pooled: Backbone | None = detector.grid
    else:
        pooled = None if grid is None else restore_backbone(grid)
    return RegionBackbone(detector, pooled, choice["most"], choice["whole"])


def restore_detector(how: Mapping[str, Any]) -> Detector:
    """The detector that `Detector.describe` described."""
    kind = how["detector"]
    if kind == "onnx":
        from captrial.vision.onnx import OnnxDetector

        return OnnxDetector(how["source"], how["threshold"], how["iou"], how["labels"], tuple(how["frame"]))
    if kind == "detr":
        from captrial.vision.detr import DetrDetector

        return DetrDetector(how["source"], how["threshold"], how["least"], how["features"])
    if kind == "noun-localiser":
        from captrial.vision.localiser import NounLocaliser

        return NounLocaliser.from_pretrained(how["source"], look_closer=how["finer"] is not None)
    raise InputError(f"this captioner's regions come from {kind!r}, which cannot be made from its name alone")
