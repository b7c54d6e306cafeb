"""Whatever the captions are: no crash, no NaN where a value is promised, and every metric within its bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captrial.metrics import score

FAST = ["bleu", "rouge", "cider", "cider_plain", "repetition", "statistics"]
BOUNDS = {"nw": (-1, 1), "cider": (0, 10), "cider_plain": (0, 10), "length": (0, math.inf), "vocabulary": (0, math.inf)}
LEFT_OUT = {"coverage", "chair_i"}  # may have no value for an image

ODD = st.sampled_from(
    [
        "",
        " ",
        "\n\t",
        "dog",
        "🐶",
        "👩‍👩‍👧‍👦 🏳️‍🌈",
        "כלב רץ על הדשא",
        "كلب يركض",
        "a\u200bb",
        "\u202edog\u202c",
        "e\u0301" * 5,
        "\x00",
        "\ud83d",
        "犬が走る",
    ]
)
TEXT = st.one_of(
    ODD, st.text(max_size=60), st.lists(st.sampled_from(["a", "dog", "!", "'s", "$1.50"]), max_size=20).map(" ".join)
)
IMAGES = st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=5)
SLACK = 1e-9


def check(images: list[tuple[str, list[str]]], metrics: list[str], **options: object) -> None:
    table = score([said for said, _ in images], [refs for _, refs in images], metrics=metrics, **options)  # type: ignore[arg-type]
    for column, scores in table.scores["system"].items():
        low, high = BOUNDS.get(column, (0, 1))
        values = np.append(scores.per_image, scores.corpus)
        if column in LEFT_OUT:
            values = values[~np.isnan(values)]
        assert not np.isnan(values).any(), column
        assert (values >= low - SLACK).all(), column
        assert (values <= high + SLACK).all(), column


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(IMAGES)
def test_any_text(images: list[tuple[str, list[str]]]) -> None:
    check(images, FAST)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(IMAGES)
def test_any_text_with_nouns_and_graphs(images: list[tuple[str, list[str]]]) -> None:
    check(images, ["nw", "coverage", "noun_iou", "chair", "spice", "meteor"], objects={"0": ["dog"]})


@pytest.mark.parametrize("words", ["dog ", "dog cat runs on the very green grass ", "🐶 ", "כלב "])
def test_ten_thousand_words(words: str) -> None:
    long = words * (10_000 // len(words.split()))
    check([(long, ["a dog"]), ("a dog", [long, "dogs"]), (long, [long])], FAST)


@pytest.mark.slow
def test_ten_thousand_words_of_nouns() -> None:
    long = "dog cat runs on the very green grass " * (10_000 // 8)
    check([(long, ["a dog", ""]), ("a dog", [long]), (long, [long])], ["nw", "coverage", "noun_iou", "spice", "meteor"])


def test_one_word_captions() -> None:
    check([("dog", ["dog"]), ("dog", ["cat"]), ("cat", ["cat", "dog"])], FAST)
