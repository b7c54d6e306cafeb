"""Commands run inside the test process."""

from __future__ import annotations

import json

import pytest

from captrial.cli.app import main


def run_captrial(arguments: list[str]) -> None:
    """Run a command; it must end with exit code 0."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> dict[str, object]:
    """What a command prints with `--json`."""
    capsys.readouterr()
    run_captrial([*arguments, "--json"])
    answered: dict[str, object] = json.loads(capsys.readouterr().out)
    return answered
