"""A small competition on disk: three models, sixty images, references for all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from captrial.compete import Competition, SelectionSettings
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
