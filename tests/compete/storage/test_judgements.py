"""Files of judgements: columns, what a winner means, lengths, and errors that name the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.compete.storage.judgements import Judgement, read_judgements, read_words, with_words
from captrial.errors import InputError


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_winners_are_names_or_positions(tmp_path: Path) -> None:
    rows = [
        ("a", 1.0),
        ("B", 0.0),
        ("tie", 0.5),
        ("b", 0.0),
        ("A", 1.0),
        ("model_b", 0.0),
        (None, 0.5),
        ("neither", 0.5),
    ]
    path = lines(tmp_path / "j.jsonl", *({"id": "7", "a": "A", "b": "B", "winner": winner} for winner, _ in rows))
    assert [judgement.outcome for judgement in read_judgements(path, ["A", "B"])] == [value for _, value in rows]


def test_models_called_a_and_b_are_never_mixed_up(tmp_path: Path) -> None:
    named = {"image": "7", "model_a": "b", "model_b": "a", "preferred": "a", "annotator": 3}
    assert read_judgements(lines(tmp_path / "j.jsonl", named)) == [Judgement("7", "b", "a", 0.0, "3")]
    tie = {"image": "7", "model_a": "tie", "model_b": "a", "preferred": None}
    assert read_judgements(lines(tmp_path / "j.jsonl", tie))[0].outcome == 0.5
    for record in (
        {"id": "7", "a": "b", "b": "a", "winner": "a"},
        {"id": "7", "model_a": "model_b", "model_b": "x", "winner": "model_b"},
        {"id": "7", "model_a": "x", "model_b": "tie", "winner": "tie"},
    ):
        with pytest.raises(InputError, match=r"j.jsonl, line 1: winner .* column `preferred`"):
            read_judgements(lines(tmp_path / "j.jsonl", record))
    same = {"id": "7", "a": "a", "b": "b", "winner": "a"}  # name and position mean the same
    assert read_judgements(lines(tmp_path / "j.jsonl", same))[0].outcome == 1.0


def test_tables_and_lists(tmp_path: Path) -> None:
    expected = [Judgement("q1", "x", "y", 1.0, "ann", (5, 7)), Judgement("q2", "y", "x", 0.5)]
    header = ["question_id", "model_a", "model_b", "winner", "judge", "words_a", "words_b"]
    for name, mark in (("j.csv", ","), ("j.tsv", "\t")):
        rows = [header, ["q1", "x", "y", "model_a", "ann", "5", "7"], ["q2", "y", "x", "tie", "", "", ""]]
        (tmp_path / name).write_text("\n".join(mark.join(row) for row in rows))
        assert read_judgements(tmp_path / name) == expected
    entries = [
        {"image": "q1", "model_a": "x", "model_b": "y", "winner": "x", "annotator": "ann", "words_a": 5, "words_b": 7},
        {"image": "q2", "model_a": "y", "model_b": "x", "winner": "tie"},
    ]
    (tmp_path / "j.json").write_text(json.dumps(entries))
    assert read_judgements(tmp_path / "j.json") == expected
    (tmp_path / "empty.jsonl").write_text("\n")
    assert read_judgements(tmp_path / "empty.jsonl") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "7", "a": "A", "b": "C", "winner": "a"}', "line 1: C is not a model of this competition"),
        ('{"id": "7", "a": "A", "b": "B", "winner": "C"}', "line 1: winner is 'C'; it must be A, B, model_a"),
        (
            '{"id": "7", "a": "A", "b": "B", "preferred": ["A"]}',
            r"line 1: preferred is \['A'\], but the two models are A",
        ),
        ('{"id": "7", "a": "A", "b": "B", "preferred": "C"}', "line 1: preferred is 'C', but the two models are A"),
        ('{"id": "7", "a": "A", "b": 3, "winner": "a"}', "line 1: a and b must be names of models"),
        ('\n{"id": "7", "a": "A", "winner": "a"}', "line 2: has id, a, winner; needed are image, model_a"),
        ("{broken", "line 1: not JSON"),
        ("[1]", "entry 1: needs an object"),
        ("image,model_a,model_b\n7,A,B", "line 2: has image, model_a, model_b; needed are"),
        ("image,model_a,model_b,winner\n7,A,B", "line 2: has not 4 cells"),
        ("image,winner,winner\n7,A,B", "two columns are named winner"),
        ('{"id": 7, "a": "A", "b": "B", "winner": "a", "words_a": "x", "words_b": 3}', "words_a is 'x'; it must be a"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "j").write_text(content)
    with pytest.raises(InputError, match=message):
        read_judgements(tmp_path / "j", ["A", "B"])


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_judgements(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="is a directory; name a file of judgements"):
        read_judgements(tmp_path)


def test_words(tmp_path: Path) -> None:
    (tmp_path / "w.tsv").write_text("question_id\tmodel\twords\nq1\tx\t5\nq1\ty\t7\n")
    words = read_words(tmp_path / "w.tsv")
    judgements = [Judgement("q1", "x", "y", 1.0), Judgement("q2", "x", "y", 1.0, words=(1, 2))]
    assert [one.words for one in with_words(judgements, words)] == [(5, 7), (1, 2)]
    (tmp_path / "w.tsv").write_text("question_id\tmodel\twords\nq1\tx\t-5\n")
    with pytest.raises(InputError, match="words is -5; it cannot be negative"):
        read_words(tmp_path / "w.tsv")
