"""Whether a noun is in an image: by labels, and calibrated."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import orjson
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from skimage import data as photographs

from captrial import ground
from captrial.errors import MismatchError
from captrial.grounding.error_rates import NO_RATE, error_note, error_rates
from captrial.grounding.presence import CalibratedPresence, learnt_names, presence_of
from captrial.grounding.regions import detect_regions
from captrial.grounding.score import Grounder, LabelPresence, Verdict
from captrial.records import ImageRef, Sample
from captrial.vision.detectors.noun_presence import CONFIG, WEIGHTS, NounCalibration
from captrial.vision.detectors.region_detector import SHIPPED, RegionDetector
from captrial.vision.registry import load_detector

NOUNS = ("dog", "person", "ball")
CURVE = NounCalibration(2.0, 1.0, 0.6)


def test_absence_is_the_logistic_function_of_the_best_odds() -> None:
    presence = CalibratedPresence({"dog": 1.5, "person": -2.0, "ball": 0.0}, CURVE)
    assert presence.absent("dog") == pytest.approx(1 / (1 + np.exp(2 * 1.5 - 1)))
    assert presence.absent("puppy") == presence.absent("dog")  # a kind of it
    assert presence.absent("surfer") == pytest.approx(1 / (1 + np.exp(-2 * 2.0 - 1)))
    assert presence.absent("justice") is None
    assert presence.threshold == 0.6


def test_names_that_a_noun_stands_for() -> None:
    assert learnt_names("dog", NOUNS) == ("dog",)
    assert learnt_names("hound", NOUNS) == ("dog",)
    assert learnt_names("idea", NOUNS) == ()


def test_a_part_of_a_body_is_there_where_its_owner_is() -> None:
    """People seldom mention a mouth, so its own log-odds say little; a hand belongs to people alone."""
    odds = {"mouth": -3.0, "hand": -3.0, "dog": 2.0, "man": -4.0, "ball": -3.0}
    presence = CalibratedPresence(odds, CURVE)
    assert presence.absent("mouth") == presence.absent("dog")
    assert presence.absent("hand") == presence.absent("ball")  # its own: there is a dog, but no man
    assert CalibratedPresence({**odds, "man": 2.0}, CURVE).absent("hand") == presence.absent("dog")
    assert CalibratedPresence({**odds, "mouth": 3.0}, CURVE).absent("mouth") < presence.absent("dog")  # type: ignore[operator]
    assert CalibratedPresence({"dog": 2.0}, CURVE).absent("mouth") is None  # not learnt: nothing is said


def test_verdicts_follow_the_image_before_the_region() -> None:
    """A doubtful region of that label does not ground a noun that is not in the image."""
    grounder = Grounder(["dog", "person", "ball"])
    words, nouns = ["dog", "with", "ball"], [(0, "dog"), (2, "ball")]
    odds = {"dog": 3.0, "person": 0.0, "ball": -3.0}
    found = grounder.ground(words, nouns, ["person", "dog", "ball"], CalibratedPresence(odds, CURVE))
    assert [noun.verdict for noun in found.nouns] == [Verdict.NOT_LOOKED_AT, Verdict.NOT_IN_IMAGE]
    assert found.nouns[1].absent == pytest.approx(1 / (1 + np.exp(-7)))
    assert all(noun.ungrounded for noun in found.nouns)


def test_people_are_people_whatever_their_age_and_sex() -> None:
    grounder = Grounder(["man", "girl", "dog"])
    found = grounder.ground(["boy"], [(0, "boy")], ["girl"], LabelPresence(grounder, ["girl"]))
    assert found.nouns[0].verdict is Verdict.GROUNDED


def test_labels_decide_where_no_odds_are_known() -> None:
    grounder = Grounder(["dog", "cat"])
    presence = presence_of(grounder, ["dog"], None, None)
    assert [presence.absent(noun) for noun in ("puppy", "cat", "justice")] == [0.0, 1.0, None]


def own_detector(folder: Path, **changes: object) -> RegionDetector:
    """The shipped detector copied to a folder of the user's, its table changed."""
    shutil.copytree(SHIPPED, folder)
    table = orjson.loads((folder / CONFIG).read_bytes())
    (folder / CONFIG).write_bytes(orjson.dumps({**table, **changes}))
    return RegionDetector.from_pretrained(folder, threshold=0.3)


