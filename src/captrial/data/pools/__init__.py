"""The pool: the raw image set of a competition, from folders, tar shards and URL lists, without duplicates."""

from captrial.data.pools.build import build_pool
from captrial.data.pools.pool import ImagePool, LeftOut

__all__ = ["ImagePool", "LeftOut", "build_pool"]
