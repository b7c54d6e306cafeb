"""A scene being set: what things are, where they stand, and who does what to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from captrial.toyworld.drawing.brush import Extent
from captrial.toyworld.drawing.colours import COLOURS
from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.object_classes import KINDS, Kind
from captrial.toyworld.scene.places import Place

SIZES = {"small": 0.68, "": 1.0, "large": 1.4}
Bounds = tuple[float, float, float, float]  # left, top, right, bottom as shares of the image


class Spot(NamedTuple):
    """Where and how large something is: see `Thing`."""

    x: float
    foot: float
    scale: float
    lift: float

    def bounds(self, room: Extent) -> Bounds:
        """About what it covers of the image."""
        half, base = room.half * self.scale * 0.9, self.foot - self.lift
        return self.x - half, base - room.top * self.scale, self.x + half, base


def crowding(bounds: Bounds, taken: Sequence[Bounds]) -> float:
    """The largest share of this, or of another, that one of the two would cover."""
    left, top, right, bottom = bounds
    area, worst = (right - left) * (bottom - top), 0.0
    for x1, y1, x2, y2 in taken:
        wide, tall = min(right, x2) - max(left, x1), min(bottom, y2) - max(top, y1)
        if wide > 0 and tall > 0:
            worst = max(worst, wide * tall / min(area, (x2 - x1) * (y2 - y1)))
    return worst


@dataclass(frozen=True, slots=True)
class Thing:
    """One object of a scene. Lengths on the image are shares of its height; x and foot are where it stands."""

    kind: str
    form: str
    pose: str
    colour: str
    size: str  # "small", "" or "large", for its class
    x: float
    foot: float
    scale: float  # image heights a metre, size included
    lift: float = 0.0  # how far above the foot line it is, in image heights
    facing: int = 1
    order: float = 0.0  # painted from low to high
    style: int = 0  # seed of the details nobody names
    track: int = -1  # the same thing on every frame of a robot's sequence

    @property
    def extent(self) -> Extent:
        """The room its drawing takes, in metres."""
        return KINDS[self.kind].extent(self.form, self.pose)

    @property
    def bounds(self) -> Bounds:
        """About where it will be on the image: left, top, right, bottom."""
        return Spot(self.x, self.foot, self.scale, self.lift).bounds(self.extent)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point (x, y) of its own, in metres, is on the image."""
        return self.x + x * self.facing * self.scale, self.foot - self.lift - y * self.scale


