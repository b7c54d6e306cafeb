"""Scenes and their objects, and `Layout`, which places objects in a scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from captrial.toyworld.drawing.canvas import Extent
from captrial.toyworld.drawing.colours import COLOURS
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES, ObjectClass
from captrial.toyworld.scene.places import Place

SIZES = {"small": 0.68, "": 1.0, "large": 1.4}
Bounds = tuple[float, float, float, float]  # left, top, right, bottom as shares of the image


class Placement(NamedTuple):
    """Position and size of an object: see `SceneObject`."""

    x: float
    foot: float
    scale: float
    lift: float

    def bounds(self, extent: Extent) -> Bounds:
        """The approximate bounds on the image of a drawing of this extent."""
        half, base = extent.half * self.scale * 0.9, self.foot - self.lift
        return self.x - half, base - extent.top * self.scale, self.x + half, base


def largest_overlap(bounds: Bounds, taken: Sequence[Bounds]) -> float:
    """The largest overlap with one of `taken`, as a share of the smaller of the two."""
    left, top, right, bottom = bounds
    area, worst = (right - left) * (bottom - top), 0.0
    for x1, y1, x2, y2 in taken:
        wide, tall = min(right, x2) - max(left, x1), min(bottom, y2) - max(top, y1)
        if wide > 0 and tall > 0:
            worst = max(worst, wide * tall / min(area, (x2 - x1) * (y2 - y1)))
    return worst


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One object of a scene. Lengths are fractions of the height of the image; x and foot are its position."""

    label: str
    form: str
    pose: str
    colour: str
    size: str  # "small", "" or "large", for its class
    x: float
    foot: float
    scale: float  # image heights per metre, size included
    lift: float = 0.0  # height above the foot line, in image heights
    facing: int = 1
    order: float = 0.0  # drawn from low to high
    seed: int = 0  # of details that captions do not mention
    track: int = -1  # identifies the object in all frames of a robot sequence

    @property
    def extent(self) -> Extent:
        """The extent of its drawing, in metres."""
        return OBJECT_CLASSES[self.label].extent(self.form, self.pose)

    @property
    def bounds(self) -> Bounds:
        """Its approximate bounds on the image: left, top, right, bottom."""
        return Placement(self.x, self.foot, self.scale, self.lift).bounds(self.extent)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The position on the image of a point (x, y) of the object, in metres."""
        return self.x + x * self.facing * self.scale, self.foot - self.lift - y * self.scale


@dataclass(frozen=True, slots=True)
class Cord:
    """A string or leash between two objects: (object, x, y) of both ends, in metres from the object's foot."""

    start: tuple[int, float, float]
    end: tuple[int, float, float]
    slack: float = 0.0
    dark: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """The complete description of an image."""

    place: str
    light: str
    horizon: float
    objects: tuple[SceneObject, ...]
    links: tuple[tuple[int, str, int], ...]  # its interactions: (object, predicate, object)
    cords: tuple[Cord, ...] = ()
    effects: tuple[str, ...] = ()  # in the wild split: some of `generation.EFFECTS`
    seed: int = 0
    view: object = None  # the robot's camera


