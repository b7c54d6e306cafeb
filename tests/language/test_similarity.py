from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.errors import InputError
from captrial.language.class_words import COCO_CLASSES, ClassTable
from captrial.language.similarity import Similarity, SimilaritySettings
from captrial.language.vectors import WordVectors

WORDS = ["man", "puppy", "sofa", "dog", "qxqz", "street", "hot dog", "teddy bear"]


def test_table_then_vectors() -> None:
    both, pure = Similarity(), Similarity(mode="vectors")
    assert both.sim("man", "person") == 1
    assert pure.sim("man", "person") < 1
    assert both.sim("street", "person") == pure.sim("street", "person")
    assert both.sim("skis", "ski") == 1
    assert both.sim("ski", "skis") == 1


def test_unknown_words() -> None:
    for mode in ("table+vectors", "vectors"):
        similarity = Similarity(mode=mode)  # type: ignore[arg-type]
        assert similarity.sim("qxqz", "dog") == 0
        assert similarity.sim("qxqz", "qxqz") == 1


@pytest.mark.parametrize("mode", ["table+vectors", "vectors"])
def test_matrix_equals_single_values(mode: str) -> None:
    similarity = Similarity(mode=mode)  # type: ignore[arg-type]
    classes = ["dog", "person", "couch", "dog", "qxqz"]
    matrix = similarity.matrix(WORDS, classes)
    assert matrix.shape == (len(WORDS), len(classes))
    for row, word in enumerate(WORDS):
        for column, class_ in enumerate(classes):
            assert matrix[row, column] == pytest.approx(similarity.sim(word, class_), abs=1e-6)
    assert similarity.matrix([], classes).shape == (0, 5)
    assert similarity.matrix(WORDS, []).shape == (8, 0)


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.lists(st.sampled_from(COCO_CLASSES), max_size=6))
@settings(max_examples=50, deadline=None)
def test_bounds(words: list[str], classes: list[str]) -> None:
    matrix = Similarity.default().matrix(words, classes)
    assert (np.abs(matrix) <= 1).all()
    assert matrix.shape == (len(words), len(classes))


def test_thresholds_and_links() -> None:
    similarity = Similarity()
    assert 0.5 < similarity.threshold <= 1
    linked = similarity.linked(["puppy", "street", "man"], COCO_CLASSES)
    names = [[COCO_CLASSES[column] for column in np.flatnonzero(row)] for row in linked]
    assert names == [["dog"], [], ["person"]]
    assert Similarity(threshold=0.25).threshold == 0.25
    own = Similarity(WordVectors.open(components=2))
    with pytest.raises(InputError, match="no calibrated threshold; give one"):
        _ = own.threshold
    assert "no threshold" in own.description


def test_description_says_everything() -> None:
    similarity = Similarity()
    for part in ("table+vectors", "glove-6b-50d", "principal components", f"threshold {similarity.threshold:g}"):
        assert part in similarity.description
    assert similarity.table.fingerprint in similarity.description
    assert "class table" not in Similarity(mode="vectors").description


def test_own_table_and_wrong_mode() -> None:
    similarity = Similarity(table=ClassTable.parse(["colour: red, blue"]))
    assert similarity.sim("red", "colour") == 1
    with pytest.raises(InputError, match="no similarity 'magic'"):
        Similarity(mode="magic")  # type: ignore[arg-type]


def test_vectors_by_option_are_the_plain_cosine_of_raw_vectors() -> None:
    raw = WordVectors.open(components=None)
    first, second = raw.vectors(["dog", "boat"])
    cosine = float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))
    assert SimilaritySettings("vectors").load().sim("dog", "boat") == pytest.approx(cosine, abs=1e-6)


def test_names_of_voc_meet_those_of_coco() -> None:
    similarity = Similarity.default()
    names = {"tvmonitor": "tv", "sofa": "couch", "diningtable": "dining table", "motorbike": "motorcycle"}
    for voc, coco in names.items():
        assert similarity.sim(coco, voc) == similarity.sim(voc, coco) == 1
    assert similarity.sim("television", "tvmonitor") == 1
