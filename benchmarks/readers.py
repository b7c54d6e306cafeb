"""Reading the data sets we have, and masks and polygons against pycocotools, in one run.

python -m benchmarks.readers
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as theirs

from captrial.data.readers import join, present, read_boxes, read_coco, read_karpathy, read_shards, rle, write_shards

DATA = Path(os.environ.get("CAPTRIAL_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The shortest of a few runs."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def outline(random: np.random.Generator) -> NDArray[np.float64]:
    """A wobbly closed outline of 60 points, somewhere in and around a picture of 640 x 480."""
    angles = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    radius = random.uniform(5, 200) + random.normal(0, 6, 60)
    points = random.uniform(0, 600, 2) + radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.round(points, 2)


def masks() -> None:
    random = np.random.default_rng(0)
    outlines = [outline(random) for _ in range(2000)]
    ours = [rle.polygon_to_mask(points, 480, 640) for points in outlines]
    reference = [theirs.decode(theirs.frPyObjects([points.ravel().tolist()], 480, 640))[:, :, 0] for points in outlines]
    equal = sum(np.array_equal(one, other.astype(bool)) for one, other in zip(ours, reference, strict=True))
    print(f"| polygons rasterised like pycocotools, bit for bit | {equal} of {len(outlines)} |")
    packed = [theirs.encode(np.asfortranarray(mask, np.uint8)) for mask in ours]
    equal = sum(rle.encode(mask)["counts"] == one["counts"].decode() for mask, one in zip(ours, packed, strict=True))
    print(f"| masks encoded to the same characters | {equal} of {len(ours)} |")
    equal = sum(np.array_equal(rle.decode(one), mask) for mask, one in zip(ours, packed, strict=True))
    print(f"| masks decoded to the same pixels | {equal} of {len(ours)} |")
    few = slice(0, 200)
    pairs = {
        "rasterise": (
            lambda: [rle.polygon_to_mask(points, 480, 640) for points in outlines[few]],
            lambda: [theirs.decode(theirs.frPyObjects([one.ravel().tolist()], 480, 640)) for one in outlines[few]],
        ),
        "encode": (
            lambda: [rle.encode(mask) for mask in ours[few]],
            lambda: [theirs.encode(np.asfortranarray(mask, np.uint8)) for mask in ours[few]],
        ),
        "decode": (
            lambda: [rle.decode(one) for one in packed[few]],
            lambda: [theirs.decode(one) for one in packed[few]],
        ),
    }
    for name, (mine, other) in pairs.items():
        one, two = seconds(mine), seconds(other)
        print(f"| {name}, ms a mask: ours, pycocotools' C | {one * 5:.2f}, {two * 5:.2f} (ratio {one / two:.1f}) |")


def main() -> None:
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # inside pycocotools
    flickr, coco = DATA / "flickr8k" / "dataset_flickr8k.json", DATA / "coco"
    captions = read_coco(coco / "captions_val2017.json")
    print("| what | measured |\n| --- | --- |")
    reading = seconds(lambda: read_karpathy(flickr))
    print(f"| Flickr8k, Karpathy JSON: 7 500 pictures, 37 500 captions | {reading:.2f} s |")
    reading = seconds(lambda: read_coco(coco / "captions_val2017.json"))
    print(f"| COCO val2017 captions: 5 000 pictures, 25 014 captions | {reading:.2f} s |")
    joining = seconds(lambda: join(captions, read_boxes(coco / "boxes_val2017.json")))
    print(f"| COCO val2017 boxes, read and joined: 36 781 boxes | {joining:.2f} s |")
    with tempfile.TemporaryDirectory() as folder:
        there = present(captions)
        writing = seconds(lambda: write_shards(there, folder, size=100), 1)
        print(f"| shards, written: {len(there)} pictures | {writing:.2f} s |")
        print(f"| shards, read | {seconds(lambda: list(read_shards(folder))):.2f} s |")
    masks()


if __name__ == "__main__":
    main()
