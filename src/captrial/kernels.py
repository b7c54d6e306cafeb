"""Functions compiled by numba, with a cache on disk that is never a reason to fail.

numba keeps compiled code beside the sources, under the types of the arguments. Its index is a pickle: if a class of a
signature was renamed or moved since, or a file was cut off, reading the index raises before numba can notice that the
source has changed. Here such an index is emptied, and the function is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from numba import njit
from numba.core.caching import FunctionCache

from captrial.progress import say

Function = TypeVar("Function", bound=Callable[..., Any])


class _Cache(FunctionCache):
    """numba's cache of one function; what cannot be read is not there."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code for a signature; None if there is none that can be read."""
        found = None
        try:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # unpickling raises almost anything
            with suppress(OSError):  # a folder that cannot be written to
                self.flush()  # type: ignore[no-untyped-call]
        if found is None:
            _say_once()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code for a signature."""
        with suppress(Exception):  # the function is compiled; keeping the code saves time only
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


@cache
def _say_once() -> None:
    say("compiling some functions; this happens once")


def kernel(**options: Any) -> Callable[[Function], Function]:
    """Compile a function by `numba.njit` when it is first called, and keep the code on disk.

    `options` are those of `njit`. The Global Interpreter Lock is released while the function runs. A change of the
    source is noticed in a function's own file only.
    """

    def compiled(function: Function) -> Function:
        made: Any = njit(nogil=True, **options)(function)
        made._cache = _Cache(function)  # type: ignore[no-untyped-call]
        return made  # type: ignore[no-any-return]

    return compiled
