"""From an image to the tensor a backbone reads, and boxes along with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from captrial.errors import InputError
from captrial.records import Box, Region

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RESAMPLING = {filter.name.lower(): filter for filter in Image.Resampling}  # bicubic, bilinear, lanczos, ...


@dataclass(frozen=True)
class Preprocess:
    """How images are resized and normalised.

    `stretch` shows the whole image, squeezed into a square; `crop` resizes the shorter side to `shorter` and cuts the
    central square (Liu 2017: 256 and 224, or 512 and 448).
    """

    size: int = 224
    mode: Literal["stretch", "crop"] = "stretch"
    shorter: int = 256  # used by `crop`
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    resample: str = "bicubic"  # a key of RESAMPLING

    def __post_init__(self) -> None:
        if self.mode not in ("stretch", "crop"):
            raise InputError(f"no preprocessing mode {self.mode!r}; there are: stretch, crop")
        if self.size < 1:
            raise InputError(f"images cannot have a size of {self.size} pixels")
        if self.mode == "crop" and self.shorter < self.size:
            raise InputError(f"cannot crop {self.size} pixels out of a shorter side of {self.shorter}")
        if self.resample not in RESAMPLING:
            raise InputError(f"no resampling {self.resample!r}; there are: {', '.join(RESAMPLING)}")

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Preprocess:
        """The inverse of `describe`, also from JSON."""
        values: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in description.items()}
        try:
            return cls(**values)
        except TypeError:
            raise InputError(f"not a description of preprocessing: {dict(description)}") from None

    @classmethod
    def of(cls, vision: Mapping[str, Any]) -> Preprocess:
        """The preprocessing that a checkpoint or feature store describes (see `Backbone.describe`)."""
        if "preprocess" not in vision:
            raise InputError("these features do not say how images were resized; boxes cannot be put on them")
        return cls.from_description(vision["preprocess"])

    def to_square(self, image: Image.Image) -> Image.Image:
        """The square the model sees, in RGB."""
        image, resampling = image.convert("RGB"), RESAMPLING[self.resample]
        if self.mode == "stretch":
            return image.resize((self.size, self.size), resampling)
        left, top, side = self._window(image.width, image.height)
        box = (left, top, left + side, top + side)
        return image.resize((self.size, self.size), resampling, box=box)

    def __call__(self, image: Image.Image) -> Tensor:
        """The normalised image, (3, size, size) float32."""
        pixels = torch.from_numpy(np.asarray(self.to_square(image)).copy()).permute(2, 0, 1).float() / 255
        return (pixels - torch.tensor(self.mean).view(3, 1, 1)) / torch.tensor(self.std).view(3, 1, 1)

    def move_box(self, box: Box, width: int, height: int) -> Box | None:
        """A box of a `width` x `height` image, relative to the square in [0, 1]; None where it was cropped away."""
        left, top, side_x, side_y = 0.0, 0.0, float(width), float(height)
        if self.mode == "crop":
            left, top, side_x = self._window(width, height)
            side_y = side_x
        moved = Box(
            (box.x1 - left) / side_x, (box.y1 - top) / side_y, (box.x2 - left) / side_x, (box.y2 - top) / side_y
        )
        return moved.intersection(Box(0.0, 0.0, 1.0, 1.0))

    def to_image(self, box: Box, width: int, height: int) -> Box:
        """The inverse of `move_box`: a relative box of the square in pixels of the image."""
        if self.mode == "stretch":
            return Box(box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height)
        left, top, side = self._window(width, height)
        return Box(left + box.x1 * side, top + box.y1 * side, left + box.x2 * side, top + box.y2 * side)

    def describe(self) -> dict[str, object]:
        """Plain values that name this preprocessing in checkpoints and feature stores."""
        values = asdict(self)
        if self.resample == "bicubic":  # descriptions older than this field stay valid
            del values["resample"]
        return values

    def _window(self, width: int, height: int) -> tuple[float, float, float]:
        """Left, top and side of the central square, in pixels of the image."""
        side = min(width, height) * self.size / self.shorter
        return (width - side) / 2, (height - side) / 2, side


# Regions of an image on the square that a model sees: after resizing, and after the crop where there is one.


RESOLUTION = 224  # side of the square that maps are painted on (Liu 2017)


def mask_on_square(
    region: Region, width: int, height: int, preprocess: Preprocess, resolution: int = RESOLUTION
) -> NDArray[np.bool_]:
    """Which pixels of the square (resolution, resolution) lie in a region of a `width` x `height` image.

    A region that carries a mask is its mask, else its box; a pixel counts by its centre.
    """
    centres = (np.arange(resolution) + 0.5) / resolution
    whole = preprocess.to_image(Box(0, 0, 1, 1), width, height)
    x = whole.x1 + centres * (whole.x2 - whole.x1)
    y = whole.y1 + centres * (whole.y2 - whole.y1)
    if region.mask is not None:
        rows, columns = np.clip(y.astype(int), 0, height - 1), np.clip(x.astype(int), 0, width - 1)
        return np.asarray(region.mask[np.ix_(rows, columns)])
    box = region.box
    return np.outer((y >= box.y1) & (y < box.y2), (x >= box.x1) & (x < box.x2))


def union_on_square(
    regions: Iterable[Region], width: int, height: int, preprocess: Preprocess, resolution: int = RESOLUTION
) -> NDArray[np.bool_]:
    """Which pixels of the square lie in any of the regions; nothing is left where all were cropped away."""
    union = np.zeros((resolution, resolution), dtype=bool)
    for region in regions:
        union |= mask_on_square(region, width, height, preprocess, resolution)
    return union
