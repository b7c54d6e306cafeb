"""The toy world: rendered images with complete truth, deterministic in (seed, split, index).

>>> from captrial.toyworld import ToyWorld
>>> sample = ToyWorld(seed=0, size=64).sample("train", 0)
>>> len(sample.captions) == len(sample.phrases) == 5
True
"""

from captrial.data.datasets.toyworld import read_phrases, read_toyworld
from captrial.toyworld.captions.caption_writer import tokens
from captrial.toyworld.captions.phrasing import SCENE_WORDS
from captrial.toyworld.export import write_toyworld
from captrial.toyworld.scene.object_classes import KINDS, SYNONYMS, plural
from captrial.toyworld.scene.places import SCENES
from captrial.toyworld.scene.robot import FRAMES
from captrial.toyworld.scene.scenes import SPLITS
from captrial.toyworld.world import ToyImage, ToyWorld

__all__ = [
    "FRAMES",
    "KINDS",
    "SCENES",
    "SCENE_WORDS",
    "SPLITS",
    "SYNONYMS",
    "ToyImage",
    "ToyWorld",
    "plural",
    "read_phrases",
    "read_toyworld",
    "tokens",
    "write_toyworld",
]
