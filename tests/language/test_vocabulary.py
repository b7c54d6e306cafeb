from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captrial.errors import InputError, MismatchError
from captrial.language.vocabulary import BOS, EOS, FIRST_WORD, PAD, SPECIALS, UNK, Vocabulary

WORDS = st.text(st.characters(categories=("L", "N", "P")), min_size=1).filter(lambda word: word not in SPECIALS)


def test_special_ids_are_four_different_ones() -> None:
    assert len({PAD, BOS, EOS, UNK}) == FIRST_WORD == 4


def test_order_is_by_count_then_letters_and_min_count_is_inclusive() -> None:
    captions = [["b", "a", "c"], ["b", "c"], ["d"]]
    assert Vocabulary.build(captions, min_count=2).words == ("b", "c")
    assert Vocabulary.build(captions, min_count=1).words == ("b", "c", "a", "d")
    assert Vocabulary.build(reversed(captions), min_count=1) == Vocabulary.build(captions, min_count=1)


def test_special_words_in_captions_do_not_become_words() -> None:
    assert Vocabulary.build([["<unk>", "dog"]], min_count=1).words == ("dog",)


def test_decode_shows_unknown_words_and_stops_at_eos() -> None:
    vocabulary = Vocabulary(("a",))
    assert vocabulary.decode(np.array([BOS, 4, UNK, EOS, 4])) == ["a", "<unk>"]
    with pytest.raises(InputError, match="5 is not an id"):
        vocabulary.decode([5])


@given(st.lists(WORDS, unique=True, max_size=30), st.data())
def test_round_trip_of_known_words(words: list[str], data: st.DataObject) -> None:
    vocabulary = Vocabulary(tuple(words))
    caption = data.draw(st.lists(st.sampled_from(words), max_size=10)) if words else []
    assert vocabulary.decode(vocabulary.encode(caption)) == caption
    assert all(vocabulary.word(vocabulary[word]) == word for word in words)
    assert len(vocabulary) == len(words) + 4


@pytest.mark.parametrize("words", [("a", "a"), ("",), ("<eos>",), ("two words",)])
def test_impossible_words_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        Vocabulary(words)


def test_save_and_load(tmp_path: Path) -> None:
    vocabulary = Vocabulary(("dog", "naïve", "'s"))
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary


def test_fingerprint_depends_on_words_and_order() -> None:
    prints = {Vocabulary(words).fingerprint for words in [("a", "b"), ("b", "a"), ("a",), ("a", "b", "c")]}
    assert len(prints) == 4


def test_edited_and_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    Vocabulary(("dog", "cat")).save(path)
    document = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**document, "words": ["cat", "dog"]}))
    with pytest.raises(MismatchError, match="fingerprint"):
        Vocabulary.load(path)
    for content in [b"", b"[]", b'{"words": [1]}', b"\xff"]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"vocabulary\.json"):
            Vocabulary.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        Vocabulary.load(tmp_path / "none.json")
