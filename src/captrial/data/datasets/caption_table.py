"""Tables of images and captions: CSV, TSV, JSON lines, Parquet, references in JSON; folders with a `metadata` table.

A table has a column with the file name of the image (`image`, `file_name`, `filename`, `image_id` ...), one with its
caption or a list of captions (`caption`, `text`, `captions` ...), and optionally one named `split`. An image may stand
in several rows. The folders are those of Hugging Face's `imagefolder`: `metadata.jsonl`, `metadata.csv` or
`metadata.parquet` beside the images, or one in each of the folders `train`, `validation` and `test`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from captrial.data.captions.reading import read_captioned_images, read_rows
from captrial.data.captions.rows import REFERENCE_NAMES
from captrial.data.datasets.base import DatasetReader, Probe, image_root, safe_join
from captrial.data.datasets.samples import reject_duplicates
from captrial.data.image_source import ImageSource
from captrial.errors import CaptionFileError, DatasetError
from captrial.records import ImageRef, Sample

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
METADATA = tuple(f"metadata{suffix}" for suffix in SUFFIXES)
SPLITS = {"train": "train", "training": "train", "validation": "val", "valid": "val", "val": "val", "test": "test"}
"""Names of splits, and what captrial calls them."""


def read_table(path: Path | str, images: Path | str | None = None) -> list[Sample]:
    """The images of a table, in its order; the files are in `images`, else beside the table."""
    path = Path(path)
    try:
        rows = read_captioned_images(path)
    except CaptionFileError as error:
        raise DatasetError(str(error)) from None
    source = ImageSource(image_root(path, images) or path.parent)
    return [_sample(path, source, *row) for row in rows]


def _sample(path: Path, source: ImageSource, name: str, captions: Sequence[str], split: str | None) -> Sample:
    if not all(caption.strip() for caption in captions):
        raise DatasetError(f"{path}: a caption of {name} is empty; remove its row or write one")
    direct = safe_join(source.root, name, f"{path}: {name}")
    file = direct if direct.is_file() else source.path(name) or direct
    return Sample(ImageRef(name, file), tuple(captions), normal_split(split))


def normal_split(name: str | None) -> str | None:
    """`validation` is `val` here; other names stay.

    >>> normal_split("validation"), normal_split("holdout")
    ('val', 'holdout')
    """
    return None if name is None else SPLITS.get(name.lower(), name)


def read_metadata(folder: Path | str) -> list[Sample]:
    """The images of a folder with a metadata table, or of its folders `train`, `validation` and `test`."""
    folder = Path(folder)
    samples: list[Sample] = []
    for part in _parts(folder):
        split = None if part == folder else normal_split(part.name)
        for sample in read_table(_table(part), part):
            image = ImageRef(sample.id if part == folder else f"{part.name}/{sample.id}", sample.image.path)
            samples.append(Sample(image, sample.captions, sample.split or split))
    reject_duplicates(samples, folder)
    return samples


def _table(folder: Path) -> Path:
    found = [folder / name for name in METADATA if (folder / name).is_file()]
    if len(found) > 1:
        raise DatasetError(f"{folder}: several tables ({', '.join(path.name for path in found)}); keep one")
    return found[0]


def _parts(folder: Path) -> list[Path]:
    """The folders with a metadata table: the folder itself, else those named for a split."""
    candidates = [folder, *sorted(folder / name for name in SPLITS)]
    found = [part for part in candidates if any((part / name).is_file() for name in METADATA)]
    return found[:1] if found[:1] == [folder] else found


def _is_table(probe: Probe) -> bool:
    """Whether the file has the columns of a table of captions; a broken one with its suffix is an error here."""
    if probe.is_folder or not probe.path.is_file():
        return False
    if probe.path.suffix.lower() not in SUFFIXES:
        document = probe.document  # a file of references?
        return isinstance(document, dict) and bool(document) and all(map(_is_captions, document.values()))
    try:
        read_rows(probe.path, REFERENCE_NAMES)
    except CaptionFileError as error:
        raise DatasetError(str(error)) from None
    return True


def _is_captions(value: object) -> bool:
    """Whether a value of a JSON object is a caption, or a list of captions."""
    texts = value if isinstance(value, list) else [value]
    return bool(texts) and all(isinstance(text, str) for text in texts)


TABLE = DatasetReader(
    name="table",
    title="table of captions",
    description="CSV, TSV, JSON lines or Parquet with a column for the file name and one for the caption, or a "
    "JSON object with the captions of every file",
    needs="the file; the images beside it, in `images`, or by --images",
    recognise=_is_table,
    read=lambda path, options: read_table(path, images=options.images),
    takes_images=True,
)
METADATA_FOLDER = DatasetReader(
    name="imagefolder",
    title="image folder with metadata",
    description="metadata.jsonl, .csv or .parquet beside the images, or in train, validation and test",
    needs="the folder",
    recognise=lambda probe: probe.is_folder and bool(_parts(probe.path)),
    read=lambda path, _: read_metadata(path),
)
