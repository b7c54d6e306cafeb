"""`captrial ground` on a small toy world, from the command line to tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from PIL import Image
from pycocotools import mask as coco_mask

from attribution.toyworld_captioner import ToyFeatures, toy_checkpoint
from captrial.attribution.dataset_attribution import DatasetAttributor
from captrial.errors import DatasetError, InputError, MismatchError
from captrial.toyworld import OBJECT_CLASSES
from grounding.study_world import common, image_ids, official_coco, pixel_options, run, write_study_world


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_world(tmp_path_factory.mktemp("study"))


def test_ground_writes_tables_and_resumes(place: Path, tmp_path: Path) -> None:
    arguments = ["ground", *common(place), "--out", tmp_path, "--methods", "attention", "--beam", "1"]
    document = orjson.loads(run(*arguments, "--json"))
    tables = {"grounding", "grounding-checkable", "skill", "skill-checkable", "verdicts", "detection"}
    assert set(document) == {*tables, "results"}
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


def top_regions(folder: Path, model: str = "one") -> dict[str, list[str]]:
    """The label of the top region of every word, by image."""
    lines = (folder / "nouns" / f"{model}-attention.jsonl").read_bytes().splitlines()[1:]
    return {line["id"]: line["top_regions"] for line in map(orjson.loads, lines)}


def by_pycocotools(place: Path, instances: Path, masks: bool) -> dict[str, list[str]]:
    """The same by pycocotools' masks (or by boxes): the region with the largest sum of the weights of its pixels."""
    attributor = DatasetAttributor("one", toy_checkpoint(), ToyFeatures(), beam=1)
    coco = orjson.loads(instances.read_bytes())
    names = {category["id"]: category["name"] for category in coco["categories"]}
    found: dict[str, list[str]] = {}
    for image in image_ids(place):
        records = [record for record in coco["annotations"] if str(record["image_id"]) == image]
        regions = []
        for record in records:
            encoded = record["segmentation"]
            if isinstance(encoded, list) or isinstance(encoded["counts"], list):
                encoded = coco_mask.frPyObjects(encoded, 64, 64)
            encoded = coco_mask.merge(encoded) if isinstance(encoded, list) else encoded
            mask = coco_mask.decode(encoded).astype(bool)
            x, y, width, height = map(int, record["bbox"])
            box = np.zeros_like(mask)
            box[y : y + height, x : x + width] = True
            regions.append(mask if masks else box)
        ((weights,),) = attributor.attribute([image], [[attributor.caption([image])[0].split()]])
        assert weights.grid is not None
        cells = weights.weights.reshape(-1, *weights.grid)
        pixels = cells.repeat(64 // weights.grid[0], 1).repeat(64 // weights.grid[1], 2)
        scores = np.array([[word[region].sum() for region in regions] for word in pixels])
        found[image] = [names[records[place]["category_id"]] for place in scores.argmax(1)]
    return found


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # inside pycocotools
@pytest.mark.parametrize("form", ["toyworld", "coco", "boxes"])
def test_masks_are_the_regions_when_asked_for(form: str, place: Path, tmp_path: Path) -> None:
    """Top regions by masks and by boxes are those that pycocotools' masks give, in every form of the files."""
    data, instances = place / "world", place / "world" / "instances.json"
    more: list[str | Path] = []
    if form != "toyworld":
        folder = official_coco(place, tmp_path / "coco") / "annotations"
        data = folder if form == "coco" else folder / "captions_val2017.json"
        more, instances = ["--images", place / "world" / "images"], folder / "instances_val2017.json"
        more += ["--boxes", instances] if form == "boxes" else []
    options = ["--data", data, "--models", place / "one", "--features", place / "features", "--rule", "sum", *more]
    options += ["--methods", "attention", "--beam", "1"]
    for masks in (False, True):
        out = tmp_path / str(masks)
        run("ground", *options, *["--masks"] * masks, "--out", out)
        assert top_regions(out) == by_pycocotools(place, instances, masks)
    assert top_regions(tmp_path / "True") != top_regions(tmp_path / "False")
    with pytest.raises(MismatchError, match="made with other settings"):
        run("ground", *options, "--masks", "--out", tmp_path / "False")
    document = orjson.loads(run("ground", *options, "--masks", "--out", tmp_path / "True", "--json"))
    assert document["results"][0]["masks"] is True
    assert document["results"][0]["regions"] == "data"
    assert any("regions are their masks" in note for note in document["grounding"]["notes"])


@pytest.mark.full
def test_masks_reach_workers(place: Path, tmp_path: Path) -> None:
    arguments = ["ground", *common(place), "--methods", "attention", "--beam", "1", "--masks", "--json", "--out"]
    assert orjson.loads(run(*arguments, tmp_path / "a")) == orjson.loads(
        run(*arguments, tmp_path / "b", "--workers", "2")
    )


def test_masks_that_are_not_there_are_said(place: Path, tmp_path: Path) -> None:
    options = [*common(place), "--masks", "--out", tmp_path / "out"]
    with pytest.raises(InputError, match="--masks: region-detector gives boxes"):
        run("ground", *options, "--regions", "region-detector")
    boxes = tmp_path / "boxes.json"
    boxes.write_bytes(orjson.dumps({image: [[0, 0, 9, 9, "dog"]] for image in image_ids(place)}))
    for command in ("ground", "attend"):
        with pytest.raises(DatasetError, match="--masks: no region of these images has a mask, only boxes"):
            run(command, *options, "--boxes", boxes)


def test_bad_input_is_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--over words: there are elements and pixels"):
        run("ground", *common(place), "--out", tmp_path / "ground", "--over", "words")
    nowhere = ["ground", "--data", str(place / "world"), "--models", "nonsense", "--out", tmp_path / "ground"]
    with pytest.raises(InputError, match=r"--models nonsense: no such folder and no captioner .* there are: m2, .*ort"):
        run(*nowhere)
    with pytest.raises(InputError, match="no attribution method 'gaze' for a whole data set"):
        run("ground", *common(place), "--out", tmp_path / "ground", "--methods", "attention,gaze")
    assert not (tmp_path / "ground").exists()  # said before anything was done
    with pytest.raises(
        InputError, match="--regions gaze: there are region-detector, localiser, onnx:FILE, detr:MODEL, data, elements"
    ):
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
