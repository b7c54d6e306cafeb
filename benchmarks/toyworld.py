"""How fast the toy world renders, encoding not counted, and how that compares with opening the same pictures as JPEG.

python -m benchmarks.toyworld
"""

from __future__ import annotations

import io
import time
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


def main() -> None:
    for row in run():
        print(
            f"{row['what']:26} {row['ours']:7.0f} /s  {row['against']:22} {row['theirs']:7.0f} /s  x{row['ratio']:.2f}"
        )


if __name__ == "__main__":
    main()
