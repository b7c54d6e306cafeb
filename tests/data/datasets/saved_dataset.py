"""Data sets as `Dataset.save_to_disk` and `DatasetDict.save_to_disk` of Hugging Face's `datasets` write them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import pyarrow as pa
from PIL import Image

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def png(width: int = 8) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (width, 6)).save(stream, "PNG")
    return stream.getvalue()


def save_split(folder: Path, captions: Sequence[object], caption: str = "caption") -> None:
    """One Arrow file of images 8, 9, ... pixels wide, each with its caption."""
    folder.mkdir(parents=True)
    images = pa.array([{"bytes": png(8 + row), "path": None} for row in range(len(captions))], IMAGE)
    table = pa.table({"image": images, caption: pa.array(captions)})
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table, max_chunksize=2)
    files = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "f", "_split": None}
    (folder / "state.json").write_bytes(orjson.dumps(files))
    (folder / "dataset_info.json").write_bytes(orjson.dumps({"features": {}}))


def save_splits(folder: Path, splits: Mapping[str, Sequence[object]]) -> None:
    for name, captions in splits.items():
        save_split(folder / name, captions)
    (folder / "dataset_dict.json").write_bytes(orjson.dumps({"splits": list(splits)}))
