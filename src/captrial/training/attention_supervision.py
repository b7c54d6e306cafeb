"""Supervised attention (Liu 2017): target maps for the words of the training captions.

`make_targets` gives what `--set supervision=strong|weak` asks for. *Strong* supervision needs phrases with regions
(Flickr30k Entities, the toy world); *weak* needs regions with labels, from people, a detector or a localiser, whose
classes are linked to the captions' nouns: by captrial's table and word vectors, by word vectors alone, or by those that
the captioner has learnt itself.

A map is painted on the square that the model gets and averaged over each visual element: for a grid this is resizing by
area, for regions the share of a region inside the painted area. Maps are normalised to sum 1; words without a region
have all zeros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from captrial.captioners.base import Captioner
from captrial.data.datasets.coco import check_masks, region_shapes
from captrial.data.datasets.samples import replace_regions
from captrial.data.sample_sizes import with_size
from captrial.errors import DatasetError, InputError
from captrial.language.class_words import default_table, scene_words
from captrial.language.nouns import analyse, head_noun
from captrial.language.token_spans import aligned_phrases
from captrial.language.vocabulary import UNK, Vocabulary
from captrial.records import Phrase, Region, Sample
from captrial.training.data import Batch
from captrial.training.recipe import LINKS, Recipe
from captrial.vision.boxes import iou_matrix
from captrial.vision.preprocess import RESOLUTION, Preprocess, mask_on_square

KINDS = ("implicit", "strong", "weak")
Floats = NDArray[np.float64]
RECENT = 64  # painted squares that are kept: those of the captions of one image


class AttentionLinking(Protocol):
    """What links nouns and classes: `captrial.language.similarity.Similarity`, or the captioner's own word vectors."""

    @property
    def threshold(self) -> float:
        """The similarity from which on they count as linked."""
        ...

    def matrix(self, words: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32]:
        """Similarities of nouns and classes, (words, classes)."""
        ...


class OwnVectors:
    """Cosines of the word vectors E that a captioner has learnt (Liu 2017, beside Eq. 11), linked above its 1/3."""

    def __init__(self, captioner: Captioner, vocabulary: Vocabulary, threshold: float = 1 / 3) -> None:
        self.threshold = threshold
        tables = (module.weight for module in captioner.modules() if isinstance(module, nn.Embedding))
        learnt = next(table for table in tables if len(table) == len(vocabulary))  # not the one of positions
        self.vocabulary = vocabulary
        self.vectors: NDArray[np.float64] = learnt.detach().double().cpu().numpy()

    def matrix(self, words: Sequence[str], classes: Sequence[str]) -> NDArray[np.float32]:
        """1 for equal names; 0 where the vocabulary does not know one of them; names of several words: their mean."""
        rows, columns = (np.stack([self._vector(name) for name in names]) for names in (words, classes))
        lengths = np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(columns, axis=1))
        cosines = rows @ columns.T / np.maximum(lengths, 1e-12)
        same = np.array(words)[:, None] == np.array(classes)[None]
        return np.where(same, 1.0, cosines).astype(np.float32)

    def _vector(self, name: str) -> NDArray[np.float64]:
        known = [self.vectors[self.vocabulary[word]] for word in name.split() if self.vocabulary[word] != UNK]
        return np.mean(known, 0) if known else np.zeros(self.vectors.shape[1])


def make_linking(recipe: Recipe, learnt: Captioner | None, vocabulary: Vocabulary) -> AttentionLinking | None:
    """What `--set links=`, `link_vectors=` and `link_threshold=` name; None where supervision is not weak.

    `learnt` is the captioner that a run continues from, None for a new one.
    """
    from captrial.language.similarity import Similarity
    from captrial.language.vectors import WordVectors

    if recipe.links not in LINKS:
        raise InputError(f"--set links={recipe.links}: there are {', '.join(LINKS)}")
    if recipe.supervision != "weak":
        return None
    if recipe.links == "own":
        if learnt is None:
            raise InputError(
                "--set links=own: an untrained captioner has no word vectors; continue from a run: --from RUN"
            )
        return OwnVectors(learnt, vocabulary, recipe.link_threshold or 1 / 3)
    vectors = WordVectors.open(Path(recipe.link_vectors)) if recipe.link_vectors else None
    return Similarity(vectors, mode=recipe.links, threshold=recipe.link_threshold or None)  # type: ignore[arg-type]