@dataclass
class Layout:
    """Places objects in a scene. `unusual` is the probability of an unusual colour (0 except in the wild split)."""

    place: Place
    rng: RandomStream
    unusual: float = 0.0
    objects: list[SceneObject] = field(default_factory=list)
    links: list[tuple[int, str, int]] = field(default_factory=list)
    cords: list[Cord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.horizon = self.rng.uniform(*self.place.horizon)

    def new_object(self, name: str, form: str = "", pose: str = "", size: str | None = None) -> SceneObject:
        """A random object of this class, not placed yet: usual form, pose, colour and size."""
        object_class, rng = OBJECT_CLASSES[name], self.rng
        form = form or rng.weighted_choice(self.place.forms.get(name, object_class.forms))
        pose = pose or rng.weighted_choice(object_class.poses)
        if name == "tree" and form == "pine" and self.place.name == "snow":
            pose = "snowy"
        colour = rng.choice(list(COLOURS)) if rng.chance(self.unusual) else rng.weighted_choice(object_class.colours)
        if name == "tree" and form in {"pine", "palm"} and not self.unusual:
            colour = "green"
        if size is None:
            size = rng.weighted_choice({"": 3, "small": 1, "large": 1})
        facing = 1 if rng.chance(0.5) else -1
        return SceneObject(
            name, form, pose, colour, size, 0.0, 0.0, SIZES[size], facing=facing, seed=rng.integer(0, 1 << 30)
        )

    def put(self, obj: SceneObject) -> int:
        """Place an object where its class belongs, clear of the others if possible; returns its index."""
        taken = [other.bounds for other in self.objects]
        placements = [self._random_placement(obj) for _ in range(6 if taken else 1)]
        placement = min(placements, key=lambda placement: largest_overlap(placement.bounds(obj.extent), taken))
        return self.add(
            replace(
                obj,
                x=placement.x,
                foot=placement.foot,
                scale=placement.scale,
                lift=placement.lift,
                order=placement.foot,
            )
        )

    def add(self, obj: SceneObject) -> int:
        """Add an object that already has a position; returns its index."""
        self.objects.append(obj)
        return len(self.objects) - 1

    def beside(self, index: int, obj: SceneObject, gap: float = 0.03, side: int = 0) -> int:
        """Place an object on the same ground as another, left (-1) or right (1) of it; returns its index."""
        other = self.objects[index]
        scale = other.scale / SIZES[other.size] * SIZES[obj.size]
        distance = (obj.extent.half * scale + other.extent.half * other.scale) * 0.88 + gap
        side = side or self._freer_side(other, distance)
        foot = other.foot + self.rng.triangular(0.02)
        return self.add(replace(obj, x=other.x + side * distance, foot=foot, scale=scale, order=foot))

    def attach(self, index: int, obj: SceneObject, x: float, y: float, before: bool = False) -> int:
        """Attach an object to another at (x, y) metres of it, drawn just after (or before) it; returns its index."""
        other = self.objects[index]
        scale = other.scale / SIZES[other.size] * SIZES[obj.size]
        lift = other.lift + y * other.scale
        order = other.order + (-1e-3 if before else 1e-3)
        at = other.x + x * other.facing * other.scale
        return self.add(replace(obj, x=at, foot=other.foot, scale=scale, lift=lift, order=order))

    def turn(self, index: int, facing: int) -> None:
        """Set the direction that an object faces."""
        self.objects[index] = replace(self.objects[index], facing=facing)

    def move(self, *indices: int, by: float) -> None:
        """Move objects sideways."""
        for index in indices:
            self.objects[index] = replace(self.objects[index], x=self.objects[index].x + by)

    def settle(self, *indices: int) -> None:
        """Move a group sideways so that all of it is on the image, if it fits."""
        boxes = [self.objects[index].bounds for index in indices]
        left, right = min(box[0] for box in boxes), max(box[2] for box in boxes)
        if right - left > 0.98:
            self.move(*indices, by=0.5 - (left + right) / 2)
        elif left < 0.01:
            self.move(*indices, by=0.01 - left)
        elif right > 0.99:
            self.move(*indices, by=0.99 - right)

    def link(self, subject: int, predicate: str, target: int) -> None:
        """Record an interaction of two objects."""
        self.links.append((subject, predicate, target))

    def scene(self, light: str, effects: tuple[str, ...] = ()) -> Scene:
        """The finished scene."""
        seed = self.rng.integer(0, 1 << 30)
        parts = tuple(self.objects), tuple(self.links), tuple(self.cords)
        return Scene(self.place.name, light, self.horizon, *parts, effects=effects, seed=seed)

    def _random_placement(self, obj: SceneObject) -> Placement:
        rng, object_class, extent, size = self.rng, OBJECT_CLASSES[obj.label], obj.extent, SIZES[obj.size]
        low, high = self._scales(object_class, extent, size)
        if object_class.where == "sky" or obj.pose == "flying":
            scale = rng.uniform(low, high) * size
            foot = min(self.horizon + scale / size * self.place.camera, 0.99)
            top = rng.uniform(0.04, max(self.horizon - extent.top * scale * 0.6, 0.08))
            lift = foot - top - extent.top * scale
        elif object_class.where == "wall" and self.place.indoor:
            foot, scale = self.horizon + self.place.feet[0] - 0.02, rng.uniform(low, high) * size
            lift = foot - rng.uniform(0.05, 0.16) - extent.top * scale
        else:
            far, near = self.place.water if object_class.where == "water" and self.place.water else self.place.feet
            drop = min(max(rng.uniform(low, high) * self.place.camera, far), near)
            foot, lift = min(self.horizon + drop, 0.985), 0.0
            scale = min((foot - self.horizon) / self.place.camera, 1.15 * high) * size  # limited for near objects
        margin = min(extent.half * scale * 0.85, 0.5)
        return Placement(rng.uniform(margin, 1 - margin), foot, scale, lift)

    def _scales(self, label: ObjectClass, extent: Extent, size: float) -> tuple[float, float]:
        """The smallest and largest scale of the class, in image heights per metre."""
        largest = max(extent.top, 2 * extent.half)
        return label.share[0] / largest, label.share[1] / largest / max(size, 1.0)

    def _freer_side(self, other: SceneObject, distance: float) -> int:
        if other.x + distance > 0.95:
            return -1
        if other.x - distance < 0.05:
            return 1
        return 1 if self.rng.chance(0.5) else -1


def choose_allowed(rng: RandomStream, weights: Mapping[str, float], *allowed: str) -> str:
    """One of the allowed names by weight, or any of them if none has a weight."""
    known = {name: weights[name] for name in allowed if name in weights}
    return rng.weighted_choice(known) if known else rng.choice(allowed)
