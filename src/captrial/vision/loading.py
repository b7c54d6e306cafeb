"""From the description in a checkpoint or feature store back to the backbone that made the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from captrial.errors import InputError, MismatchError
from captrial.vision.backbone import Backbone
from captrial.vision.efficientnet import EfficientNetLite

_LITE = "efficientnet-lite"


def load_backbone(vision: str | Mapping[str, Any]) -> Backbone:
    """A backbone by name (`efficientnet-lite2`), or the very one that `Backbone.describe` described.

    One that would see pictures differently than described is refused.
    """
    if isinstance(vision, str):
        version = vision.removeprefix(_LITE)
        if not vision.startswith(_LITE) or not version.isdigit():
            raise InputError(f"no backbone {vision!r}; there are {_LITE}0, {_LITE}1 and {_LITE}2")
        return EfficientNetLite(int(version))
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
