"""Two processes train as one: the toy world by one process and by `torchrun` with two (Gloo), same global batch.

Dropout is off and nothing is sampled, so the curves can be compared epoch by epoch; every process has one thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = {
    "epochs": 3,
    "scst_epochs": 1,
    "scst_by": "beam",
    "dropout": 0,
    "embed_dropout": 0,
    "min_count": 1,
    "batch": 32,
}


def captrial(ranks: int, *arguments: str) -> None:
    """The command line, in so many processes."""
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    subprocess.run([sys.executable, *torchrun, "-m", "captrial", *arguments], check=True, env=environment, stdout=2)


def curve(run: Path) -> list[dict[str, float]]:
    with (run / "metrics.csv").open() as file:
        return [
            {name: float(row[name] or "nan") for name in ("loss", "reward", "cider", "seconds")}
            for row in csv.DictReader(file)
        ]


def run(pictures: int = 240) -> list[dict[str, object]]:
    """Loss curves of one and two processes, their largest difference, and how much faster two are."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        world, store = folder / "world", folder / "features"
        captrial(
            1, "data", "toyworld", str(world), "--pictures", str(pictures), "--size", "96", "--splits", "train=5,val=1"
        )
        captrial(1, "features", str(world), "--out", str(store), "--backbone", "efficientnet-lite0")
        chosen = [text for key, value in OPTIONS.items() for text in ("--set", f"{key}={value}")]
        line = ["train", "transformer-small", "--data", str(world), "--features", str(store), *chosen]
        for ranks in (1, 2):
            captrial(ranks, *line, "--out", str(folder / f"run{ranks}"), "--json")
        one, two = curve(folder / "run1"), curve(folder / "run2")
    names = ("loss", "reward", "cider")
    apart = [abs(a[name] - b[name]) / abs(a[name]) for a, b in zip(one, two, strict=True) for name in names if a[name]]
    return [
        {"one process": one},
        {"two processes": two},
        {"largest relative difference": max(value for value in apart if value == value)},
        {"speed-up": one[-1]["seconds"] / two[-1]["seconds"]},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=240)
    for row in run(parser.parse_args().pictures):
        print(json.dumps(row))


if __name__ == "__main__":
    main()
