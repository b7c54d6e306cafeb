"""The exceptions of captrial. Every message names the place, the problem and the fix.

    CaptrialError
    ├── InputError            a file, id or value given by the user is not usable
    │   ├── CaptionFileError      a caption file
    │   ├── DatasetError          annotations, splits, boxes, phrases
    │   ├── ImageError            an image that cannot or must not be opened
    │   └── DamagedError          a file that captrial wrote and that has changed or lost bytes since
    ├── MissingExtraError     an optional dependency is not installed; the message has its pip command
    ├── MismatchError         two inputs do not belong together (vocabulary, backbone, configuration)
    └── StateError            a step that is not possible now: too early, repeated, or on changed input
        ├── BusyError             another process holds what is needed
        └── NotAllowedError       an account is not allowed to do this

The command line prints the message and exits with code 2; `--debug` shows the traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class CaptrialError(Exception):
    """Base class of all exceptions that captrial raises on purpose."""


class InputError(CaptrialError):
    """A file, id or value given by the user cannot be used."""


class CaptionFileError(InputError):
    """A caption file is malformed or contradicts itself."""


class DatasetError(InputError):
    """A data set's annotations are malformed or contradict each other."""


class ImageError(InputError):
    """An image cannot be opened, or must not be (too many pixels, format not allowed)."""


class DamagedError(InputError):
    """A file that captrial wrote has changed or lost bytes since: its length, checksum or structure is wrong."""

    def __init__(self, path: object, problem: str, remake: str) -> None:
        super().__init__(str(path), problem, remake)  # unlike a message, these survive pickling between processes

    def __str__(self) -> str:
        path, problem, remake = self.args
        return f"damaged: {path}: {problem}; restore it from a copy, or remake it with {remake}"


class MismatchError(CaptrialError):
    """Two inputs do not belong together."""


class StateError(CaptrialError):
    """A step is not possible in the current state."""


class BusyError(StateError):
    """Another process holds what is needed; the same step is possible once that process is done."""


class NotAllowedError(StateError):
    """The role or progress of an account does not allow this."""


class MissingExtraError(CaptrialError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional dependency: pip install 'captrial[{extra}]'")
        self.extra = extra


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name that a mistyped one is nearest to, for the end of a message; empty where none is near.

    >>> did_you_mean("epoch", ["epochs", "batch"])
    "; did you mean 'epochs'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


@contextmanager
def damage_named(path: object, remake: str, what: str = "cannot be read") -> Iterator[None]:
    """What parsing a file that captrial wrote raises, as a `DamagedError` of that file.

    `Exception`: parsers of JSON, Parquet, safetensors and ZIP raise almost anything on malformed content.
    """
    try:
        yield
    except CaptrialError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DamagedError(path, f"{what} ({reason})", remake) from None
