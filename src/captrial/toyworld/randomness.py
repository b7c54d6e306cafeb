"""Reproducible random numbers: they depend only on a key, not on library versions, order or number of workers."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class RandomStream:
    """A stream of random numbers for a key, e.g. `RandomStream(seed, "train", 7, "captions")`.

    Uses only `random.Random.random`, the one method whose sequence Python guarantees across versions.

    >>> RandomStream(0, "train", 7).uniform(0, 1) == RandomStream(0, "train", 7).uniform(0, 1)
    True
    """

    def __init__(self, *key: object) -> None:
        text = "/".join(map(str, key))
        self._seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        self._next = random.Random(self._seed).random

    def uniform(self, low: float, high: float) -> float:
        """A uniform number in [low, high)."""
        return low + (high - low) * self._next()

    def triangular(self, spread: float) -> float:
        """A number in (-spread, spread) with a triangular distribution around 0."""
        return spread * (self._next() + self._next() - 1.0)

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._next() < probability

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high], ends included."""
        return low + int(self._next() * (high - low + 1))

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, all with the same probability."""
        return options[int(self._next() * len(options))]

    def weighted_choice(self, options: Mapping[T, float]) -> T:
        """One of the keys, with probability proportional to its value."""
        left = self._next() * sum(options.values())
        for option, weight in options.items():
            left -= weight
            if left < 0:
                return option
        return list(options)[-1]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in random order."""
        items = list(options)
        for last in range(len(items) - 1, 0, -1):
            other = int(self._next() * (last + 1))
            items[last], items[other] = items[other], items[last]
        return items

    def noise(self, *shape: int) -> NDArray[np.float32]:
        """Bell-shaped noise, mean 0 and deviation 1, from the raw bits of PCG64, whose sequence numpy guarantees."""
        count = int(np.prod(shape))
        words = np.random.PCG64(self._seed).random_raw((count + 1) // 2)
        octets = words.view(np.uint8)[: 4 * count].reshape(4, count)
        total = octets.sum(axis=0, dtype=np.uint16).astype(np.float32)
        noise: NDArray[np.float32] = ((total - 510.0) / 147.8).reshape(shape)
        return noise
