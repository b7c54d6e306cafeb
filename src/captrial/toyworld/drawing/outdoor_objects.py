"""Things of the open air: trees, houses, benches, flowers, balls, kites and umbrellas."""

from __future__ import annotations

import math

from captrial.toyworld.drawing.canvas import ObjectCanvas, Style
from captrial.toyworld.drawing.colours import CREAM, GLASS, INK, LEAF, RGB, STEEL, WOOD, dark, light, mix

BARK: RGB = (122, 88, 62)


def tree(canvas: ObjectCanvas, style: Style) -> None:
    """A broad tree, a pine or a palm; the main colour is that of the leaves."""
    {"pine": _pine, "palm": _palm}.get(style.variant, _broad)(canvas, style)


def _broad(canvas: ObjectCanvas, style: Style) -> None:
    c, rng = style.rgb, style.rng
    canvas.poly([(-0.26, 0.0), (-0.16, 0.4), (-0.13, 1.6), (0.13, 1.6), (0.16, 0.4), (0.28, 0.0)], BARK)
    canvas.poly([(-0.26, 0.0), (-0.16, 0.4), (-0.13, 1.6), (-0.04, 1.6), (-0.05, 0.3), (-0.08, 0.0)], dark(BARK, 0.25))
    canvas.limb([(0.05, 1.1), (0.5, 1.7)], [0.14, 0.09], BARK)
    canvas.limb([(-0.05, 1.2), (-0.45, 1.7)], [0.12, 0.08], dark(BARK, 0.15))
    crown = [
        (-0.85, 1.75, 0.6),
        (0.85, 1.8, 0.58),
        (0.0, 1.7, 0.62),
        (-0.6, 2.35, 0.65),
        (0.6, 2.4, 0.62),
        (0.0, 2.75, 0.7),
        (0.0, 2.2, 0.75),
    ]
    puffs = [(x + rng.triangular(0.1), y + rng.triangular(0.1), r) for x, y, r in crown]
    for x, y, r in puffs:
        canvas.disc(x, y - 0.08, r, dark(c, 0.3))
    for x, y, r in puffs:
        canvas.disc(x + 0.04, y + 0.06, r * 0.9, dark(c, 0.06))
    for x, y, r in puffs[3:]:
        canvas.disc(x + 0.12, y + 0.2, r * 0.62, light(c, 0.12))
    for _ in range(9):
        canvas.oval(rng.triangular(1.0), 2.25 + rng.triangular(0.75), 0.1, 0.055, light(c, 0.26))


def _pine(canvas: ObjectCanvas, style: Style) -> None:
    c = style.rgb
    canvas.rect(-0.13, 0.0, 0.13, 0.6, BARK)
    for base, top, half in ((0.35, 1.5, 1.05), (0.95, 2.2, 0.86), (1.6, 2.8, 0.66), (2.2, 3.4, 0.46)):
        canvas.poly(
            [
                (-half, base),
                (-half * 0.6, base + 0.1),
                (-half * 0.3, base - 0.04),
                (0.0, base + 0.08),
                (half * 0.35, base - 0.04),
                (half * 0.65, base + 0.1),
                (half, base),
                (0.0, top),
            ],
            dark(c, 0.2),
        )
        canvas.poly(
            [(half * 0.05, base + 0.1), (half * 0.35, base), (half * 0.65, base + 0.12), (half, base), (0.0, top)], c
        )
    if style.pose == "snowy":
        for base, half in ((0.62, 0.86), (1.25, 0.7), (1.9, 0.52), (2.6, 0.32)):
            canvas.poly(
                [
                    (-half * 0.75, base),
                    (-half * 0.2, base + half * 0.55),
                    (half * 0.6, base + half * 0.4),
                    (half * 0.9, base - 0.05),
                    (half * 0.3, base + 0.12),
                    (0.0, base - 0.02),
                    (-half * 0.35, base + 0.1),
                ],
                (246, 249, 252),
            )
        canvas.poly([(-0.14, 3.0), (0.0, 3.42), (0.14, 3.0), (0.0, 3.08)], (246, 249, 252))


