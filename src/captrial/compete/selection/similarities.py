"""Similarities beside NGSM, for captions that say the same in other words, and any Python function as one.

A resemblance takes two equally long lists of captions and returns one number a pair, larger for more alike, of any sign
and below a million. Equal numbers are ordered by NGSM_1..4, as with NGSM itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module, util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captrial.errors import InputError, MissingExtraError

Floats = NDArray[np.float64]
Resemblance = Callable[[Sequence[str], Sequence[str]], Floats | Sequence[float]]


def noun_overlap(first: Sequence[str], second: Sequence[str]) -> Floats:
    """How much the nouns of two captions overlap, by synonym lists and word vectors, in [0, 1]."""
    from captrial.metrics.nouns.noun_iou import noun_iou

    there = noun_iou(list(first), [[text] for text in second]).per_image
    back = noun_iou(list(second), [[text] for text in first]).per_image
    return np.minimum(there, back)  # they differ only where one caption has no noun: then nothing overlaps


def scene_graph_overlap(first: Sequence[str], second: Sequence[str]) -> Floats:
    """SPICE's F between the scene graphs of two captions, the mean of both directions, in [0, 1]."""
    from captrial.metrics.spice import spice

    there = spice(list(first), [[text] for text in second]).per_image
    back = spice(list(second), [[text] for text in first]).per_image
    return np.asarray((there + back) / 2)


def sentence_embedding(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Cosine of sentence embeddings, where `sentence-transformers` is installed."""
    encoder = _sentence_encoder()
    one, two = (encoder.encode(list(texts), normalize_embeddings=True) for texts in (first, second))
    return np.asarray((one * two).sum(axis=1), np.float64)


RESEMBLANCES: dict[str, Resemblance | None] = {
    "ngsm": None,  # computed by `similarity` itself, far faster
    "nouns": noun_overlap,
    "spice": scene_graph_overlap,
    "embedding": sentence_embedding,
}


def resemblance_named(name: str) -> Resemblance | None:
    """A similarity by name, or `module:function` for any Python function; None means NGSM."""
    if name in RESEMBLANCES:
        return RESEMBLANCES[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise InputError(f"no similarity {name!r}; choose from {', '.join(RESEMBLANCES)}, or give module:function")
    try:
        found: Resemblance = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"similarity {name}: {error}; it must name a function that Python can import") from None
    return found


@cache
def _sentence_encoder() -> Any:
    if util.find_spec("sentence_transformers") is None:
        raise MissingExtraError("similarity by sentence embeddings (sentence-transformers)", "hf")
    return import_module("sentence_transformers").SentenceTransformer("all-MiniLM-L6-v2")
