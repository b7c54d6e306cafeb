from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from captrial.data.datasets import problems, read_sequences
from captrial.errors import DatasetError
from captrial.records import Box


def frames(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def boxes(folder: Path, document: Any, name: str = "boxes.json") -> None:
    (folder / name).write_bytes(orjson.dumps(document))


def test_frames_in_natural_order(tmp_path: Path) -> None:
    frames(tmp_path / "day" / "low", "frame10.png", "frame9.png", "notes.txt")
    frames(tmp_path / "night", "1.jpg")
    samples = read_sequences(tmp_path)
    assert [sample.id for sample in samples] == ["day/low/frame9.png", "day/low/frame10.png", "night/1.jpg"]
    assert [(sample.extra["sequence"], sample.extra["frame"]) for sample in samples] == [
        ("day/low", 0),
        ("day/low", 1),
        ("night", 0),
    ]
    assert samples[0].image.path == tmp_path / "day" / "low" / "frame9.png"


def test_boxes_as_json(tmp_path: Path) -> None:
    folder = frames(tmp_path / "room", "000000.png", "000001.png")
    boxes(folder, {"000001.png": [[1, 2, 3, 4, "chair"], [1, 1, 1, 4, "cup", 0.5]], "0": [[0, 0, 9, 9, "couch", 0.5]]})
    first, second = read_sequences(tmp_path)
    assert [(region.box, region.label, region.score) for region in first.regions] == [(Box(0, 0, 9, 9), "couch", 0.5)]
    assert [region.label for region in second.regions] == ["chair"]
    assert "box 1 (cup) is empty and was left out" in problems([second])[0]


def test_boxes_as_csv(tmp_path: Path) -> None:
    folder = frames(tmp_path / "room", "a.png", "b.png")
    (folder / "boxes.csv").write_text(
        'frame,x1,y1,x2,y2,label,score\na,1,2,3,4,"dining, table",0.25\nb.png,0,0,1,1,cup,1\n'
    )
    first, second = read_sequences(tmp_path)
    assert (first.regions[0].label, first.regions[0].score) == ("dining, table", 0.25)
    assert second.regions[0].box == Box(0, 0, 1, 1)


def test_acrv_labels_beside_frames_and_apart(tmp_path: Path) -> None:
    document = {
        "000000": {
            "_metadata": {"mask_name": "mask_0.png", "mask_channel": 0},
            "12": {"class": "chair", "mask_id": 3, "bounding_box": [10, 20, 19, 29]},
            "13": {"class": "cup", "mask_id": 4},
        },
        "000001": {},
    }
    folder = frames(tmp_path / "frames" / "000000", "0.png", "1.png", "mask_0.png")
    boxes(folder, document, "labels.json")
    first, second = read_sequences(tmp_path / "frames")  # the mask is no frame
    assert [region.box for region in first.regions] == [Box(10, 20, 20, 30)]
    assert first.extra["instances"] == ("12",)
    assert "object '13' (cup) has no bounding_box" in problems([first])[0]
    assert second.regions == ()

    (folder / "labels.json").rename(frames(tmp_path / "truth" / "000000") / "labels.json")
    (folder / "mask_0.png").unlink()
    apart = read_sequences(tmp_path / "frames", boxes=tmp_path / "truth")
    assert [len(sample.regions) for sample in apart] == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("boxes.json", '{"7.png": []}', r"frame '7\.png' has boxes and no image"),
        ("boxes.json", '{"0": [], "00": []}', r"frame 0\.png is named twice"),
        ("boxes.json", '{"0": [[1, 2, 3]]}', "box 0 must be"),
        ("boxes.json", "[]", "must be an object"),
        ("labels.json", '{"0": {"1": {"bounding_box": [0, 0, 1, 1]}}}', "'class' must be a string"),
        ("boxes.csv", "a,b\n", "line 1 must be `frame,x1"),
        ("boxes.csv", "frame,x1,y1,x2,y2,label\n0,1,2,x,4,cup\n", "line 2: could not convert"),
        ("boxes.csv", "frame,x1,y1,x2,y2,label\n0,1,2\n", "line 2: expected 6 columns, found 3"),
        ("boxes.csv", "frame,x1,y1,x2,y2,label\n0,1,nan,3,4,cup\n", "finite numbers"),
        ("boxes.csv", 'frame,x1,y1,x2,y2,label\n"0,1\n', "line 2: unexpected end"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (frames(tmp_path / "room", "0.png") / name).write_text(content)
    with pytest.raises(DatasetError, match=message) as caught:
        read_sequences(tmp_path)
    assert name in str(caught.value)


def test_folders_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such folder"):
        read_sequences(tmp_path / "none")
    with pytest.raises(DatasetError, match="no images in it"):
        read_sequences(tmp_path)
    folder = frames(tmp_path / "room", "0.png")
    with pytest.raises(DatasetError, match=r"no boxes\.json, boxes\.csv, labels\.json for the sequence room"):
        read_sequences(tmp_path, boxes=frames(tmp_path / "elsewhere"))
    boxes(folder, {})
    boxes(folder, {}, "labels.json")
    with pytest.raises(DatasetError, match=r"both boxes\.json and labels\.json"):
        read_sequences(tmp_path)


def test_the_robots_room_of_the_toy_world(tmp_path: Path) -> None:
    from captrial.toyworld import ToyWorldSettings, write_toyworld

    write_toyworld(tmp_path / "toy", ToyWorldSettings(6, shares={"robot": 1}, size=64))
    samples = read_sequences(tmp_path / "toy" / "images" / "robot")
    assert len(samples) == 6
    assert problems(samples) == []
    assert all(region.label for sample in samples for region in sample.regions)
