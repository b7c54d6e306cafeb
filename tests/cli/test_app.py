"""The command line as a user sees it: exit codes, one clear message, no traceback."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

import captrial as package
from captrial.cli import app as cli_app
from captrial.cli.app import COMMANDS, main
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


def test_score_imports_only_what_its_metrics_need(tmp_path: Path) -> None:
    """BLEU needs no engines, no readers of data sets and no compiler."""
    (tmp_path / "a.json").write_text('{"1": "a dog runs", "2": "a cat sits"}')
    (tmp_path / "refs.json").write_text('{"1": ["a dog runs"], "2": ["a cat sits"]}')
    line = ["score", str(tmp_path / "a.json"), "--references", str(tmp_path / "refs.json"), "--metrics", "bleu"]
    unwanted = ("captrial.engines", "captrial.data.datasets", "captrial.data.pools", "numba", "torch", "spacy")
    code = (
        "import sys; from captrial.cli import main\n"
        f"try: main({[*line, '--json']!r})\n"
        "except SystemExit as end: assert not end.code\n"
        f"print([name for name in {unwanted!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.splitlines()[-1] == "[]"


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
    path = tmp_path / f"{'x' * 300}.png"
    line = ("data", "contact-sheet", path, "--images", "1", "--size", "32")
    code, err = error_message(capsys, *line)
    assert code == 2
    assert err.count("\n") == 1
    assert f"{path}: File name too long; check the path" in err
    with pytest.raises(OSError, match="too long"):
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


def test_texts_of_others_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\x9b2Jdog"
    print_table(hostile, [hostile], [[hostile]], [hostile])
    with pytest.raises(SystemExit):
        main(["score", "none.json", "--references", f"{tmp_path}/{hostile}.json"])
    told = "".join(capsys.readouterr())
    assert told.count("]0;title") == 5
    assert not {"\x1b", "\x07", "\x9b"} & set(told)


# Adding a command or an option, as CONTRIBUTING.md says ---------------------------------------------------------------


@dataclass(frozen=True)
class CountSettings:
    """The settings object that the options of the command below fill."""

    minimum: int = 1


def count_words(text: str, settings: CountSettings) -> int:
    return sum(len(word) >= settings.minimum for word in text.split())


def count(
    text: Annotated[str, typer.Argument(help="A caption.")],
    minimum: Annotated[int, typer.Option("--minimum", min=1, help="Letters of the shortest word that counts.")] = 1,
) -> None:
    """Count the words of a caption."""
    print(count_words(text, CountSettings(minimum)))


def test_a_command_with_an_option_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with a function of the command's name, and the name in `COMMANDS`: help, parsing and errors follow."""
    module = ModuleType("captrial.cli.count")
    module.count = count  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "captrial.cli.count", module)
    monkeypatch.setattr(cli_app, "COMMANDS", (*COMMANDS, "count"))
    runner = CliRunner()
    assert "Count the words of a caption." in runner.invoke(cli_app.app, ["--help"]).stdout
    assert "--minimum" in runner.invoke(cli_app.app, ["count", "--help"]).stdout
    assert runner.invoke(cli_app.app, ["count", "a dog runs"]).stdout == "3\n"
    assert runner.invoke(cli_app.app, ["count", "a dog runs", "--minimum", "4"]).stdout == "1\n"
    assert runner.invoke(cli_app.app, ["count", "a dog runs", "--minimum", "0"]).exit_code == 2
    assert "Did you mean 'count'?" in runner.invoke(cli_app.app, ["cout"]).stderr


def test_options_are_declared_in_the_file_of_their_command() -> None:
    """A new option touches its command's file; those of several are in `*_options.py` and `output.py`."""
    root = Path(package.__file__).parent
    declaring = {path.relative_to(root) for path in root.rglob("*.py") if "typer.Option(" in path.read_text()}
    commands = {name for name in COMMANDS if (root / "cli" / f"{name}.py").is_file()}
    assert commands == set(COMMANDS)
    shared = {"app", "output", "engine_options", "study_options"}
    parts = {path.stem for path in (root / "cli").glob("*_*.py")}  # compete_results.py: commands of `captrial compete`
    assert {path.parts[0] for path in declaring} == {"cli"}
    assert {path.stem for path in declaring} <= commands | shared | parts
    assert {name.split("_")[0] for name in parts - shared} - {""} <= commands


# What an idea is called on every command line -> words that commands have used for it before.
OPTION_WORDS = {
    "--batch-size": {"--batch"},
    "--captions": {"--sentences"},
    "--concurrency": {"--in-flight", "--parallel"},
    "--external-scores": {"--against", "--scores"},
    "--format": {"--form", "--as", "--as-format"},
    "--frequencies": {"--df"},
    "--images": {"--pictures", "--photos"},
}


def options_of(command: Any) -> set[str]:
    """The options of a command and of the commands below it."""
    if isinstance(command, TyperGroup):
        return {option for name in command.commands for option in options_of(command.commands[name])}
    return {option for parameter in command.params for option in parameter.opts if option.startswith("--")}


def test_an_idea_has_one_option() -> None:
    used = options_of(typer.main.get_command(cli_app.app))
    assert OPTION_WORDS.keys() <= used
    assert used.isdisjoint(set().union(*OPTION_WORDS.values()))
