"""Images in, captions out: a checkpoint with its backbone, behind the contract of any captioner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.packed_weights import packed
from captrial.captioners.scene_graph_inputs import extract_for
from captrial.decoding import BeamSettings, beam_search, greedy
from captrial.decoding.constraints import BAD_ENDINGS, Constraint, NoBadEnding, NoImmediateRepeat, Suppress
from captrial.decoding.protocol import StepModel
from captrial.errors import InputError
from captrial.language.vocabulary import UNK, Vocabulary
from captrial.vision.backbones.base import Backbone
from captrial.vision.descriptions import identity
from captrial.vision.devices import AUTO, find_device
from captrial.vision.registry import load_backbone

# How our captioners speak: by beam search, without unknown words, stutters and endings on "a" or "with".


LENGTH_POWER = 0.7  # by summed log-probability alone captions come out short (chosen on Flickr8k's val images)


def generate(
    captioner: StepModel, vocabulary: Vocabulary, memory: Any, beam: int = 5, max_words: int = 20
) -> list[list[int]]:
    """The words (ids) of one caption for each of the encoded images; a beam of 1 is greedy."""
    constraints = usual_constraints(vocabulary)
    if beam == 1:  # ranked by length, a beam of one would speak on past its end
        return greedy(captioner, memory, max_words=max_words, constraints=constraints).best()
    found = beam_search(captioner, memory, BeamSettings(beam=beam, max_words=max_words, length_power=LENGTH_POWER, constraints=constraints))
    return found.best()


def usual_constraints(vocabulary: Vocabulary) -> tuple[Constraint, ...]:
    """The constraints for captions that people read; training samples without them."""
    endings = tuple(vocabulary[word] for word in BAD_ENDINGS if vocabulary[word] != UNK)
    return Suppress((UNK,)), NoImmediateRepeat(), NoBadEnding(endings)


class TrainedCaptioner:
    """One of our captioners, ready to look at images."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        backbone: Backbone,
        beam: int = 5,
        max_words: int = 20,
        precision: str = "float32",
        name: str | None = None,
    ) -> None:
        self.checkpoint, self.backbone, self.beam, self.max_words = checkpoint, backbone, beam, max_words
        self.model = packed(checkpoint.captioner, precision)
        self.name = name or type(checkpoint.captioner).__name__

    @classmethod
    def load(
        cls,
        path: Path | str,
        beam: int = 5,
        precision: str = "float32",
        device: str = AUTO,
        backbone: str | None = None,
    ) -> TrainedCaptioner:
        """From a checkpoint folder, or from a run folder (its best checkpoint).

        `precision` "float16" or "int8" packs the weights for the CPU (see `captrial.captioners.packed_weights`). Without a
        `device` it is the first GPU that can be seen; the CPU where there is none or a `precision` is asked for.
        `backbone` is a name to load its backbone by (see `captrial.vision.registry`) where the weights are no longer
        where they were.
        """
        path = Path(path)
        best = path / "best"
        checkpoint = Checkpoint.from_pretrained(best if best.is_dir() else path)
        name = path.parent.name if path.name == "best" else path.name
        where = find_device("cpu" if device == AUTO and precision != "float32" else device)
        checkpoint.captioner.to(where)
        looking = _find_backbone(checkpoint, backbone, path).to(where)
        return cls(checkpoint, looking, beam, precision=precision, name=name)

    @torch.inference_mode()
    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption an image."""
        if not images:
            return []
        captioner, vocabulary = self.checkpoint.captioner, self.checkpoint.vocabulary
        device = next(captioner.parameters()).device
        memory = self.model.encode(extract_for(captioner, vocabulary, self.backbone, images).to(device))
        found = generate(self.model, vocabulary, memory, self.beam, self.max_words)
        return [" ".join(vocabulary.decode(words)) for words in found]


def _find_backbone(checkpoint: Checkpoint, name: str | None, path: Path) -> Backbone:
    try:
        return load_backbone(checkpoint.vision, name)
    except InputError as error:
        if name is not None or identity(checkpoint.vision) == checkpoint.vision:  # no place of files in it
            raise
        raise InputError(
            f"{error}; if the weights have moved, or are pickles (?pickle=yes), name them: {path}?backbone=NAME"
        ) from None
