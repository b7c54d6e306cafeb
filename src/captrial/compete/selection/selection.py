"""Which images to label (Wan 2022 section 3.2): for every pair of models, the k where their captions differ most.

One pass over the pool finds all D_ij at once. Every block reports the caption pairs that could still be among the best;
the best so far tighten the limit for the next blocks. The order is total (see `tie_break`), so the result does not
depend on block order, block size or the number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from threading import Lock, local

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from captrial.compete.selection.ngram_similarity import (
    ANYTHING,
    KEY,
    UNITS,
    Matches,
    compare,
)
from captrial.compete.selection.similarities import Resemblance
from captrial.compete.selection.token_rows import TokenEncoder, Tokenizer
from captrial.compete.storage.caption_pool import Block, Pool
from captrial.errors import InputError

_FIRST = 1024  # images compared before there are limits
_LARGEST = 1e6  # similarities beyond do not fit 64 bits in units of 1e-12
Ranker = Callable[..., "list[Ordered]"]  # with the parameters of `rank_images`


@dataclass(frozen=True, slots=True)
class PairSelection:
    """D_ij of one pair of models, most different captions first; `reserve` continues the same order."""

    models: tuple[str, str]
    images: tuple[str, ...]
    similarity: tuple[float, ...]
    reserve: tuple[str, ...]
    reserve_similarity: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Ordered:
    """The best candidates of one pair in their final order."""

    ids: NDArray[np.object_]  # (n,) image ids
    keys: NDArray[np.int64]  # (n, KEY) S, NGSM_1..4 in units of 1e-12
    ties: NDArray[np.uint64]  # (n,) what decides between equal keys


def all_pairs(models: int) -> list[tuple[int, int]]:
    """Index pairs (i, j), i < j.

    >>> all_pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(models), 2))


def select(
    pool: Pool,
    k: int = 70,
    *,
    reserve: int | None = None,
    seed: int = 0,
    pairs: Sequence[tuple[int, int]] | None = None,
    resemblance: Resemblance | None = None,
    workers: int = 1,
    tokenize: Tokenizer | None = None,
    exclude: frozenset[str] = frozenset(),
    progress: Callable[[], None] = lambda: None,
    rank: Ranker | None = None,
) -> list[PairSelection]:
    """D_ij and its reserve (by default k more) for all pairs of models, or for `pairs` (model indices).

    `resemblance` is another similarity than NGSM (see `captrial.compete.selection.similarities`); images in `exclude` are passed
    over; `progress` is called once a block. `rank` stands in for `rank_images` (see `captrial.engines.jobs.select`).
    """
    pairs = all_pairs(len(pool.models)) if pairs is None else list(pairs)
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    reserve = k if reserve is None else reserve
    rank = rank or rank_images
    ordered = rank(pool, k + reserve, seed, pairs, resemblance, workers, tokenize, exclude, progress)
    names = [(pool.models[i], pool.models[j]) for i, j in pairs]
    return [pair_selection(name, best, k) for name, best in zip(names, ordered, strict=True)]


def pair_selection(models: tuple[str, str], best: Ordered, k: int) -> PairSelection:
    """The first k candidates are D_ij, the others its reserve."""
    ids, values = best.ids.tolist(), (best.keys[:, 0] / UNITS).tolist()
    return PairSelection(models, tuple(ids[:k]), tuple(values[:k]), tuple(ids[k:]), tuple(values[k:]))


def rank_images(
    pool: Pool,
    depth: int,
    seed: int,
    pairs: Sequence[tuple[int, int]],
    resemblance: Resemblance | None = None,
    workers: int = 1,
    tokenize: Tokenizer | None = None,
    exclude: frozenset[str] = frozenset(),
    progress: Callable[[], None] = lambda: None,
) -> list[Ordered]:
    """The `depth` first images of every pair in their order."""
    search = _Search(pool, depth, seed, pairs, resemblance, tokenize, exclude)
    with ThreadPoolExecutor(max(workers, 1)) as threads:
        try:
            for _ in threads.map(search.visit, range(pool.blocks)):
                progress()
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return search.best


