"""Backgrounds indoors: a kitchen, a living room, and the robot's room in perspective."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from captrial.toyworld.drawing.canvas import BackgroundCanvas, Point, finish, roughen
from captrial.toyworld.drawing.colours import CREAM, RGB, WOOD, dark, jitter, light, mix
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.layout import Scene
from captrial.toyworld.scene.robot import CEILING, DEPTH, FOCAL, HALF_WIDTH, CameraView


def _window(canvas: BackgroundCanvas, x: float, y: float, w: float, tall: float, lighting: str) -> None:
    """A window with a view."""
    frame = CREAM
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


def kitchen(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    """Counter, tiles, stove and a window, (size, size, 3)."""
    wall = jitter(rng.choice([(246, 232, 204), (214, 232, 226), (236, 222, 216), (226, 232, 240)]), rng, 6)
    tile, base = rng.choice([(214, 196, 172), (198, 204, 208), (222, 186, 150)]), scene.horizon + 0.27
    canvas = BackgroundCanvas(
        size,
        [(0.0, light(wall, 0.2)), (base, dark(wall, 0.04)), (base + 0.001, dark(tile, 0.08)), (1.0, light(tile, 0.12))],
    )
    _floor_tiles(canvas, scene.horizon, base, dark(tile, 0.14))
    left = rng.chance(0.5) if (clock := _clock(scene)) is None else clock > 0.5
    _window(canvas, rng.uniform(0.08, 0.18) if left else rng.uniform(0.56, 0.64), 0.1, 0.26, 0.2, scene.light)
    wood = rng.choice([(196, 150, 104), (146, 170, 160), (230, 226, 216), (120, 140, 168)])
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
    _stove(canvas, rng.choice([0.68, 0.06]), counter, base)
    return finish(canvas, "soft", 2.0, 0.0, rng)


def _clock(scene: Scene) -> float | None:
    """The position of a clock on the wall, if there is one: the window goes to the other side."""
    return next((obj.x for obj in scene.objects if obj.label == "clock"), None)


def _stove(canvas: BackgroundCanvas, x: float, counter: float, base: float) -> None:
    steel = (206, 210, 214)
    canvas.rect(x, counter - 0.004, x + 0.2, base - 0.012, steel)
    canvas.rect(x + 0.02, counter + 0.07, x + 0.18, base - 0.04, (60, 62, 70))
    canvas.rect(x + 0.03, counter + 0.08, x + 0.17, base - 0.05, (92, 84, 80))
    canvas.line([(x + 0.02, counter + 0.055), (x + 0.18, counter + 0.055)], 0.008, (130, 134, 140))
    for i in range(4):
        canvas.oval(x + 0.04 + i * 0.04, counter + 0.025, 0.009, 0.009, (80, 82, 90))


def _floor_tiles(canvas: BackgroundCanvas, horizon: float, base: float, colour: RGB) -> None:
    """Floor lines with one vanishing point on the horizon."""
    for i in range(-12, 13):
        x = 0.5 + i * 0.19
        top = 0.5 + (x - 0.5) * (base - horizon) / (1 - horizon)
        canvas.line([(top, base), (x, 1.0)], 0.003, colour)
    for i in range(1, 7):
        y = horizon + (base - horizon) / (1 - i * 0.1)
        if y < 1:
            canvas.line([(0, y), (1, y)], 0.003, colour)


def living_room(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    """Wallpaper, window with curtains, a painting and a rug, (size, size, 3)."""
    wall = jitter(
        rng.choice([(232, 214, 190), (188, 206, 204), (214, 200, 214), (196, 208, 180), (236, 202, 178)]), rng, 6
    )
    base = scene.horizon + 0.24
    plank = jitter((192, 146, 100), rng, 12)
    canvas = BackgroundCanvas(
        size,
        [
            (0.0, light(wall, 0.15)),
            (base, dark(wall, 0.06)),
            (base + 0.001, dark(plank, 0.12)),
            (1.0, light(plank, 0.1)),
        ],
    )
    if rng.chance(0.5):
        for i in range(0, 24, 2):
            canvas.rect(i / 24, 0, (i + 1) / 24, base, dark(wall, 0.035))
    _floor_tiles(canvas, scene.horizon, base, dark(plank, 0.16))
    canvas.rect(0, base - 0.028, 1, base, CREAM)
    clock = _clock(scene)
    x = rng.choice([0.08, 0.58]) if clock is None else 0.08 if clock > 0.5 else 0.58
    _window(canvas, x, 0.1, 0.32, 0.24, scene.light)
    drape = rng.choice([(190, 96, 86), (96, 124, 150), (150, 140, 96), (128, 100, 140)])
    for at in (x - 0.07, x + 0.32):
        canvas.poly([(at, 0.06), (at + 0.07, 0.06), (at + 0.075, 0.42), (at - 0.005, 0.42)], drape)
        for fold in (0.02, 0.045):
            canvas.line([(at + fold, 0.06), (at + fold, 0.42)], 0.005, dark(drape, 0.2))
    canvas.line([(x - 0.09, 0.06), (x + 0.41, 0.06)], 0.01, dark(WOOD, 0.3))
    if clock is None:
        _painting(canvas, rng, 0.62 if x < 0.3 else 0.12)
    rug = rng.choice([(176, 84, 76), (86, 112, 140), (196, 170, 120), (120, 140, 110)])
    canvas.oval(0.5, base + 0.22, 0.42, 0.12, dark(rug, 0.1))
    canvas.oval(0.5, base + 0.217, 0.395, 0.106, light(rug, 0.35))
    canvas.oval(0.5, base + 0.215, 0.375, 0.096, rug)
    return finish(canvas, "soft", 2.0, 0.0, rng)


def _painting(canvas: BackgroundCanvas, rng: RandomStream, x: float) -> None:
    """An abstract painting in a frame: nothing that a caption could mention."""
    y, w, tall = rng.uniform(0.1, 0.16), 0.2, 0.15
    canvas.rect(x - 0.012, y - 0.012, x + w + 0.012, y + tall + 0.012, dark(WOOD, 0.2))
    canvas.rect(x, y, x + w, y + tall, CREAM)
    for _ in range(3):
        colour = rng.choice([(206, 120, 90), (90, 140, 160), (226, 186, 96), (120, 110, 150)])
        cx, r = x + rng.uniform(0.05, w - 0.05), rng.uniform(0.02, 0.045)
        canvas.oval(cx, y + tall / 2 + rng.triangular(0.02), r, r, colour)


_CLIP = 0.12  # metres in front of the camera at which walls and floor lines are clipped
_CORNERS = ((-HALF_WIDTH, 0.0), (-HALF_WIDTH, DEPTH), (HALF_WIDTH, DEPTH), (HALF_WIDTH, 0.0))
Ground = tuple[float, float]


def room_backdrop(scene: Scene, size: int) -> NDArray[np.uint8]:
    """The empty room of a robot's frame, (size, size, 3)."""
    view = scene.view
    assert isinstance(view, CameraView)
    rng = RandomStream(scene.seed, "room")
    wall = jitter(
        rng.choice([(222, 206, 182), (190, 206, 208), (206, 196, 214), (204, 212, 186), (228, 200, 182)]), rng, 8
    )
    wood = jitter(rng.choice([(186, 140, 96), (150, 110, 80), (198, 168, 132)]), rng, 8)
    h = view.horizon
    stops = [(0.0, (246, 244, 240)), (h, (214, 212, 208)), (h + 1e-3, dark(wood, 0.25)), (1.0, light(wood, 0.1))]
    canvas = BackgroundCanvas(size, stops)
    _planks(canvas, view, dark(wood, 0.16))
    _rug(canvas, view, rng.choice([(170, 84, 78), (84, 112, 142), (190, 166, 118), (116, 138, 108)]))
    for index, shade in ((0, 0.1), (1, 0.0), (2, 0.16)):
        start, end = _CORNERS[index], _CORNERS[index + 1]
        _panel(canvas, view, start, end, (0.0, CEILING), dark(wall, shade))
        _panel(canvas, view, start, end, (0.0, 0.14), dark(CREAM, shade))
        _panel(canvas, view, start, end, (CEILING - 0.08, CEILING), dark(CREAM, shade * 0.8))
    _draw_walls(canvas, view, scene.light, rng)
    pixels = canvas.pixels()
    roughen(pixels, "soft", 2.0, 0.0, rng)
    return pixels


