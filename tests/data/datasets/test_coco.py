from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.data.datasets import (
    join,
    masked_regions,
    masks,
    present,
    problems,
    read_boxes,
    read_coco,
    read_dataset,
    segmentation_mask,
    with_boxes,
    with_masks,
)
from captrial.errors import DatasetError
from captrial.records import Box, Region

IMAGES = [
    {"id": 42, "file_name": "000000000042.jpg", "width": 6, "height": 4},
    {"id": 7, "file_name": "000000000007.jpg", "width": 5, "height": 5},
]
CAPTIONS = [
    {"id": 1, "image_id": 7, "caption": "A cat.\n"},
    {"id": 2, "image_id": 42, "caption": "A dog."},
    {"id": 3, "image_id": 7, "caption": "The cat."},
]
MASK = np.array([[0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]], bool)
INSTANCE: dict[str, Any] = {"image_id": 42, "category_id": 3, "bbox": [1, 1, 3, 2], "iscrowd": 0}
CATEGORIES = [{"id": 3, "name": "dog"}]


def write(path: Path, **document: Any) -> Path:
    path.write_bytes(orjson.dumps(document))
    return path


def captions_file(folder: Path) -> Path:
    return write(folder / "captions.json", images=IMAGES, annotations=CAPTIONS)


def instances_file(folder: Path, *instances: dict[str, Any]) -> Path:
    return write(folder / "instances.json", images=IMAGES, annotations=instances, categories=CATEGORIES)


def test_captions(tmp_path: Path) -> None:
    first, second = read_coco(captions_file(tmp_path), images=tmp_path)
    assert (first.id, first.captions) == ("42", ("A dog.",))
    assert (second.id, second.captions) == ("7", ("A cat.\n", "The cat."))
    assert first.image.path == tmp_path / "000000000042.jpg"
    assert (first.image.width, first.image.height) == (6, 4)


def test_instances_in_all_three_mask_forms(tmp_path: Path) -> None:
    compressed = masks.encode(MASK)
    counts = masks.mask_to_counts(MASK).tolist()
    square = [[1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 1.0, 3.0]]
    path = instances_file(
        tmp_path,
        {**INSTANCE, "segmentation": compressed},
        {**INSTANCE, "segmentation": {"size": [4, 6], "counts": counts}, "iscrowd": 1},
        {**INSTANCE, "segmentation": square},
        INSTANCE,
    )
    sample, empty = read_coco(path, masks=True)
    assert [region.box for region in sample.regions] == [Box(1, 1, 4, 3)] * 4
    assert {region.label for region in sample.regions} == {"dog"}
    assert sample.extra["iscrowd"] == (False, True, False, False)
    found = [region.mask for region in sample.regions]
    assert all(np.array_equal(mask, MASK) for mask in found[:2] if mask is not None)
    assert found[2] is not None
    assert found[2].sum() == 4
    assert found[2][1:3, 1:3].all()
    assert found[3] is None
    assert empty.regions == ()


def test_masks_can_wait(tmp_path: Path) -> None:
    path = instances_file(tmp_path, {**INSTANCE, "segmentation": masks.encode(MASK)})
    lazy = read_coco(path)
    assert lazy[0].regions[0].mask is None
    mask = with_masks(lazy)[0].regions[0].mask
    assert mask is not None
    assert np.array_equal(mask, MASK)


def test_objects_with_the_same_box_keep_their_own_masks(tmp_path: Path) -> None:
    polygons = [[[1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 1.0, 3.0]], [[2.0, 1.0, 4.0, 1.0, 4.0, 3.0, 2.0, 3.0]]]
    path = instances_file(tmp_path, *({**INSTANCE, "segmentation": polygon} for polygon in polygons))
    sample = read_coco(path)[0]
    left, right = masked_regions(sample, sample.regions)
    assert left == right
    assert left.mask is not None
    assert right.mask is not None
    assert left.mask[1].tolist() == [False, True, True, False, False, False]
    assert right.mask[1].tolist() == [False, False, True, True, False, False]


