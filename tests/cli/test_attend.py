"""`captrial attend` on a small toy world, from the command line to tables and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from PIL import Image

from attribution.toyworld_captioner import toy_checkpoint
from captrial.errors import DatasetError, InputError
from captrial.language.tokenizer import tokenize
from captrial.toyworld import read_toyworld
from grounding.study_world import common, official_coco, pixel_options, run, write_study_world


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_world(tmp_path_factory.mktemp("study"))


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


def test_bad_input_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--captions spoken: there are forced, generated, forced-classes"):
        run("attend", *common(place), "--out", tmp_path, "--captions", "spoken")
    with pytest.raises(InputError, match="--phrase min: there are max and mean"):
        run("attend", *common(place), "--out", tmp_path, "--phrase", "min")
    with pytest.raises(InputError, match="--over words: there are elements and pixels"):
        run("attend", *common(place), "--out", tmp_path / "attend", "--over", "words")
    with pytest.raises(InputError, match="no attribution method 'gaze' for a whole data set"):
        run("attend", *common(place), "--out", tmp_path / "attend", "--methods", "attention,gaze")
    assert not (tmp_path / "attend").exists()  # said before anything was done
    images = tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (40, 30)).save(images / "plain.png")
    with pytest.raises(DatasetError, match=r"image plain.png has no reference caption"):
        run("attend", "--data", images, "--models", place / "one", "--out", tmp_path)


@pytest.mark.full
def test_pixels_from_the_command_line(place: Path, tmp_path: Path) -> None:
    """One image, through the real backbone."""
    options = [*pixel_options(place, tmp_path), "--captions", "forced", "--examples", "0"]
    rows = orjson.loads(run("attend", *options))["correctness"]["rows"]
    assert rows[0]["method"] == "saliency, pixels"
    assert (tmp_path / "out" / "scores" / "model-saliency-pixels.json").stat().st_size > 0


@pytest.mark.parametrize("form", ["toyworld", "coco", "boxes"])
def test_masks_are_measured_against_when_asked_for(form: str, place: Path, tmp_path: Path) -> None:
    """Masks of the toy world and of COCO's files, read together or by --boxes; they are smaller than their boxes."""
    data = place / "world"
    more: list[str | Path] = []
    if form != "toyworld":
        folder = official_coco(place, tmp_path / "coco") / "annotations"
        data = folder if form == "coco" else folder / "captions_val2017.json"
        more = ["--images", place / "world" / "images"]
        more += ["--boxes", folder / "instances_val2017.json"] if form == "boxes" else []
    options = ["--data", data, "--models", place / "one", "--features", place / "features", "--examples", "0", *more]
    areas = []
    for masks in ([], ["--masks"]):
        printed = run("attend", *options, *masks, "--beam", "1", "--out", tmp_path / "out", "--json")
        row = orjson.loads(printed)["correctness"]["rows"][0]
        assert row["captions"] == ("forced" if form == "toyworld" else "forced-classes")
        assert row["phrases"] > 5
        areas.append(row["baseline"]["value"])
    assert areas[1] < 0.9 * areas[0]


def test_maps_of_another_program_from_the_command_line(place: Path, tmp_path: Path) -> None:
    """Uniform maps score the baseline; beside a captioner they are the first model of the tables."""
    samples = read_toyworld(place / "world")
    arrays = {
        f"{sample.id}#{number}": np.ones((len(tokenize(caption)), 3, 5))
        for sample in samples
        for number, caption in enumerate(sample.captions)
    }
    np.savez(tmp_path / "flat.npz", **arrays)
    options = ["--data", place / "world", "--maps", tmp_path / "flat.npz", "--examples", "0", "--out", tmp_path / "out"]
    rows = orjson.loads(run("attend", *options, "--captions", "forced", "--json"))["correctness"]["rows"]
    assert [(row["model"], row["method"]) for row in rows] == [("flat", "maps")]
    assert rows[0]["correctness"]["value"] == pytest.approx(rows[0]["baseline"]["value"])
    both = [*options, "--models", place / "one", "--features", place / "features", "--captions", "forced", "--json"]
    rows = orjson.loads(run("attend", *both))["leads"]["rows"]
    assert [row["models"] for row in rows] == ["one - flat (maps)"]
    with pytest.raises(InputError, match="generated captions need their texts: --map-captions FILE"):
        run("attend", *options)
    with pytest.raises(InputError, match="--models for captioners, --maps"):
        run("attend", "--data", place / "world")


def test_layers_and_heads_from_the_command_line(place: Path, tmp_path: Path) -> None:
    toy_checkpoint("transformer-small").save_pretrained(tmp_path / "heads")
    options = ["--data", place / "world", "--models", tmp_path / "heads", "--features", place / "features", "--heads"]
    printed = run("attend", *options, "--captions", "forced", "--examples", "0", "--out", tmp_path / "out", "--json")
    rows = orjson.loads(printed)["heads"]["rows"]
    assert {(row["layer"], row["head"]) for row in rows} >= {("1", 1), ("2", 1)}
    with pytest.raises(InputError, match="ShowAttendTell has no layers and heads"):
        run("attend", *common(place), "--heads", "--captions", "forced", "--out", tmp_path / "out")
