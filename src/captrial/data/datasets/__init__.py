"""Data set readers, one file per format, listed in `READERS`; each returns `captrial.records.Sample`s.

`read_dataset` recognises the format of a path and reads it; `read_coco`, `read_karpathy` ... read one format with its
own options. `join`, `present` and `problems` work on the samples of any reader.
"""

from captrial.data.datasets.base import DatasetReader, Probe, ReadOptions
from captrial.data.datasets.coco import read_boxes, read_coco, segmentation_mask, with_masks
from captrial.data.datasets.flickr8k import read_flickr8k
from captrial.data.datasets.flickr30k_entities import parse_entities, read_entities
from captrial.data.datasets.image_folder import read_folder
from captrial.data.datasets.image_sequences import read_sequences
from captrial.data.datasets.karpathy import read_karpathy
from captrial.data.datasets.registry import READERS, DetectedDataset, detect, find_reader, read_dataset
from captrial.data.datasets.samples import DatasetSummary, join, present, problems
from captrial.data.datasets.toyworld import read_phrases, read_toyworld
from captrial.data.datasets.webdataset import find_shards, read_shards, write_shards

__all__ = [
    "READERS",
    "DatasetReader",
    "DatasetSummary",
    "DetectedDataset",
    "Probe",
    "ReadOptions",
    "detect",
    "find_reader",
    "find_shards",
    "join",
    "parse_entities",
    "present",
    "problems",
    "read_boxes",
    "read_coco",
    "read_dataset",
    "read_entities",
    "read_flickr8k",
    "read_folder",
    "read_karpathy",
    "read_phrases",
    "read_sequences",
    "read_shards",
    "read_toyworld",
    "segmentation_mask",
    "with_masks",
    "write_shards",
]
