"""SPICE against the output of the original tool; `benchmarks.parity.spice` prints the figures of docs/spice.md."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captrial.data import read_captions, read_references
from captrial.metrics import Corpus
from captrial.metrics import spice as score_spice
from captrial.metrics.spice import CATEGORIES, counts_of_tuples, f_scores, scene_tuples

pytestmark = pytest.mark.needs("data")
Gold = list[dict[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPTRIAL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def gold(data: Path) -> Gold:
    found: Gold = json.loads((data / "metrics_gold" / "coco_500.json").read_text())
    return found


@pytest.fixture(scope="module")
def parsed(data: Path) -> Gold:
    lines = (data / "metrics_gold" / "spice_tuples.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def f1(theirs: list[set[tuple[str, ...]]], ours: list[set[tuple[str, ...]]]) -> float:
    both = sum(len(expected & got) for expected, got in zip(theirs, ours, strict=True))
    return 2 * both / (sum(map(len, theirs)) + sum(map(len, ours)))


def test_tuples_to_f_is_exact(gold: Gold) -> None:
    """From the original parser's tuples, every count and every F of 500 captions is the original's."""
    counts = counts_of_tuples([item["cand_tuples"] for item in gold], [item["ref_tuples"] for item in gold])
    names = list(CATEGORIES)
    for item, row, scores in zip(gold, counts, f_scores(counts), strict=True):
        expected = item["spice_all_from_gold_tuples"]
        assert row[0].tolist() == [expected["tp"], expected["tp"] + expected["fp"], expected["tp"] + expected["fn"]]
        assert scores[0] == pytest.approx(expected["f"], abs=1e-12)
        for kind in ("Object", "Attribute", "Relation"):
            theirs, ours = item["gold_spice_f"].get(kind), scores[names.index(kind.lower())]
            assert math.isnan(ours) if theirs is None else ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.slow
def test_scores_agree_with_the_original_parser(gold: Gold) -> None:
    """500 captions with their references: correlation 0.951, means 13.03 and 13.18 when this was written."""
    references = scene_tuples([text for item in gold for text in item["refs"]])
    rest = iter(references)
    grouped = [[next(rest) for _ in item["refs"]] for item in gold]
    ours = f_scores(counts_of_tuples(scene_tuples([item["caption"] for item in gold]), grouped))[:, 0]
    theirs = np.array([item["spice_all_from_gold_tuples"]["f"] for item in gold])
    assert np.corrcoef(theirs, ours)[0, 1] > 0.94
    assert abs(ours.mean() - theirs.mean()) < 0.005
    expected = [set(map(tuple, found)) for item in gold for found in item["ref_tuples"]]
    assert f1(expected, [set(found) for found in references]) > 0.85


@pytest.mark.slow
def test_tuples_agree_with_the_original_parser(parsed: Gold) -> None:
    """7 000 captions, many of them lemmatised; F1 0.843 when this was written."""
    some = parsed[::3]
    ours = [set(found) for found in scene_tuples([item["caption"] for item in some])]
    assert f1([set(map(tuple, item["tuples"])) for item in some], ours) > 0.835


@pytest.mark.full
@pytest.mark.parametrize(("system", "published"), [("PureT-SCST", 24.2), ("Paddle-UpDown", 20.3)])
def test_published_scores(data: Path, system: str, published: float) -> None:
    """Within 0.6 points of what the Java tool gave on the same 5 000 images."""
    folder = data / "captioners" / "karpathy_test"
    captions, references = (
        read_captions(folder / f"{system}.json").to_dict(),
        read_references(folder / "references.json"),
    )
    corpus = Corpus.prepare({key: captions[key] for key in references}, references)
    assert 100 * score_spice(corpus).corpus == pytest.approx(published, abs=0.6)
