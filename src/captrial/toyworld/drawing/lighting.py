"""Light and shadow: soft patches under things, lamps that shine, the colour of the hour.

An image (size, size, 3) is seen here as rows (size, 3 size): numpy is several times faster on long rows than on
triples.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from captrial.toyworld.scene.layout import Scene, Thing

GRADES: dict[str, tuple[float, float, float]] = {
    "sunset": (1.0, 0.9, 0.82),
    "night": (0.62, 0.68, 0.92),
    "dark room": (0.5, 0.5, 0.64),
    "evening": (0.98, 0.88, 0.76),
    "cloudy": (0.95, 0.96, 0.98),
}


@lru_cache(maxsize=512)
def _soft_disc(width: int, height: int) -> NDArray[np.uint16]:
    """An ellipse that fades to its edge, (height, 3 width), one value a channel, at most 105."""
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    distance = np.hypot(y[:, None], x[None])
    return np.repeat((np.clip(1.25 - 1.25 * distance, 0, 1) * 105).astype(np.uint16), 3, axis=1)


def shadow(pixels: NDArray[np.uint8], scene: Scene, thing: Thing) -> None:
    """A soft patch on the ground under what stands there, paler under what is in the air."""
    size, room = pixels.shape[0], thing.extent
    if thing.foot - scene.horizon < 0.03 or thing.kind in {"clock", "kite"}:
        return
    base = {"tree": 0.6, "house": 1.0, "umbrella": 0.5, "lamp": 0.8, "flower": 0.6}.get(thing.kind, 0.86)
    half = room.half * base * thing.scale * size
    tall = max(half * 0.24, 1.5)
    _darken(pixels, thing.x * size + half * 0.1, thing.foot * size - tall * 0.15, half, tall)


def _darken(pixels: NDArray[np.uint8], x: float, y: float, half: float, tall: float) -> None:
    placed = _placed_disc(pixels, x, y, half, tall)
    if placed is not None:
        window, disc = placed
        window[:] = (window * (np.uint16(256) - disc)) >> np.uint16(8)


def _placed_disc(
    pixels: NDArray[np.uint8], x: float, y: float, half: float, tall: float
) -> tuple[NDArray[np.uint8], NDArray[np.uint16]] | None:
    """The rows of the image under a soft ellipse, and its strength there; None when it is off the image."""
    size = pixels.shape[0]
    wide, high = 4 * round(half / 2) + 3, 2 * round(tall) + 3  # in steps, so that few shapes are ever computed
    left, top = round(x) - wide // 2, round(y) - high // 2
    right, bottom = left + wide, top + high
    if right <= 0 or bottom <= 0 or left >= size or top >= size:
        return None
    disc = _soft_disc(wide, high)[max(-top, 0) : size - top, 3 * max(-left, 0) : 3 * (size - left)]
    rows = pixels.reshape(size, -1)
    return rows[max(top, 0) : bottom, 3 * max(left, 0) : 3 * right], disc


def glow(pixels: NDArray[np.uint8], scene: Scene) -> None:
    """Lamps shine when it is dark."""
    if scene.light not in {"night", "evening"}:
        return
    size = pixels.shape[0]
    for thing in scene.things:
        if thing.kind == "lamp":
            x, y = thing.at(0.0, 1.35 if thing.form == "standing" else 0.5)
            _brighten(pixels, x * size, y * size, max(thing.scale * size * 1.1, 4.0))


def _brighten(pixels: NDArray[np.uint8], x: float, y: float, radius: float) -> None:
    placed = _placed_disc(pixels, x, y, radius, radius)
    if placed is not None:
        window, disc = placed
        warm = np.resize(np.array([256, 210, 128], dtype=np.uint16), disc.shape[1])
        window[:] = np.minimum(window + ((disc * warm) >> np.uint16(8)), 255)


@lru_cache(maxsize=16)
def _curve(lighting: str) -> list[int]:
    gains = GRADES[lighting]
    return [min(int(value * gain + (6 if lighting == "night" else 0)), 255) for gain in gains for value in range(256)]


def grade(pixels: NDArray[np.uint8], lighting: str) -> NDArray[np.uint8]:
    """The colour of the light over everything."""
    if lighting not in GRADES:
        return pixels
    return np.array(Image.fromarray(pixels).point(_curve(lighting)))
