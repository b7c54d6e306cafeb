"""The places of scenes: nouns, camera, light, interactions and usual objects of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Weights = Mapping[str, float]

_OUTDOOR_LIGHT = {"sunny": 5, "cloudy": 2, "sunset": 1.5, "night": 0.8}
_INDOOR_LIGHT = {"day": 4, "evening": 1.5}


@dataclass(frozen=True)
class Place:
    """One place.

    Heights on the image are fractions from the top. An object whose foot is at `foot` is drawn at
    `(foot - horizon) / camera` image heights per metre, as seen by a camera `camera` metres above the ground.
    """

    name: str
    nouns: tuple[str, ...]  # nouns for the place: "field", "pasture"
    titles: tuple[str, ...]  # noun phrases for captions about the place itself
    settings: tuple[str, ...]  # prepositional phrases, the noun phrase in braces: "in {a park}"
    floors: tuple[str, ...]  # prepositional phrases for the ground
    horizon: tuple[float, float]
    camera: float
    feet: tuple[float, float]  # farthest and nearest foot, below the horizon
    interactions: Weights
    objects: Weights  # usual objects
    backdrop: Weights = field(default_factory=dict)  # objects in the middle distance
    lights: Weights = field(default_factory=lambda: dict(_OUTDOOR_LIGHT))
    water: tuple[float, float] | None = None  # feet of boats, below the horizon
    indoor: bool = False
    forms: Mapping[str, Weights] = field(default_factory=dict)  # forms that differ here, by class
    on_water: str = "{the water}"


PLACES: dict[str, Place] = {
    place.name: place
    for place in (
        Place(
            "park", ("park",), ("a park", "a green park"),
            ("in {a park}", "at {the park}", "in {a green park}"), ("on {the grass}",),
            (0.42, 0.5), 1.5, (0.1, 0.46),
            {"alone": 2, "walk": 2, "chase": 2, "play": 2, "kite": 2, "ride bicycle": 2, "sit": 2, "umbrella": 1,
             "group": 1, "under": 1, "beside": 2},
            {"person": 3, "dog": 3, "ball": 1, "bicycle": 1, "bench": 2, "bird": 2, "flower": 2, "cat": 1},
            {"tree": 5, "bench": 1},
        ),
        Place(
            "street", ("street", "road"), ("a street", "a city street", "a road"),
            ("on {a street}", "on {the road}", "on {a city street}", "in {the street}"),
            ("on {the road}", "on {the street}"), (0.4, 0.46), 1.7, (0.15, 0.5),
            {"alone": 3, "walk": 2, "ride bicycle": 3, "umbrella": 2, "group": 1.5, "beside": 2},
            {"person": 3, "car": 5, "bus": 3, "bicycle": 2, "dog": 1, "cat": 0.7, "bird": 0.7},
            {"tree": 1.5, "house": 1, "car": 1},
        ),
        Place(
            "beach", ("beach", "shore"), ("a beach", "a sandy beach"),
            ("on {the beach}", "at {the beach}", "on {a sandy beach}", "on {the shore}"),
            ("on {the sand}",), (0.34, 0.42), 1.5, (0.24, 0.55),
            {"alone": 2, "play": 2, "kite": 3, "chase": 2, "parasol": 2, "group": 1, "beside": 2, "ride horse": 0.8},
            {"person": 3, "dog": 2, "ball": 2, "umbrella": 2, "bird": 2, "boat": 2, "chair": 1},
            {"tree": 1, "boat": 2}, {"sunny": 5, "cloudy": 1, "sunset": 2, "night": 0.4}, (0.05, 0.17),
            forms={"tree": {"palm": 1}}, on_water="{the sea}",
        ),
        Place(
            "lake", ("lake",), ("a lake", "a quiet lake"),
            ("by {a lake}", "at {the lake}", "near {a lake}"), ("on {the grass}",),
            (0.36, 0.44), 1.5, (0.32, 0.52),
            {"alone": 2, "sit": 2, "walk": 1, "chase": 1, "group": 1, "beside": 2, "umbrella": 0.5},
            {"boat": 5, "person": 2, "dog": 1.5, "bird": 2, "bench": 1, "flower": 1},
            {"boat": 4, "tree": 1}, water=(0.08, 0.26),
        ),
        Place(
            "field", ("field", "pasture", "meadow"), ("a field", "a grassy field", "a meadow", "a pasture"),
            ("in {a field}", "in {a pasture}", "in {a grassy field}", "in {a meadow}"),
            ("on {the grass}",), (0.4, 0.48), 1.5, (0.1, 0.5),
            {"alone": 3, "group": 4, "ride horse": 3, "beside": 2, "chase": 1, "under": 1},
            {"horse": 4, "sheep": 4, "cow": 4, "dog": 1, "person": 1, "bird": 0.7, "flower": 1},
            {"house": 2, "tree": 2}, forms={"house": {"barn": 2, "cottage": 1}},
        ),
        Place(
            "snow", ("snow", "hill"), ("a snowy hill", "a snow covered hill"),
            ("in {the snow}", "on {a snowy hill}", "on {a snow covered hill}"),
            ("in {the snow}",), (0.4, 0.5), 1.5, (0.12, 0.5),
            {"alone": 3, "walk": 2, "chase": 1, "play": 0.7, "group": 1, "ride horse": 1, "beside": 2},
            {"person": 4, "dog": 3, "bird": 1, "horse": 1, "house": 1},
            {"tree": 4, "house": 2}, {"sunny": 2, "cloudy": 3, "sunset": 1, "night": 0.7},
            forms={"tree": {"pine": 1}, "house": {"cottage": 1}},
        ),
        Place(
            "kitchen", ("kitchen",), ("a kitchen", "a tidy kitchen"),
            ("in {a kitchen}", "in {the kitchen}"), ("on {the floor}", "on {the kitchen floor}"),
            (0.34, 0.4), 1.25, (0.3, 0.58),
            {"alone": 1, "on table": 5, "sit": 2, "under": 1.5, "beside": 2, "group": 0.7},
            {"table": 3, "chair": 3, "cat": 2, "person": 2, "plant": 1, "cup": 0.15, "dog": 1, "clock": 1},
            {"clock": 2, "chair": 2, "plant": 1}, _INDOOR_LIGHT, indoor=True,
        ),
        Place(
            "living room", ("room",), ("a living room",),
            ("in {a living room}", "in {the living room}"), ("on {the floor}", "on {the carpet}"),
            (0.34, 0.42), 1.3, (0.26, 0.56),
            {"alone": 1, "sit": 5, "on table": 2, "beside": 2, "play": 1, "under": 1},
            {"couch": 4, "lamp": 2, "table": 1, "cat": 2, "dog": 2, "person": 2, "plant": 2, "chair": 1, "ball": 0.7},
            {"lamp": 2, "plant": 2, "clock": 1}, _INDOOR_LIGHT, indoor=True,
        ),
    )
}  # fmt: skip

ROOM = Place(
    "room", ("room",), ("a room", "an indoor room"),
    ("in {a room}", "in {the room}", "inside {a room}"), ("on {the floor}",), (0.5, 0.5), 1.0, (0.1, 0.5),
    {}, {}, lights={"day": 1, "night": 1}, indoor=True,
)  # fmt: skip
"""The room of the robot split."""

SCENES: dict[str, tuple[str, ...]] = {place.name: place.nouns for place in (*PLACES.values(), ROOM)}
"""The nouns that captions use for every place."""