def test_error_rates_belong_to_the_detector_that_made_the_regions(tmp_path: Path) -> None:
    """A table that was copied beside other weights, or changed, keeps no rate of the shipped detector."""
    shipped = load_detector("region-detector").noun_calibration  # type: ignore[attr-defined]
    same = own_detector(tmp_path / "same")
    assert same.noun_calibration == shipped
    curve = {"slope": 2.0, "offset": 1.0, "threshold": 0.9}
    changed = own_detector(tmp_path / "changed", absent=curve)
    assert changed.noun_calibration is not None
    assert changed.noun_calibration.threshold == 0.9  # its own table judges, not the shipped one
    assert error_note(changed.noun_calibration) == NO_RATE
    assert error_rates(changed.noun_calibration) is None
    other = own_detector(tmp_path / "other")
    next(iter(other.network.class_scores.parameters())).data.add_(1)
    assert error_note(other.noun_calibration) == NO_RATE
    assert error_note(load_detector("region-detector?threshold=0.6").noun_calibration) == NO_RATE  # type: ignore[attr-defined]


def test_verdicts_of_an_own_detector_follow_its_own_table(tmp_path: Path) -> None:
    never = own_detector(tmp_path / "never", absent={"slope": 1.0, "offset": 0.0, "threshold": 2.0})
    image = Image.fromarray(photographs.astronaut())
    found = ground("transformer", image, "attention", regions=never, caption="a dog on a motorcycle")
    assert Verdict.NOT_IN_IMAGE not in {noun.verdict for noun in found.nouns}
    assert NO_RATE in found.view().notes
    assert found.to_dict()["error_rates"] is None
    shipped = ground("transformer", image, "attention", caption="a dog on a motorcycle")
    assert Verdict.NOT_IN_IMAGE in {noun.verdict for noun in shipped.nouns}
    document = shipped.to_dict()
    assert document["error_rates_by_eye"]["not in the image"]["error"] > 0
    dog = document["words"][1]
    assert dog["verdict"] == "not in the image"
    assert dog["error_by_eye"] == document["error_rates_by_eye"]["not in the image, things"]["error"]
    assert shipped.view().marks[1].error == dog["error_by_eye"]
    assert document["words"][0]["error_by_eye"] is None


def test_kept_regions_are_those_of_the_presence_weights(tmp_path: Path) -> None:
    """Log-odds made with other weights of the nouns are not reused."""
    Image.fromarray(photographs.astronaut()).save(tmp_path / "a.png")
    samples = [Sample(ImageRef("a", tmp_path / "a.png"))]
    folder, keep = tmp_path / "detector", tmp_path / "regions.jsonl"
    detect_regions(samples, own_detector(folder), keep)
    detect_regions(samples, RegionDetector.from_pretrained(folder, threshold=0.3), keep)  # the same again
    weights = load_file(folder / WEIGHTS)
    save_file({name: value + 1 for name, value in weights.items()}, folder / WEIGHTS)
    with pytest.raises(MismatchError, match="another detector"):
        detect_regions(samples, RegionDetector.from_pretrained(folder, threshold=0.3), keep)


def test_the_shipped_detector_tells_a_person_from_a_motorcycle() -> None:
    detector = load_detector("region-detector")
    _, odds = detector.detect_nouns(Image.fromarray(photographs.astronaut()))  # type: ignore[attr-defined]
    presence = CalibratedPresence(odds, detector.noun_calibration)  # type: ignore[attr-defined]
    assert (presence.absent("woman") or 0) < presence.threshold
    assert (presence.absent("motorcycle") or 0) >= presence.threshold
