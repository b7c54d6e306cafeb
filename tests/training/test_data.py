"""Which images train and which validate."""

from __future__ import annotations

import pytest

from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample
from captrial.training.data import split_samples


def test_every_tenth_image_validates_where_no_split_does() -> None:
    samples = [Sample(ImageRef(str(number)), ("a dog",)) for number in range(20)]
    training, validation = split_samples(samples)
    assert [sample.id for sample in validation] == ["0", "10"]
    assert len(training) == 18
    with pytest.raises(DatasetError, match="no captions found in photos/"):
        split_samples([Sample(ImageRef("1"), ("a dog",), split="test")], "photos/")
