"""Eleven captioners on the 5 000 images of the Karpathy test split: what the studies of competitions draw from.

Nine published captioners, BLIP-2 and LLaVA 1.5 (paragraphs; CIDEr near 0). Every image is labelled, so the value that
an estimate aims at is known. Scores are computed once, with one table of document frequencies (of all 5 000 images'
references), and all draws are arithmetic on them, through the functions of `captrial.compete`.
Data: `../shared/data/captioners` (or `CAPTRIAL_DATA`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from captrial.compete.ranking.estimates import PoolSample
from captrial.compete.ranking.pair_scores import LabelDesign, PairScorer
from captrial.compete.selection.caption_agreement import caption_agreement, semantic_agreement
from captrial.compete.selection.design import SampleOrder, rates
from captrial.compete.selection.discrepancy import SearchOptions, rank_images
from captrial.compete.selection.label_sample import LabelSample
from captrial.compete.selection.token_rows import TokenEncoder
from captrial.compete.storage.caption_pool import CaptionPool
from captrial.data import read_captions, read_references
from captrial.files import atomic_write
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from studies.data_paths import DATA, KARPATHY_TEST, ROOT, published_captions

RESULTS = ROOT / "studies" / "results" / "competition"
VLM = DATA / "captioners" / "karpathy_test_vlm"
LABELS = (3, 5, 10, 20, 40)
Floats = np.ndarray


@dataclass
class Captioners:
    """Scores (images, models) of all captioners, and what selection and sampling need to know."""

    metric: str = "cider"
    names: list[str] = field(init=False)
    images: list[str] = field(init=False)
    scores: Floats = field(init=False)

    def __post_init__(self) -> None:
        files = published_captions() | {path.stem: path for path in sorted(VLM.glob("*.json"))}
        references = read_references(KARPATHY_TEST / "references.json")
        self.names, self.images = list(files), sorted(references)
        read = [read_captions(path) for path in files.values()]
        texts = [dict(zip(found.ids, found.texts, strict=True)) for found in read]
        self.captions = [[text[image] for image in self.images] for text in texts]
        by_image = dict(zip(self.images, zip(*self.captions, strict=True), strict=True))
        scorer = PairScorer(self.names, [], by_image, references, design=LabelDesign(tuple(self.images)))
        self.scores = scorer.image_scores(self.metric, DocumentFrequencies.of(list(references.values())))
        self._agreement: dict[tuple[int, ...], Floats] = {}
        self._meanings: dict[tuple[int, int], Floats] = {}
        self._orders: dict[tuple[int, int], np.ndarray] = {}

    def agreement(self, models: Sequence[int]) -> Floats:
        """(images, models): how much these captioners agree with each other."""
        key = tuple(models)
        if key not in self._agreement:
            if self.metric == "semantic":
                self._agreement[key] = np.mean(
                    [[self._meaning(model, other) for other in models if other != model] for model in models], axis=1
                ).T
            else:
                texts = pa.array([text for model in models for text in self.captions[model]])
                self._agreement[key] = caption_agreement(TokenEncoder().encode(texts), len(key))
        return self._agreement[key]

    def _meaning(self, first: int, second: int) -> Floats:
        """(images,) agreement of two captioners by meaning."""
        pair = min(first, second), max(first, second)
        if pair not in self._meanings:
            self._meanings[pair] = semantic_agreement([self.captions[model] for model in pair])[:, 0]
        return self._meanings[pair]

    def discrepancy_order(self, first: int, second: int) -> np.ndarray:
        """All images, as rows, in the order of selection for two captioners: the first k are D_ij."""
        if not self._orders:
            pool = CaptionPool(self.images, dict(zip(self.names, self.captions, strict=True)))
            row = {image: number for number, image in enumerate(self.images)}
            found = rank_images(pool, len(self.images), SearchOptions())
            for pair, best in zip(combinations(range(len(self.names)), 2), found, strict=True):
                self._orders[pair] = np.array([row[image] for image in best.ids])
        return self._orders[min(first, second), max(first, second)]

    def competition(self, models: Sequence[int], pool: np.ndarray | None = None) -> DrawnCompetition:
        """Some of the captioners on some of the images (rows; by default all)."""
        chosen = np.sort(np.asarray(models))
        return DrawnCompetition(self, chosen, np.arange(len(self.images)) if pool is None else np.sort(pool))


@dataclass
class DrawnCompetition:
    """A competition between some of the captioners on some of the images; rows are those of its own pool."""

    source: Captioners
    models: np.ndarray
    pool: np.ndarray

    def __post_init__(self) -> None:
        self.m, self.size = len(self.models), len(self.pool)
        self.names = [self.source.names[model] for model in self.models]
        self.images = [self.source.images[row] for row in self.pool]
        self.scores = self.source.scores[np.ix_(self.pool, self.models)]
        self.truth = self.scores.mean(axis=0)
        self.agreement = self.source.agreement(self.models.tolist())[self.pool]
        self.rates = rates(self.agreement)

    @cached_property
    def pair_orders(self) -> dict[tuple[int, int], np.ndarray]:
        """All images in the order of selection, pair by pair, as rows of the pool."""
        inside = np.full(len(self.source.images), -1)
        inside[self.pool] = np.arange(self.size)
        found = {}
        for i, j in combinations(range(self.m), 2):
            rows = inside[self.source.discrepancy_order(int(self.models[i]), int(self.models[j]))]
            found[i, j] = rows[rows >= 0]
        return found

    def pair_sets(self, k: int) -> dict[tuple[int, int], np.ndarray]:
        """D_ij of all pairs, as rows of the pool."""
        return {pair: rows[:k] for pair, rows in self.pair_orders.items()}

    def order(self, seed: int, weighted: bool, count: int) -> SampleOrder:
        """The order of a sample of the pool."""
        return SampleOrder(self.images, seed, [(self.rates if weighted else np.ones(self.size), count)])

    def hybrid(self, seed: int, selected: np.ndarray, sampled: int) -> tuple[np.ndarray, Floats]:
        """What the hybrid design labels, D (rows) and a weighted sample: rows, and (images,) their probabilities."""
        order = self.order(seed, True, sampled)
        design = LabelSample(self.images, {self.images[row]: 0 for row in selected}, order, sampled, seed)
        labelled = frozenset(design.to_label())
        chance = design.probabilities(labelled)
        rows = np.array([row for row, image in enumerate(self.images) if image in labelled])
        probability = np.zeros(self.size)
        probability[rows] = [chance[self.images[row]] for row in rows]
        return rows, probability

    def union(self, k: int) -> np.ndarray:
        """D for this k, as rows."""
        return np.unique(np.concatenate(list(self.pair_sets(k).values())))

    def largest_k(self, images: int) -> int:
        """The largest k for which D has at most this many images; at least 1."""
        low, high = 1, max(images, 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if len(self.union(middle)) <= images else (low, middle - 1)
        return low

    def sample(self, rows: np.ndarray, probability: Floats, rate: Floats) -> PoolSample:
        """The labelled images as `pool_estimate` wants them."""
        return PoolSample(
            probability[rows],
            rate[rows],
            self.agreement[rows],
            float(rate.mean()),
            self.agreement.mean(axis=0),
            self.size,
        )


def write_results(name: str, found: object, indent: int | None = 1) -> Path:
    """Write a study's result as JSON."""
    path = RESULTS / f"{name}.json"
    atomic_write(path, json.dumps(found, indent=indent).encode() + b"\n")
    return path


def read_results(name: str) -> Any:
    """A study's result, if it has been run."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_bytes()) if path.is_file() else None
