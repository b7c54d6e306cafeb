"""Recipes: how a captioner is trained, as one flat set of options, and the stages they stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from captrial.captioners.architectures.disc import Disc, RetrievalCritic
from captrial.captioners.architectures.sgae import Sgae
from captrial.captioners.architectures.stack_cap import StackCap
from captrial.captioners.architectures.transformer import MAX_WORDS
from captrial.captioners.base import Captioner
from captrial.errors import InputError
from captrial.metrics.ngram.cider_reward import CiderReward
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.spice import scene_tuples
from captrial.training.data import Batch, CaptionData, tokenize_captions
from captrial.training.loop import LoopSettings
from captrial.training.schedules import Schedule
from captrial.training.stages.disc_critic import Discriminate, TrainCritic
from captrial.training.stages.sgae_sentences import SentenceStage
from captrial.training.stages.stages import (
    CrossEntropy,
    SelfCritical,
    Stage,
    StageWiseSelfCritical,
    on_tokens,
)

LINKS = ("table+vectors", "vectors", "own")  # of nouns and classes, see captrial.training.supervision
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
    save_every: float = 60.0
    accumulate: int = 1  # pieces a batch is cut into to save memory; the same gradient, for means over words

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            least = int(name in AT_LEAST_ONE)
            if isinstance(value, int | float) and not value >= least:
                raise InputError(f"--set {name}={value}: must be at least {least}")
        if self.max_words >= MAX_WORDS:
            raise InputError(f"--set max_words={self.max_words}: must be under {MAX_WORDS}, as Transformers count")
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


def split_options(
    options: Mapping[str, str], captioner: type[Captioner], paper: Mapping[str, Any] | None = None
) -> tuple[Recipe, dict[str, Any]]:
    """`--set` options as a recipe and the captioner's own sizes; values are read as the type of the default.

    What is not set is as in the `paper`, where that says something.

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
            raise InputError(f"--set {name}: there is no such option; there are: {known}")
    return Recipe(**{**(paper or {}), **recipe}), sizes


def _parse(name: str, text: str, default: Any) -> Any:
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        return type(default)(text)
    except (KeyError, ValueError):
        raise InputError(f"--set {name}={text}: not a {type(default).__name__}") from None


def make_stages(
    captioner: Captioner,
    data: CaptionData,
    recipe: Recipe,
    attention_targets: Callable[[Batch], Tensor] | None = None,
    critic: RetrievalCritic | None = None,
    goes_on: bool = False,
) -> list[Stage]:
    """The stages a captioner goes through: its own first, then cross-entropy, then self-critical training.

    One that `goes_on` from a checkpoint has its sentence stages behind it (SGAE).
    """
    stages: list[Stage] = []
    if isinstance(captioner, Disc):
        assert critic is not None
        if not recipe.scst_epochs:
            raise InputError("--set scst_epochs=0: Disc is an att2in until its critic speaks; train that instead")
        schedule = recipe.rates(captioner, data, recipe.critic_epochs)
        stages.append(TrainCritic(critic, recipe.critic_epochs, schedule))
    if isinstance(captioner, Sgae) and not goes_on:
        stages.extend(_sentence_stages(captioner, data, recipe))
    if recipe.epochs:
        stages.append(
            CrossEntropy(
                captioner,
                recipe.epochs,
                recipe.rates(captioner, data, recipe.epochs),
                smoothing=recipe.smoothing,
                scheduled_sampling=recipe.scheduled_sampling,
                doubly_stochastic=recipe.doubly_stochastic,
                attention_weight=recipe.attention_weight,
                attention_targets=attention_targets,
            )
        )
    if recipe.scst_epochs:
        stages.append(_self_critical(captioner, data, recipe, critic))
    return stages


def _self_critical(
    captioner: Captioner, data: CaptionData, recipe: Recipe, critic: RetrievalCritic | None
) -> SelfCritical:
    table = DocumentFrequencies.of_tokens(data.token_ids, data.vocabulary, recipe.count_end)
    reward = on_tokens(CiderReward(table, data.token_ids, data.vocabulary, recipe.count_end))
    settings: dict[str, Any] = {
        "samples": recipe.scst_samples,
        "samples_by": recipe.scst_by,
        "baseline": recipe.baseline,
        "max_words": recipe.max_words,
    }
    arguments = (captioner, recipe.scst_epochs, recipe.scst_rates(captioner, data), reward)
    if isinstance(captioner, StackCap):
        return StageWiseSelfCritical(*arguments, **settings, eta=recipe.eta)
    if isinstance(captioner, Disc):
        return Discriminate(*arguments, **settings, critic=critic, weight=recipe.critic_weight)
    return SelfCritical(*arguments, **settings)


def _sentence_stages(captioner: Sgae, data: CaptionData, recipe: Recipe) -> list[Stage]:
    """SGAE's stages 1 and 2, on scene graphs of the training captions parsed by our SPICE."""
    words = tokenize_captions(data.samples)
    flat = iter(scene_tuples([" ".join(caption) for captions in words for caption in captions]))
    graphs = [[next(flat) for _ in captions] for captions in words]
    stages: list[Stage] = []
    for epochs, use_dictionary, name in (
        (recipe.sentence_epochs, False, "sentences"),
        (recipe.dictionary_epochs, True, "dictionary"),
    ):
        schedule = recipe.rates(captioner, data, epochs)
        stages.append(SentenceStage(captioner, epochs, schedule, graphs, data.vocabulary, use_dictionary, name=name))
    return stages
