"""Visual Genome as published: regions, objects, attributes, relationships."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from PIL import Image

from captrial.data.datasets import problems, read_dataset, read_visual_genome
from captrial.errors import DatasetError
from captrial.records import Box

BOX = {"x": 1, "y": 2, "w": 3, "h": 4}
FILES = {
    "image_data": [{"image_id": 7, "width": 20, "height": 30, "url": "x"}],
    "region_descriptions": [
        {
            "id": 7,
            "regions": [
                {"region_id": 1, "image_id": 7, "phrase": "a brown  dog", "x": 0, "y": 0, "width": 10, "height": 10},
                {"region_id": 2, "image_id": 7, "phrase": " ", "x": 0, "y": 0, "width": 10, "height": 10},
            ],
        }
    ],
    "objects": [
        {
            "image_id": 7,
            "objects": [
                {**BOX, "object_id": 11, "names": ["dog"], "merged_object_ids": [12], "synsets": []},
                {**BOX, "object_id": 13, "names": ["grass"], "synsets": []},
                {**BOX, "object_id": 14, "names": ["hole"], "h": 0, "synsets": []},
            ],
        }
    ],
    "attributes": [{"image_id": 7, "attributes": [{**BOX, "object_id": 11, "attributes": ["brown", "wet"]}]}],
    "relationships": [
        {
            "image_id": 7,
            "relationships": [
                {"predicate": "ON ", "subject": {"object_id": 12}, "object": {"object_id": 13}},
                {"predicate": "in", "subject": {"object_id": 11}, "object": {"object_id": 14}},
            ],
        }
    ],
}
EXAMPLE = {f"{name}.json": orjson.dumps(content) for name, content in FILES.items()}


def write(folder: Path, *names: str) -> Path:
    for name in names or FILES:
        (folder / f"{name}.json").write_bytes(orjson.dumps(FILES[name]))
    return folder


def test_everything_is_read(tmp_path: Path) -> None:
    (tmp_path / "VG_100K_2").mkdir()
    Image.new("RGB", (20, 30)).save(tmp_path / "VG_100K_2" / "7.jpg")
    (sample,) = read_dataset(write(tmp_path))
    assert (sample.id, sample.image.width, sample.image.height) == ("7", 20, 30)
    assert sample.image.path == tmp_path / "VG_100K_2" / "7.jpg"
    assert sample.captions == ("a brown dog",)
    (phrase,) = sample.phrases[0]
    assert (phrase.start, phrase.end, phrase.entity, phrase.regions[0].box) == (0, 3, "1", Box(0, 0, 10, 10))
    assert [(region.label, region.box) for region in sample.regions] == [
        ("dog", Box(1, 2, 4, 6)), ("grass", Box(1, 2, 4, 6)),
    ]  # fmt: skip
    assert sample.extra["attributes"] == (("brown", "wet"), ())
    assert sample.extra["relationships"] == ((0, "on", 1),)  # by the id of a merged object
    assert [text.partition(": image 7: ")[2] for text in problems([sample])] == [
        "regions[1] has no words and was left out",
        "objects[2] has an empty box and was left out",
        "relationships[1] is of an object that is not among the objects and was left out",
    ]


def test_regions_alone_are_enough(tmp_path: Path) -> None:
    (sample,) = read_visual_genome(write(tmp_path, "region_descriptions"))
    assert (sample.captions, sample.regions, sample.image.width) == (("a brown dog",), (), None)


def test_a_wrong_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "region_descriptions.json").write_bytes(orjson.dumps([{"id": 7, "regions": [{"phrase": 3}]}]))
    with pytest.raises(DatasetError, match=r"image 7: regions\[0\]: 'phrase' must be a string"):
        read_visual_genome(tmp_path)
