"""The words of the captions: verbs of poses and relations, in the forms that sentences need."""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven"}
SIZE_WORDS = {"small": ("small", "little"), "large": ("large", "big")}
YOUNG = frozenset({"puppy", "kitten", "pony", "lamb", "calf", "cottage"})  # these say small already

DOING: dict[str, dict[str, tuple[str, ...]]] = {
    "person": {
        "standing": ("standing",),
        "walking": ("walking", "strolling"),
        "running": ("running", "jogging"),
        "jumping": ("jumping", "jumping up"),
        "sitting": ("sitting",),
        "holding": ("standing",),
    },
    "dog": {
        "standing": ("standing",),
        "walking": ("walking",),
        "running": ("running",),
        "sitting": ("sitting",),
        "lying": ("lying down", "resting"),
    },
    "cat": {"standing": ("standing", "walking"), "sitting": ("sitting",), "sleeping": ("sleeping", "napping")},
    "horse": {"standing": ("standing",), "running": ("running", "galloping"), "grazing": ("grazing", "eating")},
    "sheep": {"standing": ("standing",), "grazing": ("grazing", "eating")},
    "cow": {"standing": ("standing",), "grazing": ("grazing", "eating")},
    "bird": {"standing": ("standing", "perched"), "flying": ("flying",)},
    "car": {"parked": ("parked",), "driving": ("driving", "moving")},
    "bus": {"parked": ("parked", "stopped"), "driving": ("driving", "moving")},
    "bicycle": {"parked": ("parked",)},
    "boat": {"floating": ("floating",)},
    "kite": {"flying": ("flying",)},
    "clock": {"hanging": ("hanging",)},
}
"""What a thing is seen to do, by class and pose; classes without an entry just are."""


@dataclass(frozen=True, slots=True)
class Verb:
    """How a relation is said: "riding", "rides", "ridden by" (empty where nobody says it that way)."""

    participles: tuple[str, ...]
    finites: tuple[str, ...] = ()
    passives: tuple[str, ...] = ()


VERBS: dict[str, Verb] = {
    "riding": Verb(("riding",), ("rides", "is riding"), ("being ridden by", "ridden by")),
    "holding": Verb(("holding", "carrying"), ("holds", "is holding", "carries"), ("held by", "being held by")),
    "flying": Verb(("flying",), ("flies", "is flying"), ("being flown by", "flown by")),
    "walking": Verb(("walking", "taking a walk with"), ("walks", "is walking"), ("being walked by", "on a leash with")),
    "chasing": Verb(("chasing", "running after"), ("chases", "runs after", "is chasing"), ("being chased by",)),
    "playing with": Verb(("playing with", "running after"), ("plays with", "is playing with")),
    "sitting on": Verb(("sitting on", "seated on"), ("sits on", "is sitting on", "is seated on")),
    "sleeping on": Verb(("sleeping on", "napping on"), ("sleeps on", "is sleeping on")),
    "lying on": Verb(("lying on", "resting on"), ("lies on", "is lying on", "rests on")),
    "on": Verb(("on", "on top of"), ("is on", "sits on top of")),
    "under": Verb(("under", "underneath"), ("is under", "is underneath")),
    "next to": Verb(("next to", "beside", "near", "by"), ("is next to", "is beside", "is near")),
    "left of": Verb(("to the left of", "on the left of"), ("is to the left of", "is on the left of")),
    "right of": Verb(("to the right of", "on the right of"), ("is to the right of", "is on the right of")),
    "above": Verb(("above", "over"), ("is above", "is over")),
    "below": Verb(("below",), ("is below",)),
    "behind": Verb(("behind",), ("is behind",)),
    "in front of": Verb(("in front of",), ("is in front of",)),
}
"""How every predicate of the scene graph is said."""

LIGHT_WORDS: dict[str, tuple[str, ...]] = {
    "sunny": ("on a sunny day", "under {a blue sky}", "on a bright day"),
    "cloudy": ("on a cloudy day", "under {a cloudy sky}", "under {a gray sky}"),
    "sunset": ("at sunset", "at dusk", "as the sun sets"),
    "night": ("at night", "under {the night sky}", "in the moonlight"),
    "evening": ("in the evening",),
    "day": ("during the day",),
}
"""Phrases for the light; what stands in braces is a scene phrase."""
