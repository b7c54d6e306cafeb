"""SPICE against the output of the original tool."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from captrial.metrics.spice import CATEGORIES, counts_of_tuples, f_scores


@pytest.fixture(scope="module")
def gold(data: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((data / "metrics_gold" / "coco_500.json").read_text())
    return found


@pytest.mark.needs("data")
def test_tuples_to_f_is_exact(gold: list[dict[str, Any]]) -> None:
    """From the original parser's tuples, every count and every F of 500 captions is the original's."""
    counts = counts_of_tuples([item["cand_tuples"] for item in gold], [item["ref_tuples"] for item in gold])
    f = f_scores(counts)
    names = list(CATEGORIES)
    for item, row, scores in zip(gold, counts, f, strict=True):
        expected = item["spice_all_from_gold_tuples"]
        assert row[0].tolist() == [expected["tp"], expected["tp"] + expected["fp"], expected["tp"] + expected["fn"]]
        assert scores[0] == pytest.approx(expected["f"], abs=1e-12)
        for kind in ("Object", "Attribute", "Relation"):
            theirs, ours = item["gold_spice_f"].get(kind), scores[names.index(kind.lower())]
            assert math.isnan(ours) if theirs is None else ours == pytest.approx(theirs, abs=1e-12)
