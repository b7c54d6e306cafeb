"""`compete new|add --captioner NAME=SOURCE`: captions of one source never pass for another's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from PIL import Image
from typer.testing import CliRunner

from captrial.captioners import loading
from captrial.cli.app import app
from captrial.errors import MismatchError


class Echo:
    """Says the source that it was loaded from."""

    asked = 0

    def __init__(self, source: str) -> None:
        self.source = source

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        Echo.asked += len(images)
        return [self.source] * len(images)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three images, and captioners that say what they are called."""
    monkeypatch.setattr(loading, "load_captioner", Echo)
    monkeypatch.setattr(Echo, "asked", 0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / f"{number}.png")
    return tmp_path


def new(first: str, second: str = "owner/two") -> str:
    """A competition, made anew; what went wrong, or nothing."""
    shutil.rmtree("trial", ignore_errors=True)
    line = ["compete", "new", "trial", "--captioner", f"a={first}", "--captioner", f"b={second}", "--images", "images"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0 or isinstance(result.exception, MismatchError), result.output
    return str(result.exception or "")


def captions(folder: Path, name: str = "a") -> set[str]:
    lines = (folder / "trial.captions" / f"{name}.jsonl").read_bytes().splitlines()
    assert len(lines) == 3
    return {orjson.loads(line)["caption"] for line in lines}


@pytest.mark.parametrize("other", ["owner/three", "owner/one?beam=3", "http://host/v1#one"])
def test_another_source_is_refused(folder: Path, other: str) -> None:
    assert new("owner/one") == ""
    assert Echo.asked == 6
    why = new(other)
    assert f"a.jsonl holds captions of owner/one, not of {other}" in why
    assert "another name, or delete that file" in why
    assert Echo.asked == 6
    (folder / "trial.captions" / "a.jsonl").unlink()
    assert new(other) == ""
    assert captions(folder) == {other}
    cost = orjson.loads((folder / "trial.captions" / "a.cost.json").read_bytes())
    assert cost["images"] == 3  # of this captioner alone


def test_added_models_are_checked_too(folder: Path) -> None:
    assert new("owner/one") == ""
    run = CliRunner()
    assert run.invoke(app, ["compete", "add", "trial", "--captioner", "c=owner/three"]).exit_code == 0
    assert new("owner/one") == ""  # deleted and made again
    result = run.invoke(app, ["compete", "add", "trial", "--captioner", "c=owner/four"])
    assert "holds captions of owner/three" in str(result.exception)


def test_the_same_source_goes_on(folder: Path) -> None:
    first = "http://me:secret@host/v1?key=secret#one?timeout=9&prompt=What is it?"
    assert new(first) == ""
    kept = folder / "trial.captions" / "a.jsonl"
    kept.write_bytes(b"".join(kept.read_bytes().splitlines(keepends=True)[:2]))  # killed before the third
    assert new("http://host/v1#one?prompt=What is it?&concurrency=64") == ""  # another pace, another key
    assert Echo.asked == 6 + 1
    assert "secret" not in (folder / "trial.captions" / "a.source.json").read_text()


def test_captions_without_a_note_are_taken_as_they_are(folder: Path) -> None:
    assert new("owner/one") == ""
    (folder / "trial.captions" / "a.source.json").unlink()  # as written by version 0.1
    assert new("owner/one") == ""
    assert Echo.asked == 6
    assert "holds captions of owner/one" in new("owner/three")


def test_a_local_checkpoint_is_known_by_its_files(folder: Path) -> None:
    weights = folder / "run" / "best" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"1")
    assert new("run") == ""
    assert new(str(folder / "run")) == ""  # the same folder
    weights.write_bytes(b"2")
    os.utime(weights, ns=(0, 0))
    assert "before its files changed" in new("run")
