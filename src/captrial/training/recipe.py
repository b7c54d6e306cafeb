"""Recipes: how a captioner is trained, as one flat set of options (`Recipe`), and the recipes of the papers (`PAPERS`).

`split_options` turns what `--set` gives into a recipe and the sizes of the captioner.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from captrial.captioners.architectures.transformer import MAX_WORDS
from captrial.captioners.base import Captioner
from captrial.errors import InputError, did_you_mean
from captrial.training.data import CaptionData
from captrial.training.loop import LoopSettings
from captrial.training.schedules import Schedule
from captrial.vision.devices import AUTO

LINKS = ("table+vectors", "vectors", "own")  # between nouns and classes, see captrial.training.attention_supervision
SHARES = ("scheduled_sampling", "smoothing", "decay", "scst_decay")
AT_LEAST_ONE = (
    "batch",
    "captions",
    "max_words",
    "min_count",
    "scst_samples",
    "patience",
    "beam",
    "accumulate",
    "decay_every",
)


@dataclass(frozen=True)
class Recipe:
    """Everything `--set` can change about training; the sizes of a captioner are its own options."""

    epochs: int = 15  # of cross-entropy
    scst_epochs: int = 0
    batch: int = 32  # images a step
    captions: int = 5  # an image and step
    max_words: int = 20
    min_count: int = 5  # a word must stand this often in the training captions to be in the vocabulary
    rate: float = 7e-4
    schedule: str = "cosine"
    warmup: int = 500
    decay: float = 0.8  # factor of one decay of the rate (step, plateau)
    decay_every: int = 3  # epochs between two decays (step)
    smoothing: float = 0.1
    scheduled_sampling: float = 0.0
    doubly_stochastic: float = 0.0
    supervision: str = "implicit"  # or "strong", "weak": supervised attention (Liu 2017)
    links: str = LINKS[0]  # weak: or "vectors", or "own", those of the captioner a run goes on from
    link_vectors: str = ""  # weak: a GloVe or word2vec file for the links; by default the installed vectors
    link_threshold: float = 0.0  # weak: the similarity from which on they are linked; 0: as calibrated, "own" 1/3
    masks: bool = False  # paint the masks of regions that have one as targets, instead of their boxes
    attention_weight: float = 1.0
    scst_rate: float = 2e-5
    scst_schedule: str = "constant"
    scst_warmup: int = 0
    scst_decay: float = 0.8
    scst_samples: int = 5
    scst_by: str = "beam"  # or "sampling"
    baseline: str = "mean"  # or "others", "greedy"
    count_end: bool = True  # EOS is a word of the reward
    eta: float = 1.0  # Stack-Cap: weight of the gain over the stage before
    critic_epochs: int = 8  # Disc
    critic_weight: float = 1.0  # Disc
    sentence_epochs: int = 2  # SGAE, stage 1
    dictionary_epochs: int = 2  # SGAE, stage 2
    average: float = 0.0  # self-critical: decay of a moving average of the weights, kept instead of them
    patience: int = 5
    weight_decay: float = 0.01
    beta: float = 0.98  # Adam's second: how long it remembers squares of gradients
    clip: float = 1.0  # the gradient's norm; 0 for none
    clamp: float = 0.0  # each of the gradient's elements, to plus or minus this; 0 for none
    beam: int = 1  # of the validation captions
    seed: int = 0
    autocast: bool = False
    device: str = AUTO  # cpu, cuda, cuda:1; a run may continue on another one
    save_every: float = 60.0
    accumulate: int = 1  # pieces a batch is cut into to save memory; the same gradient, for means over words

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            least = int(name in AT_LEAST_ONE)
            if isinstance(value, int | float) and not least <= value < math.inf:
                raise InputError(f"--set {name}={value}: must be a number of at least {least}")
            if name in SHARES and value > 1:
                raise InputError(f"--set {name}={value}: must be at most 1, it is a share")
        if self.max_words >= MAX_WORDS:
            raise InputError(
                f"--set max_words={self.max_words}: must be under {MAX_WORDS}, the positions of a Transformer"
            )
        if (self.link_vectors or self.link_threshold) and self.supervision != "weak":
            raise InputError("--set link_vectors, link_threshold: are of weak supervision; add --set supervision=weak")
        if self.link_vectors and self.links == "own":
            raise InputError("--set link_vectors: links=own takes the captioner's vectors; choose one of them")
        for name in ("average", "beta"):
            if getattr(self, name) >= 1:
                raise InputError(f"--set {name}={getattr(self, name)}: must be under 1, or nothing new would count")
        if self.average and not self.scst_epochs:
            raise InputError(f"--set average={self.average}: is of self-critical training; add --set scst_epochs=...")
        if self.links != LINKS[0] and self.supervision != "weak":
            raise InputError(f"--set links={self.links}: is of weak supervision; add --set supervision=weak")
        if not self.epochs and not self.scst_epochs:
            raise InputError("--set epochs=0: there is nothing to train without scst_epochs")

    def loop(self) -> LoopSettings:
        """The part that the loop needs."""
        names = {entry.name for entry in dataclasses.fields(LoopSettings)}
        return LoopSettings(**{name: getattr(self, name) for name in names})

    def rates(self, captioner: Captioner, data: CaptionData, epochs: int) -> Schedule:
        """The schedule of a stage of `epochs` before self-critical training."""
        steps = data.count_batches(self.batch)
        return Schedule(
            self.schedule,  # type: ignore[arg-type]
            self.rate,
            warmup=self.warmup if self.schedule == "noam" else _rise(self.warmup, epochs * steps),
            total=epochs * steps,
            width=captioner.config.width,
            every=self.decay_every * steps,
            decay=self.decay,
        )

    def scst_rates(self, captioner: Captioner, data: CaptionData) -> Schedule:
        """The schedule of self-critical training."""
        steps = data.count_batches(self.batch)
        return Schedule(
            self.scst_schedule,  # type: ignore[arg-type]
            self.scst_rate,
            warmup=_rise(self.scst_warmup, self.scst_epochs * steps),
            total=self.scst_epochs * steps,
            width=captioner.config.width,
            every=self.decay_every * steps,
            decay=self.scst_decay,
        )


def _rise(warmup: int, steps: int) -> int:
    """Steps of warm-up, in a stage of so many: no more than a quarter of them."""
    return min(warmup, max(1, steps // 4))


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` pairs, as `--set` gives them, by key.

    >>> parse_settings(["epochs=3", "width=64"])
    {'epochs': '3', 'width': '64'}
    """
    chosen = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or not value:
            raise InputError(f"--set {pair}: write KEY=VALUE, e.g. --set epochs=3")
        chosen[key] = value
    return chosen


