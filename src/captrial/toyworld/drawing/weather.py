"""What the wild does to an image: things in front of the lens, rain, haze, blur, noise."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from captrial.toyworld.drawing.colours import dark
from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.layout import Scene

_LEAF = [(t / 8, sign * 0.3 * math.sin(math.pi * (t / 8) ** 0.8)) for sign in (1, -1) for t in range(9)[::sign]]
OCCLUDERS = frozenset({"leaves", "fence"})


def veil(scene: Scene, size: int) -> NDArray[np.uint8] | None:
    """What hangs before the lens, premultiplied RGBA (size, size, 4); None on a clear view."""
    chosen = OCCLUDERS.intersection(scene.effects)
    return _veil(tuple(sorted(chosen)), scene.style, size) if chosen else None


@lru_cache(maxsize=4)
def _veil(effects: tuple[str, ...], style: int, size: int) -> NDArray[np.uint8]:
    sheet = Image.new("RGBa", (size * 2, size * 2))
    pen, dice = ImageDraw.Draw(sheet), Dice(style, "veil")
    if "fence" in effects:
        _fence(pen, dice, size * 2)
    if "leaves" in effects:
        _leaves(pen, dice, size * 2)
    return np.asarray(sheet.reduce(2))


def _fence(pen: ImageDraw.ImageDraw, dice: Dice, side: int) -> None:
    colour, gap, shift = (
        dice.choice([(70, 62, 60), (120, 90, 66), (226, 222, 212)]),
        dice.between(0.14, 0.22),
        dice.between(0, 0.1),
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


def _leaves(pen: ImageDraw.ImageDraw, dice: Dice, side: int) -> None:
    """A twig of pointed leaves in a corner, close to the lens."""
    cx, cy = dice.choice([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
    for _ in range(30):
        x, y, angle = cx + dice.bell(0.36), cy + dice.bell(0.36), dice.between(0, math.tau)
        length, tone = dice.between(0.06, 0.12), dice.between(0.0, 0.35)
        colour = dark(dice.choice([(70, 120, 60), (96, 140, 70), (54, 96, 56)]), tone)
        c, s = math.cos(angle) * length, math.sin(angle) * length
        outline = [(x + t * c - w * s, y + t * s + w * c) for t, w in _LEAF]
        pen.polygon([value * side for point in outline for value in point], fill=(*colour, 255))
        pen.line([x * side, y * side, (x + c) * side, (y + s) * side], fill=(*dark(colour, 0.25), 255), width=2)


def spoil(pixels: NDArray[np.uint8], scene: Scene) -> NDArray[np.uint8]:
    """Apply the effects of a wild scene; other scenes pass unchanged."""
    if not scene.effects:
        return pixels
    size, dice = pixels.shape[0], Dice(scene.style, "weather")
    cover = veil(scene, size)
    if cover is not None:
        pixels = _behind(pixels, cover)
    if "rain" in scene.effects:
        pixels = _rain(pixels, dice)
    if "blur" in scene.effects:
        pixels = np.array(Image.fromarray(pixels).filter(ImageFilter.BoxBlur(dice.between(0.6, 1.6) * size / 256)))
    if "haze" in scene.effects or "dim" in scene.effects:
        contrast = dice.between(0.4, 0.6) + (0.25 if scene.light == "night" else 0.0)
        lift = 96 if "haze" in scene.effects else 0
        curve = np.clip(np.arange(256) * contrast + lift, 0, 255).astype(np.uint8)
        pixels = np.take(curve, pixels)
    if "noise" in scene.effects:
        pixels = _noisy(pixels, dice)
    return pixels


def _behind(pixels: NDArray[np.uint8], cover: NDArray[np.uint8]) -> NDArray[np.uint8]:
    size = pixels.shape[0]
    kept = np.repeat(np.uint16(255) - cover[:, :, 3], 3, axis=1)  # rows of channels: numpy is slow on triples
    kept *= pixels.reshape(size, -1)
    kept //= np.uint16(255)
    kept += cover[:, :, :3].reshape(size, -1)
    return kept.astype(np.uint8).reshape(pixels.shape)


def _noisy(pixels: NDArray[np.uint8], dice: Dice) -> NDArray[np.uint8]:
    """A sensor's noise: a window of one large sheet of it, at some strength."""
    size, strength = pixels.shape[0], dice.integer(10, 26)
    sheet = _noise_sheet(max(512, size + 256))
    y, x = dice.integer(0, 255), dice.integer(0, 255)
    noise = (sheet[y : y + size, x : x + size] * np.int16(strength)) >> np.int16(6)
    noise += pixels
    return np.clip(noise, 0, 255, out=noise).astype(np.uint8)


@lru_cache(maxsize=2)
def _noise_sheet(side: int) -> NDArray[np.int16]:
    """Noise of deviation 64, (side, side, 3)."""
    return (Dice("noise", side).noise(side, side, 3) * 64).astype(np.int16)


def _rain(pixels: NDArray[np.uint8], dice: Dice) -> NDArray[np.uint8]:
    image = Image.fromarray(pixels)
    pen, size = ImageDraw.Draw(image, "RGBA"), pixels.shape[0]
    for _ in range(110):
        x, y, length = dice.between(0, 1.1) * size, dice.between(-0.1, 1) * size, dice.between(0.03, 0.07) * size
        pen.line((x, y, x - length * 0.25, y + length), fill=(226, 234, 244, 130), width=max(size // 256, 1))
    return np.array(image)
