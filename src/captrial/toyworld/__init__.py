"""The toy world: a rendered data set with complete annotations, deterministic in (seed, split, index).

scene/           what is on an image: places, object classes, layout, interactions, relations, the robot's room
drawing/         rendering: canvases, objects, backgrounds, light and effects
captions/        five captions per image, with phrases that refer to objects
world            `ToyWorld`: images and samples by index
dataset_writer   `write_toyworld`: a toy world on disk; `read_toyworld` reads it

>>> from captrial.toyworld import ToyWorld
>>> sample = ToyWorld(seed=0, size=64).sample("train", 0)
>>> len(sample.captions) == len(sample.phrases) == 5
True
"""

from captrial.data.datasets.toyworld import read_phrases, read_toyworld
from captrial.toyworld.captions.caption_writer import tokens
from captrial.toyworld.captions.phrasing import SCENE_WORDS
from captrial.toyworld.contact_sheet import draw_sheet
from captrial.toyworld.dataset_writer import ToyWorldSettings, write_toyworld
from captrial.toyworld.scene.generation import SPLITS
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES, SYNONYMS, plural
from captrial.toyworld.scene.places import SCENES
from captrial.toyworld.scene.robot import FRAMES
from captrial.toyworld.world import ToyImage, ToyWorld

__all__ = [
    "FRAMES",
    "OBJECT_CLASSES",
    "SCENES",
    "SCENE_WORDS",
    "SPLITS",
    "SYNONYMS",
    "ToyImage",
    "ToyWorld",
    "ToyWorldSettings",
    "draw_sheet",
    "plural",
    "read_phrases",
    "read_toyworld",
    "tokens",
    "write_toyworld",
]
