"""`compete select` over a large pool: slices are searched separately, and their best images merged.

Every slice of blocks reports its own best images of each pair of models. The order is total, so merging the reports,
in any order, gives the list of one search over all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from captrial.compete.selection.discrepancy import RankedImages, SearchOptions, merge, rank_images
from captrial.compete.selection.ngram_similarity import KEY
from captrial.compete.selection.registry import similarity_named
from captrial.compete.storage.caption_pool import Block, CaptionSource, StoredPool
from captrial.engines.engine import Engine, run
from captrial.engines.inputs import entry_parts
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.shards import OutputFolder
from captrial.errors import InputError
from captrial.files import content_hash

BLOCKS = 4  # a slice: 65 536 images, some seconds of work
Pair = tuple[int, int]


@dataclass(frozen=True)
class SelectJobSettings:
    """What workers load and search: a competition's pool, and the options of the search by value."""

    directory: str
    models: tuple[str, ...]
    depth: int  # images per pair
    seed: int
    pairs: tuple[Pair, ...]
    similarity: str
    exclude: tuple[tuple[str, ...], ...]  # by model


class SelectJob(Job):
    """The best images of slices of a pool; a row is a slice, `first:last` block."""

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("pair", pa.list_(pa.int32())),  # (found,)
            ("image", pa.list_(pa.string())),  # (found,)
            ("keys", pa.list_(pa.int64())),  # (found * KEY,)
            ("tie", pa.list_(pa.uint64())),  # (found,)
        ]
    )

    def __init__(self, settings: SelectJobSettings) -> None:
        self.pool, self.depth = StoredPool(Path(settings.directory), settings.models), settings.depth
        similarity, exclude = similarity_named(settings.similarity), [frozenset(images) for images in settings.exclude]
        self.options = SearchOptions(list(settings.pairs), settings.seed, similarity, exclude=exclude)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Search every slice by itself."""
        return [self._search(*map(int, row["item"].split(":"))) for row in rows]

    def _search(self, first: int, last: int) -> Row:
        part = _Slice(self.pool, first, last)
        found = rank_images(part, self.depth, self.options)
        return {
            "pair": [pair for pair, best in enumerate(found) for _ in best.ids],
            "image": [image for best in found for image in best.ids],
            "keys": [number for best in found for number in best.keys.ravel().tolist()],
            "tie": [tie for best in found for tie in best.ties.tolist()],
        }


class _Slice:
    """Some blocks of a pool as a pool."""

    def __init__(self, pool: StoredPool, first: int, last: int) -> None:
        self._pool, self._first, self._last = pool, first, last

    @property
    def models(self) -> tuple[str, ...]:
        return self._pool.models

    @property
    def blocks(self) -> int:
        return self._last - self._first

    def __len__(self) -> int:
        return sum(len(self.block(index, ()).ids) for index in range(self.blocks))

    def block(self, index: int, models: Sequence[int]) -> Block:
        return self._pool.block(self._first + index, models)


class EngineRanker:
    """`captrial.compete.selection.discrepancy.rank_images` on an engine; give it to `Competition.select(rank=...)`.

    Finished slices are kept in the competition's directory until all are done, so a stopped search continues.
    """

    def __init__(self, engine: Engine, directory: Path | str, similarity: str = "ngsm") -> None:
        self.engine, self.directory, self.similarity = engine, Path(directory).absolute(), similarity

    def __call__(self, pool: CaptionSource, depth: int, options: SearchOptions) -> list[RankedImages]:
        """The first `depth` images of every pair."""
        if options.tokenize is not None:
            raise InputError("a custom tokeniser works in one process only; leave out --engine and --workers")
        pairs = options.pairs_of(pool)
        settings = SelectJobSettings(
            str(self.directory),
            tuple(pool.models),
            depth,
            options.seed,
            tuple(pairs),
            self.similarity,
            tuple(tuple(sorted(images)) for images in options.exclude),
        )
        folder = self.directory / "selection" / f"slices-{content_hash(repr(settings))}"
        slices = [f"{first}:{min(first + BLOCKS, pool.blocks)}" for first in range(0, pool.blocks, BLOCKS)]
        parts = entry_parts("items", ((f"blocks {one}", one) for one in slices), 1)
        run(JobSpec(SelectJob, {"settings": settings}, batch=1), parts, folder, self.engine)
        reports = OutputFolder(folder)
        with reports.all_needed():
            best = merge_slices(reports.rows(), len(pairs), depth)
        reports.clear()
        return best


def merge_slices(rows: Iterator[Row], pairs: int, depth: int) -> list[RankedImages]:
    """The reports of all slices as one list a pair; a slice that failed is an error."""
    best = [RankedImages(np.empty(0, object), np.empty((0, KEY), np.int64), np.empty(0, np.uint64))] * pairs
    for row in rows:
        if row["error"]:
            raise InputError(f"{row['id']}: {row['error']}")
        pair, keys = np.array(row["pair"], np.int32), np.array(row["keys"], np.int64).reshape(-1, KEY)
        images, ties = np.array(row["image"], object), np.array(row["tie"], np.uint64)
        for number in np.unique(pair):
            chosen = pair == number
            best[number] = merge([best[number], RankedImages(images[chosen], keys[chosen], ties[chosen])], depth)
    return best
