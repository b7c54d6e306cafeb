"""The registry, and what every metric in it promises: shards merge, order does not matter, statistics add up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captrial.cli.app import app
from captrial.engines.jobs.score import score_all
from captrial.engines.local import LocalEngine
from captrial.errors import InputError
from captrial.metrics import Corpus, MeanState, Scores, score
from captrial.metrics.registry import (
    ENCODER,
    METRICS,
    Metric,
    MetricOptions,
    choose_metrics,
    column_title,
    markdown_table,
    register,
    registered,
)

SUBJECTS = ["a man", "two dogs", "a young woman", "the red bus", "a cat", "three black horses"]
VERBS = ["rides", "is standing on", "sits near", "runs past", "looks at", "plays with"]
PLACES = ["a wooden table", "the green grass", "a street", "a large beach", "the couch in a room", ""]
OPTIONS = MetricOptions(objects={str(i): ["person", "dog"] for i in range(0, 40, 3)}, training=["a man rides a street"])
JUDGED = [metric for metric in METRICS.values() if metric.name != "clip"]  # CLIPScore needs images; see its own test


def cases(metrics: list[Metric]) -> list[Any]:
    """The metrics as parameters of a test; those with a sentence encoder say that they need it."""
    marks = [[pytest.mark.needs("minilm")] if ENCODER in metric.needs else [] for metric in metrics]
    return [pytest.param(metric, marks=own, id=metric.name) for metric, own in zip(metrics, marks, strict=True)]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    rng = np.random.default_rng(0)

    def sentence() -> str:
        return " ".join(rng.choice(words) for words in (SUBJECTS, VERBS, PLACES)).strip()

    candidates = [sentence() for _ in range(40)]
    candidates[7] = ""
    candidates[11] = "dog dog dog dog"
    references = [[sentence() for _ in range(rng.integers(1, 5))] for _ in range(40)]
    return Corpus([str(i) for i in range(40)], candidates, references)


def flat(scores: Scores) -> dict[str, Scores]:
    return {score.name: score for score in scores.flat()}


def assert_equal(first: Scores, second: Scores, order: Any = slice(None)) -> None:
    one, other = flat(first), flat(second)
    assert list(one) == list(other)
    for name in one:
        assert one[name].corpus == pytest.approx(other[name].corpus, abs=1e-12, nan_ok=True), name
        np.testing.assert_allclose(one[name].per_image, other[name].per_image[order], atol=1e-12, err_msg=name)


@pytest.mark.slow  # SPICE and METEOR load their tables
@pytest.mark.parametrize("metric", cases(JUDGED))
def test_ten_shards_merge(metric: Metric, corpus: Corpus) -> None:
    states: list[Any] = [
        metric.state(corpus.select(part), OPTIONS) for part in np.array_split(np.arange(len(corpus)), 10)
    ]
    assert_equal(type(states[0]).merge(states).scores(), metric.state(corpus, OPTIONS).scores())


@pytest.mark.slow  # SPICE and METEOR load their tables
@pytest.mark.parametrize("metric", cases(JUDGED))
def test_the_order_of_images_is_nothing(metric: Metric, corpus: Corpus) -> None:
    order = np.random.default_rng(1).permutation(len(corpus))
    shuffled = metric.state(corpus.select(order), OPTIONS).scores()
    whole = metric.state(corpus, OPTIONS).scores()
    assert_equal(shuffled, whole, order)


@pytest.mark.slow  # SPICE and METEOR load their tables
@pytest.mark.parametrize("metric", cases(JUDGED))
def test_statistics_add_up_to_the_corpus_score(metric: Metric, corpus: Corpus) -> None:
    state = metric.state(corpus, OPTIONS)
    statistics = state.statistics()
    assert statistics.shape[0] == len(corpus)
    values = state.corpus_scores(statistics.sum(axis=0))
    expected = flat(state.scores())
    assert set(values) <= set(expected)
    assert values.keys() | {"vocabulary", "distinct"} >= set(metric.columns) & set(expected)
    for name, value in values.items():
        assert float(value) == pytest.approx(expected[name].corpus, abs=1e-12, nan_ok=True)
    together = state.corpus_scores(np.stack([statistics.sum(axis=0), 2 * statistics.sum(axis=0)]))
    for name, pair in together.items():
        assert pair.shape == (2,), name


@pytest.mark.slow
@pytest.mark.parametrize("metric", cases([metric for metric in JUDGED if metric.better]))
def test_a_copy_of_a_reference_is_judged_better_than_another_images_caption(metric: Metric, corpus: Corpus) -> None:
    copies = [references[0] for references in corpus.references]
    strangers = [*copies[1:], copies[0]]
    values = []
    options = (
        OPTIONS if metric.name == "chair" else MetricOptions()
    )  # Coverage of the references' nouns, not of objects
    for said in (copies, strangers):
        scores = flat(metric.state(Corpus(corpus.ids, said, corpus.references), options).scores())
        values.append(scores[metric.columns[0]].corpus)
    if metric.name == "repetition":
        assert values == [0, 0]
    else:
        assert (values[0] > values[1]) == (metric.better == "higher")


@pytest.mark.slow
@pytest.mark.parametrize("metric", cases([metric for metric in JUDGED if metric.additive]))
def test_a_state_is_restored_from_its_statistics(metric: Metric, corpus: Corpus) -> None:
    state = metric.state(corpus, OPTIONS)
    like = metric.state(corpus.select([0]), OPTIONS)
    if not metric.name.startswith("cider"):  # its document frequencies are those of its own images
        assert_equal(like.with_statistics(state.statistics()).scores(), state.scores())
    assert_equal(state.with_statistics(state.statistics()).scores(), state.scores())


class ExclamationState(MeanState):
    """A metric of one's own: whether a caption ends in an exclamation mark."""

    @classmethod
    def of(cls, corpus: Corpus) -> ExclamationState:
        captions, _ = corpus.as_written
        return cls({"exclamations": np.array([text.endswith("!") for text in captions], dtype=float)})


