"""The region detector: trained on the boxes of Flickr30k Entities, measured on human boxes (docs/detector_section.md).

    python -m studies.region_detector train --out RUN [--epochs 8]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import torch

from captrial.data.datasets import read_karpathy
from captrial.data.images import open_image
from captrial.data.datasets.flickr30k_entities import read_entities
from captrial.training.detector_training import DetectorRecipe, train_detector
from captrial.training.region_labels import LabelledImage, choose_labels, label_images
from captrial.vision.detectors.evaluation import ScoredBox
from captrial.vision.detectors.region_detector import TYPES, RegionDetector, RegionLabels, RegionNetwork, RegionSettings
from captrial.vision.devices import keep_freed_memory
from studies.data_paths import DATA, FLICKR8K, FLICKR8K_CAPTIONS
from studies.region_evaluation import Found, frequent_classes, mean_row, precision_table, truths

ENTITIES = DATA / "flickr30k_entities"


def read_images() -> tuple[dict[str, list[LabelledImage]], dict[str, Path]]:
    """Labelled images by split, and where the photographs are."""
    photographs = {Path(sample.id).stem.split("_")[0]: sample for sample in read_karpathy(FLICKR8K_CAPTIONS)}
    splits: dict[str, list[LabelledImage]] = {"train": [], "val": [], "test": []}
    paths = {}
    for image in label_images(read_entities(ENTITIES)):
        sample = photographs[Path(image.id).stem]
        splits[str(sample.split)].append(image)
        paths[image.id] = FLICKR8K / "images" / sample.id
    return splits, paths


def state_detector(folder: Path, labels: RegionLabels, settings: RegionSettings) -> RegionDetector:
    """The averaged weights of a run that may still be going on."""
    network = RegionNetwork(labels, settings)
    network.load_state_dict(torch.load(folder / "state.pt", weights_only=True)["average"], strict=False)
    return RegionDetector(network)


def search_all(detector: RegionDetector, ids: Sequence[str], paths: dict[str, Path], most: int = 20) -> Found:
    """Detections of all classes and types on all images, relative boxes."""
    found: Found = {name: {} for name in detector.network.labels.scored}
    for identity in ids:
        seen = replace(detector.see(open_image(paths[identity])), size=(1, 1))
        for name in found:
            found[name][identity] = [ScoredBox(identity, each.box, each.score) for each in detector.find(seen, name, most)]
    return found


def summary(detector: RegionDetector, images: Sequence[LabelledImage], paths: dict[str, Path], names: Sequence[str]
            ) -> dict[str, Any]:  # fmt: skip
    """The figures that settings are chosen by."""
    truth = truths(images)
    found = search_all(detector, [image.id for image in images], paths)
    table = precision_table(found, truth, [*names, *(f"type:{kind}" for kind in TYPES)])
    mean = mean_row(table, names)
    return {
        "frequent": {key: round(mean[key], 1) for key in ("ap50", "ap30", "ap50_everywhere", "pointing")},
        "classes": {name: round(row["ap50"], 1) for name, row in table.items()},
    }


def check(arguments: argparse.Namespace) -> None:
    """Figures on some validation images for a run that may still be going on."""
    splits, paths = read_images()
    detector = state_detector(arguments.run_folder, choose_labels(splits["train"]), RegionSettings(size=arguments.size))
    print(orjson.dumps(summary(detector, splits["val"][: arguments.images], paths, frequent_classes(splits["train"])), option=orjson.OPT_INDENT_2).decode())


def train(arguments: argparse.Namespace) -> None:
    splits, paths = read_images()
    labels = choose_labels(splits["train"])
    torch.manual_seed(0)
    network = RegionNetwork(labels, RegionSettings())
    recipe = DetectorRecipe(epochs=arguments.epochs)
    train_detector(network, splits["train"], paths, recipe, arguments.out)


def main() -> None:
    """Train, evaluate or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    training = verbs.add_parser("train")
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--epochs", type=int, default=8)
    training.set_defaults(run=train)
    checking = verbs.add_parser("check")
    checking.add_argument("run_folder", type=Path)
    checking.add_argument("--images", type=int, default=300)
    checking.add_argument("--size", type=int, default=384)
    checking.set_defaults(run=check)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
