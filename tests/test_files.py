"""Files: atomic writing, fingerprints, and what is never written over."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from captrial.errors import InputError
from captrial.files import (
    FileSum,
    atomic_path,
    atomic_write,
    cache_directory,
    content_hash,
    image_source,
    is_changed,
    path_inside,
    record_output,
    refuse_overwrite,
    without_passwords,
)
from captrial.folders import check_file


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_replaces_what_was_there_and_makes_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.txt"
    atomic_write(path, "first")
    atomic_write(path, b"second")
    assert path.read_bytes() == b"second"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_write(path, "old")

    def fail() -> None:
        with atomic_path(path) as temporary:
            assert temporary.suffix == ".json"  # writers that choose a format by suffix choose the right one
            temporary.write_text("half of the n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_named_as_asked_for(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        atomic_write(tmp_path, "text")
    assert caught.value.filename == str(tmp_path)
    long = tmp_path / ("é" * 120 + ".txt")  # as long as the file system allows, or nearly
    atomic_write(long, "text")
    assert list(tmp_path.iterdir()) == [long]


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "old")
    code = (
        "import os, signal, sys\nfrom captrial.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert all(entry.name.startswith(".") for entry in tmp_path.iterdir() if entry != path)  # hidden from readers


def test_permissions_are_those_of_any_new_file_from_any_thread(tmp_path: Path, umask: int) -> None:
    paths = [tmp_path / str(number) for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda path: atomic_write(path, "x"), paths))
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o666 & ~umask}
    assert os.umask(umask) == umask  # untouched


def test_hashes_are_stable() -> None:
    assert content_hash("a dog") == content_hash(b"a dog") == "fe02e6665a225ac7"  # b2sum -l 64
    assert len(content_hash("a dog", 32)) == 32


def test_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine"
    monkeypatch.delenv("CAPTRIAL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "captrial"
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # empty counts as not set
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "captrial"
    assert cache_directory().is_dir()


def test_a_file_put_in_place_by_somebody_else_is_as_readable_as_any_other(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    with atomic_path(tmp_path / "kept") as temporary:
        temporary.unlink()
        temporary.touch(mode=0o600)  # as safetensors does
    assert (tmp_path / "kept").stat().st_mode == plain.stat().st_mode


def test_large_files_are_summed_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(3 << 20))
    assert FileSum.of(path) == FileSum(3 << 20, content_hash(bytes(3 << 20), 32))
    check_file(path, FileSum.of(path), "")


def test_an_output_never_replaces_an_input(tmp_path: Path) -> None:
    path, link, hard = tmp_path / "in.csv", tmp_path / "link.csv", tmp_path / "hard.csv"
    path.write_text("mine")
    link.symlink_to(path)
    os.link(path, hard)
    for output in (path, link, hard, tmp_path / "." / "in.csv"):
        with pytest.raises(InputError, match="is also an input"):
            refuse_overwrite(output, inputs=[None, "no such file", path], overwrite=True)
    record_output(path)
    with pytest.raises(InputError, match="is also an input"):
        refuse_overwrite(path, inputs=[link])
    refuse_overwrite(tmp_path / "new.csv", inputs=[path, link])
    with pytest.raises(InputError, match="is also an input"):  # neither exists yet
        refuse_overwrite(tmp_path / "new.csv", inputs=[tmp_path / "new.csv"])


def test_only_own_and_unchanged_files_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("by hand")
    with pytest.raises(InputError, match=r"this file exists and was not written by captrial.*--overwrite"):
        refuse_overwrite(path)
    refuse_overwrite(path, overwrite=True)
    refuse_overwrite(path, ours=lambda _: True)
    atomic_write(path, "by captrial")
    record_output(path)
    refuse_overwrite(path)
    path.write_text("edited by hand")
    with pytest.raises(InputError, match="has changed since"):
        refuse_overwrite(path)
    with pytest.raises(InputError, match="this folder exists"):
        refuse_overwrite(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="exists"):
        refuse_overwrite(tmp_path / "dangling")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://me:p@ss@example.org/a?b=c@d", "https://***@example.org/a?b=c@d"),
        ("http://token@host:80/x http://host/y", "http://***@host:80/x http://host/y"),
        ("http://host/me:pw@x", "http://host/me:pw@x"),
        ("me@example.org", "me@example.org"),
    ],
)
def test_passwords_of_urls_are_removed(text: str, clean: str) -> None:
    assert without_passwords(text) == clean


@pytest.mark.parametrize("folder", ["work", "../here/work", "./work/", "work/../work", "../../{outer}/here/work"])
def test_a_path_of_a_file_stays_in_its_folder_however_the_folder_is_named(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "work").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    folder = folder.format(outer=tmp_path.name)
    inside = tmp_path / "here" / "work" / "a" / "b.txt"
    for name in ("a/b.txt", "a/../a/b.txt", "./a//b.txt", str(inside)):
        assert Path(os.path.normpath(path_inside(folder, name))) == inside
    for name in ("..", "../b.txt", "a/../../b.txt", "/etc/passwd", str(tmp_path), "a/\0", "../workshop/b.txt"):
        with pytest.raises(InputError, match="leads out of the folder"):
            path_inside(folder, name)


def test_an_image_that_was_only_touched_has_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(b"pixels")
    source = image_source(path)
    os.utime(path, ns=(1, 1))
    assert not is_changed(path, source)
    path.write_bytes(b"others")
    assert is_changed(path, source)
    assert not is_changed(path, None)
    path.unlink()
    assert not is_changed(path, source)
