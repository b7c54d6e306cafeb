"""The 25 object classes: forms, poses, colours, size, drawing function and nouns of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from captrial.toyworld.drawing import animals, indoor_objects, outdoor_objects, people, vehicles
from captrial.toyworld.drawing.canvas import Extent, ObjectCanvas, Style

Weights = Mapping[str, float]

_PLURALS = {"man": "men", "woman": "women", "child": "children", "person": "people", "sheep": "sheep", "calf": "calves",
            "bus": "buses", "bench": "benches", "couch": "couches", "lady": "ladies", "pony": "ponies",
            "puppy": "puppies", "daisy": "daisies"}  # fmt: skip


@dataclass(frozen=True)
class ObjectClass:
    """One class of objects.

    `words` are nouns for any of its members; `special` adds nouns by form or size ("small": "puppy").
    `where` is what it stands on: "ground", "water", "sky" or "wall". `share` is the range of its larger side, as a
    fraction of the height of the image.
    """

    name: str
    group: str  # phrase kind as in Flickr30k Entities: people, animals, vehicles, other
    draw: Callable[[ObjectCanvas, Style], None]
    extents: Mapping[str, Extent]  # by form or pose; "" is any other
    forms: Weights
    poses: Weights
    colours: Weights
    words: tuple[str, ...]
    special: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    where: str = "ground"
    share: tuple[float, float] = (0.16, 0.5)
    colour_rate: float = 0.6  # the probability that a caption names the colour

    def extent(self, form: str, pose: str) -> Extent:
        """The extent of a drawing of this form in this pose."""
        if self.name == "person":
            return people.extent(form, pose)
        return self.extents.get(pose) or self.extents.get(form) or self.extents[""]

    def nouns(self, form: str, size: str) -> tuple[str, ...]:
        """Nouns for an object of this form and size, the most common first."""
        return (*self.words, *self.special.get(form, ()), *self.special.get(size, ()))

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every noun that captions use for this class, singular, without repetition."""
        extra = (word for words in self.special.values() for word in words)
        return tuple(dict.fromkeys((*self.words, *extra)))


def plural(noun: str) -> str:
    """The plural of a noun of the toy world.

    >>> plural("puppy"), plural("kite"), plural("sheep")
    ('puppies', 'kites', 'sheep')
    """
    return _PLURALS.get(noun, noun + "s")


def _even(*names: str) -> dict[str, float]:
    return dict.fromkeys(names, 1.0)


_CLOTHES = {"red": 3, "blue": 3, "green": 2, "yellow": 2, "orange": 1, "purple": 1, "pink": 1, "white": 1.5, "black": 1}
_PAINT = {"red": 3, "blue": 3, "yellow": 2, "white": 2, "green": 1.5, "black": 1, "gray": 1, "orange": 1}
_BRIGHT = {"red": 3, "yellow": 2, "blue": 2.5, "green": 1.5, "orange": 1.5, "purple": 1, "pink": 1.5}

