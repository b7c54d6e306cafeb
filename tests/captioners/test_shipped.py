"""The captioners that come with the package: they are there, small, described, and describe photographs."""

from __future__ import annotations

from pathlib import Path

import pytest

from captrial.captioners.loading import load_captioner
from captrial.captioners.shipped import DEFAULT, shipped
from captrial.data.pictures import open_picture
from captrial.errors import InputError

LARGEST = 30_000_000  # bytes, all together


def test_they_are_small_and_have_cards() -> None:
    assert DEFAULT in shipped()
    files = [path for folder in shipped().values() for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in files) < LARGEST
    for folder in shipped().values():
        card = (folder / "README.md").read_text()
        assert "Flickr8k" in card
        assert "## Limits" in card


def test_a_folder_at_home_is_one_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="mine is no checkpoint"):
        load_captioner("~/mine")


@pytest.mark.parametrize("source", ["http://h/v1#m?concurrency=0", "http://h/v1#m?timeout=nan", f"{DEFAULT}?beam=-1"])
def test_options_that_are_no_amount_are_refused(source: str) -> None:
    """No requests at once would wait for ever."""
    with pytest.raises(InputError, match=r"option \w+ cannot be"):
        load_captioner(source)


def test_no_pictures_and_no_address() -> None:
    assert load_captioner(DEFAULT).caption([]) == []
    with pytest.raises(InputError, match="is no address"):
        load_captioner("http://h:x/v1#m")


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped())
def test_they_describe_photographs(name: str) -> None:
    from skimage import data

    motorcycle = Path(data.__file__).parent / "motorcycle_left.png"
    (said,) = load_captioner(name).caption([open_picture(motorcycle)])
    assert {"motorcycle", "motorbike", "bike", "bicycle"} & set(said.split())
