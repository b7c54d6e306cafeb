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
from captrial.data.datasets.flickr30k_entities import read_entities
from captrial.training.detector_training import DetectorRecipe, train_detector
from captrial.training.region_labels import LabelledImage, choose_labels, label_images
from captrial.vision.detectors.region_detector import RegionNetwork, RegionSettings
from captrial.vision.devices import keep_freed_memory
from studies.data_paths import DATA, FLICKR8K, FLICKR8K_CAPTIONS

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
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
