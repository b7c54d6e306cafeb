"""Caption files are never written over files that captrial did not write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from captrial.data import read_captions, write_captions, write_references
from captrial.errors import InputError


def captions(path: Path, **options: bool) -> None:
    write_captions(path, {"42": "a dog"}, **options)


def references(path: Path, **options: bool) -> None:
    write_references(path, {"42": ["a dog", "a cat"]}, **options)


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("write", [captions, references])
def test_a_file_made_by_hand_is_kept(tmp_path: Path, suffix: str, write: Callable[..., None]) -> None:
    path = tmp_path / f"out{suffix}"
    path.write_text("made by hand")
    with pytest.raises(InputError, match="was not written by captrial"):
        write(path)
    assert path.read_text() == "made by hand"
    write(path, overwrite=True)
    write(path)  # its own file, unchanged
    with path.open("ab") as stream:
        stream.write(b" ")
    with pytest.raises(InputError, match="has changed since"):
        write(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_copy_of_an_own_file_is_not_an_own_file(tmp_path: Path) -> None:
    captions(tmp_path / "a.json")
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    with pytest.raises(InputError, match="was not written"):
        captions(tmp_path / "b.json")
    assert read_captions(tmp_path / "b.json").ids == ["42"]
