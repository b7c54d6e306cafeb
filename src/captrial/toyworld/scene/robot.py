"""The robot split: a camera moves through a furnished room, by day and by night, at three heights, frame by frame."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.generation import TABLE_TOP
from captrial.toyworld.scene.layout import SIZES, Layout, Scene, SceneObject
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES
from captrial.toyworld.scene.places import ROOM

FRAMES = 20  # of a sequence
LIGHTS = ("day", "night")
HEIGHTS = {"low": 0.45, "middle": 0.95, "high": 1.45}  # metres over the floor
HORIZONS = {"low": 0.6, "middle": 0.5, "high": 0.4}  # higher cameras point down a little
FOCAL = 0.82
NEAR = 0.9  # metres; closer objects are not drawn
HALF_WIDTH, DEPTH, CEILING = 3.0, 8.0, 2.7  # of the room


@dataclass(frozen=True, slots=True)
class RoomObject:
    """An object of the room: its position in metres, and the index of the object it stands on."""

    obj: SceneObject
    x: float
    z: float
    lift: float = 0.0
    on: int | None = None


@dataclass(frozen=True, slots=True)
class RobotRoom:
    """A furnished room and the camera's path through it."""

    items: tuple[RoomObject, ...]
    seed: int
    sway: float  # how far the camera pans, radians
    phase: float


