from __future__ import annotations

import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captrial.errors import InputError
from captrial.metrics.meteor import resources
from captrial.metrics.meteor.resources import ParaphraseTable, index_directory

from .conftest import PARAPHRASES, write_table

phrases = st.lists(st.sampled_from(["a", "b", "c", "é", '"x"']), min_size=1, max_size=5).map(" ".join)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))


def read_back(table: ParaphraseTable) -> dict[str, list[str]]:
    """The rows of the table, spelled out from the trie."""
    words = list(table.words)
    spelled = list(words)
    for node in range(len(table.last_word)):
        children = range(table.first_child[node], table.first_child[node + 1])
        spelled += [f"{spelled[node]} {words[table.last_word[child]]}" for child in children]
    rows = {}
    for node in np.flatnonzero(np.diff(table.first_target)):
        targets = table.targets[table.first_target[node] : table.first_target[node + 1]]
        rows[spelled[node]] = [spelled[target] for target in targets]
    return rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(rows=st.lists(st.tuples(phrases, phrases), min_size=1, max_size=30))
def test_index_has_every_row_in_the_order_of_the_table(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    table = ParaphraseTable.load(write_table(tmp_path / "table.gz", rows))
    expected = defaultdict(list)
    for phrase, other in rows:
        expected[phrase].append(other)
    assert read_back(table) == expected


def test_index_is_built_once_and_memory_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_table(tmp_path / "table.gz", PARAPHRASES)
    first = ParaphraseTable.load(source)
    monkeypatch.setattr(resources, "_build", lambda *_: pytest.fail("built again"))
    second = ParaphraseTable.load(source)
    assert read_back(first) == read_back(second)
    assert isinstance(second.targets.base, np.memmap)


def test_another_table_has_another_index(tmp_path: Path) -> None:
    one = write_table(tmp_path / "one.gz", PARAPHRASES)
    two = write_table(tmp_path / "two.gz", PARAPHRASES[1:])
    assert index_directory(one) != index_directory(two)


def test_half_built_index_is_built_again(tmp_path: Path) -> None:
    source = write_table(tmp_path / "table.gz", PARAPHRASES)
    rows = read_back(ParaphraseTable.load(source))
    (index_directory(source) / "words.txt").unlink()
    (index_directory(source) / "targets.npy").write_bytes(b"half")
    assert read_back(ParaphraseTable.load(source)) == rows


@pytest.mark.parametrize("content", [b"", b"not gzip", gzip.compress(b"0.5\na\n"), gzip.compress(b"0.5\na\nb\n")[:-9]])
def test_broken_table_is_named(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "paraphrase-en.gz"
    source.write_bytes(content)
    with pytest.raises(InputError, match=r"paraphrase-en\.gz.*install pycocoevalcap again"):
        ParaphraseTable.load(source)
