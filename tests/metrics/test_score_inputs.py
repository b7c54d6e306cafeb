from __future__ import annotations

from pathlib import Path

import pytest

from captrial.errors import InputError
from captrial.metrics.score_inputs import find_images, much_longer, shorten


def test_shorten() -> None:
    assert shorten("A big dog runs. It is brown.", sentence=True, words=2) == "A big"
    assert shorten("A big dog", words=9) == "A big dog"
    assert shorten("A big dog. Yes") == "A big dog. Yes"


def test_much_longer() -> None:
    references = {"1": ["a dog runs on grass", "a dog"]}
    assert much_longer(["a dog runs"], references) is None
    found = much_longer(["word " * 50], references)
    assert found == (50, 3.5)
    assert much_longer([], references) is None


def test_images_are_found_by_other_spellings_of_their_ids(tmp_path: Path) -> None:
    for name in ("val/COCO_val2014_000000000139.jpg", "dog.png", "a/same.jpg", "b/same.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = find_images(tmp_path, ["139", "/photos/dog.png", "b/same.jpg", "same", "unknown"])
    assert {image: path.name for image, path in found.items()} == {
        "139": "COCO_val2014_000000000139.jpg",
        "/photos/dog.png": "dog.png",
        "b/same.jpg": "same.jpg",
    }  # `same` is two files
    with pytest.raises(InputError, match="is not a folder of images"):
        find_images(tmp_path / "absent", ["139"])
