"""The similarities by which images can be selected: one entry each, read by help texts, messages and docs.

A similarity takes two equally long lists of captions and returns one number for each pair of captions, larger for more
alike, of any sign and below a million. Equal numbers are ordered by NGSM_1..4, as with NGSM itself.

To add one, write a function like those below, in a module of its own, and add an entry to `SIMILARITIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from captrial.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CaptionSimilarity = Callable[[Sequence[str], Sequence[str]], "Floats | Sequence[float]"]


def noun_overlap(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Soft overlap of the nouns of two captions, by synonym lists and word vectors, in [0, 1]."""
    import numpy as np

    from captrial.metrics.nouns.noun_iou import noun_iou

    forward = noun_iou(list(first), [[text] for text in second]).per_image
    backward = noun_iou(list(second), [[text] for text in first]).per_image
    return np.minimum(forward, backward)  # they differ only where one caption has no noun: then nothing overlaps


def scene_graph_overlap(first: Sequence[str], second: Sequence[str]) -> Floats:
    """SPICE's F between the scene graphs of two captions, the mean of both directions, in [0, 1]."""
    import numpy as np

    from captrial.metrics.spice.spice import spice

    forward = spice(list(first), [[text] for text in second]).per_image
    backward = spice(list(second), [[text] for text in first]).per_image
    return np.asarray((forward + backward) / 2)


def meaning_overlap(first: Sequence[str], second: Sequence[str]) -> Floats:
    """The `semantic` metric between two captions: cosine of sentence embeddings, sentence by sentence, in [0, 1]."""
    from captrial.metrics.semantic.semantic import sentence_similarity

    return sentence_similarity(first, second)


@dataclass(frozen=True)
class SimilarityEntry:
    """One similarity: how it is named and described, what it needs, and the function that computes it."""

    name: str
    title: str
    description: str
    compute: CaptionSimilarity | None = None  # None: NGSM, computed by the selection itself, far faster
    needs: str = ""  # packages beyond a plain installation


SIMILARITIES: dict[str, SimilarityEntry] = {
    entry.name: entry
    for entry in (
        SimilarityEntry("ngsm", "NGSM", "n-gram similarity (Wan 2022 Eqs. 1-5)"),
        SimilarityEntry("nouns", "noun IoU", "soft overlap of nouns by word vectors", noun_overlap),
        SimilarityEntry("spice", "SPICE", "F of the two scene graphs", scene_graph_overlap, "pycocoevalcap"),
        SimilarityEntry(
            "semantic", "semantic", "cosine of sentence embeddings", meaning_overlap, "pip install 'captrial[semantic]'"
        ),
    )
}


def similarity_named(name: str) -> CaptionSimilarity | None:
    """The function of a similarity by name, or of `module:function`; None is NGSM."""
    if name in SIMILARITIES:
        return SIMILARITIES[name].compute
    module, colon, function = name.partition(":")
    if not colon:
        raise InputError(f"no similarity {name!r}; choose from {', '.join(SIMILARITIES)}, or give module:function")
    try:
        found: CaptionSimilarity = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"similarity {name}: {error}; it must name a function that Python can import") from None
    return found


def is_own_function(name: str) -> bool:
    """Whether a similarity is a user's own `module:function`, which is imported and run."""
    return name not in SIMILARITIES and ":" in name


def refuse_stored_function(name: str) -> None:
    """Refuse a user's own function that only a file names: what a competition stores is never imported."""
    if is_own_function(name):
        raise InputError(
            f"this competition was selected with the function {name}, which captrial does not import because a file "
            f"says so; if you trust it, name it yourself: --similarity {name}"
        )


def similarity_help() -> str:
    """All similarities in one line, for a help text."""
    return "; ".join(
        f"{entry.name}: {entry.description}{f' (needs {entry.needs})' if entry.needs else ''}"
        for entry in SIMILARITIES.values()
    )
