"""Attention correctness (Liu 2017 Eq. 12-13) and the measures beside it: of maps, and of a captioner on a data set.

Maps (words, s, s) sum to 1; `mask` (s, s) is the ground-truth region. Measures are (words,), higher is better.

A data set is measured in two settings. *forced*: the captioner is fed the references. *generated*: it is fed its own
caption, whose noun phrases are matched to the references'. *forced-classes* and *generated-classes* are the same for
data without phrases: nouns are linked to the classes of boxes. The result has one record a phrase;
`captrial.grounding.attention_tables` makes tables of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import orjson
from numpy.typing import NDArray

from captrial.attribution.dataset_attribution import CaptionAttributor, WordWeights
from captrial.attribution.word_maps import square_maps
from captrial.data.datasets.base import read_box
from captrial.data.sample_sizes import with_size
from captrial.errors import DatasetError, InputError, damage_named
from captrial.files import atomic_write
from captrial.grounding.phrases import PhrasePlacer, ReferringPhrase, forced_phrases, generated_phrases, has_phrases
from captrial.language.similarity import Similarity
from captrial.language.tokenizer import tokenize_all
from captrial.progress import track
from captrial.records import Region, Sample
from captrial.vision.preprocess import RESOLUTION, Preprocess, union_on_square

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Reduction = Literal["max", "mean"]
FORCED, GENERATED = "forced", "generated"
FORCED_CLASSES, GENERATED_CLASSES = "forced-classes", "generated-classes"
SETTINGS = (FORCED, GENERATED, FORCED_CLASSES, GENERATED_CLASSES)
OF_REFERENCES, OF_CLASSES = (FORCED, FORCED_CLASSES), (FORCED_CLASSES, GENERATED_CLASSES)
BATCH = 16  # images at a time
MOST_WORDS = 40  # of a reference: longer ones are cut
CUT = f"words beyond the {MOST_WORDS}th"
_TINY = 1e-12  # in place of 0 in KL, which would be infinite


def attention_correctness(
    map: NDArray[np.floating], boxes: Iterable[Sequence[float] | Region], image_size: tuple[int, int]
) -> float:
    """Attention correctness of any model's map (Liu 2017 Eq. 12): the share inside the boxes.

    `map` (rows, columns) covers the whole image, at any resolution and scale; (words, rows, columns) are the maps of
    the words of a phrase, which is its best word (Eq. 13). `boxes` are `x1, y1, x2, y2` in pixels, or `Region`s, whose
    masks count where they have one; `image_size` is width and height. Maps are enlarged bilinearly to 224 x 224.

    >>> attention_correctness(np.array([[1.0, 0.0], [0.0, 0.0]]), [(0, 0, 320, 480)], (640, 480))
    0.875
    """
    weights: Floats = np.asarray(map, np.float64)
    if weights.ndim not in (2, 3) or not weights.size or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError(
            f"a map needs finite numbers of at least 0, (rows, columns) or (words, rows, columns); this one is "
            f"{weights.shape}"
        )
    regions = [box if isinstance(box, Region) else Region(read_box(list(box), "boxes")) for box in boxes]
    mask = union_on_square(regions, *image_size, Preprocess(RESOLUTION))
    if not mask.any():
        raise InputError(f"none of the {len(regions)} boxes covers a part of an image of {image_size} pixels")
    rows, columns = weights.shape[-2:]
    maps = square_maps(weights.reshape(-1, rows * columns), np.zeros((rows * columns, 4)), (rows, columns))
    return float(share_inside(maps, mask).max())


def share_inside(maps: Floats, mask: Mask) -> Floats:
    """AC(word), Eq. 12: the share of each map inside the region."""
    return np.asarray(np.clip(maps[:, mask].sum(1), 0, 1))


def pointing_game(maps: Floats, mask: Mask) -> Floats:
    """Whether the highest point lies in the region; of several highest points, the share that does."""
    highest = np.isclose(maps, maps.max((1, 2), keepdims=True), rtol=1e-9, atol=0)
    return np.asarray((highest & mask).sum((1, 2)) / highest.sum((1, 2)))


def area_under_curve(maps: Floats, mask: Mask) -> Floats:
    """ROC AUC: how often a point of the region is higher than one outside (equal: half); 0.5 for a uniform map."""
    inside, outside = maps[:, mask], np.sort(maps[:, ~mask], axis=1)
    if not inside.shape[1] or not outside.shape[1]:
        return np.full(len(maps), 0.5)
    below = [
        np.searchsorted(row, points, "left").mean() + np.searchsorted(row, points, "right").mean()
        for points, row in zip(inside, outside, strict=True)
    ]
    return np.asarray(np.array(below, np.float64) / (2 * outside.shape[1]))


def distances(maps: Floats, mask: Mask) -> dict[str, Floats]:
    """-L1, -L2 and -KL(beta || alpha) from the target map beta, which is uniform inside the region."""
    target = mask / mask.sum()
    inside = maps[:, mask]
    return {
        "l1": -np.abs(maps - target).sum((1, 2)),
        "l2": -np.sqrt(np.square(maps - target).sum((1, 2))),
        "kl": -np.log((1 / mask.sum()) / np.maximum(inside, _TINY)).mean(1),
    }


@dataclass(frozen=True, slots=True)
class PhraseMeasures:
    """The measures of a phrase."""

    correctness: float
    pointing: float
    auc: float
    l1: float
    l2: float
    kl: float


def measure_phrase(maps: Floats, mask: Mask, reduction: Reduction = "max") -> PhraseMeasures:
    """The measures of a phrase from the maps of its words (words, s, s).

    AC(phrase) is the maximum over its words (Eq. 13), so that "of" in "a group of people" does not count; the other
    measures are those of that word's map. With "mean" all are of the mean map, whose AC is the mean over the words.
    """
    scores = share_inside(maps, mask)
    chosen = maps[[int(scores.argmax())]] if reduction == "max" else maps.mean(0, keepdims=True)
    found = {name: float(value[0]) for name, value in distances(chosen, mask).items()}
    correctness = float(scores.max() if reduction == "max" else scores.mean())
    return PhraseMeasures(
        correctness, float(pointing_game(chosen, mask)[0]), float(area_under_curve(chosen, mask)[0]), **found
    )


# On a data set --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PhraseScore(PhraseMeasures):
    """The measures of one phrase of a data set, and which one it is."""

    model: str
    setting: str
    image: str
    caption: int  # which reference; 0 for the generated caption
    text: str
    start: int
    area: float  # of the ground truth: the score of uniform attention
    kind: str = ""  # of the entity: people, clothing, animals ...; a class where nouns are linked to boxes

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PhraseScore:
        """The inverse of `asdict`; NaN is null in JSON."""
        kinds: dict[str, Callable[[Any], Any]] = {"str": str, "int": int, "float": _number}
        return cls(**{entry.name: kinds[str(entry.type)](document[entry.name]) for entry in fields(cls)})


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


@dataclass
class AttentionResult:
    """The phrase scores of one captioner."""

    model: str
    method: str
    scores: list[PhraseScore] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)  # generated
    dropped: dict[str, Counter[str]] = field(default_factory=dict)  # by setting: phrases that were left out, by reason

    def to_dict(self) -> dict[str, object]:
        """Plain values, for JSON; `from_dict` reads them back."""
        return {
            "model": self.model,
            "method": self.method,
            "captions": self.captions,
            "dropped": {setting: dict(counts) for setting, counts in self.dropped.items()},
            "scores": [asdict(score) for score in self.scores],
        }

    def write(self, path: Path) -> None:
        """Write it as JSON; `read` reads it back."""
        atomic_write(path, orjson.dumps(self.to_dict()))

    @classmethod
    def read(cls, path: Path) -> AttentionResult:
        """Read what `write` wrote."""
        with damage_named(path, "the same command after removing it", "is not a result of attention correctness"):
            return cls.from_dict(orjson.loads(path.read_bytes()))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> AttentionResult:
        """The inverse of `to_dict`."""
        return cls(
            str(document["model"]),
            str(document["method"]),
            [PhraseScore.from_dict(score) for score in document["scores"]],
            {str(image): str(caption) for image, caption in document["captions"].items()},
            {
                setting: Counter({reason: int(count) for reason, count in counts.items()})
                for setting, counts in document["dropped"].items()
            },
        )


def measure_attention(
    attributor: CaptionAttributor,
    samples: Sequence[Sample],
    settings: Sequence[str] | None = None,
    *,
    similarity: Similarity | None = None,
    reduction: Reduction = "max",
    masks: bool = False,
) -> AttentionResult:
    """Measure one captioner. Samples need captions, and phrases with regions or regions with labels.

    Without `settings` these are forced and generated, linked to classes where the data has no phrases.
    """
    check_samples(samples)
    settings = choose_settings(None, samples) if settings is None else settings
    similarity = similarity or Similarity.default()
    samples = [with_size(sample) for sample in samples]
    result = AttentionResult(attributor.name, attributor.method)
    for setting in settings:
        placer = PhrasePlacer(attributor.preprocess, masks)
        linking = similarity, setting in OF_CLASSES
        if setting in OF_REFERENCES:
            items = reference_items(samples, *linking)
        else:
            items = _generated(attributor, samples, result, *linking)
        measurement = _Measurement(attributor, setting, placer, reduction)
        for start in track(range(0, len(items), BATCH), f"{attributor.name}, {setting}"):
            result.scores += measurement.scores(items[start : start + BATCH])
        result.dropped[setting] = placer.dropped
    return result


def choose_settings(captions: str | None, samples: Sequence[Sample]) -> list[str]:
    """The settings of a list with commas; None: forced and generated, linked to classes if there are no phrases.

    `InputError` for an unknown one, and for one that the data does not allow.
    """
    phrases = has_phrases(samples)
    if captions is None:
        return [FORCED, GENERATED] if phrases else [FORCED_CLASSES, GENERATED_CLASSES]
    settings = [name.strip() for name in captions.split(",")]
    for name in settings:
        if name not in SETTINGS:
            raise InputError(f"--captions {name}: there are {', '.join(SETTINGS)}")
        if name not in OF_CLASSES and not phrases:
            raise InputError(f"--captions {name}: these images have boxes and no phrases; use {name}-classes")
        if name in OF_CLASSES and not any(region.label for sample in samples for region in sample.regions):
            raise InputError(f"--captions {name}: no region of these images has a class; use {name.split('-')[0]}")
    return settings


def check_reduction(name: str) -> Reduction:
    """The reduction of a phrase's words; `InputError` if it is neither max nor mean."""
    if name not in get_args(Reduction):
        raise InputError(f"--phrase {name}: there are {' and '.join(get_args(Reduction))}")
    return cast("Reduction", name)


