"""The demonstration finds out what it should, and is quick the second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from captrial import demo


@pytest.mark.slow
def test_the_best_speaker_wins_and_a_second_run_reuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PICTURES", 60)
    monkeypatch.setattr(demo, "K", 8)
    said: list[str] = []
    first = demo.Demo(tmp_path, said.append)
    result = first.run()
    assert result["ranking"][0]["model"] == "careful"
    assert result["report"].stat().st_size > 10_000
    assert not first.reused
    again = demo.Demo(tmp_path, said.append)
    assert again.run()["ranking"] == result["ranking"]
    assert len(again.reused) == 4