@dataclass(frozen=True, slots=True)
class Cord:
    """A kite's string or a dog's leash, from one thing to another: (thing, x, y) twice, metres from its foot."""

    start: tuple[int, float, float]
    end: tuple[int, float, float]
    slack: float = 0.0
    dark: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that decides an image."""

    place: str
    light: str
    horizon: float
    things: tuple[Thing, ...]
    links: tuple[tuple[int, str, int], ...]  # what the scene was built for: (thing, predicate, thing)
    cords: tuple[Cord, ...] = ()
    effects: tuple[str, ...] = ()  # what the wild adds: some of `scenes.EFFECTS`
    style: int = 0
    view: object = None  # the robot's camera


@dataclass
class Layout:
    """Puts things into a place. `strange` is how often a thing ignores its habits (0 in distribution)."""

    place: Place
    dice: Dice
    strange: float = 0.0
    things: list[Thing] = field(default_factory=list)
    links: list[tuple[int, str, int]] = field(default_factory=list)
    cords: list[Cord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.horizon = self.dice.between(*self.place.horizon)

    def looks(self, name: str, form: str = "", pose: str = "", size: str | None = None) -> Thing:
        """A thing of this class that stands nowhere yet: form, pose, colour and size by habit."""
        kind, dice = KINDS[name], self.dice
        form = form or dice.weighted(self.place.forms.get(name, kind.forms))
        pose = pose or dice.weighted(kind.poses)
        if name == "tree" and form == "pine" and self.place.name == "snow":
            pose = "snowy"
        colour = dice.choice(list(COLOURS)) if dice.chance(self.strange) else dice.weighted(kind.colours)
        if name == "tree" and form in {"pine", "palm"} and not self.strange:
            colour = "green"
        if size is None:
            size = dice.weighted({"": 3, "small": 1, "large": 1})
        facing = 1 if dice.chance(0.5) else -1
        return Thing(
            name, form, pose, colour, size, 0.0, 0.0, SIZES[size], facing=facing, style=dice.integer(0, 1 << 30)
        )

    def put(self, thing: Thing) -> int:
        """Stand a thing where its kind belongs, clear of the others if possible; its index."""
        taken = [other.bounds for other in self.things]
        spots = [self._somewhere(thing) for _ in range(6 if taken else 1)]
        spot = min(spots, key=lambda spot: crowding(spot.bounds(thing.extent), taken))
        return self.add(replace(thing, x=spot.x, foot=spot.foot, scale=spot.scale, lift=spot.lift, order=spot.foot))

    def add(self, thing: Thing) -> int:
        """Add a thing that already has its place; its index."""
        self.things.append(thing)
        return len(self.things) - 1

    def beside(self, index: int, thing: Thing, gap: float = 0.03, side: int = 0) -> int:
        """Stand a thing on the same ground as another, left (-1) or right (1) of it; its index."""
        other = self.things[index]
        scale = other.scale / SIZES[other.size] * SIZES[thing.size]
        reach = (thing.extent.half * scale + other.extent.half * other.scale) * 0.88 + gap
        side = side or self._freer_side(other, reach)
        foot = other.foot + self.dice.bell(0.02)
        return self.add(replace(thing, x=other.x + side * reach, foot=foot, scale=scale, order=foot))

    def attach(self, index: int, thing: Thing, x: float, y: float, before: bool = False) -> int:
        """Fix a thing to another at (x, y) metres of that other, painted just after (or before) it; its index."""
        other = self.things[index]
        scale = other.scale / SIZES[other.size] * SIZES[thing.size]
        lift = other.lift + y * other.scale
        order = other.order + (-1e-3 if before else 1e-3)
        at = other.x + x * other.facing * other.scale
        return self.add(replace(thing, x=at, foot=other.foot, scale=scale, lift=lift, order=order))

    def turn(self, index: int, facing: int) -> None:
        """Let a thing face the other way."""
        self.things[index] = replace(self.things[index], facing=facing)

    def move(self, *indices: int, by: float) -> None:
        """Shift things sideways."""
        for index in indices:
            self.things[index] = replace(self.things[index], x=self.things[index].x + by)

    def settle(self, *indices: int) -> None:
        """Shift a group sideways so that it is on the image as a whole, if it fits."""
        boxes = [self.things[index].bounds for index in indices]
        left, right = min(box[0] for box in boxes), max(box[2] for box in boxes)
        if right - left > 0.98:
            self.move(*indices, by=0.5 - (left + right) / 2)
        elif left < 0.01:
            self.move(*indices, by=0.01 - left)
        elif right > 0.99:
            self.move(*indices, by=0.99 - right)

    def link(self, subject: int, predicate: str, target: int) -> None:
        """Say what one thing is or does to another."""
        self.links.append((subject, predicate, target))

    def scene(self, light: str, effects: tuple[str, ...] = ()) -> Scene:
        """The finished scene."""
        style = self.dice.integer(0, 1 << 30)
        parts = tuple(self.things), tuple(self.links), tuple(self.cords)
        return Scene(self.place.name, light, self.horizon, *parts, effects=effects, style=style)

    def _somewhere(self, thing: Thing) -> Spot:
        dice, kind, room, size = self.dice, KINDS[thing.kind], thing.extent, SIZES[thing.size]
        low, high = self._scales(kind, room, size)
        if kind.where == "sky" or thing.pose == "flying":
            scale = dice.between(low, high) * size
            foot = min(self.horizon + scale / size * self.place.camera, 0.99)
            top = dice.between(0.04, max(self.horizon - room.top * scale * 0.6, 0.08))
            lift = foot - top - room.top * scale
        elif kind.where == "wall" and self.place.indoor:
            foot, scale = self.horizon + self.place.feet[0] - 0.02, dice.between(low, high) * size
            lift = foot - dice.between(0.05, 0.16) - room.top * scale
        else:
            far, near = self.place.water if kind.where == "water" and self.place.water else self.place.feet
            drop = min(max(dice.between(low, high) * self.place.camera, far), near)
            foot, lift = min(self.horizon + drop, 0.985), 0.0
            scale = min((foot - self.horizon) / self.place.camera, 1.15 * high) * size  # a house on a table is a toy
        margin = min(room.half * scale * 0.85, 0.5)
        return Spot(dice.between(margin, 1 - margin), foot, scale, lift)

    def _scales(self, kind: Kind, room: Extent, size: float) -> tuple[float, float]:
        """Smallest and largest sensible image heights a metre."""
        largest = max(room.top, 2 * room.half)
        return kind.share[0] / largest, kind.share[1] / largest / max(size, 1.0)

    def _freer_side(self, other: Thing, reach: float) -> int:
        if other.x + reach > 0.95:
            return -1
        if other.x - reach < 0.05:
            return 1
        return 1 if self.dice.chance(0.5) else -1


def any_of(dice: Dice, weights: Mapping[str, float], *allowed: str) -> str:
    """One of the allowed names that has a weight, or any of the allowed."""
    known = {name: weights[name] for name in allowed if name in weights}
    return dice.weighted(known) if known else dice.choice(allowed)
