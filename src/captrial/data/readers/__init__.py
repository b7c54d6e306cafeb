"""Readers of data sets, one file a format; each returns `Sample` records and names what is wrong and where."""

from __future__ import annotations

from captrial.data.readers.coco import read_boxes, read_coco, segmentation_mask, with_masks
from captrial.data.readers.common import join, present, problems
from captrial.data.readers.karpathy import read_karpathy

__all__ = [
    "join",
    "present",
    "problems",
    "read_boxes",
    "read_coco",
    "read_karpathy",
    "segmentation_mask",
    "with_masks",
]
