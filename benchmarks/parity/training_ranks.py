"""Two processes train as one: the toy world by one process and by `torchrun` with two (Gloo), same global batch.

Dropout is off and nothing is sampled, so the curves can be compared epoch by epoch; every process has one thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import Row, compare, environment

Curve = list[dict[str, float]]  # an entry an epoch
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
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    line = [sys.executable, *torchrun, "-m", "captrial", *arguments]
    subprocess.run(line, check=True, env=environment(OMP_NUM_THREADS="1"), stdout=2)


def curve(run: Path) -> Curve:
    with (run / "metrics.csv").open() as file:
        return [
            {name: float(row[name] or "nan") for name in ("loss", "reward", "cider", "seconds")}
            for row in csv.DictReader(file)
        ]


def curves(images: int) -> list[Curve]:
    """Of one process and of two."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        world, store = folder / "world", folder / "features"
        captrial(
            1, "data", "toyworld", str(world), "--images", str(images), "--size", "96", "--splits", "train=5,val=1"
        )
        captrial(1, "features", str(world), "--out", str(store), "--backbone", "efficientnet-lite0")
        chosen = [text for key, value in OPTIONS.items() for text in ("--set", f"{key}={value}")]
        line = ["train", "transformer-small", "--data", str(world), "--features", str(store), *chosen]
        for ranks in (1, 2):
            captrial(ranks, *line, "--out", str(folder / f"run{ranks}"), "--json")
        return [curve(folder / "run1"), curve(folder / "run2")]


def apart(one: Curve, two: Curve) -> float:
    """The largest relative difference of loss, reward and CIDEr, all epochs; of scores near 0, to a tenth."""
    pairs = [(a[name], b[name]) for a, b in zip(one, two, strict=True) for name in ("loss", "reward", "cider")]
    return max(abs(a - b) / max(abs(a), 0.1) for a, b in pairs if a == a)


def run(images: int = 240) -> list[Row]:
    one, two = curves(images)
    what = f"two ranks: {len(two)} epochs of {images} toy images"
    return [
        compare(f"{what}, one thread each", "one rank", two[-1]["seconds"], one[-1]["seconds"]),
        compare(f"{what}, loss, reward, CIDEr: largest relative difference", "tolerance", apart(one, two), 1e-4, ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=240)
    one, two = curves(parser.parse_args().images)
    found = {"one process": one, "two processes": two, "largest relative difference": apart(one, two)}
    print(json.dumps({**found, "speed-up": one[-1]["seconds"] / two[-1]["seconds"]}, indent=2))


if __name__ == "__main__":
    main()
