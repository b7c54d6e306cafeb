"""The pool of a competition: every model's caption of every image, read block by block.

On disk, `pool.parquet` holds the image ids and `captions/0.parquet`, `captions/1.parquet`, ... one caption a row in the
same order and the same row groups. Adding a model adds a file and touches no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from captrial.errors import InputError
from captrial.files import atomic_path

BLOCK = 16384  # images a block: some 10 MB of captions for nine models


@dataclass(frozen=True, slots=True)
class Block:
    """Some images with the captions of all models; every array has one row an image."""

    ids: pa.Array
    captions: tuple[pa.Array, ...]  # one array a model


class CaptionSource(Protocol):
    """Captions of several models for the same images, in blocks that can be read in any order."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""

    @property
    def blocks(self) -> int:
        """How many blocks there are."""

    def __len__(self) -> int:
        """How many images there are."""

    def block(self, index: int, models: Sequence[int]) -> Block:
        """Read one block, with the captions of these models (indices into `models`) only."""


class CaptionPool:
    """A pool in memory: ids and one caption a model and image.

    >>> pool = CaptionPool(["1", "2"], {"A": ["a dog", "a cat"], "B": ["a dog", "a tree"]})
    >>> len(pool), pool.models
    (2, ('A', 'B'))
    """

    def __init__(self, ids: Sequence[str], captions: Mapping[str, Sequence[str]], block: int = BLOCK) -> None:
        for model, texts in captions.items():
            if len(texts) != len(ids):
                raise InputError(f"model {model} has {len(texts)} captions for {len(ids)} images")
        self._ids = pa.array(ids, pa.string())
        self._captions = [pa.array(texts, pa.string()) for texts in captions.values()]
        self._names = tuple(captions)
        self._size = block

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return self._names

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-len(self._ids) // self._size)

    def __len__(self) -> int:
        return len(self._ids)

    def block(self, index: int, models: Sequence[int]) -> Block:
        """Read one block."""
        at = index * self._size
        chosen = (self._captions[model].slice(at, self._size) for model in models)
        return Block(self._ids.slice(at, self._size), tuple(chosen))


class StoredPool:
    """The pool of a competition on disk; any number of threads may read blocks."""

    def __init__(self, directory: Path, models: Sequence[str]) -> None:
        self._directory, self._names, self._own = directory, tuple(models), local()
        metadata = pq.read_metadata(directory / "pool.parquet")
        self._rows, self._groups = metadata.num_rows, metadata.num_row_groups

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return self._names

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return int(self._groups)

    def __len__(self) -> int:
        return int(self._rows)

    def block(self, index: int, models: Sequence[int]) -> Block:
        """Read one block with the captions of these models."""
        captions = tuple(self._column(f"captions/{model}.parquet", index) for model in models)
        return Block(self._column("pool.parquet", index), captions)

    def ids(self) -> pa.Array:
        """All image ids."""
        return pq.read_table(self._directory / "pool.parquet")["id"].combine_chunks()

    def _column(self, file: str, index: int) -> pa.Array:
        opened = self._own.__dict__.setdefault("files", {})
        if file not in opened:
            opened[file] = pq.ParquetFile(self._directory / file)
        return opened[file].read_row_group(index, use_threads=False).column(0).combine_chunks()


def gather(pool: CaptionSource, wanted: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Every model's caption of the wanted images, in one pass over the ids and the blocks that hold them."""
    value_set = pa.array(sorted(set(wanted)), pa.string())
    found: dict[str, tuple[str, ...]] = {}
    for index in range(pool.blocks):
        ids = pool.block(index, ()).ids
        rows = pc.indices_nonzero(pc.is_in(ids, value_set=value_set))
        if len(rows):
            block = pool.block(index, range(len(pool.models)))
            columns = [captions.take(rows).to_pylist() for captions in block.captions]
            found |= dict(zip(ids.take(rows).to_pylist(), zip(*columns, strict=True), strict=True))
    return found


def write_column(path: Path, name: str, values: pa.Array) -> None:
    """Write one column in row groups of a block each, whole or not at all."""
    with atomic_path(path) as temporary:
        pq.write_table(
            pa.table({name: values}), temporary, row_group_size=BLOCK, compression="lz4", use_dictionary=False
        )
