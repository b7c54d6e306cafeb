"""Image graphs for the captioners that read them: joined to features where the captioner's vocabulary is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PIL import Image

from captrial.captioners.base import Captioner
from captrial.errors import InputError
from captrial.language.vocabulary import UNK, Vocabulary
from captrial.vision.backbones.base import Backbone
from captrial.vision.detectors.base import RegionBackbone, pack_regions, relative_boxes
from captrial.vision.features.visual_features import Features
from captrial.vision.scene_graphs import (
    GraphSource,
    Lookup,
    add_graphs,
    detection_graph,
)


class Source(Protocol):
    """Anything that gives features of images by id."""

    def get(self, image_ids: Sequence[str]) -> Features:
        """Features of some images, as one batch."""
        ...


def wants_graphs(captioner: Captioner) -> bool:
    """Whether this captioner, in its configuration, reads relations and attributes."""
    return captioner.needs_graphs and bool(getattr(captioner.config, "relations", True))


def with_graphs(captioner: Captioner, vocabulary: Vocabulary, features: Source) -> Source:
    """Features as the captioner needs them: a store of labelled regions with its image graphs where it wants them.

    Sources that are no stores stay as they are: they may bring graphs of their own.
    """
    if wants_graphs(captioner) and hasattr(features, "entry"):
        return GraphSource(features, lookup(vocabulary))  # type: ignore[arg-type]
    return features


def extract_for(
    captioner: Captioner, vocabulary: Vocabulary, backbone: Backbone, images: Sequence[Image.Image]
) -> Features:
    """What the captioner sees of opened images, graphs included where it wants them."""
    if not wants_graphs(captioner):
        return backbone.extract(images)
    if not isinstance(backbone, RegionBackbone):
        raise InputError(f"{type(captioner).__name__} reads image graphs and {backbone.name} gives no labelled regions")
    regions, sizes = backbone.regions(images), [image.size for image in images]
    graphs = [
        detection_graph(each, relative_boxes(each, size).numpy()) for each, size in zip(regions, sizes, strict=True)
    ]
    return add_graphs(pack_regions(regions, sizes), graphs, lookup(vocabulary))


def lookup(vocabulary: Vocabulary) -> Lookup:
    """Word ids; None for words the vocabulary does not have."""
    return lambda word: None if vocabulary[word] == UNK else vocabulary[word]
