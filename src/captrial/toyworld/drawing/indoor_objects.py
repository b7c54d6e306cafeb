"""Things of the house: chairs, couches, tables, cups, lamps, plants and clocks."""

from __future__ import annotations

import math

from captrial.toyworld.drawing.canvas import ObjectCanvas, Style
from captrial.toyworld.drawing.colours import CREAM, INK, RGB, STEEL, WOOD, dark, light, mix

POT: RGB = (188, 104, 72)
GLOW: RGB = (255, 244, 206)


def chair(canvas: ObjectCanvas, style: Style) -> None:
    """A kitchen chair, three-quarter view, with a back of slats or a cushion."""
    c = style.rgb
    for x in (-0.24, 0.16):
        canvas.limb([(x + 0.06, 0.46), (x + 0.06, 0.1)], [0.055, 0.045], dark(c, 0.45))
    canvas.limb([(-0.22, 0.46), (-0.25, 1.0)], [0.06, 0.055], dark(c, 0.12))
    canvas.limb([(0.22, 0.46), (0.25, 1.0)], [0.06, 0.055], dark(c, 0.12))
    if style.variant == "padded":
        canvas.rect(-0.21, 0.58, 0.21, 0.98, light(c, 0.35), 0.07)
        canvas.rect(-0.16, 0.63, 0.16, 0.93, light(c, 0.5), 0.05)
    else:
        for y in (0.62, 0.76, 0.9):
            canvas.rect(-0.23, y, 0.23, y + 0.08, c if y < 0.9 else light(c, 0.1), 0.02)
    canvas.poly([(-0.24, 0.53), (0.24, 0.53), (0.29, 0.43), (-0.29, 0.43)], light(c, 0.2))
    canvas.rect(-0.29, 0.38, 0.29, 0.44, dark(c, 0.15), 0.02)
    for x in (-0.25, 0.25):
        canvas.limb([(x, 0.4), (x * 1.06, 0.02)], [0.065, 0.045], dark(c, 0.25))
    canvas.line([(-0.24, 0.17), (0.24, 0.17)], 0.035, dark(c, 0.35))


def couch(canvas: ObjectCanvas, style: Style) -> None:
    """A couch with two cushions and round arms."""
    c = style.rgb
    for x in (-0.95, 0.95):
        canvas.rect(x - 0.06, 0.0, x + 0.06, 0.14, dark(WOOD, 0.3))
    canvas.rect(-1.02, 0.3, 1.02, 1.02, dark(c, 0.18), 0.16)
    for x in (-0.47, 0.47):
        canvas.rect(x - 0.46, 0.46, x + 0.46, 0.96, c, 0.12)
        canvas.rect(x - 0.4, 0.66, x + 0.4, 0.9, light(c, 0.1), 0.1)
    for x in (-0.46, 0.46):
        canvas.rect(x - 0.46, 0.32, x + 0.46, 0.56, light(c, 0.16), 0.08)
        canvas.line([(x - 0.4, 0.34), (x + 0.4, 0.34)], 0.025, dark(c, 0.2))
    canvas.rect(-1.1, 0.12, 1.1, 0.36, dark(c, 0.1), 0.06)
    for side in (-1, 1):
        canvas.rect(side * 0.9, 0.12, side * 1.2, 0.7, c, 0.12)
        canvas.disc(side * 1.05, 0.62, 0.11, light(c, 0.14))
    if style.variant == "cushions":
        pillow = mix(CREAM, style.rng.choice([(214, 120, 90), (90, 130, 160), (220, 180, 90)]), 0.6)
        canvas.poly([(-0.86, 0.56), (-0.5, 0.5), (-0.44, 0.84), (-0.8, 0.9)], pillow)
        canvas.poly([(0.86, 0.56), (0.54, 0.5), (0.48, 0.82), (0.82, 0.88)], dark(pillow, 0.15))


def table(canvas: ObjectCanvas, style: Style) -> None:
    """A table seen a little from above, so that objects can stand on it; square or round."""
    c = style.rgb
    if style.variant == "round":
        canvas.limb([(0.0, 0.68), (0.0, 0.1)], [0.13, 0.11], dark(c, 0.3))
        canvas.limb([(-0.34, 0.04), (0.0, 0.14), (0.34, 0.04)], [0.06, 0.1, 0.06], dark(c, 0.35))
        canvas.oval(0.0, 0.7, 0.82, 0.14, dark(c, 0.28))
        canvas.oval(0.0, 0.75, 0.82, 0.13, light(c, 0.1))
        canvas.oval(-0.04, 0.76, 0.7, 0.09, light(c, 0.2))
        return
    for x in (-0.62, 0.62):
        canvas.limb([(x, 0.66), (x, 0.2)], [0.07, 0.06], dark(c, 0.5))
    canvas.poly([(-0.76, 0.86), (0.76, 0.86), (0.95, 0.66), (-0.95, 0.66)], light(c, 0.12))
    for y, reach in ((0.71, 0.9), (0.76, 0.855), (0.81, 0.805)):
        canvas.line([(-reach, y), (reach, y)], 0.012, dark(c, 0.06))
    canvas.rect(-0.95, 0.58, 0.95, 0.665, dark(c, 0.18), 0.015)
    canvas.rect(-0.84, 0.5, 0.84, 0.58, dark(c, 0.35))
    for x in (-0.86, 0.86):
        canvas.limb([(x, 0.58), (x * 1.01, 0.03)], [0.1, 0.075], dark(c, 0.22))


