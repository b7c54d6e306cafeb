"""The noun localiser: labelled regions without a detector and without a download, learnt from captions alone.

One linear layer gives, for every cell of a grid, the probability that it shows each noun; an image shows a noun when at
least one cell does (noisy-OR, Fang et al. 2015, "From captions to visual concepts"). It is trained without boxes: its
boxes are the connected areas of its maps, and a trained detector is better. Adjectives learnt the same way describe the
regions.

What an image shows is decided on the grid it was trained on; where, on a finer grid of the same network at a larger
size, which points better but recognises less. `studies.localiser_training` trains it; the shipped weights
come from Flickr8k's captions (see `weights/localiser.md`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from torch import Tensor, nn
from torch.nn import functional

from captrial.errors import DatasetError, InputError, MismatchError, damage_named
from captrial.files import atomic_path, atomic_write, content_hash
from captrial.records import Box
from captrial.vision.backbones.base import Backbone
from captrial.vision.boxes import cell_shares, suppress
from captrial.vision.descriptions import BackboneName, identity, yes_or_no
from captrial.vision.detectors.base import Detection
from captrial.vision.features.visual_features import Features
from captrial.vision.registry import load_backbone

Floats = NDArray[np.float64]
SHIPPED = Path(__file__).parent / "weights"
SHIPPED_NAME = "shipped"
WEIGHTS, CONFIG = "localiser.safetensors", "localiser.json"
LARGEST_SIDE = 1024  # of the maps that are searched


class Peak(NamedTuple):
    """A connected area of a map: its relative box (x1, y1, x2, y2), and its worth in (0, 1]."""

    box: tuple[float, float, float, float]
    worth: float


def find_peaks(values: Floats, shares: Sequence[float], smallest: float = 0.0, iou: float = 0.5) -> list[Peak]:
    """Areas of a map (h, w) above `shares` of its maximum, best first; boxes overlapping a better one are left out.

    A low share gives the extent of an object, a high one separates objects that touch. An area is worth its own
    maximum, as a share of the map's; areas above the second share count half of that, above the third a quarter. Areas
    under `smallest` of the map are noise.
    """
    if values.max() <= 0:
        return []
    scaled = values / values.max()
    found = [
        Peak(box, height * 0.5**level)
        for level, share in enumerate(shares)
        for box, height in _areas(scaled, share, smallest)
    ]
    kept = suppress([peak.box for peak in found], [peak.worth for peak in found], iou)
    return [found[index] for index in kept]


def _areas(values: Floats, level: float, smallest: float) -> Iterator[tuple[tuple[float, float, float, float], float]]:
    """Box and highest value of every connected area from `level` on."""
    height, width = values.shape
    numbered, _ = ndimage.label(values >= level, np.ones((3, 3)))
    for number, (rows, columns) in enumerate(ndimage.find_objects(numbered), 1):
        inside = numbered[rows, columns] == number
        if inside.sum() >= smallest * values.size:
            box = (columns.start / width, rows.start / height, columns.stop / width, rows.stop / height)
            yield box, float(values[rows, columns][inside].max())


@dataclass(frozen=True)
class Search:
    """How boxes are found on the maps."""

    least: float = 0.02  # probability of a noun in the image, under which its map is not searched
    nouns: int = 15  # so many of the likeliest nouns at most
    shares: tuple[float, ...] = (0.03, 0.3)  # of a map's peak: areas above them are boxes
    smallest: float = 0.01  # of the image: smaller areas are noise
    same: float = 0.5  # IoU above which two boxes of one noun are the same
    alike: float = 0.9  # IoU above which boxes of different nouns are one region: the likelier noun names it
    side: int = 56  # of the maps that are searched, enlarged from the grid
    adjective: float = 0.5  # probability inside a region from which an adjective describes it


class NounLocaliser(nn.Module):
    """A `Detector` on top of a grid backbone; see the module's docstring."""

    name = "noun-localiser"
    width: int | None = None

    def __init__(
        self,
        nouns: Sequence[str],
        adjectives: Sequence[str],
        grid: Backbone,
        finer: Backbone | None = None,
        search: Search | None = None,
        people: Collection[str] = (),
    ) -> None:
        """`grid` is the backbone it is trained on, `finer` the same one at a larger size, for the places of objects.

        Regions named by the nouns of `people` get no adjectives: most would describe clothes, not people.
        """
        super().__init__()
        self.people = frozenset(people)
        self.nouns, self.adjectives, self.grid, self.finer = tuple(nouns), tuple(adjectives), grid, finer
        self.search = search or Search()
        self.source = SHIPPED_NAME  # where it was loaded from: a folder, or the package
        self.head = nn.Linear(grid.width, len(self.nouns) + len(self.adjectives))

    @property
    def labels(self) -> tuple[str, ...]:
        """The nouns it can name a region by."""
        return self.nouns

    def maps(self, features: Features) -> Tensor:
        """Log-odds that each cell shows each noun, then each adjective: (b, c, nouns + adjectives)."""
        logits: Tensor = self.head(features.elements.to(self.head.weight.device))
        return logits.cpu()  # where boxes are searched

    def in_image(self, maps: Tensor) -> Tensor:
        """Probability that an image shows each noun or adjective: (b, c, n) -> (b, n)."""
        return 1 - torch.exp(-functional.softplus(maps).sum(1))

    @torch.no_grad()
    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """Regions of opened images, likeliest first."""
        return self.detect_on(self.grid.extract(images), [image.size for image in images], images)

    def detect_on(
        self, features: Features, sizes: Sequence[tuple[int, int]], images: Sequence[Image.Image] | None = None
    ) -> list[list[Detection]]:
        """Regions on grid features of images of these (width, height); the images are for the finer grid."""
        if self.finer is None:
            return self.search_maps(features, features, sizes)
        if images is None:
            raise InputError("this noun localiser also uses a finer grid: it needs the images (or `finer=no`)")
        return self.search_maps(features, self.finer.extract(images), sizes)

    @torch.no_grad()
    def search_maps(
        self, features: Features, finer: Features, sizes: Sequence[tuple[int, int]], nouns: Sequence[str] | None = None
    ) -> list[list[Detection]]:
        """Regions of what `features` shows, at the places where `finer` shows it; of some `nouns` only, where given."""
        maps = self.maps(features).float()
        places = maps if finer is features else self.maps(finer).float()
        chosen = self._numbers(nouns)
        return [self._one(*each, chosen) for each in zip(maps, places, sizes, strict=True)]

    @torch.no_grad()
    def enlarged(self, features: Features) -> list[NDArray[np.float64]]:
        """Maps of all nouns on each image, as they are searched: (nouns, side, side), probabilities."""
        return [self._enlarged(maps[:, : len(self.nouns)]) for maps in self.maps(features).float()]

    @torch.no_grad()
    def locate(self, image: Image.Image, noun: str) -> NDArray[np.float32]:
        """Where an image shows a noun: probabilities on the (finer) grid, (rows, columns)."""
        maps = self.maps((self.finer or self.grid).extract([image]))[0, :, self._numbers([noun])[0]]
        side = _side(len(maps))
        return torch.sigmoid(maps).reshape(side, side).numpy()

    def _one(self, maps: Tensor, places: Tensor, size: tuple[int, int], chosen: Sequence[int]) -> list[Detection]:
        """The regions of one image from its maps (c, n), coarse and fine."""
        likely = self.in_image(maps[None])[0].tolist()
        wanted = [number for number in chosen if likely[number] >= self.search.least]
        wanted = sorted(wanted, key=lambda number: -likely[number])[: self.search.nouns]
        found: list[tuple[int, Peak, float]] = []
        for number, values in zip(wanted, self._enlarged(places[:, wanted]), strict=True):
            peaks = find_peaks(values, self.search.shares, self.search.smallest, self.search.same)
            found += [(number, peak, likely[number] * peak.worth) for peak in peaks]
        kept = suppress([peak.box for _, peak, _ in found], [score for _, _, score in found], self.search.alike)
        regions = [found[index] for index in kept]
        described = self._describe_boxes(maps, [peak.box for _, peak, _ in regions])
        return [
            Detection(_in_pixels(peak.box, size), noun, score, attributes=() if noun in self.people else words)
            for (number, peak, score), words in zip(regions, described, strict=True)
            for noun in [self.nouns[number]]
        ]

    def _enlarged(self, maps: Tensor) -> NDArray[np.float64]:
        """Probabilities (c, n) as enlarged maps (n, side, side)."""
        if not maps.shape[1]:
            return np.zeros((0, 1, 1))
        rows = _side(len(maps))
        grids = torch.sigmoid(maps).T.reshape(1, -1, rows, rows)
        size = (self.search.side, self.search.side)
        return functional.interpolate(grids, size=size, mode="bilinear")[0].double().numpy()

    def _describe_boxes(self, maps: Tensor, boxes: Sequence[tuple[float, ...]]) -> list[tuple[str, ...]]:
        """Adjectives that hold inside each relative box, likeliest first."""
        if not boxes or not self.adjectives:
            return [()] * len(boxes)
        shares = cell_shares(self.grid.cells(), torch.tensor(boxes)[None])[0]  # (k, c): how much of a cell is inside
        evidence = functional.softplus(maps[:, len(self.nouns) :])  # (c, a)
        likely = (1 - torch.exp(-(shares @ evidence))).numpy()  # (k, a)
        order = np.argsort(-likely, kind="stable", axis=1)
        return [
            tuple(self.adjectives[a] for a in places if row[a] >= self.search.adjective)
            for row, places in zip(likely, order, strict=True)
        ]

    def _numbers(self, nouns: Sequence[str] | None) -> list[int]:
        if nouns is None:
            return list(range(len(self.nouns)))
        for noun in nouns:
            if noun not in self.nouns:
                raise InputError(f"the noun localiser has not learnt {noun!r}; it knows {len(self.nouns)} nouns")
        return [self.nouns.index(noun) for noun in nouns]

    def describe(self) -> dict[str, Any]:
        """The grid, how boxes are searched, and a hash of the weights."""
        weights = b"".join(tensor.detach().cpu().half().numpy().tobytes() for tensor in self.head.parameters())
        return {
            "detector": self.name,
            "source": self.source,
            "grid": self.grid.describe(),
            "finer": None if self.finer is None else self.finer.describe(),
            "search": asdict(self.search),
            "weights": content_hash(weights),
        }

    def save_pretrained(self, directory: Path | str, notes: Mapping[str, Any] | None = None) -> None:
        """Write `localiser.json` and `localiser.safetensors` (float16)."""
        from safetensors.torch import save_file

        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config = {
            "nouns": self.nouns,
            "adjectives": self.adjectives,
            "people": sorted(self.people),
            "grid": self.grid.describe(),
            "finer": None if self.finer is None else self.finer.describe(),
            "search": asdict(self.search),
            "notes": dict(notes or {}),
        }
        with atomic_path(directory / WEIGHTS) as path:
            save_file({name: tensor.half().contiguous() for name, tensor in self.head.state_dict().items()}, path)
        atomic_write(directory / CONFIG, orjson.dumps(config, option=orjson.OPT_INDENT_2))

    @classmethod
    def from_pretrained(
        cls, directory: Path | str = SHIPPED, grid: Backbone | None = None, use_finer: bool = True
    ) -> NounLocaliser:
        """The shipped localiser, or one of your own; without `use_finer` boxes come from the coarse grid.

        `grid` is its backbone where it is loaded already.
        """
        from safetensors.torch import load_file

        shipped = str(directory) in (SHIPPED_NAME, str(SHIPPED))
        directory = SHIPPED if shipped else Path(directory)
        if not (directory / CONFIG).is_file():
            raise DatasetError(f"{directory} holds no noun localiser: there is no {CONFIG}")
        with damage_named(directory, "save_pretrained", "cannot be read as a noun localiser"):
            config = orjson.loads((directory / CONFIG).read_bytes())
            grid = grid or load_backbone(config["grid"])
            if identity(grid.describe()) != identity(config["grid"]):
                name = config["grid"]["backbone"]
                raise MismatchError(f"{directory} holds a noun localiser for {name} at another size")
            finer = load_backbone(config["finer"]) if use_finer and config["finer"] else None
            nouns, adjectives, people = (map(str, config[name]) for name in ("nouns", "adjectives", "people"))
            localiser = cls(list(nouns), list(adjectives), grid, finer, _search(config["search"]), list(people))
            weights = load_file(directory / WEIGHTS)
            localiser.head.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
        localiser.source = SHIPPED_NAME if shipped else str(directory.resolve())
        return localiser.requires_grad_(False).eval()


