"""Canvases: `ObjectCanvas` for one object, `BackgroundCanvas` for the background; both draw oversampled shapes.

An object is drawn in metres around its foot point, a background in fractions of the image. Drawing at two or three
times the size and averaging once makes every edge smooth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from captrial.toyworld.drawing.colours import RGB
from captrial.toyworld.randomness import RandomStream

Point = tuple[float, float]

_STEPS = np.linspace(0, 1, 6, endpoint=False)[:, None]
# Catmull-Rom basis at the steps of one segment, (steps, 4).
_BASIS = 0.5 * np.hstack(
    [
        -_STEPS + 2 * _STEPS**2 - _STEPS**3,
        2 - 5 * _STEPS**2 + 3 * _STEPS**3,
        _STEPS + 4 * _STEPS**2 - 3 * _STEPS**3,
        -(_STEPS**2) + _STEPS**3,
    ]
)
_CIRCLE = [(math.cos(a * math.pi / 12), math.sin(a * math.pi / 12)) for a in range(24)]


@lru_cache(maxsize=64)
def _neighbours(count: int) -> NDArray[np.intp]:
    """For every point of a closed outline the one before it, itself, and the two after it, (count, 4)."""
    places: NDArray[np.intp] = (np.arange(count)[:, None] + np.array([-1, 0, 1, 2])) % count
    return places


@dataclass(frozen=True, slots=True)
class Style:
    """How an object is drawn: colour, form, pose, and the random stream for details that captions do not mention."""

    rgb: RGB
    variant: str
    pose: str
    rng: RandomStream
    seed: int = 0  # decides details that captions may mention, such as a dress


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a drawing in metres around the foot point: half the width, top and bottom."""

    half: float
    top: float
    bottom: float = 0.0


