"""How the papers (or their authors' code) train what a preset of their size is; `--set` changes any of it.

Batches are images, each with five captions. Where a source trains on single captions, the images of a batch are as
many as make about as many captions. Self-critical training takes place when `scst_epochs` are asked for, in the way
given here; Disc's is part of its preset, since it is Att2in until its critic speaks. Other small presets have no entry:
they are trained by `Recipe`'s defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Rate down by a fifth every few epochs, gradients clamped, some of the model's own words read (Luo's code).
_STEPS: dict[str, Any] = {
    "schedule": "step",
    "rate": 5e-4,
    "warmup": 0,
    "decay": 0.8,
    "batch": 10,
    "smoothing": 0.0,
    "scheduled_sampling": 0.25,
    "weight_decay": 0.0,
    "beta": 0.999,
    "clip": 0.0,
    "clamp": 0.1,
    "epochs": 30,
    "scst_rate": 5e-5,
    "scst_by": "sampling",
    "baseline": "greedy",
}
# "Attention is all you need", its rate peaking after 10 000 steps (SPEC 1 and Cornia 2022 for Transformer, SMArT and M2).
_NOAM: dict[str, Any] = {
    "schedule": "noam",
    "rate": 1.0,
    "warmup": 10_000,
    "batch": 10,
    "smoothing": 0.0,
    "weight_decay": 0.0,
    "clip": 0.0,
    "epochs": 30,
    "scst_rate": 5e-6,
    "scst_by": "beam",
    "baseline": "mean",
    "beam": 5,
}

_SHOW_ATTEND_TELL = {
    **_STEPS, "schedule": "constant", "rate": 2e-4, "batch": 13, "scheduled_sampling": 0.0, "doubly_stochastic": 1.0,
    "patience": 10,
}  # fmt: skip
_ORT = {
    **_NOAM, "batch": 15, "clamp": 0.1, "beam": 1, "scst_rate": 5.4e-5, "scst_schedule": "step", "scst_by": "sampling",
    "baseline": "greedy",
}  # fmt: skip

# fmt: off
PAPERS: Mapping[str, Mapping[str, Any]] = {
    "show_attend_tell": _SHOW_ATTEND_TELL,
    "show_attend_tell-flickr30k": _SHOW_ATTEND_TELL,
    "att2in": _STEPS,
    "stack_cap": {**_STEPS, "rate": 4e-4, "batch": 16},
    "top_down": _STEPS,
    "disc": {**_STEPS, "batch": 128, "captions": 1, "decay_every": 15, "epochs": 200, "critic_epochs": 30,
             "scst_epochs": 100, "scst_samples": 1, "scst_rate": 2.7e-5, "scst_schedule": "step"},
    "disc-small": {"scst_epochs": 5},
    "ort": _ORT,
    "ort-no-geometry": _ORT,
    "sgae": {**_STEPS, "batch": 100, "decay_every": 5, "sentence_epochs": 10, "dictionary_epochs": 10, "epochs": 20,
             "scst_rate": 8.4e-5, "scst_schedule": "step"},
    "aoa": {**_STEPS, "rate": 2e-4, "smoothing": 0.2, "scheduled_sampling": 0.5, "epochs": 25,
            "scst_rate": 2e-5, "scst_schedule": "plateau", "scst_decay": 0.5},
    "x_lan": {**_NOAM, "batch": 40, "epochs": 70, "scheduled_sampling": 0.5, "clip": 0.5,
              "scst_rate": 1e-5, "scst_schedule": "plateau", "scst_by": "sampling", "baseline": "greedy"},
    "transformer": _NOAM,
    "smart": _NOAM,
    "m2": _NOAM,
    "transformer-pre-norm": {**_NOAM, "warmup": 20_000, "epochs": 15, "clamp": 0.1, "beam": 1, "scst_by": "sampling",
                             "baseline": "others"},
}
# fmt: on
