"""Reading labels and judgements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.compete.storage.labels import read_judgements, read_labels
from captrial.errors import InputError


def test_the_last_line_about_an_image_counts(tmp_path: Path) -> None:
    path = tmp_path / "references.jsonl"
    lines = [
        {"id": "1", "captions": ["a dog"]},
        {"id": 2, "indescribable": True},
        {"id": "1", "captions": ["a dog", "a brown dog"]},
        {"id": "3", "captions": []},
        {"id": "2", "captions": ["a cat"]},
        {"id": "4", "captions": ["x"]},
        {"id": "4", "indescribable": True},
    ]
    path.write_text("\n\n".join(map(json.dumps, lines)))
    labels = read_labels(path)
    assert labels.references == {"1": ["a dog", "a brown dog"], "2": ["a cat"]}
    assert labels.indescribable == {"4"}
    assert read_labels(tmp_path / "none.jsonl").references == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[]", 'line 1: needs an object with an "id"'),
        ('{"id": "1"}', 'line 1: image 1 needs "captions"'),
        ('{"id": "1", "captions": "a dog"}', 'line 1: image 1 needs "captions"'),
    ],
)
def test_bad_label_lines_are_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "references.jsonl").write_text(line)
    with pytest.raises(InputError, match=message):
        read_labels(tmp_path / "references.jsonl")


def test_judgements(tmp_path: Path) -> None:
    path = tmp_path / "judgements.jsonl"
    rows = [("a", 1.0), ("B", 0.0), ("tie", 0.5), ("b", 0.0), ("A", 1.0)]
    path.write_text("\n".join(json.dumps({"id": "7", "a": "A", "b": "B", "winner": winner}) for winner, _ in rows))
    assert [judgement.outcome for judgement in read_judgements(path, ["A", "B"])] == [value for _, value in rows]
    path.write_text(json.dumps({"id": "7", "a": "A", "b": "C", "winner": "a"}))
    with pytest.raises(InputError, match="A and C are not two models"):
        read_judgements(path, ["A", "B"])
    path.write_text(json.dumps({"id": "7", "a": "A", "b": "B", "winner": "C"}))
    with pytest.raises(InputError, match="winner is 'C'"):
        read_judgements(path, ["A", "B"])
