"""The region detector: labelled boxes from EfficientNet-Lite2 and anchor-free heads, learnt from Flickr30k Entities.

    detector = RegionDetector.from_pretrained()
    for region in detector.detect([Image.open("photo.jpg")])[0]:
        print(region.label, region.attributes, region.score, region.box)

A feature pyramid with strides 16, 32 and 64 predicts at every cell, as FCOS does (Tian et al. 2019), distances to the
four sides of a box and scores of classes. Things lie inside each other (a shirt on a person on grass), so a cell has
one box for each of three *slots*: people, animals and vehicles; what they wear and their body parts; everything else.
The class scores are trained towards the overlap of the box (Li et al. 2020, "Generalized focal loss"). A second layer
says which noun a person would use for the box, and which adjectives.

`studies.detector_training` trains it; `weights/region_detector.md` is the card of the shipped weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from captrial.errors import DatasetError, InputError
from captrial.files import atomic_path, atomic_write, content_hash
from captrial.records import Box
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.box_overlap import suppress
from captrial.vision.detectors.base import Detection

SHIPPED = Path(__file__).parent / "weights"
SHIPPED_NAME = "shipped"
WEIGHTS, CONFIG = "region_detector.safetensors", "region_detector.json"
STRIDES = (16, 32, 64)
BLOCKS = {0: (4, 10, 15), 1: (6, 14, 20), 2: (6, 14, 20)}  # last blocks of strides 8, 16 and 32, by version
CHANNELS = {0: (40, 112, 320), 1: (40, 112, 320), 2: (48, 120, 352)}  # what they give
SLOTS = ("things", "worn", "surroundings")
SLOT_OF_TYPE = {
    "people": 0, "animals": 0, "vehicles": 0, "clothing": 1, "bodyparts": 1, "instruments": 2, "scene": 2, "other": 2,
}  # fmt: skip
CANDIDATES = 200  # cells of a slot that regions are chosen from: those with the best scores
LEAST = 0.02  # score of a class at such a cell
PEOPLE = ("person", "group of people", "type:people")  # adjectives of people would be about their clothes or origin
TYPES = tuple(SLOT_OF_TYPE)  # of Flickr30k Entities


@dataclass(frozen=True)
class RegionLabels:
    """What the network names: classes that every cell is scored for, nouns and adjectives that describe a box."""

    classes: tuple[str, ...]  # merged nouns, such as "person" for every word for people; before them the eight types
    slots: tuple[int, ...]  # of the classes
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    parents: tuple[str, ...]  # of each noun, the class or (`type:clothing`) the type that most of its boxes have

    @property
    def scored(self) -> tuple[str, ...]:
        """Names of the columns of class scores: `type:people`, ..., then the classes."""
        return (*(f"type:{name}" for name in TYPES), *self.classes)

    @property
    def scored_slots(self) -> tuple[int, ...]:
        """The slot of each column of class scores."""
        return (*SLOT_OF_TYPE.values(), *self.slots)


@dataclass(frozen=True)
class RegionSettings:
    """The shape of the network, and how regions are chosen from what it gives."""

    version: int = 2  # of EfficientNet-Lite
    size: int = 448  # side of the square that an image is stretched to
    width: int = 128  # channels of the pyramid
    depth: int = 2  # convolutions before class scores, and before boxes
    tuned_from: int = 7  # first block of the backbone whose 1 x 1 convolutions are the detector's own
    threshold: float = 0.1  # least score of a region
    same: float = 0.5  # IoU above which two boxes of one class are the same
    alike: float = 0.8  # IoU above which two boxes of a slot are one region: the better one names it
    adjective: float = 0.4  # probability from which an adjective describes a region
    most: int = 50  # regions an image


class Predictions(NamedTuple):
    """What the network says of every cell of a batch; cells of all levels in a row."""

    scores: Tensor  # (b, cells, classes) log-odds
    boxes: Tensor  # (b, cells, slots, 4) x1 y1 x2 y2 in pixels of the square
    features: Tensor  # (b, cells, width) what nouns are named from


class RegionNetwork(nn.Module):
    """Backbone, feature pyramid and heads."""

    def __init__(self, labels: RegionLabels, settings: RegionSettings) -> None:
        super().__init__()
        self.labels, self.settings = labels, settings
        width = settings.width
        self.grid = EfficientNetLite(settings.version, settings.size)
        low, middle, high = CHANNELS[settings.version]
        self.lateral_low = nn.Conv2d(low, width, 3, 2, 1)  # stride 8 -> 16, for small things
        self.lateral_middle = nn.Conv2d(middle, width, 1)
        self.lateral_high = nn.Conv2d(high, width, 1)
        self.context = nn.Linear(high, width)  # the whole image, at every cell
        self.smooth = nn.ModuleList(_convolution(width) for _ in STRIDES)
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.class_tower = nn.Sequential(*(_convolution(width) for _ in range(settings.depth)))
        self.box_tower = nn.Sequential(*(_convolution(width) for _ in range(settings.depth)))
        self.class_scores = nn.Conv2d(width, len(labels.scored), 3, padding=1)
        self.distances = nn.Conv2d(width, 4 * len(SLOTS), 3, padding=1)
        self.scales = nn.Parameter(torch.full((len(STRIDES),), 1.0))
        self.nouns = nn.Linear(width, len(SLOTS) * len(labels.nouns))
        self.adjectives = nn.Linear(width, len(SLOTS) * len(labels.adjectives))
        self.class_scores.bias.data.fill_(-4.0)  # type: ignore[union-attr]  # almost every cell is empty of almost every class
        nn.init.normal_(self.class_scores.weight, std=0.01)
        nn.init.constant_(self.adjectives.bias, -3.0)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> Predictions:
        """Normalised images (b, 3, size, size) -> predictions at all cells of the three levels."""
        return self.heads(*self.stages(pixels))

    def stages(self, pixels: Tensor) -> list[Tensor]:
        """Outputs of the backbone at strides 8, 16 and 32: (b, channels, rows, columns) each."""
        network: Any = self.grid.network
        current = network._swish(network._conv_stem(pixels.contiguous(memory_format=torch.channels_last)))
        found = []
        for number, block in enumerate(network._blocks):
            current = block(current)
            if number in BLOCKS[self.settings.version]:
                found.append(current)
        return found

    def heads(self, low: Tensor, middle: Tensor, high: Tensor) -> Predictions:
        """Predictions from the three stages."""
        top = self.lateral_high(high) + self.context(high.mean((2, 3)))[..., None, None]
        upper = self.lateral_middle(middle) + functional.interpolate(top, size=middle.shape[2:])
        levels = [self.smooth[0](upper + self.lateral_low(low)), self.smooth[1](top)]
        levels.append(self.smooth[2](self.down(levels[1])))
        scores, boxes, features = [], [], []
        for level, stride, scale in zip(levels, STRIDES, self.scales, strict=True):
            named = self.class_tower(level)
            features.append(named.flatten(2).transpose(1, 2))
            scores.append(self.class_scores(named).flatten(2).transpose(1, 2))
            sides = self.distances(self.box_tower(level)).float() * scale
            sides = functional.softplus(sides) * 2 * stride
            boxes.append(sides.flatten(2).transpose(1, 2).reshape(len(sides), -1, len(SLOTS), 4))
        centres = cell_centres(self.settings.size)[0].to(boxes[0])[:, None]  # (cells, 1, 2)
        sides = torch.cat(boxes, 1)
        corners = torch.cat([centres - sides[..., :2], centres + sides[..., 2:]], -1)
        return Predictions(torch.cat(scores, 1).float(), corners, torch.cat(features, 1))

    def name(self, features: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of nouns (n, nouns) and adjectives (n, adjectives) of boxes, by their cells (n, width) and slots."""
        nouns, adjectives = (
            layer(features).reshape(len(slots), len(SLOTS), -1)[torch.arange(len(slots)), slots]
            for layer in (self.nouns, self.adjectives)
        )
        return nouns, adjectives


