"""Features in one HDF5 file as aimagelab publishes them: `{id}_features`, `{id}_boxes`, `{id}_cls_prob`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from captrial.arrays import MAX_ARRAY_BYTES
from captrial.errors import DatasetError, MissingExtraError
from captrial.vision.features.precomputed import PrecomputedFeatures, Stored

FEATURES, BOXES, CHANCES = "_features", "_boxes", "_cls_prob"


class Hdf5Features(PrecomputedFeatures):
    """Every process opens the file for itself, when it first reads.

    Boxes are in pixels and the file has no image sizes: pass `sizes`. With class probabilities, the
    first column is the background, as in the bottom-up detector (1 600 classes and background).
    """

    def open(self) -> None:
        """Open the file once, to see that it can be read."""
        self._opened: tuple[int, Any] | None = None
        self._file()

    def ids(self) -> Sequence[str]:
        """The images' ids, sorted as HDF5 sorts its keys."""
        return self._ids

    @cached_property
    def _ids(self) -> list[str]:
        try:
            return [key.removesuffix(FEATURES) for key in self._file() if key.endswith(FEATURES)]
        except (OSError, RuntimeError, UnicodeDecodeError, KeyError, TypeError) as error:  # TypeError: a key in bytes
            raise DatasetError(f"{self.path} cannot be read as HDF5 ({error}); fetch it again") from None

    def __contains__(self, image_id: object) -> bool:
        try:
            return f"{image_id}{FEATURES}" in self._file()
        except (OSError, RuntimeError, ValueError, KeyError):  # damaged, or an id that no key can be
            return False

    def read(self, image_id: str) -> Stored:
        """The arrays of one image."""
        file = self._file()
        if image_id not in self:
            raise self.missing(image_id)
        try:
            return self._stored(file, image_id)
        except (OSError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise DatasetError(
                f"{self.path}: image {image_id} cannot be read ({reason}); fetch the file again"
            ) from None

    def _stored(self, file: Any, image_id: str) -> Stored:
        for name in (FEATURES, BOXES, CHANCES):  # a chunked array may declare more than its file can hold
            if image_id + name in file and file[image_id + name].nbytes > MAX_ARRAY_BYTES // 4:
                raise ValueError(f"{image_id + name} declares {file[image_id + name].nbytes} bytes")
        chances = np.asarray(file[image_id + CHANCES])[:, 1:] if image_id + CHANCES in file else None
        return Stored(
            np.asarray(file[image_id + FEATURES], np.float32),
            np.asarray(file[image_id + BOXES], np.float32) if image_id + BOXES in file else None,
            None,
            None if chances is None else chances.argmax(1).astype(np.int64),
            None if chances is None else chances.max(1).astype(np.float32),
        )

    def _file(self) -> Any:
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), _open(self.path)
        return self._opened[1]

    def close(self) -> None:
        """Close the file; it opens again when needed."""
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
        self._opened = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def _open(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("Features in an HDF5 file", "models") from None
    try:
        return h5py.File(path, "r")
    except (OSError, RuntimeError, ValueError) as error:
        raise DatasetError(f"{path} cannot be opened as HDF5 ({error}); fetch it again") from None
