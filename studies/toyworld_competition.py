"""The nine captioners of Wan 2022 in one competition on the wild images of the toy world.

    python -m studies.toyworld_competition train WORK [--images 600] [--pool 2000]
    python -m studies.toyworld_competition export POOL
    captrial papers wan --data POOL --k 70

`train` writes the toy world, trains the nine (and ORT without geometry, for Fig. 12) on its tidy images by
cross-entropy and then by each one's own reinforcement stage, and keeps what they say about the wild images, with the
references, in `studies/results/toyworld_competition.json.gz`. Regions are the toy world's own, with their labels; SGAE
reads its scene graphs. Captions are decoded without constraints, as the papers' code does. A stopped run continues.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import torch

from captrial.captioners.checkpoint import Checkpoint
from captrial.files import atomic_write
from captrial.records import Sample
from captrial.toyworld import ToyWorldSettings, read_toyworld, write_toyworld
from captrial.training.feature_extraction import extract_dataset
from captrial.training.run import TrainingData, train
from captrial.vision.features.feature_store import FeatureStore
from studies.paper_runs import DISC, WAN, Run, caption_freely, title

RESULTS = Path(__file__).parent / "results" / "toyworld_competition.json.gz"
BACKBONE = "truth+efficientnet-lite0?size=224"
VALIDATION = 60  # images
CAPTIONERS = (*WAN, "ort-no-geometry")
_SHARED = {"batch": 16, "captions": 3, "min_count": 3, "patience": 100}
XE = {**_SHARED, "epochs": 12, "rate": 1e-3, "warmup": 40}
RL = {**_SHARED, "epochs": 0, "scst_epochs": 3, "scst_rate": 5e-5, "scst_warmup": 10, "average": 0.99}


def runs(captioner: str) -> list[Run]:
    """The stages of a captioner; Disc continues from Att2in."""
    last = Run(captioner, "regions", "rl")
    assert last.after is not None
    return [last.after, last]


def train_captioner(captioner: str, samples: Sequence[Sample], store: FeatureStore, folder: Path) -> Checkpoint:
    """Both stages of a captioner on the tidy images; finished ones are read."""
    learnt, checked = ([sample for sample in samples if sample.split == split] for split in ("train", "val"))
    data = TrainingData(learnt, checked, store, store.vision)
    best, start = None, None
    for run in runs(captioner):
        options: dict[str, Any] = {**(XE if run.stage == "xe" else RL), "seed": run.seed}
        if captioner == "disc" and run.stage == "rl":
            options |= DISC
        place = folder / run.name
        best = train(run.preset, data, place, {name: str(value) for name, value in options.items()}, start=start)
        start = place / "best"
    assert best is not None
    return best


def train_all(work: Path, images: int, pool: int) -> None:
    """Train what is not trained yet, and keep all captions of the wild images."""
    shares = {"train": float(images), "val": float(VALIDATION), "wild": float(pool)}
    write_toyworld(work / "toyworld", ToyWorldSettings(images + VALIDATION + pool, size=224, shares=shares))
    samples = read_toyworld(work / "toyworld")
    extract_dataset(samples, BACKBONE, work / "regions")
    store = FeatureStore(work / "regions")
    wild = [sample for sample in samples if sample.split == "wild"]
    captions = {}
    for name in CAPTIONERS:
        best = train_captioner(name, samples, store, work / "runs")
        captions[title(Run(name, "regions", "rl"))] = caption_freely(best, work / "regions", wild)
    references = {sample.id: sample.captions for sample in wild}
    kept = {"images": images, "xe": XE, "rl": RL, "references": references, "captions": captions}
    atomic_write(RESULTS, gzip.compress(orjson.dumps(kept), mtime=0))


def export(folder: Path) -> list[str]:
    """Write the kept captions as a pool for `captrial papers wan`; returns the names of the captioners."""
    kept = orjson.loads(gzip.decompress(RESULTS.read_bytes()))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"references": kept["references"], **kept["captions"]}.items():
        atomic_write(folder / f"{name}.json", orjson.dumps(content))
    return list(kept["captions"])


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("work", type=Path)
    training.add_argument("--images", type=int, default=600)
    training.add_argument("--pool", type=int, default=2000)
    commands.add_parser("export").add_argument("pool", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.command == "train":
        train_all(arguments.work, arguments.images, arguments.pool)
    else:
        print("\n".join(export(arguments.pool)))


if __name__ == "__main__":
    main()
