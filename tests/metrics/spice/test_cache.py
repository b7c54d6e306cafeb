from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from captrial.metrics.spice.cache import TupleCache


def test_what_is_put_is_got(tmp_path: Path) -> None:
    cache = TupleCache(tmp_path / "c.sqlite", "1")
    assert cache.get(["a dog"]) == {}
    cache.put({"a dog": [("dog",)], "": [], "😀 \ud800": [("a", "b", "c")]})
    assert cache.get(["a dog", "", "😀 \ud800", "a cat"]) == {
        "a dog": [("dog",)],
        "": [],
        "😀 \ud800": [("a", "b", "c")],
    }


def test_versions_do_not_mix(tmp_path: Path) -> None:
    TupleCache(tmp_path / "c.sqlite", "1").put({"a dog": [("dog",)]})
    assert TupleCache(tmp_path / "c.sqlite", "2").get(["a dog"]) == {}


def test_more_keys_than_one_query_takes(tmp_path: Path) -> None:
    cache = TupleCache(tmp_path / "c.sqlite", "1")
    texts = [str(number) for number in range(70_000)]
    cache.put({text: [(text,)] for text in texts})
    assert len(cache.get(texts)) == 70_000


def test_an_unusable_file_is_named_and_done_without(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_text("not a database, but long enough to look like one" * 100)
    cache = TupleCache(path, "1")
    with pytest.warns(UserWarning, match=r"c\.sqlite.*delete it"):
        assert cache.get(["a dog"]) == {}
    with pytest.warns(UserWarning, match="cannot be used"):
        cache.put({"a dog": [("dog",)]})


def _fill(path: Path, start: int) -> None:
    cache = TupleCache(path, "1")
    for number in range(start, start + 50):
        cache.put({str(number): [(str(number),)]})


@pytest.mark.slow
def test_processes_share_it(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(path, start)) for start in (0, 25, 50)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(TupleCache(path, "1").get([str(number) for number in range(100)])) == 100