def make_targets(
    kind: str,
    samples: Sequence[Sample],
    vision: Mapping[str, Any],
    linking: AttentionLinking | None = None,
    masks: bool = False,
) -> AttentionTargets | None:
    """Targets of supervised attention for the training samples; None where attention is left implicit.

    `vision` is what the features were made with (`Backbone.describe()`): boxes move along with its preprocessing.
    `linking` is for weak ones; the default is captrial's table of words for classes, else the installed word vectors.
    With `masks` the masks of regions are painted, where they have one, instead of their boxes.
    """
    if kind not in KINDS:
        raise InputError(f"--set supervision={kind}: there are {', '.join(KINDS)}")
    if kind == "implicit":
        return None
    if masks:
        check_masks(samples, "--set masks=true")
    preprocess = Preprocess.of(vision)
    samples = [with_size(sample) for sample in samples]
    painter = Painter(samples, preprocess, masks)
    return _strong(painter) if kind == "strong" else _weak(painter, linking)


def _strong(painter: Painter) -> AttentionTargets:
    aligned = [replace(sample, phrases=aligned_phrases(sample)) for sample in painter.samples]
    if not any(phrase.regions for sample in aligned for phrases in sample.phrases for phrase in phrases):
        raise DatasetError(
            "--set supervision=strong needs phrases with regions (Flickr30k Entities, the toy world), and no caption "
            "of these training images has one; with boxes and classes alone use supervision=weak"
        )
    return strong_targets(replace(painter, samples=aligned))


def label_by_head_nouns(samples: Sequence[Sample]) -> list[Sample]:
    """The samples with the regions of their phrases, labelled, in place of their own; without the phrases.

    A label is the head noun that most phrases of the same entity have, so a data set with phrases (Flickr30k Entities)
    becomes one of boxes and classes, whose links to the words of a caption are to be found again.
    """
    found = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    labelled = []
    for sample in samples:
        names: dict[str, Counter[str]] = {}
        regions: dict[str, tuple[Region, ...]] = {}
        for _, phrases in zip(sample.captions, aligned_phrases(sample), strict=True):
            analysis = next(found)
            for phrase in phrases:
                head = head_noun(analysis, phrase.start, phrase.end) if phrase.regions else None
                if head is not None:
                    entity = phrase.entity or phrase.text
                    names.setdefault(entity, Counter())[head] += 1
                    regions.setdefault(entity, phrase.regions)
        own = [
            replace(region, label=counts.most_common(1)[0][0])
            for entity, counts in names.items()
            for region in regions[entity]
        ]
        labelled.append(replace(replace_regions(sample, own), phrases=()))
    return labelled


def _weak(painter: Painter, linking: AttentionLinking | None) -> AttentionTargets:
    samples = painter.samples
    with_labels = any(region.label for sample in samples for region in sample.regions)
    if not with_labels and any(phrases for sample in samples for phrases in sample.phrases):
        samples = label_by_head_nouns(samples)
    if not any(region.label for sample in samples for region in sample.regions):
        raise DatasetError(
            "--set supervision=weak needs regions with labels, and no training image has one; give boxes of a "
            "detector or of people ({id: [[x1, y1, x2, y2, class], ...]})"
        )
    from captrial.language.similarity import Similarity

    linking = linking or Similarity.default()
    nouns = noun_positions(samples)
    similarity = _looked_up(linking, nouns, samples)
    painter = replace(painter, samples=samples)
    return weak_targets(painter, nouns, similarity, linking.threshold - 1e-6, scene_words())