class ObjectCanvas:
    """A transparent canvas with the foot of the object at (0, 0), x in the direction it faces, y up, in metres."""

    def __init__(self, extent: Extent, scale: float, facing: int = 1) -> None:
        self.over = 3 if scale * max(2 * extent.half, extent.top) < 80 else 2  # large objects need less oversampling
        self.unit = scale * self.over
        self.facing = facing
        self._x0, self._y0 = extent.half * self.unit, extent.top * self.unit
        width = math.ceil(2 * extent.half * scale) + 1
        height = math.ceil((extent.top - extent.bottom) * scale) + 1
        # "RGBa" is premultiplied: opaque shapes on it can be averaged without dark fringes.
        self._sheet = Image.new("RGBa", (max(width, 2) * self.over, max(height, 2) * self.over))
        self._draw = ImageDraw.Draw(self._sheet)

    def image(self) -> Image.Image:
        """The finished drawing in premultiplied RGBA."""
        return self._sheet.reduce(self.over)

    def poly(self, points: Iterable[Point], colour: RGB) -> None:
        """A filled polygon."""
        self._draw.polygon(self._flat(points), fill=(*colour, 255))

    def blob(self, points: Sequence[Point], colour: RGB) -> None:
        """A filled smooth outline through the points."""
        around = np.array(points)[_neighbours(len(points))]  # (n, 4, 2)
        smooth = _BASIS @ around  # (n, steps, 2)
        smooth *= (self.unit * self.facing, -self.unit)
        smooth += (self._x0, self._y0)
        self._draw.polygon(smooth.ravel().tolist(), fill=(*colour, 255))

    def oval(self, x: float, y: float, rx: float, ry: float, colour: RGB, tilt: float = 0.0) -> None:
        """A filled ellipse, tilted up by `tilt` radians from the direction the object faces."""
        if tilt:
            c, s = math.cos(tilt), math.sin(tilt)
            self.poly([(x + rx * u * c - ry * v * s, y + rx * u * s + ry * v * c) for u, v in _CIRCLE], colour)
            return
        cx, cy, unit = self._x0 + x * self.facing * self.unit, self._y0 - y * self.unit, self.unit
        box = (cx - rx * unit, cy - ry * unit, cx + rx * unit, cy + ry * unit)
        self._draw.ellipse(box, fill=(*colour, 255))

    def disc(self, x: float, y: float, radius: float, colour: RGB) -> None:
        """A filled circle."""
        self.oval(x, y, radius, radius, colour)

    def ring(self, x: float, y: float, radius: float, width: float, colour: RGB) -> None:
        """A circle line of this width; `radius` is to its outer edge."""
        cx, cy, r = self._x0 + x * self.facing * self.unit, self._y0 - y * self.unit, radius * self.unit
        line = max(round(width * self.unit), 1)
        self._draw.ellipse((cx - r, cy - r, cx + r, cy + r), outline=(*colour, 255), width=line)

    def rect(self, x1: float, y1: float, x2: float, y2: float, colour: RGB, radius: float = 0.0) -> None:
        """A filled rectangle, its corners rounded by `radius`."""
        xs = sorted(self._x0 + x * self.facing * self.unit for x in (x1, x2))
        ys = sorted(self._y0 - y * self.unit for y in (y1, y2))
        box = (xs[0], ys[0], xs[1], ys[1])
        if radius:
            self._draw.rounded_rectangle(box, radius * self.unit, fill=(*colour, 255))
        else:
            self._draw.rectangle(box, fill=(*colour, 255))

    def limb(self, points: Sequence[Point], widths: Sequence[float], colour: RGB) -> None:
        """A limb through the points with round joints; `widths` is its thickness at each point."""
        for (x, y), width in zip(points, widths, strict=True):
            self.disc(x, y, width / 2, colour)
        for (x1, y1), (x2, y2), w1, w2 in zip(points, points[1:], widths, widths[1:], strict=False):
            length = math.hypot(x2 - x1, y2 - y1) or 1.0
            nx, ny = (y1 - y2) / length / 2, (x2 - x1) / length / 2
            corners = [
                (x1 + nx * w1, y1 + ny * w1),
                (x2 + nx * w2, y2 + ny * w2),
                (x2 - nx * w2, y2 - ny * w2),
                (x1 - nx * w1, y1 - ny * w1),
            ]
            self.poly(corners, colour)

    def line(self, points: Iterable[Point], width: float, colour: RGB) -> None:
        """A line through the points, at least a third of a pixel wide."""
        self._draw.line(self._flat(points), fill=(*colour, 255), width=max(round(width * self.unit), 1))

    def wedge(self, x: float, y: float, radius: float, start: float, end: float, colour: RGB) -> None:
        """A sector of a disc between two angles in degrees, counter-clockwise from the direction the object faces."""
        count = max(int((end - start) / 12), 3)
        angles = [math.radians(start + (end - start) * i / count) for i in range(count + 1)]
        self.poly([(x, y), *((x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles)], colour)

    def _flat(self, points: Iterable[Point]) -> list[float]:
        x0, y0, unit, across = self._x0, self._y0, self.unit, self.unit * self.facing
        return [value for x, y in points for value in (x0 + x * across, y0 - y * unit)]


OVER = 2
Stop = tuple[float, RGB]


class BackgroundCanvas:
    """A square canvas with fractions of the image as coordinates, y down; it starts as a vertical colour gradient."""

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
        """The pixels at the size of the image, (size, size, 3), writable."""
        return np.array(self._sheet.reduce(OVER))

    def clear_below(self, height: float) -> None:
        """Erase what was drawn below `height`: the sun must not be in front of the ground."""
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
        self, base: float, height: float, colour: RGB, rng: RandomStream, waves: float = 1.5, floor: float = 1.0
    ) -> None:
        """Rolling hills: from a wavy line at `base` down to `floor`."""
        phases = rng.uniform(0, 7), rng.uniform(0, 7)
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
    spectrum = np.fft.rfft2(RandomStream("grain", name, side).noise(side, side))
    fy, fx = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    spectrum *= np.exp(-2 * np.pi**2 * ((rows * fy) ** 2 + (columns * fx) ** 2))
    texture = np.fft.irfft2(spectrum, s=(side, side))
    smooth: NDArray[np.float32] = ((texture - texture.mean()) / texture.std()).astype(np.float32)
    return smooth


def roughen(pixels: NDArray[np.uint8], name: str, strength: float, top: float, rng: RandomStream) -> None:
    """Add texture below `top` (a share of the height), stronger towards the bottom; changes `pixels`."""
    size = pixels.shape[0]
    first = round(top * size)
    if first >= size:
        return
    texture = grain(name, 512)
    y, x = rng.integer(0, 255), rng.integer(0, 255)
    if size > 256:
        texture = np.tile(texture, (-(-size // 512) + 1,) * 2)  # it repeats at its edges
    part = texture[y : y + size - first, x : x + size]
    ramp = np.linspace(0.35, 1.0, size - first, dtype=np.float32)[:, None] * np.float32(strength)
    rows = pixels.reshape(size, -1)[first:]  # rows of channels: numpy is slow on triples
    shifted = np.repeat((part * ramp).astype(np.int16), 3, axis=1)
    shifted += rows
    rows[:] = np.clip(shifted, 0, 255, out=shifted)


def finish(canvas: BackgroundCanvas, texture: str, strength: float, top: float, rng: RandomStream) -> NDArray[np.uint8]:
    """The pixels of a canvas, with a texture below `top`."""
    pixels = canvas.pixels()
    roughen(pixels, texture, strength, top, rng)
    return pixels
