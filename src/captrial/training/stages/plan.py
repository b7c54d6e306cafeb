"""The stages of a run: those that an architecture has of its own, cross-entropy, self-critical training.

An architecture with stages of its own has a module in this package and an entry in `OWN_STAGES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from captrial.captioners.architectures.disc import Disc, RetrievalCritic
from captrial.captioners.architectures.sgae import Sgae
from captrial.captioners.architectures.stack_cap import StackCap
from captrial.captioners.base import Captioner
from captrial.errors import InputError
from captrial.metrics.ngram.cider_reward import CiderReward
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.spice import scene_tuples
from captrial.training.data import Batch, CaptionData, tokenize_captions
from captrial.training.recipe import Recipe
from captrial.training.stages.base import CrossEntropy, SelfCritical, Stage, on_tokens
from captrial.training.stages.disc_stages import Discriminate, TrainCritic
from captrial.training.stages.sgae_stages import SentenceStage
from captrial.training.stages.stack_cap_stages import StageWiseSelfCritical


@dataclass(frozen=True, eq=False)
class StageInputs:
    """What stages are made from."""

    captioner: Any  # an architecture's own stages know its class
    data: CaptionData
    recipe: Recipe
    critic: RetrievalCritic | None = None


@dataclass(frozen=True)
class OwnStages:
    """The stages that an architecture has of its own."""

    first: Callable[[StageInputs], list[Stage]] = lambda inputs: []
    repeats: bool = False  # whether `first` is needed again by a run that continues from a checkpoint
    self_critical: type[SelfCritical] = SelfCritical
    options: Callable[[StageInputs], dict[str, Any]] = lambda inputs: {}  # more arguments of `self_critical`


def make_stages(
    captioner: Captioner,
    data: CaptionData,
    recipe: Recipe,
    attention_targets: Callable[[Batch], Tensor] | None = None,
    critic: RetrievalCritic | None = None,
    goes_on: bool = False,
) -> list[Stage]:
    """The stages of a captioner: its own first, then cross-entropy, then self-critical training.

    One that `goes_on` from a checkpoint has its sentence stages behind it (SGAE).
    """
    inputs = StageInputs(captioner, data, recipe, critic)
    own = OWN_STAGES.get(type(captioner), OwnStages())
    stages = own.first(inputs) if own.repeats or not goes_on else []
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
        stages.append(_self_critical(inputs, own))
    return stages


def _self_critical(inputs: StageInputs, own: OwnStages) -> SelfCritical:
    captioner, data, recipe = inputs.captioner, inputs.data, inputs.recipe
    table = DocumentFrequencies.of_tokens(data.token_ids, data.vocabulary, recipe.count_end)
    reward = on_tokens(CiderReward(table, data.token_ids, data.vocabulary, recipe.count_end))
    return own.self_critical(
        captioner,
        recipe.scst_epochs,
        recipe.scst_rates(captioner, data),
        reward,
        samples=recipe.scst_samples,
        samples_by=recipe.scst_by,
        baseline=recipe.baseline,
        max_words=recipe.max_words,
        **own.options(inputs),
    )


def _critic_stages(inputs: StageInputs) -> list[Stage]:
    """Disc: the retrieval critic is trained before the captioner."""
    recipe, critic = inputs.recipe, inputs.critic
    assert critic is not None
    if not recipe.scst_epochs:
        raise InputError("--set scst_epochs=0: without its critic's reward Disc is an att2in; train that instead")
    schedule = recipe.rates(inputs.captioner, inputs.data, recipe.critic_epochs)
    return [TrainCritic(critic, recipe.critic_epochs, schedule)]


def _sentence_stages(inputs: StageInputs) -> list[Stage]:
    """SGAE: its stages 1 and 2, on scene graphs of the training captions (parsed by captrial's SPICE)."""
    captioner, data, recipe = inputs.captioner, inputs.data, inputs.recipe
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


OWN_STAGES: dict[type[Captioner], OwnStages] = {
    Disc: OwnStages(
        _critic_stages,
        repeats=True,
        self_critical=Discriminate,
        options=lambda inputs: {"critic": inputs.critic, "weight": inputs.recipe.critic_weight},
    ),
    Sgae: OwnStages(_sentence_stages),
    StackCap: OwnStages(self_critical=StageWiseSelfCritical, options=lambda inputs: {"eta": inputs.recipe.eta}),
}
