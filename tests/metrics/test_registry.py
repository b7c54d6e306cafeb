"""What every metric promises, tried on every metric there is: shards merge, order is nothing, statistics add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from captrial.metrics import Corpus, Scores
from captrial.metrics.registry import ENTRIES, Entry, Options

pytestmark = pytest.mark.slow  # SPICE and METEOR load their tables

SUBJECTS = ["a man", "two dogs", "a young woman", "the red bus", "a cat", "three black horses"]
VERBS = ["rides", "is standing on", "sits near", "runs past", "looks at", "plays with"]
PLACES = ["a wooden table", "the green grass", "a street", "a large beach", "the couch in a room", ""]
OPTIONS = Options(objects={str(i): ["person", "dog"] for i in range(0, 40, 3)}, training=["a man rides a street"])
JUDGED = [entry for entry in ENTRIES.values() if entry.name != "clip"]  # CLIPScore needs images; see its own test


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


@pytest.mark.parametrize("entry", JUDGED, ids=lambda entry: entry.name)
def test_ten_shards_merge(entry: Entry, corpus: Corpus) -> None:
    states: list[Any] = [
        entry.state(corpus.select(part), OPTIONS) for part in np.array_split(np.arange(len(corpus)), 10)
    ]
    assert_equal(type(states[0]).merge(states).scores(), entry.state(corpus, OPTIONS).scores())


@pytest.mark.parametrize("entry", JUDGED, ids=lambda entry: entry.name)
def test_the_order_of_images_is_nothing(entry: Entry, corpus: Corpus) -> None:
    order = np.random.default_rng(1).permutation(len(corpus))
    shuffled = entry.state(corpus.select(order), OPTIONS).scores()
    whole = entry.state(corpus, OPTIONS).scores()
    assert_equal(shuffled, whole, order)


@pytest.mark.parametrize("entry", JUDGED, ids=lambda entry: entry.name)
def test_statistics_add_up_to_the_corpus_score(entry: Entry, corpus: Corpus) -> None:
    state = entry.state(corpus, OPTIONS)
    statistics = state.statistics()
    assert statistics.shape[0] == len(corpus)
    values = state.corpus_scores(statistics.sum(axis=0))
    expected = flat(state.scores())
    assert set(values) <= set(expected)
    assert values.keys() | {"vocabulary", "distinct"} >= set(entry.columns) & set(expected)
    for name, value in values.items():
        assert float(value) == pytest.approx(expected[name].corpus, abs=1e-12, nan_ok=True)
    together = state.corpus_scores(np.stack([statistics.sum(axis=0), 2 * statistics.sum(axis=0)]))
    for name, pair in together.items():
        assert pair.shape == (2,), name


@pytest.mark.parametrize("entry", [entry for entry in JUDGED if entry.better], ids=lambda entry: entry.name)
def test_a_copy_of_a_reference_is_judged_better_than_another_images_caption(entry: Entry, corpus: Corpus) -> None:
    copies = [references[0] for references in corpus.references]
    strangers = [*copies[1:], copies[0]]
    values = []
    options = OPTIONS if entry.name == "chair" else Options()  # Coverage of the references' nouns, not of objects
    for said in (copies, strangers):
        scores = flat(entry.state(Corpus(corpus.ids, said, corpus.references), options).scores())
        values.append(scores[entry.columns[0]].corpus)
    if entry.name == "repetition":
        assert values == [0, 0]
    else:
        assert (values[0] > values[1]) == (entry.better == "higher")
