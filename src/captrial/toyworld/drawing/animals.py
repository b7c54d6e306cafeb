"""Drawing animals from the side: dogs, cats, horses, sheep, cows and birds, each in several poses."""

from __future__ import annotations

from captrial.toyworld.drawing.canvas import ObjectCanvas, Point, Style
from captrial.toyworld.drawing.colours import CREAM, INK, RGB, dark, light, mix

PINK: RGB = (232, 150, 150)


def _legs(
    canvas: ObjectCanvas, feet: list[tuple[Point, Point]], width: float, colour: RGB, shoe: RGB | None = None
) -> None:
    """Straight legs from hip to foot, the first half of them in the shadow of the far side."""
    for index, (hip, foot) in enumerate(feet):
        tone = dark(colour, 0.3) if index < len(feet) // 2 else dark(colour, 0.06)
        canvas.limb([hip, foot], [width * 1.3, width], tone)
        canvas.oval(foot[0] + width * 0.25, foot[1] - width * 0.12, width * 0.75, width * 0.42, shoe or tone)


def _eye(canvas: ObjectCanvas, x: float, y: float, size: float) -> None:
    canvas.disc(x, y, size, INK)
    canvas.disc(x + size * 0.3, y + size * 0.35, size * 0.35, CREAM)


_DOG_FEET: dict[str, list[tuple[Point, Point]]] = {  # (hip, foot) of each leg
    "running": [
        ((0.22, 0.34), (0.42, 0.12)),
        ((-0.26, 0.34), (-0.5, 0.1)),
        ((0.26, 0.34), (0.52, 0.18)),
        ((-0.3, 0.34), (-0.4, 0.06)),
    ],
    "walking": [
        ((0.18, 0.3), (0.28, 0.06)),
        ((-0.22, 0.3), (-0.32, 0.06)),
        ((0.26, 0.3), (0.18, 0.035)),
        ((-0.3, 0.3), (-0.2, 0.035)),
    ],
    "standing": [
        ((0.18, 0.3), (0.15, 0.04)),
        ((-0.22, 0.3), (-0.2, 0.04)),
        ((0.26, 0.3), (0.28, 0.035)),
        ((-0.3, 0.3), (-0.33, 0.035)),
    ],
}


def dog(canvas: ObjectCanvas, style: Style) -> None:
    """A dog; most have a lighter chest and a collar, some a patch on the back."""
    collar = style.rng.choice([(200, 60, 60), (60, 110, 190), (60, 140, 90)])
    if style.pose == "sitting":
        _sitting_dog(canvas, style.rgb)
        _dog_head(canvas, style, 0.12, 0.6, collar)
    elif style.pose == "lying":
        _lying_dog(canvas, style.rgb)
        _dog_head(canvas, style, 0.3, 0.3, collar)
    else:
        _standing_dog(canvas, style)
        _dog_head(canvas, style, 0.38, 0.62, collar)


def _sitting_dog(canvas: ObjectCanvas, c: RGB) -> None:
    canvas.limb([(-0.2, 0.08), (-0.36, 0.1), (-0.42, 0.24)], [0.08, 0.07, 0.05], dark(c, 0.1))
    canvas.oval(-0.12, 0.15, 0.19, 0.16, dark(c, 0.12))
    canvas.blob([(-0.2, 0.1), (-0.16, 0.34), (0.02, 0.52), (0.15, 0.48), (0.17, 0.26), (0.12, 0.05), (-0.1, 0.02)], c)
    canvas.blob([(0.05, 0.46), (0.16, 0.42), (0.17, 0.24), (0.1, 0.12)], light(c, 0.45))
    canvas.limb([(0.1, 0.3), (0.13, 0.05)], [0.1, 0.075], light(c, 0.08))
    canvas.oval(0.16, 0.035, 0.075, 0.035, light(c, 0.14))
    canvas.oval(-0.04, 0.04, 0.12, 0.04, light(c, 0.08))


def _lying_dog(canvas: ObjectCanvas, c: RGB) -> None:
    canvas.limb([(-0.36, 0.1), (-0.5, 0.06), (-0.6, 0.1)], [0.08, 0.07, 0.05], dark(c, 0.1))
    canvas.blob([(-0.4, 0.04), (-0.38, 0.2), (-0.1, 0.27), (0.2, 0.26), (0.3, 0.12), (0.24, 0.02), (-0.2, 0.0)], c)
    canvas.oval(-0.26, 0.12, 0.16, 0.12, dark(c, 0.12))
    canvas.limb([(0.18, 0.08), (0.46, 0.045)], [0.11, 0.075], light(c, 0.1))


