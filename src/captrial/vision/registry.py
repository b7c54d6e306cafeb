"""One string names any backbone; a description in a checkpoint or feature store leads back to the one that made it.

    efficientnet-lite2                     grid; its weights are installed with captrial[models]
    vgg19:FILE                             grid, conv5_4 (Liu 2017); plain vgg19 takes torchvision's weights
    clip:MODEL                             ViT tokens (Cornia 2022); plain clip is openai/clip-vit-base-patch32
    hf:MODEL                               any transformers vision backbone, by name or folder
    detr:MODEL                             regions with the detector's own features
    localiser                              regions by nouns learnt from captions, pooled from its own grid
    onnx:FILE                              regions pooled from the default grid
    onnx:FILE+hf:MODEL, detr:MODEL+vgg19   regions pooled from the grid behind the plus sign

Settings follow a question mark: `efficientnet-lite2?size=448&mode=crop`, `hf:microsoft/resnet-50?stage=stage3`,
`onnx:FILE?threshold=0.1+efficientnet-lite2?size=448`; docs/vision.md lists them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from captrial.errors import InputError, MismatchError
from captrial.vision.backbones.base import Backbone
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.descriptions import PRECOMPUTED, identity
from captrial.vision.detectors.base import (
    MOST_REGIONS,
    Detector,
    GridDetector,
    RegionBackbone,
)
from captrial.vision.devices import keep_freed_memory
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.features.precomputed import PrecomputedFeatures
from captrial.vision.preprocess import Preprocess

LITE = "efficientnet-lite"
_GRID = re.compile(r"\+(?=(?:efficientnet-lite|vgg19|clip|hf:))")


@dataclasses.dataclass
class Name:
    """One part of a backbone's name, taken apart; a setting that nobody asks for is an error (`done`)."""

    kind: str
    source: str | None
    settings: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Name:
        """Take `kind:source?key=value&key=value` apart.

        >>> Name.parse("hf:microsoft/resnet-50?stage=stage3")
        Name(kind='hf', source='microsoft/resnet-50', settings={'stage': 'stage3'})
        """
        head, _, tail = text.partition("?")
        kind, _, source = head.partition(":")
        return cls(kind, source or None, dict(parse_qsl(tail, keep_blank_values=True)))

    def __str__(self) -> str:
        return self.kind if self.source is None else f"{self.kind}:{self.source}"

    def need_source(self, what: str) -> str:
        """The source, or an error that says what it should be."""
        if self.source is None:
            raise InputError(f"{self.kind} needs {what}: {self.kind}:...")
        return self.source

    def take(self, key: str, kind: Callable[[str], Any], default: Any) -> Any:
        """The value of one setting, converted."""
        if key not in self.settings:
            return default
        value = self.settings.pop(key)
        try:
            return kind(value)
        except ValueError:
            raise InputError(f"{self}: {key}={value} is not understood") from None

    def done(self) -> None:
        """An error where a setting is left."""
        if self.settings:
            raise InputError(f"{self} has no setting {', '.join(self.settings)}")

    def preprocess(self, usual: Preprocess) -> Preprocess:
        """`usual` with the size and mode that are asked for; a crop keeps its share of the image."""
        size = self.take("size", int, usual.size)
        mode = self.take("mode", str, usual.mode)
        return dataclasses.replace(usual, size=size, mode=mode, shorter=round(usual.shorter * size / usual.size))


