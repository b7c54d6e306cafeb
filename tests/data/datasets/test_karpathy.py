from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.data.datasets import present, read_karpathy
from captrial.errors import DatasetError


def image(index: int = 0, **fields: Any) -> dict[str, Any]:
    sentences = [{"raw": "A red bus.", "tokens": ["a", "red", "bus"], "sentid": 7 + index, "imgid": index}]
    filename = f"pic{index}.jpg"
    base = {"filename": filename, "imgid": index, "split": "train", "sentids": [7 + index], "sentences": sentences}
    return {key: value for key, value in {**base, **fields}.items() if value is not ...}


def write(folder: Path, *images: Any) -> Path:
    path = folder / "dataset.json"
    path.write_bytes(orjson.dumps({"dataset": "ours", "images": images}))
    return path


def test_flickr_form(tmp_path: Path) -> None:
    (sample,) = read_karpathy(write(tmp_path, image()))
    assert sample.id == "pic0.jpg"
    assert sample.captions == ("A red bus.",)
    assert sample.split == "train"
    assert sample.extra == {"imgid": 0, "sentids": [7], "tokens": (("a", "red", "bus"),)}
    assert sample.image.path is None


def test_coco_form_has_coco_ids_and_folders(tmp_path: Path) -> None:
    (tmp_path / "coco" / "val2014").mkdir(parents=True)
    path = write(
        tmp_path,
        image(0, cocoid=42, filepath="val2014"),
        image(1, cocoid=43, filepath="train2014"),  # no such sub-folder: images lie flat
    )
    samples = read_karpathy(path, images=tmp_path / "coco")
    assert [sample.id for sample in samples] == ["42", "43"]
    assert [sample.image.path for sample in samples] == [
        tmp_path / "coco" / "val2014" / "pic0.jpg",
        tmp_path / "coco" / "pic1.jpg",
    ]


def test_images_beside_the_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "pic1.jpg").touch()
    samples = read_karpathy(write(tmp_path, image(0), image(1)))
    assert samples[0].image.path == tmp_path / "images" / "pic0.jpg"
    assert present(samples) == samples[1:]


def test_splits_are_kept_apart_and_can_be_added(tmp_path: Path) -> None:
    path = write(tmp_path, image(0), image(1, split="restval"), image(2, split="val"))
    assert [sample.split for sample in read_karpathy(path)] == ["train", "restval", "val"]
    assert [sample.id for sample in read_karpathy(path, split="train")] == ["pic0.jpg"]
    assert [sample.id for sample in read_karpathy(path, split="train+restval")] == ["pic0.jpg", "pic1.jpg"]
    with pytest.raises(DatasetError, match=r"no split 'test'; it has restval \(1\), train \(1\), val \(1\)"):
        read_karpathy(path, split="test")


def test_a_image_without_captions_is_kept(tmp_path: Path) -> None:
    (sample,) = read_karpathy(write(tmp_path, image(sentences=[])))
    assert sample.captions == ()


def test_tokens_are_not_made_up(tmp_path: Path) -> None:
    (sample,) = read_karpathy(write(tmp_path, image(sentences=[{"raw": "A bus."}])))
    assert "tokens" not in sample.extra


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"filename": ...}, r"images\[0\]: 'filename' must be a string, found nothing"),
        ({"filename": "../secret.jpg"}, "leads out of the image folder"),
        ({"filename": "/etc/passwd"}, "leads out of the image folder"),
        ({"filename": "C:\\x.jpg"}, "leads out of the image folder"),
        ({"cocoid": "42"}, r"pic0\.jpg\): 'cocoid' must be a whole number, found a string"),
        ({"cocoid": True}, "'cocoid' must be a whole number"),
        ({"split": ...}, r"images\[0\] \(pic0\.jpg\): 'split' must be a string"),
        ({"sentences": {}}, "'sentences' must be a list, found an object"),
        ({"sentences": [{"tokens": ["a"]}]}, r"sentences\[0\]: 'raw' must be a string"),
        ({"sentences": [{"raw": "a", "tokens": [1]}]}, "'tokens' must be a list of strings"),
        ({"sentences": [{"raw": " \n"}]}, r"sentences\[0\]: the caption is empty"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        read_karpathy(write(tmp_path, image(**fields)))
    assert "dataset.json" in str(caught.value)


def test_two_images_with_one_id(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"images 0 and 1 share the id '5'"):
        read_karpathy(write(tmp_path, image(0, cocoid=5), image(1, cocoid=5)))


def test_files_that_are_no_karpathy_files(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    for content, message in [(b'{"images": [\n{]', "line 2"), (b"[]", "must be an object"), (b"{}", "'images'")]:
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=message):
            read_karpathy(path)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_karpathy(tmp_path / "none.json")
    with pytest.raises(DatasetError, match="no such image folder"):
        read_karpathy(write(tmp_path, image()), images=tmp_path / "none")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(image())), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=200)
@given(field=st.sampled_from([*image(), "cocoid", "filepath"]), value=JSON, sentence=JSON)
def test_malformed_input_is_a_dataset_error(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: Any, sentence: Any
) -> None:
    path = write(tmp_path_factory.getbasetemp(), image(0, **{field: value}), image(1, sentences=[sentence]))
    try:
        samples = read_karpathy(path)
    except DatasetError as error:
        samples, message = [], str(error)
    assert len(samples) == 2 or "dataset.json" in message


@pytest.mark.needs("data")
def test_flickr8k(data: Path) -> None:
    path = data / "flickr8k" / "dataset_flickr8k.json"
    samples = read_karpathy(path)
    assert len(samples) == 7500
    assert all(len(sample.captions) == 5 == len(sample.extra["tokens"]) for sample in samples)  # type: ignore[arg-type]
    assert len(present(samples)) == 7500
    assert Counter(sample.split for sample in samples) == {"train": 6000, "val": 1000, "test": 500}
