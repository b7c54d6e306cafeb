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

__all__ = [
    "CaptionSet",
    "PictureProblem",
    "Problem",
    "open_picture",
    "picture_size",
    "read_captions",
    "read_references",
    "try_open",
    "write_captions",
    "write_references",
]
