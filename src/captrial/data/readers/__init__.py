"""Readers of data sets, one file a format; each returns `Sample` records and names what is wrong and where."""

from __future__ import annotations

from captrial.data.readers.coco import read_boxes, read_coco, segmentation_mask, with_masks
from captrial.data.readers.common import join, present, problems
from captrial.data.readers.detect import FORMS, Found, detect, read_dataset
from captrial.data.readers.entities import parse_sentence, read_entities
from captrial.data.readers.flickr8k import read_flickr8k
from captrial.data.readers.folder import read_folder
from captrial.data.readers.karpathy import read_karpathy
from captrial.data.readers.sequences import read_sequences
from captrial.data.readers.shards import find_shards, read_shards, write_shards

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