def _convolution(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.GroupNorm(16, width), nn.ReLU())


def cell_centres(size: int) -> tuple[Tensor, Tensor]:
    """Centres (cells, 2) as x, y in pixels of the square, and strides (cells,), in the order of the predictions."""
    centres, strides = [], []
    for stride in STRIDES:
        line = (torch.arange(-(-size // stride)) + 0.5) * stride
        y, x = torch.meshgrid(line, line, indexing="ij")
        centres.append(torch.stack([x, y], -1).flatten(0, 1))
        strides.append(torch.full((len(centres[-1]),), float(stride)))
    return torch.cat(centres), torch.cat(strides)


@dataclass(frozen=True)
class Seen:
    """What the network says of one image, as probabilities; boxes in pixels of the square."""

    scores: NDArray[np.float32]  # (cells, classes)
    boxes: NDArray[np.float32]  # (cells, slots, 4)
    nouns: NDArray[np.float32]  # (cells, slots, nouns) that a person would call the box so
    adjectives: NDArray[np.float32]  # (cells, slots, adjectives)
    size: tuple[int, int]  # (width, height) of the image


class RegionDetector:
    """A `Detector` with a trained `RegionNetwork`; see the module's docstring.

    The score of a region is an estimate of the probability that a person who mentions such a thing in the image draws
    a box there (IoU of at least 0.5): the logistic function of a weighted sum of two log-odds, that the class is there
    and that the noun fits. `calibration` has two weights and an offset for each slot.
    """

    name = "region-detector"
    width: int | None = None

    def __init__(self, network: RegionNetwork, calibration: Sequence[Sequence[float]] = ((1, 0, 0),) * 3) -> None:
        self.network, self.settings = network.requires_grad_(False).eval(), network.settings
        self.calibration = tuple(tuple(map(float, each)) for each in calibration)
        self.source = SHIPPED_NAME  # where it was loaded from: a folder, or the package
        self._columns = {name: number for number, name in enumerate(network.labels.scored)}
        self._nouns = {name: number for number, name in enumerate(network.labels.nouns)}
        slots = np.array(network.labels.scored_slots)
        self._slot_columns = [np.flatnonzero(slots == slot) for slot in range(len(SLOTS))]

    @property
    def labels(self) -> tuple[str, ...]:
        """The nouns that regions are named by, then the classes that only `locate` knows."""
        labels = self.network.labels
        return (*labels.nouns, *(name for name in labels.classes if name not in labels.nouns))

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The regions of each image, best first, boxes in its pixels; a region has its likeliest noun as its label."""
        return [self.regions(self.see(image)) for image in images]

    def locate(self, image: Image.Image, label: str) -> list[Detection]:
        """Where an image shows a noun or class, best first, with uncalibrated scores down to 0."""
        return self.find(self.see(image), label)

    @torch.no_grad()
    def see(self, image: Image.Image) -> Seen:
        """Run the network on one image; `regions` and `find` read the result."""
        given = self.network(self.network.grid.preprocess(image)[None])
        nouns, adjectives = (
            layer(given.features[0]).reshape(len(given.features[0]), len(SLOTS), -1)
            for layer in (self.network.nouns, self.network.adjectives)
        )
        scores, boxes = given.scores[0].sigmoid().numpy(), given.boxes[0].numpy()
        return Seen(scores, boxes, nouns.softmax(-1).numpy(), adjectives.sigmoid().numpy(), image.size)

    def find(self, seen: Seen, label: str, most: int = 50, exact: bool = False) -> list[Detection]:
        """The regions of one label (see `cell_scores`), best first."""
        slot, scores = self.cell_scores(seen, label, exact)
        order = np.argsort(-scores, kind="stable")[: 4 * most]
        boxes = self._in_pixels(seen.boxes[order, slot], seen.size)
        kept = suppress(boxes, scores[order], self.settings.same)[:most]
        return [Detection(Box(*boxes[k].tolist()), label, float(scores[order[k]])) for k in kept]

    def cell_scores(self, seen: Seen, label: str, exact: bool = False) -> tuple[int, NDArray[np.float32]]:
        """The slot of a label, and its score at every cell (cells,).

        A class (also `type:people` and so on) has a score of its own. The score of another noun is that of its class
        times the probability of the noun there; with `exact` that of every noun.
        """
        labels = self.network.labels
        if label in self._columns and not (exact and label in self._nouns):
            column = self._columns[label]
            return labels.scored_slots[column], seen.scores[:, column]
        if label not in self._nouns:
            raise InputError(f"the region detector has not learnt {label!r}; it knows {len(self.labels)} labels")
        noun = self._nouns[label]
        column = self._columns[labels.parents[noun]]
        slot = labels.scored_slots[column]
        return slot, seen.scores[:, column] * seen.nouns[:, slot, noun]

    def regions(self, seen: Seen) -> list[Detection]:
        """Every region of an image once, calibrated, best first."""
        found = [region for *_, region in self.candidates(seen) if region.score >= self.settings.threshold]
        return found[: self.settings.most]

    def candidates(self, seen: Seen) -> list[tuple[int, float, float, Detection]]:
        """Regions before any is left out for its score, best first: slot, probabilities of class and noun, region."""
        found = [each for slot in range(len(SLOTS)) for each in self._of_slot(seen, slot)]
        return sorted(found, key=lambda each: -each[-1].score)

    def _of_slot(self, seen: Seen, slot: int) -> Iterator[tuple[int, float, float, Detection]]:
        """Of one slot: doubles of a class are suppressed, then boxes of any classes that nearly coincide."""
        columns = self._slot_columns[slot]
        there = seen.scores[:, columns].max(1)
        cells = np.argsort(-there, kind="stable")[:CANDIDATES]
        cells = cells[there[cells] >= LEAST]
        there, nouns = there[cells], seen.nouns[cells, slot]
        scores = self.calibrate(slot, there, nouns.max(1, initial=0))
        boxes = self._in_pixels(seen.boxes[cells, slot], seen.size)
        classes = columns[seen.scores[np.ix_(cells, columns)].argmax(1)]
        once = suppress(boxes, scores, self.settings.same, classes)
        for kept in (once[each] for each in suppress(boxes[once], scores[once], self.settings.alike)):
            noun = int(nouns[kept].argmax())
            region = self._region(seen, slot, int(cells[kept]), noun, boxes[kept], float(scores[kept]))
            yield slot, float(there[kept]), float(nouns[kept, noun]), region

    def _region(self, seen: Seen, slot: int, cell: int, noun: int, box: NDArray[np.float64], score: float) -> Detection:
        labels, likely = self.network.labels, seen.adjectives[cell, slot]
        if labels.parents[noun] in PEOPLE:
            return Detection(Box(*box.tolist()), labels.nouns[noun], score)
        order = np.argsort(-likely, kind="stable")
        words = tuple(labels.adjectives[a] for a in order if likely[a] >= self.settings.adjective)
        return Detection(Box(*box.tolist()), labels.nouns[noun], score, attributes=words)

    def calibrate(self, slot: int, there: NDArray[Any], noun: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of regions from the probabilities of their class and of their noun, (n,) each."""
        first, second, offset = self.calibration[slot]
        return np.asarray(1 / (1 + np.exp(-(first * log_odds(there) + second * log_odds(noun) + offset))))

    def _in_pixels(self, boxes: NDArray[Any], size: tuple[int, int]) -> NDArray[np.float64]:
        """Boxes (n, 4) of the square in pixels of the image of (width, height), cut off at its border."""
        relative = np.clip(boxes.astype(np.float64) / self.settings.size, 0, 1)
        return np.asarray(relative * np.array([*size, *size]))

    def describe(self) -> dict[str, Any]:
        """The network's settings and a hash of its weights."""
        weights = b"".join(value.numpy().tobytes() for _, value in sorted(self.trained_weights().items()))
        return {
            "detector": self.name,
            "source": self.source,
            "backbone": self.network.grid.describe(),  # before its convolutions were tuned
            "settings": asdict(self.settings),
            "calibration": [list(each) for each in self.calibration],
            "weights": content_hash(weights),
        }

    def trained_weights(self) -> dict[str, Tensor]:
        """What training changed, in half precision: the heads and, of the backbone, the tuned convolutions."""
        return {
            name: value.detach().half().contiguous()
            for name, value in self.network.state_dict().items()
            if not name.startswith("grid.") or is_tuned(name, self.settings.tuned_from)
        }

    def save_pretrained(self, directory: Path | str, notes: Mapping[str, Any] | None = None) -> None:
        """Write `region_detector.json` and `region_detector.safetensors` (float16)."""
        from safetensors.torch import save_file

        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config = {
            "labels": asdict(self.network.labels),
            "settings": asdict(self.settings),
            "calibration": self.calibration,
            "notes": dict(notes or {}),
        }
        with atomic_path(directory / WEIGHTS) as path:
            save_file(self.trained_weights(), path)
        atomic_write(directory / CONFIG, orjson.dumps(config, option=orjson.OPT_INDENT_2))

    @classmethod
    def from_pretrained(cls, directory: Path | str = SHIPPED) -> RegionDetector:
        """The shipped detector, or one of your own from a folder."""
        from safetensors.torch import load_file

        shipped = str(directory) in (SHIPPED_NAME, str(SHIPPED))
        directory = SHIPPED if shipped else Path(directory)
        if not (directory / CONFIG).is_file():
            raise DatasetError(f"{directory} holds no region detector: there is no {CONFIG}")
        config = orjson.loads((directory / CONFIG).read_bytes())
        labels = RegionLabels(**{name: tuple(values) for name, values in config["labels"].items()})
        network = RegionNetwork(labels, RegionSettings(**config["settings"]))
        weights = {name: value.float() for name, value in load_file(directory / WEIGHTS).items()}
        absent = network.load_state_dict(weights, strict=False).missing_keys
        if any(not name.startswith("grid.") for name in absent):
            raise DatasetError(f"{directory / WEIGHTS} lacks {absent[0]}; write it again with save_pretrained")
        detector = cls(network, config["calibration"])
        detector.source = SHIPPED_NAME if shipped else str(directory.resolve())
        return detector


def is_tuned(name: str, first: int) -> bool:
    """Whether a weight of the network is one of the backbone's that training changes: 1 x 1, from a block on."""
    block = int(name.split("_blocks.")[1].split(".")[0]) if "_blocks." in name else -1
    return block >= first and ("_expand_conv" in name or "_project_conv" in name)


def log_odds(values: NDArray[Any]) -> NDArray[np.float64]:
    """Log-odds of probabilities, which are kept away from 0 and 1."""
    kept = np.clip(values.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(kept / (1 - kept)))
