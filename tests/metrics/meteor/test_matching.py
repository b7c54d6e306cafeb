from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captrial.metrics.meteor.matching import normalize

PREFIXES = {"Mr": False, "No": True, "e.g": False}

CASES = {
    "a man in a t-shirt": "a man in a t shirt",
    "close-up of a-b-c": "close up of a b-c",  # a substitution consumes what it matched
    "3/4 a&m 10:30": "3 / 4 a & m 10 : 30",
    "1,000 cats,dogs 3,x": "1,000 cats , dogs 3 , x",
    "isn't the man 's dog n't 5's": "isn 't the man ' s dog n 't 5 's",
    "it is `good' and ''fine''": "it is ' good ' and \" fine \"",
    "u.s. army": "us army",
    "wait... what": "wait ... what",
    "a dog. A cat.": "a dog . a cat .",
    "a dog. a cat": "a dog. a cat",  # no sentence ends before a lower-case word
    "Mr. Smith": "mr. smith",
    "No. 5": "no. 5",
    "No. X": "no . x",
    "a--b – c": "a b - c",
    "-lrb- x -rrb-": "-lrb- x -rrb-",
    "\u201cfine\u201d": '" fine "',
    "café\u00a0bar": "café bar",
    "snow_board": "snow _ board",
    "\x0b dog": "dog",
    "": "",
    " \t ": "",
}


@pytest.mark.parametrize(("line", "words"), CASES.items())
def test_follows_the_rules_in_order(line: str, words: str) -> None:
    assert " ".join(normalize(line, PREFIXES)) == words


@given(st.text(alphabet="abc019 ", max_size=30))
def test_short_cut_for_plain_captions_is_the_long_way(line: str) -> None:
    assert normalize(line, {}) == normalize(f"{line} %", {})[:-1]


@given(st.text(max_size=60))
def test_words_are_lower_case_without_blanks(line: str) -> None:
    for word in normalize(line, PREFIXES):
        assert word
        assert not set(word) & set(" \t\n\r\f\u00a0\u3000")
        assert not set(word) & set("ABCDEFGHIJKLMNOPQRSTUVWXYZ`")
