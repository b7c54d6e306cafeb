"""The default backbone with memory that is used again beside memory that is taken anew, each in a process of its own.

OMP_NUM_THREADS=1 python -m benchmarks.speed.backbone     # CPU milliseconds an image, of random pixels
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.measuring import Row, compare, environment, show

BATCH, BATCHES, TURNS = 32, 2, 2
SEE = """
import sys, time, torch
from captrial.vision.devices import keep_freed_memory
from captrial.vision.backbones.efficientnet import EfficientNetLite

backbone, pixels = EfficientNetLite(2, int(sys.argv[1])), torch.randn({batch}, 3, *2 * [int(sys.argv[1])])
if sys.argv[2] == "kept":
    assert keep_freed_memory()
with torch.no_grad():
    backbone.elements(pixels)
    start = time.process_time()
    for _ in range({batches}):
        backbone.elements(pixels)
print(1e3 * (time.process_time() - start) / ({batch} * {batches}))
"""


def milliseconds(size: int, memory: str) -> float:
    """CPU time of one image."""
    code = SEE.format(batch=BATCH, batches=BATCHES)
    command = [sys.executable, "-c", code, str(size), memory]
    return float(subprocess.run(command, check=True, capture_output=True, env=environment()).stdout)


def run() -> list[Row]:
    """A row for the default size and one for a finer grid."""
    rows = []
    for size in (224, 384):
        turns = [(milliseconds(size, "kept"), milliseconds(size, "anew")) for _ in range(TURNS)]
        ours, theirs = (min(times) for times in zip(*turns, strict=True))
        rows.append(compare(f"EfficientNet-Lite2, {size} pixels", "memory taken anew", ours, theirs, "ms"))
    return rows


def main() -> None:
    show(run())


if __name__ == "__main__":
    main()
