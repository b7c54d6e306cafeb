"""Readers of data sets, one file a format; each returns `Sample` records and names what is wrong and where."""

from __future__ import annotations

from captrial.data.datasets.coco import (
    read_boxes,
    read_coco,
    segmentation_mask,
    with_masks,
)
from captrial.data.datasets.common import join, present, problems
from captrial.data.datasets.flickr8k import read_flickr8k
from captrial.data.datasets.flickr30k_entities import parse_sentence, read_entities
from captrial.data.datasets.image_folder import read_folder
from captrial.data.datasets.image_sequences import read_sequences
from captrial.data.datasets.karpathy import read_karpathy
from captrial.data.datasets.registry import (
    FORMS,
    Found,
    detect,
    read_dataset,
)
from captrial.data.datasets.webdataset import find_shards, read_shards, write_shards

__all__ = [
    "FORMS",
    "Found",
    "detect",
    "find_shards",
    "join",
    "parse_sentence",
    "present",
    "problems",
    "read_boxes",
    "read_coco",
    "read_dataset",
    "read_entities",
    "read_flickr8k",
    "read_folder",
    "read_karpathy",
    "read_sequences",
    "read_shards",
    "segmentation_mask",
    "with_masks",
    "write_shards",
]