def _standing_dog(canvas: ObjectCanvas, style: Style) -> None:
    c, rng = style.rgb, style.rng
    wag = rng.uniform(0.1, 0.24)
    canvas.limb([(-0.34, 0.44), (-0.48, 0.5 + wag * 0.6), (-0.54, 0.6 + wag)], [0.085, 0.07, 0.045], c)
    _legs(canvas, _DOG_FEET.get(style.pose, _DOG_FEET["standing"]), 0.075, c)
    canvas.blob(
        [
            (-0.38, 0.44),
            (-0.3, 0.52),
            (0.0, 0.5),
            (0.26, 0.56),
            (0.36, 0.5),
            (0.32, 0.34),
            (0.16, 0.28),
            (-0.14, 0.32),
            (-0.34, 0.32),
        ],
        c,
    )
    canvas.blob([(0.3, 0.46), (0.34, 0.38), (0.22, 0.29), (0.0, 0.29), (0.16, 0.35)], light(c, 0.45))
    if rng.chance(0.4):
        canvas.oval(-0.16, 0.46, 0.13, 0.055, dark(c, 0.3))


def _dog_head(canvas: ObjectCanvas, style: Style, x: float, y: float, collar: RGB) -> None:
    c = style.rgb
    canvas.limb([(x - 0.08, y - 0.16), (x - 0.01, y - 0.02)], [0.2, 0.17], c)
    canvas.line([(x - 0.15, y - 0.1), (x + 0.05, y - 0.15)], 0.042, collar)
    canvas.disc(x, y, 0.135, c)
    canvas.limb([(x + 0.06, y - 0.035), (x + 0.19, y - 0.05)], [0.15, 0.105], light(c, 0.22))
    canvas.oval(x + 0.235, y - 0.015, 0.036, 0.03, INK)
    canvas.line([(x + 0.1, y - 0.09), (x + 0.2, y - 0.085)], 0.016, dark(c, 0.55))
    if style.variant == "pointed":
        canvas.poly([(x - 0.11, y + 0.05), (x - 0.08, y + 0.25), (x + 0.03, y + 0.11)], dark(c, 0.3))
    else:
        canvas.oval(x - 0.085, y - 0.0, 0.06, 0.125, dark(c, 0.35), tilt=-0.25)
    _eye(canvas, x + 0.055, y + 0.04, 0.024)


def cat(canvas: ObjectCanvas, style: Style) -> None:
    """A cat with pointed ears and a long tail; the striped ones are tabbies."""
    c, pose = style.rgb, style.pose
    if pose == "sleeping":
        canvas.blob([(-0.34, 0.04), (-0.3, 0.2), (-0.06, 0.28), (0.2, 0.24), (0.32, 0.1), (0.22, 0.01), (-0.2, 0.0)], c)
        _stripes(canvas, style, [(-0.2, 0.24), (-0.08, 0.27), (0.04, 0.27)], 0.12)
        canvas.limb([(-0.3, 0.06), (-0.1, 0.035), (0.12, 0.04)], [0.09, 0.08, 0.06], dark(c, 0.15))
        _cat_head(canvas, style, 0.2, 0.15, closed=True)
        return
    if pose == "sitting":
        canvas.limb(
            [(-0.1, 0.06), (-0.28, 0.05), (-0.34, 0.16), (-0.28, 0.28)], [0.08, 0.07, 0.06, 0.05], dark(c, 0.12)
        )
        canvas.blob(
            [(-0.17, 0.04), (-0.16, 0.24), (-0.04, 0.44), (0.08, 0.44), (0.13, 0.24), (0.14, 0.03), (0.0, 0.0)], c
        )
        canvas.blob([(-0.01, 0.4), (0.08, 0.4), (0.1, 0.22), (0.05, 0.12), (-0.01, 0.22)], light(c, 0.4))
        _stripes(canvas, style, [(-0.13, 0.3), (-0.155, 0.2)], 0.09, level=True)
        canvas.limb([(0.01, 0.22), (0.01, 0.045)], [0.08, 0.06], light(c, 0.08))
        canvas.limb([(0.09, 0.22), (0.1, 0.045)], [0.08, 0.06], light(c, 0.12))
        canvas.oval(-0.09, 0.035, 0.1, 0.035, dark(c, 0.1))
        _cat_head(canvas, style, 0.03, 0.54)
        return
    canvas.limb([(-0.3, 0.32), (-0.44, 0.4), (-0.46, 0.56), (-0.4, 0.66)], [0.075, 0.06, 0.055, 0.045], dark(c, 0.1))
    _legs(
        canvas,
        [
            ((0.16, 0.22), (0.2, 0.035)),
            ((-0.2, 0.22), (-0.16, 0.035)),
            ((0.22, 0.22), (0.14, 0.03)),
            ((-0.26, 0.22), (-0.3, 0.03)),
        ],
        0.06,
        c,
    )
    canvas.blob(
        [(-0.33, 0.32), (-0.24, 0.4), (0.0, 0.38), (0.22, 0.4), (0.29, 0.3), (0.2, 0.2), (-0.1, 0.2), (-0.28, 0.2)], c
    )
    canvas.blob([(-0.12, 0.24), (0.1, 0.23), (0.2, 0.2), (-0.1, 0.19)], light(c, 0.35))
    _stripes(canvas, style, [(-0.18, 0.4), (-0.06, 0.39), (0.06, 0.39)], 0.11)
    _cat_head(canvas, style, 0.3, 0.45)


