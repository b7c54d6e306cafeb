"""Select the images to label (Wan 2022 section 3.2): for every pair of models, the k where their captions differ most.

One pass over the pool finds all D_ij at once. Every block reports the caption pairs that could still be among the best;
the best so far tighten the limit for the next blocks. The order is total (see `tie_break`), so the result does not
depend on block order, block size or the number of workers.

`select_diverse` skips near-duplicates: images on which both models' captions are almost the same as on an earlier one,
and images that look almost like an earlier one. The order is unchanged; the list is read from the top. The length of
the list needed is unknown, so a generous one is searched first and a longer one only if too few images remain: the
result is that of reading the order of the whole pool.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Lock, local

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from captrial.compete.selection.ngram_similarity import ANYTHING, KEY, UNITS, CaptionBlock, Matches, compare
from captrial.compete.selection.registry import CaptionSimilarity
from captrial.compete.selection.token_rows import TokenEncoder, Tokenizer
from captrial.compete.storage.caption_pool import Block, CaptionSource, gather
from captrial.compete.storage.selection_files import Pair, PairSelection, all_pairs
from captrial.errors import InputError

CAPTION_OVERLAP = 0.8  # Jaccard index of two captions' words from which on they count as near-duplicates
IMAGE_DISTANCE = 10  # bits of 64 in which fingerprints of near-duplicate images differ at most (see docs/data.md)
_GENEROUS = 4  # times as many candidates as needed are searched at first
_FIRST = 1024  # images compared before there are limits
_LARGEST = 1e6  # similarities beyond do not fit 64 bits in units of 1e-12

Fingerprint = Callable[[str], int | None]  # image id -> 64 bits that change little when the image does
Words = Mapping[str, Sequence[frozenset[str]]]  # image -> the words of every model's caption
Candidate = tuple[frozenset[str], frozenset[str], int | None]  # words of both captions, fingerprint of the image


@dataclass(frozen=True)
class SearchOptions:
    """How a pool is searched; the defaults are those of `captrial compete select`."""

    pairs: Sequence[Pair] | None = None  # model indices; None: all pairs
    seed: int = 0  # decides between images with equal similarities
    similarity: CaptionSimilarity | None = None  # None: NGSM
    tokenize: Tokenizer | None = None  # None: the PTB tokeniser
    exclude: Sequence[frozenset[str]] = ()  # by model: images that are left out of its pairs, and of no others
    workers: int = 1  # threads
    progress: Callable[[], None] = lambda: None  # called after each block

    def pairs_of(self, pool: CaptionSource) -> list[Pair]:
        """The pairs to search for."""
        return all_pairs(len(pool.models)) if self.pairs is None else list(self.pairs)


@dataclass(frozen=True, slots=True)
class RankedImages:
    """The best candidates of one pair in their final order."""

    ids: NDArray[np.object_]  # (n,) image ids
    keys: NDArray[np.int64]  # (n, KEY) S, NGSM_1..4 in units of 1e-12
    ties: NDArray[np.uint64]  # (n,) what decides between equal keys


Ranker = Callable[[CaptionSource, int, SearchOptions], list[RankedImages]]  # as `rank_images`


def select(
    pool: CaptionSource,
    k: int = 70,
    reserve: int | None = None,
    options: SearchOptions | None = None,
    rank: Ranker | None = None,
) -> list[PairSelection]:
    """Select D_ij and its reserve (by default k more images) for all pairs of models, or for `options.pairs`.

    `rank` replaces `rank_images` (see `captrial.engines.jobs.select`).
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    options = options or SearchOptions()
    ranked = (rank or rank_images)(pool, k + (k if reserve is None else reserve), options)
    return _pair_selections(pool, options, ranked, k)


