"""The region detector: regions alone, and regions with the log-odds of nouns that verdicts rest on.

OMP_NUM_THREADS=1 python -m benchmarks.speed.detector PHOTOGRAPHS     # CPU milliseconds an image, medians
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from captrial.data.images import open_image
from captrial.vision.detectors.region_detector import SHOWN, RegionDetector

IMAGES = 40


def main() -> None:
    """Time both on the first photographs of a folder, in turn."""
    torch.set_num_threads(1)
    detector = RegionDetector.from_pretrained(threshold=SHOWN)
    images = [open_image(path) for path in sorted(Path(sys.argv[1]).iterdir())[:IMAGES]]
    calls: dict[str, Callable[..., object]] = {
        "regions": lambda image: detector.detect([image]),
        "regions and nouns": detector.detect_nouns,
    }
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for image in [images[0], *images]:  # the first one warms up
        for name, call in calls.items():
            start = time.process_time()
            call(image)
            spent[name].append(1e3 * (time.process_time() - start))
    for name, times in spent.items():
        low, middle, high = np.percentile(times[1:], [10, 50, 90])
        print(f"{name}: {middle:.0f} ms (10% to 90%: {low:.0f} to {high:.0f})")


if __name__ == "__main__":
    main()
