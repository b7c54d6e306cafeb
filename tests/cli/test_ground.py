"""`captrial ground` on a small toy world, from the command line to tables."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from PIL import Image

from captrial.errors import DatasetError, InputError, MismatchError
from captrial.toyworld import OBJECT_CLASSES
from grounding.study_world import common, image_ids, pixel_options, run, write_study_world


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_world(tmp_path_factory.mktemp("study"))


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
    boxes.write_bytes(
        orjson.dumps({image: [[0, 0, 9, 9, kind] for kind in OBJECT_CLASSES] for image in image_ids(place)})
    )
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


def test_bad_input_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--over words: there are elements and pixels"):
        run("ground", *common(place), "--out", tmp_path / "ground", "--over", "words")
    with pytest.raises(InputError, match="no attribution method 'gaze' for a whole data set"):
        run("ground", *common(place), "--out", tmp_path / "ground", "--methods", "attention,gaze")
    assert not (tmp_path / "ground").exists()  # said before anything was done
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


@pytest.mark.full
def test_pixels_from_the_command_line(place: Path, tmp_path: Path) -> None:
    """One image, through the real backbone: attributions of its pixels lie in the regions of the toy world."""
    rows = orjson.loads(run("ground", *pixel_options(place, tmp_path)))["verdicts"]["rows"]
    assert rows[0]["features"] == "efficientnet-lite0, pixels"
    assert (tmp_path / "out" / "nouns" / "model-saliency-pixels.jsonl").stat().st_size > 0
