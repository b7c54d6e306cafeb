"""Training of captioners: cross-entropy, self-critical training (SCST), supervised attention, exact resume.

| module | what is in it |
| --- | --- |
| `run` | `train` a preset on `TrainingData`, into a run folder |
| `recipe` | `Recipe`, all that `--set` can change, and the recipes of the papers |
| `stages`, `losses`, `schedules`, `loop` | what is optimised, how, at which rate; the loop itself |
| `data`, `feature_extraction` | batches of images with captions; features of a data set in a store |
| `attention_supervision` | target maps for the attention (Liu 2017) |
| `parallel` | several processes that train as one |
"""

from typing import TYPE_CHECKING

from captrial.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from captrial.training.recipe import PAPERS, Recipe
    from captrial.training.run import TrainingData, train

__all__ = ["PAPERS", "Recipe", "TrainingData", "train"]

__getattr__ = lazy_exports(
    __name__,
    {
        "recipe": "PAPERS Recipe",
        "run": "TrainingData train",
    },
)
