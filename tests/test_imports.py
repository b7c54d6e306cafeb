"""Imports go one way: a package may import packages of a lower rank, never of its own or a higher one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "captrial"
RANKS = [
    {
        "errors",
        "records",
        "version",
        "progress",
        "files",
        "folders",
        "html",
        "installation",
        "arrays",
        "kernels",
        "lazy_exports",
        "result_table",
    },
    {"data", "language", "vision", "decoding", "web"},
    {"toyworld", "captioners", "metrics"},
    {"training", "attribution", "compete"},
    {"grounding"},
    {"annotate", "judges", "report", "engines"},
    {"studio", "demo", "papers"},
    {"cli"},
]
RANK = {package: rank for rank, packages in enumerate(RANKS) for package in packages}
WITHOUT_TORCH = ["metrics", "compete", "annotate", "judges", "report", "cli", "data", "language", "web"]


def packages_imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("captrial"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("captrial.")}
    return {name for name in found if name in RANK}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if package in {"__init__", "__main__"}:
        return  # the public surface may import every package
    assert package in RANK, f"{package} is a new package: give it a rank in tests/test_imports.py"
    for other in packages_imported(path) - {package}:
        lowest = RANK[other] == RANK[package] == 0
        assert RANK[other] < RANK[package] or lowest, f"{package} must not import {other}"


@pytest.mark.parametrize("package", WITHOUT_TORCH)
def test_package_works_without_torch(package: str) -> None:
    code = f"import sys; sys.modules['torch'] = None; import captrial.{package}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
