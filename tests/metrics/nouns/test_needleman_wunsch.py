"""NW, Coverage, noun IoU, CHAIR on given nouns and similarities: golden values, plain reference code, edges."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.metrics.ngram_counts import TokenArrays
from captrial.metrics.nouns.chair import ChairState
from captrial.metrics.nouns.coverage import CoverageState
from captrial.metrics.nouns.needleman_wunsch import NwState, nw, nw_scores
from captrial.metrics.nouns.noun_iou import NounIouState
from metrics.example_corpora import GIVEN, GivenSimilarity, noun_corpus


@pytest.mark.parametrize(
    ("said", "reference", "expected"),
    [
        ("man horse beach", "man horse beach", 1.0),
        ("man horse beach", "person horse", 1 / 6),
        ("man horse", "horse man", 0.0),
        ("", "", 0.0),
        ("man", "", -1.0),
        ("", "man horse", -1.0),
    ],
)
def test_nw_golden_values(said: str, reference: str, expected: float) -> None:
    scores = nw(noun_corpus([(said, [reference])]), similarity=GivenSimilarity(GIVEN))
    assert scores.corpus == pytest.approx(expected, abs=1e-12)


def test_nw_over_references() -> None:
    corpus = noun_corpus([("man horse", ["man horse", "horse man"]), ("man", ["man"])])
    np.testing.assert_allclose(nw(corpus, similarity=GivenSimilarity(GIVEN)).per_image, [0.5, 1.0])
    np.testing.assert_allclose(nw(corpus, similarity=GivenSimilarity(GIVEN), over="max").per_image, [1.0, 1.0])


def plain_nw(first: list[str], second: list[str], similarity: GivenSimilarity) -> float:
    """The textbook's table, cell by cell."""
    match = similarity.matrix(first, second) if first and second else None
    table = np.zeros((len(first) + 1, len(second) + 1))
    table[:, 0], table[0] = -np.arange(len(first) + 1), -np.arange(len(second) + 1)
    for i in range(1, len(first) + 1):
        for j in range(1, len(second) + 1):
            steps = (table[i - 1, j - 1] + match[i - 1, j - 1], table[i - 1, j] - 1, table[i, j - 1] - 1)
            table[i, j] = max(steps)
    return float(table[-1, -1]) / max(len(first), len(second), 1)


SOME = st.lists(st.sampled_from("abcdefg"), max_size=9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SOME, SOME), min_size=1, max_size=12), st.integers(0, 10**6), st.booleans())
def test_nw_equals_the_plain_table(pairs: list[tuple[list[str], list[str]]], seed: int, batched: bool) -> None:
    rng = np.random.default_rng(seed)
    table = {frozenset(pair): float(rng.uniform(-1, 1)) for pair in permutations("abcdefg", 2)}
    similarity = GivenSimilarity(table)
    lists = [*(first for first, _ in pairs), *(second for _, second in pairs)]
    numbers = np.arange(len(pairs))
    with pytest.MonkeyPatch.context() as patch:
        if batched:
            patch.setattr(import_module("captrial.metrics.nouns.needleman_wunsch"), "CELLS", 7)
        ours = nw_scores(TokenArrays.of_words(lists), numbers, numbers + len(pairs), similarity)
    np.testing.assert_allclose(ours, [plain_nw(*pair, similarity) for pair in pairs], atol=1e-12)


def words_as_classes(texts: Sequence[str]) -> list[list[str]]:
    return [[word for word in text.split() if word in {"dog", "cat", "car"}] for text in texts]


@pytest.mark.parametrize("state", [NwState, CoverageState, NounIouState, ChairState])
def test_shards_merge(state: type[NwState]) -> None:
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(["dog", "cat", "car", "man"], rng.integers(0, 5)))

    rows = [(text(), [text() for _ in range(rng.integers(1, 4))]) for _ in range(23)]
    whole = noun_corpus(rows)
    options: dict[str, object] = {"similarity": GivenSimilarity(GIVEN)}
    if state is ChairState:
        options = {"objects": {str(i): ["dog"] for i in range(0, 23, 2)}, "classes": words_as_classes}
    shards = []
    for part in np.array_split(np.arange(23), 5):
        shard = whole.select(part)
        shard.__dict__["noun_lists"] = [text.split() for text in shard.texts]
        shards.append(state.of(shard, **options))
    merged, once = state.merge(shards).scores(), state.of(whole, **options).scores()
    np.testing.assert_allclose(merged.per_image, once.per_image, atol=1e-12)
    assert merged.corpus == pytest.approx(once.corpus, abs=1e-12)