OBJECT_CLASSES: dict[str, ObjectClass] = {
    object_class.name: object_class
    for object_class in (
        ObjectClass(
            "person", "people", people.person, {}, {"man": 3, "woman": 3, "boy": 2, "girl": 2},
            {"standing": 3, "walking": 3, "running": 1.5, "jumping": 0.8}, _CLOTHES, ("person",),
            {"man": ("man", "guy"), "woman": ("woman", "lady"), "boy": ("boy", "kid", "child"),
             "girl": ("girl", "kid", "child")}, share=(0.2, 0.5), colour_rate=0.45,
        ),
        ObjectClass(
            "dog", "animals", animals.dog,
            {"": Extent(0.66, 0.92), "sitting": Extent(0.46, 0.88), "lying": Extent(0.64, 0.6)},
            {"floppy": 2, "pointed": 1}, {"standing": 1.5, "walking": 1, "running": 2, "sitting": 2, "lying": 1},
            {"brown": 4, "black": 2, "white": 2, "gray": 1}, ("dog",), {"small": ("puppy",)}, share=(0.2, 0.5),
        ),
        ObjectClass(
            "cat", "animals", animals.cat,
            {"": Extent(0.52, 0.72), "sitting": Extent(0.38, 0.78), "sleeping": Extent(0.4, 0.4)},
            {"plain": 1, "tabby": 1}, {"standing": 1, "sitting": 2, "sleeping": 1},
            {"orange": 3, "gray": 2, "black": 2, "white": 1.5}, ("cat",), {"small": ("kitten",)}, share=(0.18, 0.46),
        ),
        ObjectClass(
            "horse", "animals", animals.horse, {"": Extent(1.26, 1.92)}, {"plain": 2, "blaze": 1},
            {"standing": 2, "running": 1.5, "grazing": 1.5}, {"brown": 5, "white": 2, "black": 2, "gray": 1},
            ("horse",), {"small": ("pony",)}, share=(0.36, 0.74),
        ),
        ObjectClass(
            "sheep", "animals", animals.sheep, {"": Extent(0.66, 0.9)}, {"plain": 1}, {"standing": 1, "grazing": 1},
            {"white": 8, "black": 1}, ("sheep",), {"small": ("lamb",)}, share=(0.16, 0.4), colour_rate=0.4,
        ),
        ObjectClass(
            "cow", "animals", animals.cow, {"": Extent(1.12, 1.46)}, {"plain": 1}, {"standing": 1, "grazing": 1},
            {"brown": 3, "black": 3, "white": 2}, ("cow",), {"small": ("calf",)}, share=(0.32, 0.68),
        ),
        ObjectClass(
            "bird", "animals", animals.bird, {"": Extent(0.38, 0.56), "flying": Extent(0.46, 0.72)}, {"plain": 1},
            {"standing": 1, "flying": 1.6},
            {"blue": 2, "red": 1.5, "yellow": 1.5, "white": 2, "black": 1.5, "brown": 1}, ("bird",), share=(0.14, 0.3),
        ),
        ObjectClass(
            "car", "vehicles", vehicles.car,
            {"": Extent(2.08, 1.56), "van": Extent(2.08, 1.8), "driving": Extent(2.42, 1.8)},
            {"saloon": 2, "hatchback": 2, "van": 1}, {"parked": 1, "driving": 1}, _PAINT, ("car",),
            {"saloon": ("sedan",), "van": ("van",)}, share=(0.4, 0.74), colour_rate=0.75,
        ),
        ObjectClass(
            "bus", "vehicles", vehicles.bus, {"": Extent(3.4, 2.48), "double": Extent(3.4, 3.58)},
            {"single": 2, "double": 1}, {"parked": 1, "driving": 1}, {"red": 3, "yellow": 2, "green": 1.5, "blue": 1.5},
            ("bus",), share=(0.56, 0.9), colour_rate=0.75,
        ),
        ObjectClass(
            "bicycle", "vehicles", vehicles.bicycle, {"": Extent(0.92, 1.06)}, {"plain": 1}, {"parked": 1},
            {"red": 2, "blue": 2, "green": 1.5, "black": 1.5, "yellow": 1}, ("bicycle", "bike"), share=(0.28, 0.6),
            colour_rate=0.5,
        ),
        ObjectClass(
            "boat", "vehicles", vehicles.boat,
            {"": Extent(1.62, 1.3), "sail": Extent(1.62, 3.4), "cabin": Extent(1.62, 2.06)},
            {"sail": 2, "row": 1, "cabin": 1}, {"floating": 1},
            {"red": 2, "blue": 2, "white": 2, "green": 1, "yellow": 1}, ("boat",),
            {"sail": ("sailboat",), "row": ("rowboat",)}, where="water", share=(0.24, 0.52),
        ),
        ObjectClass(
            "tree", "other", outdoor_objects.tree,
            {"": Extent(1.52, 3.52), "pine": Extent(1.12, 3.5), "palm": Extent(1.72, 3.3)}, {"broad": 3, "pine": 1},
            {"standing": 1}, {"green": 6, "orange": 1, "red": 0.5}, ("tree",), {"pine": ("pine",), "palm": ("palm",)},
            share=(0.38, 0.7), colour_rate=0.3,
        ),
        ObjectClass(
            "house", "other", outdoor_objects.house, {"": Extent(2.2, 4.02)}, {"cottage": 3, "barn": 1},
            {"standing": 1}, {"white": 2, "red": 2, "yellow": 2, "blue": 1.5, "brown": 1, "gray": 1}, ("house",),
            {"small": ("cottage",), "barn": ("barn",)}, share=(0.36, 0.64),
        ),
        ObjectClass(
            "bench", "other", outdoor_objects.bench, {"": Extent(1.0, 1.0)}, {"plain": 1}, {"standing": 1},
            {"brown": 4, "green": 2, "gray": 1, "red": 1}, ("bench",), share=(0.32, 0.62), colour_rate=0.4,
        ),
        ObjectClass(
            "flower", "other", outdoor_objects.flower, {"": Extent(0.28, 0.9)},
            {"daisy": 2, "tulip": 2, "sunflower": 1},
            {"growing": 1}, {"red": 2, "yellow": 3, "pink": 2, "white": 1.5, "purple": 1, "orange": 1}, ("flower",),
            {"daisy": ("daisy",), "tulip": ("tulip",), "sunflower": ("sunflower",)}, share=(0.2, 0.5),
            colour_rate=0.7,
        ),
        ObjectClass(
            "ball", "other", outdoor_objects.ball, {"": Extent(0.215, 0.43)}, _even("plain", "striped", "panelled"),
            {"lying": 1}, _BRIGHT, ("ball",), share=(0.1, 0.25), colour_rate=0.75,
        ),
        ObjectClass(
            "kite", "other", outdoor_objects.kite, {"": Extent(0.52, 1.98)}, {"plain": 1}, {"flying": 1}, _BRIGHT,
            ("kite",), where="sky", share=(0.26, 0.4), colour_rate=0.7,
        ),
        ObjectClass(
            "umbrella", "other", outdoor_objects.umbrella, {"": Extent(0.7, 1.2), "parasol": Extent(1.24, 2.2)},
            {"parasol": 1}, {"open": 1}, _BRIGHT, ("umbrella",), {"parasol": ("parasol",)}, share=(0.34, 0.62),
            colour_rate=0.7,
        ),
        ObjectClass(
            "chair", "other", indoor_objects.chair, {"": Extent(0.34, 1.06)}, {"slats": 1, "padded": 1},
            {"standing": 1}, {"brown": 4, "white": 2, "red": 1.5, "blue": 1, "black": 1}, ("chair",),
            share=(0.28, 0.52), colour_rate=0.5,
        ),
        ObjectClass(
            "couch", "other", indoor_objects.couch, {"": Extent(1.24, 1.06)}, {"plain": 1, "cushions": 1},
            {"standing": 1}, {"gray": 2, "blue": 2, "red": 1.5, "green": 1.5, "brown": 1.5, "purple": 0.7},
            ("couch", "sofa"), share=(0.48, 0.8),
        ),
        ObjectClass(
            "table", "other", indoor_objects.table, {"": Extent(1.0, 0.9)}, {"square": 2, "round": 1}, {"standing": 1},
            {"brown": 6, "white": 2, "black": 1}, ("table",), share=(0.44, 0.74), colour_rate=0.35,
        ),
        ObjectClass(
            "cup", "other", indoor_objects.cup, {"": Extent(0.25, 0.31)}, {"plain": 2, "striped": 1}, {"standing": 1},
            {"white": 3, "red": 2, "blue": 2, "green": 1, "yellow": 1}, ("cup", "mug"), share=(0.1, 0.24),
        ),
        ObjectClass(
            "lamp", "other", indoor_objects.lamp, {"": Extent(0.24, 0.72), "standing": Extent(0.32, 1.66)},
            {"standing": 2, "table": 1}, {"shining": 1}, {"yellow": 3, "white": 2, "red": 1, "blue": 1, "orange": 1},
            ("lamp",), share=(0.24, 0.6), colour_rate=0.4,
        ),
        ObjectClass(
            "plant", "other", indoor_objects.plant, {"": Extent(0.6, 1.02)}, {"leafy": 1, "spiky": 1}, {"growing": 1},
            {"green": 1}, ("plant", "houseplant"), share=(0.22, 0.42), colour_rate=0.25,
        ),
        ObjectClass(
            "clock", "other", indoor_objects.clock, {"": Extent(0.28, 0.54)}, {"plain": 1}, {"hanging": 1},
            {"red": 1, "black": 2, "white": 2, "brown": 2, "blue": 1}, ("clock",), where="wall", share=(0.13, 0.22),
            colour_rate=0.4,
        ),
    )
}  # fmt: skip

SYNONYMS: dict[str, tuple[str, ...]] = {name: object_class.vocabulary for name, object_class in OBJECT_CLASSES.items()}
"""Words that captions use for every class, singular; `plural` gives the other form."""
