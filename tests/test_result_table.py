"""Results in notebooks: short text, an HTML table, a data frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import captrial
from captrial.attribution.attribution import Attribution, tile
from captrial.attribution.explanation import Alternative, Explanation
from captrial.compete import Competition, rank_preferences
from captrial.compete.storage.judgements import Judgement
from captrial.grounding.ground import GroundedExplanation
from captrial.grounding.score import CaptionGrounding, GroundedNoun, Verdict
from captrial.records import Box, Region
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
    assert ranked.conclusion() in repr(ranked)
    assert ranked._repr_html_().endswith(f"<p>{ranked.conclusion()}</p>")
    assert list(trial.to_pandas()["model"]) == list(trial.models)
    assert (trial.to_pandas()["words_per_caption"] > 1).all()


def test_explanations() -> None:
    """A row for each word, with what else could have been said, and the verdict where there is one."""
    attribution = Attribution(("a", "dog"), np.ones((2, 4)), tile(2, 2), "attention", grid=(2, 2))
    likely = ((Alternative("the", 0.6), Alternative("a", 0.3)), (Alternative("dog", 0.7), Alternative("cat", 0.2)))
    image = Image.new("RGB", (8, 8))
    found = Explanation(attribution, "ort", image, np.log([0.3, 0.7]), alternatives=likely)
    frame = found.to_pandas()
    assert list(frame["word"]) == ["a", "dog"]
    assert list(frame["or_else"]) == ["the", "cat"]
    assert frame["probability"].tolist() == pytest.approx([0.3, 0.7])
    noun = GroundedNoun(1, "dog", (0.9, 0.9), Verdict.GROUNDED)
    grounding = CaptionGrounding(("a", "dog"), ("dog", "dog"), (noun,))
    grounded = GroundedExplanation(found, (Region(Box(0, 0, 8, 8), "dog", 0.9),), grounding, "")
    assert grounded.to_pandas().iloc[1][["or_else", "top_region", "verdict"]].tolist() == ["cat", "dog", "grounded"]
    assert grounded.rows()[0]["verdict"] is None  # "a" is no noun
    assert len(Explanation(attribution).to_pandas()) == 2  # of a black box: no probability is known


def test_preferences() -> None:
    found = rank_preferences([Judgement(str(number), "a", "b", 1.0) for number in range(12)])
    assert len(repr(found)) < 1000
    assert list(found.to_pandas()["model"]) == ["a", "b"]