def _stripes(canvas: ObjectCanvas, style: Style, tops: list[Point], length: float, level: bool = False) -> None:
    if style.variant == "tabby":
        for x, y in tops:
            end = (x + length, y - 0.01) if level else (x + 0.025, y - length)
            canvas.line([(x, y), end], 0.034, dark(style.rgb, 0.4))


def _cat_head(canvas: ObjectCanvas, style: Style, x: float, y: float, closed: bool = False) -> None:
    c = style.rgb
    for side in (-1, 1):
        canvas.poly(
            [(x + side * 0.145, y + 0.03), (x + side * 0.125, y + 0.22), (x + side * 0.02, y + 0.11)], dark(c, 0.1)
        )
        canvas.poly([(x + side * 0.12, y + 0.07), (x + side * 0.112, y + 0.17), (x + side * 0.05, y + 0.11)], PINK)
    canvas.oval(x, y, 0.158, 0.132, c)
    canvas.oval(x, y - 0.055, 0.085, 0.062, light(c, 0.5))
    canvas.poly([(x - 0.022, y - 0.02), (x + 0.022, y - 0.02), (x, y - 0.045)], (214, 110, 110))
    if style.variant == "tabby":
        for shift in (-0.035, 0.0, 0.035):
            canvas.line([(x + shift, y + 0.125), (x + shift * 0.7, y + 0.07)], 0.018, dark(c, 0.4))
    for side in (-1, 1):
        if closed:
            canvas.line(
                [(x + side * 0.09, y + 0.02), (x + side * 0.06, y + 0.005), (x + side * 0.03, y + 0.02)], 0.018, INK
            )
        else:
            canvas.oval(x + side * 0.062, y + 0.022, 0.027, 0.033, (150, 190, 90))
            canvas.oval(x + side * 0.062, y + 0.022, 0.013, 0.03, INK)
        for rise in (-0.02, 0.015):
            canvas.line([(x + side * 0.08, y - 0.05), (x + side * 0.21, y - 0.05 + rise * 2)], 0.008, light(c, 0.7))


def horse(canvas: ObjectCanvas, style: Style) -> None:
    """A horse with mane and tail, standing, galloping or grazing."""
    c, pose = style.rgb, style.pose
    mane = dark(c, 0.5) if sum(c) > 240 else light(c, 0.25)
    hoof = dark(INK, 0.1)
    if pose == "running":
        feet = [
            ((0.42, 0.78), (0.82, 0.42)),
            ((-0.46, 0.78), (-0.86, 0.26)),
            ((0.48, 0.78), (0.7, 0.2)),
            ((-0.5, 0.78), (-0.62, 0.08)),
        ]
    else:
        feet = [
            ((0.38, 0.75), (0.34, 0.06)),
            ((-0.46, 0.75), (-0.42, 0.06)),
            ((0.5, 0.75), (0.53, 0.05)),
            ((-0.56, 0.75), (-0.58, 0.05)),
        ]
    canvas.limb([(-0.66, 1.06), (-0.84, 0.92), (-0.86, 0.56)], [0.1, 0.15, 0.06], mane)
    _legs(canvas, feet, 0.105, c, hoof)
    canvas.blob(
        [
            (-0.72, 1.0),
            (-0.6, 1.16),
            (-0.2, 1.12),
            (0.2, 1.12),
            (0.52, 1.2),
            (0.64, 1.0),
            (0.52, 0.76),
            (0.1, 0.7),
            (-0.3, 0.72),
            (-0.62, 0.74),
        ],
        c,
    )
    canvas.blob([(-0.4, 0.78), (0.1, 0.76), (0.5, 0.82), (0.3, 0.7), (-0.2, 0.7)], dark(c, 0.14))
    _horse_head(canvas, style, mane, grazing=pose == "grazing")


