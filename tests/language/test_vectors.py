from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import captrial
from captrial.errors import DamagedError, InputError
from captrial.language import vectors as vector_module
from captrial.language.class_words import COCO_CLASSES, default_table
from captrial.language.vector_files import read_vectors
from captrial.language.vectors import (
    DEFAULT_NAME,
    WordVectors,
    average_precision,
    best_threshold,
    calibrate,
    linking_curve,
    principal_axes,
    word_hash,
)

WORDS = ["the", "dog", "cat", "hot", "naïve", "bus"]
VECTORS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(cache))


def text_lines() -> str:
    return "".join(f"{word} {' '.join(map(repr, map(float, row)))}\n" for word, row in zip(WORDS, VECTORS, strict=True))


def binary() -> bytes:
    rows = (word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(WORDS, VECTORS, strict=True))
    return f"{len(WORDS)} 4\n".encode() + b"".join(rows)


FORMS = {
    "glove.txt": text_lines().encode(),
    "word2vec.txt": (f"{len(WORDS)} 4\n" + text_lines()).encode(),
    "word2vec.bin": binary(),
    "no_newlines.bin": binary().replace(b"\n" + WORDS[1].encode(), WORDS[1].encode()),
}


@pytest.mark.parametrize("name", FORMS)
def test_all_forms_give_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FORMS[name])
    words, vectors = read_vectors(path)
    assert words == WORDS
    assert np.array_equal(vectors, VECTORS)
    opened = WordVectors.open(path, components=None)
    assert opened.words == WORDS
    assert len(opened) == 6
    assert np.allclose(opened.vectors(["cat", "hot dog", "qxqz"]), [VECTORS[2], VECTORS[[3, 1]].mean(0), np.zeros(4)])


