"""D_ij without near-duplicates: an image is passed over where both models said almost the same as on an earlier one,
or where the image itself looks almost like an earlier one.

The order of selection is unchanged; the list is walked from the top and near-duplicates are skipped. The walk needs a
prefix of unknown length, so a generous one is selected first, and a longer one only if that runs dry: the result is
that of walking the whole pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from captrial.compete.selection.selection import (
    Ordered,
    PairSelection,
    Ranker,
    all_pairs,
    pair_selection,
    rank_images,
)
from captrial.compete.selection.similarities import Resemblance
from captrial.compete.selection.token_rows import Tokenizer
from captrial.compete.storage.caption_pool import Pool, gather

ALIKE = 0.8  # Jaccard index of two captions' words from which on they count as near-duplicates
LOOKALIKE = 10  # bits of 64 in which fingerprints of near-duplicate images differ at most (see docs/data.md)
_GENEROUS = 4  # times as many candidates as needed are selected at first

Fingerprint = Callable[[str], int | None]  # image id -> 64 bits that change little when the image does
Words = Mapping[str, Sequence[frozenset[str]]]  # image -> the words of every model's caption


def select_diverse(
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
    fingerprint: Fingerprint = lambda _: None,
    rank: Ranker | None = None,
) -> list[PairSelection]:
    """As `captrial.compete.selection.selection.select`, near-duplicates passed over."""
    pairs = all_pairs(len(pool.models)) if pairs is None else list(pairs)
    fingerprint = cache(fingerprint)  # pairs share images
    needed = k + (k if reserve is None else reserve)
    depth = min(_GENEROUS * needed, len(pool))
    while True:
        ordered = (rank or rank_images)(pool, depth, seed, pairs, resemblance, workers, tokenize, exclude, progress)
        words = _words(pool, ordered)
        kept = [_walk(best, pair, words, fingerprint, needed) for best, pair in zip(ordered, pairs, strict=True)]
        if depth >= len(pool) or all(len(best.ids) == needed for best in kept):
            names = [(pool.models[i], pool.models[j]) for i, j in pairs]
            return [pair_selection(name, best, k) for name, best in zip(names, kept, strict=True)]
        depth = min(_GENEROUS * depth, len(pool))


def _words(pool: Pool, ordered: Sequence[Ordered]) -> Words:
    wanted = sorted({str(image) for best in ordered for image in best.ids})
    captions = gather(pool, wanted)
    return {image: [frozenset(text.lower().split()) for text in texts] for image, texts in captions.items()}


def _walk(best: Ordered, pair: tuple[int, int], words: Words, fingerprint: Fingerprint, needed: int) -> Ordered:
    taken: list[int] = []
    seen: list[tuple[frozenset[str], frozenset[str], int | None]] = []
    for row, image in enumerate(best.ids):
        candidate = words[image][pair[0]], words[image][pair[1]], fingerprint(image)
        if not any(_near(candidate, other) for other in seen):
            taken.append(row)
            seen.append(candidate)
            if len(taken) == needed:
                break
    return Ordered(best.ids[taken], best.keys[taken], best.ties[taken])


def _near(
    one: tuple[frozenset[str], frozenset[str], int | None], other: tuple[frozenset[str], frozenset[str], int | None]
) -> bool:
    if _jaccard(one[0], other[0]) >= ALIKE and _jaccard(one[1], other[1]) >= ALIKE:
        return True
    return one[2] is not None and other[2] is not None and (one[2] ^ other[2]).bit_count() <= LOOKALIKE


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    common = len(one & other)
    union = len(one) + len(other) - common
    return common / union if union else 1.0
