"""Drawing people: men, women, boys and girls, standing, walking, running, jumping, sitting, riding or holding."""

from __future__ import annotations

from dataclasses import dataclass

from captrial.toyworld.drawing.canvas import Extent, ObjectCanvas, Point, Style
from captrial.toyworld.drawing.colours import CREAM, HAIR, INK, RGB, SKIN, TROUSERS, dark, light, mix

SIDE_POSES = frozenset({"walking", "running", "riding"})


@dataclass(frozen=True, slots=True)
class Build:
    """Where the joints of a standing body are, in metres."""

    hip: float
    shoulder: float
    head: float
    radius: float
    width: float  # half the shoulders


GROWN = Build(hip=0.80, shoulder=1.32, head=1.56, radius=0.165, width=0.20)
YOUNG = Build(hip=0.50, shoulder=0.86, head=1.08, radius=0.165, width=0.155)


def build(variant: str) -> Build:
    """The body of a man, woman, boy or girl."""
    return GROWN if variant in {"man", "woman"} else YOUNG


def hips(variant: str, pose: str) -> float:
    """How high the hips are over the foot line in this pose."""
    standing = build(variant).hip
    return standing * 0.57 if pose in {"sitting", "riding"} else standing


def extent(variant: str, pose: str) -> Extent:
    """The extent of a person."""
    body = build(variant)
    drop = body.hip - hips(variant, pose)
    wide = {"walking": 0.46, "running": 0.62, "jumping": 0.55, "riding": 0.5}.get(pose, 0.44)
    top = body.head + body.radius * 1.35 - drop + (0.22 if pose == "jumping" else 0.0)
    return Extent(wide * (0.8 if body is YOUNG else 1.0), top)


def hand(variant: str) -> Point:
    """Where the hand is that holds something: the grip of an umbrella, the string of a kite."""
    body = build(variant)
    return body.width + 0.12, body.shoulder - 0.02


def garment(variant: str, seed: int) -> str:
    """What the person wears in the main colour: a "dress" or a "shirt"."""
    return "dress" if variant in {"woman", "girl"} and seed % 20 < 11 else "shirt"


def person(canvas: ObjectCanvas, style: Style) -> None:
    """Draw one person; the main colour is that of the clothes."""
    rng = style.rng
    skin, hair = rng.choice(SKIN), rng.choice(HAIR if build(style.variant) is GROWN else HAIR[:-1])
    trousers = rng.choice([c for c in TROUSERS if sum(abs(p - q) for p, q in zip(c, style.rgb, strict=True)) > 90])
    dressed = garment(style.variant, style.seed) == "dress"
    figure = _Figure(canvas, style, build(style.variant), skin, hair, trousers, dressed)
    if style.pose in SIDE_POSES:
        figure.from_the_side()
    else:
        figure.from_the_front()


