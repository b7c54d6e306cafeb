"""Boxes of images that EXIF turns lie on the same things as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captrial.data.datasets import masks
from captrial.data.datasets.coco import region_shapes
from captrial.data.images import open_image
from captrial.data.sample_sizes import size_of, with_size
from captrial.records import Box, ImageRef, Phrase, Region, Sample

WIDTH, HEIGHT = 60, 40
BOX = Box(6, 4, 24, 14)  # red in the stored image


def turned_file(path: Path, orientation: int) -> Path:
    """A stored image of 60 x 40 pixels with a red box, whose EXIF asks for a turn."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[4:14, 6:24, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(path, exif=exif)
    return path


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
@pytest.mark.parametrize("form", ["RLE", "polygons"])
def test_masks_of_coco_are_turned_with_their_boxes(tmp_path: Path, orientation: int, form: str) -> None:
    """They are decoded when they are asked for, and are of the stored image."""
    path = turned_file(tmp_path / "a.png", orientation)
    mask = np.zeros((HEIGHT, WIDTH), np.bool_)
    mask[4:14, 6:24] = True
    segmentation = masks.encode(mask) if form == "RLE" else [[6.0, 4.0, 24.0, 4.0, 24.0, 14.0, 6.0, 14.0]]
    extra = {"iscrowd": (False,), "segmentations": (segmentation,)}
    stored = Sample(ImageRef("a", path, WIDTH, HEIGHT), ("a box",), regions=(Region(BOX, "box"),), extra=extra)
    sample = with_size(stored)
    (found,) = region_shapes(sample, sample.regions, masks=True)
    assert found.mask is not None
    assert np.array_equal(found.mask, np.asarray(open_image(path))[..., 0] > 128)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_of_the_stored_image_are_turned_with_it(tmp_path: Path, orientation: int) -> None:
    path = turned_file(tmp_path / "a.png", orientation)
    mask = np.zeros((HEIGHT, WIDTH), np.bool_)
    mask[4:14, 6:24] = True
    region = Region(BOX, "box", mask=mask)
    stored = ImageRef("a", path, WIDTH, HEIGHT)
    sample = with_size(Sample(stored, ("a box",), regions=(region,), phrases=((Phrase("a box", 0, 2, (region,)),),)))
    image = np.asarray(open_image(path))
    assert size_of(sample) == (image.shape[1], image.shape[0])
    if orientation in (2, 3, 4):  # of the same size before and after: boxes are taken as those of the upright image
        assert sample.regions[0].box == BOX
        return
    for found in (sample.regions[0], sample.phrases[0][0].regions[0]):
        x1, y1, x2, y2 = map(int, found.box)
        red = image[..., 0] > 128
        assert red[y1:y2, x1:x2].all()
        assert red.sum() == (x2 - x1) * (y2 - y1)
        assert found.mask is not None
        assert (found.mask == red).all()
    assert with_size(sample) == sample  # once


def test_boxes_of_the_upright_image_stay(tmp_path: Path) -> None:
    path = turned_file(tmp_path / "a.png", 6)
    for image in (ImageRef("a", path, HEIGHT, WIDTH), ImageRef("a", path)):
        sample = with_size(Sample(image, regions=(Region(BOX, "box"),)))
        assert size_of(sample) == (HEIGHT, WIDTH)
        assert sample.regions[0].box == BOX


def test_a_known_size_needs_no_file() -> None:
    sample = Sample(ImageRef("a", Path("missing.png"), 10, 20), regions=(Region(Box(0, 0, 1, 1), "x"),))
    assert with_size(sample) == sample
