"""Drawing vehicles from the side: cars, buses, bicycles and boats."""

from __future__ import annotations

import math

from captrial.toyworld.drawing.canvas import ObjectCanvas, Style
from captrial.toyworld.drawing.colours import CREAM, GLASS, INK, STEEL, WOOD, dark, light

TYRE = (44, 44, 50)
LAMP = (255, 232, 150)


def _wheel(canvas: ObjectCanvas, x: float, radius: float) -> None:
    canvas.disc(x, radius, radius, TYRE)
    canvas.disc(x, radius, radius * 0.62, STEEL)
    canvas.disc(x, radius, radius * 0.48, dark(STEEL, 0.25))
    for turn in range(5):
        angle = turn * math.tau / 5
        spoke = [(x, radius), (x + math.cos(angle) * radius * 0.5, radius + math.sin(angle) * radius * 0.5)]
        canvas.line(spoke, radius * 0.13, STEEL)
    canvas.disc(x, radius, radius * 0.16, CREAM)


def car(canvas: ObjectCanvas, style: Style) -> None:
    """A car: saloon, hatchback or van."""
    c = style.rgb
    if style.variant == "van":
        canvas.rect(-1.85, 0.3, 1.3, 1.75, c, 0.22)
        canvas.poly([(1.0, 1.72), (1.3, 1.7), (1.72, 1.0), (1.92, 0.86), (1.92, 0.34), (1.0, 0.32)], c)
        canvas.poly([(0.75, 1.55), (1.2, 1.55), (1.55, 1.02), (0.75, 1.02)], GLASS)
        canvas.rect(-0.2, 1.02, 0.6, 1.55, GLASS, 0.06)
        canvas.rect(-1.6, 1.02, -0.4, 1.55, GLASS, 0.06)
        canvas.rect(-1.85, 0.3, 1.92, 0.55, dark(c, 0.2), 0.1)
    else:
        back = -1.25 if style.variant == "hatchback" else -0.95
        tail = -1.75 if style.variant == "hatchback" else -2.0
        canvas.blob(
            [(back - 0.22, 0.85), (back + 0.22, 1.38), (0.0, 1.45), (0.6, 1.36), (1.12, 0.9), (0.4, 0.7), (-0.5, 0.7)],
            c,
        )
        canvas.blob(
            [
                (tail, 0.5),
                (tail + 0.04, 0.86),
                (-0.6, 0.94),
                (0.9, 0.92),
                (1.6, 0.82),
                (1.98, 0.66),
                (1.98, 0.38),
                (1.0, 0.26),
                (-1.2, 0.26),
            ],
            c,
        )
        canvas.poly([(0.14, 1.32), (0.56, 1.26), (0.96, 0.93), (0.14, 0.93)], GLASS)
        canvas.poly([(0.02, 1.32), (back + 0.34, 1.27), (back + 0.06, 0.93), (0.02, 0.93)], GLASS)
        canvas.poly([(0.3, 1.3), (0.44, 1.28), (0.26, 0.95), (0.14, 0.95), (0.14, 1.1)], light(GLASS, 0.6))
        canvas.rect(tail + 0.08, 0.26, 1.9, 0.42, dark(c, 0.25), 0.08)
        canvas.line([(tail + 0.2, 0.66), (1.75, 0.66)], 0.025, dark(c, 0.18))
    if style.pose == "driving":
        _under_way(canvas, *((1.1, 1.22) if style.variant == "van" else (0.42, 1.1)), -1.95)
    canvas.line([(0.08, 0.9), (0.08, 0.42)], 0.025, dark(c, 0.3))
    canvas.rect(-0.22, 0.76, -0.02, 0.8, dark(c, 0.45))
    canvas.oval(1.84, 0.62, 0.1, 0.09, LAMP)
    canvas.rect(-1.96 if style.variant == "saloon" else -1.78, 0.58, -1.7, 0.7, (190, 40, 40), 0.03)
    for x in (-1.15, 1.2):
        canvas.disc(x, 0.36, 0.43, dark(c, 0.5))
        _wheel(canvas, x, 0.34)


def _under_way(canvas: ObjectCanvas, x: float, y: float, tail: float) -> None:
    """Signs of driving: a driver behind the window, and exhaust at the back."""
    canvas.disc(x, y, 0.15, (232, 190, 156))
    canvas.wedge(x, y, 0.16, 30, 210, (84, 60, 44))
    canvas.limb([(x - 0.03, y - 0.17), (x - 0.05, y - 0.24)], [0.2, 0.26], (96, 110, 140))
    for shift, radius in ((0.1, 0.07), (0.22, 0.1), (0.38, 0.08)):
        canvas.disc(tail - shift, 0.3 + shift * 0.3, radius, (226, 228, 230))


