"""Features in a folder, one NumPy file an image: `{id}.npz` or `{id}.npy`, boxes inside or in a folder beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from captrial.arrays import map_npy, read_npz
from captrial.errors import DatasetError, InputError
from captrial.vision.backbones.base import grid_boxes
from captrial.vision.features.precomputed import PrecomputedFeatures, Stored

SUFFIXES = (".npz", ".npy")
FEATURE_KEYS, BOX_KEYS = ("feat", "features", "x"), ("bbox", "boxes")


class NpzFeatures(PrecomputedFeatures):
    """Arrays of shape (n, d) or (rows, columns, d): `feat`, `features`, `x` or the only one of a file.

    Boxes are `bbox` or `boxes` in the same file (with `image_w` and `image_h`), or files of the same names in the
    folder `NAME_box` beside `NAME_att`. A grid without boxes gets those of its cells.
    """

    def open(self) -> None:
        """Find the folders of features and boxes."""
        if not self.path.is_dir():
            raise DatasetError(f"{self.path} is not a folder of .npz or .npy files")
        beside = self.path.with_name(self.path.name.removesuffix("_att") + "_box")
        self.box_folder = beside if self.path.name.endswith("_att") and beside.is_dir() else None

    def ids(self) -> Sequence[str]:
        """The images' ids, sorted."""
        return self._ids

    @cached_property
    def _ids(self) -> list[str]:
        return sorted(path.stem for path in self.path.iterdir() if path.suffix in SUFFIXES)

    def __contains__(self, image_id: object) -> bool:
        return _file(self.path, str(image_id)) is not None

    def read(self, image_id: str) -> Stored:
        """The arrays of one image."""
        path = _file(self.path, image_id)
        if path is None:
            raise self.missing(image_id)
        arrays = _load(path)
        elements = _choose(arrays, FEATURE_KEYS, path)
        boxes = self._boxes(image_id, arrays)
        if elements.ndim == 3:
            boxes = grid_boxes(*elements.shape[:2]).numpy() if boxes is None else boxes
            elements = elements.reshape(-1, elements.shape[-1])
        size = None
        if {"image_w", "image_h"} <= arrays.keys():
            if arrays["image_w"].size != 1 or arrays["image_h"].size != 1:
                raise DatasetError(f"{path}: image_w and image_h are no single numbers; write it again")
            size = int(arrays["image_w"].item()), int(arrays["image_h"].item())
        return Stored(elements.astype(np.float32), None if boxes is None else boxes.astype(np.float32), size)

    def _boxes(self, image_id: str, arrays: Mapping[str, Any]) -> Any:
        for key in BOX_KEYS:
            if key in arrays:
                return arrays[key]
        if self.box_folder is None or not self.with_boxes:
            return None
        path = _file(self.box_folder, image_id)
        if path is None:
            raise DatasetError(f"{self.box_folder} has no boxes of {image_id!r}; add them, or pass boxes=False")
        return _choose(_load(path), BOX_KEYS, path)


def _file(folder: Path, image_id: str) -> Path | None:
    paths = (folder / f"{image_id}{suffix}" for suffix in SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def _load(path: Path) -> dict[str, Any]:
    try:
        arrays = read_npz(path) if path.suffix == ".npz" else {"": np.array(map_npy(path))}
    except InputError as error:
        raise DatasetError(f"{error}; write it again") from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub" or array.ndim > 3 or not array.size:
            raise DatasetError(
                f"{path}: {name or 'its array'} is no array of numbers in at most 3 dimensions, or empty"
            )
    return arrays


def _choose(arrays: Mapping[str, Any], keys: Sequence[str], path: Path) -> Any:
    for key in keys:
        if key in arrays:
            return arrays[key]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise DatasetError(f"{path} has arrays {', '.join(arrays)}; one of {', '.join(keys)} is expected")
