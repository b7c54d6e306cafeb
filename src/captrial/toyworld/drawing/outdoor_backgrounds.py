"""Backgrounds outdoors: sky and hills, roads, water, snow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from captrial.toyworld.drawing.canvas import BackgroundCanvas, Stop, finish
from captrial.toyworld.drawing.colours import CREAM, GLASS, RGB, dark, jitter, light, mix
from captrial.toyworld.drawing.indoor_backgrounds import kitchen, living_room
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.layout import Scene

SKIES: dict[str, tuple[RGB, RGB]] = {  # zenith and horizon
    "sunny": ((98, 168, 226), (218, 238, 248)),
    "cloudy": ((150, 164, 178), (216, 222, 226)),
    "sunset": ((124, 112, 176), (252, 190, 132)),
    "night": ((34, 44, 92), (96, 108, 158)),
}
GRASS: RGB = (122, 178, 88)
SAND: RGB = (236, 212, 160)
SNOW: RGB = (238, 243, 250)
SEA: RGB = (72, 150, 190)


def backdrop(scene: Scene, size: int) -> NDArray[np.uint8]:
    """The background of a scene, (size, size, 3)."""
    return PAINTERS[scene.place](scene, size, RandomStream(scene.seed, "backdrop"))


def _sky(scene: Scene) -> list[Stop]:
    zenith, low = SKIES[scene.light]
    return [(0.0, zenith), (scene.horizon, low)]


def _heavens(canvas: BackgroundCanvas, scene: Scene, rng: RandomStream) -> None:
    """Sun or moon, stars and clouds."""
    h, (zenith, low) = scene.horizon, SKIES[scene.light]
    x = rng.uniform(0.1, 0.9)
    if scene.light == "sunny" and rng.chance(0.6):
        y = rng.uniform(0.08, 0.16)
        for radius, share in ((0.13, 0.15), (0.1, 0.3), (0.075, 0.55)):
            canvas.oval(x, y, radius, radius, mix(mix(zenith, low, y / h), (255, 246, 196), share))
        canvas.oval(x, y, 0.055, 0.055, (255, 240, 170))
    elif scene.light == "sunset":
        y = h - rng.uniform(0.03, 0.1)
        for radius, share in ((0.2, 0.2), (0.15, 0.4), (0.105, 0.65)):
            canvas.oval(x, y, radius, radius, mix(low, (255, 216, 130), share))
        canvas.oval(x, y, 0.075, 0.075, (255, 232, 150))
    elif scene.light == "night":
        for _ in range(26):
            r = rng.uniform(0.0018, 0.004)
            canvas.oval(rng.uniform(0, 1), rng.uniform(0, h * 0.85), r, r, (250, 248, 230))
        canvas.oval(x, 0.12, 0.055, 0.055, (250, 246, 220))
        canvas.oval(x + 0.022, 0.11, 0.045, 0.045, mix(zenith, low, 0.2))
    count = {"sunny": rng.integer(1, 3), "cloudy": rng.integer(4, 6), "sunset": 2, "night": 1}[scene.light]
    for _ in range(count):
        _cloud(canvas, rng, mix(zenith, low, 0.4), scene.light, h)
    canvas.clear_below(h)


def _cloud(canvas: BackgroundCanvas, rng: RandomStream, sky: RGB, lighting: str, horizon: float) -> None:
    white = {"sunny": (255, 255, 255), "cloudy": (232, 235, 238), "sunset": (255, 206, 178), "night": (86, 96, 140)}[
        lighting
    ]
    x, y, w = rng.uniform(0.0, 1.0), rng.uniform(0.05, horizon * 0.62), rng.uniform(0.07, 0.14)
    puffs = [
        (x + (i - 1.5) * w * 0.62, y + rng.triangular(0.008), w * (0.34 if i in (0, 3) else 0.5)) for i in range(4)
    ]
    for tone, drop in ((mix(white, sky, 0.45), 0.012), (white, 0.0)):
        for px, py, r in puffs:
            canvas.oval(px, py + drop, r * 1.15, r * 0.78, tone)
        canvas.rect(x - w * 0.9, y + drop, x + w * 0.9, y + drop + w * 0.36, tone)
        for end in (-0.9, 0.9):
            canvas.oval(x + end * w, y + drop + w * 0.18, w * 0.18, w * 0.18, tone)


def _far_hills(canvas: BackgroundCanvas, scene: Scene, rng: RandomStream, colour: RGB) -> None:
    h, low = scene.horizon, SKIES[scene.light][1]
    canvas.ridge(h - 0.07, 0.05, mix(colour, low, 0.68), rng, 1.2, h + 0.02)
    canvas.ridge(h - 0.025, 0.03, mix(colour, low, 0.42), rng, 1.8, h + 0.02)


def _tufts(canvas: BackgroundCanvas, rng: RandomStream, horizon: float, colour: RGB, count: int = 46) -> None:
    for _ in range(count):
        depth = rng.uniform(0.08, 1.0) ** 0.8
        x, y, s = rng.uniform(0, 1), horizon + depth * (1 - horizon), 0.006 + 0.012 * depth
        tone = dark(colour, 0.13) if rng.chance(0.6) else light(colour, 0.2)
        blades = [(x - 0.6 * s, y - s), (x, y), (x + 0.1 * s, y - 1.2 * s), (x, y), (x + 0.7 * s, y - s)]
        canvas.line(blades, 0.0022, tone)


def _park(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    h, grass = scene.horizon, jitter(GRASS, rng, 14)
    canvas = BackgroundCanvas(size, [*_sky(scene), (h + 0.01, light(grass, 0.3)), (1.0, dark(grass, 0.12))])
    _heavens(canvas, scene, rng)
    _far_hills(canvas, scene, rng, (96, 150, 106))
    for _ in range(9):  # a hedge of bushes along the horizon
        r = rng.uniform(0.025, 0.05)
        canvas.oval(rng.uniform(0, 1), h, r * 1.5, r, mix(dark(grass, 0.3), SKIES[scene.light][1], 0.2))
    canvas.ridge(h + 0.012, 0.008, light(grass, 0.22), rng, 1.5, h + 0.08)
    if rng.chance(0.6):  # a path that comes towards us
        x, bend = rng.uniform(0.25, 0.75), rng.triangular(0.25)
        path = (226, 206, 168)
        left = [(x - 0.01, h + 0.015), (x + bend * 0.4 - 0.04, h + 0.16), (x + bend - 0.17, 1.0)]
        right = [(x + 0.01, h + 0.015), (x + bend * 0.4 + 0.04, h + 0.16), (x + bend + 0.17, 1.0)]
        canvas.poly([*left, *reversed(right)], path)
    _tufts(canvas, rng, h, grass)
    return finish(canvas, "grass", 5.0, h, rng)


def _street(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    h, road = scene.horizon, jitter((112, 114, 122), rng, 8)
    canvas = BackgroundCanvas(size, [*_sky(scene), (h, light(road, 0.2)), (1.0, dark(road, 0.1))])
    _heavens(canvas, scene, rng)
    _skyline(canvas, scene, rng)
    kerb = h + 0.115
    canvas.rect(0, h + 0.045, 1, kerb, (196, 190, 180))
    for slab in range(9):
        slope = (slab / 8 - 0.5) * 0.06
        canvas.line([(slab / 8, h + 0.045), (slab / 8 + slope, kerb)], 0.002, (172, 166, 158))
    canvas.rect(0, kerb, 1, kerb + 0.016, (156, 152, 148))
    middle = h + 0.3
    for step in range(6):
        x = step * 0.22 - rng.uniform(0.0, 0.05)
        canvas.poly(
            [(x, middle), (x + 0.11, middle), (x + 0.105, middle + 0.018), (x - 0.012, middle + 0.018)], (240, 236, 220)
        )
    return finish(canvas, "sand", 4.0, kerb + 0.02, rng)


def _skyline(canvas: BackgroundCanvas, scene: Scene, rng: RandomStream) -> None:
    """Two rows of town blocks, the far ones paler."""
    base, low = scene.horizon + 0.05, SKIES[scene.light][1]
    lit = scene.light in {"night", "sunset"}
    for row, haze in ((0, 0.6), (1, 0.28)):
        x = -0.05
        while x < 1.0:
            w, tall = rng.uniform(0.1, 0.19), rng.uniform(0.16, 0.34) - row * 0.07
            wall = mix(
                rng.choice([(190, 150, 128), (150, 158, 170), (206, 186, 150), (140, 128, 140), (176, 120, 104)]),
                low,
                haze,
            )
            canvas.rect(x, base - tall, x + w, base, wall)
            canvas.rect(x, base - tall - 0.008, x + w, base - tall, dark(wall, 0.2))
            pane = mix((255, 226, 140) if lit else GLASS, wall, haze * 0.5)
            if row:
                for wy in np.arange(base - tall + 0.025, base - 0.06, 0.048):
                    for wx in np.arange(x + 0.016, x + w - 0.02, 0.034):
                        canvas.rect(wx, wy, wx + 0.018, wy + 0.028, pane if rng.chance(0.8) else dark(wall, 0.3))
            x += w + rng.uniform(-0.01, 0.02)


def _water(canvas: BackgroundCanvas, top: float, bottom: float, colour: RGB, rng: RandomStream) -> None:
    canvas.rect(0, top, 1, bottom, colour)
    for step in range(26):
        depth = (step / 26) ** 1.5
        y = top + depth * (bottom - top)
        x, w = rng.uniform(-0.1, 1), rng.uniform(0.03, 0.09) * (0.5 + depth)
        canvas.line([(x, y), (x + w, y)], 0.003 + 0.003 * depth, light(colour, 0.35 if step % 2 else 0.16))


def _beach(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    h, sand = scene.horizon, jitter(SAND, rng, 8)
    canvas = BackgroundCanvas(size, [*_sky(scene), (h + 0.2, light(sand, 0.25)), (1.0, dark(sand, 0.06))])
    _heavens(canvas, scene, rng)
    sea = mix(jitter(SEA, rng, 12), SKIES[scene.light][0], 0.25)
    if rng.chance(0.4):
        x = rng.uniform(0.0, 1.0)
        canvas.oval(x, h, 0.22, 0.04, mix((96, 140, 130), SKIES[scene.light][1], 0.5))
    _water(canvas, h, h + 0.22, sea, rng)
    canvas.ridge(h + 0.205, 0.008, mix(sea, CREAM, 0.55), rng, 2.0)
    canvas.ridge(h + 0.215, 0.008, CREAM, rng, 2.2)
    canvas.ridge(h + 0.232, 0.008, dark(sand, 0.14), rng, 2.1)
    canvas.ridge(h + 0.262, 0.008, sand, rng, 1.8)
    for _ in range(14):
        x, y = rng.uniform(0, 1), rng.uniform(h + 0.32, 1.0)
        canvas.oval(x, y, 0.006 * (y + 0.3), 0.0035 * (y + 0.3), rng.choice([dark(sand, 0.2), light(sand, 0.5)]))
    return finish(canvas, "sand", 5.0, h + 0.28, rng)


def _lake(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    h, grass = scene.horizon, jitter(GRASS, rng, 14)
    low = SKIES[scene.light][1]
    canvas = BackgroundCanvas(size, [*_sky(scene), (h + 0.3, light(grass, 0.15)), (1.0, dark(grass, 0.14))])
    _heavens(canvas, scene, rng)
    for base, tall, share in ((0.1, 0.09, 0.62), (0.05, 0.06, 0.45)):
        canvas.ridge(h - base, tall, mix((92, 112, 132), low, share), rng, 2.2)
    canvas.ridge(h - 0.01, 0.014, mix((76, 122, 84), low, 0.25), rng, 2.6)
    lake = mix(jitter((84, 146, 176), rng, 12), SKIES[scene.light][0], 0.3)
    _water(canvas, h, h + 0.34, lake, rng)
    canvas.ridge(h + 0.292, 0.012, dark(lake, 0.15), rng, 1.3)
    canvas.ridge(h + 0.3, 0.012, dark(grass, 0.28), rng, 1.3)
    canvas.ridge(h + 0.31, 0.012, light(grass, 0.1), rng, 1.3)
    for _ in range(10):
        x, y = rng.uniform(0, 1), h + 0.31 + rng.triangular(0.01)
        canvas.line([(x, y), (x + rng.triangular(0.01), y - rng.uniform(0.02, 0.045))], 0.004, dark(grass, 0.35))
    _tufts(canvas, rng, h + 0.3, grass, 30)
    return finish(canvas, "grass", 5.0, h + 0.32, rng)


def _field(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    h, grass = scene.horizon, jitter((150, 184, 84), rng, 16)
    canvas = BackgroundCanvas(size, [*_sky(scene), (h, light(grass, 0.3)), (1.0, dark(grass, 0.1))])
    _heavens(canvas, scene, rng)
    _far_hills(canvas, scene, rng, (120, 160, 96))
    wheat = jitter((222, 190, 100), rng, 10)
    canvas.ridge(h + 0.0, 0.012, wheat, rng, 1.2, h + 0.06)
    canvas.ridge(h + 0.035, 0.012, light(grass, 0.16), rng, 1.4, h + 0.12)
    if rng.chance(0.65):
        y = h + 0.07
        for rail in (0.0, 0.028):
            canvas.line([(0, y - rail), (1, y - rail - 0.004)], 0.007, (172, 136, 100))
        for post in range(11):
            x = post / 10 + 0.01
            canvas.rect(x - 0.006, y - 0.046, x + 0.006, y + 0.02, (146, 110, 78))
    _tufts(canvas, rng, h + 0.06, grass, 60)
    return finish(canvas, "grass", 6.0, h + 0.05, rng)


def _snow(scene: Scene, size: int, rng: RandomStream) -> NDArray[np.uint8]:
    h, low = scene.horizon, SKIES[scene.light][1]
    canvas = BackgroundCanvas(size, [*_sky(scene), (h, SNOW), (1.0, dark(SNOW, 0.05))])
    _heavens(canvas, scene, rng)
    for _ in range(3):
        x, tall, w = rng.uniform(0, 1), rng.uniform(0.12, 0.24), rng.uniform(0.2, 0.34)
        rock = mix((112, 124, 148), low, 0.5)
        canvas.poly([(x - w, h + 0.02), (x, h - tall), (x + w, h + 0.02)], rock)
        canvas.poly([(x, h - tall), (x + w, h + 0.02), (x + w * 0.2, h + 0.02)], dark(rock, 0.12))
        cap = [
            (x, h - tall),
            (x + w * 0.3, h - tall * 0.68),
            (x + w * 0.12, h - tall * 0.72),
            (x, h - tall * 0.6),
            (x - w * 0.12, h - tall * 0.74),
            (x - w * 0.3, h - tall * 0.68),
        ]
        canvas.poly(cap, mix(SNOW, low, 0.1))
    canvas.ridge(h + 0.01, 0.04, mix(SNOW, (176, 198, 226), 0.55), rng, 1.1)
    canvas.ridge(h + 0.05, 0.03, mix(SNOW, (190, 208, 232), 0.3), rng, 1.5)
    canvas.ridge(h + 0.11, 0.025, SNOW, rng, 1.2)
    for _ in range(12):
        x, y, w = rng.uniform(0, 1), rng.uniform(h + 0.2, 1), rng.uniform(0.04, 0.12)
        canvas.oval(x, y, w, w * 0.09, mix(SNOW, (196, 212, 234), 0.5))
    if scene.light == "cloudy":
        for _ in range(70):
            r = rng.uniform(0.002, 0.0055)
            canvas.oval(rng.uniform(0, 1), rng.uniform(0, 1), r, r, (255, 255, 255))
    return finish(canvas, "soft", 2.5, h + 0.1, rng)


PAINTERS: dict[str, Callable[[Scene, int, RandomStream], NDArray[np.uint8]]] = {
    "park": _park,
    "street": _street,
    "beach": _beach,
    "lake": _lake,
    "field": _field,
    "snow": _snow,
    "kitchen": kitchen,
    "living room": living_room,
}
