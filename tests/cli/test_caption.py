"""`captrial caption` refuses an output over its input, or over a file it did not write, before a model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from captrial.captioners import loading
from captrial.cli.app import app
from captrial.errors import InputError


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_captioner", lambda *_, **__: pytest.fail("a model was loaded"))


@pytest.mark.parametrize("arguments", [["in.parquet", "--out", "in.parquet"], ["a.jpg", "--out", "captions.json"]])
def test_inputs_and_foreign_files_are_kept(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in.parquet", "a.jpg", "captions.json"):
        Path(name).write_text("mine")
    result = CliRunner().invoke(app, ["caption", *arguments])
    assert isinstance(result.exception, InputError)
    assert "choose another output" in str(result.exception)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("in.parquet", "a.jpg", "captions.json"), "mine"
    )
