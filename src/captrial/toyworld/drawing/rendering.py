"""From a scene and its drawn things to pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from captrial.toyworld.drawing.backgrounds import SKIES, backdrop
from captrial.toyworld.drawing.colours import RGB
from captrial.toyworld.drawing.lighting import glow, grade, shadow
from captrial.toyworld.drawing.robot_views import room_backdrop
from captrial.toyworld.drawing.sprites import Layer, painting_order
from captrial.toyworld.drawing.weather import spoil
from captrial.toyworld.scene.layout import Scene, Thing
from captrial.toyworld.scene.places import PLACES


def paint(scene: Scene, layers: Sequence[Layer | None], size: int) -> NDArray[np.uint8]:
    """The image, (size, size, 3)."""
    pixels = room_backdrop(scene, size) if scene.view is not None else backdrop(scene, size)
    for thing in scene.things:
        shadow(pixels, scene, thing)
    air = SKIES[scene.light][1] if scene.light in SKIES else (0, 0, 0)
    for index in painting_order(scene):
        layer = layers[index]
        if layer is not None:
            _paste(pixels, layer, _haze(scene, scene.things[index]), air)
    _cords(pixels, scene)
    pixels = grade(pixels, "dark room" if scene.view is not None and scene.light == "night" else scene.light)
    glow(pixels, scene)
    return spoil(pixels, scene)


def _haze(scene: Scene, thing: Thing) -> float:
    """How much of the air's colour lies over a thing: more the nearer it is to the horizon."""
    if scene.place not in PLACES or PLACES[scene.place].indoor:
        return 0.0
    return max(0.0, 0.3 - 1.3 * (thing.foot - scene.horizon))


def _paste(pixels: NDArray[np.uint8], layer: Layer, haze: float, air: RGB) -> None:
    """Put a layer over the image, on rows of channels: numpy is slow on triples."""
    height, width = layer.pixels.shape[:2]
    rows = pixels.reshape(pixels.shape[0], -1)
    window = rows[layer.y : layer.y + height, 3 * layer.x : 3 * (layer.x + width)]
    alpha = np.repeat(layer.pixels[:, :, 3].astype(np.uint16), 3, axis=1)  # (height, 3 width)
    colour = layer.pixels[:, :, :3].reshape(height, 3 * width).astype(np.uint16)
    colour *= np.repeat(_contour(layer.pixels[:, :, 3]), 3, axis=1)
    colour >>= np.uint16(8)
    if haze > 0.02:
        part = int(haze * 256)
        tint = alpha * np.resize(np.array(air, dtype=np.uint16), 3 * width) // np.uint16(255)
        colour = (colour * np.uint16(256 - part) + tint * np.uint16(part)) >> np.uint16(8)
    under = window * (np.uint16(255) - alpha)
    under += (under >> np.uint16(8)) + np.uint16(1)  # with the shift below: division by 255
    under >>= np.uint16(8)
    under += colour
    window[:] = np.minimum(under, 255, out=under)


def _contour(alpha: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """How much light (of 256) the outline keeps: its last pixel is darker, so that a white sheep shows on snow."""
    inner = alpha.copy()
    np.minimum(inner[1:], alpha[:-1], out=inner[1:])
    np.minimum(inner[:-1], alpha[1:], out=inner[:-1])
    np.minimum(inner[:, 1:], alpha[:, :-1], out=inner[:, 1:])
    np.minimum(inner[:, :-1], alpha[:, 1:], out=inner[:, :-1])
    edge = (alpha - inner).astype(np.uint16)
    edge *= np.uint16(80)
    edge >>= np.uint16(8)
    return np.uint16(256) - edge


def _cords(pixels: NDArray[np.uint8], scene: Scene) -> None:
    """Strings and leashes, with a little slack; too thin to belong to anybody's mask."""
    if not scene.cords:
        return
    size = pixels.shape[0]
    for cord in scene.cords:
        (x1, y1), (x2, y2) = (scene.things[index].at(x, y) for index, x, y in (cord.start, cord.end))
        sag = cord.slack * math.hypot(x2 - x1, y2 - y1)
        points = []
        for step in range(13):
            t = step / 12
            points.append(((x1 + (x2 - x1) * t) * size, (y1 + (y2 - y1) * t + sag * 4 * t * (1 - t) * 0.5) * size))
        _hairline(pixels, points, (50, 44, 48) if cord.dark else (250, 250, 246))


def _hairline(pixels: NDArray[np.uint8], points: list[tuple[float, float]], colour: tuple[int, int, int]) -> None:
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    size = pixels.shape[0]
    left, top = max(int(min(xs)) - 2, 0), max(int(min(ys)) - 2, 0)
    right, bottom = min(int(max(xs)) + 3, size), min(int(max(ys)) + 3, size)
    if right <= left or bottom <= top:
        return
    sheet = Image.new("L", ((right - left) * 3, (bottom - top) * 3))
    flat = [value for x, y in points for value in ((x - left) * 3, (y - top) * 3)]
    ImageDraw.Draw(sheet).line(flat, fill=210, width=max(round(size / 100), 1))
    alpha = np.asarray(sheet.reduce(3)).astype(np.uint16)[:, :, None]
    window = pixels[top:bottom, left:right]
    window[:] = (window * (255 - alpha) + np.array(colour, dtype=np.uint16) * alpha) // 255
