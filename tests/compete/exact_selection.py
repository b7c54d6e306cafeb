"""The definitions of Wan 2022 section 3.2, written down a second time: slowly, with exact fractions and full sorts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations


def grams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))


def ngsm(first: Sequence[str], second: Sequence[str], n: int) -> Fraction:
    one, two = grams(first, n), grams(second, n)
    clipped = sum(min(count, two[gram]) for gram, count in one.items())  # Eq. 2
    union = sum(one.values()) + sum(two.values()) - clipped
    return Fraction(clipped, union) if union else Fraction(1)


def key(first: Sequence[str], second: Sequence[str]) -> tuple[float, ...]:
    parts = [ngsm(first, second, n) for n in range(1, 5)]
    product = parts[0] * parts[1] * parts[2] * parts[3]
    return tuple(round(float(value), 12) for value in (float(product) ** 0.25, *parts))


def order(
    captions: Mapping[str, Mapping[str, Sequence[str]]], pair: tuple[str, str], seed: int = 0
) -> list[tuple[str, float]]:
    """All images of the pool with their S, most different captions first; `captions[model][image]` are tokens."""
    first, second = captions[pair[0]], captions[pair[1]]
    keys = {image: key(first[image], second[image]) for image in first}
    hashes = {image: hashlib.blake2b(f"{seed}:{image}".encode()).digest()[:8] for image in first}
    ordered = sorted(first, key=lambda image: (keys[image], hashes[image]))
    return [(image, keys[image][0]) for image in ordered]


def selection(
    captions: Mapping[str, Mapping[str, Sequence[str]]], k: int, seed: int = 0
) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """The first 2k images of every pair: D_ij and its reserve."""
    return {pair: order(captions, pair, seed)[: 2 * k] for pair in combinations(captions, 2)}
