"""PairwiseScores and competitions made up for tests: small, random, with known shapes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from captrial.compete.ranking.pair_scores import PairStatistics, PairwiseScores

NOUNS = ["dog", "cat", "bird", "horse", "sheep", "cow", "bear", "zebra", "giraffe", "elephant"]
PLACES = ["grass", "street", "beach", "field", "bed", "couch", "table", "road", "hill", "boat"]


def mean(totals: np.ndarray) -> np.ndarray:
    return totals[..., 0] / totals[..., 1]


def pairwise_scores(
    models: int = 3, images: int = 12, share: float = 0.5, seed: int = 0, zeros: bool = False
) -> PairwiseScores:
    """Random scores: model 0 is better than model 1 and so on, each D_ij holds some of the images."""
    generator = np.random.default_rng(seed)
    pairs = []
    for i, j in combinations(range(models), 2):
        chosen = np.sort(generator.choice(images, max(2, int(share * images)), replace=False))
        values = generator.gamma(2.0, 1.0, (len(chosen), 2)) / np.array([1.0 + 0.2 * i, 1.0 + 0.2 * j])
        if zeros:
            values[:, 1] = 0.0
        statistics = np.stack([values, np.ones_like(values)], axis=2)
        pairs.append(PairStatistics((i, j), chosen, statistics, values, len(chosen)))
    names = tuple(f"m{index}" for index in range(models))
    return PairwiseScores("made", names, tuple(f"{index:03}" for index in range(images)), tuple(pairs), mean)


def restrict(pairwise: PairwiseScores, keep: Sequence[NDArray[np.int64]]) -> PairwiseScores:
    """Only some images of each pair: `keep[pair]` are positions in that pair's list."""
    pairs = [
        replace(pair, images=pair.images[rows], statistics=pair.statistics[rows], per_image=pair.per_image[rows])
        for pair, rows in zip(pairwise.pairs, keep, strict=True)
    ]
    return replace(pairwise, pairs=tuple(pairs))


def captions(images: int, models: int, seed: int = 0) -> dict[str, dict[str, str]]:
    """Short captions; later models see the wrong thing more often."""
    generator = np.random.default_rng(seed)
    found: dict[str, dict[str, str]] = {f"model{index}": {} for index in range(models)}
    for image in range(images):
        noun, place = generator.choice(NOUNS), generator.choice(PLACES)
        for index, name in enumerate(found):
            shown = noun if generator.random() > 0.15 * (index + 1) else generator.choice(NOUNS)
            where = place if generator.random() > 0.15 * (index + 1) else generator.choice(PLACES)
            verb = generator.choice(["standing", "sitting", "lying", "playing"])
            found[name][f"{image}"] = f"a {shown} {verb} on the {where}"
        found.setdefault("truth", {})[f"{image}"] = f"a {noun} is on the {place}"
    return found


def write_files(folder: Path, made: dict[str, dict[str, str]]) -> tuple[dict[str, Path], Path]:
    """Caption files (COCO results) of all models, and a reference file."""
    truth = made.pop("truth")
    files = {}
    for name, texts in made.items():
        files[name] = folder / f"{name}.json"
        rows = [{"image_id": int(image), "caption": text} for image, text in texts.items()]
        files[name].write_text(json.dumps(rows))
    references = folder / "references.json"
    people = {image: [text, text.replace("is on", "stands on"), f"{text} outside"] for image, text in truth.items()}
    references.write_text(json.dumps(people))
    return files, references
