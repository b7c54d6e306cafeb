"""Fixtures of the tests of commands: a small competition, and a toy world of thirty images with its features."""

from __future__ import annotations

from pathlib import Path

import pytest

from captrial.toyworld import ToyWorldSettings, write_toyworld
from cli.commands import run_captrial
from cli.writing_verbs import Inputs
from compete.competitions import files, small

__all__ = ["files", "small"]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "world"
    write_toyworld(folder, ToyWorldSettings(30, size=64, shares={"train": 2, "val": 1}))
    return folder


@pytest.fixture(scope="session")
def store(world: Path) -> Path:
    folder = world.parent / "features"
    run_captrial(["features", str(world), "--out", str(folder), "--backbone", "efficientnet-lite0"])
    return folder


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Tiny inputs of every command; copy them before a command that may change them is run."""
    made = Inputs(tmp_path_factory.mktemp("everything"))
    made.make_all()
    return made
