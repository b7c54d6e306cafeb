from __future__ import annotations

from pathlib import Path

import pytest

from captrial.data.datasets import read_folder
from captrial.errors import DatasetError

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def test_classes_order_and_suffixes(tmp_path: Path) -> None:
    for name in ("dog/10.jpg", "dog/9.JPEG", "dog/old/1.webp", "cat/a.png", "top.bmp", "dog/.hidden.jpg", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    samples = list(read_folder(tmp_path))
    assert [(sample.id, sample.image.label) for sample in samples] == [
        ("top.bmp", None),
        ("cat/a.png", "cat"),
        ("dog/9.JPEG", "dog"),
        ("dog/10.jpg", "dog"),
        ("dog/old/1.webp", "dog"),
    ]
    assert all(sample.image.path == tmp_path / sample.id for sample in samples)


def test_images_under_other_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "download").write_bytes(PNG)
    (tmp_path / "photo.dat").write_bytes(b"\xff\xd8\xff\xe0" + b"\0" * 20)
    (tmp_path / "text.dat").write_bytes(b"not an image")
    assert [sample.id for sample in read_folder(tmp_path)] == ["download", "photo.dat"]


def test_links_that_lead_in_circles(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.jpg").touch()
    (tmp_path / "real" / "up").symlink_to(tmp_path)
    (tmp_path / "zlink").symlink_to(tmp_path / "real")
    assert [sample.id for sample in read_folder(tmp_path)] == ["real/a.jpg"]


def test_it_is_lazy(tmp_path: Path) -> None:
    for index in range(3):
        (tmp_path / f"{index}.jpg").touch()
    samples = read_folder(tmp_path)
    assert next(samples).id == "0.jpg"
    with pytest.raises(DatasetError, match="no such folder"):
        next(read_folder(tmp_path / "none"))
