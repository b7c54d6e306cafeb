"""Bottom-up features as tab-separated lines with arrays in base64, as their authors publish them.

Six columns (Anderson et al.): image_id, image_w, image_h, num_boxes, boxes, features; or ten (LXMERT): img_id, img_h,
img_w, objects_id, objects_conf, attrs_id, attrs_conf, num_boxes, boxes, features. Arrays are float32 (ids int64).
"""

from __future__ import annotations

import base64
import binascii
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.arrays import read_npz
from captrial.errors import DatasetError, InputError
from captrial.files import atomic_path, cache_directory, content_hash
from captrial.vision.features.precomputed import PrecomputedFeatures, Stored

COLUMNS = {
    6: ("id", "width", "height", "count", "boxes", "features"),
    10: ("id", "height", "width", "classes", "scores", "_", "_", "count", "boxes", "features"),
}
Place = tuple[int, int, int]  # part, offset and length of a line


class TsvFeatures(PrecomputedFeatures):
    """One TSV file, or a folder of its parts (`*.tsv*`).

    The place of every line is found once and kept in the cache folder; after that an image costs one read.
    """

    def open(self) -> None:
        """Find the files."""
        self.parts = sorted(self.path.glob("*.tsv*")) if self.path.is_dir() else [self.path]
        if not self.parts:
            raise DatasetError(f"{self.path} has no .tsv files in it")
        self._files: dict[int, int] = {}
        self._process = os.getpid()

    def ids(self) -> Sequence[str]:
        """The images' ids, in the files' order."""
        return list(self._places)

    def __contains__(self, image_id: object) -> bool:
        return image_id in self._places

    def read(self, image_id: str) -> Stored:
        """The arrays of one line."""
        if image_id not in self._places:
            raise self.missing(image_id)
        part, offset, length = self._places[image_id]
        fields = os.pread(self._file(part), length, offset).rstrip(b"\r\n").split(b"\t")
        try:
            row = dict(zip(COLUMNS[len(fields)], fields, strict=True))
            count = int(row["count"])
            return Stored(
                _floats(row["features"]).reshape(count, -1),
                _floats(row["boxes"]).reshape(count, 4),
                (int(row["width"]), int(row["height"])),
                np.frombuffer(base64.b64decode(row["classes"]), np.int64) if "classes" in row else None,
                _floats(row["scores"]) if "scores" in row else None,
            )
        except (ValueError, KeyError, binascii.Error) as error:
            raise DatasetError(
                f"{self.parts[part]}: the line of image {image_id} is damaged ({error}); fetch the file again"
            ) from None

    @cached_property
    def _places(self) -> dict[str, Place]:
        places: dict[str, Place] = {}
        sums: dict[str, int] = {}
        for number, path in enumerate(self.parts):
            ids, table = _index(path)
            for image_id, (offset, length, checksum) in zip(ids, table.tolist(), strict=True):
                if sums.setdefault(image_id, checksum) != checksum:  # published files repeat some lines
                    raise DatasetError(f"{path}: image {image_id} stands twice with different features; keep one")
                places.setdefault(image_id, (number, offset, length))
        return places

    def _file(self, part: int) -> int:
        """A file descriptor of this process."""
        if self._process != os.getpid():
            self._files, self._process = {}, os.getpid()
        if part not in self._files:
            self._files[part] = os.open(self.parts[part], os.O_RDONLY)
        return self._files[part]

    def close(self) -> None:
        """Close the files; they open again when needed."""
        if self._process == os.getpid():
            for descriptor in self._files.values():
                os.close(descriptor)
        self._files = {}

    def __del__(self) -> None:
        if hasattr(self, "_files"):
            self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}}


def _floats(text: bytes) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(text), np.float32).copy()


def _index(path: Path) -> tuple[list[str], NDArray[np.int64]]:
    """Ids, and offset, length and checksum of each line, from the cache where the file has not changed."""
    status = path.stat()
    key = content_hash(f"{path.resolve()} {status.st_size} {status.st_mtime_ns}")
    cached = cache_directory() / "tsv" / f"{key}.npz"
    with suppress(InputError, KeyError):  # no cached index, or a damaged one
        arrays = read_npz(cached)
        return arrays["ids"].tolist(), arrays["table"]
    lines = list(_scan(path))
    ids, table = [line[0] for line in lines], np.array([line[1:] for line in lines], np.int64).reshape(-1, 3)
    with atomic_path(cached) as temporary:
        np.savez(temporary, ids=np.array(ids, str), table=table)
    return ids, table


def _scan(path: Path) -> Iterator[tuple[str, int, int, int]]:
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                columns = line.count(b"\t") + 1
                if columns not in COLUMNS:
                    raise DatasetError(
                        f"{path}, line {number}: {columns} columns, not 6 or 10; the file is not a bottom-up TSV, "
                        "or was cut short"
                    )
                yield line.split(b"\t", 1)[0].decode(errors="replace"), offset, len(line), zlib.crc32(line)
            offset += len(line)
