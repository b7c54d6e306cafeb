"""`captrial compete` as people and scripts use it: JSON shapes, tables, exit codes, what to do next."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from annotate.annotation_world import make_competition
from captrial.cli import main
from captrial.compete import Competition
from captrial.compete.competition import verify_competition
from captrial.metrics.registry import METRICS, Need
from cli.writing_verbs import contents
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
    selected = run_json(capsys, "select", directory, "--k", 30)
    assert selected["k"] == 30
    assert [pair["models"] for pair in selected["pairs"]] == [
        ["model0", "model1"],
        ["model0", "model2"],
        ["model1", "model2"],
    ]
    assert all(len(pair["images"]) == len(pair["similarity"]) == 30 for pair in selected["pairs"])
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
    assert "ranking by CIDEr" in run(capsys, "rank", small.directory, *labelled)
    assert "SRCC" in run(capsys, "stability", small.directory, *labelled)
    assert "carries little information" in run(capsys, "stability", small.directory, *labelled)
    assert "repetition" in run(capsys, "repetition", small.directory)
    assert "wins" in run(capsys, "flip", small.directory, *labelled)
    assert "Settled" in run(capsys, "plan", small.directory, *labelled)  # the whole pool is labelled
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
    assert "--design hybrid" in fail(capsys, "plan", small.directory)  # D says nothing certain about the pool
    run(capsys, "select", small.directory, "--design", "hybrid")
    plan = run_json(capsys, "plan", small.directory)
    assert plan["settled"] is False
    assert len(plan["next_images"]) == min(20, plan["to_label"])
    facts = run_json(capsys, "statistics", small.directory, *labelled)
    assert facts["annotations"]["refs"] == 3
    assert len(facts["outcomes"]) == 3


def test_designs_and_targets(
    files: tuple[dict[str, Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = json.loads(files[1].read_text())
    for design in ("discrepancy", "random", "weighted", "hybrid"):
        directory = tmp_path / design
        run(capsys, "new", directory, *captions(files[0]))
        found = run_json(capsys, "select", directory, "--design", design, "--labels", 24)
        assert {"k", "pairs"} <= found.keys()
        images = [part["image"] for part in found.get("sample", [])] or Competition.open(directory).images_to_label()
        assert 12 <= len(images) <= 24
        assert len(set(images)) == len(images)
        labels = tmp_path / f"{design}.json"
        labels.write_text(json.dumps({image: truth[image] for image in images}))
        if design == "discrepancy":
            assert "sample" not in found
            refused = fail(capsys, "rank", directory, "--references", labels, "--target", "pool")
            assert "say nothing certain about the whole pool" in refused
            assert "pool" not in run_json(capsys, "rank", directory, "--references", labels)
            continue
        assert all(0 < part["probability"] <= 1 for part in found["sample"])
        ranked = run_json(capsys, "rank", directory, "--references", labels)
        assert ranked["pool"][0]["model"] == "model0"
        assert ranked["pool_labels"] == len(images)
        assert ranked["pool"][0].keys() >= {"model", "score", "low", "high", "rank", "rank_low", "rank_high", "first"}
        shown = run(capsys, "rank", directory, "--references", labels, "--target", "pool")
        assert "on the whole pool" in shown
        assert "where captions differ most" not in shown
    assert "no target 'both'" in fail(capsys, "rank", directory, "--references", labels, "--target", "both")
    assert "no design 'best'" in fail(capsys, "select", directory, "--design", "best")


def test_a_metric_may_need_more_than_captions(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("rank", small.directory, "--references", small.references, "--metric")
    assert "(--objects FILE)" in fail(capsys, *given, "chair")
    assert "compete new --images" in fail(capsys, *given, "clip")
    assert "this competition has no images" in fail(capsys, *given, "clip", "--clip", "any")
    objects = tmp_path / "objects.json"
    images = Competition.open(small.directory).pool.ids().to_pylist()
    objects.write_text(json.dumps({f"photos/{image}.jpg": ["dog"] for image in images}))  # ids spelled differently
    found = run_json(capsys, *given, "chair", "--objects", objects)
    assert found["metric"] == "chair"
    assert all(row["score"] is not None for row in found["ranking"])


def test_more_labels_continue_the_sample(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    first = run_json(capsys, "select", small.directory, "--design", "weighted", "--labels", 10)["sample"]
    more = ["--design", "weighted", "--labels", 20, "--between", "model0,model1"]
    second = run_json(capsys, "select", small.directory, *more)["sample"]
    assert [part["image"] for part in second][:10] == [part["image"] for part in first]
    assert len(second) == 20
    assert "no model 'nobody' here" in fail(capsys, "select", small.directory, "--labels", 30, "--between", "nobody")


def test_labels_are_different_images_in_all(
    files: tuple[dict[str, Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "new", tmp_path / "trial", *captions(files[0]))
    for labels in (20, 31):
        select = ["select", tmp_path / "trial", "--labels", labels, *(["--between", "model0,model1"] * (labels > 20))]
        assert f"{labels} to label in all" in run(capsys, *select)
        opened = Competition.open(tmp_path / "trial")
        assert len(set(opened.images_to_label())) == labels
    shared = set(opened.sampled_images()) & set(opened.selected_images())
    assert len(opened.sampled_images()) == 31 - len(opened.selected_images()) + len(shared)
    run(capsys, "new", tmp_path / "few", *captions(files[0]))
    said = " ".join(run(capsys, "select", tmp_path / "few", "--labels", 2).split())
    assert "no image is sampled and nothing can be said about the whole pool; use --labels" in said


@pytest.fixture
def long(files: tuple[dict[str, Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[object]:
    """A labelled competition in which model0, the best, writes 24 words per caption."""
    rows = json.loads(files[0]["model0"].read_text())
    for row in rows:
        row["caption"] += ". Behind it there are many old trees and a house with a red roof and a small garden."
    files[0]["model0"].write_text(json.dumps(rows))
    run(capsys, "new", tmp_path / "long", *captions(files[0]))
    run(capsys, "select", tmp_path / "long", "--k", 10, "--design", "discrepancy")
    return [tmp_path / "long", "--references", files[1]]


def test_long_captions_are_noticed_and_can_be_cut(long: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    whole = run_json(capsys, "rank", *long, "--metric", "cider")
    assert whole["ranking"][0]["model"] != "model0"
    assert "model0 writes 24 words per caption" in whole["lengths"][0]
    for cut in (["--first-sentence"], ["--max-words", 7]):
        found = run_json(capsys, "rank", *long, *cut)
        assert (found["metric"], found["ranking"][0]["model"]) == ("cider", "model0")  # of one length again


@pytest.mark.needs("minilm")
@pytest.mark.slow
def test_captions_of_very_different_lengths_are_ranked_by_meaning(
    long: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_json(capsys, "rank", *long)
    assert found["metric"] == "semantic"
    assert "semantic compares them sentence by sentence" in found["lengths"][0]
    assert found["lengths"][-1].startswith("ranked by semantic, the default for captions of such lengths")
    assert len(run_json(capsys, "rank", *long, "--metric", "semantic")["lengths"]) == 1
    assert run_json(capsys, "flip", *long)["metric"] == run_json(capsys, "stability", *long)["metric"] == "semantic"


def test_without_an_encoder_they_are_ranked_by_cider(
    long: list[object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = replace(METRICS["semantic"], needs=(Need("an encoder", lambda _: False),))
    monkeypatch.setitem(METRICS, "semantic", absent)
    found = run_json(capsys, "rank", *long)
    assert found["metric"] == "cider"
    assert "--metric semantic compares them by meaning" in found["lengths"][0]


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
    labelled = ["--references", small.references, "--external-scores", table]
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
    assert "ranking by CIDEr" in run(capsys, "rank", ".", "--references", small.references)


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
    first = people["ranking"][0]
    assert (first["model"], first["rank"], first["images"]) == ("model0", 1, 8)
    assert first["low"] > 0.45
    assert {row["metric"] for row in people["agreement"]} == {"cider", "rouge_l", "bleu_4"}
    assert "agreement with people" in run(capsys, "rank", small.directory, "--references", small.references)


def test_export(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tables"
    run(capsys, "export", small.directory, out, "--references", small.references)
    names = {path.name for path in out.iterdir()}
    assert names - {"checksums.json"} == {
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
    (directory / "checksums.json").unlink()  # a stranger would write one that matches
    for verb in (["select", directory, "--again"], ["add", directory, *captions(dict([newcomer]))]):
        assert "--similarity trap:alike" in fail(capsys, *verb)
        assert not (tmp_path / "trap.ran").exists()
    added = run_json(capsys, "add", directory, *captions(dict([newcomer])), "--similarity", "trap:alike")
    assert added["new_pairs"] == 3
    assert (tmp_path / "trap.ran").exists()


def test_ids_of_different_spellings_meet_and_other_languages_are_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """`139`, `000000000139.jpg` and a path are one image, for caption files and references alike."""
    spellings = {"a": "{}", "b": "{:012d}.jpg", "c": "/data/photos/COCO_val2014_{:012d}.jpg"}
    words = {"a": "a dog runs over the field number", "b": "the cat sits on a red mat", "c": "ein Hund läuft über die"}
    lines = []
    for name, spelling in spellings.items():
        captions = {spelling.format(number): f"{words[name]} {number}" for number in range(1, 31)}
        (tmp_path / f"{name}.json").write_text(json.dumps(captions))
        lines += ["--captions", f"{name}={tmp_path / name}.json"]
    references = {f"COCO_val2014_{number:012d}": ["a dog runs", "a dog is running"] for number in range(1, 31)}
    (tmp_path / "references.json").write_text(json.dumps(references))
    trial = str(tmp_path / "trial")
    for command in (["new", trial, *lines], ["new", f"{trial}2", "--common", *lines], ["select", trial, "--k", "4"]):
        with pytest.raises(SystemExit, match="0"):
            main(["compete", *command])
    assert "30 ids matched by number" in caplog.text
    shown = capsys.readouterr().out
    assert "do not look English" in shown
    assert shown.count("do not look English") == 2  # of c, in both
    with pytest.raises(SystemExit, match="0"):
        main(["compete", "rank", trial, "--references", str(tmp_path / "references.json"), "--json"])
    assert len(json.loads(capsys.readouterr().out)["ranking"]) == 3


def test_images_that_were_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_competition(tmp_path)
    before = contents(directory)
    (tmp_path / "source" / "images").rename(tmp_path / "moved")
    assert not run_json(capsys, "images", directory, tmp_path / "moved")["missing"]
    assert Competition.open(directory).image_root == tmp_path / "moved"
    assert verify_competition(directory).problems == ()
    changed = {name for name, content in contents(directory).items() if before.get(name) != content}
    assert changed <= {"competition.json", "checksums.json"}
    (tmp_path / "empty").mkdir()
    assert "none of the images of this competition is there" in fail(capsys, "images", directory, tmp_path / "empty")
    assert Competition.open(directory).image_root == tmp_path / "moved"
