"""Where pictures and words come from: readers, caption files, safe picture opening, pools, the toy world."""

from captrial.data.captions import (
    CaptionSet,
    Problem,
    read_captions,
    read_references,
    write_captions,
    write_references,
)

__all__ = ["CaptionSet", "Problem", "read_captions", "read_references", "write_captions", "write_references"]
