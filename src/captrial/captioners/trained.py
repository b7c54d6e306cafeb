"""Captioners trained by this package: a checkpoint with its backbone, as `AnyCaptioner`.

`generate` decodes captions the way people like to read them: beam search without unknown words, repeated words and
endings such as "a" or "with". `extract_for` and `with_graphs` give a captioner its features, with scene graphs where it
reads them (SGAE).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from captrial.captioners.base import Captioner, evaluating
from captrial.captioners.checkpoint import LENGTH_POWER, Checkpoint
from captrial.captioners.packed_weights import packed
from captrial.decoding.beam import BeamSettings, beam_search
from captrial.decoding.constraints import BAD_ENDINGS, Constraint, NoBadEnding, NoImmediateRepeat, Suppress
from captrial.decoding.protocol import StepModel
from captrial.decoding.sampling import greedy
from captrial.errors import InputError
from captrial.language.vocabulary import UNK, Vocabulary
from captrial.progress import track
from captrial.vision.backbones.base import Backbone
from captrial.vision.descriptions import identity
from captrial.vision.detectors.base import RegionBackbone, box_tensor, pack_regions
from captrial.vision.devices import AUTO, find_device
from captrial.vision.features.visual_features import Features, FeatureSource
from captrial.vision.registry import load_backbone
from captrial.vision.scene_graphs import GraphSource, Lookup, add_graphs, detection_graph

BATCH = 50  # images with stored features at once
DEFAULT_PRECISION = "float32"
BEST = "best"  # the folder of the best checkpoint in a run folder


def generate(
    captioner: StepModel,
    vocabulary: Vocabulary,
    memory: Any,
    beam: int = 5,
    max_words: int = 20,
    length_power: float = LENGTH_POWER,
) -> list[list[int]]:
    """Word ids of one caption for each of the encoded images; a beam of 1 is greedy."""
    constraints = usual_constraints(vocabulary)
    if beam == 1:  # with the length in the ranking, a beam of one would go on after its end
        return greedy(captioner, memory, max_words=max_words, constraints=constraints).best()
    settings = BeamSettings(beam, max_words=max_words, length_power=length_power, constraints=constraints)
    return beam_search(captioner, memory, settings).best()


def usual_constraints(vocabulary: Vocabulary) -> tuple[Constraint, ...]:
    """The constraints for captions that people read; training samples without them."""
    endings = tuple(vocabulary[word] for word in BAD_ENDINGS if vocabulary[word] != UNK)
    return Suppress((UNK,)), NoImmediateRepeat(), NoBadEnding(endings)


class TrainedCaptioner:
    """A checkpoint with the backbone that its features come from."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        backbone: Backbone,
        beam: int = 5,
        max_words: int = 20,
        precision: str = DEFAULT_PRECISION,
        name: str | None = None,
    ) -> None:
        self.checkpoint, self.backbone, self.beam, self.max_words = checkpoint, backbone, beam, max_words
        self.precision = precision
        self.name = name or type(checkpoint.captioner).__name__
        if precision != DEFAULT_PRECISION:  # refused now where it is unknown, or not for this device
            _ = self.model

    @cached_property
    def model(self) -> Captioner:
        """The captioner with packed weights; made at the first caption, as attributions use the checkpoint's own."""
        return packed(self.checkpoint.captioner, self.precision)

    @classmethod
    def load(
        cls,
        path: Path | str,
        beam: int = 5,
        precision: str = DEFAULT_PRECISION,
        device: str = AUTO,
        backbone: str | None = None,
    ) -> TrainedCaptioner:
        """Load a checkpoint folder, or the best checkpoint of a run folder.

        `precision` "float16" or "int8" packs the weights for the CPU (see `captrial.captioners.packed_weights`). The
        default `device` is the first GPU, and the CPU where there is none or a `precision` is given. `backbone` is a
        name to load the backbone by (see `captrial.vision.registry`) where its weights have moved.
        """
        path = Path(path)
        best = path / BEST
        checkpoint = Checkpoint.from_pretrained(best if best.is_dir() else path)
        name = path.parent.name if path.name == BEST else path.name
        target = find_device("cpu" if device == AUTO and precision != DEFAULT_PRECISION else device)
        checkpoint.captioner.to(target)
        loaded = _find_backbone(checkpoint, backbone, path).to(target)
        return cls(checkpoint, loaded, beam, precision=precision, name=name)

    @torch.inference_mode()
    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption an image."""
        if not images:
            return []
        captioner, vocabulary = self.checkpoint.captioner, self.checkpoint.vocabulary
        device = next(captioner.parameters()).device
        memory = self.model.encode(extract_for(captioner, vocabulary, self.backbone, images).to(device))
        found = generate(self.model, vocabulary, memory, self.beam, self.max_words, self.checkpoint.length_power)
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


def wants_graphs(captioner: Captioner) -> bool:
    """Whether this captioner, in its configuration, reads relations and attributes."""
    return captioner.needs_graphs and bool(getattr(captioner.config, "relations", True))


def with_graphs(captioner: Captioner, vocabulary: Vocabulary, features: FeatureSource) -> FeatureSource:
    """Features as the captioner needs them: those of a region store with their scene graphs, where it reads graphs.

    Sources that are no stores stay as they are: they may have graphs of their own.
    """
    if wants_graphs(captioner) and hasattr(features, "entry"):
        return GraphSource(features, lookup(vocabulary))  # type: ignore[arg-type]
    return features


def extract_for(
    captioner: Captioner, vocabulary: Vocabulary, backbone: Backbone, images: Sequence[Image.Image]
) -> Features:
    """The features of opened images as the captioner needs them, with scene graphs where it reads those."""
    if not wants_graphs(captioner):
        return backbone.extract(images)
    if not isinstance(backbone, RegionBackbone):
        raise InputError(f"{type(captioner).__name__} reads scene graphs and {backbone.name} gives no labelled regions")
    regions, sizes = backbone.regions(images), [image.size for image in images]
    graphs = [detection_graph(each, box_tensor(each, size).numpy()) for each, size in zip(regions, sizes, strict=True)]
    return add_graphs(pack_regions(regions, sizes), graphs, lookup(vocabulary))


def lookup(vocabulary: Vocabulary) -> Lookup:
    """Word ids; None for words that are not in the vocabulary."""
    return lambda word: None if vocabulary[word] == UNK else vocabulary[word]


@torch.no_grad()
def caption_by_id(
    captioner: Captioner,
    vocabulary: Vocabulary,
    features: FeatureSource,
    image_ids: Sequence[str],
    beam: int = 5,
    length_power: float = LENGTH_POWER,
) -> list[str]:
    """One caption an image from stored features, in the order of the ids; a beam of 1 is greedy."""
    captions: list[str] = []
    features = with_graphs(captioner, vocabulary, features)
    device = next(captioner.parameters()).device
    with evaluating(captioner):
        for start in track(range(0, len(image_ids), BATCH), "captioning"):
            memory = captioner.encode(features.get(image_ids[start : start + BATCH]).to(device))
            found = generate(captioner, vocabulary, memory, beam, length_power=length_power)
            captions.extend(" ".join(vocabulary.decode(words)) for words in found)
    return captions