def _palm(canvas: ObjectCanvas, style: Style) -> None:
    c, lean = style.rgb, 0.3 + style.rng.triangular(0.15)
    joints = [(0.0, 0.0), (lean * 0.2, 0.9), (lean * 0.6, 1.8), (lean * 1.2, 2.6)]
    canvas.limb(joints, [0.3, 0.24, 0.2, 0.18], (164, 124, 84))
    for step in range(1, 9):
        y = step * 0.29
        x = lean * 1.2 * (y / 2.6) ** 1.5
        canvas.line([(x - 0.1, y), (x + 0.1, y + 0.04)], 0.03, (128, 92, 60))
    x, y = joints[-1]
    for angle, reach in ((200, 1.15), (-20, 1.15), (165, 1.2), (15, 1.25), (125, 1.0), (55, 1.05), (90, 0.8)):
        a = math.radians(angle)
        tip = (x + reach * math.cos(a), y + reach * math.sin(a) * 0.62 - 0.28)
        mid = (x + reach * 0.55 * math.cos(a), y + reach * 0.7 * math.sin(a) + 0.16)
        tone = dark(c, 0.2) if angle in (200, -20, 125) else c
        canvas.blob([(x, y + 0.06), (mid[0], mid[1] + 0.1), tip, (mid[0], mid[1] - 0.14), (x, y - 0.1)], tone)
        canvas.line([(x, y), mid, tip], 0.03, light(c, 0.3))
    for shift in (-0.1, 0.08):
        canvas.disc(x + shift, y - 0.1, 0.11, (110, 76, 48))


def house(canvas: ObjectCanvas, style: Style) -> None:
    """A house with a gable, a door, windows and a chimney; a barn has a big door instead."""
    c, rng = style.rgb, style.rng
    roof = rng.choice([(150, 70, 58), (92, 86, 96), (120, 84, 62), (78, 100, 118)])
    if sum(abs(p - q) for p, q in zip(roof, c, strict=True)) < 70:
        roof = dark(roof, 0.4)
    canvas.rect(0.95, 2.6, 1.35, 3.9, (158, 96, 80))
    canvas.rect(0.88, 3.8, 1.42, 3.98, (120, 70, 60))
    canvas.rect(-1.8, 0.0, 1.8, 2.2, c)
    canvas.rect(-1.8, 0.0, -1.2, 2.2, dark(c, 0.08))
    for y in (0.5, 0.95, 1.4, 1.85):
        canvas.line([(-1.8, y), (1.8, y)], 0.025, dark(c, 0.1))
    if style.variant == "barn":
        canvas.poly([(-2.05, 2.1), (-1.4, 3.1), (0.0, 3.75), (1.4, 3.1), (2.05, 2.1)], c)
        canvas.poly(
            [
                (-2.1, 2.1),
                (-1.45, 3.2),
                (0.0, 3.9),
                (1.45, 3.2),
                (2.1, 2.1),
                (1.85, 2.1),
                (1.3, 3.0),
                (0.0, 3.6),
                (-1.3, 3.0),
                (-1.85, 2.1),
            ],
            roof,
        )
        canvas.rect(-0.75, 0.0, 0.75, 1.6, CREAM)
        canvas.rect(-0.65, 0.0, 0.65, 1.5, dark(c, 0.25))
        canvas.line([(-0.65, 0.0), (0.65, 1.5)], 0.09, CREAM)
        canvas.line([(-0.65, 1.5), (0.65, 0.0)], 0.09, CREAM)
        _window(canvas, 0.0, 2.55, 0.34)
        return
    canvas.poly([(-1.8, 2.2), (1.8, 2.2), (0.0, 3.65)], light(c, 0.08))
    canvas.poly([(-2.15, 2.05), (0.0, 3.85), (2.15, 2.05), (1.85, 2.05), (0.0, 3.52), (-1.85, 2.05)], roof)
    canvas.poly([(-2.15, 2.05), (0.0, 3.85), (0.0, 3.52), (-1.85, 2.05)], dark(roof, 0.25))
    door = rng.choice([(120, 62, 50), (60, 90, 110), (70, 104, 80), WOOD])
    canvas.rect(-0.4, 0.0, 0.4, 1.35, light(c, 0.5), 0.03)
    canvas.rect(-0.32, 0.0, 0.32, 1.27, door, 0.03)
    canvas.disc(0.2, 0.62, 0.05, (240, 210, 110))
    for x in (-1.15, 1.15):
        _window(canvas, x, 1.2, 0.36)
    canvas.disc(0.0, 2.7, 0.34, light(c, 0.5))
    canvas.disc(0.0, 2.7, 0.27, GLASS)
    canvas.rect(-0.03, 2.43, 0.03, 2.97, light(c, 0.5))
    canvas.rect(-0.27, 2.67, 0.27, 2.73, light(c, 0.5))