def _draw_walls(canvas: BackgroundCanvas, view: CameraView, lighting: str, rng: RandomStream) -> None:
    sky = (34, 42, 84) if lighting == "night" else (172, 212, 240)
    for x, z in (
        (-HALF_WIDTH, rng.uniform(2.4, 3.6)),
        (-HALF_WIDTH, rng.uniform(5.2, 6.0)),
        (HALF_WIDTH, rng.uniform(3.6, 4.6)),
    ):
        _room_window(canvas, view, (x, z), (x, z + 1.2), sky)
    x = rng.choice((-2.2, 1.4))
    door = rng.choice([(146, 104, 70), (120, 134, 140), (200, 192, 176)])
    _panel(canvas, view, (x - 0.07, DEPTH), (x + 0.97, DEPTH), (0.0, 2.12), CREAM)
    _panel(canvas, view, (x, DEPTH), (x + 0.9, DEPTH), (0.0, 2.05), door)
    for low, high in ((0.2, 0.95), (1.1, 1.9)):
        _panel(canvas, view, (x + 0.14, DEPTH), (x + 0.76, DEPTH), (low, high), dark(door, 0.15))
    for z in (rng.uniform(1.6, 2.4), rng.uniform(5.8, 6.4)):
        _panel(canvas, view, (HALF_WIDTH, z), (HALF_WIDTH, z + 0.9), (1.2, 1.85), dark(door, 0.3))
        colour = rng.choice([(206, 120, 90), (90, 140, 160), (226, 186, 96), (120, 110, 150)])
        _panel(canvas, view, (HALF_WIDTH, z + 0.06), (HALF_WIDTH, z + 0.84), (1.26, 1.79), mix(colour, CREAM, 0.3))
        _panel(canvas, view, (HALF_WIDTH, z + 0.2), (HALF_WIDTH, z + 0.5), (1.36, 1.6), colour)


