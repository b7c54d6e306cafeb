"""The pool of a competition: every model's caption of every image, read block by block.

On disk, `pool.parquet` holds the image ids and `captions/0.parquet`, `captions/1.parquet`, ... one caption a row in the
same order and the same row groups. Adding a model adds a file and touches no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import local
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from captrial.compete.storage.manifest import REMAKE
from captrial.data.image_ids import ImageIds, MatchedIds
from captrial.errors import DamagedError, InputError, damage_named
from captrial.folders import check_files

POOL = "pool.parquet"
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
    """The pool of a competition on disk; any number of threads may read blocks.

    Files of another length than recorded raise a `DamagedError`; `check` reads all of them.
    """

    def __init__(self, directory: Path, models: Sequence[str]) -> None:
        self._directory, self._names, self._own = directory, tuple(models), local()
        check_files(directory, REMAKE, self._files(), only_length=True)
        with damage_named(directory / POOL, REMAKE):
            metadata = pq.read_metadata(directory / POOL)
        self._rows, self._groups = metadata.num_rows, metadata.num_row_groups

    def check(self) -> None:
        """Raise a `DamagedError` where a file does not match its checksum."""
        check_files(self._directory, REMAKE, self._files())

    def _files(self) -> list[str]:
        return [POOL, *(_file(model) for model in range(len(self._names)))]

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
        ids, captions = self._column(POOL, index), tuple(self._column(_file(model), index) for model in models)
        for model, texts in zip(models, captions, strict=True):
            if len(texts) != len(ids):
                raise DamagedError(self._directory / _file(model), f"has {len(texts)} captions, not {len(ids)}", REMAKE)
        return Block(ids, captions)

    def ids(self) -> pa.Array:
        """All image ids."""
        with damage_named(self._directory / POOL, REMAKE):
            return pq.read_table(self._directory / POOL)["id"].combine_chunks()

    def match(self, ids: Iterable[str]) -> MatchedIds:
        """The images of the pool that ids of other files mean (see `captrial.data.image_ids`)."""
        given = list(ids)
        if not given:
            return MatchedIds({}, {})
        own = self.ids()
        if pc.all(pc.is_in(pa.array(given, pa.string()), value_set=own)).as_py():
            return MatchedIds({one: one for one in given}, {"exact": len(given)})
        return ImageIds(own.to_pylist()).match(given)

    def _column(self, file: str, index: int) -> pa.Array:
        opened = self._own.__dict__.setdefault("files", {})
        with damage_named(self._directory / file, REMAKE):
            if file not in opened:
                opened[file] = pq.ParquetFile(self._directory / file)
            values = opened[file].read_row_group(index, use_threads=False).column(0).combine_chunks()
            values.validate(full=True)  # e.g. bytes that are no UTF-8
        if not pa.types.is_string(values.type) or values.null_count:
            raise DamagedError(self._directory / file, "is not a column of texts", REMAKE)
        return values


def _file(model: int) -> str:
    return f"captions/{model}.parquet"


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
    """Write one column in row groups of a block each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: values}), path, row_group_size=BLOCK, compression="lz4", use_dictionary=False)
