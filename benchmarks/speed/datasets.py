"""Reading the available data sets, and masks and polygons against pycocotools, in one run.

python -m benchmarks.speed.datasets
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as theirs

from benchmarks.measuring import Row, compare, seconds, show
from captrial.data.datasets import join, masks, present, read_boxes, read_coco, read_karpathy, read_shards, write_shards
from studies.data_paths import COCO, FLICKR8K_CAPTIONS

Masks = list[NDArray[Any]]


def outline(random: np.random.Generator) -> NDArray[np.float64]:
    """A wobbly closed outline of 60 points, somewhere in and around an image of 640 x 480."""
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    radius = random.uniform(5, 200) + random.normal(0, 6, 60)
    points = random.uniform(0, 600, 2) + radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.round(points, 2)


def equality(outlines: Masks, ours: Masks, packed: list[dict[str, Any]]) -> None:
    """How many of our masks are theirs, bit for bit."""
    reference = [theirs.decode(theirs.frPyObjects([points.ravel().tolist()], 480, 640))[:, :, 0] for points in outlines]
    equal = sum(np.array_equal(one, other.astype(bool)) for one, other in zip(ours, reference, strict=True))
    print(f"| polygons rasterised like pycocotools, bit for bit | {equal} of {len(outlines)} |")
    equal = sum(masks.encode(mask)["counts"] == one["counts"].decode() for mask, one in zip(ours, packed, strict=True))
    print(f"| masks encoded to the same characters | {equal} of {len(ours)} |")
    equal = sum(np.array_equal(masks.decode(one), mask) for mask, one in zip(ours, packed, strict=True))
    print(f"| masks decoded to the same pixels | {equal} of {len(ours)} |")


def run(count: int = 200) -> list[Row]:
    """Masks and polygons, in Python and numpy, against C."""
    outlines, ours, packed = made(count)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "rasterise": (
            lambda: [masks.polygon_to_mask(points, 480, 640) for points in outlines],
            lambda: [theirs.decode(theirs.frPyObjects([one.ravel().tolist()], 480, 640)) for one in outlines],
        ),
        "encode": (
            lambda: [masks.encode(mask) for mask in ours],
            lambda: [theirs.encode(np.asfortranarray(mask, np.uint8)) for mask in ours],
        ),
        "decode": (lambda: [masks.decode(one) for one in packed], lambda: [theirs.decode(one) for one in packed]),
    }
    rows = []
    for name, pair in pairs.items():
        mine, other = (1e3 * seconds(work, 3) / count for work in pair)
        rows.append(compare(f"{name} a mask of 640 x 480", "pycocotools' C", mine, other, "ms"))
    return rows


def made(count: int) -> tuple[Masks, Masks, list[dict[str, Any]]]:
    """Outlines, the masks they make, and these packed by pycocotools."""
    random = np.random.default_rng(0)
    outlines = [outline(random) for _ in range(count)]
    ours = [masks.polygon_to_mask(points, 480, 640) for points in outlines]
    return outlines, ours, [theirs.encode(np.asfortranarray(mask, np.uint8)) for mask in ours]


def main() -> None:
    captions = read_coco(COCO / "captions_val2017.json")
    print("| what | measured |\n| --- | --- |")
    reading = seconds(lambda: read_karpathy(FLICKR8K_CAPTIONS), 3)
    print(f"| Flickr8k, Karpathy JSON: 7 500 images, 37 500 captions | {reading:.2f} s |")
    reading = seconds(lambda: read_coco(COCO / "captions_val2017.json"), 3)
    print(f"| COCO val2017 captions: 5 000 images, 25 014 captions | {reading:.2f} s |")
    joining = seconds(lambda: join(captions, read_boxes(COCO / "boxes_val2017.json")), 3)
    print(f"| COCO val2017 boxes, read and joined: 36 781 boxes | {joining:.2f} s |")
    with tempfile.TemporaryDirectory() as folder:
        there = present(captions)
        writing = seconds(lambda: write_shards(there, folder, size=100))
        print(f"| shards, written: {len(there)} images | {writing:.2f} s |")
        print(f"| shards, read | {seconds(lambda: list(read_shards(folder)), 3):.2f} s |")
    equality(*made(2000))
    show(run())


if __name__ == "__main__":
    main()
