"""Images of any Pillow mode as 8-bit RGB: deep grey is scaled, transparency is shown over white."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

BAND_PIXELS = 1 << 18  # pixels that are converted at a time
DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")
ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image of any mode to RGB, as a viewer would show it on a white page; always a new image."""
    if image.mode in DEEP:
        return _from_deep(image)
    if image.mode in ALPHA or "transparency" in image.info:
        return _over_white(image)
    return image.copy() if image.mode == "RGB" else image.convert("RGB")


def _over_white(image: Image.Image) -> Image.Image:
    page = Image.new("RGB", image.size, "white")
    for top, band in _bands(image):
        if band.mode in ("RGBa", "La"):  # premultiplied alpha: convert to straight alpha first
            band = band.convert(band.mode[:-1] + "A")
        layer = band.convert("RGBA")
        page.paste(layer, (0, top), mask=layer.getchannel("A"))
    return page


def _bands(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Some rows of an image at a time, with the number of the first: what is computed from them stays small."""
    rows = max(BAND_PIXELS // image.width, 1)
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _from_deep(image: Image.Image) -> Image.Image:
    """Grey with 16 or 32 bits, or with floating-point values, scaled to 8 bits.

    16-bit values range from 0 to 65535. 32-bit integers are taken for 8- or 16-bit values where they fit, floats
    for values in [0, 1] or [0, 255]. Other values have no agreed range: their extremes become 0 and 255.
    """
    page, limits = Image.new("RGB", image.size), None if image.mode.startswith("I;16") else _value_range(image)
    transparent = image.info.get("transparency")
    for top, band in _bands(image):
        values = np.asarray(band)
        grey = _scaled(values, limits)
        if isinstance(transparent, int):
            grey[values == transparent] = 255
        page.paste(Image.fromarray(grey).convert("RGB"), (0, top))
    return page


def _value_range(image: Image.Image) -> tuple[float, float]:
    """The values that become 0 and 255."""
    extremes = [
        (float(deep.min()), float(deep.max())) for deep in (_finite(np.asarray(band)) for _, band in _bands(image))
    ]
    low, high = min(low for low, _ in extremes), max(high for _, high in extremes)
    if low < 0:
        return low, high
    agreed = (1.0, 255.0) if image.mode == "F" else (255.0, 65_535.0)
    return 0.0, next((scale for scale in agreed if high <= scale), high)


def _finite(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _scaled(values: NDArray[Any], limits: tuple[float, float] | None) -> NDArray[np.uint8]:
    if limits is None:
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)  # 65535 / 255 = 257, rounded to nearest
    low, high = limits
    return np.rint((_finite(values) - low) * (255 / max(high - low, 1e-300))).astype(np.uint8)
