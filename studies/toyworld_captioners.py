"""Captioners of the toy world: Cornia 2022's three, on regions and on a grid, for `captrial papers cornia`.

python -m studies.toyworld_captioners --out FOLDER [--images 1000] [--test 200] [--rooms 16] [--epochs 10] [--seeds 3]

Writes the toy world (`toyworld`), two feature stores (`regions`: its objects and the whole image, pooled from the
grid; `grid`: seven by seven cells, as many as ViT-B/32 has patches) and six runs a seed (`runs/transformer-regions-0`
...): layers and memory of the paper, 128 wide, cross-entropy and then self-critical training. The robot split has every
room by day and by night at three camera heights. Every step is kept: a run that was killed continues.
`studies.robot_grounding` measures the captioners; the commands that use them are in docs/results.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from captrial.progress import track
from captrial.records import Sample
from captrial.toyworld import ToyWorldSettings, read_toyworld, write_toyworld
from captrial.toyworld.scene.robot import FRAMES, HEIGHTS, LIGHTS
from studies.paper_runs import CORNIA, SIZES, has_bfloat16_units

SIZE = 448  # pixels: 14 x 14 cells of EfficientNet-Lite0
SIDE = 7  # cells of the coarser grid
FEATURES = ("regions", "grid")
KEPT_FRAMES = 5  # every fifth frame of a robot sequence: neighbours show nearly the same
WIDTH = {"width": 128, "heads": 4, "hidden": 512}
RECIPE = {
    "batch": 16,
    "captions": 3,
    "rate": 1e-3,
    "warmup": 40,
    "min_count": 2,
    "patience": 100,
    "scst_epochs": 2,
    "scst_rate": 5e-5,
    "scst_warmup": 10,
    "average": 0.99,
    "autocast": str(has_bfloat16_units()).lower(),
}


def read_samples(folder: Path) -> list[Sample]:
    """The toy world in a folder of this study; of robot sequences the frames that are kept."""
    samples = read_toyworld(folder / "toyworld")
    return [
        sample for sample in samples if sample.split != "robot" or int(str(sample.extra["frame"])) % KEPT_FRAMES == 0
    ]


def run_name(captioner: str, features: str, seed: int) -> str:
    """The folder of a run in `runs`."""
    return f"{captioner}-{features}-{seed}"


def pool(source: Path, out: Path, samples: Sequence[Sample]) -> None:
    """The two feature stores, both pooled from the fine grid."""
    from captrial.vision.backbones.base import grid_boxes
    from captrial.vision.boxes import pool_cells
    from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
    from captrial.vision.features.visual_features import Features

    store, cells = FeatureStore(source), grid_boxes(SIDE, SIDE)
    headers = {
        "regions": {"regions": "of the toy world, and the whole image"},
        "grid": {"pooled": f"{SIDE} x {SIDE}"},
    }
    for name, header in headers.items():
        with FeatureWriter(out / name, {**store.vision, **header}) as writer:
            for sample in track([sample for sample in samples if sample.id not in writer.done], f"pooling {name}"):
                fine = store.get([sample.id])
                assert fine.boxes is not None
                places = cells if name == "grid" else torch.tensor([(0, 0, SIZE, SIZE), *_boxes(sample)]) / SIZE
                elements = pool_cells(fine.elements, fine.boxes[0], places.unsqueeze(0))
                mask = torch.ones(elements.shape[:2], dtype=torch.bool)
                writer.add([sample.id], Features(elements, mask, places.unsqueeze(0)))


def _boxes(sample: Sample) -> list[tuple[float, ...]]:
    return [tuple(map(float, region.box)) for region in sample.regions]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare everything, train what is not trained yet."""
    from captrial.training.feature_extraction import features_of
    from captrial.training.run import TrainingData, train
    from captrial.vision.backbones.efficientnet import EfficientNetLite
    from captrial.vision.features.feature_store import FeatureStore

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--rooms", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    robot = chosen.rooms * len(LIGHTS) * len(HEIGHTS) * FRAMES
    counts = {"train": chosen.images, "val": 60, "test": chosen.test, "robot": robot}
    shares = {name: float(count) for name, count in counts.items()}
    write_toyworld(chosen.out / "toyworld", ToyWorldSettings(sum(counts.values()), size=SIZE, shares=shares))
    samples = read_samples(chosen.out)
    features_of(samples, EfficientNetLite(0, SIZE), chosen.out / "cells")
    pool(chosen.out / "cells", chosen.out, samples)
    learnt, checked = ([sample for sample in samples if sample.split == split] for split in ("train", "val"))
    for seed in range(chosen.seeds):
        for features in FEATURES:
            store = FeatureStore(chosen.out / features)
            data = TrainingData(learnt, checked, store, store.vision)
            for name in CORNIA:
                options = {**SIZES[name], **WIDTH, **RECIPE, "epochs": chosen.epochs, "seed": seed}
                shown = {key: str(value) for key, value in options.items()}
                train(f"{name}-small", data, chosen.out / "runs" / run_name(name, features, seed), shown)


if __name__ == "__main__":
    main()
