"""`captrial features` as a user would type it, on a small toy world."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import answer, run_captrial


@pytest.mark.slow
def test_an_extraction_is_not_repeated(world: Path, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = answer(capsys, ["features", str(world), "--out", str(store), "--backbone", "efficientnet-lite0"])
    assert (again["images"], again["extracted"], again["refused"]) == (30, 0, {})


@pytest.mark.slow
def test_a_broken_image_is_reported_and_the_rest_extracted(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "good.png").write_bytes(next(world.rglob("*.png")).read_bytes())
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    outcome = answer(
        capsys, ["features", str(folder), "--out", str(tmp_path / "store"), "--backbone", "efficientnet-lite0"]
    )
    assert outcome["extracted"] == 1
    assert list(outcome["refused"]) == ["bad.png"]  # type: ignore[call-overload]


@pytest.mark.slow
def test_of_many_broken_images_a_few_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing more")
    run_captrial(["features", str(folder), "--out", str(tmp_path / "store"), "--backbone", "efficientnet-lite0"])
    told = capsys.readouterr().err
    assert "ImageProblem" not in told
    assert "4.png" in told
    assert "5.png" not in told
    assert "and 3 more" in told
