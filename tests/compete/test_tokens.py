"""Token numbers against the tokeniser itself: plain words are remembered, everything else is tokenised whole."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.compete import tokens as tokens_module
from captrial.compete.tokens import TokenEncoder, TokenRows
from captrial.compete.words import WordTable


def spelling(texts: list[str]) -> list[str]:
    """A tokeniser that is easy to foresee: lower case, `cannot` is two tokens, dots vanish, commas stand alone."""
    return [
        text.lower().replace("cannot", "can not").replace(",", " , ").replace(".", " ").replace("\t", " ")
        for text in texts
    ]


def words_of(rows: TokenRows, encoder: TokenEncoder) -> list[list[str]]:
    table = encoder._tokens
    return [
        [table.word(number) for number in rows.tokens[start:stop]]
        for start, stop in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    ]


texts = st.lists(st.text(st.sampled_from("aB. ,\té0"), max_size=12) | st.sampled_from(["cannot", "a cannot b ."]))


@settings(deadline=None)
@given(texts, texts)
def test_equals_the_tokeniser(first: list[str], second: list[str]) -> None:
    encoder = TokenEncoder(spelling)
    for batch in (first, second, first):  # remembered words, too
        assert words_of(encoder.encode(batch), encoder) == [text.split() for text in spelling(batch)]


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


def test_table_grows_and_keeps_numbers() -> None:
    table = WordTable(plain_only=False)
    words = [f"w{number}" for number in range(100_000)] + ["x" * 500_000]
    rows = table.number_rows(pa.array(words))
    assert rows.words.tolist() == list(range(len(words)))
    assert table.number_rows(pa.array(words[::-1])).words.tolist() == list(range(len(words)))[::-1]
    assert [table.word(number) for number in (0, 99_999, 100_000)] == [words[0], words[99_999], words[-1]]


def test_memory_of_an_endless_stream_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "_FORGET_AFTER", 50)
    encoder = TokenEncoder(spelling)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for first in alphabet:
        batch = [f"{first}{second}" for second in alphabet]
        assert words_of(encoder.encode(batch), encoder) == [[word] for word in batch]
        assert len(encoder._words) <= 50 + len(batch)
