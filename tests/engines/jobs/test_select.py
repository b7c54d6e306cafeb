"""Images selected in slices are those of one search, whatever the slices and their order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.compete import Competition, SelectionSettings
from captrial.compete.selection.discrepancy import RankedImages, SearchOptions
from captrial.engines.jobs import select
from captrial.engines.jobs.select import EngineRanker, merge_slices
from captrial.engines.local import LocalEngine
from captrial.errors import InputError
from compete import synthetic

captions = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "on", "the", "grass"]), max_size=7).map(" ".join)


images = st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=12)


def test_a_slice_that_failed_is_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = competition(tmp_path, 40)
    rank = EngineRanker(LocalEngine(), contest.directory)
    with monkeypatch.context() as patch:
        patch.setattr(select.SelectJob, "_search", lambda *_: 1 / 0)
        with pytest.raises(InputError, match="ZeroDivisionError"):
            rank(contest.pool, 10, SearchOptions(contest.pairs))
    assert all(len(best.ids) for best in rank(contest.pool, 10, SearchOptions(contest.pairs)))


def competition(folder: Path, images: int = 300) -> Competition:
    """Blocks of 16 images, so that there are many."""
    texts = synthetic.captions(images, 3)
    texts.pop("truth")
    texts["truth"] = {}
    files, _ = synthetic.write_files(folder, texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("captrial.compete.storage.caption_pool.BLOCK", 16)
        return Competition.create(folder / "competition", files)


@pytest.mark.parametrize("changes", [{}, {"diverse": True}, {"similarity": "engines.example_jobs:longer"}])
def test_selection_in_slices_is_that_of_one_search(tmp_path: Path, changes: dict[str, object]) -> None:
    contest = competition(tmp_path)
    chosen = SelectionSettings(8, 8, **changes)  # type: ignore[arg-type]
    contest.select(chosen)
    expected = [contest.original_selection(*pair) for pair in contest.pairs]
    for file in (contest.directory / "selection").glob("*-*.json"):
        file.unlink()
    contest.select(chosen, rank=EngineRanker(LocalEngine(), contest.directory, chosen.similarity))
    assert [contest.original_selection(*pair) for pair in contest.pairs] == expected
    assert not list((contest.directory / "selection").glob("slices-*"))


def test_slices_merge_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = competition(tmp_path)
    kept: list[dict[str, object]] = []
    real = select.merge_slices

    def spy(rows: object, pairs: int, depth: int) -> list[RankedImages]:
        kept.extend(rows)  # type: ignore[arg-type]
        return real(iter(kept), pairs, depth)

    monkeypatch.setattr(select, "merge_slices", spy)
    best = EngineRanker(LocalEngine(), contest.directory)(contest.pool, 10, SearchOptions(contest.pairs))
    assert len(kept) == 5
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(kept))
        shuffled = merge_slices(iter([kept[index] for index in order]), 3, 10)
        assert all(one.ids.tolist() == other.ids.tolist() for one, other in zip(best, shuffled, strict=True))
    kept[0]["error"] = "similarity is not a number"
    with pytest.raises(InputError, match="blocks 0:4: similarity is not"):
        merge_slices(iter(kept), 3, 10)


def test_the_command_line_selects_on_an_engine(tmp_path: Path) -> None:
    contest = competition(tmp_path)
    line = ["compete", "select", str(contest.directory), "--k", "5", "--json"]
    done = CliRunner().invoke(app, [*line, "--engine", "local", "--workers", "1"])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(app, [*line, "--again"])
    assert json.loads(done.stdout)["pairs"] == json.loads(again.stdout)["pairs"]
