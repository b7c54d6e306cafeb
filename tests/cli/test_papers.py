"""`captrial papers wan|cornia|liu` on tiny data: all experiments, one page, finished ones are reused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from PIL import Image
from typer.testing import CliRunner

from attribution.toyworld_captioner import VISION, ToyFeatures, toy_checkpoint
from captrial.cli.app import app
from captrial.compete import Competition
from captrial.errors import DatasetError, InputError
from captrial.papers.experiments import load_papers
from captrial.papers.wan2022_competition import StudyCompetition, Wan2022Settings
from captrial.toyworld import ToyWorldSettings, read_toyworld, write_toyworld
from captrial.vision.detectors.region_detector import RegionDetector
from captrial.vision.features.feature_store import FeatureWriter

THINGS = ("dog", "cat", "boat", "tree", "house")
ACTS = ("runs along a long beach", "sits near a small table", "stands in the tall green grass")


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def states(printed: str) -> dict[str, str]:
    return {row["experiment"]: row["state"] for row in orjson.loads(printed)["experiments"]}


def holding(folder: Path, key: str) -> dict[str, bool | None]:
    claims = orjson.loads((folder / "experiments" / f"{key}.json").read_bytes())["result"]["claims"]
    return {claim["text"]: claim["holds"] for claim in claims}


def check_page(folder: Path, name: str) -> str:
    """One page that needs nothing else, with every experiment on it."""
    page = (folder / "index.html").read_text()
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    for experiment in load_papers()[name].experiments:
        assert f'id="{experiment.key}"' in page
        assert f"### {experiment.label}: {experiment.title}" in (folder / "results.md").read_text()
    return page


# Wan 2022 -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def caption_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models for thirty images: one is right, one errs on every second, one repeats words or is wrong."""
    folder = tmp_path_factory.mktemp("captions")
    (folder / "images" / "park").mkdir(parents=True)
    said: dict[str, dict[str, str]] = {"right": {}, "half": {}, "wrong": {}}
    references = {}
    for number in range(30):
        image = f"park/{number:02d}.png"
        Image.new("RGB", (24, 16), (8 * number, 90, 120)).save(folder / "images" / image)
        thing, other = THINGS[number % 5], THINGS[(number + 1) % 5]
        act, strange = ACTS[number % 3], ACTS[(number + 1) % 3]
        references[image] = [f"a {thing} {act}", f"one {thing} {act} today", f"the {thing} {act}"]
        said["right"][image] = f"a {thing} {act}"
        said["half"][image] = f"a {thing} {act}" if number % 2 else f"a {thing} {strange}"
        said["wrong"][image] = f"a {other} {strange}" if number % 4 else "a dog dog dog dog"
    for name, captions in said.items():
        (folder / f"{name}.json").write_bytes(orjson.dumps(captions))
    (folder / "references.json").write_bytes(orjson.dumps(references))
    return folder


def test_wan(caption_folder: Path, tmp_path: Path) -> None:
    arguments = ["papers", "wan", "--data", caption_folder, "--images", caption_folder / "images", "--out", tmp_path]
    arguments += ["--metrics", "cider,rouge_l", "--k", "8", "--json"]
    made = states(run(*arguments))
    assert {label for label, state in made.items() if state == "made"} == {
        *(f"Fig. {number}" for number in (3, 5, 6, 7, 8, 9, 10, 11, 12)),
        *(f"Table {number}" for number in (1, 2, 3, 4)),
    }
    ranking = orjson.loads((tmp_path / "experiments" / "figure-9.json").read_bytes())["values"][0]["rows"]
    assert [row["model"] for row in ranking if row["metric"] == "CIDEr"] == ["right", "half", "wrong"]
    statistics = orjson.loads((tmp_path / "experiments" / "table-2.json").read_bytes())["values"][0]["rows"][0]
    assert (statistics["refs"], statistics["max refs"]) == (3.0, 3)
    stuck = orjson.loads((tmp_path / "experiments" / "figure-12.json").read_bytes())["values"][0]["rows"][0]
    assert (stuck["model"], stuck["captions"], stuck["most frequent"]) == ("wrong", 8, "dog")
    # with 8 labels per pair f_ij has no interval, so nothing is claimed
    assert holding(tmp_path, "figure-7") == {"Few captioners dominate all others, one is dominated by all": None}
    page = check_page(tmp_path, "wan")
    assert "X-LAN" in page
    assert "By ROUGE-L in place of SPICE." in page
    with Image.open(tmp_path / "figures" / "examples.png") as image:
        assert min(image.size) > 200
    assert (tmp_path / "tables" / "table-3.csv").read_text().startswith("model,external CIDEr,rank,global rank,change")

    again = states(run(*arguments))
    assert {state for state in again.values() if not state.startswith("described")} == {"reused"}
    assert "reused: Fig. 3" in run(*arguments[:-1])
    changed = states(run(*arguments[:-2], "6", "--json"))
    assert "reused" not in changed.values()


