"""Reading labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from captrial.compete.storage.labels import (
    JUDGEMENTS,
    REFERENCES,
    DerivedHead,
    LabelFiles,
    derived_name,
    read_labels,
    write_derived,
)
from captrial.data.image_ids import ImageIds
from captrial.errors import InputError, MismatchError, StateError


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


# Several sources ------------------------------------------------------------------------------------------------------


def files_in(directory: Path) -> LabelFiles:
    """The label files of a competition with the images 1 to 9."""
    return LabelFiles(directory, ImageIds([str(number) for number in range(1, 10)]).match)


def write(path: Path, *lines: dict[str, object]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_captions_of_all_sources_count_once_each(tmp_path: Path) -> None:
    write(tmp_path / REFERENCES, {"id": "1", "captions": ["a dog", "a pug"]}, {"id": "2", "captions": ["a cat"]})
    head = DerivedHead("id", "annotations.sqlite")
    derived = [{"id": "1", "captions": ["a dog", "a brown dog"]}, {"id": "3", "captions": ["a cow"]}]
    write_derived(tmp_path / derived_name(REFERENCES), head, derived)
    found = files_in(tmp_path).labels({"1": ["the dog", "a dog"], "2": ["a cat"]}, "mine.json")
    assert found.references == {"1": ["the dog", "a dog", "a pug", "a brown dog"], "2": ["a cat"], "3": ["a cow"]}
    assert any("mine.json and in references.jsonl (1)" in note for note in found.notes)
    assert not any("(2)" in note for note in found.notes)  # the same captions in both: nothing to report


def test_an_image_that_one_source_calls_indescribable_is_left_out_and_reported(tmp_path: Path) -> None:
    write(tmp_path / REFERENCES, {"id": "1", "captions": ["a dog"]}, {"id": "2", "indescribable": True})
    write_derived(tmp_path / derived_name(REFERENCES), DerivedHead("id", "x"), [{"id": "1", "indescribable": True}])
    (tmp_path / "indescribable.json").write_text('["3"]')
    files = files_in(tmp_path)
    found = files.labels()
    assert found.indescribable == files.indescribable() == {"1", "2", "3"}
    assert files.indescribable(by_hand=True) == {"2", "3"}
    (note,) = found.notes
    assert note.startswith("conflict: 1 image has captions in references.jsonl but cannot be described according to")
    (tmp_path / "indescribable.json").write_text("{")
    with pytest.raises(InputError, match=r"indescribable\.json: cannot be read"):
        files.indescribable()


def test_ids_of_another_spelling_meet_the_competitions_own(tmp_path: Path) -> None:
    write(tmp_path / REFERENCES, {"id": "/photos/000000000001.jpg", "captions": ["a dog"]})
    found = files_in(tmp_path).labels({"2.jpg": ["a cat"], "elsewhere": ["a cow"]}, "mine.json")
    assert found.references == {"2": ["a cat"], "elsewhere": ["a cow"], "1": ["a dog"]}
    assert any("2.jpg is 2" in note for note in found.notes)


def test_a_copy_of_the_derived_judgements_counts_once(tmp_path: Path) -> None:
    judged = [{"id": "1", "a": "A", "b": "B", "winner": winner} for winner in ("A", "B", "tie", "A")]
    write_derived(tmp_path / derived_name(JUDGEMENTS), DerivedHead("id", "x"), judged)
    write(tmp_path / JUDGEMENTS, *judged)
    assert len(files_in(tmp_path).judgements(["A", "B"])) == 4
    write(tmp_path / JUDGEMENTS, *judged, {"id": "2", "a": "A", "b": "B", "winner": "B"})
    assert len(files_in(tmp_path).judgements(["A", "B"])) == 9


def test_a_derived_file_is_never_written_over_another(tmp_path: Path) -> None:
    path, head = tmp_path / derived_name(REFERENCES), DerivedHead("one", "annotations.sqlite")
    write_derived(path, head, [{"id": "1", "captions": ["a dog"]}])
    before = path.read_bytes()
    assert b"do not edit" in before.partition(b"\n")[0]
    with pytest.raises(MismatchError, match="another annotation database"):
        write_derived(path, DerivedHead("two", "postgresql://host/name"), [])
    assert path.read_bytes() == before
    for edited in (before + b"\n", before.replace(b"dog", b"cat"), b"", b'{"id": "1", "captions": ["mine"]}\n'):
        path.write_bytes(edited)
        with pytest.raises(StateError, match=r"rename it to references\.jsonl"):
            write_derived(path, head, [])
        assert path.read_bytes() == edited