def select_diverse(
    pool: CaptionSource,
    k: int = 70,
    reserve: int | None = None,
    options: SearchOptions | None = None,
    rank: Ranker | None = None,
    fingerprint: Fingerprint = lambda _: None,
) -> list[PairSelection]:
    """As `select`, without near-duplicates; `fingerprint` describes what an image looks like, None if unknown."""
    options = options or SearchOptions()
    pairs = options.pairs_of(pool)
    fingerprint = cache(fingerprint)  # pairs share images
    needed = k + (k if reserve is None else reserve)
    depth = min(_GENEROUS * needed, len(pool))
    while True:
        ranked = (rank or rank_images)(pool, depth, options)
        words = _words_of(pool, ranked)
        kept = [_distinct(best, pair, words, fingerprint, needed) for best, pair in zip(ranked, pairs, strict=True)]
        if depth >= len(pool) or all(len(best.ids) == needed for best in kept):
            return _pair_selections(pool, options, kept, k)
        depth = min(_GENEROUS * depth, len(pool))


def rank_images(pool: CaptionSource, depth: int, options: SearchOptions) -> list[RankedImages]:
    """The first `depth` images of every pair in their order."""
    search = _Search(pool, depth, options)
    with ThreadPoolExecutor(max(options.workers, 1)) as threads:
        try:
            for _ in threads.map(search.visit, range(pool.blocks)):
                options.progress()
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return search.best


class _Search:
    """The state that the workers share: the best candidates so far, and the limits they imply."""

    def __init__(self, pool: CaptionSource, depth: int, options: SearchOptions) -> None:
        self.pool, self.depth, self.options = pool, depth, options
        pairs = options.pairs_of(pool)
        self.models = sorted({model for pair in pairs for model in pair})
        place = {model: index for index, model in enumerate(self.models)}
        self.pairs = np.array([(place[i], place[j]) for i, j in pairs], np.int32).reshape(-1, 2)
        nothing = RankedImages(np.empty(0, object), np.empty((0, KEY), np.int64), np.empty(0, np.uint64))
        self.best = [nothing] * len(pairs)
        self.limits = np.full((len(pairs), KEY), ANYTHING)
        self._own, self._lock = local(), Lock()
        self._exclude = [  # by model searched
            pa.array(sorted(options.exclude[model]), pa.string()) if model < len(options.exclude) else None
            for model in self.models
        ]

    def visit(self, index: int) -> None:
        """Compare the captions of one block and keep what may be among the best."""
        if not len(self.pairs):
            return
        block = self.pool.block(index, self.models)
        excluded = self._excluded(block.ids)
        tokens = self._encoder().encode(pa.concat_arrays(block.captions))
        similarity = self.options.similarity
        given = None if similarity is None else _similarities(similarity, block, self.pairs)
        captions = CaptionBlock(tokens, len(self.models), self.pairs, given)
        start, size = 0, len(block.ids)
        while start < size:
            with self._lock:
                limits = self.limits.copy()
            stop = size if limits[0, 0] < ANYTHING else min(start + _FIRST, size)
            self._keep(block.ids, self._allowed(compare(captions, limits, start, stop), excluded))
            start = stop

    def _excluded(self, ids: pa.Array) -> NDArray[np.bool_] | None:
        """(images, models) whether an image is left out of a model's pairs."""
        if not any(images is not None and len(images) for images in self._exclude):
            return None
        none = pa.array([], pa.string())
        columns = [pc.is_in(ids, value_set=none if images is None else images) for images in self._exclude]
        return np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1)

    def _allowed(self, found: Matches, excluded: NDArray[np.bool_] | None) -> Matches:
        if excluded is None:
            return found
        either = excluded[found.rows[:, None], self.pairs[found.pairs]].any(axis=1)
        return Matches(found.pairs[~either], found.rows[~either], found.keys[~either])

    def _encoder(self) -> TokenEncoder:
        if not hasattr(self._own, "encoder"):
            self._own.encoder = TokenEncoder(self.options.tokenize)
        encoder: TokenEncoder = self._own.encoder
        return encoder

    def _keep(self, ids: pa.Array, found: Matches) -> None:
        rows, where = np.unique(found.rows, return_inverse=True)
        names = np.array(ids.take(pa.array(rows)).to_pylist(), object)
        ties = np.array([tie_break(name, self.options.seed) for name in names], np.uint64)
        order = np.argsort(found.pairs, kind="stable")
        bounds = np.searchsorted(found.pairs[order], np.arange(len(self.pairs) + 1))
        with self._lock:
            for pair in range(len(self.pairs)):
                chosen = order[bounds[pair] : bounds[pair + 1]]
                if len(chosen):
                    fresh = RankedImages(names[where[chosen]], found.keys[chosen], ties[where[chosen]])
                    self._merge(pair, fresh)

    def _merge(self, pair: int, fresh: RankedImages) -> None:
        best = self.best[pair] = merge([self.best[pair], fresh], self.depth)
        if len(best.ids) == self.depth:
            self.limits[pair] = best.keys[-1]


