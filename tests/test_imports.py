"""Imports go one way: a room may import rooms of a lower rank, never of its own or a higher one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "captrial"
RANKS = [
    {"errors", "records", "version", "progress", "files", "html"},
    {"data", "language", "vision", "decoding", "health"},
    {"captioners", "metrics"},
    {"training", "explain", "compete", "api"},
    {"annotate", "report", "engines"},
    {"demo", "reproduce", "studio"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}
WITHOUT_TORCH = ["metrics", "compete", "annotate", "report", "cli", "data", "language"]


def rooms_imported(path: Path) -> set[str]:
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
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if room in {"__init__", "__main__"}:
        return  # the public surface may import every room
    assert room in RANK, f"{room} is a new room: give it a rank in tests/test_imports.py"
    for other in rooms_imported(path) - {room}:
        same_floor = RANK[other] == RANK[room] == 0
        assert RANK[other] < RANK[room] or same_floor, f"{room} must not import {other}"


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_room_works_without_torch(room: str) -> None:
    code = f"import sys; sys.modules['torch'] = None; import captrial.{room}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
