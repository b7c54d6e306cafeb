"""`captrial doctor`: what is installed, what is missing, also for a broken installation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from captrial.version import __version__


def captrial(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "captrial", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_json() -> None:
    result = captrial("doctor", "--json")
    assert result.returncode == 0
    installation = orjson.loads(result.stdout)
    parts = {part["name"]: part for part in installation["parts"]}
    assert parts["spacy"]["present"]
    assert installation["version"] == __version__
    assert installation["word_vectors"]
    assert "captrial doctor" in captrial("doctor").stdout


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from captrial import installation

    real = installation.importlib.util.find_spec
    monkeypatch.setattr(installation.importlib.util, "find_spec", lambda name: None if name == "ray" else real(name))
    part = next(part for part in installation.examine().parts if part.name == "ray")
    assert not part.present
    assert "pip install 'captrial[ray]'" in part.state


def test_a_broken_installation_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from captrial import installation

    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: cannot open shared object file')")
    (tmp_path / "psycopg.py").touch()  # a module without a distribution
    monkeypatch.setattr(installation, "_COMPONENTS", [("no-such-distribution", "psycopg", "postgres", "annotations")])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = installation.examine()
    assert "cannot be imported: libcudart.so" in found.devices[0]
    assert found.parts[0].state == "installed, version unknown"
