"""Fixtures: a small competition on disk (three models, sixty images, references for all), and a scorer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from captrial.compete import Competition, PairScorer, SelectionSettings
from captrial.compete.ranking.pair_scores import PairImages
from compete import synthetic


@dataclass
class Small:
    competition: Competition
    directory: Path
    files: dict[str, Path]
    references: Path


@pytest.fixture
def files(tmp_path: Path) -> tuple[dict[str, Path], Path]:
    return synthetic.write_files(tmp_path, synthetic.captions(60, 3))


@pytest.fixture
def small(tmp_path: Path, files: tuple[dict[str, Path], Path]) -> Small:
    competition = Competition.create(tmp_path / "competition", files[0])
    competition.select(SelectionSettings(8, 8))
    return Small(competition, competition.directory, *files)


def same(texts: list[str]) -> list[str]:
    return texts


@pytest.fixture
def scorer() -> PairScorer:
    made_up = synthetic.captions(30, 3, seed=1)
    truth = made_up.pop("truth")
    captions = {image: tuple(texts[image] for texts in made_up.values()) for image in truth}
    references = {image: [text, f"there is {text}"] for image, text in truth.items() if int(image) < 25}
    pairs = [
        PairImages((0, 1), tuple(map(str, range(14)))),
        PairImages((0, 2), tuple(map(str, range(8, 22)))),
        PairImages((1, 2), tuple(map(str, range(16, 30)))),
    ]
    return PairScorer(list(made_up), pairs, captions, references, tokenize=same)
