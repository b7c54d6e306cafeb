"""Annotation statistics, classes and outcomes."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.compete.analysis.statistics import (
    annotation_statistics,
    class_distribution,
    pair_outcomes,
    right_threshold,
)
from captrial.compete.ranking.pair_scores import PairScorer, PairwiseScores


def test_table_2() -> None:
    found = annotation_statistics([["a b c", "a b"], ["a b c d e f g"]])
    assert found is not None
    assert (found.images, found.refs, found.words) == (2, 1.5, 4.0)
    assert (found.max_refs, found.min_refs, found.max_words, found.min_words) == (2, 1, 7, 2)
    assert annotation_statistics([]) is None


def test_classes_and_pair_outcomes(scorer: PairScorer) -> None:
    assert class_distribution(["dog", "cat", "dog", None]) == {"dog": 2, "cat": 1}
    pairwise = scorer.score("cider")
    threshold = right_threshold(scorer, "cider").value
    assert threshold == pytest.approx(np.quantile(scorer.human_scores("cider"), 0.25))
    for found, pair in zip(pair_outcomes(pairwise, threshold), pairwise.pairs, strict=True):
        right = pair.per_image >= threshold
        scale = pair.wanted / len(pair.images)  # not all are labelled; those that are, with equal probability
        assert found.both == pytest.approx(scale * (right[:, 0] & right[:, 1]).sum())
        assert found.both + found.first + found.second + found.neither == pytest.approx(pair.wanted)


def test_outcomes_are_estimates_for_all_of_a_set_that_is_labelled_in_part() -> None:
    scores = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    labelled = {0: 1.0, 1: 1.0, 2: 0.5}  # the third stands for the other four
    found = PairwiseScores.of_scores("made", ["a", "b"], scores, {(0, 1): np.arange(6)}, labelled)
    (outcome,) = pair_outcomes(found, 0.5)
    assert (outcome.both, outcome.first, outcome.second, outcome.neither) == (0, 2, 4, 0)
