"""Does supervision make attention correct? Paper 003's question on the toy world, where the truth is known.

python -m benchmarks.attention_study --out FOLDER [--pictures 400] [--test 150] [--seeds 3] [--epochs 12]

Trains Show-Attend-Tell with implicit, strongly and weakly supervised attention on the same pictures, `--seeds` times
each, and prints the tables of docs/attend.md: correctness by model, by object size, against caption quality. Every
step is kept in the folder: a run that was killed continues where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from captrial.data.toyworld import ToyWorld
from captrial.progress import track
from captrial.records import Sample

KINDS = ("implicit", "strong", "weak")
SIZE = 448  # pixels: 14 x 14 cells, as paper 003 measures
BACKBONE = 0  # EfficientNet-Lite0
AXES = 96  # width of an element after reduction
SPLITS = ("train", "val", "test")
RECIPE = {
    "batch": "16",
    "captions": "1",
    "rate": "2e-3",
    "warmup": "40",
    "min_count": "3",
    "patience": "100",
    "width": "256",
    "embedding": "128",
}


def samples(counts: dict[str, int]) -> dict[str, list[Sample]]:
    """The toy world's truth about some pictures of each split."""
    world = ToyWorld(seed=0, size=SIZE)
    jobs = [(split, index) for split in SPLITS for index in range(counts[split])]
    made: dict[str, list[Sample]] = {split: [] for split in SPLITS}
    for split, index in track(jobs, "toy world"):
        made[split].append(world.sample(split, index))
    return made


def extract(folder: Path, counts: dict[str, int]) -> None:
    """Features of all pictures into a store, continued where it was."""
    from captrial.vision.efficientnet import EfficientNetLite
    from captrial.vision.store import FeatureWriter

    world, backbone = ToyWorld(seed=0, size=SIZE), EfficientNetLite(BACKBONE, SIZE)
    with FeatureWriter(folder, backbone.describe()) as writer:
        jobs = [(split, index) for split in SPLITS for index in range(counts[split])]
        todo = [(split, index) for split, index in jobs if f"{split}_{index:06d}" not in writer.done]
        for start in track(range(0, len(todo), 8), "features"):
            part = [world.render(split, index) for split, index in todo[start : start + 8]]
            features = backbone.see([Image.fromarray(picture.pixels) for picture in part])
            writer.add([picture.sample.id for picture in part], features)


def reduce(source: Path, target: Path, pictures: Sequence[str]) -> None:
    """The same features on the principal axes of the training pictures' cells, whitened: two cores are few."""
    import numpy as np
    import torch

    from captrial.vision.store import FeatureStore, FeatureWriter

    store = FeatureStore(source)
    with FeatureWriter(target, {**store.vision, "width": AXES, "reduced": "principal axes, whitened"}) as writer:
        todo = [name for name in store if name not in writer.done]
        if not todo:
            return
        cells = store.get(pictures).elements.flatten(0, 1).double().numpy()
        mean = cells.mean(0)
        values, axes = np.linalg.eigh(np.cov(cells - mean, rowvar=False))
        matrix = torch.from_numpy(axes[:, -AXES:] / np.sqrt(values[-AXES:])).float()
        for start in track(range(0, len(todo), 32), "reducing"):
            features = store.get(todo[start : start + 32])
            elements = (features.elements - torch.from_numpy(mean).float()) @ matrix
            writer.add(todo[start : start + 32], features.with_elements(elements))


def train_all(out: Path, made: dict[str, list[Sample]], seeds: int, epochs: int, weight: float, only: set[str]) -> None:
    """One run a kind and seed."""
    from captrial.training.run import train
    from captrial.vision.store import FeatureStore

    store = FeatureStore(out / "reduced")
    for seed in range(seeds):
        for kind in KINDS:
            if only and f"{kind}-{seed}" not in only:
                continue
            chosen = {"attention": kind, "attention_weight": weight, "seed": seed, "epochs": epochs}
            options = {**RECIPE, **{name: str(value) for name, value in chosen.items()}}
            folder = run_folder(out, kind, seed)
            train("show_attend_tell-small", made["train"], made["val"], store, store.vision, folder, options)


def run_folder(out: Path, kind: str, seed: int) -> Path:
    """Where the run of a kind and seed is."""
    return out / "runs" / f"{kind}-{seed}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=400)
    parser.add_argument("--test", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--weight", type=float, default=1.0)
    parser.add_argument("--only", default="", help="train these runs alone, e.g. implicit-0,weak-2; then stop")
    chosen = parser.parse_args(arguments)
    counts = {"train": chosen.pictures, "val": max(20, chosen.pictures // 10), "test": chosen.test}
    made = samples(counts)
    extract(chosen.out / "features", counts)
    reduce(chosen.out / "features", chosen.out / "reduced", [sample.id for sample in made["train"][:100]])
    train_all(chosen.out, made, chosen.seeds, chosen.epochs, chosen.weight, set(filter(None, chosen.only.split(","))))


if __name__ == "__main__":
    main()
