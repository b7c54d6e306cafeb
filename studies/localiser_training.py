"""Training of the noun localiser: which words of the captions a grid cell shows, from images and captions alone.

The probability that an image shows a noun is the noisy-OR of its cells, `1 - prod_c (1 - p_c)` (Fang et al. 2015,
Eq. 1), and the loss is its cross-entropy with the words of the captions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from captrial.errors import DatasetError
from captrial.language.class_words import COCO_CLASSES, default_table, scene_words
from captrial.language.nouns import analyse
from captrial.progress import track
from captrial.records import Sample
from captrial.vision.backbones.base import Backbone
from captrial.vision.detectors.noun_localiser import NounLocaliser
from captrial.vision.features.visual_features import FeatureSource

Words = frozenset[str]


class CaptionWords(NamedTuple):
    """Words of the captions of an image: nouns (longest entries of the class table, singular) and adjectives."""

    nouns: Words
    adjectives: Words


class LocaliserLabels(NamedTuple):
    """Nouns and adjectives to learn."""

    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]


def caption_words(samples: Sequence[Sample]) -> list[CaptionWords]:
    """Nouns and adjectives of all captions of each image."""
    table = default_table()
    flat = iter(analyse([caption for sample in samples for caption in sample.captions], phrases=False))
    found = []
    for sample in samples:
        nouns: set[str] = set()
        adjectives: set[str] = set()
        for one in (next(flat) for _ in sample.captions):
            nouns.update(mention.name for mention in table.mentions(one.lemmas, one.nouns))
            tagged = zip(one.lemmas, one.tags, strict=True)
            adjectives.update(lemma for lemma, tag in tagged if tag.startswith("JJ"))
        found.append(CaptionWords(frozenset(nouns), frozenset(adjectives)))
    return found


def choose_labels(words: Sequence[CaptionWords], least_nouns: int = 15, least_adjectives: int = 40) -> LocaliserLabels:
    """Visible words in the captions of enough images; a noun that is mostly an adjective (*orange*) is left out."""
    table = default_table()
    in_table = (word for kinds in table.kinds.values() for word in kinds)
    visible = {*in_table, *scene_words(), *visible_words("things")} - visible_words("never")
    nouns = Counter(table.canonical(noun) for one in words for noun in {*one.nouns})
    adjectives = Counter(adjective for one in words for adjective in one.adjectives)
    kinds = meanings([*nouns, *table.kinds])
    shown = Counter(label for one in words for label in {kind for noun in one.nouns for kind in kinds.get(noun, ())})
    named = [
        noun
        for noun, count in shown.most_common()
        if count >= least_nouns and noun in visible and nouns[noun] >= adjectives[noun]
    ]
    looks = visible_words("looks")
    described = [word for word, count in adjectives.most_common() if count >= least_adjectives and word in looks]
    return LocaliserLabels(tuple(sorted(named)), tuple(sorted(described)))


def meanings(nouns: Iterable[str]) -> dict[str, list[str]]:
    """For every word the nouns among these that it means; a word that could mean two COCO classes only means itself."""
    table = default_table()
    unclear = {word for word, classes in table.meanings(COCO_CLASSES).items() if len(classes) > 1}
    found: dict[str, list[str]] = {}
    for noun in dict.fromkeys(nouns):
        for word in {noun, *(table.words(noun) - unclear)}:
            found.setdefault(word, []).append(noun)
    return found


def targets(words: Sequence[CaptionWords], labels: LocaliserLabels) -> NDArray[np.float32]:
    """1 where the captions of an image have a label: (images, nouns + adjectives).

    An image is positive for a noun when a caption has a word that means it: *puppy* for *dog*, *boy* for *person*.
    """
    place = {noun: number for number, noun in enumerate(labels.nouns)}
    kinds = {word: [place[noun] for noun in nouns] for word, nouns in meanings(labels.nouns).items()}
    looks = {word: len(place) + number for number, word in enumerate(labels.adjectives)}
    result = np.zeros((len(words), len(place) + len(looks)), np.float32)
    for row, one in zip(result, words, strict=True):
        row[[number for noun in one.nouns for number in kinds.get(noun, ())]] = 1
        row[[looks[word] for word in one.adjectives if word in looks]] = 1
    return result


@cache
def visible_words(kind: str) -> Words:
    """The words of `visible.txt` of a kind: "things", "looks" or "never"."""
    lines = (Path(__file__).parent / "visible.txt").read_text(encoding="utf-8").splitlines()
    found = [line.removeprefix(f"{kind}:").split(",") for line in lines if line.startswith(f"{kind}:")]
    return frozenset(word.strip() for words in found for word in words)


@dataclass(frozen=True)
class LocaliserRecipe:
    """How the localiser is trained."""

    least_nouns: int = 15  # images whose captions must have a noun
    least_adjectives: int = 40
    least_auc: float = 0.7  # a label is kept where the validation images that show it stand out this clearly
    components: int = 512  # principal components of the cells: quicker, and less to learn by heart
    epochs: int = 6
    batch: int = 64
    rate: float = 3e-3
    weight_decay: float = 0.01
    seed: int = 0


class Components(NamedTuple):
    """Principal components of grid cells."""

    mean: Tensor  # (d,)
    basis: Tensor  # (d, components)
    scale: float  # makes the projected cells' variance one on average


def train_localiser(
    train: Sequence[Sample],
    val: Sequence[Sample],
    features: FeatureSource,
    grid: Backbone,
    recipe: LocaliserRecipe | None = None,
) -> NounLocaliser:
    """Learn the nouns and adjectives of the training captions on grid features of the images.

    Labels that the validation images do not show (area under the ROC curve under `least_auc`) are left out again.
    """
    recipe = recipe or LocaliserRecipe()
    if not train or not val:
        raise DatasetError(f"{len(train)} training and {len(val)} validation images; the localiser needs both")
    words = caption_words([*train, *val])
    labels = choose_labels(words[: len(train)], recipe.least_nouns, recipe.least_adjectives)
    wanted = targets(words, labels)
    parts = components(features, train, recipe)
    cells = [project(features, samples, parts) for samples in (train, val)]
    head = fit(cells[0], wanted[: len(train)], recipe)
    clear = _areas_under_curve(image_scores(head, cells[1]), wanted[len(train) :]) >= recipe.least_auc
    return _assemble(head, parts, labels, clear, grid)


def components(features: FeatureSource, samples: Sequence[Sample], recipe: LocaliserRecipe) -> Components:
    """Principal components of the cells of (at most 800) images."""
    chosen = np.random.default_rng(recipe.seed).permutation(len(samples))[:800]
    rows = torch.cat([part.flatten(0, 1) for part in _chunks(features, [samples[index] for index in chosen])])
    mean = rows.mean(0)
    values, vectors = torch.linalg.eigh((rows - mean).T @ (rows - mean) / len(rows))
    kept = min(recipe.components, len(values))
    return Components(mean, vectors.flip(1)[:, :kept].contiguous(), float(values[-kept:].mean() ** -0.5))


def project(features: FeatureSource, samples: Sequence[Sample], parts: Components) -> Tensor:
    """Cells of all images in principal components: (n, c, components)."""
    return torch.cat([(part - parts.mean) @ parts.basis * parts.scale for part in _chunks(features, samples)])


def fit(cells: Tensor, wanted: NDArray[np.float32], recipe: LocaliserRecipe) -> nn.Linear:
    """Learn the log-odds of every label on every cell by the noisy-OR of the image."""
    torch.manual_seed(recipe.seed)
    head = nn.Linear(cells.shape[2], wanted.shape[1])
    nn.init.normal_(head.weight, std=0.01)
    with torch.no_grad():  # begin with images as likely to show a label as they are
        head.bias.copy_(torch.from_numpy(np.log((wanted.mean(0) + 1e-4) / cells.shape[1])))
    optimizer = torch.optim.AdamW(head.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * -(-len(cells) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=steps)
    truth = torch.from_numpy(wanted)
    for epoch in track(range(recipe.epochs), "learning nouns"):
        order = torch.from_numpy(np.random.default_rng((recipe.seed, epoch)).permutation(len(cells)))
        for start in range(0, len(order), recipe.batch):
            rows = order[start : start + recipe.batch]
            loss = noisy_or_loss(head(cells[rows]), truth[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return head


def noisy_or_loss(maps: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropy of the noisy-OR over cells, summed over labels: (b, c, n), (b, n) -> ()."""
    none = -functional.softplus(maps).sum(1).clamp(min=1e-6)  # log-probability that no cell shows it
    return -(wanted * torch.log1p(-none.exp()) + (1 - wanted) * none).sum(1).mean()


