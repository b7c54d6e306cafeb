"""Grounding one explanation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from PIL import Image

import captrial
from attribution.small_captioners import noise_image, trained_captioner
from captrial.attribution.attribution import Attribution, tile
from captrial.attribution.explanation import Explanation
from captrial.errors import InputError
from captrial.grounding.ground import ground_explanation
from captrial.grounding.score import Grounder, Verdict
from captrial.records import Box, Region
from captrial.vision.detectors.base import Detection


def test_verdicts_stand_at_the_captioners_own_words() -> None:
    """A VLM says commas and "man's" as words; our tokens have none and two for them."""
    words = ("a", "man's", "dog", ",", "near", "a", "cat", ".")
    cells = np.array([0, 0, 0, 1, 0, 0, 1, 0])  # it looks at the left half, but at the comma and "cat"
    said = Explanation(
        Attribution(words, np.eye(2)[cells], tile(1, 2), "saliency", grid=(1, 2)), image=Image.new("RGB", (90, 60))
    )
    regions = [Region(Box(0, 0, 45, 60), "dog"), Region(Box(45, 0, 90, 60), "cat")]
    found = ground_explanation(said, regions, Grounder(["dog", "cat", "person"], threshold=0.9))
    verdicts = {words[place]: found.verdict(place) for place in range(len(words)) if found.verdict(place)}
    assert verdicts == {"man's": Verdict.NOT_IN_IMAGE, "dog": Verdict.GROUNDED, "cat": Verdict.GROUNDED}


def test_regions_that_were_cropped_away_ground_nothing() -> None:
    window = (0.25, 0.0, 0.75, 1.0)
    scores = Attribution(("dog",), np.zeros((1, 2)), tile(1, 2, window), "saliency", grid=(1, 2), window=window)
    said = Explanation(scores, image=Image.new("RGB", (100, 100)))
    grounder = Grounder(["dog", "cat"], threshold=0.9)
    away, there = Region(Box(0, 0, 20, 100), "dog"), Region(Box(50, 0, 70, 100), "cat")
    assert ground_explanation(said, [away, there], grounder).verdict(0) is Verdict.NOT_LOOKED_AT
    alone = ground_explanation(said, [away], grounder)
    assert alone.verdict(0) is None
    assert alone.grounding.problem == "the image has no region with a label"


REGIONS = [Region(Box(0, 0, 30, 40), "dog"), Region(Box(30, 0, 60, 40), "cat")]


def test_one_call_gives_a_verdict_on_every_noun(tmp_path: Path) -> None:
    found = captrial.ground(
        trained_captioner(), noise_image(), "saliency", regions=REGIONS, caption="a dog, a cat and a ball"
    )
    assert [(noun.position, noun.name) for noun in found.nouns] == [(1, "dog"), (3, "cat"), (6, "ball")]
    assert {found.verdict(1), found.verdict(3)} <= {Verdict.GROUNDED, Verdict.EARLY, Verdict.NOT_IN_IMAGE}
    assert found.verdict(6) is Verdict.UNCHECKABLE  # no region could be a ball
    assert found.verdict(0) is None
    values = found.to_dict()
    assert values["words"][6]["verdict"] == "not checkable"
    assert orjson.loads(found.save(tmp_path / "found.json").read_bytes()) == values
    assert "not checkable" in found.save(tmp_path / "found.html").read_text()
    with pytest.raises(InputError, match=r"saved as \.html, \.json or \.npz"):
        found.save(tmp_path / "found.txt")


def test_several_images_and_a_detector(tmp_path: Path) -> None:
    noise_image().save(tmp_path / "noise.png")
    images = [noise_image(), tmp_path / "noise.png"]
    found = captrial.ground(trained_captioner(), images, "occlusion", regions=Halves())
    assert [one.caption for one in found] == [found[0].caption] * 2
    assert [[region.label for region in one.regions] for one in found] == [["dog", "cat"]] * 2
    assert len(found[0].explanation.attribution.boxes) == 2  # occlusion covers the regions
    assert "tau_g 0.947" in found[0].description
    with pytest.raises(InputError, match="regions of several images: give a detector"):
        captrial.ground(trained_captioner(), images, regions=REGIONS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no attribution method 'magic'"):
        captrial.ground(trained_captioner(), noise_image(), "magic")


class Halves:
    """A detector that finds a dog on the left and a cat on the right of every image."""

    name, labels, width = "halves", ("dog", "cat"), None

    def detect(self, images: Sequence[Image.Image]) -> list[list[Detection]]:
        return [[Detection(region.box, str(region.label), 0.9) for region in REGIONS] for _ in images]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name}
