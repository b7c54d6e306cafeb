from __future__ import annotations

from pathlib import Path

import pytest

from data.pools.photos import write_photos


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")
