from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captrial.metrics.meteor.stem import stem

# One word or more for each rule of the algorithm; agreement with the jar on whole vocabularies is a parity test.
STEMS = {
    "by": "by",
    "skies": "sky",
    "dying": "die",
    "news": "news",
    "inning": "inning",
    "youth": "youth",
    "sayings": "say",
    "dog's": "dog",
    "dogs'": "dog",
    "classes": "class",
    "ties": "tie",
    "cried": "cri",
    "gas": "gas",
    "gaps": "gap",
    "bus": "bus",
    "agreed": "agre",
    "feed": "feed",
    "luxuriated": "luxuri",
    "hopping": "hop",
    "hoping": "hope",
    "sing": "sing",
    "happy": "happi",
    "say": "say",
    "relational": "relat",
    "conditional": "condit",
    "analogi": "analog",
    "quickly": "quick",
    "electrical": "electr",
    "hopeful": "hope",
    "formative": "format",
    "adoption": "adopt",
    "adjustment": "adjust",
    "controlling": "control",
    "generation": "generat",
    "communities": "communiti",
    "arsenal": "arsenal",
    "rate": "rate",
    "cease": "ceas",
    "'tis": "tis",
    "café": "café",
}


@pytest.mark.parametrize(("word", "expected"), STEMS.items())
def test_known_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


@given(st.text(alphabet="abcdeilnostuyz'é", max_size=15))
def test_never_longer_by_more_than_an_e(word: str) -> None:
    assert len(stem(word)) <= len(word) + 1
    assert stem(word) == stem(word).lower()
