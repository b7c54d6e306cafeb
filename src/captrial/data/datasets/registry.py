"""The registry of data set readers: `detect` recognises what a path holds, `read_dataset` reads it.

To add a format, write one file with a `DatasetReader` (see `captrial.data.datasets.base`) and add it to `READERS`.
Error messages, `captrial data formats` and the table of docs/datasets.md read the registry.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from captrial.data.datasets import (
    caption_table,
    coco,
    flickr8k,
    flickr30k_entities,
    hugging_face,
    image_folder,
    image_sequences,
    karpathy,
    toyworld,
    visual_genome,
    webdataset,
)
from captrial.data.datasets.base import DatasetReader, Probe, ReadOptions
from captrial.data.datasets.samples import select_split
from captrial.errors import DatasetError
from captrial.records import Sample

log = logging.getLogger(__name__)

READERS: dict[str, DatasetReader] = {
    reader.name: reader
    for reader in (  # recognised in this order: specific formats first, and Karpathy, which has splits, before COCO
        toyworld.TOYWORLD,
        flickr30k_entities.ENTITIES,
        webdataset.SHARDS,
        visual_genome.VISUAL_GENOME,
        coco.COCO_FOLDER,
        image_sequences.SEQUENCES,
        karpathy.KARPATHY,
        flickr8k.FLICKR8K,
        coco.COCO,
        coco.BOXES,
        hugging_face.HUGGING_FACE,
        caption_table.METADATA_FOLDER,
        caption_table.TABLE,
        image_folder.FOLDER,
    )
}
"""Every data set reader by name."""


@dataclass(frozen=True, slots=True)
class DetectedDataset:
    """What a path holds: the reader for it, and the file or folder to read."""

    reader: DatasetReader
    path: Path

    @property
    def format(self) -> str:
        """The name of the reader, a key of `READERS`."""
        return self.reader.name

    def __str__(self) -> str:
        return f"{self.path}: {self.reader}"


def read_dataset(
    path: Path | str, *, split: str | None = None, images: Path | str | None = None, format: str | None = None
) -> list[Sample]:
    """Read a data set in any of the formats of `READERS`.

    The format is recognised from the content unless `format`, a key of `READERS`, names it; it is logged at level INFO.
    `split` selects samples by split, or by several (`"train+restval"`). `images` is the folder of the images where it
    is not `images` beside the annotations. Raises `DatasetError` with file, line or id for malformed data.
    """
    found = find_reader(path, format)
    log.info("reading %s", found)
    if images is not None and not found.reader.takes_images:
        raise DatasetError(f"{found}; it takes no image folder")
    samples = list(found.reader.read(found.path, ReadOptions(images)))
    return select_split(samples, split, found.path)


def find_reader(path: Path | str, format: str | None = None) -> DetectedDataset:
    """The reader named by `format`, or else the one that recognises the path."""
    if format is None:
        return detect(path)
    if format not in READERS:
        raise DatasetError(f"no format {format!r}; there are {', '.join(READERS)}")
    return DetectedDataset(READERS[format], Path(path))


def detect(path: Path | str) -> DetectedDataset:
    """Recognise a file or folder by its content; raises `DatasetError` with the known formats if no reader does."""
    probe = Probe(Path(path))
    for reader in READERS.values():
        if reader.recognise(probe):
            return DetectedDataset(reader, probe.path)
        if reader.in_folders:
            files = [file.path for file in probe.annotations if reader.recognise(file)]
            if len(files) > 1:
                names = ", ".join(file.name for file in files)
                raise DatasetError(f"{path}: several annotation files ({names}); name the one to read")
            if files:
                return DetectedDataset(reader, files[0])
    if not probe.path.exists():
        raise DatasetError(f"{path}: no such file or folder")
    known = "; ".join(map(str, READERS.values()))
    raise DatasetError(f"{path}: is not a data set in a known format. Formats: {known}")