def _room_window(canvas: BackgroundCanvas, view: CameraView, start: Ground, end: Ground, sky: RGB) -> None:
    _panel(canvas, view, start, end, (0.95, 2.15), CREAM)
    (x, z1), (_, z2) = start, end
    for left, right in ((z1 + 0.07, (z1 + z2) / 2 - 0.03), ((z1 + z2) / 2 + 0.03, z2 - 0.07)):
        _panel(canvas, view, (x, left), (x, right), (1.02, 2.08), sky)
        _panel(canvas, view, (x, left), (x, right), (1.02, 1.25), mix(sky, (96, 136, 90), 0.5))


def _cut(view: CameraView, start: Ground, end: Ground) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """The part of a line on the floor in front of the camera, as (right, forward) twice."""
    (x1, d1), (x2, d2) = view.to_camera(*start), view.to_camera(*end)
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


def _panel(
    canvas: BackgroundCanvas,
    view: CameraView,
    start: Ground,
    end: Ground,
    heights: tuple[float, float],
    colour: RGB,
) -> None:
    """A vertical rectangle above a line on the floor, between two `heights`."""
    part = _cut(view, start, end)
    if part is None:
        return
    (a, b), (low, high) = part, heights
    canvas.poly([_spot(view, *a, low), _spot(view, *a, high), _spot(view, *b, high), _spot(view, *b, low)], colour)


def _planks(canvas: BackgroundCanvas, view: CameraView, colour: RGB) -> None:
    for step in range(19):
        x = -HALF_WIDTH + step * HALF_WIDTH / 9
        part = _cut(view, (x, 0.0), (x, DEPTH))
        if part:
            canvas.line([_spot(view, *part[0], 0.0), _spot(view, *part[1], 0.0)], 0.003, colour)


def _rug(canvas: BackgroundCanvas, view: CameraView, colour: RGB) -> None:
    """Three nested rectangles on the floor, cut at the camera."""
    for inset, tone in ((0.0, dark(colour, 0.15)), (0.12, light(colour, 0.3)), (0.2, colour)):
        near, far, half = 4.2 + inset, 6.6 - inset, 1.35 - inset
        corners = [(-half, near), (-half, far), (half, far), (half, near)]
        parts = [_cut(view, a, b) for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
        placements = [_spot(view, *end, 0.0) for part in parts if part for end in part]
        if len(placements) > 2:
            canvas.poly(placements, tone)