@torch.no_grad()
def image_scores(head: nn.Linear, cells: Tensor) -> NDArray[np.float32]:
    """A score an image and label that grows with its probability: (n, c, d) -> (n, labels)."""
    parts = (cells[start : start + 100] for start in range(0, len(cells), 100))
    return torch.cat([functional.softplus(head(part)).sum(1) for part in parts]).numpy()


def _areas_under_curve(scores: NDArray[np.float32], wanted: NDArray[np.float32]) -> NDArray[np.float64]:
    """Area under the ROC curve of each column; 0 where the images show it never or always."""
    ranks = scores.argsort(0, kind="stable").argsort(0, kind="stable") + 1.0
    positive = wanted.sum(0)
    pairs = positive * (len(wanted) - positive)
    won = (ranks * wanted).sum(0) - positive * (positive + 1) / 2
    return np.asarray(np.where(pairs > 0, won / np.maximum(pairs, 1), 0.0))


def _assemble(
    head: nn.Linear, parts: Components, labels: LocaliserLabels, clear: NDArray[np.bool_], grid: Backbone
) -> NounLocaliser:
    """The localiser of the labels that are clear, its weights on the features themselves."""
    names = (*labels.nouns, *labels.adjectives)
    kept = [number for number in range(len(names)) if clear[number]]
    nouns = [names[number] for number in kept if number < len(labels.nouns)]
    localiser = NounLocaliser(nouns, [names[n] for n in kept[len(nouns) :]], grid)
    localiser.people = default_table().words("person") & {*nouns}
    with torch.no_grad():
        weight = head.weight[kept] @ parts.basis.T * parts.scale
        localiser.head.weight.copy_(weight)
        localiser.head.bias.copy_(head.bias[kept] - weight @ parts.mean)
    return localiser.requires_grad_(False).eval()


def _chunks(features: FeatureSource, samples: Sequence[Sample], size: int = 200) -> Iterable[Tensor]:
    """Grid features (n, c, d) of the images, some at a time."""
    for start in range(0, len(samples), size):
        yield features.get([sample.id for sample in samples[start : start + size]]).elements
