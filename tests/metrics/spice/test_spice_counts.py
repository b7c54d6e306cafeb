from __future__ import annotations

import numpy as np

from captrial.metrics.spice import CATEGORIES, counts_of_tuples, f_scores

NAMES = list(CATEGORIES)


def scores(candidate: list[tuple[str, ...]], *references: list[tuple[str, ...]]) -> dict[str, float]:
    return dict(zip(NAMES, f_scores(counts_of_tuples([candidate], [references]))[0], strict=True))


def test_f_by_kind_of_tuple() -> None:
    candidate = [("man", "horse", "ride"), ("horse", "brown"), ("man",), ("horse",)]
    reference = [("man", "horse", "ride"), ("horse", "black"), ("man", "two"), ("man",)]
    found = scores(candidate, reference)
    assert found["object"] == found["relation"] == 1.0
    assert found["attribute"] == found["color"] == found["count"] == 0.0
    assert found["all"] == 2 * 3 / (4 + 5)
    assert np.isnan(found["size"])


def test_references_share_one_graph() -> None:
    assert scores([("man",)], [("man",)], [("man",), ("dog",)])["all"] == 2 / 3


def test_several_candidate_tuples_may_match_one_reference_tuple() -> None:
    """Both objects of the candidate touch the one merged object of the references; F stays <= 1."""
    counts = counts_of_tuples([[("couch",), ("waiting_room",)]], [[[("couch",), ("lounge",), ("waiting_room",)]]])
    assert counts[0, 0].tolist() == [2, 2, 1]
    assert f_scores(counts)[0, 0] == 1.0


def test_a_merged_attribute_is_in_no_word_list() -> None:
    counts = counts_of_tuples([[("car", "red")]], [[[("car", "red"), ("car", "crimson")]]])
    colour = NAMES.index("color")
    assert counts[0, NAMES.index("attribute")].tolist() == [1, 1, 1]
    assert counts[0, colour].tolist() == [0, 1, 0]


def test_nothing_said_scores_nothing() -> None:
    assert scores([], [("man",)])["all"] == 0.0
    assert scores([("man",)], [])["all"] == 0.0
    assert np.isnan(scores([("man",)], [])["object"])
    assert counts_of_tuples([], []).shape == (0, 7, 3)


def test_without_synonyms() -> None:
    couch, sofa = [[("couch",)]], [[[("sofa",)]]]
    assert f_scores(counts_of_tuples(couch, sofa))[0, 0] == 1.0
    assert f_scores(counts_of_tuples(couch, sofa, synonyms=False))[0, 0] == 0.0
