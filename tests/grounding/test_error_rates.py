"""Error rates of verdicts: those that were measured, by references and by eye."""

from __future__ import annotations

import pytest

from captrial.grounding.error_rates import absence_error, error_note, error_rates, rates_by_eye
from captrial.grounding.score import Verdict
from captrial.vision.detectors.noun_presence import NounCalibration
from captrial.vision.registry import load_detector
from studies.noun_presence import rates_by_eye as study_rates_by_eye


def test_the_shipped_detector_knows_its_error_rates() -> None:
    calibration = load_detector("region-detector").noun_calibration  # type: ignore[attr-defined]
    rates, eye = error_rates(calibration), rates_by_eye(calibration)
    assert calibration.measured is not None
    assert rates is not None
    assert eye is not None
    assert set(rates) <= set(Verdict)
    precision, recall = (calibration.measured["not in the image"][name] for name in ("precision", "recall"))
    assert precision >= 0.78  # by the references; the goal of 0.8 is missed (docs/ground_measured.md)
    assert recall >= 0.6
    assert rates["not in the image"] == pytest.approx(1 - precision, abs=2e-3)
    note = error_note(calibration)
    assert f"not in the image {rates['not in the image']:.0%}" in note
    assert f"by eye, not in the image {eye['not in the image']['error']:.0%}" in note


def test_the_rate_by_eye_is_that_of_the_answers() -> None:
    calibration = load_detector("region-detector").noun_calibration  # type: ignore[attr-defined]
    assert rates_by_eye(calibration) == study_rates_by_eye()


def test_rates_by_eye_differ_by_kind_of_noun() -> None:
    """Scenery and clothes are left out of captions though they are there: their verdicts are wrong more often."""
    calibration = load_detector("region-detector").noun_calibration  # type: ignore[attr-defined]
    rates = rates_by_eye(calibration)
    assert rates is not None
    things, background = (rates[f"not in the image, {kind}"]["error"] for kind in ("things", "scenery and clothes"))
    assert things < background
    assert absence_error(calibration, "guitar") == things
    assert absence_error(calibration, "shirt") == absence_error(calibration, "forest") == background
    assert absence_error(NounCalibration(), "guitar") is None
