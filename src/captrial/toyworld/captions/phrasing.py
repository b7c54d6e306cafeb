"""Phrases of captions: nouns for one object or several, lists, places, actions, light."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from captrial.toyworld.drawing import people
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.layout import Scene, SceneObject
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES, plural
from captrial.toyworld.scene.places import PLACES, ROOM, Place
from captrial.toyworld.scene.relations import on_ground

NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven"}
SIZE_WORDS = {"small": ("small", "little"), "large": ("large", "big")}
YOUNG = frozenset({"puppy", "kitten", "pony", "lamb", "calf", "cottage"})  # these nouns already mean small

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
"""Participles for the pose of an object, by class and pose."""


@dataclass(frozen=True, slots=True)
class Verb:
    """The verb forms of a relation: "riding", "rides", "ridden by" (empty where a form is not used)."""

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
"""The verb of every predicate of the scene graph."""

LIGHT_WORDS: dict[str, tuple[str, ...]] = {
    "sunny": ("on a sunny day", "under {a blue sky}", "on a bright day"),
    "cloudy": ("on a cloudy day", "under {a cloudy sky}", "under {a gray sky}"),
    "sunset": ("at sunset", "at dusk", "as the sun sets"),
    "night": ("at night", "under {the night sky}", "in the moonlight"),
    "evening": ("in the evening",),
    "day": ("during the day",),
}
"""Phrases for the light; a scene phrase is in braces."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of a caption; `objects` are the ones they refer to, `scene` is set if they refer to the place."""

    text: str
    objects: tuple[int, ...] = ()
    scene: bool = False


def article(words: str) -> str:
    """The words with "a" or "an" before them."""
    return ("an " if words[0] in "aeiou" else "a ") + words


def braced(text: str) -> list[Piece]:
    """The pieces of "in {a park}", where the scene phrase is in braces."""
    parts = re.split(r"[{}]", text)
    return [Piece(part.strip(), scene=index % 2 == 1) for index, part in enumerate(parts) if part.strip()]


SKY, WALL = "in {the sky}", "on {the wall}"


def _scene_words() -> frozenset[str]:
    places = (*PLACES.values(), ROOM)
    texts = [text for place in places for text in (*place.settings, *place.floors, place.on_water)]
    texts += [text for group in LIGHT_WORDS.values() for text in group] + [SKY, WALL]
    phrases = [piece.text for text in texts for piece in braced(text) if piece.scene]
    phrases += [title for place in places for title in place.titles]
    return frozenset(phrase.split()[-1] for phrase in phrases)


SCENE_WORDS = _scene_words()
"""Every noun that captions use for a place or a part of it: park, grass, sky, floor ..."""