def check_samples(samples: Sequence[Sample]) -> None:
    """Raise `DatasetError` if there is nothing to measure attention against."""
    if not samples:
        raise DatasetError("no images to measure attention on")
    without = next((sample.id for sample in samples if not sample.captions), None)
    if without is not None:
        raise DatasetError(f"image {without} has no reference caption; attention correctness needs at least one")
    if not has_phrases(samples) and not any(region.label for sample in samples for region in sample.regions):
        raise DatasetError(
            "these images have neither phrases with regions nor boxes with classes; give boxes with --boxes "
            "({id: [[x1, y1, x2, y2, class], ...]}), or a data set that has them"
        )


@dataclass(frozen=True, slots=True)
class ReferenceItem:
    """An image, captions to feed, and the phrases of each."""

    sample: Sample
    captions: list[list[str]]
    phrases: list[list[ReferringPhrase]]


def reference_items(samples: Sequence[Sample], similarity: Similarity, classes: bool = False) -> list[ReferenceItem]:
    """Every image with its references and their phrases, by the data set or, with `classes`, by the boxes' classes."""
    words = iter(tokenize_all([caption for sample in samples for caption in sample.captions]))
    phrases = forced_phrases(samples, similarity, classes)
    return [
        ReferenceItem(sample, [next(words).split()[:MOST_WORDS] for _ in sample.captions], own)
        for sample, own in zip(samples, phrases, strict=True)
    ]


