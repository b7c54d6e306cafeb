"""The command line as a user sees it: exit codes, one clear message, no traceback."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from captrial.cli.app import main
from captrial.cli.output import print_table
from captrial.version import __version__


def captrial(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "captrial", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_version_and_help() -> None:
    assert captrial("--version").stdout.strip() == __version__
    shown = captrial("--help")
    assert shown.returncode == 0
    for command in ("doctor", "score", "data"):
        assert command in shown.stdout


def test_help_is_quick_to_import() -> None:
    """Heavy parts are imported by the commands that need them, never by the command line itself."""
    code = "import captrial.cli, sys; print([m for m in ('torch', 'spacy', 'pyarrow', 'numba') if m in sys.modules])"
    started = time.monotonic()
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("command", ["frobnicate", "--nonsense"])
def test_bad_usage_is_exit_code_2(command: str) -> None:
    result = captrial(command)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    references = tmp_path / "refs.json"
    references.write_text('{"1": ["a dog runs"]}')
    line = ("score", str(tmp_path / "none.json"), "--references", str(references))
    missing = captrial(*line)
    assert missing.returncode == 2
    assert "none.json" in missing.stderr
    assert "Traceback" not in missing.stderr
    assert "Traceback" in captrial(*line, "--debug").stderr


def error_message(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and stderr of a command that must not succeed or print anything."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert not out
    return int(stopped.value.code or 0), err


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that the library does not check: the message of the file system, not a traceback."""
    (tmp_path / "file").touch()
    line = ("data", "contact-sheet", tmp_path / "file" / "sheet.png", "--images", "1", "--size", "32")
    code, err = error_message(capsys, *line)
    assert code == 2
    assert err.count("\n") == 1
    assert f"{tmp_path / 'file'}: File exists; check the path" in err
    with pytest.raises(FileExistsError):
        main([*map(str, line), "--debug"])


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("captrial.cli.doctor.examine", interrupted)
    code, err = error_message(capsys, "doctor")
    assert code == 130
    assert "interrupted; run the same command again" in err


def test_tables_take_nothing_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["[b]old.jpg", "a[/x].jpg", ":dog:", "C:\\[1]"]
    print_table("title [/b] :cat:", ["image [b]"], [[name] for name in names], ["note [/b] :cow:"])
    out = capsys.readouterr().out
    for text in (*names, "title [/b] :cat:", "image [b]", "note [/b] :cow:"):
        assert text in out
