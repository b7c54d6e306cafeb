"""Scenes by number: what is on image `index` of a split, decided by (seed, split, index) alone."""

from __future__ import annotations

from dataclasses import replace

from captrial.toyworld.randomness import Dice
from captrial.toyworld.scene.interactions import STORIES
from captrial.toyworld.scene.layout import Layout, Scene, Thing
from captrial.toyworld.scene.object_classes import KINDS
from captrial.toyworld.scene.places import PLACES, Place

SPLITS = ("train", "val", "test", "wild", "robot")
MOST = 3  # things on an in-distribution image
EFFECTS = {"noise": 3.0, "blur": 1.5, "haze": 2.0, "dim": 1.0, "leaves": 1.5, "fence": 1.0, "rain": 1.5, "none": 2.0}


def usual_scene(seed: int, split: str, index: int) -> Scene:
    """A scene as the toy world has them: one story, now and then something behind it, at most three things."""
    dice = Dice(seed, split, index, "scene")
    place = PLACES[dice.choice(list(PLACES))]
    stage = Layout(place, dice)
    STORIES[dice.weighted(place.stories)](stage)
    while len(stage.things) < MOST and dice.chance(0.45):
        _add_behind(stage)
    return stage.scene(dice.weighted(place.lights))


def _add_behind(stage: Layout) -> None:
    """Something of the place that is not there yet, clear of the story."""
    present = {thing.kind for thing in stage.things}
    choices = {name: weight for name, weight in stage.place.backdrop.items() if name not in present}
    if choices:
        stage.put(stage.looks(stage.dice.weighted(choices)))


def wild_scene(seed: int, split: str, index: int) -> Scene:
    """A scene against all habits: four to seven things from anywhere in any colour, and bad weather."""
    dice = Dice(seed, split, index, "scene")
    place = PLACES[dice.choice(list(PLACES))]
    stage = Layout(place, dice, strange=0.55)
    if dice.chance(0.6):
        STORIES[dice.choice(list(STORIES))](stage)
    wanted = dice.integer(4, 7)
    while len(stage.things) < wanted:
        stage.put(_free(stage.looks(dice.choice(list(KINDS))), place))
    effects = tuple(sorted({dice.weighted(EFFECTS), dice.weighted(EFFECTS)} - {"none"}))
    return stage.scene(dice.weighted(place.lights), effects)


def _free(thing: Thing, place: Place) -> Thing:
    """The thing as it can be in this place: birds do not fly indoors."""
    if place.indoor and thing.pose == "flying" and thing.kind == "bird":
        return replace(thing, pose="standing")
    return thing
