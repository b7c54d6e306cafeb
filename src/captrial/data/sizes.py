"""Sizes of pictures that a data set does not tell."""

from __future__ import annotations

from dataclasses import replace

from captrial.data.pictures import picture_size
from captrial.errors import DatasetError
from captrial.records import Sample


def size_of(sample: Sample) -> tuple[int, int]:
    """The width and height of a sample's picture; an error where they are not known."""
    width, height = sample.picture.width, sample.picture.height
    if not width or not height:
        raise DatasetError(f"picture {sample.id}: its size is not known, so boxes have no place on it")
    return width, height


def with_size(sample: Sample) -> Sample:
    """The sample with its picture's width and height, read from the file's header where they are not known."""
    picture = sample.picture
    if picture.width and picture.height:
        return sample
    if picture.path is None:
        raise DatasetError(f"picture {sample.id}: neither its size nor its file is known, so boxes have no place on it")
    width, height = picture_size(picture.path)
    return replace(sample, picture=replace(picture, width=width, height=height))