def test_words_with_blanks_and_words_twice(tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("a 1 2\n. . 3 4\na 5 6\n")
    assert read_vectors(path)[0] == ["a", ". .", "a"]
    assert WordVectors.open(path, components=None).vectors(["a"]).tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no vectors in it"),
        (b"a 1 2\nb 1\n", "line 2 must be a word and 2 numbers"),
        (b"a 1 2\nb 1 x\n", "line 2 has something that is not a number"),
        (b"a 1 2\nb 1 nan\n", "line 2 has something that is not a number"),
        (b"lonely\n", "line 1 must be a word and 1 to 4096 numbers, found 0"),
        (b"a " + b"1 " * 5000 + b"1\n", "1 to 4096 numbers, found 5001"),
        (b"3 99999999999\na 1 2\n", "1 to 4096 numbers"),
        (b"2 5000\nword \x00\x01\x02", "at most 4096"),
        (b"a 1 2\nb 1 " + b"1" * 100_000 + b"\n", "line 2 has something that is not a number"),
        (b"9999 300\nword \x00\x01\x02", "too short"),
        (binary()[:-12], "ends or breaks at word 6 of 6"),
        (b"1 1\nw " + struct.pack("<f", float("inf")), "not a number"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        WordVectors.open(path)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        WordVectors.open(tmp_path / "none.txt")


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_vectors_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    try:
        words, vectors = read_vectors(path)
    except InputError:
        return
    assert len(words) == len(vectors)


def test_post_processing_removes_mean_and_axes(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    data = (random.normal(size=(500, 6)) * [9, 5, 1, 1, 1, 1] + 7).astype(np.float32)
    mean, axes = principal_axes(data)
    assert np.allclose(mean, data.mean(0), atol=1e-4)
    assert np.allclose(np.abs(axes[:2]), np.eye(6)[:2], atol=0.1)
    path = tmp_path / "made.txt"
    path.write_text("".join(f"w{i} {' '.join(map(str, row))}\n" for i, row in enumerate(data)))
    processed = WordVectors.open(path, components=2).vectors([f"w{i}" for i in range(500)])
    assert np.allclose(processed.mean(0), 0, atol=1e-4)
    assert np.abs(processed @ axes[:2].T).max() < 1e-3
    assert np.linalg.matrix_rank(processed, tol=1e-2) == 4


def test_unknown_words_are_like_themselves_only(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_bytes(FORMS["glove.txt"])
    vectors = WordVectors.open(path, components=0)
    table = vectors.similarities(["qxqz", "dog"], ["qxqz", "plugh", "dog"])
    assert table.tolist() == [[1, 0, 0], [0, 0, pytest.approx(1)]]
    assert "qxqz" not in vectors
    assert "hot qxqz" in vectors
    assert vectors.similarities([], ["dog"]).shape == (0, 1)


def test_a_changed_file_is_converted_again(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("a 1 2\nb 3 4\n")
    assert "c" not in WordVectors.open(path)
    path.write_text("a 1 2\nb 3 4\nc 5 6\n")
    assert "c" in WordVectors.open(path)


def test_the_installed_vectors() -> None:
    vectors = WordVectors.open()
    assert len(vectors) == 400_000
    assert vectors.dimensions == 50
    assert vectors.words[vectors.words.index("dog")] == "dog"
    near, far = vectors.similarities(["dog"], ["puppy", "kitchen"])[0]
    assert near > far + 0.3
    assert set(vectors.thresholds) == {"vectors", "table+vectors"}
    assert "principal components removed" in vectors.description
    assert WordVectors.open(components=3).thresholds == {}
    with pytest.raises(InputError, match="0 to 12"):
        WordVectors.open(components=99)


def test_post_processing_separates_classes() -> None:
    """What it is for: nouns pass 1/3 for far fewer wrong classes than with raw vectors."""
    from captrial.language.class_words import COCO_CLASSES

    nouns = ["street", "grass", "plate", "woman", "wall", "game", "snow", "field", "water", "picture"]
    raw = (WordVectors.open(components=None).similarities(nouns, COCO_CLASSES) > 1 / 3).sum()
    processed = (WordVectors.open().similarities(nouns, COCO_CLASSES) > 1 / 3).sum()
    assert processed < 0.5 * raw


@pytest.mark.slow
def test_opening_is_instant(cache: Path) -> None:
    """Under 50 ms once converted: nothing but maps of files."""
    WordVectors.open()
    code = (
        "from captrial.language.vectors import WordVectors; import time\n"
        "times = []\n"
        "for _ in range(5):\n"
        "    start = time.perf_counter(); WordVectors.open(); times.append(time.perf_counter() - start)\n"
        "print(min(times))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(captrial.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environment)
    seconds = float(run.stdout)
    assert seconds < 0.05


def test_hashes_are_stable() -> None:
    assert word_hash("dog") == 11501171807684625465


@pytest.mark.parametrize("name", ["vectors.npy", "hashes.npy", "rows.npy", "basis.npz", "words.txt"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "missing", "header"])
def test_a_damaged_conversion_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: str) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "own.txt"
    path.write_text("".join(f"word{n} {n} {n % 3} 1 {n % 7}\n" for n in range(50)))
    folder = WordVectors.open(path).files.folder
    content = (folder / name).read_bytes()
    changed = {"cut": content[:-40], "emptied": b"", "header": content[:8] + b"\xff" * 80 + content[88:]}
    (folder / name).unlink() if damage == "missing" else (folder / name).write_bytes(changed[damage])
    if name == "words.txt":  # the list is read only by `words`
        with pytest.raises(DamagedError, match=r"damaged: .*words.txt"):
            _ = WordVectors.open(path).words
        return
    with pytest.raises(DamagedError, match=r"damaged: .* remake it with the same command after removing this folder"):
        WordVectors.open(path)


def test_a_damaged_calibration_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "own.txt"
    path.write_text("".join(f"word{n} {n} {n % 3} 1 {n % 7}\n" for n in range(50)))
    vectors = WordVectors.open(path)
    (stored,) = vectors.files.folder.glob("calibration-*.json")
    for content in (b"", b"[]", b'{"a": 1}', b'{"components": 99, "thresholds": {}, "method": ""}'):
        stored.write_bytes(content)
        assert WordVectors.open(path).thresholds == vectors.thresholds


# Calibration ----------------------------------------------------------------------------------------------------------


def test_curve_by_hand() -> None:
    scores, truth = np.array([0.9, 0.6, 0.5, 0.1]), np.array([True, False, True, False])
    curve = {one.threshold: one for one in linking_curve(scores, truth)}
    assert (curve[0.7].precision, curve[0.7].recall) == (1, 0.5)
    assert (curve[0.5].precision, curve[0.5].recall) == (0.6667, 1)
    assert best_threshold(scores, truth).f1 == 0.8
    assert average_precision(scores, truth) == pytest.approx((1 + 2 / 3) / 2)
    weighted = linking_curve(scores, truth, np.array([1, 3, 1, 1]))
    assert weighted[100].precision == 0.4  # threshold 0.5: two right against a wrong one of weight 3


def test_no_right_pair_is_no_crash() -> None:
    assert best_threshold(np.array([0.5]), np.array([False])).f1 == 0
    assert average_precision(np.array([0.5]), np.array([False])) == 0


def test_vectors_that_know_the_table_are_calibrated_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors made so that words of one class are alike must get a threshold that links them."""
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    table, lines = default_table(), []
    for name in COCO_CLASSES:
        if " " not in name:
            centre = random.normal(size=60)
            for word in table.words(name):
                if " " not in word:
                    row = 3 + centre + 0.2 * random.normal(size=60)
                    lines.append(f"{word} {' '.join(f'{value:.4f}' for value in row)}\n")
    path = tmp_path / "made.txt"
    path.write_text("".join(lines))
    vectors = WordVectors.open(path)
    measured = calibrate(vectors).measured["vectors"]
    assert measured["f1"] > 0.85
    assert vectors.thresholds["vectors"] == measured["threshold"]
    assert list((tmp_path / "cache" / "vectors").glob("made-*/calibration-*.json"))


def test_vectors_without_any_word_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "odd.txt").write_text("xyzzy 1 2\nplugh 2 1\n")
    vectors = WordVectors.open(tmp_path / "odd.txt")
    assert vectors.thresholds["vectors"] == 1


def test_the_shipped_calibration_is_whole() -> None:
    shipped = vector_module._shipped()[DEFAULT_NAME]
    assert shipped.components == WordVectors.open().components
    for mode in vector_module.MODES:
        for truth in ("list", "images", "images held out"):
            row = shipped.measured[mode][truth]
            assert row["threshold"] == shipped.thresholds[mode]
            assert row["f1"] > 0.5
    assert "studies.vector_calibration" in shipped.method
