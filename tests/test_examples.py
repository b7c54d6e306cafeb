"""Every example runs from its first cell to its last, offline, and says what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples"
SAID = {  # what must be in the output, and what must be written
    "add_a_model.py": (["there is something on", "new images to label", "1. whole"], []),
    "caption_a_photo.py": (["motorcycle_right.png: a", "EndpointCaptioner"], []),
    "explain_a_caption.py": (["motorcycle, not horse"], ["explanation.html", "explanation.npz", "grounded.html"]),
    "score_captions.py": (["mine {'bleu_1'", "mine - theirs: +", "CIDEr between"], []),
    "which_model_is_better.py": (["1. ours", "images to label", "ours wins; if"], ["which/report/index.html"]),
}


def test_every_example_has_its_test_and_its_line() -> None:
    names = {path.name for path in FOLDER.glob("*.py")}
    assert names == set(SAID)
    assert all(f"[{name}]({name})" in (FOLDER / "README.md").read_text() for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAID))
def test_the_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / name))
    said = capsys.readouterr().out
    wanted, written = SAID[name]
    for text in wanted:
        assert text in said
    for file in written:
        assert (tmp_path / "out" / file).stat().st_size > 1000
