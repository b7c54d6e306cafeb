"""Things drawn one by one, and what can be seen of each once all are on the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from captrial.records import Box
from captrial.toyworld.drawing.brush import Brush, Style
from captrial.toyworld.drawing.colours import COLOURS, jitter
from captrial.toyworld.drawing.weather import veil
from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.layout import Scene, Thing
from captrial.toyworld.scene.object_classes import KINDS

MASTER = 224  # larger side in pixels of the drawings that robot frames are resized from


@dataclass(frozen=True, slots=True)
class Layer:
    """A thing as drawn: premultiplied RGBA and where its corner is on the image; `whole` pixels before cropping."""

    pixels: NDArray[np.uint8]  # (h, w, 4)
    x: int
    y: int
    whole: int


@dataclass(frozen=True, slots=True)
class Sight:
    """What can be seen of a thing: its mask, tight box, visible pixels, and their share of the whole thing."""

    mask: NDArray[np.bool_]  # (height, width)
    box: Box
    area: int
    share: float


def sprite(thing: Thing, size: int) -> Layer | None:
    """Draw one thing; None where nothing of it is on the image."""
    room, scale = thing.extent, thing.scale * size
    x = round(thing.x * size - room.half * scale)
    y = round((thing.foot - thing.lift) * size - room.top * scale)
    if x >= size or y >= size or x + 2 * room.half * scale < -2 or y + (room.top - room.bottom) * scale < -2:
        return None
    if thing.track >= 0:
        return _from_master(thing, x, y, size)
    pixels = np.asarray(_drawn(thing, scale))
    whole = int(np.count_nonzero(pixels[:, :, 3] > 127))
    left, top = max(-x, 0), max(-y, 0)
    return _trimmed(pixels[top : max(size - y, 0), left : max(size - x, 0)], x + left, y + top, whole)


def _drawn(thing: Thing, scale: float) -> Image.Image:
    """A thing at so many pixels a metre, premultiplied RGBA."""
    dice, brush = Dice(thing.style), Brush(thing.extent, scale, thing.facing)
    colour = jitter(COLOURS[thing.colour], dice)
    KINDS[thing.kind].draw(brush, Style(colour, thing.form, thing.pose, dice, thing.style))
    return brush.lift()


def _trimmed(pixels: NDArray[np.uint8], x: int, y: int, whole: int) -> Layer | None:
    """A layer without empty margins: drawings seldom fill their room."""
    rows, columns = np.flatnonzero(pixels[:, :, 3].any(axis=1)), np.flatnonzero(pixels[:, :, 3].any(axis=0))
    if not rows.size:
        return None
    pixels = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Layer(pixels, x + int(columns[0]), y + int(rows[0]), whole)


def _from_master(thing: Thing, x: int, y: int, size: int) -> Layer | None:
    """A thing of a robot's room: it is on many frames, so it is drawn once, large, and resized for each."""
    room = thing.extent
    master, solid = _master(replace(thing, x=0, foot=0, scale=1, lift=0, order=0))
    ratio = MASTER / max(room.top, 2 * room.half) / (thing.scale * size)  # master's pixels a pixel
    left, top = max(-x, 0), max(-y, 0)
    right, bottom = min(size - x, int(master.width / ratio)), min(size - y, int(master.height / ratio))
    if right <= left or bottom <= top:
        return None
    part = (left * ratio, top * ratio, right * ratio, bottom * ratio)
    resized = master.resize((right - left, bottom - top), Image.Resampling.BILINEAR, part)
    return _trimmed(np.asarray(resized), x + left, y + top, max(round(solid / ratio**2), 1))


@lru_cache(maxsize=96)
def _master(thing: Thing) -> tuple[Image.Image, int]:
    room = thing.extent
    drawing = _drawn(thing, MASTER / max(room.top, 2 * room.half))
    return drawing, int(np.count_nonzero(np.asarray(drawing)[:, :, 3] > 127))


def draw(scene: Scene, size: int) -> list[Layer | None]:
    """All things of a scene, in the order of `scene.things`."""
    return [sprite(thing, size) for thing in scene.things]


def sights(scene: Scene, layers: Sequence[Layer | None], size: int) -> list[Sight | None]:
    """What is visible of each thing once all are painted; None where nothing is."""
    owner = np.full((size, size), -1, dtype=np.int16)
    for index in painting_order(scene):
        layer = layers[index]
        if layer is not None:
            height, width = layer.pixels.shape[:2]
            window = owner[layer.y : layer.y + height, layer.x : layer.x + width]
            np.copyto(window, index, where=layer.pixels[:, :, 3] > 127)
    cover = veil(scene, size)
    if cover is not None:
        owner[cover[:, :, 3] > 127] = -1
    return [_sight(owner, index, layer) for index, layer in enumerate(layers)]


def _sight(owner: NDArray[np.int16], index: int, layer: Layer | None) -> Sight | None:
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
    return Sight(mask, box, area, area / max(layer.whole, 1))


def painting_order(scene: Scene) -> list[int]:
    """Indices of the things from far to near."""
    return sorted(range(len(scene.things)), key=lambda index: scene.things[index].order)
