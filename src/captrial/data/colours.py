"""Any picture mode to RGB: transparency over white, deep pixels scaled and never clipped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")
ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")


def to_rgb(image: Image.Image) -> Image.Image:
    """A new picture in RGB that shows what a viewer on a white page would show."""
    if image.mode in DEEP:
        return _from_deep(image)
    if image.mode in ALPHA or "transparency" in image.info:
        return _over_white(image)
    return image.copy() if image.mode == "RGB" else image.convert("RGB")


def _over_white(image: Image.Image) -> Image.Image:
    if image.mode in ("RGBa", "La"):  # premultiplied: has to pass through its straight form
        image = image.convert(image.mode[:-1] + "A")
    layer = image.convert("RGBA")
    page = Image.new("RGB", layer.size, "white")
    page.paste(layer, mask=layer.getchannel("A"))
    return page


def _from_deep(image: Image.Image) -> Image.Image:
    """Grey with 16 or 32 bits, or fractions."""
    values = np.asarray(image)
    grey = _scaled(values)
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[values == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def _scaled(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Grey values of any depth as bytes.

    16-bit values have a scale of 0 to 65535; 32-bit ones that fit are taken to be 8 or 16 bits, fractions within
    [0, 1] or [0, 255] to have that scale. Anything else has no agreed scale and is stretched to its extremes.
    """
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "u" and size == 2:
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 / 255 = 257, rounded to nearest
    deep = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(deep.min()), float(deep.max())
    if low >= 0:
        agreed = (1.0, 255.0) if kind == "f" else (255.0, 65_535.0)
        low, high = 0.0, next((scale for scale in agreed if high <= scale), high)
    return np.rint((deep - low) * (255 / max(high - low, 1e-300))).astype(np.uint8)
