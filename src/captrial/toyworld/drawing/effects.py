"""Light and effects on the pixels: shadows, lamps, colour of the light; occluders, rain, haze, blur and noise.

An image (size, size, 3) is handled as rows (size, 3 size): numpy is several times faster on long rows than on triples.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from captrial.toyworld.drawing.colours import dark
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.layout import Scene, SceneObject

GRADES: dict[str, tuple[float, float, float]] = {
    "sunset": (1.0, 0.9, 0.82),
    "night": (0.62, 0.68, 0.92),
    "dark room": (0.5, 0.5, 0.64),
    "evening": (0.98, 0.88, 0.76),
    "cloudy": (0.95, 0.96, 0.98),
}


@lru_cache(maxsize=512)
def _soft_disc(width: int, height: int) -> NDArray[np.uint16]:
    """An ellipse that fades to its edge, (height, 3 width), one value a channel, at most 105."""
    x, y = np.linspace(-1, 1, width, dtype=np.float32), np.linspace(-1, 1, height, dtype=np.float32)
    distance = np.hypot(y[:, None], x[None])
    return np.repeat((np.clip(1.25 - 1.25 * distance, 0, 1) * 105).astype(np.uint16), 3, axis=1)


def shadow(pixels: NDArray[np.uint8], scene: Scene, obj: SceneObject) -> None:
    """Draw a soft shadow on the ground under an object."""
    size, extent = pixels.shape[0], obj.extent
    if obj.foot - scene.horizon < 0.03 or obj.label in {"clock", "kite"}:
        return
    base = {"tree": 0.6, "house": 1.0, "umbrella": 0.5, "lamp": 0.8, "flower": 0.6}.get(obj.label, 0.86)
    half = extent.half * base * obj.scale * size
    tall = max(half * 0.24, 1.5)
    _darken(pixels, obj.x * size + half * 0.1, obj.foot * size - tall * 0.15, half, tall)


def _darken(pixels: NDArray[np.uint8], x: float, y: float, half: float, tall: float) -> None:
    placed = _placed_disc(pixels, x, y, half, tall)
    if placed is not None:
        window, disc = placed
        window[:] = (window * (np.uint16(256) - disc)) >> np.uint16(8)


def _placed_disc(
    pixels: NDArray[np.uint8], x: float, y: float, half: float, tall: float
) -> tuple[NDArray[np.uint8], NDArray[np.uint16]] | None:
    """The rows of the image under a soft ellipse, and its strength there; None when it is off the image."""
    size = pixels.shape[0]
    wide, high = 4 * round(half / 2) + 3, 2 * round(tall) + 3  # in steps, so that few shapes are ever computed
    left, top = round(x) - wide // 2, round(y) - high // 2
    right, bottom = left + wide, top + high
    if right <= 0 or bottom <= 0 or left >= size or top >= size:
        return None
    disc = _soft_disc(wide, high)[max(-top, 0) : size - top, 3 * max(-left, 0) : 3 * (size - left)]
    rows = pixels.reshape(size, -1)
    return rows[max(top, 0) : bottom, 3 * max(left, 0) : 3 * right], disc


def glow(pixels: NDArray[np.uint8], scene: Scene) -> None:
    """Draw the light of lamps when it is dark."""
    if scene.light not in {"night", "evening"}:
        return
    size = pixels.shape[0]
    for obj in scene.objects:
        if obj.label == "lamp":
            x, y = obj.at(0.0, 1.35 if obj.form == "standing" else 0.5)
            _brighten(pixels, x * size, y * size, max(obj.scale * size * 1.1, 4.0))


def _brighten(pixels: NDArray[np.uint8], x: float, y: float, radius: float) -> None:
    placed = _placed_disc(pixels, x, y, radius, radius)
    if placed is not None:
        window, disc = placed
        warm = np.resize(np.array([256, 210, 128], dtype=np.uint16), disc.shape[1])
        window[:] = np.minimum(window + ((disc * warm) >> np.uint16(8)), 255)


@lru_cache(maxsize=16)
def _curve(lighting: str) -> list[int]:
    gains = GRADES[lighting]
    return [min(int(value * gain + (6 if lighting == "night" else 0)), 255) for gain in gains for value in range(256)]


def grade(pixels: NDArray[np.uint8], lighting: str) -> NDArray[np.uint8]:
    """Tint the image with the colour of the light."""
    if lighting not in GRADES:
        return pixels
    return np.array(Image.fromarray(pixels).point(_curve(lighting)))


_LEAF = [(t / 8, sign * 0.3 * math.sin(math.pi * (t / 8) ** 0.8)) for sign in (1, -1) for t in range(9)[::sign]]
OCCLUDERS = frozenset({"leaves", "fence"})


def occluders(scene: Scene, size: int) -> NDArray[np.uint8] | None:
    """Leaves or a fence in front of the camera, premultiplied RGBA (size, size, 4); None if there are none."""
    chosen = OCCLUDERS.intersection(scene.effects)
    return _occluders(tuple(sorted(chosen)), scene.seed, size) if chosen else None


@lru_cache(maxsize=4)
def _occluders(effects: tuple[str, ...], seed: int, size: int) -> NDArray[np.uint8]:
    sheet = Image.new("RGBa", (size * 2, size * 2))
    pen, rng = ImageDraw.Draw(sheet), RandomStream(seed, "veil")
    if "fence" in effects:
        _fence(pen, rng, size * 2)
    if "leaves" in effects:
        _leaves(pen, rng, size * 2)
    return np.asarray(sheet.reduce(2))


def _fence(pen: ImageDraw.ImageDraw, rng: RandomStream, side: int) -> None:
    colour, gap, shift = (
        rng.choice([(70, 62, 60), (120, 90, 66), (226, 222, 212)]),
        rng.uniform(0.14, 0.22),
        rng.uniform(0, 0.1),
    )
    for y in (0.34, 0.72):
        pen.rectangle((0, y * side, side, (y + 0.022) * side), fill=(*dark(colour, 0.2), 255))
    x = shift
    while x < 1:
        pen.rectangle((x * side, 0.24 * side, (x + 0.022) * side, side), fill=(*colour, 255))
        pen.polygon(
            [x * side, 0.24 * side, (x + 0.011) * side, 0.2 * side, (x + 0.022) * side, 0.24 * side],
            fill=(*colour, 255),
        )
        x += gap


def _leaves(pen: ImageDraw.ImageDraw, rng: RandomStream, side: int) -> None:
    """Leaves in a corner, close to the camera."""
    cx, cy = rng.choice([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
    for _ in range(30):
        x, y, angle = cx + rng.triangular(0.36), cy + rng.triangular(0.36), rng.uniform(0, math.tau)
        length, tone = rng.uniform(0.06, 0.12), rng.uniform(0.0, 0.35)
        colour = dark(rng.choice([(70, 120, 60), (96, 140, 70), (54, 96, 56)]), tone)
        c, s = math.cos(angle) * length, math.sin(angle) * length
        outline = [(x + t * c - w * s, y + t * s + w * c) for t, w in _LEAF]
        pen.polygon([value * side for point in outline for value in point], fill=(*colour, 255))
        pen.line([x * side, y * side, (x + c) * side, (y + s) * side], fill=(*dark(colour, 0.25), 255), width=2)


def apply_effects(pixels: NDArray[np.uint8], scene: Scene) -> NDArray[np.uint8]:
    """Apply the effects of a wild scene; other scenes stay unchanged."""
    if not scene.effects:
        return pixels
    size, rng = pixels.shape[0], RandomStream(scene.seed, "weather")
    cover = occluders(scene, size)
    if cover is not None:
        pixels = _behind(pixels, cover)
    if "rain" in scene.effects:
        pixels = _rain(pixels, rng)
    if "blur" in scene.effects:
        pixels = np.array(Image.fromarray(pixels).filter(ImageFilter.BoxBlur(rng.uniform(0.6, 1.6) * size / 256)))
    if "haze" in scene.effects or "dim" in scene.effects:
        contrast = rng.uniform(0.4, 0.6) + (0.25 if scene.light == "night" else 0.0)
        lift = 96 if "haze" in scene.effects else 0
        curve = np.clip(np.arange(256) * contrast + lift, 0, 255).astype(np.uint8)
        pixels = np.take(curve, pixels)
    if "noise" in scene.effects:
        pixels = _noisy(pixels, rng)
    return pixels


def _behind(pixels: NDArray[np.uint8], cover: NDArray[np.uint8]) -> NDArray[np.uint8]:
    size = pixels.shape[0]
    kept = np.repeat(np.uint16(255) - cover[:, :, 3], 3, axis=1)  # rows of channels: numpy is slow on triples
    kept *= pixels.reshape(size, -1)
    kept //= np.uint16(255)
    kept += cover[:, :, :3].reshape(size, -1)
    return kept.astype(np.uint8).reshape(pixels.shape)


def _noisy(pixels: NDArray[np.uint8], rng: RandomStream) -> NDArray[np.uint8]:
    """Add sensor noise: a part of one large noise array, at random strength."""
    size, strength = pixels.shape[0], rng.integer(10, 26)
    sheet = _noise_sheet(max(512, size + 256))
    y, x = rng.integer(0, 255), rng.integer(0, 255)
    noise = (sheet[y : y + size, x : x + size] * np.int16(strength)) >> np.int16(6)
    noise += pixels
    return np.clip(noise, 0, 255, out=noise).astype(np.uint8)


@lru_cache(maxsize=2)
def _noise_sheet(side: int) -> NDArray[np.int16]:
    """Noise of deviation 64, (side, side, 3)."""
    return (RandomStream("noise", side).noise(side, side, 3) * 64).astype(np.int16)


def _rain(pixels: NDArray[np.uint8], rng: RandomStream) -> NDArray[np.uint8]:
    image = Image.fromarray(pixels)
    pen, size = ImageDraw.Draw(image, "RGBA"), pixels.shape[0]
    for _ in range(110):
        x, y, length = rng.uniform(0, 1.1) * size, rng.uniform(-0.1, 1) * size, rng.uniform(0.03, 0.07) * size
        pen.line((x, y, x - length * 0.25, y + length), fill=(226, 234, 244, 130), width=max(size // 256, 1))
    return np.array(image)
