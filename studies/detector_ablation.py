"""Does the weight of unmentioned classes matter, and do boxes of a teacher help? Short paired trainings.

    python -m studies.detector_ablation RUN --teacher BOXES.jsonl --out studies/results/detector/ablation.json

The averaged weights of RUN (of step 1 400, before any box of a teacher) are trained on for 200 steps in four ways, with
the same 1 600 images and the same seeds, and measured on 250 validation images and on 190 COCO images.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import torch

from captrial.data.images import open_image
from captrial.files import atomic_write
from captrial.vision.boxes import ScoredBox
from captrial.vision.detectors.region_detector import RegionDetector
from captrial.vision.detectors.region_network import RegionSettings
from captrial.vision.devices import keep_freed_memory
from studies.detector_training import DetectorRecipe, train_detector
from studies.region_detector import coco_truth, gather, read_images, read_teacher, run_detector, search_classes
from studies.region_evaluation import frequent_classes, mean_row, precision_table, truths
from studies.region_labels import LabelledImage, add_teacher_boxes, choose_labels

WAYS = {
    "unmentioned 0.5": (0.5, False),
    "unmentioned 0.5, teacher": (0.5, True),
    "unmentioned 1.0": (1.0, False),
    "unmentioned 0.1": (0.1, False),
}


def measure(
    detector: RegionDetector, images: Sequence[LabelledImage], paths: dict[str, Path], names: Sequence[str]
) -> dict[str, float]:
    """Figures on validation images and, for people and cars, on the later COCO images."""
    ids = [image.id for image in images]
    found = gather(lambda each: search_classes(detector, detector.predict(open_image(paths[each]))), ids, "validation")
    table = precision_table(found, truths(images), names)
    coco, truth = coco_truth(["person", "car"], first=200)

    def search(identity: str) -> dict[str, list[ScoredBox]]:
        seen = replace(detector.predict(open_image(coco[identity])), size=(1, 1))
        return {name: [ScoredBox("", each.box, each.score) for each in detector.find(seen, name)] for name in truth}

    others = precision_table(gather(search, list(coco), "COCO"), truth, truth)
    mean = {key: round(value, 2) for key, value in mean_row(table, names).items()}
    return {**mean, **{f"coco_{name}": round(row["ap50_everywhere"], 2) for name, row in others.items()}}


def main() -> None:
    """Train four ways and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    splits, paths = read_images()
    labels, names = choose_labels(splits["train"]), frequent_classes(splits["train"])
    some = [splits["train"][index] for index in np.random.default_rng(7).permutation(len(splits["train"]))[:1600]]
    taught = read_teacher(arguments.teacher, 0.45)
    rows = []
    for title, (unmentioned, teacher) in WAYS.items():
        network = run_detector(arguments.run, labels, RegionSettings(size=384)).network
        images = [add_teacher_boxes(image, taught.get(paths[image.id].name, [])) for image in some] if teacher else some
        recipe = DetectorRecipe(epochs=1, rate=4e-4, trunk_rate=5e-5, unmentioned=unmentioned, average=0.98)
        with tempfile.TemporaryDirectory() as folder:
            train_detector(network, images, paths, recipe, Path(folder))
        rows.append({"title": title, **measure(RegionDetector(network), splits["val"][300:550], paths, names)})
    atomic_write(arguments.out, orjson.dumps(rows, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