def _window(canvas: ObjectCanvas, x: float, y: float, half: float) -> None:
    canvas.rect(x - half - 0.07, y - half - 0.07, x + half + 0.07, y + half + 0.07, CREAM)
    canvas.rect(x - half, y - half, x + half, y + half, GLASS)
    canvas.poly([(x - half, y + half), (x + half * 0.2, y + half), (x - half, y - half * 0.4)], light(GLASS, 0.5))
    canvas.rect(x - 0.03, y - half, x + 0.03, y + half, CREAM)
    canvas.rect(x - half, y - 0.03, x + half, y + 0.03, CREAM)
    canvas.rect(x - half - 0.12, y - half - 0.14, x + half + 0.12, y - half - 0.05, dark(CREAM, 0.15))


def bench(canvas: ObjectCanvas, style: Style) -> None:
    """A bench of slats on iron legs, seen from the front."""
    c = style.rgb
    for x in (-0.72, 0.72):
        canvas.limb([(x, 0.42), (x * 1.04, 0.03)], [0.07, 0.06], dark(c, 0.65))
        canvas.limb([(x * 0.93, 0.42), (x * 0.92, 0.9)], [0.06, 0.06], dark(c, 0.65))
        canvas.limb([(x * 0.95, 0.66), (x * 1.08, 0.64)], [0.07, 0.06], dark(c, 0.6))
    for y in (0.62, 0.74, 0.86):
        canvas.rect(-0.85, y, 0.85, y + 0.09, c, 0.03)
        canvas.rect(-0.85, y, 0.85, y + 0.025, dark(c, 0.3))
    canvas.poly([(-0.84, 0.5), (0.84, 0.5), (0.92, 0.41), (-0.92, 0.41)], light(c, 0.18))
    canvas.line([(-0.88, 0.455), (0.88, 0.455)], 0.018, dark(c, 0.3))
    canvas.rect(-0.92, 0.36, 0.92, 0.415, dark(c, 0.25), 0.02)


def flower(canvas: ObjectCanvas, style: Style) -> None:
    """A flower, taller than in life: a daisy, a tulip or a sunflower."""
    c, sway = style.rgb, style.rng.triangular(0.05)
    stem, x, y = dark(LEAF, 0.1), sway, 0.56
    canvas.limb([(0.0, 0.0), (sway * 0.3, 0.28), (x, y)], [0.05, 0.04, 0.035], stem)
    canvas.blob([(0.0, 0.08), (0.12, 0.16), (0.22, 0.3), (0.08, 0.26)], LEAF)
    canvas.blob([(0.0, 0.14), (-0.12, 0.2), (-0.2, 0.36), (-0.07, 0.3)], dark(LEAF, 0.18))
    if style.variant == "tulip":
        canvas.blob(
            [(x - 0.13, y + 0.2), (x - 0.14, y + 0.04), (x, y - 0.05), (x + 0.14, y + 0.04), (x + 0.13, y + 0.2)],
            dark(c, 0.2),
        )
        canvas.poly([(x - 0.14, y + 0.08), (x - 0.12, y + 0.3), (x - 0.02, y + 0.14)], c)
        canvas.poly([(x + 0.14, y + 0.08), (x + 0.12, y + 0.3), (x + 0.02, y + 0.14)], dark(c, 0.12))
        canvas.blob([(x, y + 0.3), (x - 0.08, y + 0.14), (x, y - 0.02), (x + 0.08, y + 0.14)], light(c, 0.2))
        return
    count, reach = (9, 0.17) if style.variant == "daisy" else (13, 0.19)
    for turn in range(count):
        angle = math.tau * turn / count
        px, py = x + math.cos(angle) * reach * 0.62, y + 0.1 + math.sin(angle) * reach * 0.62
        canvas.oval(px, py, reach * 0.48, reach * 0.24, c if turn % 2 else light(c, 0.18), tilt=angle)
    heart = (112, 70, 40) if style.variant == "sunflower" else mix((246, 206, 70), c, 0.1)
    if sum(abs(p - q) for p, q in zip(heart, c, strict=True)) < 80:
        heart = dark(heart, 0.5)
    canvas.disc(x, y + 0.1, reach * (0.46 if style.variant == "sunflower" else 0.36), heart)
    canvas.disc(x + 0.01, y + 0.115, reach * 0.2, light(heart, 0.2))