class _Search:
    """The state that the workers share: the best candidates so far, and the limits they imply."""

    def __init__(
        self,
        pool: Pool,
        depth: int,
        seed: int,
        pairs: Sequence[tuple[int, int]],
        resemblance: Resemblance | None,
        tokenize: Tokenizer | None,
        exclude: frozenset[str],
    ) -> None:
        self.pool, self.depth, self.seed, self.resemblance = pool, depth, seed, resemblance
        self.models = sorted({model for pair in pairs for model in pair})
        place = {model: index for index, model in enumerate(self.models)}
        self.pairs = np.array([(place[i], place[j]) for i, j in pairs], np.int32).reshape(-1, 2)
        nothing = Ordered(np.empty(0, object), np.empty((0, KEY), np.int64), np.empty(0, np.uint64))
        self.best = [nothing] * len(pairs)
        self.limits = np.full((len(pairs), KEY), ANYTHING)
        self._tokenize, self._own, self._lock = tokenize, local(), Lock()
        self._exclude = pa.array(sorted(exclude), pa.string())

    def visit(self, index: int) -> None:
        """Compare the captions of one block and keep what may be among the best."""
        if not len(self.pairs):
            return
        block = self._without_excluded(self.pool.block(index, self.models))
        captions = self._encoder().encode(pa.concat_arrays(block.captions))
        given = None if self.resemblance is None else _given(self.resemblance, block, self.pairs)
        start, size = 0, len(block.ids)
        while start < size:
            with self._lock:
                limits = self.limits.copy()
            stop = size if limits[0, 0] < ANYTHING else min(start + _FIRST, size)
            found = compare(captions, len(self.models), self.pairs, limits, given, start, stop)
            self._keep(block.ids, found)
            start = stop

    def _without_excluded(self, block: Block) -> Block:
        if not len(self._exclude):
            return block
        keep = pc.invert(pc.is_in(block.ids, value_set=self._exclude))
        return Block(block.ids.filter(keep), tuple(captions.filter(keep) for captions in block.captions))

    def _encoder(self) -> TokenEncoder:
        if not hasattr(self._own, "encoder"):
            self._own.encoder = TokenEncoder(self._tokenize)
        encoder: TokenEncoder = self._own.encoder
        return encoder

    def _keep(self, ids: pa.Array, found: Matches) -> None:
        rows, where = np.unique(found.rows, return_inverse=True)
        names = np.array(ids.take(pa.array(rows)).to_pylist(), object)
        ties = np.array([tie_break(name, self.seed) for name in names], np.uint64)
        order = np.argsort(found.pairs, kind="stable")
        bounds = np.searchsorted(found.pairs[order], np.arange(len(self.pairs) + 1))
        with self._lock:
            for pair in range(len(self.pairs)):
                chosen = order[bounds[pair] : bounds[pair + 1]]
                if len(chosen):
                    fresh = Ordered(names[where[chosen]], found.keys[chosen], ties[where[chosen]])
                    self._merge(pair, fresh)

    def _merge(self, pair: int, fresh: Ordered) -> None:
        best = self.best[pair] = merge([self.best[pair], fresh], self.depth)
        if len(best.ids) == self.depth:
            self.limits[pair] = best.keys[-1]


def merge(parts: Sequence[Ordered], depth: int) -> Ordered:
    """The first `depth` candidates of several lists: shards of a pool can be searched apart and merged.

    Equal keys and equal tie-breaks (two ids with the same hash) are ordered by id, so the order is total.
    """
    ids = np.concatenate([part.ids for part in parts])
    keys = np.concatenate([part.keys for part in parts])
    ties = np.concatenate([part.ties for part in parts])
    order = np.lexsort((ties, *keys.T[::-1]))
    same = np.all(keys[order[1:]] == keys[order[:-1]], axis=1) & (ties[order[1:]] == ties[order[:-1]])
    if same.any():  # two ids with one hash: practically never, but the order must be total
        order = np.lexsort((ids.astype(str), ties, *keys.T[::-1]))
    order = order[:depth]
    return Ordered(ids[order], keys[order], ties[order])


def tie_break(image_id: str, seed: int) -> int:
    """The first 8 bytes of blake2b of "seed:id": decides between images with equal similarities."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{image_id}".encode()).digest()[:8], "big")


def _given(resemblance: Resemblance, block: Block, pairs: NDArray[np.int32]) -> NDArray[np.int64]:
    """Another similarity of every pair on every image of the block: (images, pairs), units of 1e-12."""
    texts = [captions.to_pylist() for captions in block.captions]
    columns = [np.asarray(resemblance(texts[i], texts[j]), float) for i, j in pairs]
    if any(column.shape != (len(block.ids),) for column in columns):
        raise InputError("a similarity must return one number for each pair of captions it is given")
    values = np.stack(columns, axis=1)
    odd = np.argwhere(~(np.abs(values) < _LARGEST))  # NaN is not below anything
    if len(odd):
        image, value = block.ids[int(odd[0][0])], values[*odd[0]]
        raise InputError(f"image {image}: {value} cannot be a similarity; it must be a number below {_LARGEST:.0f}")
    return np.rint(values * UNITS).astype(np.int64)