def _looked_up(
    linking: AttentionLinking, nouns: Sequence[Sequence[Sequence[tuple[int, str]]]], samples: Sequence[Sample]
) -> Callable[[str, str], float]:
    """The similarity of nouns and classes from one matrix of all of them: a call a pair would take minutes."""
    words = sorted({noun for captions in nouns for caption in captions for _, noun in caption})
    classes = sorted({region.label for sample in samples for region in sample.regions if region.label})
    values = linking.matrix(words, classes)
    row, column = ({name: place for place, name in enumerate(names)} for names in (words, classes))
    return lambda word, class_: float(values[row[word], column[class_]])


def noun_positions(samples: Sequence[Sample]) -> list[list[list[tuple[int, str]]]]:
    """[image][caption] -> (position, name) of every noun; a name of several words counts at each of them."""
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


@dataclass(eq=False)
class AttentionTargets:
    """Targets of a batch, (b, n, t, k), from one function a caption; computed once and kept.

    `maps(row, caption)` gives the painted maps of the caption's words that have one: {word position: square}. A
    square of None is a uniform target, for words that name the whole scene. What is kept is a share an element, not the
    square: a thousand times smaller.
    """

    maps: Callable[[int, int], dict[int, Floats | None]]
    _kept: dict[tuple[int, int], dict[int, NDArray[np.float32]]] = field(default_factory=dict)
    _recent: dict[int, tuple[Floats | None, Floats, NDArray[np.float32]]] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> Tensor:
        """Targets aligned with `batch.targets`."""
        if batch.features.boxes is None:
            raise DatasetError("supervised attention needs boxes of the visual elements; these features have none")
        b, n, t = batch.targets.shape
        targets = np.zeros((b, n, t, batch.features.mask.shape[1]), np.float32)
        boxes, mask = batch.features.boxes.cpu().numpy(), batch.features.mask.cpu().numpy()
        for image, row in enumerate(batch.rows.tolist()):
            elements = mask[image]
            own = boxes[image][elements]
            for number, caption in enumerate(batch.captions[image].tolist()):
                for word, shares in self._of(row, caption, own).items():
                    if word < t:
                        targets[image, number, word, elements] = shares
        return torch.from_numpy(targets).to(batch.features.elements)

    def _of(self, row: int, caption: int, boxes: Floats) -> dict[int, NDArray[np.float32]]:
        if (row, caption) not in self._kept:
            self._kept[row, caption] = {
                word: self._shares(square, boxes) for word, square in self.maps(row, caption).items()
            }
        return self._kept[row, caption]

    def _shares(self, square: Floats | None, boxes: Floats) -> NDArray[np.float32]:
        """The shares of a square; the words of a phrase, and the phrases of an entity, have the same one."""
        known = self._recent.get(id(square))
        if known is None or known[0] is not square or known[1] is not boxes:
            known = square, boxes, to_elements(square, boxes).astype(np.float32)
            if len(self._recent) >= RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[id(square)] = known
        return known[2]


def to_elements(square: Floats | None, boxes: Floats) -> Floats:
    """The share of attention each element (k, 4) should get; sums to 1, if there is any element.

    Where no element overlaps the painted area, the one with the largest IoU with its bounding box gets it all, the
    nearest one where all are 0.
    """
    if square is None or not len(boxes):
        return np.full(len(boxes), 1 / max(len(boxes), 1))
    shares = _mean_inside(square, boxes)
    if shares.sum() > 0:
        return np.asarray(shares / shares.sum())
    rows, columns = np.nonzero(square)
    side = len(square)
    around = (columns.min() / side, rows.min() / side, (columns.max() + 1) / side, (rows.max() + 1) / side)
    ious = iou_matrix(boxes, [around])[:, 0]
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    far = np.hypot(*(centres - [(around[0] + around[2]) / 2, (around[1] + around[3]) / 2]).T)
    best = int(np.lexsort((far, -ious))[0])
    return np.asarray(np.eye(len(boxes))[best])


