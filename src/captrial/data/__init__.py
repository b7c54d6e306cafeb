"""Where pictures and words come from: readers, caption files, safe picture opening, pools, the toy world."""

from captrial.data.captions import (
    CaptionSet,
    Problem,
    read_captions,
    read_references,
    write_captions,
    write_references,
)
from captrial.data.pictures import PictureProblem, open_picture, picture_size, try_open
from captrial.data.readers import detect, join, present, problems, read_dataset, read_shards, write_shards

__all__ = [
    "CaptionSet",
    "PictureProblem",
    "Problem",
    "detect",
    "join",
    "open_picture",
    "picture_size",
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
