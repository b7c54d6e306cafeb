from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from captrial.language import vectors as vector_module
from captrial.language.class_words import COCO_CLASSES, default_table
from captrial.language.vectors import (
    DEFAULT_NAME,
    WordVectors,
    average_precision,
    best_threshold,
    calibrate,
    linking_curve,
)


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
