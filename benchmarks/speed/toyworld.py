"""How fast the toy world renders, encoding not counted, and how that compares with opening the same images as JPEG.

python -m benchmarks.speed.toyworld            images a second
python -m benchmarks.speed.toyworld --shift    how far the wild split is from train
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
GOAL = 100.0  # images of 256 pixels a second a core


def a_second(work: Callable[[int], object], count: int) -> float:
    """Calls a second of one core's time (not of the wall clock: other processes must not count)."""
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
    """Rows of images a second: each split against the goal, then against decoding the same images."""
    world = ToyWorld(seed=0, size=256)
    world.render("train", 0)  # textures are made once
    works: dict[str, Callable[[int], object]] = {
        f"toy world, {split}: image and truth": lambda i, s=split: world.render(s, i)  # type: ignore[misc]
        for split in SPLITS
    }
    works["toy world, train: truth alone"] = lambda i: world.sample("train", i)
    works["toy world, train: scene alone"] = lambda i: world.scene("train", i)
    rows = [compare(what, "the goal", a_second(work, images), GOAL, "/s") for what, work in works.items()]
    files = jpegs(world, "train", images)
    decoding = a_second(lambda i: np.asarray(Image.open(io.BytesIO(files[i]))), images)
    rendering = a_second(lambda i: world.render("train", i), images)
    return [*rows, compare("toy world, train: image and truth", "decoding a JPEG of it", rendering, decoding, "/s")]


def shift(scenes: int = 2000) -> list[str]:
    """Total variation of (class, scene) and (class, colour) pairs between splits, and pairs never seen in train."""
    world, lines = ToyWorld(seed=0), []
    made = {split: [world.scene(split, index) for index in range(scenes)] for split in ("train", "test", "wild")}
    for what in ("place", "colour"):
        pairs = {
            split: Counter((t.kind, s.place if what == "place" else t.colour) for s in made[split] for t in s.things)
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
