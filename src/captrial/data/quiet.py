"""Silence for a library that warns about every oddity of a file, in this thread only.

`warnings.catch_warnings` swaps a list that all threads share, so two threads that open pictures would undo each other's
work. Here one entry of that list matches only while the current thread asks for it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

_state = threading.local()


class _InThisThread:
    """Stands where `warnings` expects a compiled pattern of module names."""

    def match(self, _module: str) -> bool:
        """Whether the thread that warns has asked for silence."""
        return bool(getattr(_state, "depth", 0))


_ENTRY = ("ignore", None, Warning, _InThisThread(), 0)


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings raised by this thread inside the block."""
    filters = cast("list[Any]", warnings.filters)
    if not filters or filters[0] is not _ENTRY:  # somebody put another filter in front, or restored an older list
        filters[:] = [_ENTRY, *(entry for entry in filters if entry is not _ENTRY)]
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1
