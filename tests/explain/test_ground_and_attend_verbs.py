"""`captrial ground` and `captrial attend` on a small toy world, from the command line to tables and figures."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from PIL import Image
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.errors import DatasetError, InputError, MismatchError
from captrial.grounding.study_data import StudyAttribution
from captrial.toyworld import OBJECT_CLASSES, ToyWorldSettings, read_toyworld, write_toyworld
from captrial.vision.features.feature_store import FeatureWriter
from explain.toys import VISION, ToyFeatures, toy_checkpoint


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy world, features of it, and two untrained captioners."""
    folder = tmp_path_factory.mktemp("study")
    write_toyworld(folder / "world", ToyWorldSettings(6, size=64, shares={"test": 1}))
    with FeatureWriter(folder / "features", VISION) as writer:
        writer.add(names(folder), ToyFeatures().get(names(folder)))
    for number, name in enumerate(("one", "two")):
        toy_checkpoint(seed=number).save_pretrained(folder / name / "best")
    return folder


def names(place: Path) -> list[str]:
    return [sample.id for sample in read_toyworld(place / "world")]


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def common(place: Path) -> list[str | Path]:
    return [
        "--data",
        place / "world",
        "--models",
        f"{place / 'one'},{place / 'two' / 'best'}",
        "--features",
        place / "features",
    ]


def test_attend_writes_tables_and_figures(place: Path, tmp_path: Path) -> None:
    printed = run("attend", *common(place), "--out", tmp_path, "--beam", "1", "--examples", "2", "--json")
    document = orjson.loads(printed)
    assert {row["model"] for row in document["correctness"]["rows"]} == {"one", "two"}
    assert document == orjson.loads((tmp_path / "tables.json").read_bytes())
    for name in ("correctness.csv", "correctness.tex", "size-forced.csv", "spearman.tex", "scores/one-attention.json"):
        assert (tmp_path / name).stat().st_size > 0
    for name in ("histogram-forced.png", "histogram-generated.png", "examples-forced.png", "targets.png"):
        with Image.open(tmp_path / name) as image:
            assert min(image.size) > 100
    shown = run("attend", *common(place), "--out", tmp_path, "--captions", "forced", "--examples", "0", "--limit", "2")
    assert "Attention correctness (Liu 2017 Table 1)" in shown


def test_ground_writes_tables_and_resumes(place: Path, tmp_path: Path) -> None:
    arguments = ["ground", *common(place), "--out", tmp_path, "--methods", "attention", "--beam", "1"]
    document = orjson.loads(run(*arguments, "--json"))
    assert set(document) == {"grounding", "grounding-checkable", "verdicts", "detection"}
    assert document["detection"]["rows"][0]["recall"] in (0, 1)
    row = document["grounding"]["rows"][0]
    assert row["section"] == "made up"
    values = [row[f"Attention δ={delta}"]["value"] for delta in ("0", "1", "3", "5", "∞")]
    assert values == sorted(values)
    kept = tmp_path / "nouns" / "one-attention.jsonl"
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while writing the third image
    assert orjson.loads(run(*arguments, "--json")) == document
    assert sorted(kept.read_bytes().splitlines()) == sorted(line.rstrip() for line in lines)
    assert "tau_g" in run(*arguments)
    with pytest.raises(MismatchError, match="made with other settings"):
        run(*arguments, "--threshold", "0.5")
    with pytest.raises(MismatchError, match="made with other settings"):
        run(*arguments, "--beam", "2")
    boxes = tmp_path / "boxes.json"
    boxes.write_bytes(orjson.dumps({image: [[0, 0, 9, 9, kind] for kind in OBJECT_CLASSES] for image in names(place)}))
    with pytest.raises(MismatchError, match="made with other settings"):
        run(*arguments, "--boxes", boxes)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # Ray's own warnings are not ours
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_ground_on_an_engine_is_the_same(place: Path, tmp_path: Path, engine: str) -> None:
    arguments = ["ground", *common(place), "--methods", "attention", "--beam", "1", "--json", "--out"]
    there = ["--engine", engine, "--workers", "2"]
    assert orjson.loads(run(*arguments, tmp_path / "a")) == orjson.loads(run(*arguments, tmp_path / "b", *there))
    assert (tmp_path / "b" / "nouns" / "one-attention.parts" / "part-000000.parquet").exists()
    next((place / "one").rglob("model.safetensors")).touch()  # as where it was trained on
    with pytest.raises(MismatchError, match=r"another model\)"):
        run(*arguments, tmp_path / "b", *there)


