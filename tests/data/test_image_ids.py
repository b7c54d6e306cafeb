"""Ids of one image in different spellings meet where that is unambiguous, and nowhere else."""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from captrial.data import read_captions, read_references
from captrial.data.image_ids import ImageIds
from captrial.data.image_source import ImageSource
from captrial.data.pools import build_pool
from captrial.errors import CaptionFileError
from data.pools.photos import encoded, scene

SPELLINGS = [
    "139", "000000000139", "139.jpg", "000000000139.jpg", "000000000139.PNG", "/data/photos/000000000139.jpg",
    "C:\\photos\\139.jpg", "COCO_val2014_000000000139.jpg", "val2014/COCO_val2014_000000000139",
]  # fmt: skip


@pytest.mark.parametrize("known", SPELLINGS)
@pytest.mark.parametrize("given", SPELLINGS)
def test_spellings_of_one_image_meet(given: str, known: str) -> None:
    ids = ImageIds([known, "285", "photo.jpg"])
    assert ids.find(given) == known
    matched = ids.match([given, "unknown"])
    assert matched.known == {given: known}
    assert bool(matched.report()) == (given != known)


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ("139", ["a/139.jpg", "b/139.jpg"]),  # two classes
        ("139", ["000139", "0139"]),
        ("x/0.jpg", ["cats/0.jpg", "dogs/0.jpg"]),
        ("photo", ["photo.jpg", "photo.png"]),
        ("139", ["COCO_train2014_000000000139.jpg", "COCO_val2014_000000000139.jpg"]),
        ("139", ["1139", "photo139.jpg", "1_139.jpg", "139b"]),  # not the same number
        ("1000268201_693b08cb0e", ["693", "1000268201"]),
        ("", [".jpg", "139"]),
        ("a", ["A", "a.txt", "ab"]),
    ],
)
def test_what_could_be_several_or_is_another_image_is_not_guessed(given: str, known: list[str]) -> None:
    assert ImageIds(known).find(given) is None
    assert ImageIds(known).match([given]).known == {}


def test_the_closest_spelling_wins() -> None:
    ids = ImageIds(["139", "000000000139.jpg", "x/000000000139.jpg"])
    assert ids.find("139") == "139"
    assert ids.find("000000000139.jpg") == "000000000139.jpg"
    assert ids.find("y/000000000139.jpg") is None  # the same file name in two places
    assert ids.find("139.jpg") == "139"


def test_two_spellings_of_one_image_are_not_both_matched() -> None:
    matched = ImageIds(["139", "285"]).match(["139", "000139", "285.jpg", "000285"])
    assert matched.known == {"139": "139", "285.jpg": "285"}  # the closest
    assert matched.ambiguous == ("000139", "000285")
    assert ImageIds(["139"]).match(["0139", "00139"]).ambiguous == ("0139", "00139")
    report = ImageIds(["139", "285"]).match(["139", "000139", "285.jpg"]).report()
    assert report == (
        "1 id matched by file name without suffix (285.jpg is 285); "
        "1 could mean several images and are not matched (000139)"
    )


@given(st.lists(st.text("01/.\\jpgCO_", max_size=8)), st.lists(st.text("01/.\\jpgCO_", max_size=8)))
def test_matches_are_one_to_one_and_exact_ones_stay(known: list[str], given_ids: list[str]) -> None:
    ids = ImageIds(known)
    matched = ids.match(given_ids)
    assert len(set(matched.known.values())) == len(matched.known)
    assert set(matched.known.values()) <= set(known)
    assert all(matched.known[one] == one for one in set(given_ids) & set(known))
    assert sum(matched.how.values()) == len(matched.known)
    assert matched.known.keys().isdisjoint(matched.ambiguous)
    assert all(ids.find(one) == known for one, known in matched.known.items())
    assert matched == ids.match(given_ids)


@pytest.mark.slow
def test_a_million_ids() -> None:
    known = [str(number) for number in range(1_000_000)]
    given_ids = [f"/data/photos/{number:012}.jpg" for number in range(1_000_000)]
    start = time.process_time()
    matched = ImageIds(known).match(given_ids)
    assert time.process_time() - start < 30  # about 6 seconds
    assert len(matched.known) == 1_000_000
    start = time.process_time()
    ImageIds(known).match(known)
    assert time.process_time() - start < 5


def test_caption_files_and_references_meet(tmp_path: Path) -> None:
    captions = {"000000000139.jpg": "a dog", "/photos/000000000285.jpg": "a bear", "724": "a sign", "9": "nothing"}
    (tmp_path / "c.json").write_bytes(orjson.dumps(captions))
    found = read_captions(tmp_path / "c.json", known_ids=["139", "285", "724"])
    assert found.to_dict() == {"139": "a dog", "285": "a bear", "724": "a sign"}
    assert found.matched == "2 ids matched by number (000000000139.jpg is 139)"
    assert "c.json: 3 captions. 2 ids matched by number (000000000139.jpg is 139). 1 unknown id" in found.report()
    (tmp_path / "r.json").write_bytes(orjson.dumps({"139.jpg": ["a dog", "a cat"], "x": ["y"]}))
    references = read_references(tmp_path / "r.json", known_ids=["000000000139.jpg"])
    assert references == {"000000000139.jpg": ["a dog", "a cat"], "x": ["y"]}


def test_exact_ids_are_read_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(orjson.dumps({"139": "a dog"}))
    found = read_captions(tmp_path / "c.json", known_ids=["139", "000139"], strict=False)
    assert (found.ids, found.matched) == (["139"], "")
    (tmp_path / "c.json").write_bytes(orjson.dumps({"0139": "a dog"}))
    with pytest.raises(CaptionFileError, match="could mean several images"):
        read_captions(tmp_path / "c.json", known_ids=["139", "000139"])


def test_images_are_found_by_other_spellings(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    for name in ("val/000000000139.jpg", "val/000000000285.jpg", "a/same.jpg", "b/same.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encoded(scene(len(list(folder.rglob("*"))))))
    (tmp_path / "secret.jpg").write_bytes(encoded(scene(9)))
    pool = tmp_path / "pool"
    build_pool([folder], pool)
    for source in (ImageSource(folder), ImageSource(pool)):
        for spelling in ("139", "/elsewhere/000000000139.jpg", "COCO_val2014_000000000139", "val/000000000139.jpg"):
            path = source.path(spelling)
            assert path is not None
            assert path.name == "000000000139.jpg"
            assert isinstance(source.open(spelling), Image.Image)
        for unknown in ("same", "same.jpg", "140", "../secret.jpg", "secret", ""):
            assert source.path(unknown) is None
    assert ImageSource(pool).label("139") == "val"