@dataclass(frozen=True, slots=True)
class CameraView:
    """The camera of one frame: position in the room, direction, height, and its horizon on the image."""

    room: RobotRoom
    x: float
    z: float
    yaw: float
    height: float
    horizon: float
    sequence: str
    frame: int

    def to_camera(self, x: float, z: float) -> tuple[float, float]:
        """(right, forward) of a point on the floor in camera coordinates, in metres."""
        dx, dz = x - self.x, z - self.z
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return dx * c - dz * s, dx * s + dz * c

    def project(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """(across, down, depth) of a point: fractions of the image, and metres."""
        right, forward = self.to_camera(x, z)
        depth = max(forward, 1e-3)
        return 0.5 + FOCAL * right / depth, self.horizon - FOCAL * (y - self.height) / depth, forward


def sequence_name(sequence: int) -> str:
    """The folder of a sequence: room, light and camera height, e.g. "room000-day-low"."""
    room, light, height = _parts(sequence)
    return f"room{room:03d}-{light}-{height}"


def robot_scene(seed: int, index: int) -> Scene:
    """Frame `index % FRAMES` of sequence `index // FRAMES`; six sequences share a room and a path."""
    sequence, frame = divmod(index, FRAMES)
    number, light, height = _parts(sequence)
    view = _view(furnish(seed, number), sequence, frame, height)
    shown = {}
    for track, item in enumerate(view.room.items):
        obj = _seen_from(view, item, track)
        if obj is not None:
            shown[track] = obj
    numbers = {track: position for position, track in enumerate(shown)}
    links = tuple(
        (numbers[track], "on", numbers[item.on])
        for track, item in enumerate(view.room.items)
        if track in shown and item.on in shown
    )
    seed = view.room.seed
    return Scene(ROOM.name, light, view.horizon, tuple(shown.values()), links, seed=seed, view=view)


def _parts(sequence: int) -> tuple[int, str, str]:
    room, label = divmod(sequence, len(LIGHTS) * len(HEIGHTS))
    return room, LIGHTS[label % 2], list(HEIGHTS)[label // 2]


def _view(room: RobotRoom, sequence: int, frame: int, height: str) -> CameraView:
    t = frame / (FRAMES - 1)
    yaw = room.sway * math.sin(math.tau * t + room.phase)
    return CameraView(room, 0.0, 0.4 + 3.4 * t, yaw, HEIGHTS[height], HORIZONS[height], sequence_name(sequence), frame)


def _seen_from(view: CameraView, item: RoomObject, track: int) -> SceneObject | None:
    across, down, depth = view.project(item.x, 0.0, item.z)
    if depth < NEAR or not -0.6 < across < 1.6:
        return None
    scale = FOCAL / depth
    obj = item.obj
    own = scale * SIZES[obj.size]
    order = -depth + (1e-3 if item.on is not None else 0.0)
    return replace(obj, x=across, foot=down, scale=own, lift=item.lift * scale, order=order, track=track)


@lru_cache(maxsize=64)
def furnish(seed: int, number: int) -> RobotRoom:
    """The objects of room `number`: furniture along the walls, with a free path down the middle."""
    rng = RandomStream(seed, "room", number)
    furnisher = _RoomFurnisher(rng)
    placements = rng.shuffled([(-2.0, 3.4), (2.0, 3.0), (-2.1, 5.4), (2.1, 5.2), (-1.3, 7.1), (1.4, 7.2)])
    for name, (x, z) in zip(("table", "couch", "chair", "table", "couch", "chair"), placements, strict=True):
        furnisher.furniture(name, x + rng.triangular(0.15), z + rng.triangular(0.2))
    for side in (-1, 1):
        name = rng.choice(("plant", "chair", "ball", "lamp"))
        furnisher.place(name, side * rng.uniform(1.1, 1.35), rng.uniform(2.2, 2.8))
    furnisher.place("lamp", rng.choice((-2.6, 2.6)), 7.6)
    furnisher.place("plant", rng.choice((-2.65, 2.65)), rng.uniform(6.3, 7.0), size="large")
    furnisher.place(rng.choice(("cat", "dog", "ball")), rng.choice((-1.15, 1.15)), rng.uniform(4.2, 6.2))
    furnisher.hang_clock()
    return RobotRoom(tuple(furnisher.items), rng.integer(0, 1 << 30), rng.uniform(0.2, 0.42), rng.uniform(0, math.tau))


class _RoomFurnisher:
    """Adds objects to a room, one after the other."""

    def __init__(self, rng: RandomStream) -> None:
        self.rng = rng
        self.items: list[RoomObject] = []
        self._layout = Layout(ROOM, rng)

    def place(self, name: str, x: float, z: float, size: str = "") -> None:
        """Put an object on the floor."""
        form = "standing" if name == "lamp" else ""
        obj = self._layout.new_object(name, form=form, pose=_still(name, self.rng), size=size)
        self.items.append(RoomObject(obj, x, z))

    def furniture(self, name: str, x: float, z: float) -> None:
        """Add a piece of furniture: a table with objects on it, others sometimes with an object beside them."""
        number = len(self.items)
        self.place(name, x, z)
        if name == "table":
            self._lay(number)
        elif self.rng.chance(0.5):
            beside = x - math.copysign(0.75 if name == "chair" else 1.6, x)
            self.place(self.rng.choice(("plant", "lamp", "ball", "chair")), beside * 0.8, z + 0.4)

    def _lay(self, table: int) -> None:
        placement = self.items[table]
        for shift in (-0.45, 0.42):
            name = self.rng.choice(("cup", "cup", "plant", "lamp"))
            form, size = "table" if name == "lamp" else "", "large" if name == "cup" else "small"
            obj = self._layout.new_object(name, form=form, size=size)
            self.items.append(RoomObject(obj, placement.x + shift, placement.z, TABLE_TOP - 0.03, table))

    def hang_clock(self) -> None:
        """Add a clock on the far wall, where no object hides it."""
        far = [item.x for item in self.items if item.z > 6]
        x = max((-1.6, -0.8, 0.0, 0.8, 1.6), key=lambda x: min(abs(x - other) for other in far))
        obj = self._layout.new_object("clock", size="large")
        self.items.append(RoomObject(obj, x, DEPTH - 0.05, self.rng.uniform(1.6, 1.9)))


def _still(name: str, rng: RandomStream) -> str:
    """A pose of an animal that does not move while the camera passes."""
    poses = [pose for pose in OBJECT_CLASSES[name].poses if pose in {"sitting", "sleeping", "lying"}]
    return rng.choice(poses) if poses else ""