def _horse_head(canvas: ObjectCanvas, style: Style, mane: RGB, grazing: bool) -> None:
    c = style.rgb
    poll, nose = ((0.86, 0.46), (1.02, 0.12)) if grazing else ((0.8, 1.62), (1.1, 1.4))
    crest = [(0.32, 1.16), (0.56, 1.2), (poll[0] - 0.02, poll[1] + 0.02)]
    canvas.limb([(x - 0.05, y + 0.05) for x, y in crest], [0.2, 0.2, 0.16], mane)
    canvas.limb([(0.46, 1.02), poll], [0.42, 0.22], c)
    canvas.limb([poll, nose], [0.23, 0.15], c)
    canvas.limb([nose, (nose[0] + 0.03, nose[1] - 0.02)], [0.155, 0.13], light(c, 0.3))
    canvas.disc(nose[0] + 0.055, nose[1] + 0.02, 0.018, INK)
    up = 0.17 if not grazing else 0.12
    canvas.poly(
        [(poll[0] - 0.09, poll[1] + 0.06), (poll[0] - 0.05, poll[1] + up + 0.07), (poll[0] + 0.03, poll[1] + 0.08)],
        dark(c, 0.15),
    )
    canvas.limb(
        [(poll[0] - 0.02, poll[1] + 0.1), (poll[0] + 0.08, poll[1] + (0.03 if not grazing else -0.04))],
        [0.09, 0.05],
        mane,
    )
    _eye(canvas, poll[0] + 0.07, poll[1] - 0.03, 0.03)
    if style.variant == "blaze":
        canvas.limb([(poll[0] + 0.14, poll[1] - 0.02), (nose[0] + 0.02, nose[1] + 0.07)], [0.05, 0.035], CREAM)


def sheep(canvas: ObjectCanvas, style: Style) -> None:
    """A sheep: a cloud of wool on thin legs."""
    c, rng = style.rgb, style.rng
    face = rng.choice([(66, 58, 58), (224, 206, 186), (96, 80, 70)])
    _legs(
        canvas,
        [
            ((0.2, 0.3), (0.18, 0.04)),
            ((-0.22, 0.3), (-0.2, 0.04)),
            ((0.28, 0.3), (0.29, 0.035)),
            ((-0.3, 0.3), (-0.31, 0.035)),
        ],
        0.07,
        face,
        dark(face, 0.4),
    )
    shade = dark(c, 0.16)
    lumps = [
        (-0.34, 0.5),
        (-0.26, 0.64),
        (-0.1, 0.7),
        (0.08, 0.7),
        (0.24, 0.66),
        (0.34, 0.54),
        (0.28, 0.38),
        (0.1, 0.34),
        (-0.1, 0.33),
        (-0.28, 0.37),
    ]
    canvas.blob(lumps, c)
    for index, (x, y) in enumerate(lumps):
        canvas.disc(x, y, 0.115, shade if index > 5 else c)
    canvas.oval(-0.02, 0.54, 0.3, 0.17, c)
    for x, y in [(-0.2, 0.52), (-0.02, 0.58), (0.14, 0.5), (-0.06, 0.44)]:
        canvas.ring(x, y, 0.075, 0.016, mix(c, shade, 0.8))
        canvas.disc(x + 0.012, y - 0.02, 0.066, c)
    hx, hy = (0.5, 0.24) if style.pose == "grazing" else (0.47, 0.66)
    canvas.oval(hx - 0.09, hy + 0.03, 0.09, 0.035, dark(face, 0.15), tilt=0.3)
    canvas.oval(hx, hy, 0.09, 0.14, face, tilt=0.45)
    canvas.disc(hx - 0.06, hy + 0.12, 0.085, c)
    _eye(canvas, hx + 0.03, hy + 0.03, 0.022)
    canvas.line([(hx + 0.03, hy - 0.09), (hx + 0.075, hy - 0.075)], 0.014, dark(face, 0.5))


