"""Folders: one writing process, checksums, and nothing foreign replaced."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from captrial.errors import DamagedError, InputError, StateError
from captrial.folders import (
    CHECKSUMS,
    LOCK,
    check_files,
    foreign_files,
    lock_folder,
    output_folder,
    read_checksums,
    record_files,
    work_folder,
    write_checked,
)

HOLD = (
    "import sys, time\nfrom captrial.folders import lock_folder\n"
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
        "from captrial.folders import lock_folder\nfolder = Path(sys.argv[1]); done = 0\n"
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
        "import os, signal, sys\nfrom captrial import folders\nstop = int(sys.argv[2]); steps = 0\n"
        "replace = folders.Path.replace\n"
        "def step(*arguments):\n    global steps; steps += 1\n"
        "    if steps > stop: os.kill(os.getpid(), signal.SIGKILL)\n    return replace(*arguments)\n"
        "folders.Path.replace = step\n"
        "with folders.write_checked(sys.argv[1]) as staging:\n"
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


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a\\u0000b", "\\ud800"])
def test_a_record_names_only_files_of_its_folder(name: str, tmp_path: Path) -> None:
    sums = '[{"bytes": 1, "blake2b": "x"}]'
    (tmp_path / CHECKSUMS).write_text(f'{{"format": "captrial checksums 1", "files": {{"{name}": {sums}}}}}')
    with pytest.raises(DamagedError):
        read_checksums(tmp_path)
    assert read_checksums(tmp_path, lenient=True) == {}


def test_an_output_folder_is_whole_and_ours(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for text in ("first", "second"):
        with output_folder(out) as staging:
            (staging / "sub").mkdir()
            (staging / "sub" / "a.txt").write_text(text)
    assert (out / "sub" / "a.txt").read_text() == "second"
    assert list(foreign_files(out)) == []
    with suppress(RuntimeError), output_folder(out) as staging:
        (staging / "b.txt").write_text("half")
        raise RuntimeError
    assert sorted(path.name for path in out.iterdir()) == [CHECKSUMS, "sub"]
    (out / "sub" / "a.txt").write_text("mine")
    (out / "b.txt").write_text("mine")
    assert list(foreign_files(out)) == ["b.txt", "sub/a.txt"]
    with pytest.raises(InputError, match="has changed since"), output_folder(out):
        pytest.fail("work was begun")
    with output_folder(out, overwrite=True) as staging:
        (staging / "b.txt").write_text("new")
    assert (out / "b.txt").read_text() == "new"


def test_work_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path))
    (tmp_path / "work" / "score-dead").mkdir(parents=True)
    (tmp_path / "work" / "score-dead" / "part").write_text("x")
    with work_folder("score") as folder:
        (folder / "part").write_text("x")
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert list((tmp_path / "work").iterdir()) == []


def test_a_record_with_a_name_that_no_file_can_have_is_damaged(tmp_path: Path) -> None:
    sums = [{"bytes": 1, "blake2b": "0"}]
    (tmp_path / "checksums.json").write_text(json.dumps({"files": {"part" + 300 * "9": sums}}))
    with pytest.raises(DamagedError):
        read_checksums(tmp_path)
    record_files(tmp_path, [])
