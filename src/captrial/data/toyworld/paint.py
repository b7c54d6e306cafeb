"""From a scene to pixels and truth: sprites, who covers whom, shadows, light, and the wild's bad weather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from captrial.data.toyworld.backdrops import SKIES, backdrop
from captrial.data.toyworld.brush import Brush, Look
from captrial.data.toyworld.dice import Dice
from captrial.data.toyworld.kinds import KINDS
from captrial.data.toyworld.palette import COLOURS, jitter
from captrial.data.toyworld.places import PLACES
from captrial.data.toyworld.rooms import room_backdrop
from captrial.data.toyworld.stage import Scene, Thing
from captrial.data.toyworld.weather import spoil, veil
from captrial.records import Box

GRADES: dict[str, tuple[float, float, float]] = {
    "sunset": (1.0, 0.9, 0.82),
    "night": (0.62, 0.68, 0.92),
    "dark room": (0.5, 0.5, 0.64),
    "evening": (0.98, 0.88, 0.76),
    "cloudy": (0.95, 0.96, 0.98),
}


MASTER = 224  # larger side in pixels of the drawings that robot frames are resized from


@dataclass(frozen=True, slots=True)
class Layer:
    """A thing as drawn: premultiplied RGBA and where its corner is on the picture; `whole` pixels before cropping."""

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
    """Draw one thing; None where nothing of it is on the picture."""
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
    KINDS[thing.kind].draw(brush, Look(colour, thing.form, thing.pose, dice, thing.style))
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
            window[layer.pixels[:, :, 3] > 127] = index
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


def paint(scene: Scene, layers: Sequence[Layer | None], size: int) -> NDArray[np.uint8]:
    """The picture, (size, size, 3)."""
    pixels = room_backdrop(scene, size) if scene.view is not None else backdrop(scene, size)
    for thing in scene.things:
        _shadow(pixels, scene, thing)
    for index in painting_order(scene):
        layer = layers[index]
        if layer is not None:
            _paste(pixels, layer, _haze(scene, scene.things[index]), SKIES.get(scene.light, ((0, 0, 0),) * 2)[1])
    _cords(pixels, scene)
    pixels = _grade(pixels, "dark room" if scene.view is not None and scene.light == "night" else scene.light)
    _glow(pixels, scene)
    return spoil(pixels, scene)


def _haze(scene: Scene, thing: Thing) -> float:
    """How much of the air's colour lies over a thing: more the nearer it is to the horizon."""
    if scene.place not in PLACES or PLACES[scene.place].indoor:
        return 0.0
    return max(0.0, 0.3 - 1.3 * (thing.foot - scene.horizon))


def _paste(pixels: NDArray[np.uint8], layer: Layer, haze: float, air: tuple[int, int, int]) -> None:
    height, width = layer.pixels.shape[:2]
    window = pixels[layer.y : layer.y + height, layer.x : layer.x + width]
    alpha = layer.pixels[:, :, 3:].astype(np.uint16)
    colour = layer.pixels[:, :, :3].astype(np.uint16)
    colour = _contour(colour, layer.pixels[:, :, 3])
    if haze > 0.02:
        part = int(haze * 256)
        tint = alpha * np.array(air, dtype=np.uint16) // np.uint16(255)
        colour = (colour * np.uint16(256 - part) + tint * np.uint16(part)) >> np.uint16(8)
    under = window * (255 - alpha)
    window[:] = np.minimum(colour + ((under + (under >> 8) + 1) >> 8), 255)


