"""NGSM against its definition with exact fractions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.compete.selection.ngram_similarity import UNITS, CaptionBlock, compare, ngsm
from captrial.compete.selection.token_rows import TokenRows
from compete import exact_selection

# few words: repeats, shared n-grams and equal fractions everywhere
captions = st.lists(st.sampled_from(["a", "b", "c"]), max_size=9)


@settings(deadline=None)
@given(captions, captions)
def test_equals_the_definition(first: list[str], second: list[str]) -> None:
    assert ngsm(first, second) == exact_selection.key(first, second)


@settings(deadline=None)
@given(captions, captions)
def test_is_symmetric_and_bounded(first: list[str], second: list[str]) -> None:
    found = ngsm(first, second)
    assert found == ngsm(second, first)
    assert all(0 <= value <= 1 for value in found)
    assert ngsm(first, first) == (1, 1, 1, 1, 1)


def test_by_hand() -> None:
    found = ngsm(list("aab"), list("abba"))
    # unigrams: a a b | a a b b share 3 of 4; bigrams: aa ab | ab bb ba share 1 of 4; trigrams: none of 1 + 2
    assert found.n1 == 0.75
    assert found.n2 == 0.25
    assert found.n3 == 0
    assert found.s == 0


def test_short_captions_agree_where_neither_has_an_n_gram() -> None:
    assert ngsm(["dog"], ["dog"]) == (1, 1, 1, 1, 1)
    assert ngsm([], []) == (1, 1, 1, 1, 1)
    assert ngsm(["dog"], ["cat"]) == (0, 0, 1, 1, 1)
    assert ngsm([], ["cat"]) == (0, 0, 1, 1, 1)


@pytest.mark.parametrize("length", [70, 300])
def test_long_captions_need_wide_masks(length: int) -> None:
    generator = np.random.default_rng(length)
    words = [[f"w{number}" for number in generator.integers(0, 200, length)] for _ in range(2)]
    words[1][: length // 2] = words[0][: length // 2]
    assert ngsm(*words) == exact_selection.key(*words)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(captions, min_size=3, max_size=3), min_size=1, max_size=6), st.data())
def test_blocks_and_limits(images: list[list[list[str]]], data: st.DataObject) -> None:
    """A limit lets exactly the keys through that are not above it, for any part of the block."""
    numbers = {"a": 5, "b": 2**31 - 1, "c": 0}
    flat = [images[row][model] for model in range(3) for row in range(len(images))]
    rows = TokenRows(
        np.array([numbers[word] for caption in flat for word in caption], np.int32),
        np.concatenate([[0], np.cumsum([len(caption) for caption in flat])]).astype(np.int64),
    )
    pairs = list(itertools.combinations(range(3), 2))
    expected = {
        (pair, row): exact_selection.key(captions[i], captions[j])
        for pair, (i, j) in enumerate(pairs)
        for row, captions in enumerate(images)
    }
    limits = [data.draw(st.sampled_from(sorted(expected.values()))) for _ in pairs]
    start = data.draw(st.integers(0, len(images) - 1))
    units = np.array([[round(value * UNITS) for value in limit] for limit in limits], np.int64)
    found = compare(CaptionBlock(rows, 3, np.array(pairs, np.int32)), units, start=start)
    passed = {
        (int(pair), int(row)): tuple(values)
        for pair, row, values in zip(found.pairs, found.rows, (found.keys / UNITS).tolist(), strict=True)
    }
    assert passed == {
        place: value for place, value in expected.items() if value <= limits[place[0]] and place[1] >= start
    }
