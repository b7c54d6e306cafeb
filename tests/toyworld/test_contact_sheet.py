"""Contact sheets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.errors import InputError
from captrial.toyworld import ToyWorld, ToyWorldSettings, draw_sheet


def test_bad_contact_sheets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose one of these suffixes"):
        draw_sheet(tmp_path / "s.doc", ToyWorldSettings(shares={"train": 1}))
    with pytest.raises(InputError, match="at least 1"):
        draw_sheet(tmp_path / "s.png", ToyWorldSettings(0, shares={"train": 1}))
    assert not list(tmp_path.iterdir())


def test_contact_sheet(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["data", "contact-sheet", str(tmp_path / "s.png"), "--images", "6", "--size", "64", "--columns", "3"]
    )
    assert result.exit_code == 0
    assert result.stdout == f"{tmp_path / 's.png'}: 6 images\n"
    sheet = np.asarray(Image.open(tmp_path / "s.png"))
    image = ToyWorld(size=64).render("train", 0)
    shown = sheet[14 : 14 + 64, 14 : 14 + 64]
    boxes = np.zeros((64, 64), dtype=bool)
    for region in image.sample.regions:
        x1, y1, _, y2 = map(int, region.box)
        boxes[max(y1 - 16, 0) : y2, max(x1 - 2, 0) :] = True
    assert np.array_equal(shown[~boxes], image.pixels[~boxes])  # untouched but for boxes and labels
    assert not np.array_equal(shown, image.pixels)
