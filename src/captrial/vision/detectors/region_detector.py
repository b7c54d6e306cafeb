"""The region detector: labelled boxes from EfficientNet-Lite2 and anchor-free heads, learnt from Flickr30k Entities.

    detector = RegionDetector.from_pretrained()
    for region in detector.detect([Image.open("photo.jpg")])[0]:
        print(region.label, region.attributes, region.score, region.box)

The network (`region_network`) scores cells; here regions are chosen from them, named, calibrated and, for captioners,
given a feature vector. `studies.detector_training` trains it; `weights/region_detector.md` is the card of the shipped
weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from captrial.errors import DatasetError, InputError
from captrial.files import atomic_path, atomic_write, content_hash
from captrial.records import Box
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.boxes import pool_cells, suppress
from captrial.vision.descriptions import BackboneName
from captrial.vision.detectors.base import Detection, box_tensor
from captrial.vision.detectors.noun_presence import CONFIG as PRESENCE
from captrial.vision.detectors.noun_presence import NounCalibration, NounPresence
from captrial.vision.detectors.region_network import SLOTS, RegionLabels, RegionNetwork, RegionSettings, is_tuned

SHIPPED = Path(__file__).parent / "weights"
SHIPPED_NAME = "shipped"
WEIGHTS, CONFIG = "region_detector.safetensors", "region_detector.json"
LARGEST = 4096  # side of the square that an image is stretched to
CANDIDATES = 200  # cells of a slot that regions are chosen from: those with the best scores
LEAST = 0.02  # score of a class at such a cell
SHOWN = 0.3  # least score of a region of a detector alone, for people and verdicts; captioners want more
PEOPLE = ("person", "group of people", "type:people")  # adjectives of people would be about their clothes or origin


@dataclass(frozen=True)
class CellPredictions:
    """What the network says of one image, as probabilities; boxes in pixels of the square."""

    scores: NDArray[np.float32]  # (cells, classes)
    boxes: NDArray[np.float32]  # (cells, slots, 4)
    nouns: NDArray[np.float32]  # (cells, slots, nouns) that a person would call the box so
    adjectives: NDArray[np.float32]  # (cells, slots, adjectives)
    size: tuple[int, int]  # (width, height) of the image
    named_from: NDArray[np.float32]  # (cells, width): `Predictions.features`
    stages: tuple[Tensor, ...] = ()  # of the backbone, strides 16 and 32, (channels, rows, columns) each


class RegionDetector:
    """A `Detector` with a trained `RegionNetwork`; see the module's docstring.

    The score of a region is an estimate of the probability that a person who mentions such a thing in the image draws
    a box there (IoU of at least 0.5): the logistic function of a weighted sum of two log-odds, that the class is there
    and that the noun fits. `calibration` has two weights and an offset for each slot.

    With `features` a region has a feature vector for captioners: what the backbone gives inside the box at strides 32
    and 16 (means), what the region was named from, and the scores of all classes and nouns; each number is
    standardised by its mean and standard deviation over regions of training images.
    """

    name = "region-detector"

    def __init__(
        self,
        network: RegionNetwork,
        calibration: Sequence[Sequence[float]] = ((1, 0, 0),) * 3,
        features: bool = False,
    ) -> None:
        self.network, self.settings = network.requires_grad_(False).eval(), network.settings
        self.features = features
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

    @property
    def width(self) -> int | None:
        """The width of the regions' features; None without them."""
        return self.network.feature_width if self.features else None

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        """The regions of each image, best first, boxes in its pixels; a region has its likeliest noun as its label."""
        return [self.regions(self.predict(image)) for image in images]

    def detect_nouns(self, image: Image.Image) -> tuple[list[Detection], dict[str, float] | None]:
        """The regions of an image, and of nouns the log-odds that people mention them; None where these are unknown."""
        predicted = self.predict(image)
        presence = self.presence
        odds = None if presence is None else presence.odds(image, self.best_cells(predicted, presence.table.labels))
        return self.regions(predicted), odds

    @cached_property
    def presence(self) -> NounPresence | None:
        """Which nouns are in an image at all; None for a detector whose folder has no `noun_presence.json`."""
        folder = SHIPPED if self.source == SHIPPED_NAME else Path(self.source)
        return NounPresence.from_pretrained(folder) if (folder / PRESENCE).is_file() else None

    @cached_property
    def noun_calibration(self) -> NounCalibration | None:
        """What the log-odds of nouns mean; with error rates if they were measured with these weights and settings."""
        return None if self.presence is None else self.presence.calibration(**self.measured_as())

    def measured_as(self) -> dict[str, Any]:
        """What error rates of verdicts depend on, besides the nouns: the weights and the least score of a region."""
        described = self.describe()
        return {"detector": described["weights"], "threshold": self.settings.threshold}

    def best_cells(self, predicted: CellPredictions, labels: Sequence[str | None]) -> NDArray[np.float64]:
        """Log-odds of labels and of their classes at the best cell (labels, 2); 0 for None."""
        classes = log_odds(predicted.scores.max(0))  # (classes,)
        found = np.zeros((len(labels), 2))
        for row, label in zip(found, labels, strict=True):
            if label in self._nouns:
                _, scores = self.cell_scores(predicted, str(label), exact=True)
                row[:] = log_odds(scores.max(keepdims=True))[0], classes[self._columns[self._parent(str(label))]]
            elif label is not None:
                row[:] = classes[self._columns[label]]
        return found

    def _parent(self, noun: str) -> str:
        return self.network.labels.parents[self._nouns[noun]]

    def locate(self, image: Image.Image, label: str) -> list[Detection]:
        """Where an image shows a noun or class, best first, with uncalibrated scores down to 0."""
        return self.find(self.predict(image), label)

    @torch.no_grad()
    def predict(self, image: Image.Image) -> CellPredictions:
        """Run the network on one image; `regions` and `find` read the result."""
        stages = self.network.stages(self.network.grid.preprocess(image)[None])
        given = self.network.heads(*stages)
        nouns, adjectives = (
            layer(given.features[0]).reshape(len(given.features[0]), len(SLOTS), -1)
            for layer in (self.network.nouns, self.network.adjectives)
        )
        scores, boxes = given.scores[0].sigmoid().numpy(), given.boxes[0].numpy()
        kept = tuple(stage[0] for stage in stages[1:]) if self.features else ()
        likely = nouns.softmax(-1).numpy(), adjectives.sigmoid().numpy()
        return CellPredictions(scores, boxes, *likely, image.size, given.features[0].numpy(), kept)

    def find(self, predicted: CellPredictions, label: str, most: int = 50, exact: bool = False) -> list[Detection]:
        """The regions of one label (see `cell_scores`), best first."""
        slot, scores = self.cell_scores(predicted, label, exact)
        order = np.argsort(-scores, kind="stable")[: 4 * most]
        boxes = self._in_pixels(predicted.boxes[order, slot], predicted.size)
        kept = suppress(boxes, scores[order], self.settings.same)[:most]
        return [Detection(Box(*boxes[k].tolist()), label, float(scores[order[k]])) for k in kept]

    def cell_scores(
        self, predicted: CellPredictions, label: str, exact: bool = False
    ) -> tuple[int, NDArray[np.float32]]:
        """The slot of a label, and its score at every cell (cells,).

        A class (also `type:people` and so on) has a score of its own. The score of another noun is that of its class
        times the probability of the noun there; with `exact` that of every noun.
        """
        labels = self.network.labels
        if label in self._columns and not (exact and label in self._nouns):
            column = self._columns[label]
            return labels.scored_slots[column], predicted.scores[:, column]
        if label not in self._nouns:
            raise InputError(f"the region detector has not learnt {label!r}; it knows {len(self.labels)} labels")
        noun = self._nouns[label]
        column = self._columns[labels.parents[noun]]
        slot = labels.scored_slots[column]
        return slot, predicted.scores[:, column] * predicted.nouns[:, slot, noun]

    def regions(self, predicted: CellPredictions) -> list[Detection]:
        """Every region of an image once, calibrated, best first; with features at least one, the best there is."""
        found = [region for *_, region in self.candidates(predicted) if region.score >= self.settings.threshold]
        if not self.features:
            return found[: self.settings.most]
        found = found or [self.candidates(predicted, least=0.0)[0][-1]]
        return self._with_features(predicted, found[: self.settings.most])

    def candidates(self, predicted: CellPredictions, least: float = LEAST) -> list[tuple[int, float, float, Detection]]:
        """Regions before any is left out for its score, best first: slot, probabilities of class and noun, region."""
        found = [each for slot in range(len(SLOTS)) for each in self._of_slot(predicted, slot, least)]
        return sorted(found, key=lambda each: -each[-1].score)

    def _with_features(self, predicted: CellPredictions, regions: Sequence[Detection]) -> list[Detection]:
        """The regions, each with what the backbone gives inside its box before what it was named from."""
        boxes = box_tensor(regions, predicted.size)[None]
        pooled = [
            pool_cells(stage.flatten(1).T[None], grid_boxes(*stage.shape[1:]), boxes)[0]
            for stage in reversed(predicted.stages)
        ]
        named = [region.feature for region in regions if region.feature is not None]
        network: Any = self.network
        vectors = (torch.cat([*pooled, torch.stack(named)], 1) - network.feature_mean) / network.feature_std
        return [replace(region, feature=vector) for region, vector in zip(regions, vectors, strict=True)]

    def _of_slot(
        self, predicted: CellPredictions, slot: int, least: float
    ) -> Iterator[tuple[int, float, float, Detection]]:
        """Of one slot: doubles of a class are suppressed, then boxes of any classes that nearly coincide."""
        columns = self._slot_columns[slot]
        likely = predicted.scores[:, columns].max(1)
        cells = np.argsort(-likely, kind="stable")[:CANDIDATES]
        cells = cells[likely[cells] >= least]
        likely, nouns = likely[cells], predicted.nouns[cells, slot]
        scores = self.calibrate(slot, likely, nouns.max(1, initial=0))
        boxes = self._in_pixels(predicted.boxes[cells, slot], predicted.size)
        classes = columns[predicted.scores[np.ix_(cells, columns)].argmax(1)]
        once = suppress(boxes, scores, self.settings.same, classes)
        for kept in (once[each] for each in suppress(boxes[once], scores[once], self.settings.alike)):
            noun = int(nouns[kept].argmax())
            region = self._region(predicted, slot, int(cells[kept]), noun, boxes[kept], float(scores[kept]))
            yield slot, float(likely[kept]), float(nouns[kept, noun]), region

    def _region(
        self, predicted: CellPredictions, slot: int, cell: int, noun: int, box: NDArray[np.float64], score: float
    ) -> Detection:
        labels, likely = self.network.labels, predicted.adjectives[cell, slot]
        order = np.argsort(-likely, kind="stable").tolist() if labels.parents[noun] not in PEOPLE else []
        words = tuple(labels.adjectives[a] for a in order if likely[a] >= self.settings.adjective)
        named = None
        if self.features:
            parts = (predicted.named_from[cell], predicted.scores[cell], predicted.nouns[cell, slot])
            named = torch.from_numpy(np.concatenate(parts))
        return Detection(Box(*box.tolist()), labels.nouns[noun], score, feature=named, attributes=words)

    def calibrate(self, slot: int, of_class: NDArray[Any], noun: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of regions from the probabilities of their class and of their noun, (n,) each."""
        first, second, offset = self.calibration[slot]
        return np.asarray(1 / (1 + np.exp(-(first * log_odds(of_class) + second * log_odds(noun) + offset))))

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
            "features": self.features,
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
    def from_pretrained(
        cls, directory: Path | str = SHIPPED, *, features: bool = False, **changes: Any
    ) -> RegionDetector:
        """The shipped detector, or one of your own from a folder; `changes` to `RegionSettings`, such as threshold."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        shipped = str(directory) in (SHIPPED_NAME, str(SHIPPED))
        directory = SHIPPED if shipped else Path(directory)
        if not (directory / CONFIG).is_file():
            raise DatasetError(f"{directory} holds no region detector: there is no {CONFIG}")
        try:
            config = orjson.loads((directory / CONFIG).read_bytes())
            labels = RegionLabels(**{name: tuple(values) for name, values in config["labels"].items()})
            settings = RegionSettings(**{**config["settings"], **changes})
            weights = {name: value.float() for name, value in load_file(directory / WEIGHTS).items()}
            _check_sizes(labels, settings, weights)
            network = RegionNetwork(labels, settings)
            absent = network.load_state_dict(weights, strict=False).missing_keys
            detector = cls(network, config["calibration"], features)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DatasetError(f"{directory} cannot be read as a region detector ({reason}); write it again") from None
        if any(not name.startswith("grid.") for name in absent):
            raise DatasetError(f"{directory / WEIGHTS} lacks {absent[0]}; write it again with save_pretrained")
        detector.source = SHIPPED_NAME if shipped else str(directory.resolve())
        return detector


def _check_sizes(labels: RegionLabels, settings: RegionSettings, weights: Mapping[str, Tensor]) -> None:
    """`ValueError` where the settings are not those of the weights, before memory is allocated for them."""
    given = (settings.width, len(labels.scored), settings.depth)
    depth = len({name.split(".")[1] for name in weights if name.startswith("class_tower.")})
    stored = (len(weights["lateral_middle.weight"]), len(weights["class_scores.weight"]), depth)
    if given != stored:
        raise ValueError(f"width, classes and depth are {given}, those of the weights {stored}")
    if not 32 <= settings.size <= LARGEST:
        raise ValueError(f"an image of {settings.size} pixels a side; at most {LARGEST}")


def load_region_detector(name: BackboneName, features: bool) -> RegionDetector:
    """By name: `region-detector`, or `region-detector:FOLDER?threshold=0.3`."""
    changes: dict[str, Any] = {} if features else {"threshold": SHOWN}
    if "threshold" in name.settings:
        changes["threshold"] = name.take("threshold", float, SHOWN)
    return RegionDetector.from_pretrained(name.source or SHIPPED, features=features, **changes)


def restore_region_detector(description: Mapping[str, Any]) -> RegionDetector:
    """From a description."""
    threshold = description["settings"]["threshold"]
    return RegionDetector.from_pretrained(description["source"], features=description["features"], threshold=threshold)


def log_odds(values: NDArray[Any]) -> NDArray[np.float64]:
    """Log-odds of probabilities, which are kept away from 0 and 1."""
    kept = np.clip(values.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.asarray(np.log(kept / (1 - kept)))
