"""The pool: the raw picture set of a competition, from folders, tar shards and URL lists, without duplicates."""

from captrial.data.pool.build import build_pool
from captrial.data.pool.pool import LeftOut, Pool

__all__ = ["LeftOut", "Pool", "build_pool"]