EXCLAMATIONS = Metric(
    "exclamations",
    "Exclamations",
    "share of captions that end in an exclamation mark",
    ("exclamations",),
    lambda corpus, _: ExclamationState.of(corpus),
    better="lower",
)


def test_a_new_metric_needs_nothing_but_its_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions = {"1": "a dog runs!", "2": "a cat sleeps"}
    references = {"1": ["a dog runs fast"], "2": ["a cat is asleep"]}
    files = {"system": tmp_path / "system.json", "references": tmp_path / "references.json"}
    files["system"].write_text(json.dumps(captions))
    files["references"].write_text(json.dumps(references))
    expected = {"system": {"exclamations": 0.5}}
    with registered(EXCLAMATIONS):
        assert score(captions, references, ["exclamations"]).to_dict() == expected
        table = score_all({"system": captions}, references, ["exclamations"], LocalEngine(), tmp_path / "work")
        assert table.to_dict() == expected
        assert table.better("exclamations") == "lower"
        arguments = ["score", str(files["system"]), "--references", str(files["references"])]
        app([*arguments, "--metrics", "exclamations", "--json"], standalone_mode=False)
        assert json.loads(capsys.readouterr().out) == expected
        app(["score", "--list-metrics"], standalone_mode=False)
        assert "Exclamations: share of captions" in capsys.readouterr().out
        with pytest.raises(InputError, match="there is already a metric 'exclamations'"):
            register(EXCLAMATIONS)
    with pytest.raises(InputError, match="no metric 'exclamations'; there are bleu"):
        score(captions, references, ["exclamations"])


def test_the_documentation_shows_the_registry() -> None:
    assert markdown_table() in (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()


def test_every_column_has_a_title_of_its_own() -> None:
    columns = [column for metric in METRICS.values() for column in metric.columns]
    titles = [column_title(column) for column in columns]
    assert len(set(titles)) == len(titles)
    assert not set(titles) & set(columns)
    assert all(set(metric.titles) <= set(metric.columns) for metric in METRICS.values())


def test_metrics_are_named_as_papers_print_them() -> None:
    assert [column_title(name) for name in ("cider", "spice", "rouge_l", "bleu_4", "nw")] == [
        "CIDEr",
        "SPICE",
        "ROUGE-L",
        "BLEU-4",
        "NW",
    ]


def test_abbreviations_of_papers_are_understood() -> None:
    columns = [choose_metrics([name], MetricOptions())[0].columns for name in ("B@4", "B-1", "Bleu 2")]
    assert columns == [("bleu_4",), ("bleu_1",), ("bleu_2",)]
    with pytest.raises(InputError, match="--match tokens"):
        choose_metrics(["BERTScore"], MetricOptions())
    with pytest.raises(InputError, match=r"'RefPAC-S': .*--clip 'FOLDER\?weight=2'"):
        choose_metrics(["RefPAC-S"], MetricOptions())
    for name in ("CLIP-S", "RefCLIP-S"):  # found; only its checkpoint is missing
        with pytest.raises(InputError, match=r"'clip' .*--clip"):
            choose_metrics([name], MetricOptions())
