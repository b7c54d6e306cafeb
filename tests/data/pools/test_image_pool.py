"""The class distribution of a pool as a figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from captrial.data import image_size
from captrial.data.pools.image_pool import draw_classes
from captrial.errors import InputError


def test_figure(tmp_path: Path) -> None:
    draw_classes({"cat": 3, "dog": 5}, tmp_path / "few.svg")
    text = (tmp_path / "few.svg").read_text()
    assert text.index("dog") < text.index("cat")  # the largest first
    draw_classes({"cat": 3, "dog": 5}, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text
    draw_classes({f"class {n}": 1000 + n for n in range(200)}, tmp_path / "many.png")
    assert image_size(tmp_path / "many.png") == (1350, 540)
    with pytest.raises(InputError, match="choose one of these suffixes"):
        draw_classes({"cat": 1}, tmp_path / "a.doc")
