from __future__ import annotations

import numpy as np
import pytest

from captrial.errors import InputError
from captrial.metrics import MeanState
from captrial.metrics.ngram.bleu import BleuState
from captrial.metrics.ngram.cider import CiderState
from captrial.metrics.significance.paired import compare, holm
from metrics.example_corpora import noisy_corpus


def test_a_better_system_is_found_better_and_an_equal_one_is_not() -> None:
    corpora = {"good": noisy_corpus(150, 0.2), "bad": noisy_corpus(150, 0.5), "same": noisy_corpus(150, 0.2)}
    states = {name: {"bleu": BleuState.of(corpus), "cider": CiderState.of(corpus)} for name, corpus in corpora.items()}
    found = {(row.metric, row.first, row.second): row for row in compare(states, replicates=1000)}
    assert len(found) == 3 * 5  # pairs x (bleu_1..4, cider)
    for metric in ("bleu_4", "cider"):
        clear = found[metric, "good", "bad"]
        assert clear.difference > 0 < clear.interval.low
        assert clear.bootstrap_p < 0.01 > clear.permutation_p
        equal = found[metric, "good", "same"]
        assert equal.difference == 0
        assert equal.bootstrap_p == equal.permutation_p == 1.0


def test_permutation_is_exact_on_a_case_that_can_be_counted() -> None:
    one, other = MeanState({"m": np.array([1.0, 1.0, 1.0])}), MeanState({"m": np.zeros(3)})
    (found,) = compare({"a": {"m": one}, "b": {"m": other}}, replicates=4000)
    assert found.permutation_p == pytest.approx(2 / 8, abs=0.03)  # all or none exchanged, of 8


def test_false_claims_are_as_rare_as_promised() -> None:
    claims = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        states = {name: {"m": MeanState({"m": rng.normal(size=60)})} for name in "ab"}
        claims += compare(states, replicates=200, seed=seed)[0].permutation_p < 0.05
    assert claims <= 12  # 5 expected; 13 or more has a chance below 0.1%


def test_holm() -> None:
    assert holm([0.04, 0.01, 0.6]) == pytest.approx([0.08, 0.03, 0.6])
    assert holm([]) == []


def test_different_images_are_refused() -> None:
    states = {"a": {"m": MeanState({"m": np.zeros(3)})}, "b": {"m": MeanState({"m": np.zeros(4)})}}
    with pytest.raises(InputError, match="same images"):
        compare(states)
