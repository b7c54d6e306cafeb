"""Rendering speed of the toy world, without encoding, against decoding the same images from JPEG.

python -m benchmarks.speed.toyworld            images per second
python -m benchmarks.speed.toyworld --shift    distance of the wild split from train
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from PIL import Image

from benchmarks.measuring import Row, compare, show
from captrial.toyworld import SPLITS, ToyWorld

IMAGES = 200
GOAL = 100.0  # images of 256 pixels per second and core


def per_second(work: Callable[[int], object], count: int) -> float:
    """Calls per second of processor time, so that other processes do not count."""
    start = time.process_time()
    for index in range(count):
        work(index)
    return count / (time.process_time() - start)


def jpegs(world: ToyWorld, split: str, count: int) -> list[bytes]:
    """The images as JPEG files in memory."""
    files = []
    for index in range(count):
        buffer = io.BytesIO()
        Image.fromarray(world.render(split, index).pixels).save(buffer, "jpeg", quality=92)
        files.append(buffer.getvalue())
    return files


def run(images: int = IMAGES) -> list[Row]:
    """Images per second: each split against the goal, then against decoding the same images."""
    world = ToyWorld(seed=0, size=256)
    world.render("train", 0)  # textures are made once
    works: dict[str, Callable[[int], object]] = {
        f"toy world, {split}: image and annotations": lambda i, s=split: world.render(s, i)  # type: ignore[misc]
        for split in SPLITS
    }
    works["toy world, train: annotations alone"] = lambda i: world.sample("train", i)
    works["toy world, train: scene alone"] = lambda i: world.scene("train", i)
    rows = [compare(what, "the goal", per_second(work, images), GOAL, "/s") for what, work in works.items()]
    files = jpegs(world, "train", images)
    decoding = per_second(lambda i: np.asarray(Image.open(io.BytesIO(files[i]))), images)
    rendering = per_second(lambda i: world.render("train", i), images)
    return [
        *rows,
        compare("toy world, train: image and annotations", "decoding a JPEG of it", rendering, decoding, "/s"),
    ]


def shift(scenes: int = 2000) -> list[str]:
    """Total variation of (class, scene) and (class, colour) pairs between splits, and pairs never seen in train."""
    world, lines = ToyWorld(seed=0), []
    made = {split: [world.scene(split, index) for index in range(scenes)] for split in ("train", "test", "wild")}
    for what in ("place", "colour"):
        pairs = {
            split: Counter((o.label, s.place if what == "place" else o.colour) for s in made[split] for o in s.objects)
            for split in made
        }
        train = pairs["train"]
        for split in ("test", "wild"):
            other = pairs[split]
            keys = set(train) | set(other)
            distance = sum(abs(train[key] / train.total() - other[key] / other.total()) for key in keys) / 2
            unseen = sum(count for key, count in other.items() if key not in train) / other.total()
            lines.append(f"(class, {what}) train and {split}: total variation {distance:.3f}, unseen {unseen:.1%}")
    return lines


def main() -> None:
    if "--shift" in sys.argv:
        print("\n".join(shift()))
        return
    show(run())


if __name__ == "__main__":
    main()
