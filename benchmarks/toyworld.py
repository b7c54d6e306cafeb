"""How fast the toy world renders, encoding not counted, and how that compares with opening the same pictures as JPEG.

python -m benchmarks.toyworld            pictures a second
python -m benchmarks.toyworld --shift    how far the wild split is from train
"""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from PIL import Image

from captrial.data.toyworld import SPLITS, ToyWorld

PICTURES = 200
GOAL = 100.0  # pictures of 256 pixels a second a core


def a_second(work: Callable[[int], object], count: int) -> float:
    """Calls a second of one core's time (not of the wall clock: other processes must not count)."""
    start = time.process_time()
    for index in range(count):
        work(index)
    return count / (time.process_time() - start)


def jpegs(world: ToyWorld, split: str, count: int) -> list[bytes]:
    """The pictures as JPEG files in memory."""
    files = []
    for index in range(count):
        buffer = io.BytesIO()
        Image.fromarray(world.render(split, index).pixels).save(buffer, "jpeg", quality=92)
        files.append(buffer.getvalue())
    return files


def run(pictures: int = PICTURES) -> list[dict[str, object]]:
    """Rows of pictures a second: each split against the goal, then against decoding the same pictures."""
    world = ToyWorld(seed=0, size=256)
    world.render("train", 0)  # textures are made once
    rows: list[dict[str, object]] = []

    def add(what: str, against: str, ours: float, theirs: float) -> None:
        rows.append(
            {"what": what, "against": against, "ours": ours, "theirs": theirs, "ratio": ours / theirs, "unit": "1/s"}
        )

    for split in SPLITS:
        add(f"{split}: picture and truth", "the goal", a_second(lambda i, s=split: world.render(s, i), pictures), GOAL)
    add("train: truth alone", "the goal", a_second(lambda i: world.sample("train", i), pictures), GOAL)
    add("train: scene alone", "the goal", a_second(lambda i: world.scene("train", i), pictures), GOAL)
    files = jpegs(world, "train", pictures)
    decoding = a_second(lambda i: np.asarray(Image.open(io.BytesIO(files[i]))), pictures)
    add(
        "train: picture and truth",
        "decoding a JPEG of it",
        a_second(lambda i: world.render("train", i), pictures),
        decoding,
    )
    return rows


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
    for row in run():
        print(
            f"{row['what']:26} {row['ours']:7.0f} /s  {row['against']:22} {row['theirs']:7.0f} /s  x{row['ratio']:.2f}"
        )


if __name__ == "__main__":
    main()
