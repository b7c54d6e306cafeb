"""From `--set supervision=strong|weak` to the targets a run trains on (003).

*Strong* needs phrases with regions (Flickr30k Entities, the toy world); *weak* needs regions with labels, from people,
a detector or a localiser, whose classes the captions' nouns are linked to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from captrial.data.sizes import with_size
from captrial.errors import DatasetError, InputError
from captrial.language.alignment import aligned_phrases
from captrial.language.classes import default_table, scene_words
from captrial.language.nouns import analyse
from captrial.records import Sample
from captrial.training.attention import AttentionTargets, strong_targets, weak_targets
from captrial.vision.preprocess import Preprocess

if TYPE_CHECKING:
    from captrial.language.similarity import Similarity

KINDS = ("implicit", "strong", "weak")


def make_targets(
    kind: str, samples: Sequence[Sample], vision: Mapping[str, Any], similarity: Similarity | None = None
) -> AttentionTargets | None:
    """Targets of supervised attention for the training samples; None where attention is left implicit.

    `vision` is what the features were made with (`Backbone.describe()`): boxes move along with its preprocessing.
    """
    if kind not in KINDS:
        raise InputError(f"--set supervision={kind}: there are {', '.join(KINDS)}")
    if kind == "implicit":
        return None
    preprocess = Preprocess.of(vision)
    samples = [with_size(sample) for sample in samples]
    return _strong(samples, preprocess) if kind == "strong" else _weak(samples, preprocess, similarity)


def _strong(samples: Sequence[Sample], preprocess: Preprocess) -> AttentionTargets:
    aligned = [replace(sample, phrases=aligned_phrases(sample)) for sample in samples]
    if not any(phrase.regions for sample in aligned for phrases in sample.phrases for phrase in phrases):
        raise DatasetError(
            "--set supervision=strong needs phrases with regions (Flickr30k Entities, the toy world), and no caption "
            "of these training pictures has one; with boxes and classes alone use supervision=weak"
        )
    return strong_targets(aligned, preprocess)


def _weak(samples: Sequence[Sample], preprocess: Preprocess, similarity: Similarity | None) -> AttentionTargets:
    if not any(region.label for sample in samples for region in sample.regions):
        raise DatasetError(
            "--set supervision=weak needs regions with labels, and no training picture has one; give boxes of a "
            "detector or of people ({id: [[x1, y1, x2, y2, class], ...]})"
        )
    from captrial.language.similarity import Similarity

    similarity = similarity or Similarity.default()
    return weak_targets(
        samples, preprocess, noun_positions(samples), similarity.sim, similarity.threshold - 1e-6, scene_words()
    )


def noun_positions(samples: Sequence[Sample]) -> list[list[list[tuple[int, str]]]]:
    """[picture][caption] -> (position, name) of what a caption speaks of; every word of a name of several counts."""
    table = default_table()
    found = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    rows: list[list[list[tuple[int, str]]]] = []
    for sample in samples:
        captions = []
        for _ in sample.captions:
            one = next(found)
            mentions = table.mentions(one.lemmas, one.nouns)
            captions.append(
                [(word, mention.name) for mention in mentions for word in range(mention.start, mention.end)]
            )
        rows.append(captions)
    return rows