def merge(parts: Sequence[RankedImages], depth: int) -> RankedImages:
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
    return RankedImages(ids[order], keys[order], ties[order])


def tie_break(image_id: str, seed: int) -> int:
    """The first 8 bytes of blake2b of "seed:id": decides between images with equal similarities."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{image_id}".encode()).digest()[:8], "big")


def _pair_selections(
    pool: CaptionSource, options: SearchOptions, ranked: Sequence[RankedImages], k: int
) -> list[PairSelection]:
    """The first k candidates of each pair are D_ij, the others its reserve."""
    selections = []
    for (i, j), best in zip(options.pairs_of(pool), ranked, strict=True):
        ids, values = best.ids.tolist(), (best.keys[:, 0] / UNITS).tolist()
        names = pool.models[i], pool.models[j]
        selections.append(PairSelection(names, tuple(ids[:k]), tuple(values[:k]), tuple(ids[k:]), tuple(values[k:])))
    return selections


def _similarities(similarity: CaptionSimilarity, block: Block, pairs: NDArray[np.int32]) -> NDArray[np.int64]:
    """Another similarity than NGSM of every pair on every image of the block: (images, pairs), units of 1e-12."""
    texts = [captions.to_pylist() for captions in block.captions]
    columns = [np.asarray(similarity(texts[i], texts[j]), float) for i, j in pairs]
    if any(column.shape != (len(block.ids),) for column in columns):
        raise InputError("a similarity must return one number for each pair of captions it is given")
    values = np.stack(columns, axis=1)
    bad = np.argwhere(~(np.abs(values) < _LARGEST))  # NaN is not below anything
    if len(bad):
        image, value = block.ids[int(bad[0][0])], values[*bad[0]]
        raise InputError(f"image {image}: {value} cannot be a similarity; it must be a number below {_LARGEST:.0f}")
    return np.rint(values * UNITS).astype(np.int64)


def _words_of(pool: CaptionSource, ranked: Sequence[RankedImages]) -> Words:
    wanted = sorted({str(image) for best in ranked for image in best.ids})
    captions = gather(pool, wanted)
    return {image: [frozenset(text.lower().split()) for text in texts] for image, texts in captions.items()}


def _distinct(best: RankedImages, pair: Pair, words: Words, fingerprint: Fingerprint, needed: int) -> RankedImages:
    """The first `needed` candidates that are no near-duplicates of earlier ones."""
    taken: list[int] = []
    seen: list[Candidate] = []
    for row, image in enumerate(best.ids):
        candidate = words[image][pair[0]], words[image][pair[1]], fingerprint(image)
        if not any(_near_duplicates(candidate, other) for other in seen):
            taken.append(row)
            seen.append(candidate)
            if len(taken) == needed:
                break
    return RankedImages(best.ids[taken], best.keys[taken], best.ties[taken])


def _near_duplicates(one: Candidate, other: Candidate) -> bool:
    if _jaccard(one[0], other[0]) >= CAPTION_OVERLAP and _jaccard(one[1], other[1]) >= CAPTION_OVERLAP:
        return True
    return one[2] is not None and other[2] is not None and (one[2] ^ other[2]).bit_count() <= IMAGE_DISTANCE


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    common = len(one & other)
    union = len(one) + len(other) - common
    return common / union if union else 1.0