def split_options(
    options: Mapping[str, str], captioner: type[Captioner], paper: Mapping[str, Any] | None = None
) -> tuple[Recipe, dict[str, Any]]:
    """`--set` options as a recipe and the captioner's own sizes; values are read as the type of the default.

    What is not set is taken from the `paper`, an entry of `PAPERS`, and else has its default.

    >>> from captrial.captioners.architectures.m2 import M2
    >>> recipe, sizes = split_options({"epochs": "3", "width": "64"}, M2)
    >>> recipe.epochs, sizes
    (3, {'width': 64})
    """
    of_recipe = {entry.name: entry for entry in dataclasses.fields(Recipe)}
    of_captioner = {
        entry.name: entry for entry in dataclasses.fields(captioner.Config) if entry.name not in ("words", "features")
    }
    recipe: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    for name, text in options.items():
        if name in of_captioner and name not in of_recipe:
            sizes[name] = _parse(name, text, of_captioner[name].default)
        elif name in of_recipe:
            recipe[name] = _parse(name, text, of_recipe[name].default)
        else:
            known = ", ".join(sorted({*of_recipe, *of_captioner}))
            near = did_you_mean(name, {*of_recipe, *of_captioner})
            raise InputError(f"--set {name}: there is no such option; there are: {known}{near}")
    return Recipe(**{**(paper or {}), **recipe}), sizes


def _parse(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        return type(default)(text)
    except (KeyError, ValueError):
        raise InputError(f"--set {name}={text}: not a {type(default).__name__}") from None


# How the papers, or their authors' code, train the presets of their size; `--set` changes any of it. Batches are images
# with five captions each: where a source trains on single captions, a batch has as many images as make about as many
# captions. Self-critical training takes place when `scst_epochs` are asked for; Disc's is part of its preset, since it
# is Att2in until its critic is used. Other small presets have no entry: they are trained by the defaults of `Recipe`.

# Rate down by a fifth every few epochs, gradients clamped, scheduled sampling (Luo's code).
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
# "Attention is all you need", its rate peaking after 10 000 steps (Cornia 2022 for Transformer, SMArT and M2).
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

# Xu et al.: no limit on gradients, captions of up to 100 words, nothing of Luo's code.
_SHOW_ATTEND_TELL = {
    **_STEPS, "schedule": "constant", "rate": 2e-4, "batch": 13, "scheduled_sampling": 0.0, "doubly_stochastic": 1.0,
    "patience": 10, "clamp": 0.0, "max_words": 100,
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
