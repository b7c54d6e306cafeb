"""Files are complete or not there, written by one process at a time, checked, and never written over others."""

from __future__ import annotations

import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from captrial.errors import DamagedError, InputError, StateError
from captrial.files import (
    CHECKSUMS,
    LOCK,
    FileSum,
    atomic_path,
    atomic_write,
    cache_directory,
    check_file,
    check_files,
    content_hash,
    lock_folder,
    read_checksums,
    record_output,
    refuse_overwrite,
    without_passwords,
    write_checked,
)


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


HOLD = (
    "import sys, time\nfrom captrial.files import lock_folder\n"
    "with lock_folder(sys.argv[1], 'run'):\n    print('locked', flush=True)\n    time.sleep(600)"
)


def hold(folder: Path, code: str = HOLD) -> subprocess.Popen[bytes]:
    """Another process that holds the lock of a folder."""
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), "http://me:secret@host/"], stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"locked\n"
    return other


def kill(other: subprocess.Popen[bytes]) -> None:
    other.send_signal(signal.SIGKILL)
    other.communicate()


def test_a_folder_has_one_writing_process(tmp_path: Path) -> None:
    for _ in range(5):
        other = hold(tmp_path)
        try:
            with pytest.raises(StateError) as caught, lock_folder(tmp_path, "run"):
                pass
        finally:
            kill(other)
        message = str(caught.value)
        assert f"process {other.pid} on " in message
        assert "is writing to this run; wait until it has finished, or stop it" in message
        assert f"remove {tmp_path / LOCK}" in message
        assert "since 20" in message
        assert "secret" not in message
        with lock_folder(tmp_path, "run"):  # the lock ends with a killed process
            assert json.loads((tmp_path / LOCK).read_bytes())["pid"] == os.getpid()
        assert list(tmp_path.iterdir()) == []


def test_a_child_does_not_keep_the_lock_of_a_killed_parent(tmp_path: Path) -> None:
    code = HOLD.replace(
        "    print(", "    import os\n    if os.fork() == 0:\n        sys.stdout.close(); time.sleep(3)\n    print("
    )
    kill(hold(tmp_path, code))
    with lock_folder(tmp_path):
        pass


def test_many_processes_take_turns(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom captrial.errors import StateError\n"
        "from captrial.files import lock_folder\nfolder = Path(sys.argv[1]); done = 0\n"
        "while done < 40:\n"
        "    try:\n"
        "        with lock_folder(folder):\n"
        "            count = int((folder / 'count').read_text()); time.sleep(0.0005)\n"
        "            (folder / 'count').write_text(str(count + 1)); done += 1\n"
        "    except StateError:\n        time.sleep(0.0002)"
    )
    (tmp_path / "count").write_text("0")
    others = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [other.wait(timeout=120) for other in others] == [0] * 4
    assert (tmp_path / "count").read_text() == "160"


def test_a_lock_is_reentrant_in_its_thread_only(tmp_path: Path) -> None:
    refused: list[str] = []

    def try_again() -> None:
        try:
            with lock_folder(tmp_path):
                pass
        except StateError as error:
            refused.append(str(error))

    with lock_folder(tmp_path), lock_folder(tmp_path / "." / "..", "outer"), lock_folder(tmp_path / "."):
        thread = threading.Thread(target=try_again)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert f"process {os.getpid()} on " in refused[0]
    with lock_folder(tmp_path):
        pass


def test_a_new_folder_that_stays_empty_is_removed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), lock_folder(tmp_path / "new" / "run"):
        raise RuntimeError
    assert not (tmp_path / "new" / "run").exists()
    with lock_folder(tmp_path / "run"):
        (tmp_path / "run" / "result").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["result"]


def test_checksums_notice_every_kind_of_damage(tmp_path: Path) -> None:
    with write_checked(tmp_path) as staging:
        (staging / "parts").mkdir()
        (staging / "parts" / "a.bin").write_bytes(bytes(range(256)))
        (staging / "b.txt").write_text("old")
    with write_checked(tmp_path) as staging:
        (staging / "b.txt").write_text("new")
    assert (tmp_path / "b.txt").read_text() == "new"
    assert check_files(tmp_path, "`make`") == ["b.txt", "parts/a.bin"]
    assert [len(sums) for sums in read_checksums(tmp_path).values()] == [1, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.txt", CHECKSUMS, "parts"]
    path = tmp_path / "parts" / "a.bin"
    for content, reason in [(b"", "has 0 bytes instead of 256"), (bytes(256), "does not match its checksum")]:
        path.write_bytes(content)
        with pytest.raises(DamagedError, match=reason) as caught:
            check_files(tmp_path, "`make`")
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    path.unlink()
    with pytest.raises(DamagedError, match=r"^damaged: .*a.bin: cannot be read .*; restore it .* with `make`$"):
        check_files(tmp_path, "`make`")


def test_a_kill_between_two_files_leaves_matching_checksums(tmp_path: Path) -> None:
    """Every moment of an update is stopped once: the files match their records at each of them."""
    code = (
        "import os, signal, sys\nfrom captrial import files\nstop = int(sys.argv[2]); steps = 0\n"
        "replace = files.Path.replace\n"
        "def step(*arguments):\n    global steps; steps += 1\n"
        "    if steps > stop: os.kill(os.getpid(), signal.SIGKILL)\n    return replace(*arguments)\n"
        "files.Path.replace = step\n"
        "with files.write_checked(sys.argv[1]) as staging:\n"
        "    for name in 'ab': (staging / name).write_text('new')\n"
    )
    for stop in range(8):
        folder = tmp_path / str(stop)
        with write_checked(folder) as staging:
            for name in "ab":
                (staging / name).write_text("old!")
        done = subprocess.run([sys.executable, "-c", code, str(folder), str(stop)], check=False, timeout=60)
        assert check_files(folder, "") == ["a", "b"]
        if done.returncode == 0:
            break
    assert done.returncode == 0
    assert stop >= 4


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