def _generated(
    attributor: CaptionAttributor,
    samples: Sequence[Sample],
    result: AttentionResult,
    similarity: Similarity,
    classes: bool,
) -> list[ReferenceItem]:
    ids = [sample.id for sample in samples]
    for start in track(range(0, len(ids), BATCH), f"{attributor.name}, captioning"):
        part = ids[start : start + BATCH]
        result.captions.update(zip(part, attributor.caption(part), strict=True))
    phrases = generated_phrases(samples, result.captions, similarity, classes)
    texts = tokenize_all([result.captions[image] for image in ids])
    return [
        ReferenceItem(sample, [text.split()], [own]) for sample, text, own in zip(samples, texts, phrases, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Measurement:
    """Scores of the phrases of some images in one setting."""

    attributor: CaptionAttributor
    setting: str
    placer: PhrasePlacer
    reduction: Reduction

    def scores(self, items: Sequence[ReferenceItem]) -> Iterator[PhraseScore]:
        weights = self.attributor.attribute([item.sample.id for item in items], [item.captions for item in items])
        for item, captions in zip(items, weights, strict=True):
            for number, (found, phrases) in enumerate(zip(captions, item.phrases, strict=True)):
                for phrase in phrases:
                    score = self._score(item.sample, number, found, phrase)
                    if score is not None:
                        yield score

    def _score(self, sample: Sample, caption: int, found: WordWeights, phrase: ReferringPhrase) -> PhraseScore | None:
        if phrase.end > len(found.weights):
            self.placer.dropped[CUT] += 1
            return None
        placed = self.placer.place(sample, phrase)
        if placed is None:
            return None
        maps = square_maps(found.weights[phrase.start : phrase.end], found.boxes, found.grid)
        return PhraseScore(
            **asdict(measure_phrase(maps, placed.mask, self.reduction)),
            model=self.attributor.name,
            setting=self.setting,
            image=sample.id,
            caption=caption,
            text=phrase.text,
            start=phrase.start,
            area=placed.area,
            kind=phrase.kind,
        )