@dataclass(frozen=True, slots=True)
class _Figure:
    canvas: ObjectCanvas
    style: Style
    body: Build
    skin: RGB
    hair: RGB
    trousers: RGB
    dressed: bool

    @property
    def hip(self) -> float:
        return hips(self.style.variant, self.style.pose)

    @property
    def shoulder(self) -> float:
        return self.hip + self.body.shoulder - self.body.hip

    def from_the_front(self) -> None:
        pose = self.style.pose
        self._long_hair(0.0)
        if pose == "sitting":
            self._torso(0.0)
            self._arms_down(0.92)
            self._seated_legs()
        else:
            self._legs_front(spread=0.2 if pose == "jumping" else 0.02 + self.style.rng.triangular(0.02))
            self._torso(0.0)
            self._arms_front(pose)
        self._head(0.0, front=True)

    def from_the_side(self) -> None:
        h, leg = self.hip, self.hip / 0.8
        lean = {"walking": 0.02, "running": 0.11, "riding": 0.05}[self.style.pose]
        w = 0.15 if self.body is GROWN else 0.125
        far, near, far_arm, near_arm = self._stride(h, leg, lean)
        self._arm(far_arm, dark(self.style.rgb, 0.3))
        self._leg(far, w, dark(self.trousers, 0.28))
        if not self.dressed or self.style.pose == "riding":
            self._leg(near, w, self.trousers)
        else:
            self._leg(near, w * 0.85, self.skin)
        self._long_hair(lean)
        self._torso(lean, side=True)
        self._arm(near_arm, light(self.style.rgb, 0.06))
        self._head(lean * 1.5, front=False)

    def _stride(self, h: float, leg: float, lean: float) -> tuple[list[Point], list[Point], list[Point], list[Point]]:
        """Joints of the far leg, near leg, far arm and near arm."""
        s = self.shoulder - 0.06
        d = self.body.shoulder - self.body.hip  # arm's length follows the trunk
        if self.style.pose == "riding":
            near = [(0.0, h), (0.26 * leg * 1.7, h - 0.05), (0.16 * leg * 1.7, 0.05)]
            reins = [(lean, s), (lean + 0.12, s - 0.5 * d), (lean + 0.36 * d / 0.52, s - 0.42 * d)]
            return near, near, reins, reins
        if self.style.pose == "running":
            near = [(0.0, h), (0.26 * leg, h - 0.26 * leg), (0.2 * leg, 0.16 * leg)]
            far = [(0.0, h), (-0.16 * leg, h - 0.36 * leg), (-0.46 * leg, 0.3 * leg)]
            front = [(lean, s), (lean - 0.2 * d, s - 0.5 * d), (lean + 0.2 * d, s - 0.62 * d)]
            back = [(lean, s), (lean + 0.26 * d, s - 0.45 * d), (lean + 0.55 * d, s - 0.18 * d)]
            return far, near, back, front
        near = [(0.0, h), (0.12 * leg, h * 0.52), (0.2 * leg, 0.05)]
        far = [(0.0, h), (-0.06 * leg, h * 0.52), (-0.24 * leg, 0.07)]
        return far, near, [(lean, s), (lean + 0.3 * d, s - 0.75 * d)], [(lean, s), (lean - 0.3 * d, s - 0.78 * d)]

    def _leg(self, joints: list[Point], width: float, colour: RGB) -> None:
        self.canvas.limb(joints, [width, width * 0.85, width * 0.66][: len(joints)], colour)
        x, y = joints[-1]
        self.canvas.oval(x + 0.05, y - 0.01, 0.095, 0.045, dark(INK, 0.0))

    def _arm(self, joints: list[Point], colour: RGB) -> None:
        w = 0.11 if self.body is GROWN else 0.09
        self.canvas.limb(joints, [w] * (len(joints) - 1) + [w * 0.8], colour)
        self.canvas.disc(*joints[-1], w * 0.46, self.skin)

    def _legs_front(self, spread: float) -> None:
        w = 0.155 if self.body is GROWN else 0.13
        colour = self.skin if self.dressed else self.trousers
        for side in (-1, 1):
            x, foot = side * w * 0.54, side * (w * 0.6 + spread)
            self.canvas.limb([(x, self.hip), (foot, 0.05)], [w, w * 0.66], colour if side < 0 else dark(colour, 0.1))
            self.canvas.oval(foot + side * 0.025, 0.032, 0.078, 0.04, INK)

    def _seated_legs(self) -> None:
        w = 0.155 if self.body is GROWN else 0.13
        colour = self.skin if self.dressed else self.trousers
        for side in (-1, 1):
            x = side * w * 0.66
            self.canvas.limb(
                [(x, self.hip + 0.02), (x * 1.15, self.hip - 0.03)], [w * 1.15, w * 1.15], light(colour, 0.1)
            )
            self.canvas.limb([(x * 1.15, self.hip - 0.05), (x * 1.2, 0.05)], [w, w * 0.66], colour)
            self.canvas.oval(x * 1.25, 0.032, 0.078, 0.042, INK)
        if self.dressed:
            top = self.hip + 0.07
            self.canvas.rect(-w * 1.3, top, w * 1.3, self.hip - 0.12, self.style.rgb, 0.05)

    def _torso(self, lean: float, side: bool = False) -> None:
        canvas, rgb, wide = self.canvas, self.style.rgb, self.body.width * (0.72 if side else 1.0)
        h, s = self.hip, self.shoulder
        canvas.limb([(lean, s), (lean * 1.4, s + 0.1)], [0.1, 0.1], dark(self.skin, 0.15))
        skirt = self.dressed and self.style.pose not in {"sitting", "riding"}
        hem = h * 0.56 if skirt else h - 0.06
        flare = wide * (1.35 if skirt else 0.86)
        waist = (wide * 0.72, h + (s - h) * 0.3)
        right = [(lean + wide * 0.55, s + 0.035), (lean + wide, s - 0.06), (lean * 0.5 + waist[0], waist[1])]
        left = [(lean - wide * 0.55, s + 0.035), (lean - wide, s - 0.06), (lean * 0.5 - waist[0], waist[1])]
        canvas.poly([*right, (flare, hem), (-flare, hem), *reversed(left)], rgb)
        canvas.poly(
            [(lean - wide * 0.55, s + 0.035), left[1], left[2], (-flare, hem), (-flare * 0.55, hem), (-wide * 0.4, s)],
            dark(rgb, 0.14),
        )
        if not side and not self.dressed:
            canvas.poly([(-0.05, s + 0.035), (0.05, s + 0.035), (0.0, s - 0.06)], mix(self.skin, rgb, 0.1))
        if not self.dressed and self.style.pose != "sitting":
            canvas.line([(-flare, hem + 0.02), (flare, hem + 0.02)], 0.035, dark(self.trousers, 0.35))

    def _arms_down(self, reach: float) -> None:
        wide, s = self.body.width, self.shoulder - 0.06
        drop = (self.body.shoulder - self.body.hip) * reach
        for side in (-1, 1):
            colour = dark(self.style.rgb, 0.2 if side < 0 else 0.05)
            self._arm(
                [(side * wide, s), (side * (wide + 0.05), s - drop * 0.5), (side * (wide * 0.75), s - drop)], colour
            )

    def _arms_front(self, pose: str) -> None:
        wide, s = self.body.width, self.shoulder - 0.06
        length = (self.body.shoulder - self.body.hip) * 1.05
        hang = [(-wide, s), (-wide - 0.05, s - length * 0.5), (-wide - 0.06, s - length)]
        held = [(wide, s), (wide + 0.1, s - 0.2), hand(self.style.variant)]
        if pose == "holding":
            self._arm(hang, dark(self.style.rgb, 0.2))
            self._arm(held, dark(self.style.rgb, 0.05))
        elif pose == "jumping":
            for side in (-1, 1):
                self._arm(
                    [(side * wide, s), (side * (wide + 0.13), s + 0.14), (side * (wide + 0.14), s + 0.4)],
                    dark(self.style.rgb, 0.1),
                )
        else:
            swing = self.style.rng.triangular(0.05)
            self._arm(hang, dark(self.style.rgb, 0.2))
            self._arm(
                [(wide, s), (wide + 0.06 + swing, s - length * 0.5), (wide + 0.05 + swing, s - length)],
                dark(self.style.rgb, 0.05),
            )

    def _head_centre(self, lean: float) -> Point:
        return lean, self.hip + self.body.head - self.body.hip

    def _long_hair(self, lean: float) -> None:
        """What hangs behind the head and neck: drawn before the body."""
        if self.style.variant not in {"woman", "girl"}:
            return
        (x, y), r = self._head_centre(lean * 1.5), self.body.radius
        if self.style.variant == "girl":
            for side in (-1, 1) if self.style.pose not in SIDE_POSES else (-1,):
                self.canvas.oval(x + side * r * 1.12, y - r * 0.35, r * 0.36, r * 0.72, self.hair, tilt=side * 0.3)
            return
        back = r * (0.25 if self.style.pose in SIDE_POSES else 0.0)
        self.canvas.blob(
            [
                (x - r * 1.12 - back, y - r * 1.3),
                (x - r * 1.15 - back, y + r * 0.2),
                (x, y + r * 1.2),
                (x + r * 1.15 - back * 3, y + r * 0.2),
                (x + r * 1.12 - back * 3, y - r * 1.3),
                (x, y - r * 1.5),
            ],
            dark(self.hair, 0.12),
        )

    def _head(self, lean: float, front: bool) -> None:
        canvas, r, (x, y) = self.canvas, self.body.radius, self._head_centre(lean)
        canvas.disc(x, y, r, self.skin)
        canvas.wedge(x, y, r * 1.04, 15, 165, self.hair) if front else canvas.wedge(x, y, r * 1.05, 50, 225, self.hair)
        if front:
            canvas.wedge(x, y + r * 0.12, r * 0.86, -12, 42, self.skin)
            canvas.wedge(x, y + r * 0.12, r * 0.86, 138, 192, self.skin)
            canvas.oval(x, y + r * 0.1, r * 0.84, r * 0.5, self.skin)
            canvas.wedge(x, y + r * 0.02, r * 1.06, 35, 145, self.hair)
            canvas.oval(x, y + r * 0.08, r * 0.8, r * 0.34, self.skin)
        else:
            canvas.oval(x + r * 0.98, y - r * 0.08, r * 0.2, r * 0.14, self.skin)
            canvas.disc(x - r * 0.1, y - r * 0.05, r * 0.18, dark(self.skin, 0.12))
        self._face(x, y, r, front)
        self._hat(x, y, r, front)

    def _face(self, x: float, y: float, r: float, front: bool) -> None:
        canvas = self.canvas
        for side in (-1, 1) if front else (0.9,):
            canvas.oval(x + side * r * 0.4 + (0 if front else r * 0.1), y + r * 0.02, r * 0.11, r * 0.15, INK)
        blush = mix(self.skin, (230, 96, 96), 0.35)
        if front:
            for side in (-1, 1):
                canvas.oval(x + side * r * 0.58, y - r * 0.32, r * 0.2, r * 0.13, blush)
            mouth = [
                (x - r * 0.32, y - r * 0.42),
                (x - r * 0.14, y - r * 0.56),
                (x + r * 0.14, y - r * 0.56),
                (x + r * 0.32, y - r * 0.42),
            ]
            canvas.line(mouth, r * 0.12, dark(mix(self.skin, (170, 40, 40), 0.5), 0.1))
        else:
            canvas.oval(x + r * 0.42, y - r * 0.34, r * 0.18, r * 0.12, blush)
            canvas.line([(x + r * 0.5, y - r * 0.56), (x + r * 0.82, y - r * 0.48)], r * 0.12, dark(self.skin, 0.45))

    def _hat(self, x: float, y: float, r: float, front: bool) -> None:
        if self.style.variant not in {"boy", "man"} or not self.style.rng.chance(0.35):
            return
        colour = self.style.rng.choice([(190, 70, 60), (60, 90, 140), (90, 120, 80), (226, 190, 110)])
        self.canvas.wedge(x, y + r * 0.2, r * 1.02, 0, 180, colour)
        brim = r * (0.0 if front else 0.75)
        self.canvas.oval(x + brim, y + r * 0.24, r * (1.05 if front else 0.7), r * 0.14, dark(colour, 0.25))
        self.canvas.disc(x, y + r * 1.18, r * 0.13, CREAM)
