"""A robot drives through a room: one map, seen by day and by night from three heights, frame by frame."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.interactions import TABLE_TOP
from captrial.toyworld.scene.layout import (
    SIZES,
    Layout,
    Scene,
    Thing,
)
from captrial.toyworld.scene.object_classes import KINDS
from captrial.toyworld.scene.places import ROOM

FRAMES = 20  # of a sequence
LIGHTS = ("day", "night")
HEIGHTS = {"low": 0.45, "middle": 0.95, "high": 1.45}  # metres over the floor
HORIZONS = {"low": 0.6, "middle": 0.5, "high": 0.4}  # taller robots look down a little
FOCAL = 0.82
NEAR = 0.9  # nothing closer than this is drawn
HALF_WIDTH, DEPTH, CEILING = 3.0, 8.0, 2.7  # of the room


@dataclass(frozen=True, slots=True)
class Item:
    """A thing of the room's map: where it stands, in metres, and what it stands on (an item's number)."""

    thing: Thing
    x: float
    z: float
    lift: float = 0.0
    on: int | None = None


@dataclass(frozen=True, slots=True)
class RobotRoom:
    """A furnished room and the robot's way through it."""

    items: tuple[Item, ...]
    style: int
    sway: float  # how far the camera pans, radians
    phase: float


@dataclass(frozen=True, slots=True)
class CameraView:
    """The camera of one frame: place in the room, direction, height, and where its horizon is on the image."""

    room: RobotRoom
    x: float
    z: float
    yaw: float
    height: float
    horizon: float
    sequence: str
    frame: int

    def turned(self, x: float, z: float) -> tuple[float, float]:
        """(right, forward) of a point of the floor as the camera sees it, in metres."""
        dx, dz = x - self.x, z - self.z
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return dx * c - dz * s, dx * s + dz * c

    def project(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """(across, down, depth) of a point: shares of the image, and metres."""
        right, forward = self.turned(x, z)
        depth = max(forward, 1e-3)
        return 0.5 + FOCAL * right / depth, self.horizon - FOCAL * (y - self.height) / depth, forward


def sequence_name(sequence: int) -> str:
    """The folder of a sequence: room, light and camera height, e.g. "room000-day-low"."""
    room, light, height = _parts(sequence)
    return f"room{room:03d}-{light}-{height}"


def robot_scene(seed: int, index: int) -> Scene:
    """Frame `index % FRAMES` of sequence `index // FRAMES`; six sequences share a room and a way."""
    sequence, frame = divmod(index, FRAMES)
    number, light, height = _parts(sequence)
    view = _view(furnish(seed, number), sequence, frame, height)
    shown = {}
    for track, item in enumerate(view.room.items):
        thing = _seen_from(view, item, track)
        if thing is not None:
            shown[track] = thing
    numbers = {track: position for position, track in enumerate(shown)}
    links = tuple(
        (numbers[track], "on", numbers[item.on])
        for track, item in enumerate(view.room.items)
        if track in shown and item.on in shown
    )
    style = view.room.style
    return Scene(ROOM.name, light, view.horizon, tuple(shown.values()), links, style=style, view=view)


def _parts(sequence: int) -> tuple[int, str, str]:
    room, kind = divmod(sequence, len(LIGHTS) * len(HEIGHTS))
    return room, LIGHTS[kind % 2], list(HEIGHTS)[kind // 2]


def _view(room: RobotRoom, sequence: int, frame: int, height: str) -> CameraView:
    t = frame / (FRAMES - 1)
    yaw = room.sway * math.sin(math.tau * t + room.phase)
    return CameraView(room, 0.0, 0.4 + 3.4 * t, yaw, HEIGHTS[height], HORIZONS[height], sequence_name(sequence), frame)


def _seen_from(view: CameraView, item: Item, track: int) -> Thing | None:
    across, down, depth = view.project(item.x, 0.0, item.z)
    if depth < NEAR or not -0.6 < across < 1.6:
        return None
    scale = FOCAL / depth
    thing = item.thing
    own = scale * SIZES[thing.size]
    order = -depth + (1e-3 if item.on is not None else 0.0)
    return replace(thing, x=across, foot=down, scale=own, lift=item.lift * scale, order=order, track=track)


@lru_cache(maxsize=64)
def furnish(seed: int, number: int) -> RobotRoom:
    """The map of room `number`: furniture along the walls, the way down the middle left free."""
    dice = Dice(seed, "room", number)
    decorator = _Decorator(dice)
    spots = dice.shuffled([(-2.0, 3.4), (2.0, 3.0), (-2.1, 5.4), (2.1, 5.2), (-1.3, 7.1), (1.4, 7.2)])
    for name, (x, z) in zip(("table", "couch", "chair", "table", "couch", "chair"), spots, strict=True):
        decorator.furniture(name, x + dice.bell(0.15), z + dice.bell(0.2))
    for side in (-1, 1):
        name = dice.choice(("plant", "chair", "ball", "lamp"))
        decorator.place(name, side * dice.between(1.1, 1.35), dice.between(2.2, 2.8))
    decorator.place("lamp", dice.choice((-2.6, 2.6)), 7.6)
    decorator.place("plant", dice.choice((-2.65, 2.65)), dice.between(6.3, 7.0), size="large")
    decorator.place(dice.choice(("cat", "dog", "ball")), dice.choice((-1.15, 1.15)), dice.between(4.2, 6.2))
    decorator.hang_clock()
    return RobotRoom(
        tuple(decorator.items), dice.integer(0, 1 << 30), dice.between(0.2, 0.42), dice.between(0, math.tau)
    )


class _Decorator:
    """Puts things into a room, one after the other."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.items: list[Item] = []
        self._stage = Layout(ROOM, dice)

    def place(self, name: str, x: float, z: float, size: str = "") -> None:
        """Stand something on the floor."""
        form = "standing" if name == "lamp" else ""
        look = self._stage.looks(name, form=form, pose=_still(name, self.dice), size=size)
        self.items.append(Item(look, x, z))

    def furniture(self, name: str, x: float, z: float) -> None:
        """A piece of furniture; a table is laid, others may have something beside them."""
        number = len(self.items)
        self.place(name, x, z)
        if name == "table":
            self._lay(number)
        elif self.dice.chance(0.5):
            beside = x - math.copysign(0.75 if name == "chair" else 1.6, x)
            self.place(self.dice.choice(("plant", "lamp", "ball", "chair")), beside * 0.8, z + 0.4)

    def _lay(self, table: int) -> None:
        spot = self.items[table]
        for shift in (-0.45, 0.42):
            name = self.dice.choice(("cup", "cup", "plant", "lamp"))
            form, size = "table" if name == "lamp" else "", "large" if name == "cup" else "small"
            look = self._stage.looks(name, form=form, size=size)
            self.items.append(Item(look, spot.x + shift, spot.z, TABLE_TOP - 0.03, table))

    def hang_clock(self) -> None:
        """A clock on the far wall, where nothing stands before it."""
        far = [item.x for item in self.items if item.z > 6]
        x = max((-1.6, -0.8, 0.0, 0.8, 1.6), key=lambda x: min(abs(x - other) for other in far))
        look = self._stage.looks("clock", size="large")
        self.items.append(Item(look, x, DEPTH - 0.05, self.dice.between(1.6, 1.9)))


def _still(name: str, dice: Dice) -> str:
    """Poses of things that do not move while the robot passes."""
    poses = [pose for pose in KINDS[name].poses if pose in {"sitting", "sleeping", "lying"}]
    return dice.choice(poses) if poses else ""
