from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import answer


def test_sample_then_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "try"
    made = answer(capsys, ["sample", str(out), "--images", "12"])
    assert all(Path(path).exists() for path in made["files"])
    scores = answer(
        capsys,
        [
            "score",
            str(out / "mine.json"),
            str(out / "theirs.json"),
            "--references",
            str(out / "references.json"),
            "-m",
            "bleu",
        ],
    )
    assert set(scores) == {"mine", "theirs"}
