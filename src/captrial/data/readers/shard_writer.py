"""Writing tar shards in WebDataset form."""

from __future__ import annotations

import io
import tarfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from captrial.data.signatures import SUFFIXES, picture_format
from captrial.errors import DatasetError
from captrial.files import atomic_path
from captrial.records import Sample


class ShardWriter:
    """Shards of a fixed number of samples; each appears whole, by renaming, or not at all.

    A sample becomes `000000042.jpg` (the picture's bytes, untouched), `.json` (id, captions, split, label, size,
    regions) and `.txt` (one caption a line, for other readers). Keys are running numbers, since ids may hold dots and
    slashes; the id is in the JSON.
    """

    def __init__(self, folder: Path, size: int = 1000, name: str = "shard") -> None:
        if size < 1:
            raise DatasetError("a shard needs at least one sample")
        self.written: list[Path] = []
        self._folder, self._size, self._name = folder, size, name
        self._count = 0
        self._ids: set[str] = set()
        self._open: ExitStack | None = None
        self._archive: tarfile.TarFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            self._open.__exit__(kind, error, trace)  # on an error the shard under way is removed

    def add(self, sample: Sample) -> None:
        """Append one sample; its picture is read from its path, or taken from `extra["image"]`."""
        if sample.id in self._ids:
            raise DatasetError(f"two samples with the id {sample.id!r}; shards need different ones")
        members = self._members(sample)
        self._ids.add(sample.id)
        if self._count % self._size == 0:
            self._next_shard()
        assert self._archive is not None
        for suffix, content in members:
            member = tarfile.TarInfo(f"{self._count:09}.{suffix}")
            member.size, member.mode = len(content), 0o644  # no times and owners: the same input, the same bytes
            self._archive.addfile(member, io.BytesIO(content))
        self._count += 1

    def _next_shard(self) -> None:
        if self._open is not None:
            self._open.close()
        path = self._folder / f"{self._name}-{len(self.written):06}.tar"
        self._open = ExitStack()
        temporary = self._open.enter_context(atomic_path(path))
        archive = tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by the stack
        self._archive = self._open.enter_context(archive)
        self.written.append(path)

    def _members(self, sample: Sample) -> list[tuple[str, bytes]]:
        content = _picture_bytes(sample)
        kind = picture_format(content[:16])
        if kind is None:
            raise DatasetError(f"{sample.picture.path or sample.id}: not a picture we know; it cannot go into a shard")
        members = [
            (SUFFIXES[kind][0][1:], content),
            ("json", orjson.dumps(_record(sample), option=orjson.OPT_SORT_KEYS)),
        ]
        if sample.captions:
            lines = "\n".join(" ".join(caption.split()) for caption in sample.captions)
            members.append(("txt", lines.encode()))
        return members


def _picture_bytes(sample: Sample) -> bytes:
    image = sample.extra.get("image")
    if isinstance(image, bytes):
        return image
    if sample.picture.path is None:
        raise DatasetError(f"picture {sample.id!r} has no file; it cannot go into a shard")
    try:
        return sample.picture.path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{sample.picture.path}: cannot be read: {error.strerror or error}") from None


def _record(sample: Sample) -> dict[str, object]:
    picture = sample.picture
    regions = [[*region.box, region.label, region.score] for region in sample.regions]
    fields = {
        "id": sample.id,
        "captions": list(sample.captions),
        "split": sample.split,
        "label": picture.label,
        "width": picture.width,
        "height": picture.height,
        "regions": regions,
    }
    return {key: value for key, value in fields.items() if value not in (None, [])}
