"""Reading `.npy` and `.npz` files that may be damaged or hostile: sizes are checked before memory is allocated.

`np.load` trusts headers: a file of 200 bytes may ask for a terabyte. Here, an array is read only if its file holds as
many bytes as its header declares, and an archive only if it unpacks to at most `limit` bytes. Pickled objects are never
loaded. Whatever is wrong with a file is an `InputError`.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from captrial.errors import InputError

MAX_ARRAY_BYTES = 4 << 30


def read_npz(
    source: Path | str | BinaryIO, name: object = None, limit: int = MAX_ARRAY_BYTES
) -> dict[str, NDArray[Any]]:
    """All arrays of a `.npz` file by name; `name` is used in messages (default: the path)."""
    with NpzArchive(source, name) as archive:
        total = sum(archive.sizes.values())
        if total > limit:
            raise InputError(f"{archive.name}: unpacks to {total >> 20} MiB, over the limit of {limit >> 20}")
        return {key: archive[key] for key in archive.sizes}


class NpzArchive:
    """The arrays of a `.npz` file, each read when it is asked for; a context manager that closes the file."""

    def __init__(self, source: Path | str | BinaryIO, name: object = None) -> None:
        self.name = source if name is None else name
        with self._readable():
            self._archive = zipfile.ZipFile(source)
            entries = [entry for entry in self._archive.infolist() if not entry.is_dir()]
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
        self.sizes = {key: entry.file_size for key, entry in self._entries.items()}  # bytes, unpacked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def __getitem__(self, key: str) -> NDArray[Any]:
        if self.sizes[key] > MAX_ARRAY_BYTES:
            raise InputError(f"{self.name}: {key} unpacks to more than {MAX_ARRAY_BYTES >> 20} MiB")
        with self._readable(), self._archive.open(self._entries[key]) as stream:
            return _read_array(stream, self.sizes[key])

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # zipfile and zlib raise almost anything on a malformed file
            raise InputError(f"{self.name}: is not a readable .npz file ({_reason(error)})") from None


def map_npy(path: Path | str) -> NDArray[Any]:
    """A `.npy` file, memory-mapped and read-only."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            shape, _, dtype = _read_header(stream)
            _check_size(shape, dtype, path.stat().st_size - stream.tell())
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except Exception as error:  # numpy parses the header as Python
        raise InputError(f"{path}: is not a readable .npy file ({_reason(error)})") from None


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(stream)
    if version == (1, 0):
        return npy.read_array_header_1_0(stream)
    if version == (2, 0):
        return npy.read_array_header_2_0(stream)
    raise ValueError(f"version {version} of the format")


def _check_size(shape: tuple[int, ...], dtype: np.dtype[Any], available: int) -> None:
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    needed = math.prod(shape) * dtype.itemsize
    if needed > available:
        raise ValueError(f"its header declares {needed} bytes, the file has {available}")


def _read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    shape, by_column, dtype = _read_header(stream)
    _check_size(shape, dtype, size - stream.tell())
    count = math.prod(shape)
    content = bytearray(count * dtype.itemsize)  # not `bytes`: the array can be written to
    filled, view = 0, memoryview(content)
    while filled < len(content):
        got = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not got:
            raise ValueError("it ends too early")
        filled += got
    array = np.frombuffer(content, dtype, count) if dtype.itemsize else np.zeros(count, dtype)
    return array.reshape(shape, order="F" if by_column else "C")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
