"""Rendering a scene: draw each object to a layer, find its visible pixels, and compose the image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from captrial.records import Box
from captrial.toyworld.drawing.canvas import ObjectCanvas, Style
from captrial.toyworld.drawing.colours import COLOURS, RGB, jitter
from captrial.toyworld.drawing.effects import apply_effects, glow, grade, occluders, shadow
from captrial.toyworld.drawing.indoor_backgrounds import room_backdrop
from captrial.toyworld.drawing.outdoor_backgrounds import SKIES, backdrop
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.layout import Scene, SceneObject
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES
from captrial.toyworld.scene.places import PLACES

MASTER = 224  # larger side in pixels of the drawings that robot frames are resized from


@dataclass(frozen=True, slots=True)
class Layer:
    """A drawn object: premultiplied RGBA and its corner on the image; `whole` is its pixel count before cropping."""

    pixels: NDArray[np.uint8]  # (h, w, 4)
    x: int
    y: int
    whole: int


@dataclass(frozen=True, slots=True)
class Visibility:
    """The visible part of an object: mask, tight box, number of pixels, and their share of the whole object."""

    mask: NDArray[np.bool_]  # (height, width)
    box: Box
    area: int
    share: float


def sprite(obj: SceneObject, size: int) -> Layer | None:
    """Draw one object; None if nothing of it is on the image."""
    extent, scale = obj.extent, obj.scale * size
    x = round(obj.x * size - extent.half * scale)
    y = round((obj.foot - obj.lift) * size - extent.top * scale)
    if x >= size or y >= size or x + 2 * extent.half * scale < -2 or y + (extent.top - extent.bottom) * scale < -2:
        return None
    if obj.track >= 0:
        return _from_master(obj, x, y, size)
    pixels = np.asarray(_drawn(obj, scale))
    whole = int(np.count_nonzero(pixels[:, :, 3] > 127))
    left, top = max(-x, 0), max(-y, 0)
    return _trimmed(pixels[top : max(size - y, 0), left : max(size - x, 0)], x + left, y + top, whole)


def _drawn(obj: SceneObject, scale: float) -> Image.Image:
    """An object at `scale` pixels per metre, premultiplied RGBA."""
    rng, canvas = RandomStream(obj.seed), ObjectCanvas(obj.extent, scale, obj.facing)
    colour = jitter(COLOURS[obj.colour], rng)
    OBJECT_CLASSES[obj.label].draw(canvas, Style(colour, obj.form, obj.pose, rng, obj.seed))
    return canvas.image()


def _trimmed(pixels: NDArray[np.uint8], x: int, y: int, whole: int) -> Layer | None:
    """A layer without empty margins."""
    rows, columns = np.flatnonzero(pixels[:, :, 3].any(axis=1)), np.flatnonzero(pixels[:, :, 3].any(axis=0))
    if not rows.size:
        return None
    pixels = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Layer(pixels, x + int(columns[0]), y + int(rows[0]), whole)


def _from_master(obj: SceneObject, x: int, y: int, size: int) -> Layer | None:
    """An object of the robot's room: it is in many frames, so it is drawn once at large size and resized for each."""
    extent = obj.extent
    master, solid = _master(replace(obj, x=0, foot=0, scale=1, lift=0, order=0))
    ratio = MASTER / max(extent.top, 2 * extent.half) / (obj.scale * size)  # master's pixels a pixel
    left, top = max(-x, 0), max(-y, 0)
    right, bottom = min(size - x, int(master.width / ratio)), min(size - y, int(master.height / ratio))
    if right <= left or bottom <= top:
        return None
    part = (left * ratio, top * ratio, right * ratio, bottom * ratio)
    resized = master.resize((right - left, bottom - top), Image.Resampling.BILINEAR, part)
    return _trimmed(np.asarray(resized), x + left, y + top, max(round(solid / ratio**2), 1))


@lru_cache(maxsize=96)
def _master(obj: SceneObject) -> tuple[Image.Image, int]:
    extent = obj.extent
    drawing = _drawn(obj, MASTER / max(extent.top, 2 * extent.half))
    return drawing, int(np.count_nonzero(np.asarray(drawing)[:, :, 3] > 127))


def draw(scene: Scene, size: int) -> list[Layer | None]:
    """The layers of all objects of a scene, in the order of `scene.objects`."""
    return [sprite(obj, size) for obj in scene.objects]


def visible_parts(scene: Scene, layers: Sequence[Layer | None], size: int) -> list[Visibility | None]:
    """The visible part of each object when all are drawn; None where nothing is visible."""
    owner = np.full((size, size), -1, dtype=np.int16)
    for index in painting_order(scene):
        layer = layers[index]
        if layer is not None:
            height, width = layer.pixels.shape[:2]
            window = owner[layer.y : layer.y + height, layer.x : layer.x + width]
            np.copyto(window, index, where=layer.pixels[:, :, 3] > 127)
    cover = occluders(scene, size)
    if cover is not None:
        owner[cover[:, :, 3] > 127] = -1
    return [_visibility(owner, index, layer) for index, layer in enumerate(layers)]


def _visibility(owner: NDArray[np.int16], index: int, layer: Layer | None) -> Visibility | None:
    if layer is None:
        return None
    height, width = layer.pixels.shape[:2]
    seen = owner[layer.y : layer.y + height, layer.x : layer.x + width] == index
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    if not rows.size:
        return None
    mask = np.zeros(owner.shape, dtype=np.bool_)
    mask[layer.y : layer.y + height, layer.x : layer.x + width] = seen
    x, y = layer.x, layer.y
    box = Box(float(x + columns[0]), float(y + rows[0]), float(x + columns[-1] + 1), float(y + rows[-1] + 1))
    area = int(np.count_nonzero(seen))
    return Visibility(mask, box, area, area / max(layer.whole, 1))


def painting_order(scene: Scene) -> list[int]:
    """Indices of the objects from far to near."""
    return sorted(range(len(scene.objects)), key=lambda index: scene.objects[index].order)


def paint(scene: Scene, layers: Sequence[Layer | None], size: int) -> NDArray[np.uint8]:
    """The image, (size, size, 3)."""
    pixels = room_backdrop(scene, size) if scene.view is not None else backdrop(scene, size)
    for obj in scene.objects:
        shadow(pixels, scene, obj)
    air = SKIES[scene.light][1] if scene.light in SKIES else (0, 0, 0)
    for index in painting_order(scene):
        layer = layers[index]
        if layer is not None:
            _paste(pixels, layer, _haze(scene, scene.objects[index]), air)
    _cords(pixels, scene)
    pixels = grade(pixels, "dark room" if scene.view is not None and scene.light == "night" else scene.light)
    glow(pixels, scene)
    return apply_effects(pixels, scene)


def _haze(scene: Scene, obj: SceneObject) -> float:
    """The share of the sky's colour over an object: more the closer it is to the horizon."""
    if scene.place not in PLACES or PLACES[scene.place].indoor:
        return 0.0
    return max(0.0, 0.3 - 1.3 * (obj.foot - scene.horizon))


def _paste(pixels: NDArray[np.uint8], layer: Layer, haze: float, air: RGB) -> None:
    """Compose a layer over the image, on rows of channels: numpy is slow on triples."""
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
    """Brightness factors (of 256): the outline is darker, so that a white sheep is visible on snow."""
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
    """Draw strings and leashes with some slack; they are too thin to be part of a mask."""
    if not scene.cords:
        return
    size = pixels.shape[0]
    for cord in scene.cords:
        (x1, y1), (x2, y2) = (scene.objects[index].at(x, y) for index, x, y in (cord.start, cord.end))
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
