"""The command line as a user meets it: exit codes, one clear sentence, no traceback."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import orjson
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
    for verb in ("doctor", "score", "data"):
        assert verb in shown.stdout


def test_help_is_quick_to_import() -> None:
    """Heavy parts are imported by the verbs that need them, never by the command line itself."""
    code = "import captrial.cli, sys; print([m for m in ('torch', 'spacy', 'pyarrow', 'numba') if m in sys.modules])"
    started = time.monotonic()
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("verb", ["frobnicate", "--nonsense"])
def test_bad_usage_is_exit_code_2(verb: str) -> None:
    result = captrial(verb)
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


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and stderr of a command that must not succeed or print anything."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert not out
    return int(stopped.value.code or 0), err


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that no room checks by itself: the file system's own complaint, not a traceback."""
    (tmp_path / "file").touch()
    line = ("data", "contact-sheet", tmp_path / "file" / "sheet.png", "--images", "1", "--size", "32")
    code, err = complaint(capsys, *line)
    assert code == 2
    assert err.count("\n") == 1
    assert f"{tmp_path / 'file'}: File exists; check the path" in err
    with pytest.raises(FileExistsError):
        main([*map(str, line), "--debug"])


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("captrial.cli.doctor.examine", interrupted)
    code, err = complaint(capsys, "doctor")
    assert code == 130
    assert "interrupted; run the same command again" in err


def test_tables_take_nothing_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["[b]old.jpg", "a[/x].jpg", ":dog:", "C:\\[1]"]
    print_table("title [/b] :cat:", ["image [b]"], [[name] for name in names], ["note [/b] :cow:"])
    out = capsys.readouterr().out
    for text in (*names, "title [/b] :cat:", "image [b]", "note [/b] :cow:"):
        assert text in out


def test_doctor_speaks_json() -> None:
    result = captrial("doctor", "--json")
    assert result.returncode == 0
    installation = orjson.loads(result.stdout)
    parts = {part["name"]: part for part in installation["parts"]}
    assert parts["spacy"]["present"]
    assert installation["version"] == __version__
    assert installation["word_vectors"]
    assert "captrial doctor" in captrial("doctor").stdout


def test_doctor_names_missing_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    from captrial import installation

    real = installation.importlib.util.find_spec
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None if name == "ray" else real(name))
    part = next(part for part in installation.examine().parts if part.name == "ray")
    assert not part.present
    assert "pip install 'captrial[ray]'" in part.state


def test_doctor_survives_a_broken_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from captrial import installation

    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: cannot open shared object file')")
    (tmp_path / "psycopg.py").touch()  # a module without a distribution
    monkeypatch.setattr(installation, "_PARTS", [("no-such-distribution", "psycopg", "postgres", "annotations")])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = installation.examine()
    assert "cannot be imported: libcudart.so" in found.devices[0]
    assert found.parts[0].state == "there, version unknown"
