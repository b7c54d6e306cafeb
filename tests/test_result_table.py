"""Results in notebooks: short text, an HTML table, a data frame."""

from __future__ import annotations

from pathlib import Path

import captrial
from captrial.compete import Competition, rank_preferences
from captrial.compete.storage.judgements import Judgement
from captrial.result_table import ResultTable, html_table, text_table
from compete import synthetic

ROWS = [{"model": "<ort>", "score": 0.66123}, {"model": "m2", "score": None}]


def test_tables_are_aligned_and_escaped() -> None:
    assert text_table(ROWS).splitlines() == ["model   score", "<ort>  0.6612", "m2"]
    assert text_table([]) == "(no rows)"
    page = html_table(ROWS)
    assert "<td>&lt;ort&gt;</td><td>0.6612</td>" in page
    assert "<ort>" not in page


def test_scores() -> None:
    many = {str(number): "a dog runs" for number in range(2000)}
    table = captrial.score(many, {key: ["a dog is running"] for key in many}, metrics=["bleu"])
    assert isinstance(table, ResultTable)
    assert len(repr(table)) < 500
    assert "bleu_4" in table._repr_html_()
    frame = table.to_pandas()
    assert list(frame.columns) == ["system", *table.columns]
    assert len(frame) == 1


def test_a_competition_and_its_rankings(tmp_path: Path) -> None:
    files, references = synthetic.write_files(tmp_path, synthetic.captions(30, 3))
    trial = Competition.create(tmp_path / "trial", files)
    assert "30 images, none selected yet" in repr(trial)
    trial.select(k=5)
    assert repr(trial).startswith(f"Competition('{trial.directory}': ")
    assert "selected" in trial._repr_html_()
    ranked = trial.rank("cider", references)
    assert list(ranked.to_pandas()["model"]) == [row["model"] for row in ranked.rows()]
    assert len(repr(ranked)) < 1500
    assert ranked._repr_html_().startswith("<table>")


def test_preferences() -> None:
    found = rank_preferences([Judgement(str(number), "a", "b", 1.0) for number in range(12)])
    assert len(repr(found)) < 1000
    assert list(found.to_pandas()["model"]) == ["a", "b"]
