"""`captrial verify` recognises a folder by its content and reports damage with exit code 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.cli.verify import verifiers
from captrial.data.pools import build_pool
from captrial.errors import InputError
from data.pools.photos import write_photos


def test_verify_a_pool(tmp_path: Path) -> None:
    build_pool([write_photos(tmp_path / "photos")], tmp_path / "pool")
    good = CliRunner().invoke(app, ["verify", str(tmp_path / "pool"), "--json"])
    assert good.exit_code == 0
    assert json.loads(good.stdout) == {
        "folder": str(tmp_path / "pool"),
        "kind": "image pool",
        "files": 9,
        "problems": [],
    }
    with (tmp_path / "pool" / "manifest.parquet").open("ab") as stream:
        stream.write(b"x")
    bad = CliRunner().invoke(app, ["verify", str(tmp_path / "pool")])
    assert bad.exit_code == 1
    assert "damaged:" in bad.stdout
    assert "manifest.parquet: has" in bad.stdout


def test_other_folders_are_named(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none", Path(__file__)):
        result = CliRunner().invoke(app, ["verify", str(folder)])
        assert isinstance(result.exception, InputError)
        assert "image pool" in str(result.exception)


@pytest.mark.parametrize("verifier", list(verifiers()), ids=lambda one: one.name)
def test_no_verifier_recognises_a_foreign_folder(verifier: object, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert not verifier.recognise(tmp_path)  # type: ignore[attr-defined]