def cow(canvas: ObjectCanvas, style: Style) -> None:
    """A cow, patched with another colour, with horns and an udder."""
    c, rng = style.rgb, style.rng
    patch = CREAM if sum(c) < 500 else rng.choice([(60, 54, 58), (130, 84, 54)])
    hoof = dark(INK, 0.1)
    canvas.limb([(-0.72, 1.0), (-0.82, 0.8), (-0.82, 0.46)], [0.07, 0.05, 0.04], c)
    canvas.disc(-0.82, 0.43, 0.06, dark(c, 0.5))
    _legs(
        canvas,
        [
            ((0.42, 0.6), (0.4, 0.06)),
            ((-0.48, 0.6), (-0.45, 0.06)),
            ((0.54, 0.6), (0.56, 0.05)),
            ((-0.6, 0.6), (-0.62, 0.05)),
        ],
        0.115,
        c,
        hoof,
    )
    canvas.oval(-0.3, 0.5, 0.13, 0.09, PINK)
    canvas.blob(
        [
            (-0.76, 0.98),
            (-0.64, 1.1),
            (0.0, 1.08),
            (0.56, 1.12),
            (0.68, 0.94),
            (0.6, 0.62),
            (0.1, 0.52),
            (-0.4, 0.54),
            (-0.72, 0.62),
        ],
        c,
    )
    shift = rng.triangular(0.1)
    canvas.blob(
        [(-0.5 + shift, 1.07), (-0.2 + shift, 1.06), (-0.1 + shift, 0.86), (-0.3 + shift, 0.76), (-0.5 + shift, 0.84)],
        patch,
    )
    canvas.blob([(0.16, 1.04), (0.4, 1.06), (0.42, 0.86), (0.28, 0.7), (0.12, 0.84)], patch)
    canvas.oval(-0.62, 0.74, 0.09, 0.12, patch)
    hx, hy = (0.86, 0.36) if style.pose == "grazing" else (0.84, 1.12)
    canvas.limb([(0.54, 0.96), (hx - 0.06, hy)], [0.4, 0.24], c)
    for side in (-1, 1):
        canvas.limb(
            [(hx - 0.02 + side * 0.06, hy + 0.14), (hx + side * 0.14, hy + 0.28)], [0.05, 0.025], (226, 214, 186)
        )
    canvas.oval(hx - 0.16, hy + 0.1, 0.1, 0.045, dark(c, 0.2), tilt=-0.3)
    canvas.oval(hx, hy, 0.135, 0.19, c, tilt=0.4)
    canvas.oval(hx + 0.07, hy - 0.13, 0.105, 0.085, PINK)
    for shift in (0.04, 0.11):
        canvas.disc(hx + shift, hy - 0.12, 0.017, dark(PINK, 0.5))
    _eye(canvas, hx + 0.03, hy + 0.06, 0.03)


def bird(canvas: ObjectCanvas, style: Style) -> None:
    """A bird, flying with its wings up or standing."""
    c, beak = style.rgb, (238, 164, 52)
    if style.pose == "flying":
        canvas.blob([(-0.02, 0.3), (-0.2, 0.52), (-0.34, 0.6), (-0.22, 0.4), (-0.16, 0.26)], dark(c, 0.3))
        canvas.poly([(-0.2, 0.24), (-0.42, 0.3), (-0.4, 0.18)], dark(c, 0.15))
        canvas.blob([(-0.26, 0.24), (-0.04, 0.32), (0.16, 0.31), (0.24, 0.24), (0.1, 0.15), (-0.1, 0.15)], c)
        canvas.blob([(-0.08, 0.18), (0.1, 0.19), (0.2, 0.22), (0.1, 0.15)], light(c, 0.5))
        canvas.blob([(0.08, 0.26), (0.02, 0.46), (-0.1, 0.66), (-0.12, 0.5), (-0.12, 0.24)], light(c, 0.12))
        canvas.line([(0.02, 0.34), (-0.06, 0.54)], 0.016, dark(c, 0.25))
        canvas.disc(0.24, 0.29, 0.08, c)
        canvas.poly([(0.3, 0.32), (0.41, 0.28), (0.3, 0.25)], beak)
        _eye(canvas, 0.26, 0.31, 0.02)
        return
    for x in (-0.02, 0.06):
        canvas.line([(x, 0.14), (x, 0.015), (x + 0.06, 0.01)], 0.022, beak)
    canvas.poly([(-0.16, 0.24), (-0.36, 0.14), (-0.32, 0.25)], dark(c, 0.3))
    canvas.blob([(-0.24, 0.2), (-0.1, 0.34), (0.08, 0.4), (0.19, 0.32), (0.16, 0.16), (0.02, 0.09), (-0.12, 0.11)], c)
    canvas.blob([(0.16, 0.3), (0.15, 0.17), (0.02, 0.1), (0.04, 0.2)], light(c, 0.5))
    canvas.blob([(0.06, 0.3), (-0.1, 0.29), (-0.27, 0.16), (-0.08, 0.16)], dark(c, 0.22))
    canvas.disc(0.13, 0.42, 0.095, c)
    canvas.poly([(0.2, 0.45), (0.32, 0.4), (0.2, 0.37)], beak)
    _eye(canvas, 0.155, 0.44, 0.024)
