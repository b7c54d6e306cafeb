"""The toy world on disk: standard formats, the same bytes again, read back unchanged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pytest
from PIL import Image
from pycocotools import mask as coco_mask

from captrial.data.datasets import read_boxes, read_coco, read_karpathy
from captrial.errors import DatasetError, InputError
from captrial.toyworld import ToyWorld, ToyWorldSettings, read_phrases, read_toyworld, tokens, write_toyworld


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_written_images_are_the_rendered_ones(written: Path) -> None:
    world = ToyWorld(seed=4, size=64)
    assert np.array_equal(
        np.asarray(Image.open(written / "images/wild/wild_000003.png")), world.render("wild", 3).pixels
    )
    frame = written / "images/robot/room000-day-low/002.png"
    assert np.array_equal(np.asarray(Image.open(frame)), world.render("robot", 2).pixels)


def test_rerun_and_workers_give_the_same_bytes(written: Path, tmp_path: Path) -> None:
    before = files(written)
    shares = {"train": 2.0, "val": 1.0, "wild": 1.0, "robot": 1.0}
    write_toyworld(written, ToyWorldSettings(40, seed=4, size=64, shares=shares))
    write_toyworld(tmp_path / "other", ToyWorldSettings(40, seed=4, size=64, shares=shares), workers=2)
    assert files(written) == before == files(tmp_path / "other")


def test_karpathy_and_coco_readers_read_it(written: Path) -> None:
    captions = read_karpathy(written / "dataset.json")
    assert Counter(sample.split for sample in captions) == {"train": 16, "val": 8, "wild": 8, "robot": 8}
    assert all(sample.image.path is not None and sample.image.path.is_file() for sample in captions)
    for sample in captions:
        assert [list(words) for words in sample.extra["tokens"]] == [tokens(text) for text in sample.captions]  # type: ignore[attr-defined]
    boxes = read_coco(written / "instances.json", masks=True)
    truth = ToyWorld(seed=4, size=64)
    expected = truth.sample("train", 5)
    assert boxes[5].regions == expected.regions
    assert all(np.array_equal(a.mask, b.mask) for a, b in zip(boxes[5].regions, expected.regions, strict=True))


def test_masks_are_standard_coco(written: Path) -> None:
    for record in orjson.loads((written / "instances.json").read_bytes())["annotations"]:
        assert coco_mask.area(record["segmentation"]) == record["area"]
        assert list(coco_mask.toBbox(record["segmentation"])) == record["bbox"]


def test_read_back_equals_the_world(written: Path) -> None:
    truth = ToyWorld(seed=4, size=64)
    for sample in read_toyworld(written, split="wild", masks=True):
        index = int(sample.image.path.stem.split("_")[1])  # type: ignore[union-attr]
        expected = truth.sample("wild", index)
        assert sample.captions == expected.captions
        assert sample.phrases == expected.phrases
        assert sample.extra["scene_graph"] == expected.extra["scene_graph"]
        assert sample.image.label == expected.image.label
        for phrase in (phrase for phrases in sample.phrases for phrase in phrases):
            assert all(region.mask is not None for region in phrase.regions)


def test_phrases_and_robot_boxes_stand_alone(written: Path) -> None:
    phrases = read_phrases(written / "phrases.json")
    assert len(phrases) == 40
    assert any(phrase.regions for phrase in phrases["0"][0])
    frames = read_boxes(written / "images/robot/room000-day-low/boxes.json")
    assert [sample.id for sample in frames] == [f"{frame:03d}.png" for frame in range(8)]
    assert frames[2].regions == ToyWorld(seed=4, size=64).sample("robot", 2).regions


def test_bad_phrases_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "phrases.json"
    phrase = {"text": "a dog", "start": 0, "end": 2, "entity": "3", "kinds": ["animals"], "regions": [3]}
    path.write_bytes(orjson.dumps({"images": {"7": {"regions": [[0, 0, 5, 5, "dog"]], "sentences": [[phrase]]}}}))
    with pytest.raises(DatasetError, match="image '7': sentence 0, phrase 0: region 3"):
        read_phrases(path)


def test_a_folder_with_something_else_is_refused(written: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="other settings"):
        write_toyworld(written, ToyWorldSettings(41, seed=4, size=64))
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(DatasetError, match="is not a toy world"):
        write_toyworld(tmp_path, ToyWorldSettings(4))
    (tmp_path / "toyworld.json").write_text("{")
    with pytest.raises(DatasetError, match="not JSON"):
        write_toyworld(tmp_path, ToyWorldSettings(4))


@pytest.mark.parametrize("share", [-1.0, 0.0, float("nan"), float("inf")])
def test_bad_shares_are_refused(tmp_path: Path, share: float) -> None:
    with pytest.raises(InputError, match="positive numbers"):
        write_toyworld(tmp_path / "w", ToyWorldSettings(4, shares={"train": share}))
    assert not (tmp_path / "w").exists()


def test_a_bad_request_creates_no_folder(tmp_path: Path) -> None:
    for wrong in ({"size": 8}, {"image_format": "gif"}, {"shares": {"trian": 1.0}}):
        with pytest.raises(InputError):
            write_toyworld(tmp_path / "w", ToyWorldSettings(1, **wrong))  # type: ignore[arg-type]
    write_toyworld(tmp_path / "w", ToyWorldSettings(1, size=32))
