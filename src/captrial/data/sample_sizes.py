"""The size of a sample's image, which its boxes need, and boxes of images that EXIF turns.

Images are opened upright (`captrial.data.images`), so sizes and boxes are those of the upright image everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from captrial.data.datasets.coco import masked_regions
from captrial.data.datasets.samples import replace_regions
from captrial.data.images import image_orientation, image_size
from captrial.errors import DatasetError
from captrial.records import Box, ImageRef, Region, Sample


def size_of(sample: Sample) -> tuple[int, int]:
    """(width, height) of a sample's image; raises `DatasetError` where they are not known."""
    width, height = sample.image.width, sample.image.height
    if not width or not height:
        raise DatasetError(f"image {sample.id}: its size is not known, but boxes need it; add width and height")
    return width, height


def with_size(sample: Sample) -> Sample:
    """The sample with the width and height of its upright image; its boxes are those of the upright image too.

    The size is read from the file's header where it is not known. A data set that gives the size of an image before
    the turn that its EXIF orientation asks for has drawn its boxes there as well: both are turned.
    """
    image = sample.image
    if image.width and image.height:
        boxes = sample.regions or any(phrase.regions for each in sample.phrases for phrase in each)
        turned = _unturned(image) if boxes else None
        return sample if turned is None else turn_boxes(sample, turned)
    if image.path is None:
        raise DatasetError(f"image {sample.id}: neither its size nor its file is known, but boxes need the size")
    width, height = image_size(image.path)
    return replace(sample, image=replace(image, width=width, height=height))


def _unturned(image: ImageRef) -> int | None:
    """The orientation by which an image is still to be turned: its given size lies across that of the upright file."""
    if image.path is None or not image.path.is_file() or not image.width or not image.height:
        return None
    width, height = image_size(image.path)
    if (width - height) * (image.width - image.height) >= 0:
        return None
    return image_orientation(image.path)


def turn_boxes(sample: Sample, orientation: int) -> Sample:
    """A sample with size, boxes and masks as they are after the turn of an EXIF orientation from 5 to 8.

    Segmentations of COCO are decoded first: they are of the image before the turn.
    """
    width, height = size_of(sample)
    places: dict[int, Callable[[float, float], tuple[float, float]]] = {
        5: lambda x, y: (y, x),
        6: lambda x, y: (height - y, x),
        7: lambda x, y: (height - y, width - x),
        8: lambda x, y: (y, width - x),
    }
    if orientation not in places:
        return sample
    place = places[orientation]

    def turned(region: Region) -> Region:
        x1, y1, x2, y2 = region.box
        (left, top), (right, bottom) = place(x1, y1), place(x2, y2)
        box = Box(min(left, right), min(top, bottom), max(left, right), max(top, bottom))
        mask = region.mask
        if mask is not None:
            mask = {5: mask.T, 6: np.rot90(mask, -1), 7: np.rot90(mask.T, 2), 8: np.rot90(mask)}[orientation]
        return replace(region, box=box, mask=mask)

    def all_turned(regions: Sequence[Region]) -> tuple[Region, ...]:
        return tuple(map(turned, masked_regions(sample, regions)))

    phrases = tuple(
        tuple(replace(phrase, regions=all_turned(phrase.regions)) for phrase in each) for each in sample.phrases
    )
    image = replace(sample.image, width=height, height=width)
    return replace(replace_regions(sample, all_turned(sample.regions)), image=image, phrases=phrases)
