from __future__ import annotations

from captrial.metrics.score_inputs import much_longer, shorten


def test_shorten() -> None:
    assert shorten("A big dog runs. It is brown.", sentence=True, words=2) == "A big"
    assert shorten("A big dog", words=9) == "A big dog"
    assert shorten("A big dog. Yes") == "A big dog. Yes"


def test_much_longer() -> None:
    references = {"1": ["a dog runs on grass", "a dog"]}
    assert much_longer(["a dog runs"], references) is None
    found = much_longer(["word " * 50], references)
    assert found == (50, 3.5)
    assert much_longer([], references) is None
