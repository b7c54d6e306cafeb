"""Pictures in, captions out: a checkpoint with its backbone, behind the contract of any captioner."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image

from captrial.captioners.checkpoint import Checkpoint
from captrial.captioners.manners import say
from captrial.captioners.packed import packed
from captrial.captioners.picture_graphs import see_for
from captrial.errors import InputError
from captrial.vision.backbone import Backbone
from captrial.vision.devices import AUTO, find_device
from captrial.vision.identity import identity
from captrial.vision.loading import load_backbone


class TrainedCaptioner:
    """One of our captioners, ready to look at pictures."""

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
        self.speaker = packed(checkpoint.captioner, precision)
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

        `precision` "float16" or "int8" packs the weights for the CPU (see `captrial.captioners.packed`). Without a
        `device` it is the first GPU that can be seen; the CPU where there is none or a `precision` is asked for.
        `backbone` is a name to load its backbone by (see `captrial.vision.loading`) where the weights are no longer
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
    def caption(self, pictures: Sequence[Image.Image]) -> list[str]:
        """One caption a picture."""
        if not pictures:
            return []
        captioner, vocabulary = self.checkpoint.captioner, self.checkpoint.vocabulary
        device = next(captioner.parameters()).device
        memory = self.speaker.encode(see_for(captioner, vocabulary, self.backbone, pictures).to(device))
        found = say(self.speaker, vocabulary, memory, self.beam, self.max_words)
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