def _search(stored: Mapping[str, Any]) -> Search:
    """Stored settings of the search; `ValueError` where one is not a number or out of its range."""
    shares = tuple(float(share) for share in stored["shares"])
    nouns, side = int(stored["nouns"]), int(stored["side"])
    parts = {name: float(stored[name]) for name in ("least", "smallest", "same", "alike", "adjective")}
    if not all(0 <= part <= 1 for part in (*parts.values(), *shares)) or not 1 <= side <= LARGEST_SIDE:
        raise ValueError("its search has a value out of range")
    return Search(nouns=nouns, side=side, shares=shares, **parts)


def load_localiser(name: BackboneName, features: bool) -> NounLocaliser:
    """By name: `localiser`, or `localiser:FOLDER?finer=no`; it never has features of its own."""
    return NounLocaliser.from_pretrained(name.source or SHIPPED, use_finer=name.take("finer", yes_or_no, True))


def restore_localiser(description: Mapping[str, Any]) -> NounLocaliser:
    """From a description."""
    return NounLocaliser.from_pretrained(description["source"], use_finer=description["finer"] is not None)


def _side(cells: int) -> int:
    side = math.isqrt(cells)
    if side * side != cells:
        raise InputError(f"the noun localiser needs a square grid, not {cells} cells")
    return side


def _in_pixels(box: Sequence[float], size: tuple[int, int]) -> Box:
    width, height = size
    return Box(box[0] * width, box[1] * height, box[2] * width, box[3] * height)
