from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import captrial
from captrial.language.text_cache import TextCache


def counting(seen: list[str]) -> Callable[[list[str]], list[str]]:
    def compute(texts: list[str]) -> list[str]:
        seen.extend(texts)
        return [text.upper() for text in texts]

    return compute


def test_each_text_is_computed_once(tmp_path: Path) -> None:
    seen: list[str] = []
    cache = TextCache("upper", directory=tmp_path)
    assert cache.complete(["a", "b", "a"], counting(seen)) == ["A", "B", "A"]
    assert TextCache("upper", directory=tmp_path).complete(["b", "c\ud800", ""], counting(seen)) == ["B", "C\ud800", ""]
    assert seen == ["a", "b", "c\ud800", ""]


def test_another_name_starts_afresh(tmp_path: Path) -> None:
    seen: list[str] = []
    TextCache("one", directory=tmp_path).complete(["a"], counting(seen))
    TextCache("two", directory=tmp_path).complete(["a"], counting(seen))
    assert seen == ["a", "a"]


def test_many_texts_are_stored_chunk_by_chunk(tmp_path: Path) -> None:
    texts = [f"text {index}" for index in range(4500)]

    def fails_late(some: list[str]) -> list[str]:
        if texts[-1] in some:
            raise KeyboardInterrupt
        return [text.upper() for text in some]

    cache = TextCache("upper", directory=tmp_path)
    with pytest.raises(KeyboardInterrupt):
        cache.complete(texts, fails_late)
    seen: list[str] = []
    assert cache.complete(texts, counting(seen)) == [text.upper() for text in texts]
    assert len(seen) == 500


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    cache = TextCache("upper", directory=tmp_path)
    cache.path.write_bytes(b"this is not a database" * 100)
    seen: list[str] = []
    assert cache.complete(["a"], counting(seen)) == ["A"]
    assert cache.complete(["a"], counting(seen)) == ["A"]
    assert seen == ["a"]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    seen: list[str] = []
    cache = TextCache("upper", directory=tmp_path / "file")
    assert cache.complete(["a"], counting(seen)) == ["A"]


@pytest.mark.slow
def test_processes_share_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from captrial.language.text_cache import TextCache\n"
        "cache = TextCache('upper', directory=Path(sys.argv[1]))\n"
        "for start in range(0, 2000, 50):\n"
        "    texts = [str(number) for number in range(start, start + 100)]\n"
        "    assert cache.complete(texts, lambda some: [text * 2 for text in some]) == [text * 2 for text in texts]\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(captrial.__file__).parents[1])}
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) for _ in range(4)]
    errors = [process.communicate(timeout=120)[1].decode() for process in running]
    assert [process.returncode for process in running] == [0] * 4, errors
    everything = [str(number) for number in range(2050)]
    assert TextCache("upper", directory=tmp_path).complete(everything, pytest.fail) == [text * 2 for text in everything]