def ball(canvas: ObjectCanvas, style: Style) -> None:
    """A ball: plain, striped or of coloured panels, always mostly of its main colour."""
    c, r = style.rgb, 0.2
    canvas.disc(0.0, r, r, dark(c, 0.2))
    canvas.disc(0.015, r + 0.015, r * 0.9, c)
    accent = CREAM if sum(c) < 600 else (206, 70, 64)
    if style.variant == "striped":
        canvas.blob([(-0.19, 0.16), (0.0, 0.1), (0.19, 0.16), (0.195, 0.23), (0.0, 0.17), (-0.195, 0.23)], accent)
    elif style.variant == "panelled":
        for angle in (90, 210, 330):
            canvas.wedge(0.0, r, r * 0.97, angle - 24, angle + 24, accent)
        canvas.disc(0.0, r, 0.05, c)
    else:
        canvas.line([(-0.14, 0.33), (-0.05, 0.2), (-0.12, 0.06)], 0.014, dark(c, 0.4))
        canvas.line([(0.14, 0.33), (0.06, 0.2), (0.12, 0.06)], 0.014, dark(c, 0.4))
    canvas.oval(-0.06, 0.29, 0.05, 0.035, light(c, 0.65), tilt=0.6)


def kite(canvas: ObjectCanvas, style: Style) -> None:
    """A kite of four sails with a tail of ribbons; its string starts at (0, 0)."""
    c = style.rgb
    accent = light(c, 0.55)
    canvas.line([(0.0, 0.9), (-0.12, 0.6), (0.06, 0.36), (-0.08, 0.05)], 0.02, INK)
    for x, y in ((-0.11, 0.62), (0.03, 0.38), (-0.07, 0.1)):
        canvas.poly([(x, y), (x - 0.12, y + 0.07), (x - 0.12, y - 0.06)], c)
        canvas.poly([(x, y), (x + 0.12, y + 0.06), (x + 0.12, y - 0.07)], dark(c, 0.15))
    left, top, right, low = (-0.42, 1.45), (0.06, 1.92), (0.46, 1.52), (0.0, 0.88)
    middle = (0.03, 1.47)
    canvas.poly([left, top, middle], c)
    canvas.poly([top, right, middle], accent)
    canvas.poly([right, low, middle], dark(c, 0.12))
    canvas.poly([low, left, middle], mix(accent, c, 0.2))
    canvas.line([top, low], 0.022, INK)
    canvas.line([left, right], 0.022, INK)


def umbrella(canvas: ObjectCanvas, style: Style) -> None:
    """An open umbrella held by its grip at (0, 0), or a parasol that stands on the ground."""
    c = style.rgb
    pole, span, rim = (1.95, 1.2, 1.5) if style.variant == "parasol" else (1.0, 0.66, 0.72)
    canvas.limb([(0.0, 0.06), (0.0, pole)], [0.045, 0.04], dark(STEEL, 0.2) if style.variant == "parasol" else WOOD)
    if style.variant != "parasol":
        canvas.limb([(0.0, 0.06), (0.02, 0.0), (0.09, 0.01), (0.1, 0.06)], [0.05] * 4, dark(WOOD, 0.2))
    rise = pole - rim
    dome = [
        (math.cos(math.radians(a)) * span, rim + math.sin(math.radians(a)) * rise * 1.15) for a in range(0, 181, 12)
    ]
    canvas.poly([*dome, *_scallops(span, rim, 4)], c)
    accent = light(c, 0.55) if sum(c) < 600 else mix(c, (120, 150, 190), 0.45)
    for index in (0, 2) if style.variant == "parasol" else (1,):
        x1, x2 = -span + index * span * 0.5, -span + (index + 1) * span * 0.5
        mid = (x1 + x2) / 2
        panel = [
            (0.0, pole + rise * 0.12),
            (x2 * 0.72, rim + rise * 0.8),
            (x2, rim + rise * 0.02),
            (mid, rim + rise * 0.18),
            (x1, rim + rise * 0.02),
            (x1 * 0.72, rim + rise * 0.8),
        ]
        canvas.poly(panel, accent if style.variant == "parasol" else light(c, 0.16))
    canvas.poly(
        [(span * 0.5, rim), (span * 0.8, rim + rise * 0.62), (span, rim), (span * 0.75, rim + rise * 0.16)],
        dark(c, 0.2),
    )
    canvas.limb([(0.0, pole), (0.0, pole + rise * 0.3)], [0.05, 0.03], INK)


def _scallops(span: float, rim: float, count: int) -> list[tuple[float, float]]:
    """The lower edge from left to right: an arch under each rib."""
    points = []
    for index in range(count):
        left = -span + index * 2 * span / count
        for step in range(5):
            x = left + step / 5 * 2 * span / count
            points.append((x, rim + math.sin(math.pi * step / 5) * span * 0.09))
    return points
