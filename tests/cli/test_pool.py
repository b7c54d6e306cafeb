"""`captrial pool`: build and show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.cli import main
from data.pools.photos import write_photos

KEPT = [*(f"cats/{n}.jpg" for n in range(4)), *(f"dogs/{n}.jpg" for n in range(4, 7))]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["pool", *arguments])
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


def test_commands(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "pool")
    code, text, _ = run(capsys, "build", out, "--from", str(photos))
    assert code == 0
    assert "near duplicate" in text
    code, text, _ = run(capsys, "build", out, "--from", str(photos), "--near-distance", "-1", "--json")
    assert json.loads(text)["left_out"] == {"exact duplicate": 1, "unreadable": 3}
    code, text, _ = run(capsys, "show", out, "--figure", str(tmp_path / "classes.svg"))
    assert code == 0
    assert "dogs" in text
    assert (tmp_path / "classes.svg").exists()
    code, text, _ = run(capsys, "show", out, "--json", "--left-out")
    assert {row["status"] for row in json.loads(text)["left_out_images"]} == {"exact duplicate", "unreadable"}
    code, text, _ = run(capsys, "show", out, "--left-out")
    assert "page.jpg" in text
    code, text, error = run(capsys, "show", str(photos))
    assert (code, text) == (2, "")
    assert "not a finished pool" in error
