"""`captrial.score`: several systems, chosen metrics, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import captrial
from captrial.errors import InputError
from captrial.metrics import Corpus, score
from captrial.metrics.registry import METRICS, MetricOptions, choose_metrics

REFERENCES = {"1": ["a man rides a horse", "a person on a horse"], "2": ["a cat sleeps"], "3": ["two dogs run"]}
GOOD = {"1": "a man rides a horse", "2": "a cat sleeps", "3": "dogs run"}
BAD = {"1": "a a a a", "2": "the", "3": ""}
NGRAM = ["bleu", "rouge", "cider"]


def test_one_system() -> None:
    table = captrial.score(GOOD, REFERENCES, metrics=NGRAM)
    assert list(table.to_dict()) == ["system"]
    assert table.columns == ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider"]
    assert all(0 <= value <= 10 for value in table.to_dict()["system"].values() if value is not None)


def test_several_systems_with_intervals_and_tests() -> None:
    table = score({"good": GOOD, "bad": BAD}, REFERENCES, metrics=NGRAM)
    intervals = table.intervals(replicates=200)
    for column in table.columns:
        value = table.scores["good"][column].corpus
        assert intervals["good"][column].low - 1e-9 <= value <= intervals["good"][column].high + 1e-9
        assert value > table.scores["bad"][column].corpus
    rows = table.compare(replicates=200)
    assert {row.metric for row in rows} == set(table.columns)
    assert all(row.difference > 0 for row in rows)


def test_a_column_can_be_asked_for_alone() -> None:
    assert score(GOOD, REFERENCES, metrics=["bleu_4", "ROUGE_L", "bleu_1"]).columns == ["bleu_4", "bleu_1", "rouge_l"]


def test_per_image_table(tmp_path: Path) -> None:
    table = score({"good": GOOD, "bad": BAD}, REFERENCES, metrics=["bleu", "chair"], objects={"1": ["horse"]})
    table.write_per_image(tmp_path / "scores.parquet")
    written = pq.read_table(tmp_path / "scores.parquet")
    assert written.column_names == ["system", "image_id", *table.columns]
    assert written["system"].to_pylist() == ["good"] * 3 + ["bad"] * 3
    assert written["image_id"].to_pylist() == ["1", "2", "3"] * 2
    assert written["chair_i"].to_pylist()[-1] is None  # the empty caption mentions no object
    np.testing.assert_allclose(written["bleu_4"].to_numpy()[:3], table.scores["good"]["bleu_4"].per_image)


def test_corpora_are_taken_as_they_are() -> None:
    corpus = Corpus.prepare(GOOD, REFERENCES)
    first = score(corpus, metrics=["cider"]).to_dict()["system"]
    assert score({"x": corpus}, metrics=["cider"]).to_dict()["x"] == first
    assert score(GOOD, REFERENCES, metrics=["cider"]).to_dict()["system"] == first


def test_mistakes() -> None:
    with pytest.raises(InputError, match="no metric 'blue'; there are bleu, rouge"):
        score(GOOD, REFERENCES, metrics=["blue"])
    with pytest.raises(InputError, match="needs the objects"):
        score(GOOD, REFERENCES, metrics=["chair"])
    with pytest.raises(InputError, match="needs images"):
        score(GOOD, REFERENCES, metrics=["clip"])
    with pytest.raises(InputError, match="no novelty with what it was given; it has vocabulary, distinct, length"):
        print(score(GOOD, REFERENCES, metrics=["bleu", "novelty"]).columns)
    with pytest.raises(InputError, match="no system"):
        score({}, REFERENCES)
    with pytest.raises(InputError, match="good: image id '3'"):
        score({"good": {"1": "a", "2": "b"}}, REFERENCES, metrics=NGRAM)


def test_default_metrics_are_those_that_can_be_had() -> None:
    names = [metric.name for metric in choose_metrics(None, MetricOptions())]
    assert names[:3] == NGRAM
    assert "chair" not in names
    assert "chair" in [metric.name for metric in choose_metrics(None, MetricOptions(objects={}))]


@pytest.mark.parametrize("name", [name for name in METRICS if name not in {"clip", "meteor", "spice"}])
def test_every_metric_has_the_columns_it_promises(name: str) -> None:
    table = score(GOOD, REFERENCES, metrics=[name], objects={"1": ["horse"]}, training=["a cat sleeps"])
    assert set(table.columns) == set(METRICS[name].columns)
    for column, scores in table.scores["system"].items():
        assert scores.per_image.shape == (3,), column
        assert scores.name == column


def test_repr_is_short() -> None:
    """A notebook shows systems and metrics, not every caption."""
    captions = {str(number): f"a caption number {number} of a dog" for number in range(500)}
    table = score({"ours": captions, "theirs": captions}, {name: [text] for name, text in captions.items()}, ["bleu"])
    assert repr(table).splitlines()[0] == "ScoreTable"
    assert len(repr(table)) < 500  # the captions in its states are not printed
