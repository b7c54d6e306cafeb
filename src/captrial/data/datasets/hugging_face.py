"""Hugging Face data sets on disk: what `Dataset.save_to_disk` and `DatasetDict.save_to_disk` write.

Read with pyarrow alone. Images are in the Arrow files; `extra["image"]` of a sample is their part of the mapped file,
which is only read when the image is opened (`captrial.data.image_source.sample_image`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from captrial.data.captions.rows import CAPTION_NAMES, ID_NAMES, REFERENCE_NAMES
from captrial.data.datasets.base import DatasetReader, Probe, expect, expect_field, read_json, safe_join
from captrial.data.datasets.caption_table import normal_split
from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample

DICTIONARY, STATE = "dataset_dict.json", "state.json"


def read_hugging_face(folder: Path | str) -> list[Sample]:
    """All samples of a data set on disk, or of every split of a dictionary of them."""
    folder = Path(folder)
    if not (folder / DICTIONARY).is_file():
        return list(_split(folder, None))
    named = expect_field(read_json(folder / DICTIONARY), "splits", list, str(folder / DICTIONARY))
    where = f"{folder / DICTIONARY}: splits"
    parts = {name: safe_join(folder, name, where) for name in (expect(part, str, where) for part in named)}
    return [sample for name, part in parts.items() for sample in _split(part, name)]


def _split(folder: Path, split: str | None) -> Iterator[Sample]:
    state = folder / STATE
    files = expect_field(read_json(state), "_data_files", list, str(state))
    row = 0
    for record in files:
        name = expect_field(record, "filename", str, f"{state}: _data_files")
        table = _table(safe_join(folder, name, str(state)))
        image, caption, identity = _columns(table.schema, folder)
        for batch in table.to_batches():
            for index in range(batch.num_rows):
                yield _sample(folder, split, row, batch, index, (image, caption, identity))
                row += 1


def _table(path: Path) -> pa.Table:
    """An Arrow stream, mapped and not read: image bytes stay on disk."""
    try:
        table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        table.validate(full=True)  # offsets of a damaged file would lead out of it
        return table
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise DatasetError(
            f"{path}: is not an Arrow file of a data set ({str(error).partition(chr(10))[0][:200]})"
        ) from None


def _columns(schema: pa.Schema, folder: Path) -> tuple[str, str, str | None]:
    """The names of the image column (a struct of bytes and path), the caption column and the id column, if any."""
    images = [field.name for field in schema if _is_image(field.type)]
    captions = [name for name in (*CAPTION_NAMES, *REFERENCE_NAMES) if name in schema.names]
    if not images or not captions:
        raise DatasetError(
            f"{folder}: columns {', '.join(schema.names)}; needed are an image column and one of "
            f"{', '.join(REFERENCE_NAMES)} (rename yours: dataset.rename_column)"
        )
    ids = [name for name in ID_NAMES if name in schema.names and name not in images]
    return images[0], captions[0], ids[0] if ids else None


def _is_image(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0 and kind.get_field_index("path") >= 0)


def _sample(
    folder: Path, split: str | None, row: int, batch: pa.RecordBatch, index: int, columns: tuple[str, str, str | None]
) -> Sample:
    image, caption, identity = columns
    where = f"{folder}: row {row}"
    captions = _captions(batch[caption][index].as_py(), f"{where}: {caption}")
    stored = batch[image][index]
    content = stored["bytes"].as_buffer() if stored.is_valid and stored["bytes"].is_valid else None
    name = stored["path"].as_py() if stored.is_valid else None
    own = batch[identity][index].as_py() if identity is not None else name
    prefix = f"{split}/" if split else ""
    if content is None:
        raise DatasetError(f"{where}: its image is not in the data set (path {name!r}); save it with its bytes")
    extra: dict[str, object] = {"image": content, **({"name": name} if name else {})}
    return Sample(ImageRef(f"{prefix}{row if own is None else own}"), captions, normal_split(split), extra=extra)


def _captions(value: Any, where: str) -> tuple[str, ...]:
    several = value if isinstance(value, list) else [value]
    return tuple(expect(text, str, where) for text in several)


def _recognise(probe: Probe) -> bool:
    names = {file.name for file in probe.files}
    return DICTIONARY in names or {STATE, "dataset_info.json"} <= names


HUGGING_FACE = DatasetReader(
    name="huggingface",
    title="Hugging Face data set on disk",
    description="what save_to_disk writes: an image column, and caption, text or captions",
    needs="the folder",
    recognise=_recognise,
    read=lambda path, _: read_hugging_face(path),
)
