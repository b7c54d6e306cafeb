"""`ToyWorld`: rendered images by split and index, each with its complete annotations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError
from captrial.records import ImageRef, Phrase, Region, Sample
from captrial.toyworld.captions.caption_writer import ToyCaption, describe
from captrial.toyworld.captions.phrasing import DOING
from captrial.toyworld.drawing.rendering import Layer, Visibility, draw, paint, visible_parts
from captrial.toyworld.randomness import RandomStream
from captrial.toyworld.scene.generation import SPLITS, usual_scene, wild_scene
from captrial.toyworld.scene.layout import Scene, SceneObject
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES
from captrial.toyworld.scene.relations import Relation, relations
from captrial.toyworld.scene.robot import CameraView, robot_scene

SIZES = (32, 4096)  # pixels, the smallest and the largest
VISIBLE_SHARE = 0.45  # the share of an object that must be visible for captions to mention it
SMALLEST = 0.0008  # the share of the image that it must cover for captions to mention it
TRACE = 0.0001  # the share of the image that it must cover to be annotated at all


@dataclass(frozen=True, slots=True)
class ToyImage:
    """A rendered image and its sample: captions, regions, phrases and scene graph."""

    pixels: NDArray[np.uint8]  # (height, width, 3)
    sample: Sample


class ToyWorld:
    """Rendered images that depend only on (seed, split, index), not on order, machine or library versions.

    Splits: "train", "val" and "test" have the same distribution; "wild" has clutter, unusual objects and image effects;
    "robot" has sequences of `FRAMES` frames. Every index from 0 exists in every split.

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
        """The scene of an image, before anything is drawn: fast."""
        if split not in SPLITS:
            raise InputError(f"toy world: no split {split!r}; there are {', '.join(SPLITS)}")
        if index < 0:
            raise InputError(f"toy world: index {index} of {split} is negative; images are counted from 0")
        if split == "robot":
            return robot_scene(self.seed, index)
        return (wild_scene if split == "wild" else usual_scene)(self.seed, split, index)

    def sample(self, split: str, index: int) -> Sample:
        """The annotations of an image without its pixels: objects are drawn for their masks, the background is not."""
        scene = self.scene(split, index)
        return self._sample(split, index, scene, draw(scene, self.size))

    def render(self, split: str, index: int) -> ToyImage:
        """The image and its annotations."""
        scene = self.scene(split, index)
        layers = draw(scene, self.size)
        return ToyImage(paint(scene, layers, self.size), self._sample(split, index, scene, layers))

    def _sample(self, split: str, index: int, scene: Scene, layers: list[Layer | None]) -> Sample:
        size = self.size
        visible = {
            number: visibility
            for number, visibility in enumerate(visible_parts(scene, layers, size))
            if visibility is not None and visibility.area >= max(TRACE * size * size, 4)
        }
        mentionable = [number for number, visibility in visible.items() if _mentionable(visibility, size)]
        found = relations(scene, {number: visible[number].box for number in mentionable}, size)
        captions = describe(scene, mentionable, found, RandomStream(self.seed, split, index, "captions"))
        regions = {
            number: Region(visibility.box, scene.objects[number].label, 1.0, visibility.mask)
            for number, visibility in visible.items()
        }
        name = f"{split}_{index:06d}"
        return Sample(
            ImageRef(name, width=size, height=size, label=scene.place),
            tuple(caption.text for caption in captions),
            split,
            tuple(regions.values()),
            tuple(_phrases(caption, scene, regions) for caption in captions),
            _extra(scene, list(regions), mentionable, found),
        )


def _mentionable(visibility: Visibility, size: int) -> bool:
    return visibility.share >= VISIBLE_SHARE and visibility.area >= max(SMALLEST * size * size, 8)


def _phrases(caption: ToyCaption, scene: Scene, regions: dict[int, Region]) -> tuple[Phrase, ...]:
    phrases = []
    for mention in caption.mentions:
        shown = tuple(regions[number] for number in mention.objects)
        kinds = (OBJECT_CLASSES[scene.objects[mention.objects[0]].label].group,) if mention.objects else ("scene",)
        entity = "+".join(str(list(regions).index(number)) for number in mention.objects) or "scene"
        phrases.append(Phrase(mention.text, mention.start, mention.end, shown, entity, kinds))
    return tuple(phrases)


def noun(obj: SceneObject) -> str:
    """The most general noun for an object: its class, or for people "man", "woman", "boy", "girl"."""
    return obj.form if obj.label == "person" else obj.label


def attributes(obj: SceneObject) -> tuple[str, ...]:
    """The attributes of an object: colour, size, what it does."""
    doing = DOING.get(obj.label, {}).get(obj.pose, ())[:1]
    return (obj.colour, *((obj.size,) if obj.size else ()), *doing)


def _extra(scene: Scene, shown: list[int], mentionable: list[int], found: tuple[Relation, ...]) -> dict[str, object]:
    """Scene, light, scene graph (ids are indices of the regions), and the camera of a robot's frame."""
    position = {number: place for place, number in enumerate(shown)}
    graph = {
        "objects": [
            {"id": position[n], "label": obj.label, "noun": noun(obj), "attributes": list(attributes(obj))}
            for n, obj in ((n, scene.objects[n]) for n in mentionable)
        ],
        "relations": [[position[a], predicate, position[b]] for a, predicate, b in found],
    }
    extra: dict[str, object] = {
        "scene": scene.place,
        "light": scene.light,
        "effects": list(scene.effects),
        "mentionable": [position[n] for n in mentionable],
        "scene_graph": graph,
    }
    if isinstance(scene.view, CameraView):
        view = scene.view
        extra["sequence"] = view.sequence
        extra["frame"] = view.frame
        extra["camera"] = {"x": view.x, "z": view.z, "yaw": view.yaw, "height": view.height}
        extra["tracks"] = [scene.objects[n].track for n in shown]
    return extra
