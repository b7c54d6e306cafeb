from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captrial.language.token_spans import realign, words_of_tokens
from captrial.language.tokenizer import tokenize
from captrial.records import Phrase


def test_punctuation_and_case() -> None:
    words = ["Two", "men", ",", "in", "hats", ",", "sit", "."]
    tokens, phrases = realign(words, [Phrase("Two men", 0, 2), Phrase("hats", 4, 5), Phrase(",", 2, 3)])
    assert tokens == ("two", "men", "in", "hats", "sit")
    assert [(phrase.text, tokens[phrase.start : phrase.end]) for phrase in phrases] == [
        ("Two men", ("two", "men")),
        ("hats", ("hats",)),
    ]


def test_a_word_that_becomes_two() -> None:
    tokens, phrases = realign(["the", "dog's", "ball"], [Phrase("the dog's", 0, 2), Phrase("ball", 2, 3)])
    assert tokens == ("the", "dog", "'s", "ball")
    assert [(phrase.start, phrase.end) for phrase in phrases] == [(0, 3), (3, 4)]


def test_nothing() -> None:
    assert realign([], []) == ((), ())


@given(
    st.lists(st.text(st.characters(codec="ascii", exclude_categories=("C", "Z")), min_size=1, max_size=6), max_size=8)
)
def test_tokens_are_those_of_the_caption(words: list[str]) -> None:
    phrases = [Phrase(word, index, index + 1) for index, word in enumerate(words)]
    tokens, moved = realign(words, phrases)
    assert list(tokens) == tokenize(" ".join(words))
    assert all(0 <= phrase.start < phrase.end <= len(tokens) for phrase in moved)
    places = words_of_tokens(words)
    assert len(places) == len(tokens)
    assert places == sorted(places)
    assert all(0 <= place < len(words) for place in places)
    assert all(one.end <= other.start or one.start <= other.start for one, other in pairwise(moved))


@pytest.mark.needs("data")
def test_words_of_flickr8k_keep_their_places(data: Path) -> None:
    """Every word of real captions: the token at its new place begins like it."""
    images = orjson.loads((data / "flickr8k/dataset_flickr8k.json").read_bytes())["images"][:150]
    wrong = total = 0
    for sentence in (sentence for image in images for sentence in image["sentences"]):
        words = sentence["raw"].split()
        tokens, phrases = realign(words, [Phrase(word, index, index + 1) for index, word in enumerate(words)])
        total += len(phrases)
        wrong += sum(phrase.text[0].lower() != tokens[phrase.start][0] for phrase in phrases)
    assert total > 5000
    assert wrong <= 0.002 * total  # quotation marks, which the tokeniser moves
