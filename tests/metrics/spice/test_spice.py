from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captrial.metrics import Corpus, spice
from captrial.metrics.spice import (
    CATEGORIES,
    SpiceState,
    caption_graph,
    counts_of_tuples,
    f_scores,
    scene_tuples,
    spice_counts,
)
from captrial.metrics.spice.wordlists import words

CORPUS = Corpus(
    ["1", "2", "3"],
    ["a brown horse in a field", "two dogs on a couch", ""],
    [["a horse in a green field"], ["two dogs sleep on a sofa", "a dog on a red couch"], ["a cat"]],
)


def test_scores_and_parts() -> None:
    found = spice(CORPUS)
    assert found.name == "spice"
    assert list(found.parts) == [
        f"spice_{kind}" for kind in ("object", "attribute", "relation", "color", "count", "size")
    ]
    assert found.per_image[2] == 0.0
    assert found.per_image[:2].min() > 0.5
    assert found.corpus == pytest.approx(found.per_image.mean())
    assert np.isnan(found.parts["spice_size"].corpus)


def test_shards_merge_to_the_whole() -> None:
    shards = [Corpus(CORPUS.ids[i:j], CORPUS.candidates[i:j], CORPUS.references[i:j]) for i, j in ((0, 2), (2, 3))]
    merged = SpiceState.merge([SpiceState.of(shard) for shard in shards]).scores()
    assert merged.corpus == spice(CORPUS).corpus
    np.testing.assert_array_equal(merged.per_image, spice(CORPUS).per_image)


def test_the_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = ["a man rides a brown horse", "a man rides a brown horse", "two cats", ""]
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path))
    fresh = scene_tuples(texts)
    module = import_module("captrial.metrics.spice.spice")  # `captrial.metrics.spice` as an attribute is the function
    monkeypatch.setattr(module, "parse", lambda texts: pytest.fail(f"parsed again: {texts}"))
    assert scene_tuples(texts) == fresh
    assert fresh[0] == fresh[1]
    assert fresh[3] == scene_tuples([""])[0] == []
    assert scene_tuples([]) == []


def test_caption_graph() -> None:
    graph = caption_graph(scene_tuples(["a man rides a brown horse"])[0])
    assert sorted(graph.objects) == ["horse", "man"]
    assert graph.attributes == [("horse", "brown")]
    assert graph.relations == [("man", "horse", "ride")]


def test_synonyms_can_be_left_out() -> None:
    pair = (["a couch"], [["a sofa"]])
    assert f_scores(spice_counts(*pair))[0, 0] == 1.0
    assert f_scores(spice_counts(*pair, synonyms=False))[0, 0] == 0.0


WORDS = st.sampled_from(
    sorted(words("a the man dogs of two his it riding sits red and with on top next to is lots there"))
)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(WORDS, max_size=30).map(" ".join),
    st.sampled_from(
        [
            "",
            " ",
            "dog",
            "😀",
            "שלום עולם",
            "a " * 600,
            "a man riding " * 300,
            "\ud800 x",
            "lots of of of",
            "\x00",
            "his his his",
        ]
    ),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_no_text_breaks_it(pairs: list[tuple[str, list[str]]]) -> None:
    counts = spice_counts([candidate for candidate, _ in pairs], [references for _, references in pairs])
    f = f_scores(counts)
    assert not np.isnan(f[:, 0]).any()
    assert ((f >= 0) & (f <= 1) | np.isnan(f)).all()
    assert (counts[..., 0] <= counts[..., 1]).all()


# Counts and F scores --------------------------------------------------------------------------------------------------


NAMES = list(CATEGORIES)


def scores(candidate: list[tuple[str, ...]], *references: list[tuple[str, ...]]) -> dict[str, float]:
    return dict(zip(NAMES, f_scores(counts_of_tuples([candidate], [references]))[0], strict=True))


def test_f_by_kind_of_tuple() -> None:
    candidate = [("man", "horse", "ride"), ("horse", "brown"), ("man",), ("horse",)]
    reference = [("man", "horse", "ride"), ("horse", "black"), ("man", "two"), ("man",)]
    found = scores(candidate, reference)
    assert found["object"] == found["relation"] == 1.0
    assert found["attribute"] == found["color"] == found["count"] == 0.0
    assert found["all"] == 2 * 3 / (4 + 5)
    assert np.isnan(found["size"])


def test_references_share_one_graph() -> None:
    assert scores([("man",)], [("man",)], [("man",), ("dog",)])["all"] == 2 / 3


def test_several_candidate_tuples_may_match_one_reference_tuple() -> None:
    """Both objects of the candidate touch the one merged object of the references; F stays <= 1."""
    counts = counts_of_tuples([[("couch",), ("waiting_room",)]], [[[("couch",), ("lounge",), ("waiting_room",)]]])
    assert counts[0, 0].tolist() == [2, 2, 1]
    assert f_scores(counts)[0, 0] == 1.0


def test_a_merged_attribute_is_in_no_word_list() -> None:
    counts = counts_of_tuples([[("car", "red")]], [[[("car", "red"), ("car", "crimson")]]])
    colour = NAMES.index("color")
    assert counts[0, NAMES.index("attribute")].tolist() == [1, 1, 1]
    assert counts[0, colour].tolist() == [0, 1, 0]


def test_nothing_said_scores_nothing() -> None:
    assert scores([], [("man",)])["all"] == 0.0
    assert scores([("man",)], [])["all"] == 0.0
    assert np.isnan(scores([("man",)], [])["object"])
    assert counts_of_tuples([], []).shape == (0, 7, 3)


def test_without_synonyms() -> None:
    couch, sofa = [[("couch",)]], [[[("sofa",)]]]
    assert f_scores(counts_of_tuples(couch, sofa))[0, 0] == 1.0
    assert f_scores(counts_of_tuples(couch, sofa, synonyms=False))[0, 0] == 0.0
