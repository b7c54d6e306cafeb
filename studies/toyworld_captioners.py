"""Captioners of the toy world for `captrial papers cornia`: Cornia 2022's three, on regions and on a grid.

python -m studies.toyworld_captioners --out FOLDER [--images 400] [--test 100] [--robot 60] [--epochs 10]

Writes the toy world (`toyworld`), two feature stores (`regions`: its objects and the whole image, pooled from the
grid; `grid`: seven by seven cells, as many as ViT-B/32 has patches) and six runs (`runs/transformer-regions` ...).
Every step is kept: a run that was killed continues. The commands that use them are in docs/results.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from captrial.progress import track
from captrial.records import Sample
from captrial.toyworld import ToyWorldSettings, read_toyworld, write_toyworld

SIZE = 448  # pixels: 14 x 14 cells of EfficientNet-Lite0
SIDE = 7  # cells of the coarser grid
CAPTIONERS = ("transformer", "smart", "m2")
RECIPE = {"batch": "16", "captions": "3", "rate": "1e-3", "warmup": "40", "min_count": "2", "patience": "100"}


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
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--robot", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=10)
    chosen = parser.parse_args(arguments)
    counts = {"train": chosen.images, "val": 40, "test": chosen.test, "robot": chosen.robot}
    world = chosen.out / "toyworld"
    shares = {name: float(count) for name, count in counts.items()}
    write_toyworld(world, ToyWorldSettings(sum(counts.values()), size=SIZE, shares=shares))
    samples = read_toyworld(world)
    features_of(samples, EfficientNetLite(0, SIZE), chosen.out / "cells")
    pool(chosen.out / "cells", chosen.out, samples)
    learnt, checked = ([sample for sample in samples if sample.split == split] for split in ("train", "val"))
    for features in ("regions", "grid"):
        store = FeatureStore(chosen.out / features)
        for name in CAPTIONERS:
            options = {**RECIPE, "epochs": str(chosen.epochs)}
            train(
                f"{name}-small",
                TrainingData(learnt, checked, store, store.vision),
                chosen.out / "runs" / f"{name}-{features}",
                options,
            )


if __name__ == "__main__":
    main()
