"""Whether a noun is in an image: by labels, and calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from skimage import data as photographs

from captrial.grounding.presence import (
    CalibratedPresence,
    error_note,
    error_rates,
    learnt_names,
    presence_of,
    shipped_table,
)
from captrial.grounding.score import Grounder, LabelPresence, Verdict
from captrial.vision.detectors.noun_presence import PresenceTable
from captrial.vision.registry import load_detector

TABLE = PresenceTable(("dog", "person", "ball"), ("dog", "person", None), np.zeros((3, 4)), 2.0, 1.0, 0.6)


def test_absence_is_the_logistic_function_of_the_best_odds() -> None:
    presence = CalibratedPresence({"dog": 1.5, "person": -2.0, "ball": 0.0}, TABLE)
    assert presence.absent("dog") == pytest.approx(1 / (1 + np.exp(2 * 1.5 - 1)))
    assert presence.absent("puppy") == presence.absent("dog")  # a kind of it
    assert presence.absent("surfer") == pytest.approx(1 / (1 + np.exp(-2 * 2.0 - 1)))
    assert presence.absent("justice") is None
    assert presence.threshold == 0.6


def test_names_that_a_noun_stands_for() -> None:
    assert learnt_names("dog", TABLE.nouns) == ("dog",)
    assert learnt_names("hound", TABLE.nouns) == ("dog",)
    assert learnt_names("idea", TABLE.nouns) == ()


def test_verdicts_follow_the_image_before_the_region() -> None:
    """A doubtful region of that label does not ground a noun that is not in the image."""
    grounder = Grounder(["dog", "person", "ball"])
    words, nouns = ["dog", "with", "ball"], [(0, "dog"), (2, "ball")]
    odds = {"dog": 3.0, "person": 0.0, "ball": -3.0}
    found = grounder.ground(words, nouns, ["person", "dog", "ball"], CalibratedPresence(odds, TABLE))
    assert [noun.verdict for noun in found.nouns] == [Verdict.NOT_LOOKED_AT, Verdict.NOT_IN_IMAGE]
    assert found.nouns[1].absent == pytest.approx(1 / (1 + np.exp(-7)))
    assert all(noun.ungrounded for noun in found.nouns)


def test_people_are_people_whatever_their_age_and_sex() -> None:
    grounder = Grounder(["man", "girl", "dog"])
    found = grounder.ground(["boy"], [(0, "boy")], ["girl"], LabelPresence(grounder, ["girl"]))
    assert found.nouns[0].verdict is Verdict.GROUNDED


def test_labels_decide_where_no_odds_are_known() -> None:
    grounder = Grounder(["dog", "cat"])
    presence = presence_of(grounder, ["dog"], None)
    assert [presence.absent(noun) for noun in ("puppy", "cat", "justice")] == [0.0, 1.0, None]


def test_the_shipped_table_knows_its_error_rates() -> None:
    table, rates = shipped_table(), error_rates()
    assert table.measured is not None
    assert set(rates) <= set(Verdict)
    assert table.measured["not in the image"]["precision"] >= 0.8
    assert table.measured["not in the image"]["recall"] >= 0.6
    assert rates["not in the image"] == pytest.approx(1 - table.measured["not in the image"]["precision"], abs=2e-3)
    assert f"not in the image {rates['not in the image']:.0%}" in error_note()


def test_the_shipped_detector_tells_a_person_from_a_motorcycle() -> None:
    detector = load_detector("region-detector")
    _, odds = detector.detect_nouns(Image.fromarray(photographs.astronaut()))  # type: ignore[attr-defined]
    presence = CalibratedPresence(odds, shipped_table())
    assert (presence.absent("woman") or 0) < presence.threshold
    assert (presence.absent("motorcycle") or 0) >= presence.threshold
