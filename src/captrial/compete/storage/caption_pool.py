"""The pool of a competition: what every model said about every image, read block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from captrial.errors import InputError

BLOCK = 16384  # images a block: some 10 MB of captions for nine models


@dataclass(frozen=True, slots=True)
class Block:
    """Some images with the captions of all models; every array has one row an image."""

    ids: pa.Array
    captions: tuple[pa.Array, ...]  # one array a model


class Pool(Protocol):
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


def gather(pool: Pool, wanted: Sequence[str]) -> dict[str, tuple[str, ...]]:
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
