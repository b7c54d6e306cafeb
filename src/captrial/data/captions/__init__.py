"""Caption files: one caption per image id (`read_captions`) or several (`read_references`), and writing both.

Formats are recognised from the content when reading and chosen by suffix when writing: COCO results,
`{"id": "caption"}`, JSON lines, CSV, TSV, Parquet. `CaptionSet` holds what was read, with every `CaptionProblem`.
"""

from captrial.data.captions.id_table import read_id_table
from captrial.data.captions.reading import CaptionLayout, CaptionProblem, CaptionSet, read_captions, read_references
from captrial.data.captions.writing import write_captions, write_references

__all__ = [
    "CaptionLayout",
    "CaptionProblem",
    "CaptionSet",
    "read_captions",
    "read_id_table",
    "read_references",
    "write_captions",
    "write_references",
]