def test_boxes_of_a_file_do_not_take_over_masks(tmp_path: Path) -> None:
    """The masks of a data set belong to its own boxes, not to as many of a file."""
    samples = read_coco(instances_file(tmp_path, {**INSTANCE, "segmentation": masks.encode(MASK)}))
    boxes = write(tmp_path / "boxes.json", **{"42": [[0, 0, 5, 3, "dog"]]})
    (sample,) = [sample for sample in with_boxes(samples, boxes) if sample.regions]
    assert sample.regions == (Region(Box(0, 0, 5, 3), "dog"),)
    assert masked_regions(sample, sample.regions)[0].mask is None
    again = with_boxes(samples, instances_file(tmp_path, {**INSTANCE, "segmentation": masks.encode(~MASK)}))
    assert masked_regions(again[0], again[0].regions)[0].mask is not None
    with pytest.raises(DatasetError, match="none of its ids is an image of the data, such as '42'"):
        with_boxes(samples, write(tmp_path / "other.json", nobody=[[0, 0, 5, 3, "dog"]]))


def test_captions_and_instances_of_the_same_images(tmp_path: Path) -> None:
    samples = read_coco(captions_file(tmp_path), instances_file(tmp_path, INSTANCE))
    assert [(len(sample.captions), len(sample.regions)) for sample in samples] == [(1, 1), (2, 0)]


def test_files_that_contradict_each_other(tmp_path: Path) -> None:
    other = write(tmp_path / "other.json", images=[{**IMAGES[0], "width": 9}], annotations=[])
    with pytest.raises(DatasetError, match=r"other\.json: images\[0\]: image 42 had another size"):
        read_coco(captions_file(tmp_path), other)


def test_an_empty_box_is_left_out_and_said(tmp_path: Path) -> None:
    samples = read_coco(instances_file(tmp_path, {**INSTANCE, "bbox": [1, 1, 0, 2]}))
    assert samples[0].regions == ()
    assert problems(samples) == [
        f"{tmp_path}/instances.json: annotations[0] (dog) has an empty box and was left out: [1, 1, 0, 2]"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": 8}, r"annotations\[0\]: image_id 8 is not among the images"),
        ({"image_id": "42"}, "'image_id' must be a whole number, found a string"),
        ({"category_id": 4}, "category_id 4 is not among the categories"),
        ({"bbox": [1, 2, 3]}, "a box has four numbers, found 3"),
        ({"bbox": [1, 2, "x", 4]}, "must be a number, found a string"),
        ({"segmentation": [[1, 2, 3, 4]]}, "polygon 0 needs at least three x, y pairs"),
        ({"segmentation": [[1, 2, 3, 4, 5, 1e9]]}, "reaches beyond"),
        ({"segmentation": {"size": [6, 4], "counts": "0"}}, r"the mask is \[6, 4\] and the image \[4, 6\]"),
        ({"segmentation": {"size": [4, 6], "counts": [3, 4]}}, "cover 7 pixels, the image has 24"),
        ({"segmentation": {"size": [4, 6], "counts": [-1, 25]}}, "the runs of the mask"),
        ({"segmentation": {"size": [4, 6], "counts": "P"}}, "ends too early"),
        ({"segmentation": {"size": [4, 6], "counts": "\u2603"}}, "impossible character"),
        ({"segmentation": 5}, "a list of polygons or an RLE object"),
        ({"iscrowd": "no"}, "'iscrowd' must be a whole number"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        read_coco(instances_file(tmp_path, {**INSTANCE, **change}), masks=True)
    assert "instances.json: annotations[0]" in str(caught.value)


def test_other_things_that_are_wrong(tmp_path: Path) -> None:
    twice = write(tmp_path / "a.json", images=IMAGES + IMAGES, annotations=[])
    with pytest.raises(DatasetError, match=r"images\[2\]: image id 42 is given twice"):
        read_coco(twice)
    keypoints = write(tmp_path / "b.json", images=IMAGES, annotations=[{"image_id": 7, "keypoints": []}])
    with pytest.raises(DatasetError, match="neither 'caption' nor 'bbox'"):
        read_coco(keypoints)
    blank = write(tmp_path / "c.json", images=IMAGES, annotations=[{"image_id": 7, "caption": " "}])
    with pytest.raises(DatasetError, match="caption of image 7 is empty"):
        read_coco(blank)


def test_boxes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "boxes.json", **{"42": [[1, 2, 3, 4, "cat"], [0, 0, 2, 0, "skis"], [0, 0, 2, 1, "dog", 0.5]]}
    )
    samples = read_boxes(path)
    assert [(region.box, region.label, region.score) for region in samples[0].regions] == [
        (Box(1, 2, 3, 4), "cat", 1.0),
        (Box(0, 0, 2, 1), "dog", 0.5),
    ]
    assert problems(samples) == [f"{path}: image '42': box 1 (skis) is empty and was left out: [0.0, 0.0, 2.0, 0.0]"]
    joined = join(read_coco(captions_file(tmp_path)), samples)
    assert [len(sample.regions) for sample in joined] == [2, 0]
    assert problems(joined) == problems(samples)
    path.write_bytes(b'{"42": [[1, 2, 3, "cat"]]}')
    with pytest.raises(DatasetError, match="box 0 must be"):
        read_boxes(path)


def test_boxes_without_a_sample_are_not_lost(tmp_path: Path) -> None:
    boxes = read_boxes(write(tmp_path / "boxes.json", **{"99": [[1, 2, 3, 4, "cat"]]}))
    with pytest.raises(DatasetError, match="1 ids have boxes and no sample, the first '99'"):
        join(read_coco(captions_file(tmp_path)), boxes)


@given(st.text(st.characters(codec="latin-1"), max_size=40) | st.lists(st.integers(), max_size=6))
@settings(max_examples=500)
def test_any_rle_is_a_mask_or_an_error(counts: str | list[int]) -> None:
    try:
        mask = segmentation_mask({"size": [3, 4], "counts": counts}, 3, 4)
    except DatasetError:
        return
    assert mask.shape == (3, 4)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=12), max_size=3))
