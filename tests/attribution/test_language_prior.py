"""The share of a word's probability that stays without the image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captrial.attribution.language_prior import blank_images, language_shares, read_prior, share_note
from captrial.errors import InputError


def test_shares_are_of_probabilities_and_at_most_one() -> None:
    own, prior = np.log([0.9, 0.8, 0.5]), np.log([0.9, 0.08, 0.9])
    shares = language_shares(own, prior)
    assert shares == pytest.approx([1.0, 0.1, 1.0])
    note = share_note(shares, ["a", "red", "dog"])
    assert note is not None
    assert note.endswith("“a”, “dog”")
    assert share_note(shares[1:2], ["red"]) is None


def test_blank_images_have_the_size_and_the_mean_colour() -> None:
    image = Image.new("RGB", (6, 4), (10, 20, 30))
    found = blank_images(image)
    assert {blank.size for blank in found} == {(6, 4)}
    assert [blank.getpixel((0, 0)) for blank in found] == [(10, 20, 30), (0, 0, 0), (255, 255, 255)]


def test_what_an_option_names(tmp_path: Path) -> None:
    assert read_prior("blank") == ("blank", [])
    assert read_prior("off") == ("off", [])
    for wrong in ("grey", str(tmp_path)):
        with pytest.raises(InputError, match="give blank, off, or a folder with images"):
            read_prior(wrong)
    Image.new("RGB", (4, 3), "red").save(tmp_path / "a.png")
    kind, images = read_prior(str(tmp_path))
    assert kind == "blank"
    assert [image.size for image in images] == [(4, 3)]
