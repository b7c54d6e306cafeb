"""Training of captioners: cross-entropy, self-critical training (SCST), supervised attention, exact resume.

| module | what is in it |
| --- | --- |
| `run` | `train` a preset on `TrainingData`, into a run folder |
| `recipe` | `Recipe`, all that `--set` can change, and the recipes of the papers |
| `stages`, `losses`, `schedules`, `loop` | what is optimised, how, at which rate; the loop itself |
| `data`, `feature_extraction` | batches of images with captions; features of a data set in a store |
| `supervision` | target maps for the attention (Liu 2017) |
| `parallel`, `training_state` | several processes; the state on disk that a run resumes from |
| `localiser_training` | the noun localiser of `captrial.vision` |
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captrial.training.recipe import PAPERS, Recipe
    from captrial.training.run import TrainingData, train

__all__ = ["PAPERS", "Recipe", "TrainingData", "train"]


def __getattr__(name: str) -> Any:  # importing the package does not import torch
    from importlib import import_module

    if name in __all__:
        return getattr(
            import_module(f"captrial.training.{'run' if name in ('TrainingData', 'train') else 'recipe'}"), name
        )
    raise AttributeError(f"module 'captrial.training' has no attribute {name!r}")
