"""Token numbers against the tokeniser itself: plain words are remembered, everything else is tokenised whole."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.compete.selection import token_rows as tokens_module
from captrial.compete.selection.token_rows import TokenEncoder, TokenRows, WordTable
from captrial.language import tokenize_all


def spelling(texts: list[str]) -> list[str]:
    """A tokeniser that is easy to foresee: lower case, `cannot` is two tokens, dots vanish, commas stand alone."""
    return [
        text.lower().replace("cannot", "can not").replace(",", " , ").replace(".", " ").replace("\t", " ")
        for text in texts
    ]


def words_of(rows: TokenRows, encoder: TokenEncoder) -> list[list[str]]:
    vocabulary = encoder.vocabulary()
    return [
        [vocabulary[number] for number in rows.tokens[start:stop]]
        for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    ]


texts = st.lists(st.text(st.sampled_from("aB. ,\té0"), max_size=12) | st.sampled_from(["cannot", "a cannot b ."]))


@settings(deadline=None)
@given(texts, texts)
def test_equals_the_tokeniser(first: list[str], second: list[str]) -> None:
    encoder = TokenEncoder(spelling)
    for batch in (first, second, first):  # remembered words, too
        assert words_of(encoder.encode(batch), encoder) == [text.split() for text in spelling(batch)]


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from("aAbnotC. ',-1"), max_size=24)))
def test_equals_the_real_tokeniser(captions: list[str]) -> None:
    encoder = TokenEncoder()
    expected = [[token for token in text.split(" ") if token] for text in tokenize_all(captions)]
    assert words_of(encoder.encode(captions), encoder) == expected


@pytest.mark.slow
@pytest.mark.needs("data")
def test_equals_the_real_tokeniser_on_real_captions(data: Path) -> None:
    folder = data / "captioners" / "karpathy_test"
    people = json.loads((folder / "references.json").read_text()).values()
    system = json.loads((folder / "Vinyals-et-al-2017.json").read_text())
    captions = [*itertools.chain.from_iterable(people), *(row["caption"] for row in system)][::3]
    encoder = TokenEncoder()
    rows = encoder.encode(captions)
    spelled = list(encoder._tokens)
    found = [
        " ".join(spelled[number] for number in rows.tokens[rows.offsets[r] : rows.offsets[r + 1]])
        for r in range(len(rows))
    ]
    assert found == [" ".join(filter(None, text.split(" "))) for text in tokenize_all(captions)]


def test_reads_every_kind_of_string_array() -> None:
    encoder = TokenEncoder(spelling)
    plain = ["zero", "a dog", "", "two cats"]
    expected = [["a", "dog"], [], ["two", "cats"]]
    for kind in (pa.string(), pa.large_string()):
        assert words_of(encoder.encode(pa.array(plain, kind)[1:]), encoder) == expected
    assert words_of(encoder.encode(pa.array(plain).dictionary_encode()[1:]), encoder) == expected
    assert words_of(encoder.encode(pa.chunked_array([plain[1:2], plain[2:]])), encoder) == expected
    assert words_of(encoder.encode(pa.array(["a", None, "é"])), encoder) == [["a"], [], ["é"]]
    assert words_of(encoder.encode(pa.array([], pa.string())), encoder) == []


def test_long_words_go_to_the_tokeniser() -> None:
    encoder = TokenEncoder(spelling)
    batch = ["x" * length for length in range(1, 40)] + ["abcdefgh", "abcdefghi", "a bcdefgh"]
    assert words_of(encoder.encode(batch), encoder) == [text.split() for text in batch]


def test_table_grows_and_keeps_numbers() -> None:
    table = WordTable()
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(word) for word in itertools.product(letters, repeat=3)]
    rows = table.number_rows(pa.array([*words, " ".join(words)]))
    assert rows.words.tolist() == [*range(len(words)), *range(len(words))]
    assert table.number_rows(pa.array(words[::-1])).words.tolist() == list(range(len(words)))[::-1]
    assert [table.word(number) for number in (0, 9_999, 17_575)] == [words[0], words[9_999], words[17_575]]


def test_memory_of_an_endless_stream_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_CACHE_LIMIT", 50)
    encoder = TokenEncoder(spelling)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for first in alphabet:
        batch = [f"{first}{second}" for second in alphabet]
        assert words_of(encoder.encode(batch), encoder) == [[word] for word in batch]
        assert len(encoder._words) <= 50 + len(batch)
