"""Small made-up photographs for the tests of pools."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image


def scene(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    """A smooth random image, as different from another seed's as two photographs."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def encoded(image: Image.Image, form: str = "JPEG", **options: int) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def write_photos(folder: Path) -> Path:
    """Two classes with duplicates of every sort, and files that are not images."""
    for label, seeds in {"cats": range(4), "dogs": range(4, 7)}.items():
        (folder / label).mkdir(parents=True)
        for seed in seeds:
            (folder / label / f"{seed}.jpg").write_bytes(encoded(scene(seed)))
    copies = folder / "zcopies"
    copies.mkdir()
    (copies / "bytes.jpg").write_bytes((folder / "cats" / "0.jpg").read_bytes())
    (copies / "coded.png").write_bytes(encoded(scene(1), "PNG"))
    (copies / "small.webp").write_bytes(encoded(scene(2).resize((80, 60)), "WebP"))
    (copies / "trimmed.jpg").write_bytes(encoded(scene(3).crop((2, 2, 158, 118)), quality=60))
    (copies / "cut.jpg").write_bytes(encoded(scene(20))[:-300])
    (copies / "page.jpg").write_bytes(b"<!doctype html><title>not found</title>")
    (copies / "empty.jpg").touch()
    (folder / "notes.txt").write_text("hello")
    (folder / ".DS_Store").write_text("hello")
    return folder