def cup(canvas: ObjectCanvas, style: Style) -> None:
    """A cup with a handle; some are full and steam."""
    c = style.rgb
    canvas.ring(0.13, 0.13, 0.085, 0.035, dark(c, 0.2))
    canvas.poly([(-0.13, 0.25), (0.13, 0.25), (0.1, 0.02), (0.06, 0.0), (-0.06, 0.0), (-0.1, 0.02)], c)
    canvas.poly([(-0.13, 0.25), (-0.06, 0.25), (-0.045, 0.0), (-0.06, 0.0), (-0.1, 0.02)], light(c, 0.25))
    canvas.poly([(0.13, 0.25), (0.08, 0.25), (0.05, 0.0), (0.06, 0.0), (0.1, 0.02)], dark(c, 0.2))
    canvas.oval(0.0, 0.25, 0.13, 0.042, light(c, 0.45))
    canvas.oval(0.0, 0.247, 0.105, 0.03, (96, 60, 40))
    if style.variant == "striped":
        canvas.rect(-0.115, 0.15, 0.115, 0.12, CREAM if sum(c) < 600 else (200, 90, 80))


def lamp(canvas: ObjectCanvas, style: Style) -> None:
    """A lamp with a shade of the main colour: on a tall stand, or low for a table."""
    c = style.rgb
    shade, top = (1.2, 1.62) if style.variant == "standing" else (0.34, 0.68)
    half = 0.3 if style.variant == "standing" else 0.22
    metal = mix(STEEL, (150, 110, 60), 0.6)
    canvas.oval(0.0, 0.045, half * 0.62, 0.045, dark(metal, 0.3))
    canvas.limb([(0.0, 0.05), (0.0, shade + 0.05)], [0.05, 0.04], metal)
    if style.variant != "standing":
        canvas.oval(0.0, 0.17, 0.11, 0.12, mix(metal, CREAM, 0.3))
    canvas.oval(0.0, shade, half * 0.96, 0.05, GLOW)
    canvas.poly([(-half, shade), (half, shade), (half * 0.58, top), (-half * 0.58, top)], c)
    canvas.poly([(-half * 0.4, shade), (half * 0.25, shade), (half * 0.14, top), (-half * 0.24, top)], light(c, 0.45))
    canvas.line([(-half, shade), (half, shade)], 0.03, dark(c, 0.2))
    canvas.line([(-half * 0.58, top), (half * 0.58, top)], 0.025, dark(c, 0.2))


def plant(canvas: ObjectCanvas, style: Style) -> None:
    """A potted plant: leaves of the main colour in a clay pot."""
    c, rng = style.rgb, style.rng
    leaves = 9 if style.variant == "leafy" else 7
    for index in range(leaves):
        angle = math.radians(22 + 136 * index / (leaves - 1) + rng.triangular(5))
        reach = rng.uniform(0.46, 0.62) * (1.0 if style.variant == "leafy" else 1.12)
        bx, by = 0.0, 0.3
        tip = (bx + math.cos(angle) * reach * 0.86, by + math.sin(angle) * reach)
        side = 0.085 if style.variant == "leafy" else 0.05
        nx, ny = -math.sin(angle) * side, math.cos(angle) * side
        mid = (bx + math.cos(angle) * reach * 0.5, by + math.sin(angle) * reach * 0.56)
        tone = dark(c, 0.25) if index % 3 == 0 else c if index % 3 == 1 else light(c, 0.14)
        canvas.blob([(bx, by), (mid[0] + nx, mid[1] + ny), tip, (mid[0] - nx, mid[1] - ny)], tone)
        canvas.line([(bx, by), tip], 0.012, light(c, 0.3))
    canvas.poly([(-0.2, 0.3), (0.2, 0.3), (0.14, 0.0), (-0.14, 0.0)], POT)
    canvas.poly([(0.06, 0.3), (0.2, 0.3), (0.14, 0.0), (0.04, 0.0)], dark(POT, 0.2))
    canvas.rect(-0.23, 0.27, 0.23, 0.36, light(POT, 0.12), 0.02)


def clock(canvas: ObjectCanvas, style: Style) -> None:
    """A round wall clock that shows some hour; its rim has the main colour."""
    c, r = style.rgb, 0.26
    canvas.disc(0.0, r, r, dark(c, 0.15))
    canvas.disc(0.005, r + 0.006, r * 0.94, c)
    canvas.disc(0.0, r, r * 0.76, CREAM if sum(c) < 650 else (226, 222, 214))
    for mark in range(12):
        a = mark * math.tau / 12
        canvas.disc(math.cos(a) * r * 0.64, r + math.sin(a) * r * 0.64, 0.016 if mark % 3 else 0.024, INK)
    hour, minute = style.rng.uniform(0, math.tau), style.rng.uniform(0, math.tau)
    canvas.line([(0.0, r), (math.cos(hour) * r * 0.36, r + math.sin(hour) * r * 0.36)], 0.034, INK)
    canvas.line([(0.0, r), (math.cos(minute) * r * 0.56, r + math.sin(minute) * r * 0.56)], 0.024, INK)
    canvas.disc(0.0, r, 0.026, (200, 70, 60))