def _mean_inside(square: Floats, boxes: Floats) -> Floats:
    """The mean of `square` inside each relative box, by an integral image; box edges are rounded to pixels."""
    integral = np.pad(square.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    edges = np.clip(np.round(boxes * len(square)).astype(int), 0, len(square))
    x1, y1, x2, y2 = edges.T
    x2, y2 = np.maximum(x2, np.minimum(x1 + 1, len(square))), np.maximum(y2, np.minimum(y1 + 1, len(square)))
    total = integral[y2, x2] - integral[y1, x2] - integral[y2, x1] + integral[y1, x1]
    return np.asarray(total / np.maximum((x2 - x1) * (y2 - y1), 1))


@dataclass(frozen=True)
class Painter:
    """Paints regions of some images on the square that a model gets of each."""

    samples: Sequence[Sample]
    preprocess: Preprocess
    masks: bool = False  # decode the masks of regions that have one (COCO, the toy world) instead of their boxes

    def paint(self, row: int, regions: Sequence[tuple[Region, float]]) -> Floats | None:
        """Regions of an image with their values; see `paint`."""
        sample = self.samples[row]
        shapes = region_shapes(sample, [region for region, _ in regions], masks=self.masks)
        values = [value for _, value in regions]
        return paint(list(zip(shapes, values, strict=True)), sample, self.preprocess)


def strong_targets(painter: Painter) -> AttentionTargets:
    """Every word of a phrase should attend to the phrase's own regions (Liu 2017: Flickr30k Entities)."""

    @lru_cache(maxsize=RECENT)  # several captions of an image refer to the same entity
    def painted(row: int, regions: tuple[Region, ...]) -> Floats | None:
        return painter.paint(row, [(region, 1.0) for region in regions])

    def maps(row: int, caption: int) -> dict[int, Floats | None]:
        sample = painter.samples[row]
        phrases: Iterable[Phrase] = sample.phrases[caption] if caption < len(sample.phrases) else ()
        found: dict[int, Floats | None] = {}
        for phrase in phrases:
            square = painted(row, phrase.regions)
            if square is not None:
                found.update(dict.fromkeys(range(phrase.start, phrase.end), square))
        return found

    return AttentionTargets(maps)


def weak_targets(
    painter: Painter,
    nouns: Sequence[Sequence[Sequence[tuple[int, str]]]],
    similarity: Callable[[str, str], float],
    threshold: float,
    scenes: frozenset[str] = frozenset(),
) -> AttentionTargets:
    """A noun should attend to the objects whose class means the same (Liu 2017: COCO); scene words anywhere.

    `nouns[image][caption]` are (position, lemma) pairs; a class counts where `similarity` passes the threshold.
    """

    @lru_cache(maxsize=RECENT)
    def painted(row: int, noun: str) -> Floats | None:
        near = ((region, similarity(noun, region.label)) for region in painter.samples[row].regions if region.label)
        return painter.paint(row, [(region, value) for region, value in near if value >= threshold])

    def maps(row: int, caption: int) -> dict[int, Floats | None]:
        found = dict[int, Floats | None]()
        for position, noun in nouns[row][caption]:
            if noun in scenes:  # first: word vectors would link "kitchen" to a spoon (Liu 2017 Fig. 3)
                found[position] = None
                continue
            square = painted(row, noun)
            if square is not None:
                found[position] = square
        return found

    return AttentionTargets(maps)


def paint(regions: Sequence[tuple[Region, float]], sample: Sample, preprocess: Preprocess) -> Floats | None:
    """Regions painted with their values, the larger one where they overlap, on the square that the model gets.

    None where nothing of them is left after cropping.
    """
    square = np.zeros((RESOLUTION, RESOLUTION))
    width, height = sample.image.width, sample.image.height
    if not width or not height:
        raise DatasetError(f"image {sample.id}: its size is not known; supervised attention needs it")
    for region, value in regions:
        inside = mask_on_square(region, width, height, preprocess)
        np.maximum(square, value * inside, out=square)
    return square if square.any() else None
