"""Rules that turn scores of elements into one score a region."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.attribution import region_rules
from captrial.attribution.attribution import region_scores, tile, top_labels
from captrial.attribution.region_rules import REGION_RULES, RegionRule, region_rule
from captrial.errors import InputError
from captrial.records import Box, Region

CELLS = tile(4, 4)
SMALL, LARGE, APART = [0.0, 0.0, 0.25, 0.25], [0.0, 0.0, 1.0, 0.5], [0.75, 0.75, 1.0, 1.0]
BOXES = np.array([SMALL, LARGE, APART])


def scores(**cells: float) -> np.ndarray:
    """One word whose scores are 0.01 but in some cells: `c5=1`."""
    row = np.full((1, 16), 0.01)
    for name, value in cells.items():
        row[0, int(name[1:])] = value
    return row


def test_the_rules_of_one_map_worked_out_by_hand() -> None:
    found = {name: region_scores(scores(c0=1.0), CELLS, BOXES, name)[0] for name in REGION_RULES}
    assert found["mean"] == pytest.approx([1.0, 1.07 / 8, 0.01])
    assert found["sum"] == pytest.approx([1.0, 1.07, 0.01])
    assert found["area"] == pytest.approx([1.0, 1.07 / 8**0.75, 0.01])
    assert found["peak"].argmax() == 0
    assert [name for name in found if found[name].argmax() == 1] == ["sum"]  # only the sum prefers the large box


def test_a_spread_map_belongs_to_the_large_box_by_area_and_to_a_bright_corner_by_mean() -> None:
    spread = scores(**{f"c{number}": 1.0 for number in range(8)})
    spread[0, 0] = 1.2
    assert region_scores(spread, CELLS, BOXES, "mean").argmax() == 0
    assert region_scores(spread, CELLS, BOXES, "area").argmax() == 1


def test_contrast_is_what_the_other_words_do_not_have() -> None:
    words = np.concatenate([scores(c0=1.0, c15=0.9), scores(c0=1.0), scores(c0=1.0)])
    assert region_scores(words, CELLS, BOXES, "area")[0].argmax() == 0
    assert region_scores(words, CELLS, BOXES, "contrast")[0].argmax() == 2


def test_peak_outside_every_region_takes_the_nearest_part() -> None:
    assert region_scores(scores(c9=1.0), CELLS, BOXES, "peak")[0].tolist() == [0, 0, 0]
    half = np.array([[0.3, 0.5, 0.4, 0.75], APART])
    assert region_scores(scores(c9=1.0), CELLS, half, "peak")[0].argmax() == 0


@pytest.mark.parametrize("rule", [name for name in REGION_RULES if name != "certain"])
def test_a_region_that_is_an_element_has_its_score_by_these_rules(rule: str) -> None:
    found = region_scores(np.array([[3.0, 1.0, 2.0]]), BOXES, BOXES, rule)
    assert (found / found.max()).tolist() == [[1.0, 1 / 3, 2 / 3]]


def test_contrast_of_elements_that_are_the_regions() -> None:
    """Every word has most of the first region; only by contrast is the second word's top region the second."""
    words = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.8, 0.1, 0.1]])
    assert region_scores(words, BOXES, BOXES, "area").argmax(1).tolist() == [0, 0, 0]
    assert region_scores(words, BOXES, BOXES, "contrast")[1].argmax() == 1
    assert region_scores(words, BOXES, BOXES[::-1], "contrast")[1].argmax() == 1  # in another order
    assert region_scores(words, BOXES, BOXES[1:], "contrast")[1].argmax() == 0  # the first has no label


@pytest.mark.parametrize("rule", REGION_RULES)
def test_rules_are_finite_without_elements_regions_or_weight(rule: str) -> None:
    assert region_scores(np.zeros((2, 0)), np.zeros((0, 4)), BOXES, rule).shape == (2, 3)
    assert region_scores(np.zeros((2, 16)), CELLS, np.zeros((0, 4)), rule).shape == (2, 0)
    assert np.isfinite(region_scores(np.zeros((2, 16)), CELLS, BOXES, rule)).all()


def test_a_rule_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RegionRule("least", "Least", "the least weight", lambda scores, shares: -(scores @ shares.T))
    monkeypatch.setitem(region_rules.REGION_RULES, "least", rule)
    regions = [Region(Box(*(10 * np.array(box))), name) for box, name in ((SMALL, "dog"), (APART, "cat"))]
    assert top_labels(scores(c0=1.0), CELLS, regions, (10, 10), "least") == ["cat"]


def test_an_unknown_rule_lists_the_known() -> None:
    with pytest.raises(InputError, match="no rule 'biggest' for the top region; there are: mean, sum, area, peak"):
        region_rule("biggest")


def test_certain_regions_win_over_doubtful_ones() -> None:
    """Of two regions with the same cells the one with the better score; of a detector's regions also what overlaps."""
    twice, sure = np.array([SMALL, SMALL]), np.array([0.2, 0.9])
    assert region_scores(scores(c0=1.0), CELLS, twice, "certain", certainty=sure)[0].argmax() == 1
    assert region_scores(scores(c0=1.0), CELLS, twice, "area", certainty=sure)[0].argmax() == 0
    alike = np.array([[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], APART])
    words = np.array([[0.3, 0.3, 0.4]])
    found = region_scores(words, alike, alike, "certain", certainty=np.array([0.5, 0.6, 0.6]))
    assert found[0] == pytest.approx([0.3, 0.36, 0.24])
    assert region_scores(words, alike, alike, "area").argmax() == 2
    named = zip(alike, "abc", (0.5, 0.6, 0.6), strict=True)
    regions = [Region(Box(*(10 * box)), name, score) for box, name, score in named]
    assert top_labels(words, alike, regions, (10, 10), "certain") == ["b"]
