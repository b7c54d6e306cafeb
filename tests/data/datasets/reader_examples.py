"""The small data sets that tests of readers give as `EXAMPLE`: one image, by file name, in the form of the reader.

Every reader must recognise its own (`test_registry.py`), and must not fail on damaged ones (`test_fuzzing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

Files = Mapping[str, bytes]


def examples() -> dict[str, Files]:
    """By the name of the reader, as its test is named: `visual-genome` for `test_visual_genome.py`."""
    found: dict[str, Files] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if "\nEXAMPLE = " in path.read_text():
            module = import_module(f"data.datasets.{path.stem}")
            found[path.stem.removeprefix("test_").replace("_", "-")] = module.EXAMPLE
    return found


def place(folder: Path, files: Files) -> Path:
    """What a user would name: the file where there is one, else the folder."""
    return folder / next(iter(files)) if len(files) == 1 else folder
