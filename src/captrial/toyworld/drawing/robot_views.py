"""The robot's room as its camera sees it: floor, walls, windows and a door, all in true perspective."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from captrial.toyworld.drawing.brush import Point
from captrial.toyworld.drawing.canvas import Canvas, roughen
from captrial.toyworld.drawing.colours import (
    CREAM,
    RGB,
    dark,
    jitter,
    light,
    mix,
)
from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.layout import Scene
from captrial.toyworld.scene.robot import (
    CEILING,
    DEPTH,
    FOCAL,
    HALF_WIDTH,
    CameraView,
)

_CLIP = 0.12  # metres before the camera at which walls and floor lines are cut
_CORNERS = ((-HALF_WIDTH, 0.0), (-HALF_WIDTH, DEPTH), (HALF_WIDTH, DEPTH), (HALF_WIDTH, 0.0))
Ground = tuple[float, float]


def room_backdrop(scene: Scene, size: int) -> NDArray[np.uint8]:
    """Paint the empty room of a robot's frame, (size, size, 3)."""
    view = scene.view
    assert isinstance(view, CameraView)
    dice = Dice(scene.style, "room")
    wall = jitter(
        dice.choice([(222, 206, 182), (190, 206, 208), (206, 196, 214), (204, 212, 186), (228, 200, 182)]), dice, 8
    )
    wood = jitter(dice.choice([(186, 140, 96), (150, 110, 80), (198, 168, 132)]), dice, 8)
    h = view.horizon
    stops = [(0.0, (246, 244, 240)), (h, (214, 212, 208)), (h + 1e-3, dark(wood, 0.25)), (1.0, light(wood, 0.1))]
    canvas = Canvas(size, stops)
    _planks(canvas, view, dark(wood, 0.16))
    _rug(canvas, view, dice.choice([(170, 84, 78), (84, 112, 142), (190, 166, 118), (116, 138, 108)]))
    for index, shade in ((0, 0.1), (1, 0.0), (2, 0.16)):
        start, end = _CORNERS[index], _CORNERS[index + 1]
        _panel(canvas, view, start, end, 0.0, CEILING, dark(wall, shade))
        _panel(canvas, view, start, end, 0.0, 0.14, dark(CREAM, shade))
        _panel(canvas, view, start, end, CEILING - 0.08, CEILING, dark(CREAM, shade * 0.8))
    _furnish_walls(canvas, view, scene.light, dice)
    pixels = canvas.pixels()
    roughen(pixels, "soft", 2.0, 0.0, dice)
    return pixels


def _furnish_walls(canvas: Canvas, view: CameraView, lighting: str, dice: Dice) -> None:
    sky = (34, 42, 84) if lighting == "night" else (172, 212, 240)
    for x, z in (
        (-HALF_WIDTH, dice.between(2.4, 3.6)),
        (-HALF_WIDTH, dice.between(5.2, 6.0)),
        (HALF_WIDTH, dice.between(3.6, 4.6)),
    ):
        _window(canvas, view, (x, z), (x, z + 1.2), sky)
    x = dice.choice((-2.2, 1.4))
    door = dice.choice([(146, 104, 70), (120, 134, 140), (200, 192, 176)])
    _panel(canvas, view, (x - 0.07, DEPTH), (x + 0.97, DEPTH), 0.0, 2.12, CREAM)
    _panel(canvas, view, (x, DEPTH), (x + 0.9, DEPTH), 0.0, 2.05, door)
    for low, high in ((0.2, 0.95), (1.1, 1.9)):
        _panel(canvas, view, (x + 0.14, DEPTH), (x + 0.76, DEPTH), low, high, dark(door, 0.15))
    for z in (dice.between(1.6, 2.4), dice.between(5.8, 6.4)):
        _panel(canvas, view, (HALF_WIDTH, z), (HALF_WIDTH, z + 0.9), 1.2, 1.85, dark(door, 0.3))
        colour = dice.choice([(206, 120, 90), (90, 140, 160), (226, 186, 96), (120, 110, 150)])
        _panel(canvas, view, (HALF_WIDTH, z + 0.06), (HALF_WIDTH, z + 0.84), 1.26, 1.79, mix(colour, CREAM, 0.3))
        _panel(canvas, view, (HALF_WIDTH, z + 0.2), (HALF_WIDTH, z + 0.5), 1.36, 1.6, colour)


def _window(canvas: Canvas, view: CameraView, start: Ground, end: Ground, sky: RGB) -> None:
    _panel(canvas, view, start, end, 0.95, 2.15, CREAM)
    (x, z1), (_, z2) = start, end
    for left, right in ((z1 + 0.07, (z1 + z2) / 2 - 0.03), ((z1 + z2) / 2 + 0.03, z2 - 0.07)):
        _panel(canvas, view, (x, left), (x, right), 1.02, 2.08, sky)
        _panel(canvas, view, (x, left), (x, right), 1.02, 1.25, mix(sky, (96, 136, 90), 0.5))


def _cut(view: CameraView, start: Ground, end: Ground) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The part of a line on the floor before the camera, as (right, forward) twice."""
    (x1, d1), (x2, d2) = view.turned(*start), view.turned(*end)
    if d1 < _CLIP and d2 < _CLIP:
        return None
    if d1 < _CLIP:
        x1, d1 = x1 + (x2 - x1) * (_CLIP - d1) / (d2 - d1), _CLIP
    elif d2 < _CLIP:
        x2, d2 = x2 + (x1 - x2) * (_CLIP - d2) / (d1 - d2), _CLIP
    return (x1, d1), (x2, d2)


def _spot(view: CameraView, right: float, depth: float, height: float) -> Point:
    across, down = 0.5 + FOCAL * right / depth, view.horizon - FOCAL * (height - view.height) / depth
    return min(max(across, -9.0), 9.0), min(max(down, -9.0), 9.0)


def _panel(canvas: Canvas, view: CameraView, start: Ground, end: Ground, low: float, high: float, colour: RGB) -> None:
    """An upright rectangle over a line on the floor."""
    part = _cut(view, start, end)
    if part is None:
        return
    a, b = part
    canvas.poly([_spot(view, *a, low), _spot(view, *a, high), _spot(view, *b, high), _spot(view, *b, low)], colour)


def _planks(canvas: Canvas, view: CameraView, colour: RGB) -> None:
    for step in range(19):
        x = -HALF_WIDTH + step * HALF_WIDTH / 9
        part = _cut(view, (x, 0.0), (x, DEPTH))
        if part:
            canvas.line([_spot(view, *part[0], 0.0), _spot(view, *part[1], 0.0)], 0.003, colour)


def _rug(canvas: Canvas, view: CameraView, colour: RGB) -> None:
    """Three nested rectangles on the floor, cut at the camera."""
    for inset, tone in ((0.0, dark(colour, 0.15)), (0.12, light(colour, 0.3)), (0.2, colour)):
        near, far, half = 4.2 + inset, 6.6 - inset, 1.35 - inset
        corners = [(-half, near), (-half, far), (half, far), (half, near)]
        parts = [_cut(view, a, b) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
        spots = [_spot(view, *end, 0.0) for part in parts if part for end in part]
        if len(spots) > 2:
            canvas.poly(spots, tone)