def split_grid(text: str) -> tuple[str, str | None]:
    """A detector's name and the grid behind its plus sign.

    >>> split_grid("onnx:a+b.onnx?threshold=0.1+efficientnet-lite2?size=448")
    ('onnx:a+b.onnx?threshold=0.1', 'efficientnet-lite2?size=448')
    """
    parts = _GRID.split(text, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else None


def yes(text: str) -> bool:
    """`yes` or `no`."""
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


DEFAULT_GRID = "efficientnet-lite2"
FORMATS = ("tsv", "hdf5", "npz")
TRUTH = "truth"  # not detected but told by the data set, see captrial.training.extraction


def load_backbone(vision: str | Mapping[str, Any], source: str | None = None) -> Backbone:
    """The backbone of a name (see the module), or the one that `Backbone.describe` described.

    A description is met exactly or refused: another network, or other preprocessing, would see images differently.
    `source` is a name to load from where the place in the description is gone.
    """
    keep_freed_memory()
    if isinstance(vision, str):
        return _named(vision)
    backbone = restore_backbone(vision) if source is None else _named(source)
    found, wanted = identity(backbone.describe()), identity(vision)
    different = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
    if different:
        raise MismatchError(
            f"the {backbone.name} found here does not see images as this captioner was trained to: "
            f"another {', '.join(different)}"
        )
    return backbone


def load_detector(name: str) -> Detector:
    """A detector alone: `onnx:FILE`, `detr:MODEL` or `localiser`, with its settings."""
    return _detector(name, features=True)


def load_features(
    name: str,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    boxes: bool = True,
    labels: Sequence[str] | None = None,
) -> FeatureStore | PrecomputedFeatures:
    """Features by image id: a feature store's folder, or `tsv:PATH`, `hdf5:FILE`, `npz:FOLDER` made elsewhere.

    `sizes` (id -> width, height), `boxes` and `labels` are for the latter (see `PrecomputedFeatures`); so are the
    settings `?boxes=no` and `?labels=FILE`, class names one a line.
    """
    if not is_precomputed(name):
        return FeatureStore(name)
    told = Name.parse(name)
    path = told.need_source("the features' file or folder")
    boxes, labels = told.take("boxes", yes, boxes), told.take("labels", _lines, labels)
    told.done()
    if told.kind == "tsv":
        from captrial.vision.features.tsv import TsvFeatures

        return TsvFeatures(path, sizes, boxes, labels)
    if told.kind == "hdf5":
        from captrial.vision.features.hdf5 import Hdf5Features

        return Hdf5Features(path, sizes, boxes, labels)
    from captrial.vision.features.npz import NpzFeatures

    return NpzFeatures(path, sizes, boxes, labels)


def is_precomputed(name: str) -> bool:
    """Whether a name is one of features made elsewhere."""
    return name.partition(":")[0] in FORMATS


def _named(text: str) -> Backbone:
    if Name.parse(text).kind in DETECTORS:
        return _regions(text)
    name = Name.parse(text)
    backbone = _grid_maker(name.kind)(name)
    name.done()
    return backbone


def _grid_maker(kind: str) -> Callable[[Name], Backbone]:
    if kind.removeprefix(LITE).isdigit() and kind.startswith(LITE):
        return _lite
    if kind not in GRIDS:
        if kind.partition("+")[0] == TRUTH:
            raise InputError(
                f"{TRUTH}+GRID (such as {TRUTH}+{DEFAULT_GRID}) is for `captrial features` of a toy world; "
                "train on its store: --features"
            )
        if kind in FORMATS:
            raise InputError(f"{kind} names features, not a backbone; copy them into a store first: captrial features")
        known = ", ".join([f"{LITE}0..2", *GRIDS, *DETECTORS])
        raise InputError(f"no backbone is called {kind!r}; there are: {known} (see docs/vision.md)")
    return GRIDS[kind]


def _lite(name: Name) -> Backbone:
    version = name.kind.removeprefix(LITE)
    size, mode = name.take("size", int, 224), name.take("mode", str, "stretch")
    return EfficientNetLite(int(version), size, mode)


def _vgg(name: Name) -> Backbone:
    from captrial.vision.backbones.vgg import CROP, VGG19

    return VGG19(name.source, name.preprocess(CROP))


def _clip(name: Name) -> Backbone:
    from captrial.vision.backbones.transformers import CLIP, clip, usual_preprocess

    source = name.source or CLIP
    return clip(source, name.preprocess(usual_preprocess(source)), name.take("pickle", yes, False))


def _hf(name: Name) -> Backbone:
    from captrial.vision.backbones.transformers import TransformersBackbone, usual_preprocess

    source = name.need_source("a model by name or folder")
    return TransformersBackbone(
        source,
        name.preprocess(usual_preprocess(source)),
        stage=name.take("stage", str, None),
        class_token=name.take("class", yes, True),
        pickle=name.take("pickle", yes, False),
    )


def _regions(text: str) -> Backbone:
    detecting, grid = split_grid(text)
    name = Name.parse(detecting)
    most, whole = name.take("most", int, MOST_REGIONS), name.take("whole", yes, False)
    detector = DETECTORS[name.kind](name, grid is None)
    name.done()
    shares = grid is None and isinstance(detector, GridDetector)  # one look is enough for both
    pooled = None if detector.width is not None or shares else _named(grid or DEFAULT_GRID)
    return RegionBackbone(detector, pooled, most, whole)


def _detector(text: str, features: bool) -> Detector:
    name = Name.parse(text)
    if name.kind not in DETECTORS:
        raise InputError(f"no detector is called {name.kind!r}; there are: {', '.join(DETECTORS)} (see docs/vision.md)")
    detector = DETECTORS[name.kind](name, features)
    name.done()
    return detector


def _onnx(name: Name, features: bool) -> Detector:
    from captrial.vision.detectors.yolo import OnnxDetector

    return OnnxDetector(
        name.need_source("an ONNX file"),
        name.take("threshold", float, 0.25),
        name.take("iou", float, 0.7),
        name.take("labels", _lines, None),
        name.take("size", _square, None),
    )


def _detr(name: Name, features: bool) -> Detector:
    from captrial.vision.detectors.detr import DetrDetector

    return DetrDetector(
        name.need_source("a model by name or folder"),
        name.take("threshold", float, 0.5),
        name.take("least", int, 1),
        features,
        name.take("pickle", yes, False),
    )


def _localiser(name: Name, features: bool) -> Detector:
    from captrial.vision.detectors.noun_localiser import SHIPPED, NounLocaliser

    return NounLocaliser.from_pretrained(name.source or SHIPPED, look_closer=name.take("finer", yes, True))


def _square(text: str) -> tuple[int, int]:
    return int(text), int(text)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: the class names cannot be read ({error.strerror}); give one name a line") from None


GRIDS: dict[str, Callable[[Name], Backbone]] = {"vgg19": _vgg, "clip": _clip, "hf": _hf}
DETECTORS: dict[str, Callable[[Name, bool], Detector]] = {"onnx": _onnx, "detr": _detr, "localiser": _localiser}


def restore_backbone(vision: Mapping[str, Any]) -> Backbone:
    """The backbone that `Backbone.describe` described, loaded from the place it names."""
    name = str(vision.get("backbone", ""))
    try:
        if "detector" in vision:
            return _restore_regions(vision)
        if name.removeprefix(LITE).isdigit() and name.startswith(LITE):
            how = vision["preprocess"]
            return EfficientNetLite(int(name.removeprefix(LITE)), int(how["size"]), str(how["mode"]))
        if name == "vgg19":
            return _restore_vgg(vision)
        if name.startswith("hf:"):
            return _restore_transformers(vision)
    except KeyError as error:
        raise InputError(f"the description of {name!r} has no {error.args[0]!r}: {dict(vision)}") from None
    if name.startswith(PRECOMPUTED):
        raise InputError(f"these features were brought from elsewhere ({name}): new images cannot be seen that way")
    raise InputError(f"this captioner looks through {name or 'nothing'!r}, which cannot be made from its name alone")


def _restore_vgg(vision: Mapping[str, Any]) -> Backbone:
    from captrial.vision.backbones.vgg import VGG19

    return VGG19(vision["source"], Preprocess.from_description(vision["preprocess"]))


def _restore_transformers(vision: Mapping[str, Any]) -> Backbone:
    from captrial.vision.backbones.transformers import TransformersBackbone

    how = Preprocess.from_description(vision["preprocess"])
    return TransformersBackbone(vision["source"], how, vision["stage"], vision["class_token"])


def _restore_regions(vision: Mapping[str, Any]) -> Backbone:
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
        from captrial.vision.detectors.yolo import OnnxDetector

        return OnnxDetector(how["source"], how["threshold"], how["iou"], how["labels"], tuple(how["frame"]))
    if kind == "detr":
        from captrial.vision.detectors.detr import DetrDetector

        return DetrDetector(how["source"], how["threshold"], how["least"], how["features"])
    if kind == "noun-localiser":
        from captrial.vision.detectors.noun_localiser import NounLocaliser

        return NounLocaliser.from_pretrained(how["source"], look_closer=how["finer"] is not None)
    raise InputError(f"this captioner's regions come from {kind!r}, which cannot be made from its name alone")
