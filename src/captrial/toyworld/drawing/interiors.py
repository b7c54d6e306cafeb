"""What is behind the things indoors: a kitchen and a living room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from captrial.toyworld.drawing.canvas import Canvas, finish
from captrial.toyworld.drawing.colours import (
    CREAM,
    RGB,
    WOOD,
    dark,
    jitter,
    light,
    mix,
)
from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.layout import Scene


def _window(canvas: Canvas, x: float, y: float, w: float, tall: float, lighting: str, frame: RGB) -> None:
    """A window with a bit of the world behind it."""
    top, low = ((70, 62, 120), (240, 160, 120)) if lighting == "evening" else ((150, 200, 236), (224, 240, 246))
    canvas.rect(x - 0.015, y - 0.015, x + w + 0.015, y + tall + 0.015, frame)
    for step in range(6):
        canvas.rect(x, y + tall * step / 6, x + w, y + tall * (step + 1) / 6, mix(top, low, step / 5))
    canvas.oval(x + w * 0.3, y + tall * 1.02, w * 0.28, tall * 0.22, (110, 150, 96))
    canvas.oval(x + w * 0.72, y + tall * 1.04, w * 0.3, tall * 0.3, (96, 138, 88))
    canvas.rect(x - 0.015, y + tall, x + w + 0.015, y + tall + 0.06, frame)
    canvas.rect(x + w / 2 - 0.006, y, x + w / 2 + 0.006, y + tall, frame)
    canvas.rect(x, y + tall / 2 - 0.005, x + w, y + tall / 2 + 0.005, frame)
    canvas.rect(x - 0.03, y + tall + 0.012, x + w + 0.03, y + tall + 0.032, light(frame, 0.2))


def kitchen(scene: Scene, size: int, dice: Dice) -> NDArray[np.uint8]:
    """Counter, tiles, stove and a window, (size, size, 3)."""
    wall = jitter(dice.choice([(246, 232, 204), (214, 232, 226), (236, 222, 216), (226, 232, 240)]), dice, 6)
    tile, base = dice.choice([(214, 196, 172), (198, 204, 208), (222, 186, 150)]), scene.horizon + 0.27
    canvas = Canvas(
        size,
        [(0.0, light(wall, 0.2)), (base, dark(wall, 0.04)), (base + 0.001, dark(tile, 0.08)), (1.0, light(tile, 0.12))],
    )
    _floor_tiles(canvas, scene.horizon, base, dark(tile, 0.14))
    left = dice.chance(0.5) if (clock := _clock(scene)) is None else clock > 0.5
    _window(canvas, dice.between(0.08, 0.18) if left else dice.between(0.56, 0.64), 0.1, 0.26, 0.2, scene.light, CREAM)
    wood = dice.choice([(196, 150, 104), (146, 170, 160), (230, 226, 216), (120, 140, 168)])
    counter = base - 0.2
    canvas.rect(0, counter - 0.075, 1, counter, mix(wall, (255, 255, 255), 0.4))
    for i in range(21):
        canvas.line([(i / 20, counter - 0.075), (i / 20, counter)], 0.0025, dark(wall, 0.1))
    canvas.line([(0, counter - 0.038), (1, counter - 0.038)], 0.0025, dark(wall, 0.1))
    canvas.rect(0, counter + 0.02, 1, base, wood)
    canvas.rect(0, counter, 1, counter + 0.022, dark(mix(wood, CREAM, 0.6), 0.1))
    canvas.rect(0, base - 0.02, 1, base, dark(wood, 0.4))
    for i in range(6):
        edge = i / 6
        canvas.rect(edge + 0.01, counter + 0.04, edge + 1 / 6 - 0.01, base - 0.035, dark(wood, 0.1))
        canvas.rect(edge + 0.016, counter + 0.046, edge + 1 / 6 - 0.016, base - 0.041, light(wood, 0.08))
        canvas.oval(edge + 0.135, counter + 0.065, 0.006, 0.006, (90, 84, 80))
    _stove(canvas, dice.choice([0.68, 0.06]), counter, base)
    return finish(canvas, "soft", 2.0, 0.0, dice)


def _clock(scene: Scene) -> float | None:
    """Where a clock hangs, if one does: the window is put on the other side."""
    return next((thing.x for thing in scene.things if thing.kind == "clock"), None)


def _stove(canvas: Canvas, x: float, counter: float, base: float) -> None:
    steel = (206, 210, 214)
    canvas.rect(x, counter - 0.004, x + 0.2, base - 0.012, steel)
    canvas.rect(x + 0.02, counter + 0.07, x + 0.18, base - 0.04, (60, 62, 70))
    canvas.rect(x + 0.03, counter + 0.08, x + 0.17, base - 0.05, (92, 84, 80))
    canvas.line([(x + 0.02, counter + 0.055), (x + 0.18, counter + 0.055)], 0.008, (130, 134, 140))
    for i in range(4):
        canvas.oval(x + 0.04 + i * 0.04, counter + 0.025, 0.009, 0.009, (80, 82, 90))


def _floor_tiles(canvas: Canvas, horizon: float, base: float, colour: RGB) -> None:
    """Lines of a floor that run to one vanishing point on the horizon."""
    for i in range(-12, 13):
        x = 0.5 + i * 0.19
        top = 0.5 + (x - 0.5) * (base - horizon) / (1 - horizon)
        canvas.line([(top, base), (x, 1.0)], 0.003, colour)
    for i in range(1, 7):
        y = horizon + (base - horizon) / (1 - i * 0.1)
        if y < 1:
            canvas.line([(0, y), (1, y)], 0.003, colour)


def living_room(scene: Scene, size: int, dice: Dice) -> NDArray[np.uint8]:
    """Wallpaper, window with curtains, a painting and a rug, (size, size, 3)."""
    wall = jitter(
        dice.choice([(232, 214, 190), (188, 206, 204), (214, 200, 214), (196, 208, 180), (236, 202, 178)]), dice, 6
    )
    base = scene.horizon + 0.24
    plank = jitter((192, 146, 100), dice, 12)
    canvas = Canvas(
        size,
        [
            (0.0, light(wall, 0.15)),
            (base, dark(wall, 0.06)),
            (base + 0.001, dark(plank, 0.12)),
            (1.0, light(plank, 0.1)),
        ],
    )
    if dice.chance(0.5):
        for i in range(0, 24, 2):
            canvas.rect(i / 24, 0, (i + 1) / 24, base, dark(wall, 0.035))
    _floor_tiles(canvas, scene.horizon, base, dark(plank, 0.16))
    canvas.rect(0, base - 0.028, 1, base, CREAM)
    clock = _clock(scene)
    x = dice.choice([0.08, 0.58]) if clock is None else 0.08 if clock > 0.5 else 0.58
    _window(canvas, x, 0.1, 0.32, 0.24, scene.light, CREAM)
    drape = dice.choice([(190, 96, 86), (96, 124, 150), (150, 140, 96), (128, 100, 140)])
    for at in (x - 0.07, x + 0.32):
        canvas.poly([(at, 0.06), (at + 0.07, 0.06), (at + 0.075, 0.42), (at - 0.005, 0.42)], drape)
        for fold in (0.02, 0.045):
            canvas.line([(at + fold, 0.06), (at + fold, 0.42)], 0.005, dark(drape, 0.2))
    canvas.line([(x - 0.09, 0.06), (x + 0.41, 0.06)], 0.01, dark(WOOD, 0.3))
    if clock is None:
        _painting(canvas, dice, 0.62 if x < 0.3 else 0.12)
    rug = dice.choice([(176, 84, 76), (86, 112, 140), (196, 170, 120), (120, 140, 110)])
    canvas.oval(0.5, base + 0.22, 0.42, 0.12, dark(rug, 0.1))
    canvas.oval(0.5, base + 0.217, 0.395, 0.106, light(rug, 0.35))
    canvas.oval(0.5, base + 0.215, 0.375, 0.096, rug)
    return finish(canvas, "soft", 2.0, 0.0, dice)


def _painting(canvas: Canvas, dice: Dice, x: float) -> None:
    """An abstract in a frame: nothing on it that a caption could name."""
    y, w, tall = dice.between(0.1, 0.16), 0.2, 0.15
    canvas.rect(x - 0.012, y - 0.012, x + w + 0.012, y + tall + 0.012, dark(WOOD, 0.2))
    canvas.rect(x, y, x + w, y + tall, CREAM)
    for _ in range(3):
        colour = dice.choice([(206, 120, 90), (90, 140, 160), (226, 186, 96), (120, 110, 150)])
        cx, r = x + dice.between(0.05, w - 0.05), dice.between(0.02, 0.045)
        canvas.oval(cx, y + tall / 2 + dice.bell(0.02), r, r, colour)
