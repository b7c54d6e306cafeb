"""What `pip install captrial` brings: every file the code reads, and every package it imports."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from captrial.version import __version__
from test_imports import WITHOUT_TORCH

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "captrial"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CORE = [*WITHOUT_TORCH, "errors.py", "files.py", "installation.py", "progress.py", "records.py"]
COMPILED = {".py", ".pyc", ".nbi", ".nbc"}


def names(requirements: list[str]) -> set[str]:
    """The distributions of requirement lines, by their normal names."""
    return {normal(re.split(r"[\[<>=!~; ]", line)[0]) for line in requirements}


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


@cache
def distributions() -> dict[str, set[str]]:
    return {module: {normal(name) for name in found} for module, found in packages_distributions().items()}


def imported(node: ast.AST) -> Iterator[str]:
    """Packages of others that these statements import."""
    for part in ast.walk(node):
        if isinstance(part, ast.Import):
            modules = [alias.name for alias in part.names]
        else:
            modules = [part.module] if isinstance(part, ast.ImportFrom) and part.module and not part.level else []
        for module in modules:
            top = module.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "captrial":
                yield top


def at_import(tree: ast.Module) -> Iterator[str]:
    """Packages needed as soon as a file is imported: not those inside functions or for type checkers alone."""
    for node in tree.body:
        checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not checking and not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield from imported(node)


def test_every_data_file_is_in_the_wheel() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["captrial"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in COMPILED}
    assert len(files) > 20
    assert sorted(str(path.relative_to(PACKAGE)) for path in files - packed) == []


@pytest.mark.parametrize("room", CORE)
def test_the_core_imports_what_the_core_installs(room: str) -> None:
    core = names(PROJECT["project"]["dependencies"])
    paths = sorted((PACKAGE / room).rglob("*.py")) if (PACKAGE / room).is_dir() else [PACKAGE / room]
    assert paths
    for path in paths:
        for module in at_import(ast.parse(path.read_text())):
            assert distributions()[module] & core, f"{path.relative_to(PACKAGE)} imports {module}"


def test_nothing_is_imported_that_no_extra_brings() -> None:
    project = PROJECT["project"]
    extras = [line for extra, lines in project["optional-dependencies"].items() if extra != "dev" for line in lines]
    known = names(project["dependencies"]) | names(extras)
    for path in sorted(PACKAGE.rglob("*.py")):
        for module in imported(ast.parse(path.read_text())):
            found = distributions().get(module, {normal(module)})
            assert found & known, f"{path.relative_to(PACKAGE)} imports {module}, which only development installs"


def test_every_dependency_is_pinned() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!-]+", line) for line in lines)
    assert "torch==2.13.0" in lines
    project = PROJECT["project"]
    wanted = names(project["dependencies"])
    wanted |= names([line for extra in project["optional-dependencies"].values() for line in extra])
    assert wanted - names(lines) == {"captrial"}


@pytest.mark.full
def test_the_wheel_installs_and_runs_in_an_empty_environment(tmp_path: Path) -> None:
    """`python -m build`, then a new environment with nothing but the wheel and what it requires."""
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=900)
    (wheel,) = (tmp_path / "dist").glob("captrial-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    place = tmp_path / "venv" / "bin"
    install = [place / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, timeout=1800)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = [
        subprocess.run(
            [place / "captrial", *line.split()],
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=600,
        ).stdout
        for line in (
            "--version",
            "sample try --images 12",
            "score try/mine.json try/theirs.json -r try/references.json -m bleu,cider",
        )
    ]
    assert said[0].strip() == __version__
    assert "Who beats whom" in said[2]
