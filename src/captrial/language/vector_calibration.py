"""How far to trust word vectors: how many principal components to remove, and from which similarity on to link.

For the installed GloVe both were measured on captions and human lists and are kept in `calibration.json`
(`python -m studies.vector_calibration` makes it). Any other file is calibrated when it is first opened, on our own
table of words for COCO's classes, and the result is kept beside the converted file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.files import atomic_write
from captrial.language.class_words import COCO_CLASSES, default_table, scene_words
from captrial.language.vector_files import LARGEST_AXES

if TYPE_CHECKING:
    from captrial.language.vectors import WordVectors

MODES = ("table+vectors", "vectors")
CHOICES: tuple[int | None, ...] = (None, *range(LARGEST_AXES + 1))  # None: raw vectors


@dataclass(frozen=True, slots=True)
class Linking:
    """How well a threshold links words to classes."""

    threshold: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was chosen for a set of vectors, and on what ground."""

    components: int | None
    thresholds: Mapping[str, float]  # by mode
    method: str
    measured: Mapping[str, Any] = field(default_factory=dict)


def calibration_of(vectors: WordVectors) -> Calibration:
    """The calibration of a set of vectors: the shipped one, the one beside its files, or a new one."""
    shipped = _shipped().get(vectors.name)
    if shipped is not None:
        return shipped
    path = vectors.files.folder / f"calibration-{default_table().fingerprint}.json"
    if not path.exists():
        atomic_write(path, orjson.dumps(asdict(calibrate(vectors)), option=orjson.OPT_INDENT_2))
    return Calibration(**orjson.loads(path.read_bytes()))


def calibrate(vectors: WordVectors) -> Calibration:
    """Choose components by average precision and the threshold by F1, on our table of words for COCO's classes."""
    table = default_table()
    words = sorted({word for name in COCO_CLASSES for word in table.words(name)} | scene_words())
    words = [word for word in words if word in vectors]
    truth = np.array([[table.means(word, name) for name in COCO_CLASSES] for word in words])
    if not truth.any():  # vectors that know none of the words: nothing to link, nothing to choose
        return Calibration(None, dict.fromkeys(MODES, 1.0), "no word of the class table is in the vectors")
    components = choose_components(vectors, words, truth)
    scores = vectors.processed(components).similarities(words, COCO_CLASSES)
    best = best_threshold(scores, truth)
    method = "F1 of linking the words of our class table and scene list to COCO's classes"
    return Calibration(components, dict.fromkeys(MODES, best.threshold), method, {"vectors": asdict(best)})


def choose_components(vectors: WordVectors, words: Sequence[str], truth: NDArray[np.bool_]) -> int | None:
    """The post-processing under which right pairs rank highest, those of a word with its own name left out."""
    named = np.array([[word == name for name in COCO_CLASSES] for word in words])
    precisions = [
        average_precision(vectors.processed(components).similarities(words, COCO_CLASSES)[~named], truth[~named])
        for components in CHOICES
    ]
    return CHOICES[int(np.argmax(np.round(precisions, 9)))]


def average_precision(scores: NDArray[np.floating], truth: NDArray[np.bool_]) -> float:
    """The mean precision at the right pairs when all are sorted by score (n,)."""
    right = truth[np.argsort(-scores, kind="stable")]
    if not right.any():
        return 0.0
    return float((np.cumsum(right) / np.arange(1, len(right) + 1))[right].mean())


def best_threshold(
    scores: NDArray[np.floating], truth: NDArray[np.bool_], weights: NDArray[np.floating] | None = None
) -> Linking:
    """The threshold with the best F1 of `scores >= threshold` against `truth`; all arrays of one shape.

    >>> best_threshold(np.array([0.9, 0.8, 0.3]), np.array([True, True, False])).f1
    1.0
    """
    return max(linking_curve(scores, truth, weights), key=lambda linking: linking.f1)


def linking_curve(
    scores: NDArray[np.floating], truth: NDArray[np.bool_], weights: NDArray[np.floating] | None = None
) -> list[Linking]:
    """Precision, recall and F1 at thresholds 0, 0.005, ... 1; right pairs and links count by their weights."""
    weights = np.ones(scores.shape) if weights is None else weights
    curve = []
    for threshold in np.round(np.arange(0, 1.0001, 0.005), 3):
        linked = scores >= threshold - 1e-6
        right, wrong = weights[linked & truth].sum(), weights[linked & ~truth].sum()
        missed = weights[~linked & truth].sum()
        precision, recall = right / max(right + wrong, 1e-12), right / max(right + missed, 1e-12)
        f1 = 2 * right / max(2 * right + wrong + missed, 1e-12)
        curve.append(Linking(float(threshold), *(round(float(value), 4) for value in (precision, recall, f1))))
    return curve


@cache
def _shipped() -> dict[str, Calibration]:
    content = files("captrial.language").joinpath("calibration.json").read_bytes()
    return {name: Calibration(**entry) for name, entry in orjson.loads(content).items()}
