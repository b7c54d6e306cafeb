"""Scores computed in parts are those of one process, whatever the parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.engines.engine import Engine
from captrial.engines.jobs import score as score_job
from captrial.engines.jobs.score import score_all
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder
from captrial.errors import InputError, MismatchError
from captrial.language.similarity import SimilaritySettings
from captrial.metrics import score
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.registry import MetricOptions
from compete import synthetic

captions = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "on", "the", "grass"]), max_size=7).map(" ".join)


images = st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=12)


METRICS = ["bleu", "rouge", "cider", "cider_plain", "meteor", "nw", "coverage", "chair", "repetition", "statistics"]


def same_scores(tmp_path: Path, engine: Engine, metrics: list[str] = METRICS) -> None:
    """Corpus, images, intervals and tests of an engine's table against those of one process."""
    texts = synthetic.captions(50, 2)
    known = {name: [text, "Wii U.", f"A {text}"] for name, text in texts.pop("truth").items()}
    texts["model0"]["7"] = ""
    objects = {name: ["dog", "cat"] for name in known}
    one = score(texts, known, metrics, objects=objects)
    other = score_all(texts, known, metrics, engine, tmp_path / "work", MetricOptions(objects=objects))
    assert other.columns == one.columns
    assert other.notes == one.notes
    for system, columns in one.scores.items():
        for name, expected in columns.items():
            found = other.scores[system][name]
            assert found.corpus == pytest.approx(expected.corpus, rel=0, abs=1e-12, nan_ok=True), name
            np.testing.assert_allclose(found.per_image, expected.per_image, rtol=0, atol=1e-12)
    for system, of_system in one.intervals(200).items():
        for name, expected_interval in of_system.items():
            found_interval = other.intervals(200)[system][name]
            assert (found_interval.low, found_interval.high) == pytest.approx(
                (expected_interval.low, expected_interval.high), rel=0, abs=1e-12, nan_ok=True
            )
    assert [row.bootstrap_p for row in other.compare(200)] == [row.bootstrap_p for row in one.compare(200)]


def test_scores_in_parts_are_those_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_job, "SLICE", 16)
    same_scores(tmp_path, LocalEngine())
    assert len(OutputFolder(tmp_path / "work" / "scores").shards()) == 4


def test_bleu_in_parts_is_bit_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_job, "SLICE", 9)
    texts = synthetic.captions(50, 1)
    known = {name: [text] for name, text in texts.pop("truth").items()}
    one, other = score(texts, known, ["bleu"]), score_all(texts, known, ["bleu"], LocalEngine(), tmp_path)
    assert one.to_dict() == other.to_dict()
    assert one.intervals(100) == other.intervals(100)


def test_changed_captions_are_not_mistaken_for_finished_ones(tmp_path: Path) -> None:
    known = {"1": ["a dog runs"], "2": ["a cat sits"]}
    score_all({"a": {"1": "a dog", "2": "a cat"}}, known, ["bleu"], LocalEngine(), tmp_path)
    with pytest.raises(MismatchError, match="another job or input"):
        score_all({"a": {"1": "a dog", "2": "a bat"}}, known, ["bleu"], LocalEngine(), tmp_path)


def test_another_table_of_frequencies_is_not_mistaken_for_the_first(tmp_path: Path) -> None:
    known = {"1": ["a dog runs"], "2": ["a cat sits"]}
    tables = [DocumentFrequencies.of([["a dog"], ["a cat"], [more]]) for more in ("a dog", "the cat sits")]
    said = {"a": {"1": "a dog runs", "2": "a cat"}}

    def scored(number: int) -> dict[str, dict[str, float | None]]:
        table = tables[number]
        return score_all(said, known, ["cider"], LocalEngine(), tmp_path, MetricOptions(table)).to_dict()

    first = scored(0)
    with pytest.raises(MismatchError, match=r"another frequencies\)"):
        scored(1)
    assert scored(0) == first  # and the first goes on
    assert score(said, known, ["cider"], document_frequencies=tables[1]).to_dict() != first


def test_other_vectors_in_the_same_file_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))
    words, file = ["dog", "cat", "runs", "sits"], tmp_path / "vectors.txt"

    def scored(sign: int) -> None:
        file.write_text("".join(f"{word} {sign * number} 1 0.5\n" for number, word in enumerate(words, 1)))
        known = {"1": ["a dog runs"], "2": ["a cat sits"]}
        said = {"a": {"1": "a dog", "2": "a cat"}}
        options = MetricOptions(similarity=SimilaritySettings("vectors", file))
        score_all(said, known, ["bleu"], LocalEngine(), tmp_path / "work", options)

    scored(1)
    scored(1)
    with pytest.raises(MismatchError, match=r"another vectors\)"):
        scored(-1)


def test_another_clip_checkpoint_in_the_same_folder_is_noticed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "clip" / "model.safetensors"
    checkpoint.parent.mkdir()

    def scored(content: bytes) -> None:
        if not checkpoint.exists() or checkpoint.read_bytes() != content:
            checkpoint.write_bytes(content)
        known, said = {"1": ["a dog runs"]}, {"a": {"1": "a dog"}}
        options = MetricOptions(clip=str(checkpoint.parent))
        score_all(said, known, ["bleu"], LocalEngine(), tmp_path / "work", options)

    scored(b"one")
    scored(b"one")
    with pytest.raises(MismatchError, match=r"another clip\)"):
        scored(b"other")


@pytest.mark.parametrize("job", ["ScoreJob", "FrequencyJob"])
def test_what_failed_is_scored_again_once_its_cause_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.setattr(score_job, "SLICE", 1)
    monkeypatch.setattr(score_job, "FREQUENCY_SLICE", 1)
    known = {"1": ["a dog runs"], "2": ["a cat sits"]}
    said = {"a": {"1": "a dog", "2": "a cat"}}
    real = getattr(score_job, job).__call__

    def breaks(self: object, rows: list[dict[str, object]]) -> object:
        if rows[0]["id"] in ("2", "images 1:2"):
            raise ValueError("no space left")
        return real(self, rows)

    with monkeypatch.context() as patch:
        patch.setattr(getattr(score_job, job), "__call__", breaks)
        with pytest.raises(InputError, match="no space left"):
            score_all(said, known, ["cider"], LocalEngine(), tmp_path)
    folder = tmp_path / ("scores" if job == "ScoreJob" else "frequencies")
    assert [path.name for path in OutputFolder(folder).shards()] == ["part-000000.parquet"]
    assert (
        score_all(said, known, ["cider"], LocalEngine(), tmp_path).to_dict() == score(said, known, ["cider"]).to_dict()
    )


def test_score_on_an_engine_prints_the_same(tmp_path: Path) -> None:
    files, references = synthetic.write_files(tmp_path, synthetic.captions(30, 2))
    line = ["score", *map(str, files.values()), "-r", str(references), "-m", "bleu,cider,statistics", "--json"]
    one = CliRunner().invoke(app, line)
    two = CliRunner().invoke(app, [*line, "--workers", "2", "--work", str(tmp_path / "work")])
    assert (one.exit_code, two.exit_code) == (0, 0), two.output
    first, second = json.loads(one.stdout), json.loads(two.stdout)
    for system, columns in first.items():
        assert second[system] == pytest.approx(columns, abs=1e-12, rel=0)
