"""The registry of similarities: names, errors, and a new entry used by every command that reads it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from captrial.compete import SelectionSettings
from captrial.compete.selection.registry import SIMILARITIES, SimilarityEntry, similarity_help, similarity_named
from captrial.errors import InputError, MissingExtraError
from captrial.metrics.semantic.sentence_encoder import sentence_encoder
from compete.competitions import Small


def test_similarities_by_name() -> None:
    assert similarity_named("ngsm") is None
    assert similarity_named("os.path:commonprefix") is not None
    with pytest.raises(InputError, match="choose from ngsm, nouns"):
        similarity_named("telepathy")
    for wrong in ("os.path:nothing", "no_such_module:f", ":f"):
        with pytest.raises(InputError, match="Python can import"):
            similarity_named(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nouns", "spice", pytest.param("semantic", marks=pytest.mark.needs("minilm"))])
def test_meaning_counts_for_other_similarities(name: str) -> None:
    similarity = similarity_named(name)
    assert similarity is not None
    first = ["a man rides a horse", "a man rides a horse", "a dog"]
    second = ["a horse is ridden by a man", "two pizzas on a table", "a dog"]
    values = np.asarray(similarity(first, second))
    assert values[0] > values[1]
    assert values[2] == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(values, np.asarray(similarity(second, first)), rtol=1e-6)


def test_a_missing_sentence_encoder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence_encoder.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    similarity = similarity_named("semantic")
    assert similarity is not None
    with pytest.raises(MissingExtraError, match=r"captrial\[semantic\]"):
        similarity(["a"], ["b"])


def first_letters(first: Sequence[str], second: Sequence[str]) -> list[float]:
    return [float(one[:1] == two[:1]) for one, two in zip(first, second, strict=True)]


def test_a_similarity_is_added_by_one_entry(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SimilarityEntry("letters", "first letters", "whether captions begin alike", first_letters, "nothing")
    monkeypatch.setitem(SIMILARITIES, entry.name, entry)
    assert similarity_named("letters") is first_letters
    assert "letters: whether captions begin alike (needs nothing)" in similarity_help()
    with pytest.raises(InputError, match="semantic, letters, or give module:function"):
        similarity_named("telepathy")
    small.competition.select(SelectionSettings(8, 8, "letters"), again=True)
    assert set(small.competition.selection(0, 1).similarity) <= {0.0, 1.0}


def test_every_similarity_is_described() -> None:
    for name, entry in SIMILARITIES.items():
        assert entry.name == name
        assert entry.title
        assert entry.description
    assert [name for name, entry in SIMILARITIES.items() if entry.compute is None] == ["ngsm"]
