"""The network of the region detector: backbone, feature pyramid and heads that score cells.

A feature pyramid with strides 16, 32 and 64 predicts at every cell, as FCOS does (Tian et al. 2019), distances to the
four sides of a box and scores of classes. Things lie inside each other (a shirt on a person on grass), so a cell has
one box for each of three *slots*: people, animals and vehicles; what they wear and their body parts; everything else.
The class scores are trained towards the overlap of the box (Li et al. 2020, "Generalized focal loss"). A second layer
says which noun a person would use for the box, and which adjectives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from captrial.vision.backbones.efficientnet import EfficientNetLite

STRIDES = (16, 32, 64)
BLOCKS = {0: (4, 10, 15), 1: (6, 14, 20), 2: (6, 14, 20)}  # last blocks of strides 8, 16 and 32, by version
CHANNELS = {0: (40, 112, 320), 1: (40, 112, 320), 2: (48, 120, 352)}  # what they give
SLOTS = ("things", "worn", "surroundings")
SLOT_OF_TYPE = {
    "people": 0, "animals": 0, "vehicles": 0, "clothing": 1, "bodyparts": 1, "instruments": 2, "scene": 2, "other": 2,
}  # fmt: skip
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
    most: int = 50  # regions per image


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
        self.register_buffer("feature_mean", torch.zeros(self.feature_width))
        self.register_buffer("feature_std", torch.ones(self.feature_width))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def feature_width(self) -> int:
        """The width of a region's feature vector for captioners."""
        _, middle, high = CHANNELS[self.settings.version]
        return high + middle + self.settings.width + len(self.labels.scored) + len(self.labels.nouns)

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


def is_tuned(name: str, first: int) -> bool:
    """Whether a weight of the network is one of the backbone's that training changes: 1 x 1, from a block on."""
    block = int(name.split("_blocks.")[1].split(".")[0]) if "_blocks." in name else -1
    return block >= first and ("_expand_conv" in name or "_project_conv" in name)