def test_bad_input_is_said(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--captions spoken: there are forced and generated"):
        run("attend", *common(place), "--out", tmp_path, "--captions", "spoken")
    for verb in ("ground", "attend"):
        with pytest.raises(InputError, match="--over words: there are elements and pixels"):
            run(verb, *common(place), "--out", tmp_path / verb, "--over", "words")
        with pytest.raises(InputError, match="no attribution method 'gaze' for a whole data set"):
            run(verb, *common(place), "--out", tmp_path / verb, "--methods", "attention,gaze")
        assert not (tmp_path / verb).exists()  # said before anything was done
    with pytest.raises(InputError, match="--regions gaze: there are localiser, onnx:FILE, detr:MODEL, data, elements"):
        run("ground", *common(place), "--out", tmp_path, "--regions", "gaze")
    with pytest.raises(InputError, match="--steps works in one process"):
        run("ground", *common(place), "--out", tmp_path, "--steps", "4", "--workers", "2")
    with pytest.raises(InputError, match="two captioners are called one"):
        run("ground", "--data", place / "world", "--models", f"{place / 'one'},{place / 'one'}", "--out", tmp_path)
    with pytest.raises(DatasetError, match="no labels; they are no regions"):
        run("ground", *common(place), "--out", tmp_path, "--regions", "elements", "--methods", "attention")
    boxes = tmp_path / "boxes.json"
    boxes.write_text('{"nobody": [[0, 0, 1, 1, "dog"]]}')
    with pytest.raises(DatasetError, match="none of its ids is an image"):
        run("ground", *common(place), "--out", tmp_path, "--boxes", boxes)
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (40, 30)).save(images / "plain.png")
    with pytest.raises(DatasetError, match="no image has a region with a label"):
        run("ground", "--data", images, "--models", place / "one", "--out", tmp_path)
    with pytest.raises(DatasetError, match=r"image plain.png has no reference caption"):
        run("attend", "--data", images, "--models", place / "one", "--out", tmp_path)


def test_results_over_pixels_have_files_of_their_own() -> None:
    assert StudyAttribution("elements", 8).file_stem("m2", "saliency") == "m2-saliency"
    pixels = StudyAttribution("pixels", 8)
    assert StudyAttribution("pixels").file_stem("m2", "saliency") == "m2-saliency-pixels"
    assert pixels.file_stem("m2", "integrated_gradients") == "m2-integrated_gradients-pixels-8-steps"
    assert pixels.file_stem("m2", "attention") == "m2-attention"  # always over visual elements


@pytest.mark.full
def test_pixels_from_the_command_line(place: Path, tmp_path: Path) -> None:
    """One image, through the real backbone: attributions of its pixels lie in the regions of the toy world."""
    from dataclasses import replace

    from captrial.captioners.registry import create
    from captrial.vision.backbones.efficientnet import EfficientNetLite

    backbone, toy = EfficientNetLite(0), toy_checkpoint()
    captioner = create("show_attend_tell-small", words=len(toy.vocabulary), features=backbone.width).eval()
    replace(toy, captioner=captioner, vision=backbone.describe()).save_pretrained(tmp_path / "model")
    arguments = ["--data", place / "world", "--models", tmp_path / "model", "--out", tmp_path / "out", "--beam", "1"]
    arguments += ["--over", "pixels", "--methods", "saliency", "--limit", "1", "--json"]
    rows = orjson.loads(run("ground", *arguments))["verdicts"]["rows"]
    assert rows[0]["features"] == "efficientnet-lite0, pixels"
    assert (tmp_path / "out" / "nouns" / "model-saliency-pixels.jsonl").stat().st_size > 0
    rows = orjson.loads(run("attend", *arguments, "--captions", "forced", "--examples", "0"))["correctness"]["rows"]
    assert rows[0]["method"] == "saliency, pixels"
    assert (tmp_path / "out" / "scores" / "model-saliency-pixels.json").stat().st_size > 0
