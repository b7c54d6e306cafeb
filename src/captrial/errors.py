"""One exception tree. Every message says what was wrong, where, and what to do.

    CaptrialError
    ├── InputError            a file, id or value given by the user is not usable
    │   ├── CaptionFileError      a caption file
    │   ├── DatasetError          annotations, splits, boxes, phrases
    │   └── ImageError          an image that cannot or must not be opened
    ├── MissingExtraError     an optional part is not installed; the message has its pip line
    ├── MismatchError         two things that must fit do not (vocabulary, backbone, configuration)
    └── StateError            a step was asked for too early, twice, or on changed input
        └── NotAllowedError       an account may not do this

The command line turns these into one sentence and exit code 2; `--debug` shows the traceback.
"""

from __future__ import annotations


class CaptrialError(Exception):
    """Base of everything this package raises on purpose."""


class InputError(CaptrialError):
    """Something given by the user cannot be used."""


class CaptionFileError(InputError):
    """A caption file is malformed or contradicts itself."""


class DatasetError(InputError):
    """A data set's annotations are malformed or contradict each other."""


class ImageError(InputError):
    """An image cannot be opened, or must not be (too many pixels, format not allowed)."""


class MismatchError(CaptrialError):
    """Two things that must fit each other do not."""


class StateError(CaptrialError):
    """A step cannot be taken in the present state."""


class NotAllowedError(StateError):
    """An account asked for something that its role or progress does not allow."""


class MissingExtraError(CaptrialError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an optional part: pip install 'captrial[{extra}]'")
        self.extra = extra
