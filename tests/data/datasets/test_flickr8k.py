from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captrial.data.datasets import read_flickr8k, read_karpathy
from captrial.errors import DatasetError

LINES = "b.jpg#1\tA cat .\nb.jpg#0\tThe cat sleeps .\na.jpg.1#0\tA dog # 1 .\n"


def write(folder: Path, text: str | bytes = LINES) -> Path:
    path = folder / "Flickr8k.token.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_captions_in_order(tmp_path: Path) -> None:
    samples = read_flickr8k(write(tmp_path))
    assert [(sample.id, sample.captions) for sample in samples] == [
        ("b.jpg", ("The cat sleeps .", "A cat .")),
        ("a.jpg.1", ("A dog # 1 .",)),  # the original file has such a name
    ]
    assert {sample.split for sample in samples} == {None}


def test_splits_and_images(tmp_path: Path) -> None:
    (tmp_path / "Flickr_8k.trainImages.txt").write_text("b.jpg\n")
    (tmp_path / "Flickr_8k.devImages.txt").write_text("a.jpg.1\r\n\n")
    (tmp_path / "images").mkdir()
    samples = read_flickr8k(write(tmp_path), split="val")
    assert [(sample.id, sample.image.path) for sample in samples] == [("a.jpg.1", tmp_path / "images" / "a.jpg.1")]
    own = tmp_path / "mine.txt"
    own.write_text("b.jpg")
    assert [sample.split for sample in read_flickr8k(write(tmp_path), splits={"mine": own})] == ["mine", None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.jpg#0 no tab\n", r"line 1 must be `name\.jpg#0<TAB>caption`"),
        ("a.jpg\tno number\n", "line 1 must be"),
        ("a.jpg#x\tcaption\n", "line 1 must be"),
        ("a.jpg#0\tone\na.jpg#0\ttwo\n", r"line 2: a\.jpg#0 is given twice"),
        ("a.jpg#0\tone\na.jpg#2\ttwo\n", r"the captions of a\.jpg are numbered \[0, 2\]"),
        ("a.jpg#0\t \n", r"line 1: the caption of a\.jpg#0 is empty"),
        ("../a.jpg#0\tout\n", "leads out of the image folder"),
        (b"a.jpg#0\t\xff\xfe\n", "line 1 is not UTF-8"),
        ("", "no captions in it"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        read_flickr8k(write(tmp_path, text))
    assert "Flickr8k.token.txt" in str(caught.value)


def test_split_files_must_fit(tmp_path: Path) -> None:
    (tmp_path / "Flickr_8k.trainImages.txt").write_text("b.jpg\nunknown.jpg\n")
    with pytest.raises(DatasetError, match=r"line 2: unknown\.jpg has no captions"):
        read_flickr8k(write(tmp_path))
    (tmp_path / "Flickr_8k.trainImages.txt").write_text("b.jpg\n")
    (tmp_path / "Flickr_8k.testImages.txt").write_text("b.jpg\n")
    with pytest.raises(DatasetError, match=r"b\.jpg is in the split 'train' already"):
        read_flickr8k(write(tmp_path))


@given(st.binary(max_size=120) | st.text("ab.jpg#01\t\n\r ", max_size=60).map(str.encode))
@settings(max_examples=300)
def test_any_bytes_are_captions_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    try:
        samples = read_flickr8k(write(tmp_path_factory.getbasetemp(), content))
    except DatasetError:
        return
    assert sum(len(sample.captions) for sample in samples) == sum(bool(line.strip()) for line in content.split(b"\n"))


@pytest.mark.needs("data")
def test_the_same_as_karpathys_file(data: Path, tmp_path: Path) -> None:
    """The captions of Flickr8k written as a token file come back the same."""
    samples = read_karpathy(data / "flickr8k" / "dataset_flickr8k.json", split="test")
    lines = [f"{sample.id}#{index}\t{text}\n" for sample in samples for index, text in enumerate(sample.captions)]
    again = read_flickr8k(write(tmp_path, "".join(lines)))
    assert {one.id: one.captions for one in again} == {one.id: one.captions for one in samples}
