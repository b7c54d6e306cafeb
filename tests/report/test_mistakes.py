"""What no reference supports is underlined in captions, what a caption leaves out in references."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.compete import Competition, SelectionSettings
from captrial.metrics.semantic.facts import Finding
from captrial.metrics.semantic.propositions import Proposition
from captrial.report import competition_page
from captrial.report.mistakes import TextPart, caption_mistakes, underlined


def test_words_are_underlined_once_with_their_least_support() -> None:
    text = "A black cat sleeps on <b>roof</b>."
    findings = [
        Finding(Proposition("cat", ((8, 11),)), 0.4),
        Finding(Proposition("black cat", ((2, 7), (8, 11))), 0.2),
        Finding(Proposition("roof", ((22, 34),)), 0.1),
    ]
    parts = underlined(text, findings)
    assert parts == (
        TextPart("A "),
        TextPart("black cat", 0.2),
        TextPart(" sleeps on "),
        TextPart("<b>roof</b>.", 0.1),
    )
    assert "".join(part.text for part in parts) == text
    assert underlined(text, []) == (TextPart(text),)
    assert underlined("", []) == ()


CAPTIONS = {
    "right": "a man rides a brown horse",
    "wrong": "a man rides a brown horse. a red airplane flies over <b>snow</b>",
}
REFERENCE = "a man rides a brown horse"


@pytest.mark.needs("minilm")
@pytest.mark.slow
def test_a_model_that_adds_mistakes_has_them_and_one_that_leaves_out_has_omissions() -> None:
    captions = {"1": [CAPTIONS["right"], CAPTIONS["wrong"], "a horse"], "2": ["no", "reference", "here"]}
    [right, wrong, short], marked = caption_mistakes(captions, {"1": [REFERENCE], "2": []}, ["right", "wrong", "short"])
    assert (right.captions, right.mistakes, right.omissions) == (1, 0, 0)
    assert wrong.mistakes > 1
    assert wrong.omissions == 0
    assert short.omissions > 0
    assert [item.model for item in marked] == ["wrong"]
    under = [part.text for part in marked[0].caption if part.support is not None]
    assert "airplane" in " ".join(under)
    assert "horse" not in " ".join(under)


@pytest.mark.needs("minilm")
@pytest.mark.slow
def test_the_report_underlines_them_where_facts_are_asked_for(tmp_path: Path) -> None:
    files = {}
    for name, text in CAPTIONS.items():
        files[name] = tmp_path / f"{name}.json"
        files[name].write_text(json.dumps([{"image_id": str(number), "caption": text} for number in range(6)]))
    references = tmp_path / "references.json"
    references.write_text(json.dumps({str(number): [REFERENCE] for number in range(6)}))
    competition = Competition.create(tmp_path / "c", files)
    competition.select(SelectionSettings(4, 0))
    labels = competition.labels(references)
    page = competition_page.write_competition_report(competition, labels, ["facts"], tmp_path / "out").read_text()
    assert '<a href="#mistakes">Mistakes and omissions</a>' in page
    assert '<u title="support 0.' in page
    assert "&lt;b&gt;snow&lt;/b&gt;" in page
    assert "<b>snow" not in page
    without = competition_page.write_competition_report(competition, labels, ["cider"], tmp_path / "other").read_text()
    assert "Mistakes and omissions" not in without
