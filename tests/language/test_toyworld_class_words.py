"""The toy world's words must be in the class table and the scene list: its truth is checked through them."""

from __future__ import annotations

import pytest

from captrial.language.class_words import default_table, is_scene
from captrial.toyworld.scene.object_classes import SYNONYMS
from captrial.toyworld.scene.places import SCENES


@pytest.mark.parametrize("kind", SYNONYMS)
def test_words_mean_their_kind(kind: str) -> None:
    table = default_table()
    assert [word for word in SYNONYMS[kind] if not table.means(word, kind)] == []


def test_words_of_one_kind_do_not_mean_another() -> None:
    """But for what is so: a pine is a tree and a plant, a parasol an umbrella."""
    table = default_table()
    shared = {
        (word, other)
        for kind, words in SYNONYMS.items()
        for word in words
        for other in SYNONYMS
        if other != kind and word not in SYNONYMS[other] and table.means(word, other)
    }
    assert {other for _, other in shared} <= {"plant"}, shared


def test_scene_words() -> None:
    assert [word for words in SCENES.values() for word in words if not is_scene(word)] == []
