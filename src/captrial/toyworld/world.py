"""The toy world: images by number, each with everything that is true about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError
from captrial.records import ImageRef, Phrase, Region, Sample
from captrial.toyworld.captions.caption_writer import ToyCaption, describe
from captrial.toyworld.captions.phrasing import DOING
from captrial.toyworld.drawing.rendering import paint
from captrial.toyworld.drawing.sprites import (
    Layer,
    Sight,
    draw,
    sights,
)
from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.layout import Scene, Thing
from captrial.toyworld.scene.object_classes import KINDS
from captrial.toyworld.scene.relations import Relation, relations
from captrial.toyworld.scene.robot import CameraView, robot_scene
from captrial.toyworld.scene.scenes import SPLITS, usual_scene, wild_scene

SIZES = (32, 4096)  # pixels, the smallest and the largest
VISIBLE_SHARE = 0.45  # of a thing that must be seen before a caption may speak of it
SMALLEST = 0.0008  # of the image's area, likewise
TRACE = 0.0001  # of the image's area; less than this is not annotated at all


@dataclass(frozen=True, slots=True)
class ToyImage:
    """A rendered image and its truth."""

    pixels: NDArray[np.uint8]  # (height, width, 3)
    sample: Sample


class ToyWorld:
    """Images of a small world, the same for the same (seed, split, index) wherever and in whatever order rendered.

    Splits: "train", "val" and "test" are alike; "wild" is cluttered, strange and spoiled; "robot" has sequences of
    `FRAMES` frames. Any index from 0 up exists in every split.

    >>> world = ToyWorld(seed=0, size=64)
    >>> image = world.render("train", 3)
    >>> image.pixels.shape, len(image.sample.captions)
    ((64, 64, 3), 5)
    """

    def __init__(self, seed: int = 0, size: int = 256) -> None:
        if size < SIZES[0]:
            raise InputError(f"toy world: size {size} is too small to recognise anything; use {SIZES[0]} or more")
        if size > SIZES[1]:
            raise InputError(f"toy world: size {size} would take too much memory; use {SIZES[1]} or less")
        self.seed = seed
        self.size = size

    def scene(self, split: str, index: int) -> Scene:
        """What is on the image, before anything is drawn: cheap."""
        if split not in SPLITS:
            raise InputError(f"toy world: no split {split!r}; there are {', '.join(SPLITS)}")
        if index < 0:
            raise InputError(f"toy world: index {index} of {split} is negative; images are counted from 0")
        if split == "robot":
            return robot_scene(self.seed, index)
        return (wild_scene if split == "wild" else usual_scene)(self.seed, split, index)

    def sample(self, split: str, index: int) -> Sample:
        """The truth about an image without its pixels: things are drawn for their masks, the place is not."""
        scene = self.scene(split, index)
        return self._sample(split, index, scene, draw(scene, self.size))

    def render(self, split: str, index: int) -> ToyImage:
        """The image and the truth about it."""
        scene = self.scene(split, index)
        layers = draw(scene, self.size)
        return ToyImage(paint(scene, layers, self.size), self._sample(split, index, scene, layers))

    def _sample(self, split: str, index: int, scene: Scene, layers: list[Layer | None]) -> Sample:
        size = self.size
        visible = {
            number: sight
            for number, sight in enumerate(sights(scene, layers, size))
            if sight is not None and sight.area >= max(TRACE * size * size, 4)
        }
        seen = [number for number, sight in visible.items() if _mentionable(sight, size)]
        found = relations(scene, {number: visible[number].box for number in seen}, size)
        sentences = describe(scene, seen, found, Dice(self.seed, split, index, "captions"))
        regions = {
            number: Region(sight.box, scene.things[number].kind, 1.0, sight.mask) for number, sight in visible.items()
        }
        name = f"{split}_{index:06d}"
        return Sample(
            ImageRef(name, width=size, height=size, label=scene.place),
            tuple(sentence.text for sentence in sentences),
            split,
            tuple(regions.values()),
            tuple(_phrases(sentence, scene, regions) for sentence in sentences),
            _extra(scene, list(regions), seen, found),
        )


def _mentionable(sight: Sight, size: int) -> bool:
    return sight.share >= VISIBLE_SHARE and sight.area >= max(SMALLEST * size * size, 8)


def _phrases(sentence: ToyCaption, scene: Scene, regions: dict[int, Region]) -> tuple[Phrase, ...]:
    phrases = []
    for mention in sentence.mentions:
        shown = tuple(regions[number] for number in mention.things)
        kinds = (KINDS[scene.things[mention.things[0]].kind].group,) if mention.things else ("scene",)
        entity = "+".join(str(list(regions).index(number)) for number in mention.things) or "scene"
        phrases.append(Phrase(mention.text, mention.start, mention.end, shown, entity, kinds))
    return tuple(phrases)


def noun(thing: Thing) -> str:
    """The plainest word for a thing: its class, or for people "man", "woman", "boy", "girl"."""
    return thing.form if thing.kind == "person" else thing.kind


def attributes(thing: Thing) -> tuple[str, ...]:
    """What can be said of one thing alone: colour, size, what it does."""
    doing = DOING.get(thing.kind, {}).get(thing.pose, ())[:1]
    return (thing.colour, *((thing.size,) if thing.size else ()), *doing)


def _extra(scene: Scene, shown: list[int], seen: list[int], found: tuple[Relation, ...]) -> dict[str, object]:
    """Scene, light, scene graph (numbers are those of the regions), and for a robot's frame where the camera was."""
    position = {number: place for place, number in enumerate(shown)}
    graph = {
        "objects": [
            {"id": position[n], "label": thing.kind, "noun": noun(thing), "attributes": list(attributes(thing))}
            for n, thing in ((n, scene.things[n]) for n in seen)
        ],
        "relations": [[position[a], predicate, position[b]] for a, predicate, b in found],
    }
    extra: dict[str, object] = {
        "scene": scene.place,
        "light": scene.light,
        "effects": list(scene.effects),
        "mentionable": [position[n] for n in seen],
        "scene_graph": graph,
    }
    if isinstance(scene.view, CameraView):
        view = scene.view
        extra["sequence"] = view.sequence
        extra["frame"] = view.frame
        extra["camera"] = {"x": view.x, "z": view.z, "yaw": view.yaw, "height": view.height}
        extra["tracks"] = [scene.things[n].track for n in shown]
    return extra
