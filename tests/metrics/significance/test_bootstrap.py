"""Bootstrap intervals and paired tests, on the corpus metric itself."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.metrics import MeanState
from captrial.metrics.ngram.bleu import BleuState
from captrial.metrics.significance.bootstrap import confidence_intervals, replicate_scores, resamples
from metrics.example_corpora import noisy_corpus


def test_replicates_are_bleu_of_the_resampled_corpus() -> None:
    corpus = noisy_corpus(30, 0.4)
    values = replicate_scores({"x": BleuState.of(corpus)}, replicates=5, seed=3)["x"]
    (weights,) = resamples(30, 5, seed=3)
    for row, value in zip(weights.astype(int), values["bleu_4"], strict=True):
        drawn = corpus.select(np.repeat(np.arange(30), row))
        assert value == pytest.approx(BleuState.of(drawn).scores().corpus, abs=1e-12)


def test_resamples_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(resamples(7, 20, seed=1)))
    monkeypatch.setattr("captrial.metrics.significance.bootstrap.CELLS", 15)
    np.testing.assert_array_equal(np.concatenate(list(resamples(7, 20, seed=1))), whole)
    assert (whole.sum(axis=1) == 7).all()


def test_interval_of_a_mean_is_the_normal_one_for_many_images() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.1, 2000)
    found = confidence_intervals(MeanState({"m": values}), replicates=2000)["m"]
    error = values.std() / np.sqrt(2000)
    assert found.standard_error == pytest.approx(error, rel=0.1)
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=1e-3
    )


def test_intervals_leave_out_what_has_no_value() -> None:
    values = np.array([1.0, np.nan, 1.0, np.nan])
    found = confidence_intervals(MeanState({"m": values}))["m"]
    assert (found.low, found.high) == (1.0, 1.0)
