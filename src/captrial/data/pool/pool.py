"""A finished pool: a folder with `manifest.parquet`, `summary.json`, and the pictures that were fetched for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from PIL import Image

from captrial.data.pictures import MAX_BYTES, open_picture
from captrial.data.pool.sources import Candidate
from captrial.errors import DatasetError, InputError
from captrial.records import Picture

MANIFEST, SUMMARY = "manifest.parquet", "summary.json"
NO_CLASS = "(no class)"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A picture that was found and is not in the pool.

    Status: `unreadable`, `exact duplicate`, `near duplicate` (then `copy_of` is the one that stays), `not downloaded`.
    """

    id: str
    status: str
    reason: str
    copy_of: str | None = None


@dataclass(frozen=True)
class Pool:
    """Pictures by id, in id order. `table` has every picture found, also those left out, and why."""

    directory: Path
    table: pa.Table = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    @classmethod
    def load(cls, directory: Path | str) -> Pool:
        """Read a pool that `build_pool` wrote."""
        directory = Path(directory)
        try:
            table = pq.read_table(directory / MANIFEST)
            summary = orjson.loads((directory / SUMMARY).read_bytes())
        except FileNotFoundError:
            raise DatasetError(f"{directory}: is not a finished pool; build it with `captrial pool build`") from None
        except PermissionError:
            raise DatasetError(f"{directory}: its manifest may not be read; check its permissions") from None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DatasetError(f"{directory}: its manifest is damaged ({error}); build the pool again") from None
        return cls(directory, table, summary)

    def __len__(self) -> int:
        return len(self._rows)

    def pictures(self) -> list[Picture]:
        """The pictures of the pool; `path` is None for one that lies in a tar shard (see `open`)."""
        return [
            Picture(row["id"], self._path(row["path"]), row["width"], row["height"], row["class"])
            for row in self._rows.values()
        ]

    def left_out(self) -> list[LeftOut]:
        """What was found and is not in the pool, with reasons, in id order."""
        rest = self.table.filter(pa.compute.not_equal(self.table["status"], "kept"))
        columns = rest.select(["id", "status", "reason", "copy_of"]).to_pylist()
        return [LeftOut(**row) for row in columns]

    def classes(self) -> dict[str, int]:
        """Class to number of pictures, the largest first."""
        return count_classes(row["class"] for row in self._rows.values())

    def read(self, picture_id: str) -> bytes:
        """The bytes of a picture's file, wherever it lies."""
        row = self._rows.get(picture_id)
        if row is None:
            raise InputError(f"{self.directory}: has no picture {picture_id!r}; see `captrial pool show`")
        candidate = Candidate(
            row["id"], None, self._path(row["path"]), self._path(row["shard"]), row["offset"], row["size"]
        )
        try:
            return candidate.read(MAX_BYTES)
        except OSError as error:
            raise DatasetError(
                f"{candidate.path or candidate.shard}: is gone since the pool was built ({error})"
            ) from None

    def open(self, picture_id: str) -> Image.Image:
        """A picture in RGB (see `captrial.data.open_picture`)."""
        return open_picture(self.read(picture_id), name=picture_id)

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        kept = self.table.filter(pa.compute.equal(self.table["status"], "kept"))
        columns = ["id", "class", "path", "shard", "offset", "size", "width", "height"]
        return {row["id"]: row for row in kept.select(columns).to_pylist()}

    def _path(self, stored: str | None) -> Path | None:
        return None if stored is None else self.directory / stored  # an absolute path stays what it is


def count_classes(labels: Iterable[str | None]) -> dict[str, int]:
    """Class to number of pictures, the largest first, equal ones by name.

    >>> count_classes(["dog", "cat", "dog", None])
    {'dog': 2, '(no class)': 1, 'cat': 1}
    """
    counts = Counter(NO_CLASS if label is None else label for label in labels)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
