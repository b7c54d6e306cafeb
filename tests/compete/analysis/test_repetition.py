"""Repeated words by model."""

from __future__ import annotations

from captrial.compete import CaptionPool
from captrial.compete.analysis.repetition import find_repetition


def test_repetition_by_model_and_word() -> None:
    pool = CaptionPool(
        ["1", "2", "3", "4"],
        {
            "A": ["a dog dog dog", "a dog and a dog", "no no no no yes yes yes", "x x"],
            "B": ["a a", "", "b . b b", "c"],
        },
        block=2,
    )
    first, second = find_repetition(pool, tokenize=lambda texts: [text.replace(".", " ") for text in texts])
    assert (first.captions, first.repeated, first.share) == (4, 2, 0.5)
    assert first.words == {"dog": 1, "no": 1, "yes": 1}
    assert first.examples[0] == ("1", "a dog dog dog", "dog")
    assert (second.repeated, second.words) == (1, {"b": 1})
