"""Data set readers, one file per format, listed in `READERS`; each returns `captrial.records.Sample`s.

`read_dataset` recognises the format of a path and reads it; `read_coco`, `read_karpathy` ... read one format with its
own options. `join`, `present` and `problems` work on the samples of any reader.

Names are imported when first used: one reader does not load the others.
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.data.datasets.base import DatasetReader, Probe, ReadOptions
    from captrial.data.datasets.caption_table import read_metadata, read_table
    from captrial.data.datasets.coco import (
        masked_regions,
        read_boxes,
        read_coco,
        read_coco_folder,
        segmentation_mask,
        with_boxes,
        with_masks,
    )
    from captrial.data.datasets.flickr8k import read_flickr8k
    from captrial.data.datasets.flickr30k_entities import parse_entities, read_entities
    from captrial.data.datasets.hugging_face import read_hugging_face
    from captrial.data.datasets.image_folder import read_folder
    from captrial.data.datasets.image_sequences import read_sequences
    from captrial.data.datasets.karpathy import read_karpathy
    from captrial.data.datasets.registry import READERS, DetectedDataset, detect, find_reader, read_dataset
    from captrial.data.datasets.samples import DatasetSummary, join, present, problems
    from captrial.data.datasets.toyworld import read_phrases, read_toyworld
    from captrial.data.datasets.visual_genome import read_visual_genome
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
    "masked_regions",
    "parse_entities",
    "present",
    "problems",
    "read_boxes",
    "read_coco",
    "read_coco_folder",
    "read_dataset",
    "read_entities",
    "read_flickr8k",
    "read_folder",
    "read_hugging_face",
    "read_karpathy",
    "read_metadata",
    "read_phrases",
    "read_sequences",
    "read_shards",
    "read_table",
    "read_toyworld",
    "read_visual_genome",
    "segmentation_mask",
    "with_boxes",
    "with_masks",
    "write_shards",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "base": "DatasetReader Probe ReadOptions",
        "caption_table": "read_metadata read_table",
        "coco": "masked_regions read_boxes read_coco read_coco_folder segmentation_mask with_boxes with_masks",
        "flickr8k": "read_flickr8k",
        "hugging_face": "read_hugging_face",
        "flickr30k_entities": "parse_entities read_entities",
        "image_folder": "read_folder",
        "image_sequences": "read_sequences",
        "karpathy": "read_karpathy",
        "registry": "READERS DetectedDataset detect find_reader read_dataset",
        "samples": "DatasetSummary join present problems",
        "toyworld": "read_phrases read_toyworld",
        "visual_genome": "read_visual_genome",
        "webdataset": "find_shards read_shards write_shards",
    },
)
