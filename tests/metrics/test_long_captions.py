from __future__ import annotations

import pytest

from captrial.metrics.long_captions import first_sentence, much_longer, shortened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog runs.", "A dog runs."),
        ("A dog runs. It is brown.", "A dog runs."),
        ("A dog runs! Really?", "A dog runs!"),
        ("A dog on St. Mark's square. Sunny.", "A dog on St. Mark's square."),
        ("John F. Kennedy waves. Crowd.", "John F. Kennedy waves."),
        ("A sign that says “stop.” It is red.", "A sign that says “stop.”"),
        ("A dog, 3.5 metres away", "A dog, 3.5 metres away"),
        ("A dog runs\nIt is brown", "A dog runs"),
        ("  ", ""),
    ],
)
def test_first_sentence(text: str, expected: str) -> None:
    assert first_sentence(text) == expected


def test_shortened() -> None:
    assert shortened("A big dog runs. It is brown.", sentence=True, words=2) == "A big"
    assert shortened("A big dog", words=9) == "A big dog"
    assert shortened("A big dog. Yes") == "A big dog. Yes"


def test_much_longer() -> None:
    references = {"1": ["a dog runs on grass", "a dog"]}
    assert much_longer(["a dog runs"], references) is None
    found = much_longer(["word " * 50], references)
    assert found == (50, 3.5)
    assert much_longer([], references) is None