def test_wan_says_what_is_missing(caption_folder: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for name in ("right", "wrong"):
        (few / f"{name}.json").write_bytes((caption_folder / f"{name}.json").read_bytes())
    with pytest.raises(InputError, match=r"references\.json \(captions by people\) beside them"):
        run("papers", "wan", "--data", few, "--out", tmp_path / "out")
    known = dict(list(orjson.loads((caption_folder / "references.json").read_bytes()).items())[:20])
    (few / "references.json").write_bytes(orjson.dumps(known))
    arguments = ["--data", few, "--out", tmp_path / "out", "--metrics", "rouge_l", "--k", "8", "--json"]
    made = states(run("papers", "wan", *arguments))
    assert made["Table 3"].startswith("not made: there are no external scores")
    assert made["Fig. 8"].startswith("not made: only one metric")
    scores = tmp_path / "scores.json"
    scores.write_text('{"right": {"rouge_l": 0.3}, "wrong": {"rouge_l": 0.4}}')
    assert states(run("papers", "wan", *arguments, "--external-scores", scores))["Table 3"] == "made"
    changes = orjson.loads((tmp_path / "out" / "experiments" / "table-3.json").read_bytes())["values"][0]["rows"]
    assert [(row["model"], row["change"]) for row in changes] == [("wrong", "-1"), ("right", "+1")]


def test_a_competition_of_other_settings_or_captions_is_made_anew(caption_folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("right", "half", "references"):
        (data / f"{name}.json").write_bytes((caption_folder / f"{name}.json").read_bytes())

    def made(**options: Any) -> Competition:
        return StudyCompetition(Wan2022Settings(data, k=4, **options), tmp_path).competition

    first = (made().directory / "pool.parquet").stat().st_ino
    assert (made().directory / "pool.parquet").stat().st_ino == first
    assert made(seed=7).manifest.seed == 7
    said = orjson.loads((data / "half.json").read_bytes())
    (data / "half.json").write_bytes(orjson.dumps({**said, "park/00.png": "something else"}))
    assert "something else" in [said["half"] for said in map(made(seed=7).captions_of, made(seed=7).selected_images())]
    (data / "wrong.json").write_bytes((caption_folder / "wrong.json").read_bytes())
    assert made(seed=7).models == ("half", "right", "wrong")


# Cornia 2022 and Liu 2017 ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy world with a test and a robot split, features of it, and untrained captioners."""
    folder = tmp_path_factory.mktemp("study")
    write_toyworld(folder / "world", ToyWorldSettings(8, size=64, shares={"test": 1, "robot": 1}))
    names = [sample.id for sample in read_toyworld(folder / "world")]
    for kind, extra in (("cells", {}), ("regions", {"regions": "made up"})):
        with FeatureWriter(folder / kind, {**VISION, **extra}) as writer:
            writer.add(names, ToyFeatures().get(names))
    for number, name in enumerate(("implicit", "strong")):
        toy_checkpoint(seed=number).save_pretrained(folder / name / "best")
    for preset in ("transformer", "smart"):
        made = toy_checkpoint(f"{preset}-small")
        made.save_pretrained(folder / preset)
        config = orjson.loads((folder / preset / "config.json").read_bytes())
        config["vision"]["regions"] = "made up"
        (folder / preset / "config.json").write_bytes(orjson.dumps(config))
        (folder / preset / "checksums.json").unlink()  # of the file before
    return folder


def test_grounding(place: Path, tmp_path: Path) -> None:
    models = ",".join(str(place / name) for name in ("transformer", "smart", "implicit"))
    arguments = ["papers", "cornia", "--data", place / "world", "--models", models, "--out", tmp_path]
    arguments += ["--features", f"{place / 'cells'},{place / 'regions'}", "--methods", "saliency"]
    arguments += ["--beam", "1", "--limit", "2", "--batches", "1,4", "--repeats", "2", "--json"]
    made = states(run(*arguments))
    assert made["Table 2"].startswith("not made: the data set has no val split (there are: test, robot)")
    assert {made[label] for label in ("Table 1", "Table 3", "Table 4", "Fig. 2")} == {"made"}
    rows = orjson.loads((tmp_path / "experiments" / "table-4.json").read_bytes())["values"][0]["rows"]
    assert [(row["features"], row["model"], row["method"]) for row in rows] == [
        ("regions", "transformer", "Saliency"),
        ("regions", "smart", "Saliency"),
        ("made up", "implicit", "Saliency"),
    ]
    for row in rows:
        values = [row[f"δ={delta}"]["value"] for delta in ("0", "1", "3", "5", "∞")]
        assert values == sorted(values)
    spent = orjson.loads((tmp_path / "experiments" / "figure-2.json").read_bytes())["values"][0]["rows"]
    assert set(spent[0]) == {"model", "batch 1", "batch 4"}
    assert len(holding(tmp_path, "table-3")) == 2
    page = check_page(tmp_path, "cornia")
    assert "71.92†" in page
    again = states(run(*arguments))
    assert {again[label] for label in ("Table 1", "Table 3", "Table 4", "Fig. 2")} == {"reused"}
    with pytest.raises(InputError, match=r"has no split dev; it has robot, test"):
        run(*arguments, "--split", "dev")
    with pytest.raises(InputError, match="--batches 1,x"):
        run(*arguments, "--batches", "1,x")
    with pytest.raises(InputError, match=r"--regions boxes: there are region-detector, .*, data, elements"):
        run(*arguments, "--regions", "boxes")
    with pytest.raises(DatasetError, match="the elements of these features have no labels"):
        run(*arguments, "--regions", "elements")


def test_grounding_on_the_regions_of_features(place: Path, tmp_path: Path) -> None:
    """Labels are those of the detector that made the features, whatever --limit."""
    names = [sample.id for sample in read_toyworld(place / "world")]
    found = ToyFeatures().get(names)
    detector = RegionDetector.from_pretrained()
    vision = {**VISION, "regions": "made up", "detector": detector.describe()}
    notes = [{"labels": ["dog"] * found.elements.shape[1]} for _ in names]
    with FeatureWriter(tmp_path / "labelled", vision) as writer:
        writer.add(names, found, notes)
    toy_checkpoint("transformer-small").save_pretrained(tmp_path / "model")
    config = orjson.loads((tmp_path / "model" / "config.json").read_bytes())
    config["vision"] = vision
    (tmp_path / "model" / "config.json").write_bytes(orjson.dumps(config))
    (tmp_path / "model" / "checksums.json").unlink()
    arguments = ["papers", "cornia", "--data", place / "world", "--models", tmp_path / "model", "--regions", "elements"]
    arguments += ["--features", tmp_path / "labelled", "--methods", "attention", "--beam", "1", "--limit", "1"]
    arguments += ["--batches", "1", "--repeats", "2", "--out", tmp_path / "out", "--json"]
    assert states(run(*arguments))["Table 3"] == "made"
    document = orjson.loads((tmp_path / "out" / "experiments" / "table-3.json").read_bytes())
    assert f"{len(detector.labels)} region labels" in orjson.dumps(document).decode()


def test_examples_are_drawn_by_any_method(place: Path, tmp_path: Path) -> None:
    arguments = ["papers", "cornia", "--data", place / "world", "--models", place / "smart", "--out", tmp_path]
    arguments += ["--features", place / "regions", "--methods", "rollout", "--split", "test", "--limit", "2"]
    made = states(run(*arguments, "--beam", "1", "--batches", "1", "--repeats", "1", "--json"))
    assert (made["Fig. 3"], made["Table 3"]) == ("made", "made")


def test_attention(place: Path, tmp_path: Path) -> None:
    arguments = ["papers", "liu", "--data", place / "world", "--split", "test", "--out", tmp_path]
    arguments += ["--models", f"{place / 'implicit'},{place / 'strong'}", "--features", place / "cells"]
    arguments += ["--beam", "1", "--examples", "2", "--json"]
    made = states(run(*arguments))
    assert {made[label] for label in ("Table 1", "Table 2", "Table 3", "Fig. 3", "Fig. 4", "Fig. 5")} == {"made"}
    rows = orjson.loads((tmp_path / "experiments" / "table-1.json").read_bytes())["values"][0]["rows"]
    forced = {row["model"]: row for row in rows if row["captions"] == "forced"}
    assert forced["implicit"]["phrases"] == forced["strong"]["phrases"] > 0
    better = forced["implicit"]["correctness"]["value"] > forced["implicit"]["baseline"]["value"]
    assert holding(tmp_path, "table-1")["Implicit attention beats uniform (forced)"] == better
    for name in ("figure-3.png", "figure-4-forced.png", "figure-5.png"):
        with Image.open(tmp_path / "figures" / name) as image:
            assert min(image.size) > 100
    assert "0.4329" in check_page(tmp_path, "liu")
    kept = list((tmp_path / "work").rglob("scores/*.json"))
    assert {path.stem.rpartition("-")[0] for path in kept} == {"implicit", "strong"}
    with pytest.raises(InputError, match="no attribution method 'gaze' for a whole data set"):
        run(*arguments, "--method", "gaze", "--out", tmp_path / "gaze")
    assert not (tmp_path / "gaze").exists()  # said before anything was done
    (tmp_path / "experiments" / "table-1.json").unlink()
    again = states(run(*arguments))
    assert (again["Table 1"], again["Table 2"]) == ("made", "reused")
