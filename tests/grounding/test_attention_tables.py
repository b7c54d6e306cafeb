"""The tables of Liu 2017."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint, toy_samples
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.grounding.attention_correctness import (
    FORCED,
    GENERATED,
    GENERATED_CLASSES,
    AttentionResult,
    PhraseScore,
    measure_attention,
)
from captrial.grounding.attention_tables import (
    all_tables,
    caption_correctness,
    correctness_table,
    improvements,
    kind_table,
    lead_table,
    quality_table,
    same_matches,
    size_table,
    spearman,
    spearman_table,
    terciles,
)
from captrial.grounding.tables import write_tables
from captrial.records import Box, ImageRef, Region, Sample

DOG, OTHER = Region(Box(0, 0, 50, 50), "dog"), Region(Box(50, 50, 100, 100), "dog")


def attributor(name: str = "implicit", seed: int = 0) -> DatasetAttributor:
    return DatasetAttributor(name, toy_checkpoint(seed=seed), ToyFeatures(), beam=2)


@pytest.fixture(scope="module")
def results() -> list[AttentionResult]:
    return [measure_attention(attributor(name, seed), toy_samples()) for name, seed in (("one", 0), ("two", 1))]


def scores(
    model: str, values: list[float], setting: str = GENERATED, areas: list[float] | None = None
) -> AttentionResult:
    areas = areas or [(number + 1) / 10 for number in range(len(values))]
    made = [
        PhraseScore(value, 1.0, value, value - 2, value - 1, value**3, model, setting, str(number), 0, "a dog", 0, area)
        for number, (value, area) in enumerate(zip(values, areas, strict=True))
    ]
    captions = {str(number): "a dog" for number in range(len(values))}
    return AttentionResult(model, "attention", made, captions, {setting: Counter()})


def test_tables_of_real_results(results: list[AttentionResult], tmp_path: Path) -> None:
    tables = all_tables(results, toy_samples())
    assert {"correctness", "size-forced", "spearman"} <= {table.name for table in tables}
    first = tables[0]
    assert len(first.rows) == 4
    written = write_tables(tables, tmp_path)
    assert all(path.stat().st_size for path in written)
    document = orjson.loads((tmp_path / "tables.json").read_bytes())
    assert document["correctness"]["rows"][0]["correctness"]["value"] == first.rows[0][5].value  # type: ignore[union-attr]


def test_terciles_are_equal_and_the_same_for_all_models() -> None:
    assert np.bincount(terciles(np.array([3.0, 3, 3, 3, 3, 3, 3]))).tolist() == [3, 2, 2]
    one, two = scores("one", [0.1, 0.2, 0.3, 0.4]), scores("two", [0.5, 0.6, 0.7])
    shared = same_matches([one, two], GENERATED)
    assert [[score.image for score in own] for own in shared] == [["0", "1", "2"]] * 2
    table = size_table([one, two])
    assert table is not None
    assert [(row[0], row[1], row[3], round(row[5].value, 6)) for row in table.rows] == [  # type: ignore[union-attr]
        ("small", "one", 1, 0.1), ("small", "two", 1, 0.5), ("medium", "one", 1, 0.2), ("medium", "two", 1, 0.6),
        ("large", "one", 1, 0.3), ("large", "two", 1, 0.7),
    ]  # fmt: skip
    assert size_table([one, scores("other", [])]) is None


def test_leads_are_of_the_same_phrases() -> None:
    one, two = scores("one", [0.1, 0.2, 0.3, 0.4]), scores("two", [0.2, 0.2, 0.6])
    table = lead_table([one, two])
    assert table is not None
    assert [row[:3] for row in table.rows] == [("generated", "two - one", 3)]
    assert [cell.value for cell in table.rows[0][3:]] == pytest.approx([0.4 / 3, 0.1, 0.0, 0.3])  # type: ignore[union-attr]
    assert lead_table([one]) is None
    assert lead_table([one, scores("other", [])]) is None


def test_quality_goes_by_correctness() -> None:
    result = scores("one", [0.9, 0.1, 0.5])
    result.captions.update({"0": "a dog runs on the grass", "1": "a cat", "2": "a dog on the sofa", "3": "no match"})
    samples = [Sample(ImageRef(str(number)), ("a dog runs on the grass",), "test", (DOG,)) for number in range(4)]
    table = quality_table(result, samples, ["bleu"])
    assert table is not None
    assert [(row[0], row[1], row[2]) for row in table.rows] == [("high", 1, 0.9), ("middle", 1, 0.5), ("low", 1, 0.1)]
    bleu = [row[table.columns.index("bleu_1")] for row in table.rows]
    assert bleu[0] == pytest.approx(100) and bleu[0] > bleu[1] > bleu[2]  # type: ignore[operator]  # noqa: PT018
    assert "1 of 4 captions have no matched phrase" in table.notes[0]
    assert quality_table(scores("one", [0.5, 0.6]), samples) is None


def test_quality_is_of_one_setting() -> None:
    """Phrases come before nouns that are linked to classes, where both were measured."""
    both = scores("one", [0.2, 0.4])
    linked = scores("one", [0.8, 0.9, 1.0], GENERATED_CLASSES)
    both.scores += linked.scores
    assert caption_correctness(both) == {"0": 0.2, "1": 0.4}
    assert caption_correctness(linked) == {"0": 0.8, "1": 0.9, "2": 1.0}


def test_spearman_of_ranks() -> None:
    from scipy.stats import spearmanr

    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 5, 40).astype(float), generator.normal(size=40)
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert spearman(first, np.ones(40)) is None
    assert spearman(first[:1], second[:1]) is None


def test_improvement_over_the_baseline() -> None:
    assert improvements(scores("one", [0.5, 0.2]), GENERATED) == pytest.approx([0.4, 0.0])
    assert len(improvements(scores("one", [0.5]), FORCED)) == 0


def test_empty_tables_have_dashes_not_nan() -> None:
    table = correctness_table([scores("one", [])])
    assert [table.show(cell) for cell in table.rows[0]] == ["generated", "one", "attention", "0", *["–"] * 5]
    assert "nan" not in table.to_csv().lower()


def test_any_two_measures_are_correlated() -> None:
    """A symmetric matrix a model: correctness and -L1 rank the phrases alike, -KL the other way round."""
    result = scores("one", [0.1, 0.4, 0.3], FORCED)
    result.scores = [replace(score, l1=score.correctness - 1, kl=-score.correctness) for score in result.scores]
    table = spearman_table([result])
    assert table.columns[3:8] == ("measure", "correctness", "-L1", "-L2", "-KL")
    values = {row[3]: dict(zip(table.columns[4:], row[4:], strict=True)) for row in table.rows}
    assert values["correctness"]["-L1"] == values["-L1"]["correctness"] == pytest.approx(1)
    assert values["-L1"]["-KL"] == pytest.approx(-1)
    assert values["correctness"]["correctness"] is None


def test_kinds_of_entities_have_rows_of_their_own() -> None:
    result = scores("one", [0.2, 0.4, 0.9])
    kinds = ("people", "people", "animals")
    result.scores = [replace(score, kind=kind) for score, kind in zip(result.scores, kinds, strict=True)]
    table = kind_table([result], GENERATED)
    assert table is not None
    assert [(row[0], row[3], row[5].value) for row in table.rows] == [  # type: ignore[union-attr]
        ("people", 2, pytest.approx(0.3)), ("animals", 1, pytest.approx(0.9)),
    ]  # fmt: skip
    assert kind_table([scores("one", [0.2])], GENERATED) is None
