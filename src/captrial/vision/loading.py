"""From the description in a checkpoint or feature store back to the backbone that made the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from captrial.errors import InputError, MismatchError
from captrial.vision.backbone import Backbone
from captrial.vision.efficientnet import EfficientNetLite

_LITE = "efficientnet-lite"


def load_backbone(vision: Mapping[str, Any]) -> Backbone:
    """The backbone that `Backbone.describe` described; refuses one that would see pictures differently."""
    name, how = str(vision.get("backbone", "")), vision.get("preprocess", {})
    version = name.removeprefix(_LITE)
    if not name.startswith(_LITE) or not version.isdigit():
        raise InputError(
            f"this captioner looks through {name or 'nothing'!r}, which cannot be made from its name alone"
        )
    backbone = EfficientNetLite(int(version), int(how["size"]), str(how["mode"]))
    if backbone.describe() != {**vision, "preprocess": {**how, "mean": tuple(how["mean"]), "std": tuple(how["std"])}}:
        raise MismatchError(f"the installed {name} does not see pictures as this captioner was trained to")
    return backbone
