"""Detectors on the COCO images with human boxes: average precision, and images a second.

    python -m studies.detectors [NAME ...] [--images 100]

Names are those of docs/vision.md; without one, the YOLO11n of the tests. A detector should have a
threshold of 0.001 (as the default does); it is measured on the classes that it can name and that have boxes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from captrial.data.datasets import read_boxes
from captrial.data.images import open_image
from captrial.progress import track
from captrial.records import Box
from captrial.vision.boxes import ScoredBox, average_precision
from captrial.vision.detectors.base import Detector
from captrial.vision.registry import load_detector
from studies.data_paths import COCO, OLD_NAMES, find_yolo
from studies.printing import print_table

Boxes = dict[str, dict[str, list[Box]]]  # class -> image -> boxes


def human_boxes(images: Sequence[Path]) -> Boxes:
    found: Boxes = {}
    samples = {sample.id: sample for sample in read_boxes(COCO / "boxes_val2017.json")}
    for path in images:
        sample = samples.get(str(int(path.stem)))
        for region in sample.regions if sample else ():
            label = OLD_NAMES.get(str(region.label), str(region.label))
            found.setdefault(label, {}).setdefault(path.stem, []).append(region.box)
    return found


def measure(detector: Detector, images: Sequence[Path], truth: Boxes) -> list[str]:
    found: dict[str, list[ScoredBox]] = {label: [] for label in truth if label in detector.labels}
    seconds = 0.0
    for path in track(images, "detecting"):
        image = open_image(path)
        start = time.perf_counter()
        regions = detector.detect([image])[0]
        seconds += time.perf_counter() - start
        for region in regions:
            if region.label in found:
                found[region.label].append(ScoredBox(path.stem, region.box, region.score))
    precision = [
        100 * float(np.mean([average_precision(found[label], truth[label], iou) for label in found]))
        for iou in (0.5, 0.75)
    ]
    return [str(len(found)), *(f"{value:.1f}" for value in precision), f"{len(images) / seconds:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--images", type=int, help="so many images, the first by name")
    arguments = parser.parse_args()
    images = sorted((COCO / "images").glob("*.jpg"))[: arguments.images]
    truth = human_boxes(images)
    names = arguments.names or [find_yolo(0.001)]
    rows = [[Path(name).name, *measure(load_detector(name), images, truth)] for name in names]
    print_table(f"{len(images)} images", ["detector", "classes", "AP 0.5", "AP 0.75", "images/s"], rows)


if __name__ == "__main__":
    main()
