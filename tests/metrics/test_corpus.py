"""Aligning, checking and tokenising once."""

from __future__ import annotations

import numpy as np
import pytest

from captrial.errors import InputError
from captrial.metrics import Corpus, bleu, cider
from captrial.metrics.ngram_counts import TokenArrays


def test_aligns_by_id_and_tokenizes() -> None:
    corpus = Corpus.prepare({"b": "A dog, running!", "a": "Cats"}, {"a": ["Cat."], "b": ["The dog's bone", "Dogs"]})
    assert corpus.ids == ["a", "b"]
    assert corpus.candidates == ["cats", "a dog running"]
    assert corpus.references == [["cat"], ["the dog 's bone", "dogs"]]
    assert corpus.as_written == (["Cats", "A dog, running!"], [["Cat."], ["The dog's bone", "Dogs"]])
    np.testing.assert_array_equal(corpus.image_of, [0, 1, 0, 1, 1])


def test_by_position() -> None:
    corpus = Corpus.prepare(["A dog"], [["Dogs"]])
    assert list(corpus.ids) == ["0"]
    assert Corpus.prepare(corpus) is corpus


def test_systems_share_references() -> None:
    corpora = Corpus.prepare_systems({"x": {"1": "a"}, "y": {"1": "b"}}, {"1": ["c"]})
    assert corpora["x"].references is corpora["y"].references
    assert [corpora[name].candidates for name in "xy"] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("candidates", "references", "message"),
    [
        ({"1": "a", "2": "b"}, {"1": ["a"]}, "'2' has a caption but no reference"),
        ({"1": "a"}, {"1": ["a"], "2": ["b"]}, "'2' has references but no caption"),
        (["a"], [["a"], ["b"]], "1 captions for 2"),
        ({"1": "a"}, [["a"]], "both be keyed"),
        ({"1": "a"}, {"1": []}, "'1' needs a list"),
        ({"1": "a"}, {"1": "a"}, "'1' needs a list"),
        (["a"], None, "references are needed"),
    ],
)
def test_mistakes_are_named(candidates: object, references: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Corpus.prepare(candidates, references)  # type: ignore[arg-type]


def test_merge_and_select_keep_what_was_written() -> None:
    corpus = Corpus.prepare(["A!", "B!", "C!"], [["a"], ["b", "bb"], ["c"]])
    parts = [corpus.select([0]), corpus.select(np.array([1, 2]))]
    merged = Corpus.merge(parts)
    assert merged.candidates == corpus.candidates
    assert merged.references == corpus.references
    assert merged.as_written == corpus.as_written


def test_words_as_the_two_splits_of_the_toolkit_see_them() -> None:
    texts = ["", "a b", "1\u00a01/2 cups"]
    blanks, words = TokenArrays.split_at_blanks(texts), TokenArrays.split(texts)
    assert blanks.lengths.tolist() == [1, 2, 2]
    assert words.lengths.tolist() == [0, 2, 3]


def test_half_a_surrogate_pair_is_a_word_like_others() -> None:
    assert TokenArrays.split(["a \ud83d b"]).lengths.tolist() == [3]


def test_functions_take_raw_text() -> None:
    references = {"1": ["A man rides a horse.", "a person on a horse"], "2": ["Cats sleep."]}
    perfect = {"1": "a man rides a horse", "2": "cats sleep"}
    assert bleu(perfect, references).parts["bleu_1"].corpus == pytest.approx(1)
    assert cider(perfect, references).corpus > cider({"1": "cats", "2": "a man"}, references).corpus
