"""Where images and words come from: readers, caption files, safe image opening, pools, the toy world."""

from captrial.data.captions import (
    CaptionProblem,
    CaptionSet,
    read_captions,
    read_references,
    write_captions,
    write_references,
)
from captrial.data.datasets import (
    detect,
    join,
    present,
    problems,
    read_dataset,
    read_shards,
    write_shards,
)
from captrial.data.images import (
    ImageProblem,
    image_size,
    open_image,
    try_open,
)

__all__ = [
    "CaptionProblem",
    "CaptionSet",
    "ImageProblem",
    "detect",
    "image_size",
    "join",
    "open_image",
    "present",
    "problems",
    "read_captions",
    "read_dataset",
    "read_references",
    "read_shards",
    "try_open",
    "write_captions",
    "write_references",
    "write_shards",
]
