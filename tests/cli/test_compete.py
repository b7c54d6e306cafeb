"""`captrial compete` as people and scripts use it: JSON shapes, tables, exit codes, what to do next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captrial.cli import main
from compete import synthetic
from compete.competitions import Small


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["compete", *map(str, arguments)])
    captured = capsys.readouterr()
    assert stopped.value.code in (0, None), captured.err
    return captured.out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    return json.loads(run(capsys, *arguments, "--json"))


def fail(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(["compete", *map(str, arguments)])
    assert stopped.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def captions(files: dict[str, Path]) -> list[str]:
    return [part for name, path in files.items() for part in ("--captions", f"{name}={path}")]


def test_from_files_to_a_ranking(
    tmp_path: Path, files: tuple[dict[str, Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, references = tmp_path / "c", files[1]
    text = run(capsys, "new", directory, *captions(files[0]))
    assert "60 images" in text
    assert f"captrial compete select {directory}" in text
    selected = run_json(capsys, "select", directory, "--k", 6)
    assert selected["k"] == 6
    assert [pair["models"] for pair in selected["pairs"]] == [
        ["model0", "model1"],
        ["model0", "model2"],
        ["model1", "model2"],
    ]
    assert all(len(pair["images"]) == len(pair["similarity"]) == 6 for pair in selected["pairs"])
    ranked = run_json(capsys, "rank", directory, "--references", references, "--metric", "cider")
    assert ranked["metric"] == "cider"
    assert ranked["models"] == ["model0", "model1", "model2"]
    assert [ranked["p"][i][i] for i in range(3)] == [None] * 3
    for i in range(3):
        for j in range(3):
            if i != j:
                there, back = ranked["p"][i][j] + ranked["added"], ranked["p"][j][i] + ranked["added"]
                assert ranked["f"][i][j] == pytest.approx(there / back)
    assert [row["rank"] for row in ranked["ranking"]] == [1, 2, 3]
    first = ranked["ranking"][0]
    assert first["model"] == "model0"
    assert first["low"] <= first["score"] <= first["high"]


def test_every_verb_prints_for_people(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    labelled = ["--references", small.references]
    assert "model0" in run(capsys, "status", small.directory)
    assert "ranking by cider" in run(capsys, "rank", small.directory, *labelled)
    assert "SRCC" in run(capsys, "stability", small.directory, *labelled)
    assert "carries little information" in run(capsys, "stability", small.directory, *labelled)
    assert "repetition" in run(capsys, "repetition", small.directory)
    assert "wins" in run(capsys, "flip", small.directory, *labelled)
    assert "Stable" in run(capsys, "plan", small.directory, *labelled)
    assert "which models were right" in run(capsys, "statistics", small.directory, *labelled)
    assert "nothing to do" in run(capsys, "select", small.directory)


def test_every_verb_prints_json(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    labelled = ["--references", small.references]
    status = run_json(capsys, "status", small.directory)
    assert (status["pairs"], status["selected_pairs"], status["labelled"]) == (3, 3, 0)
    assert status["to_label"] == status["images"] > 0
    curve = run_json(capsys, "stability", small.directory, *labelled)
    assert curve["k"] == [5, 6, 7, 8]
    assert curve["srcc"][-1] == 1
    assert curve["weak"] is True
    assert [part["model"] for part in run_json(capsys, "repetition", small.directory)] == list(small.files)
    assert run_json(capsys, "flip", small.directory, *labelled)["winner"] == "model0"
    plan = run_json(capsys, "plan", small.directory)
    assert plan["stable"] is False
    assert len(plan["next_images"]) == min(20, plan["to_label"])
    facts = run_json(capsys, "statistics", small.directory, *labelled)
    assert facts["annotations"]["refs"] == 3
    assert len(facts["outcomes"]) == 3


def test_adding_a_model(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": image, "caption": text} for image, text in synthetic.captions(60, 4, seed=3)["model3"].items()]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, rows)))
    added = run_json(capsys, "add", small.directory, "--captions", f"newcomer={tmp_path / 'new.jsonl'}")
    assert added == {"models": ["model0", "model1", "model2", "newcomer"], "new_pairs": 3}
    again = run(capsys, "add", small.directory, "--captions", f"newcomer={tmp_path / 'new.jsonl'}")
    assert "0 new pairs" in again
    assert len(run_json(capsys, "rank", small.directory, "--references", small.references)["ranking"]) == 4


def test_rank_against_another_table(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "old.json"
    table.write_text(json.dumps({"model0": {"cider": 0.1}, "model1": {"cider": 0.3}, "model2": {"cider": 0.2}}))
    labelled = ["--references", small.references, "--against", table]
    assert run_json(capsys, "rank", small.directory, *labelled)["changes"]["model0"] == [3, 1, 2]
    assert "external rank" in run(capsys, "rank", small.directory, *labelled)
    table.write_text("[1]")
    assert "not a table of scores" in fail(capsys, "rank", small.directory, *labelled)
    table.write_text(json.dumps({"model0": {"cider": 9, "rouge_l": 0.1}, "model1": {"cider": 1, "rouge_l": 0.3}}))
    changes = run_json(capsys, "rank", small.directory, *labelled, "--metric", "rouge_l")["changes"]
    assert changes["model0"] == [2, 1, 1]  # by the same metric, not by CIDEr
    table.write_text(json.dumps({"somebody": 1}))
    assert "any of these models: model0" in fail(capsys, "rank", small.directory, *labelled)


def test_rank_from_inside_the_directory(
    small: Small, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.directory)
    assert "ranking by cider" in run(capsys, "rank", ".", "--references", small.references)


def test_names_are_not_taken_for_markup(
    tmp_path: Path, files: tuple[dict[str, Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    named = [part for name, path in files[0].items() for part in ("--captions", f"[{name}]={path}")]
    run(capsys, "new", tmp_path / "c", *named)
    run(capsys, "select", tmp_path / "c", "--k", 8)
    assert "[model0] wins" in run(capsys, "flip", tmp_path / "c", "--references", files[1])


def test_small_sets_and_single_references_are_said(
    tmp_path: Path, files: tuple[dict[str, Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    single = tmp_path / "single.json"
    single.write_text(json.dumps({image: texts[:1] for image, texts in json.loads(files[1].read_text()).items()}))
    run(capsys, "new", tmp_path / "c", *captions(files[0]))
    run(capsys, "select", tmp_path / "c", "--k", 3)
    assert "fewer than 5 images" in run(capsys, "stability", tmp_path / "c", "--references", single)
    assert "the median of all models' captions" in run(capsys, "statistics", tmp_path / "c", "--references", single)
    assert "the lower quartile of human captions" in run(capsys, "statistics", tmp_path / "c", "--references", files[1])


def test_people_s_judgements_appear_beside_the_ranking(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    images = small.competition.selection(0, 1).images
    lines = [{"id": image, "a": "model0", "b": "model1", "winner": "a"} for image in images]
    (small.directory / "judgements.jsonl").write_text("\n".join(map(json.dumps, lines)))
    people = run_json(capsys, "rank", small.directory, "--references", small.references)["people"]
    assert people["judgements"] == 8
    assert people["ranking"][0] == {
        "model": "model0",
        "strength": pytest.approx(people["ranking"][0]["strength"]),
        "rank": 1,
    }
    assert {row["metric"] for row in people["agreement"]} == {"cider", "rouge_l", "bleu_4"}
    assert "agreement with people" in run(capsys, "rank", small.directory, "--references", small.references)


def test_export(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tables"
    run(capsys, "export", small.directory, out, "--references", small.references)
    names = {path.name for path in out.iterdir()}
    assert names == {
        "selection.csv",
        "images.csv",
        "p_cider.csv",
        "f_cider.csv",
        "beats_cider.csv",
        "ranking_cider.csv",
    }
    assert (out / "selection.csv").read_text().count("\n") == 1 + 3 * 8


def test_mistakes_are_one_sentence(
    small: Small, tmp_path: Path, files: tuple[dict[str, Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is a competition already" in fail(capsys, "new", small.directory, *captions(files[0]))
    assert "is not a competition" in fail(capsys, "rank", tmp_path)
    assert "two caption files are named a" in fail(
        capsys, "new", tmp_path / "x", "--captions", "a=1", "--captions", "a=2"
    )
    assert "at least two models" in fail(capsys, "new", tmp_path / "x", *captions(files[0])[:2])
    assert "no selected image has a reference" in fail(capsys, "rank", small.directory)
    assert "--again" in fail(capsys, "select", small.directory, "--k", 9)
    assert "no goal 'fame'; choose from winner, order" in fail(capsys, "plan", small.directory, "--goal", "fame")
    assert "are both named a" in fail(capsys, "new", tmp_path / "x", "--captions", "a=1", "--captioner", "a=m2")
    assert "no metric" in fail(capsys, "rank", small.directory, "--references", small.references, "--metric", "x")
    small.files["model0"].write_text(small.files["model0"].read_text().replace("standing", "resting"))
    assert "captions of model0 have changed" in fail(capsys, "select", small.directory)
    assert run(capsys, "select", small.directory, "--ignore-changes")


def test_a_function_that_only_the_competition_names_is_never_imported(
    tmp_path: Path,
    files: tuple[dict[str, Path], Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stranger's competition.json must not choose what code runs; the user's own command line may."""
    trap = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
    (tmp_path / "trap.py").write_text(trap + "def alike(first, second):\n    return [0.0] * len(first)\n")
    monkeypatch.syspath_prepend(tmp_path)
    directory, (newcomer, *others) = tmp_path / "c", files[0].items()
    run(capsys, "new", directory, *captions(dict(others)))
    run(capsys, "select", directory, "--k", 3)
    manifest = directory / "competition.json"
    stored = json.loads(manifest.read_text())
    stored["selection"]["similarity"] = "trap:alike"
    manifest.write_text(json.dumps(stored))
    for verb in (["select", directory, "--again"], ["add", directory, *captions(dict([newcomer]))]):
        assert "--similarity trap:alike" in fail(capsys, *verb)
        assert not (tmp_path / "trap.ran").exists()
    added = run_json(capsys, "add", directory, *captions(dict([newcomer])), "--similarity", "trap:alike")
    assert added["new_pairs"] == 3
    assert (tmp_path / "trap.ran").exists()