def bus(canvas: ObjectCanvas, style: Style) -> None:
    """A bus; the double one has two decks."""
    c = style.rgb
    top = 3.5 if style.variant == "double" else 2.4
    canvas.rect(-2.9, 0.32, 2.9, top, c, 0.22)
    canvas.rect(-2.9, 0.32, 2.9, 0.62, dark(c, 0.25), 0.1)
    canvas.rect(-2.7, top - 0.1, 2.7, top, light(c, 0.35), 0.05)
    rows = (1.25, 2.5) if style.variant == "double" else (1.25,)
    for y in rows:
        for index in range(5):
            x = -2.65 + index * 0.94
            canvas.rect(x, y, x + 0.8, y + 0.75, GLASS, 0.08)
            canvas.poly(
                [(x + 0.2, y + 0.72), (x + 0.4, y + 0.72), (x + 0.18, y + 0.05), (x + 0.05, y + 0.05)],
                light(GLASS, 0.5),
            )
        canvas.rect(2.1, y - (0.1 if y < 2 else 0), 2.86, y + 0.75, light(GLASS, 0.25), 0.08)
    if style.pose == "driving":
        _under_way(canvas, 2.5, 1.5, -2.9)
    canvas.rect(1.16, 0.5, 1.96, 2.0, dark(c, 0.35), 0.05)
    canvas.rect(1.22, 0.55, 1.53, 1.94, GLASS)
    canvas.rect(1.59, 0.55, 1.9, 1.94, GLASS)
    canvas.rect(-2.8, 0.86, 1.0, 0.98, CREAM)
    canvas.oval(2.82, 0.74, 0.09, 0.12, LAMP)
    for x in (-1.75, 2.3):
        canvas.disc(x, 0.44, 0.52, dark(c, 0.55))
        _wheel(canvas, x, 0.42)


def bicycle(canvas: ObjectCanvas, style: Style) -> None:
    """A bicycle with its frame in the main colour."""
    c = style.rgb
    r, rear, front = 0.34, -0.52, 0.52
    for x in (rear, front):
        canvas.ring(x, r, r, 0.05, TYRE)
        canvas.ring(x, r, r - 0.045, 0.022, STEEL)
        for turn in range(6):
            angle = turn * math.pi / 6
            dx, dy = math.cos(angle) * (r - 0.05), math.sin(angle) * (r - 0.05)
            canvas.line([(x - dx, r - dy), (x + dx, r + dy)], 0.01, STEEL)
        canvas.disc(x, r, 0.045, dark(STEEL, 0.5))
    crank, saddle, head = (-0.06, 0.3), (-0.2, 0.78), (0.36, 0.8)
    for line in (
        [(rear, r), crank, (saddle[0] + 0.04, 0.7), (rear, r)],
        [crank, (head[0] + 0.02, 0.72)],
        [(saddle[0] + 0.05, 0.68), (head[0], 0.74)],
        [(front, r), head],
    ):
        canvas.limb(line, [0.05] * len(line), c)
    canvas.limb([(saddle[0] + 0.04, 0.7), (saddle[0], 0.82)], [0.035, 0.035], STEEL)
    canvas.limb([(saddle[0] - 0.12, 0.85), (saddle[0] + 0.1, 0.84)], [0.09, 0.05], INK)
    canvas.limb(
        [head, (head[0] - 0.02, 0.92), (head[0] + 0.1, 0.98), (head[0] - 0.04, 1.0)], [0.04, 0.035, 0.035, 0.045], INK
    )
    canvas.ring(*crank, 0.1, 0.03, dark(STEEL, 0.3))
    canvas.limb([crank, (crank[0] + 0.1, crank[1] - 0.14)], [0.03, 0.03], dark(STEEL, 0.5))
    canvas.rect(crank[0] + 0.03, crank[1] - 0.13, crank[0] + 0.18, crank[1] - 0.17, INK)


def boat(canvas: ObjectCanvas, style: Style) -> None:
    """A boat: under sail, rowed, or with a cabin."""
    c = style.rgb
    hull = [(-1.3, 0.62), (1.55, 0.7), (1.2, 0.12), (0.9, 0.0), (-0.95, 0.0), (-1.2, 0.14)]
    if style.variant == "sail":
        canvas.limb([(0.1, 0.5), (0.1, 3.1)], [0.09, 0.06], WOOD)
        canvas.poly([(0.0, 3.0), (0.0, 0.86), (-1.2, 0.86)], CREAM)
        canvas.poly([(-0.34, 2.36), (0.0, 2.36), (0.0, 1.86), (-0.62, 1.86)], light(c, 0.15))
        canvas.poly([(0.2, 2.75), (0.2, 0.86), (1.25, 0.9)], light(c, 0.3))
        canvas.poly([(0.1, 3.1), (0.1, 3.34), (-0.36, 3.2)], (200, 60, 60))
    elif style.variant == "cabin":
        canvas.rect(-0.7, 0.6, 0.6, 1.35, CREAM, 0.06)
        canvas.rect(-0.85, 1.3, 0.75, 1.44, dark(c, 0.1), 0.05)
        for x in (-0.5, 0.0):
            canvas.rect(x, 0.86, x + 0.36, 1.18, GLASS, 0.05)
        canvas.limb([(-0.3, 1.4), (-0.3, 1.95)], [0.16, 0.16], dark(c, 0.3))
        canvas.rect(-0.4, 1.7, -0.2, 1.84, CREAM)
    else:
        canvas.limb([(0.1, 0.62), (0.75, 1.05)], [0.05, 0.05], WOOD)
        canvas.limb([(0.1, 0.6), (-0.5, -0.02)], [0.05, 0.05], dark(WOOD, 0.2))
        canvas.oval(0.78, 1.08, 0.13, 0.07, WOOD, tilt=0.6)
        canvas.rect(-0.5, 0.6, 0.0, 0.72, dark(WOOD, 0.2))
    canvas.poly(hull, c)
    canvas.poly([(-1.22, 0.2), (1.25, 0.2), (1.2, 0.12), (0.9, 0.0), (-0.95, 0.0), (-1.2, 0.14)], dark(c, 0.3))
    canvas.line([(-1.3, 0.62), (1.55, 0.7)], 0.1, light(c, 0.55))
    canvas.line([(-1.2, 0.42), (1.38, 0.46)], 0.03, dark(c, 0.15))
