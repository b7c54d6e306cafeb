"""What is global merges to the very numbers of one process, whatever the parts and their order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.cli.app import app
from captrial.compete import Competition, SelectionSettings
from captrial.compete.selection.selection import RankedImages, SearchOptions
from captrial.engines.engine import Engine
from captrial.engines.jobs import score as score_job
from captrial.engines.jobs import select
from captrial.engines.jobs.score import score_all
from captrial.engines.jobs.select import EngineRanker, merge_slices
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder
from captrial.errors import InputError, MismatchError
from captrial.language.similarity import SimilaritySettings
from captrial.metrics import score
from captrial.metrics.ngram.cider import cider
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.registry import MetricOptions
from compete import synthetic

captions = st.lists(st.sampled_from(["a", "dog", "cat", "runs", "on", "the", "grass"]), max_size=7).map(" ".join)
images = st.lists(st.lists(captions, min_size=1, max_size=3), min_size=1, max_size=12)


@settings(max_examples=60)
@given(images, st.lists(st.integers(0, 3), min_size=12, max_size=12), st.randoms())
def test_document_frequencies_merge_exactly_in_any_order(
    known: list[list[str]], owner: list[int], random: object
) -> None:
    shards = [[of for of, who in zip(known, owner, strict=False) if who == shard] for shard in range(4)]
    tables = [DocumentFrequencies.of(shard) for shard in shards if shard]
    whole, merged = DocumentFrequencies.of(known), DocumentFrequencies.merge(tables)
    random.shuffle(tables)  # type: ignore[attr-defined]
    again = DocumentFrequencies.merge(tables)
    assert merged.images == again.images == whole.images
    assert merged.words == again.words or len({table.words for table in tables}) == 1
    found = merged.lookup(whole.keys, whole.words)
    for order in range(4):
        assert np.array_equal(merged.keys[order], again.keys[order])
        assert np.array_equal(merged.documents[order], again.documents[order])
        kept = whole.documents[order] > 0  # a word of nobody may stand in the vocabulary
        assert np.array_equal(merged.documents[order][found[order][kept]], whole.documents[order][kept])
        assert merged.documents[order].sum() == whole.documents[order].sum()


def test_merged_tables_score_as_the_whole_one(tmp_path: Path) -> None:
    texts = synthetic.captions(60, 1)
    known = [[text, f"{text} today"] for text in texts["truth"].values()]
    said = list(texts["model0"].values())
    tables = [DocumentFrequencies.of(known[start : start + 7]) for start in range(0, 60, 7)]
    tables[0].save(tmp_path / "one.npz")
    merged = DocumentFrequencies.merge([DocumentFrequencies.load(tmp_path / "one.npz"), *tables[1:]])
    one, other = cider(said, known), cider(said, known, merged)
    np.testing.assert_allclose(other.per_image, one.per_image, rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="no table"):
        DocumentFrequencies.merge([])


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


def test_a_slice_that_failed_is_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = competition(tmp_path, 40)
    rank = EngineRanker(LocalEngine(), contest.directory)
    with monkeypatch.context() as patch:
        patch.setattr(select.SelectJob, "_search", lambda *_: 1 / 0)
        with pytest.raises(InputError, match="ZeroDivisionError"):
            rank(contest.pool, 10, SearchOptions(contest.pairs))
    assert all(len(best.ids) for best in rank(contest.pool, 10, SearchOptions(contest.pairs)))


def competition(folder: Path, images: int = 300) -> Competition:
    """Blocks of 16 images, so that there are many."""
    texts = synthetic.captions(images, 3)
    texts.pop("truth")
    texts["truth"] = {}
    files, _ = synthetic.write_files(folder, texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("captrial.compete.storage.caption_pool.BLOCK", 16)
        return Competition.create(folder / "competition", files)


@pytest.mark.parametrize("changes", [{}, {"diverse": True}, {"similarity": "engines.toys:longer"}])
def test_selection_in_slices_is_that_of_one_search(tmp_path: Path, changes: dict[str, object]) -> None:
    contest = competition(tmp_path)
    chosen = SelectionSettings(8, 8, **changes)  # type: ignore[arg-type]
    contest.select(chosen)
    expected = [contest.original_selection(*pair) for pair in contest.pairs]
    for file in (contest.directory / "selection").glob("*-*.json"):
        file.unlink()
    contest.select(chosen, rank=EngineRanker(LocalEngine(), contest.directory, chosen.similarity))
    assert [contest.original_selection(*pair) for pair in contest.pairs] == expected
    assert not list((contest.directory / "selection").glob("slices-*"))


def test_slices_merge_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contest = competition(tmp_path)
    kept: list[dict[str, object]] = []
    real = select.merge_slices

    def spy(rows: object, pairs: int, depth: int) -> list[RankedImages]:
        kept.extend(rows)  # type: ignore[arg-type]
        return real(iter(kept), pairs, depth)

    monkeypatch.setattr(select, "merge_slices", spy)
    best = EngineRanker(LocalEngine(), contest.directory)(contest.pool, 10, SearchOptions(contest.pairs))
    assert len(kept) == 5
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(kept))
        shuffled = merge_slices(iter([kept[index] for index in order]), 3, 10)
        assert all(one.ids.tolist() == other.ids.tolist() for one, other in zip(best, shuffled, strict=True))
    kept[0]["error"] = "similarity is not a number"
    with pytest.raises(InputError, match="blocks 0:4: similarity is not"):
        merge_slices(iter(kept), 3, 10)


def test_the_command_line_selects_and_scores_on_an_engine(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    contest = competition(tmp_path)
    line = ["compete", "select", str(contest.directory), "--k", "5", "--json"]
    done = CliRunner().invoke(app, [*line, "--engine", "local", "--workers", "1"])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(app, [*line, "--again"])
    assert json.loads(done.stdout)["pairs"] == json.loads(again.stdout)["pairs"]