@settings(max_examples=200, deadline=None)
def test_any_polygon_is_a_mask_or_an_error(polygons: list[list[float]]) -> None:
    try:
        mask = segmentation_mask(polygons, 9, 7)
    except DatasetError:
        return
    assert mask.shape == (9, 7)


@pytest.mark.needs("data")
def test_val2017(data: Path) -> None:
    samples = read_coco(data / "coco" / "captions_val2017.json")
    assert len(samples) == 5000
    assert sum(len(sample.captions) for sample in samples) == 25014
    assert len(present(samples)) == 390
    boxes = read_boxes(data / "coco" / "boxes_val2017.json")
    joined = join(samples, boxes)
    assert sum(len(sample.regions) for sample in joined) + len(problems(joined)) == 36781
    assert len(problems(joined)) == 1
    assert len({region.label for sample in joined for region in sample.regions}) == 80


def official(root: Path, *names: str) -> Path:
    """Official files of some sets: one image each, a caption, and an instance that covers the left half of its box."""
    (root / "annotations").mkdir()
    for number, name in enumerate(names, 1):
        image = {"id": number, "file_name": f"{number:012}.jpg", "width": 8, "height": 8}
        shape = {"bbox": [0, 0, 8, 8], "segmentation": [[0, 0, 4, 0, 4, 8, 0, 8]], "iscrowd": 0}
        box = {"id": 1, "image_id": number, "category_id": 18, **shape}
        documents = {
            "captions": {"images": [image], "annotations": [{"id": 1, "image_id": number, "caption": "A dog."}]},
            "instances": {"images": [image], "annotations": [box], "categories": [{"id": 18, "name": "dog"}]},
        }
        for kind, document in documents.items():
            (root / "annotations" / f"{kind}_{name}.json").write_bytes(orjson.dumps(document))
    return root


def test_captions_and_instances_of_a_folder_are_read_together(tmp_path: Path) -> None:
    (official(tmp_path, "val2017") / "val2017").mkdir()
    (sample,) = read_dataset(tmp_path)
    assert (sample.captions, sample.regions[0].label, sample.split) == (("A dog.",), "dog", None)
    assert sample.image.path == tmp_path / "val2017" / "000000000001.jpg"
    assert read_dataset(tmp_path / "annotations") == [sample]
    (region,) = masked_regions(sample, sample.regions)
    assert region.mask is not None
    assert region.mask.mean() == 0.5
    assert sample.regions[0].mask is None


def test_sets_of_a_folder_are_splits(tmp_path: Path) -> None:
    official(tmp_path, "train2017", "val2017")
    assert [(sample.id, sample.split) for sample in read_dataset(tmp_path)] == [("1", "train"), ("2", "val")]
    assert [sample.id for sample in read_dataset(tmp_path, split="val")] == ["2"]


def test_instances_are_boxes(tmp_path: Path) -> None:
    (sample,) = read_boxes(official(tmp_path, "val2017") / "annotations" / "instances_val2017.json")
    assert [(region.label, region.box) for region in sample.regions] == [("dog", Box(0, 0, 8, 8))]