class Phraser:
    """Writes the phrases for one scene; only the objects `mentionable` may be mentioned."""

    def __init__(self, scene: Scene, mentionable: tuple[int, ...], rng: RandomStream) -> None:
        self.scene, self.mentionable, self.rng = scene, mentionable, rng
        self.place: Place = PLACES.get(scene.place, ROOM)

    def _share_name(self, members: Sequence[int]) -> bool:
        """Whether two of them would get the same noun phrase."""
        objects = [self.scene.objects[index] for index in members]
        return len({obj.form if obj.label == "person" else obj.colour for obj in objects}) < len(objects)

    def other(self, first: int, second: int) -> list[Piece]:
        """A noun phrase for a second object: "another dog" after a dog."""
        (piece,) = self.name(second)
        one, two = self.scene.objects[first], self.scene.objects[second]
        if one.label != two.label or (one.label == "person" and one.form != two.form):
            return [piece]
        return [Piece("another " + piece.text.split(" ", 1)[1], piece.objects)]

    def name(self, index: int, tinted: bool = False) -> list[Piece]:
        """A noun phrase for one object: "a small brown dog", "a woman in a red dress"."""
        obj = self.scene.objects[index]
        noun = self._noun(obj)
        colour = [obj.colour] if tinted and obj.label != "person" else self._colour(obj)
        words = [*self._size(obj, noun), *colour, noun]
        text = article(" ".join(words))
        if obj.label == "person" and self.rng.chance(OBJECT_CLASSES["person"].colour_rate):
            text += " " + self._clothes(obj)
        return [Piece(text, (index,))]

    def _noun(self, obj: SceneObject) -> str:
        object_class = OBJECT_CLASSES[obj.label]
        general, special = object_class.words, object_class.nouns(obj.form, obj.size)[len(object_class.words) :]
        if obj.label == "person":
            if self.rng.chance(0.1):
                return "person"
            return special[0] if self.rng.chance(0.7) else self.rng.choice(special)
        if special and self.rng.chance(0.35):
            return self.rng.choice(special)
        return general[0] if self.rng.chance(0.6) else self.rng.choice(general)

    def _size(self, obj: SceneObject, noun: str) -> list[str]:
        if obj.size and noun not in YOUNG and obj.label != "person" and self.rng.chance(0.4):
            return [self.rng.choice(SIZE_WORDS[obj.size])]
        return []

    def _colour(self, obj: SceneObject) -> list[str]:
        if obj.label == "person" or not self.rng.chance(OBJECT_CLASSES[obj.label].colour_rate):
            return ["potted"] if obj.label == "plant" and self.rng.chance(0.4) else []
        if obj.label == "table" and obj.colour == "brown" and self.rng.chance(0.6):
            return ["wooden"]
        return [obj.colour]

    def _clothes(self, obj: SceneObject) -> str:
        garment = people.garment(obj.form, obj.seed)
        form = self.rng.choice(("in a {} {}", "wearing a {} {}", "in {}"))
        text = form.format(obj.colour, garment)
        return text.replace("a orange", "an orange")

    def several(self, members: Sequence[int]) -> list[Piece]:
        """A noun phrase for all objects of one class: "two brown dogs", "a group of people"."""
        objects = [self.scene.objects[index] for index in members]
        noun = plural(self._common_noun(objects))
        colours = {obj.colour for obj in objects}
        tint = (
            [objects[0].colour] if len(colours) == 1 and objects[0].label != "person" and self.rng.chance(0.6) else []
        )
        count = [NUMBERS.get(len(members), "several")]
        if self.rng.chance(0.25):
            count = ["a pair of"] if len(members) == 2 else ["a group of"]
        return [Piece(" ".join([*count, *tint, noun]), tuple(members))]

    def _common_noun(self, objects: Sequence[SceneObject]) -> str:
        object_class = OBJECT_CLASSES[objects[0].label]
        if object_class.name == "person":
            forms = {obj.form for obj in objects}
            if len(forms) == 1 and self.rng.chance(0.8):
                return object_class.special[objects[0].form][0]
            return self.rng.choice(("child", "kid")) if forms <= {"boy", "girl"} else "person"
        return self.rng.choice(object_class.words)

    def plurals(self) -> list[tuple[int, ...]]:
        """The sets of all visible objects of one class, where there are at least two."""
        classes: dict[str, list[int]] = {}
        for index in self.mentionable:
            classes.setdefault(self.scene.objects[index].label, []).append(index)
        hidden = {obj.label for index, obj in enumerate(self.scene.objects) if index not in self.mentionable}
        return [tuple(members) for label, members in classes.items() if len(members) > 1 and label not in hidden]

    def choose(self, least: int, most: int) -> list[int]:
        """Random objects to list, more of them in cluttered scenes."""
        most = min(len(self.mentionable), most + (1 if len(self.mentionable) > 4 else 0))
        chosen = self.rng.shuffled(self.mentionable)[: self.rng.integer(min(least, most), most)]
        groups = self.plurals()
        together = list(dict.fromkeys(member for index in chosen for member in self._company(index, groups)))
        return self._unrepeated(together, groups)

    def _company(self, index: int, groups: list[tuple[int, ...]]) -> tuple[int, ...]:
        """All visible objects of the same class: "two lamps", not "a lamp and a lamp"."""
        return next((members for members in groups if index in members), (index,))

    def _unrepeated(self, chosen: Sequence[int], groups: list[tuple[int, ...]]) -> list[int]:
        """One object of each class that cannot be counted because some are hidden."""
        kept: dict[object, int] = {}
        for index in chosen:
            counted = any(index in members for members in groups)
            kept.setdefault(index if counted else self.scene.objects[index].label, index)
        return list(kept.values())

    def listing(self, chosen: Sequence[int]) -> list[Piece]:
        """A list of the chosen objects, those of one class together if all of that class are chosen."""
        parts: list[list[Piece]] = []
        left = list(chosen)
        for members in self.plurals():
            if set(members) <= set(left) and (self._share_name(members) or self.rng.chance(0.6)):
                parts.append(self.several(members))
                left = [index for index in left if index not in members]
        twins = {index for members in self.plurals() for index in members}
        parts += [self.name(index, tinted=index in twins) for index in left]
        pieces = list(parts[0])
        for position, part in enumerate(parts[1:], start=2):
            pieces += [Piece("and" if position == len(parts) else ","), *part]
        return pieces

    def doing(self, index: int, first: bool = False) -> str:
        """A participle for the pose of an object, or ""; `first` takes the most common one."""
        obj = self.scene.objects[index]
        if (obj.pose == "floating" and not self.place.water) or (obj.pose == "hanging" and not self.place.indoor):
            return ""
        if obj.pose == "parked" and any(predicate == "riding" and b == index for _, predicate, b in self.scene.links):
            return ""
        options = DOING.get(obj.label, {}).get(obj.pose, ())
        if not options:
            return ""
        return options[0] if first else self.rng.choice(options)

    def setting(self, index: int) -> list[Piece]:
        """The place of an object: "on the water", "in the sky", "on the grass", "in a park"."""
        obj = self.scene.objects[index]
        object_class = OBJECT_CLASSES[obj.label]
        if object_class.where == "water" and self.place.water:
            return braced("on " + self.rng.choice((self.place.on_water, "{the water}")))
        if obj.pose == "flying":
            return self.where() if self.place.indoor or self.rng.chance(0.3) else braced(SKY)
        if object_class.where == "wall" and self.place.indoor:
            return braced(WALL)
        if on_ground(self.scene, index) and self.rng.chance(0.35):
            return braced(self.rng.choice(self.place.floors))
        return self.where()

    def where(self) -> list[Piece]:
        """The place of the scene: "in a park", "at the park"."""
        return braced(self.rng.choice(self.place.settings))

    @property
    def _dark_room(self) -> bool:
        return self.place.indoor and self.scene.light == "night"

    def maybe(self, pieces: list[Piece], probability: float) -> list[Piece]:
        """The pieces with this probability, else none."""
        return pieces if self.rng.chance(probability) else []

    def maybe_light(self, probability: float = 0.2) -> list[Piece]:
        """The light, "on a sunny day", with this probability, else nothing."""
        if self.place.indoor and self.scene.light == "day":
            return []
        if not self.rng.chance(probability):
            return []
        if self._dark_room:
            return [Piece(self.rng.choice(("at night", "in the dark")))]
        return braced(self.rng.choice(LIGHT_WORDS[self.scene.light]))
