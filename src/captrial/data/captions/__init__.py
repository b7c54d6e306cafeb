"""Caption files in and out: what captioners said (one caption an id) and what people said (several).

Formats are recognised by content, never by suffix: COCO results, `{"id": "caption"}`, JSON lines, CSV/TSV, Parquet.
"""

from captrial.data.captions.caption_set import CaptionProblem, CaptionSet
from captrial.data.captions.reading import read_captions, read_references
from captrial.data.captions.writing import write_captions, write_references

__all__ = ["CaptionProblem", "CaptionSet", "read_captions", "read_references", "write_captions", "write_references"]
