"""The toy world: rendered pictures with complete truth, deterministic in (seed, split, index).

>>> from captrial.data.toyworld import ToyWorld
>>> sample = ToyWorld(seed=0, size=64).sample("train", 0)
>>> len(sample.captions) == len(sample.phrases) == 5
True
"""

from captrial.data.toyworld.kinds import KINDS, SYNONYMS, plural
from captrial.data.toyworld.phrasing import SCENE_WORDS
from captrial.data.toyworld.places import SCENES
from captrial.data.toyworld.read import read_phrases, read_toyworld
from captrial.data.toyworld.robot import FRAMES
from captrial.data.toyworld.scenes import SPLITS
from captrial.data.toyworld.speak import tokens
from captrial.data.toyworld.world import ToyPicture, ToyWorld
from captrial.data.toyworld.write import write_toyworld

__all__ = [
    "FRAMES",
    "KINDS",
    "SCENES",
    "SCENE_WORDS",
    "SPLITS",
    "SYNONYMS",
    "ToyPicture",
    "ToyWorld",
    "plural",
    "read_phrases",
    "read_toyworld",
    "tokens",
    "write_toyworld",
]