def _contour(colour: NDArray[np.uint16], alpha: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Darken the last pixel inside the outline, so that a white sheep shows on snow."""
    inner = alpha.copy()
    inner[1:] = np.minimum(inner[1:], alpha[:-1])
    inner[:-1] = np.minimum(inner[:-1], alpha[1:])
    inner[:, 1:] = np.minimum(inner[:, 1:], alpha[:, :-1])
    inner[:, :-1] = np.minimum(inner[:, :-1], alpha[:, 1:])
    keep = np.uint16(256) - ((alpha - inner).astype(np.uint16) * np.uint16(80) >> np.uint16(8))
    return (colour * keep[:, :, None]) >> np.uint16(8)


@lru_cache(maxsize=512)
def _soft_disc(width: int, height: int) -> NDArray[np.uint16]:
    """An ellipse that fades to its edge, (height, width, 1), at most 105."""
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    distance = np.hypot(y[:, None], x[None])
    return (np.clip(1.25 - 1.25 * distance, 0, 1) * 105).astype(np.uint16)[:, :, None]


def _shadow(pixels: NDArray[np.uint8], scene: Scene, thing: Thing) -> None:
    """A soft patch on the ground under what stands there, paler under what is in the air."""
    size, room = pixels.shape[0], thing.extent
    if thing.foot - scene.horizon < 0.03 or thing.kind in {"clock", "kite"}:
        return
    base = {"tree": 0.6, "house": 1.0, "umbrella": 0.5, "lamp": 0.8, "flower": 0.6}.get(thing.kind, 0.86)
    half = room.half * base * thing.scale * size
    tall = max(half * 0.24, 1.5)
    _darken(pixels, thing.x * size + half * 0.1, thing.foot * size - tall * 0.15, half, tall)


def _darken(pixels: NDArray[np.uint8], x: float, y: float, half: float, tall: float) -> None:
    placed = _placed_disc(pixels.shape[0], x, y, half, tall)
    if placed is not None:
        rows, columns, disc = placed
        pixels[rows, columns] = (pixels[rows, columns] * (256 - disc)) >> 8


def _placed_disc(
    size: int, x: float, y: float, half: float, tall: float
) -> tuple[slice, slice, NDArray[np.uint16]] | None:
    """A soft disc stretched to an ellipse on the picture: rows, columns and strength; None when off the picture."""
    wide, high = 4 * round(half / 2) + 3, 2 * round(tall) + 3  # in steps, so that few shapes are ever computed
    left, top = round(x) - wide // 2, round(y) - high // 2
    right, bottom = left + wide, top + high
    if right <= 0 or bottom <= 0 or left >= size or top >= size:
        return None
    disc = _soft_disc(wide, high)
    disc = disc[max(-top, 0) : size - top, max(-left, 0) : size - left]
    return slice(max(top, 0), min(bottom, size)), slice(max(left, 0), min(right, size)), disc


def _cords(pixels: NDArray[np.uint8], scene: Scene) -> None:
    """Strings and leashes, with a little slack; too thin to belong to anybody's mask."""
    if not scene.cords:
        return
    size = pixels.shape[0]
    for cord in scene.cords:
        (x1, y1), (x2, y2) = (_at(scene.things[index], x, y) for index, x, y in (cord.start, cord.end))
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


def _glow(pixels: NDArray[np.uint8], scene: Scene) -> None:
    """Lamps shine when it is dark."""
    if scene.light not in {"night", "evening"}:
        return
    size = pixels.shape[0]
    for thing in scene.things:
        if thing.kind == "lamp":
            x, y = _at(thing, 0.0, 1.35 if thing.form == "standing" else 0.5)
            _brighten(pixels, x * size, y * size, max(thing.scale * size * 1.1, 4.0))


def _brighten(pixels: NDArray[np.uint8], x: float, y: float, radius: float) -> None:
    placed = _placed_disc(pixels.shape[0], x, y, radius, radius)
    if placed is not None:
        rows, columns, disc = placed
        warm = (disc * np.array([[[1.0, 0.82, 0.5]]])).astype(np.uint16)
        pixels[rows, columns] = np.minimum(pixels[rows, columns] + warm, 255)


def _at(thing: Thing, x: float, y: float) -> tuple[float, float]:
    return thing.x + x * thing.facing * thing.scale, thing.foot - thing.lift - y * thing.scale


@lru_cache(maxsize=16)
def _curve(lighting: str) -> list[int]:
    gains = GRADES[lighting]
    return [min(int(value * gain + (6 if lighting == "night" else 0)), 255) for gain in gains for value in range(256)]


def _grade(pixels: NDArray[np.uint8], lighting: str) -> NDArray[np.uint8]:
    """The colour of the light over everything."""
    if lighting not in GRADES:
        return pixels
    return np.array(Image.fromarray(pixels).point(_curve(lighting)))
