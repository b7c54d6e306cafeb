"""The recipes of the papers' sizes have the values that the papers or their authors' code have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from captrial.captioners import ARCHITECTURES, PRESETS
from captrial.training.recipe import PAPERS, Recipe

COCO = 113_287  # training images of the Karpathy split

STEP = {"schedule": "step", "warmup": 0, "decay": 0.8, "captions": 5, "smoothing": 0, "scheduled_sampling": 0.25}
NOAM = {"schedule": "noam", "rate": 1, "warmup": 10_000, "captions": 5, "smoothing": 0, "scheduled_sampling": 0}
GREEDY = {"baseline": "greedy", "scst_by": "sampling", "scst_samples": 5}
BEAM_MEAN = {"baseline": "mean", "scst_by": "beam", "scst_samples": 5}
FIXED, DECAYING = {"scst_schedule": "constant"}, {"scst_schedule": "step", "scst_decay": 0.8}

# fmt: off
SHOW_ATTEND_TELL = {"schedule": "constant", "rate": 2e-4, "warmup": 0, "patience": 10, "smoothing": 0,
                    "scheduled_sampling": 0, "batch": 13, "captions": 5, "doubly_stochastic": 1,  # 64 captions a batch
                    "clip": 0, "clamp": 0, "max_words": 100}
ORT = {**NOAM, "batch": 15, "epochs": 30, **GREEDY, "scst_rate": 5.4e-5, **DECAYING, "decay_every": 3}
M2 = {**NOAM, "batch": 10, "patience": 5, **BEAM_MEAN, "scst_rate": 5e-6, **FIXED, "beam": 5}  # 50 captions a batch

# What nobody prints is left out. SCST of Disc and SGAE goes on from where cross-entropy's rate has come to.
PRINTED: dict[str, dict[str, Any]] = {
    "show_attend_tell": SHOW_ATTEND_TELL,
    "show_attend_tell-flickr30k": SHOW_ATTEND_TELL,
    "att2in": {**STEP, "rate": 5e-4, "decay_every": 3, "batch": 10, "epochs": 30, **GREEDY, "scst_rate": 5e-5, **FIXED},
    "stack_cap": {**STEP, "rate": 4e-4, "decay_every": 3, "batch": 16, **GREEDY, "eta": 1},
    "top_down": {**STEP, "rate": 5e-4, "decay_every": 3, "batch": 10, "epochs": 30, "scst_rate": 5e-5,
                 "scst_samples": 5},
    "disc": {**STEP, "rate": 5e-4, "decay_every": 15, "batch": 128, "captions": 1, "epochs": 200, "critic_epochs": 30,
             "critic_weight": 1, **GREEDY, "scst_samples": 1, **DECAYING,
             "scst_rate": pytest.approx(5e-4 * 0.8 ** (200 // 15), rel=0.02)},
    "ort": ORT,
    "ort-no-geometry": ORT,
    "sgae": {**STEP, "rate": 5e-4, "decay_every": 5, "batch": 100, "sentence_epochs": 10, "dictionary_epochs": 10,
             "epochs": 40 - 10 - 10, **GREEDY, **DECAYING,
             "scst_rate": pytest.approx(5e-4 * 0.8 ** (40 // 5), rel=0.02)},
    "aoa": {**STEP, "rate": 2e-4, "decay_every": 3, "batch": 10, "epochs": 25, "smoothing": 0.2,
            "scheduled_sampling": 0.5, **GREEDY, "scst_rate": 2e-5, "scst_schedule": "plateau", "scst_decay": 0.5},
    "x_lan": {**NOAM, "batch": 40, "epochs": 70, "scheduled_sampling": 0.5, "clip": 0.5,
              **GREEDY, "scst_rate": 1e-5, "scst_schedule": "plateau", "scst_decay": 0.8},
    "transformer": M2,
    "smart": M2,
    "m2": M2,
    "transformer-pre-norm": {**NOAM, "warmup": 20_000, "batch": 10, "epochs": 15, "baseline": "others",
                             "scst_by": "sampling", "scst_samples": 5, "scst_rate": 5e-6, **FIXED},
}
# fmt: on


def test_every_paper_is_printed() -> None:
    assert PRINTED.keys() == PAPERS.keys() - {"disc-small"}  # which no paper has


@pytest.mark.parametrize("preset", PRINTED)
def test_recipe_is_the_paper_s(preset: str) -> None:
    recipe = Recipe(**PAPERS[preset])
    assert {name: getattr(recipe, name) for name in PRINTED[preset]} == PRINTED[preset]


@pytest.mark.parametrize("preset", ["transformer", "smart", "m2"])
def test_self_critical_training_has_one_rate_from_its_first_step_to_its_last(preset: str) -> None:
    """As many steps as on COCO: among a few hundred a rise would be too short to be seen."""
    recipe = Recipe(**PAPERS[preset], scst_epochs=5)
    config = ARCHITECTURES[PRESETS[preset].architecture].captioner.Config
    captioner = SimpleNamespace(config=config(words=10_000, features=2048))
    data = SimpleNamespace(count_batches=lambda size: COCO // size)
    schedule = recipe.scst_rates(captioner, data)  # type: ignore[arg-type]
    last = recipe.scst_epochs * data.count_batches(recipe.batch)
    assert {schedule.at(step) for step in range(1, last + 1)} == {5e-6}
