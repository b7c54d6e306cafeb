"""Calibrate tau_g, from which similarity on a class grounds a noun, on the toy world.

    python -m studies.grounding_threshold

Writes `captrial/grounding/thresholds.json`: the toy world's classes with their words, its place words, and tau_g of the
installed vectors, with and without the table of words for classes. `tests/grounding/test_score.py` recomputes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

import captrial.grounding
from captrial.files import atomic_write
from captrial.grounding.score import calibrate_threshold, threshold_key
from captrial.language.similarity import Similarity, SimilaritySettings
from captrial.toyworld import OBJECT_CLASSES, SCENES, SYNONYMS

PATH = Path(captrial.grounding.__file__).parent / "thresholds.json"


def calibration_words() -> dict[str, Any]:
    """The toy world's classes with their words, and its place words."""
    return {
        "classes": {kind: list(SYNONYMS.get(kind, ())) for kind in OBJECT_CLASSES},
        "places": sorted({word for words in SCENES.values() for word in words}),
    }


def calibrated_thresholds() -> dict[str, float]:
    """tau_g of the installed vectors, by `threshold_key`."""
    similarities = (Similarity.default(), Similarity(mode="vectors"), SimilaritySettings("vectors").load())
    return {threshold_key(similarity): calibrate_threshold(similarity) for similarity in similarities}


def write(thresholds: dict[str, float]) -> None:
    """Write the words with these thresholds."""
    document = {**calibration_words(), "thresholds": thresholds}
    atomic_write(PATH, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    write({})  # thresholds are calibrated on the words in the file
    write(calibrated_thresholds())
