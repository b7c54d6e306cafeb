"""Drawing one thing: shapes in metres on an oversampled sheet, reduced once, so that every edge is smooth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from captrial.toyworld.drawing.colours import RGB
from captrial.toyworld.randomness import Dice

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
    """How one thing looks: its main colour, form, pose, and the dice for details nobody names."""

    rgb: RGB
    variant: str
    pose: str
    dice: Dice
    style: int = 0  # decides what a caption may name besides the colour


@dataclass(frozen=True, slots=True)
class Extent:
    """How much room a drawing may take, in metres around the foot point: half the width, top and bottom."""

    half: float
    top: float
    bottom: float = 0.0


class Brush:
    """A transparent sheet with the foot of the thing at (0, 0), x to where it faces, y up, all in metres."""

    def __init__(self, extent: Extent, scale: float, facing: int = 1) -> None:
        self.over = 3 if scale * max(2 * extent.half, extent.top) < 80 else 2  # big things show fewer jagged edges
        self.unit = scale * self.over
        self.facing = facing
        self._x0, self._y0 = extent.half * self.unit, extent.top * self.unit
        width = math.ceil(2 * extent.half * scale) + 1
        height = math.ceil((extent.top - extent.bottom) * scale) + 1
        # "RGBa" is premultiplied: opaque shapes on it can be averaged without dark fringes.
        self._sheet = Image.new("RGBa", (max(width, 2) * self.over, max(height, 2) * self.over))
        self._draw = ImageDraw.Draw(self._sheet)

    def lift(self) -> Image.Image:
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
        """A filled ellipse, `tilt` radians up from where the thing faces."""
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
        """A circle's line of this width, `radius` to its outer edge."""
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
        """A limb through the points, round at every joint, as thick as `widths` say there."""
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
        """A slice of a disc between two angles in degrees, counter-clockwise from where the thing faces."""
        count = max(int((end - start) / 12), 3)
        angles = [math.radians(start + (end - start) * i / count) for i in range(count + 1)]
        self.poly([(x, y), *((x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles)], colour)

    def _flat(self, points: Iterable[Point]) -> list[float]:
        x0, y0, unit, across = self._x0, self._y0, self.unit, self.unit * self.facing
        return [value for x, y in points for value in (x0 + x * across, y0 - y * unit)]
