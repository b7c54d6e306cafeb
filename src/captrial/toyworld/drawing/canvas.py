"""The sheet behind the things: fractions of the image as coordinates, oversampled twice, y down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from captrial.toyworld.drawing.brush import Point
from captrial.toyworld.drawing.colours import RGB
from captrial.toyworld.randomness import Dice

OVER = 2
Stop = tuple[float, RGB]


class Canvas:
    """A square sheet that starts as bands of colour from top to bottom."""

    def __init__(self, size: int, stops: Sequence[Stop]) -> None:
        self.size = size
        self.side = size * OVER
        rows = (np.arange(self.side) + 0.5) / self.side
        heights, colours = [stop[0] for stop in stops], np.array([stop[1] for stop in stops], dtype=float)
        bands = np.stack([np.interp(rows, heights, colours[:, channel]) for channel in range(3)], axis=1)
        self._column = Image.fromarray(bands.astype(np.uint8)[:, None])
        self._sheet = self._column.resize((self.side, self.side), Image.Resampling.NEAREST)
        self._draw = ImageDraw.Draw(self._sheet)

    def pixels(self) -> NDArray[np.uint8]:
        """The sheet at the size of the image, (size, size, 3), writable."""
        return np.array(self._sheet.reduce(OVER))

    def clear_below(self, height: float) -> None:
        """Take back what was drawn below `height`: the sun does not shine through the ground."""
        top = round(height * self.side)
        rest = self._column.resize((self.side, self.side - top), Image.Resampling.NEAREST, (0, top, 1, self.side))
        self._sheet.paste(rest, (0, top))

    def poly(self, points: Iterable[Point], colour: RGB) -> None:
        """A filled polygon."""
        self._draw.polygon([value * self.side for point in points for value in point], fill=colour)

    def rect(self, x1: float, y1: float, x2: float, y2: float, colour: RGB) -> None:
        """A filled rectangle."""
        left, top, s = x1 * self.side, y1 * self.side, self.side
        self._draw.rectangle((left, top, max(x2 * s - 1, left), max(y2 * s - 1, top)), fill=colour)

    def oval(self, x: float, y: float, rx: float, ry: float, colour: RGB) -> None:
        """A filled ellipse."""
        s = self.side
        self._draw.ellipse(((x - rx) * s, (y - ry) * s, (x + rx) * s, (y + ry) * s), fill=colour)

    def line(self, points: Iterable[Point], width: float, colour: RGB) -> None:
        """A line through the points."""
        flat = [value * self.side for point in points for value in point]
        self._draw.line(flat, fill=colour, width=max(round(width * self.side), 1))

    def ridge(
        self, base: float, height: float, colour: RGB, dice: Dice, waves: float = 1.5, floor: float = 1.0
    ) -> None:
        """Rolling hills: from a wavy line at `base` down to `floor`."""
        phases = dice.between(0, 7), dice.between(0, 7)
        xs = [step / 24 for step in range(25)]
        top = [
            (x, base - height * (0.6 * math.sin(waves * 3 * x + phases[0]) + 0.4 * math.sin(waves * 7 * x + phases[1])))
            for x in xs
        ]
        self.poly([(0.0, floor), *top, (1.0, floor)], colour)


@lru_cache(maxsize=8)
def grain(name: str, side: int) -> NDArray[np.float32]:
    """A square of smooth texture that repeats at its edges, mean 0, deviation 1, (side, side)."""
    rows, columns = {"grass": (2.0, 0.7), "sand": (0.7, 0.7), "soft": (6.0, 12.0), "water": (0.8, 9.0)}[name]
    spectrum = np.fft.rfft2(Dice("grain", name, side).noise(side, side))
    fy, fx = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    spectrum *= np.exp(-2 * np.pi**2 * ((rows * fy) ** 2 + (columns * fx) ** 2))
    texture = np.fft.irfft2(spectrum, s=(side, side))
    smooth: NDArray[np.float32] = ((texture - texture.mean()) / texture.std()).astype(np.float32)
    return smooth


def roughen(pixels: NDArray[np.uint8], name: str, strength: float, top: float, dice: Dice) -> None:
    """Add texture below `top` (a share of the height), stronger towards the viewer; changes `pixels`."""
    size = pixels.shape[0]
    first = round(top * size)
    if first >= size:
        return
    texture = grain(name, 512)
    y, x = dice.integer(0, 255), dice.integer(0, 255)
    if size > 256:
        texture = np.tile(texture, (-(-size // 512) + 1,) * 2)  # it repeats at its edges
    part = texture[y : y + size - first, x : x + size]
    ramp = np.linspace(0.35, 1.0, size - first, dtype=np.float32)[:, None] * np.float32(strength)
    rows = pixels.reshape(size, -1)[first:]  # rows of channels: numpy is slow on triples
    shifted = np.repeat((part * ramp).astype(np.int16), 3, axis=1)
    shifted += rows
    rows[:] = np.clip(shifted, 0, 255, out=shifted)


def finish(canvas: Canvas, texture: str, strength: float, top: float, dice: Dice) -> NDArray[np.uint8]:
    """The pixels of a canvas, with a texture below `top`."""
    pixels = canvas.pixels()
    roughen(pixels, texture, strength, top, dice)
    return pixels
