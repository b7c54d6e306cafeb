from __future__ import annotations

import io
import tarfile
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from captrial.data import open_image
from captrial.data.datasets import problems, read_shards, write_shards
from captrial.errors import DatasetError, InputError
from captrial.records import Box, ImageRef, Region, Sample


def image(colour: str = "red") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 6), colour).save(stream, "PNG")
    return stream.getvalue()


def tar(path: Path, *members: tuple[str, bytes] | tarfile.TarInfo, mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def errors(samples: list[Sample]) -> list[str]:
    return [str(sample.extra.get("error", "")) for sample in samples]


def test_groups_captions_and_labels(tmp_path: Path) -> None:
    path = tar(
        tmp_path / "a.tar",
        ("train/0001.png", image()),
        ("train/0001.txt", b"A red square.\nRed.\n"),
        ("train/0001.cls", b"7"),
        ("train/0001.seg.png", b"mask"),
        ("train/0002.JPG", image()),
        ("train/0002.json", orjson.dumps({"caption": "Blue", "id": 42, "split": "val"})),
        ("x.png", image()),
    )
    first, second, third = read_shards(path)
    assert (first.id, first.captions, first.image.label) == ("train/0001", ("A red square.", "Red."), "7")
    assert first.extra["parts"] == {"seg.png": b"mask"}
    assert first.extra["image"] == image()
    assert first.extra["name"] == "train/0001.png"
    assert (second.id, second.captions, second.split) == ("42", ("Blue",), "val")
    assert (third.id, third.captions) == ("x", ())
    assert problems([first, second, third]) == []
    assert open_image(first.extra["image"]).size == (8, 6)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["w:gz", "w:xz", "w:bz2"])
def test_compressed_shards(tmp_path: Path, mode: str) -> None:
    path = tar(tmp_path / "a.tar.gz", ("1.png", image()), mode=mode)
    assert [sample.id for sample in read_shards(path)] == ["1"]


def test_folders_and_ranges_of_shards(tmp_path: Path) -> None:
    for number in (10, 9):
        tar(tmp_path / f"s-{number:03}.tar", (f"{number}.png", image()))
    assert [sample.id for sample in read_shards(tmp_path)] == ["9", "10"]
    assert [sample.id for sample in read_shards(tmp_path / "s-{009..010}.tar")] == ["9", "10"]
    with pytest.raises(DatasetError, match=r"s-011\.tar: no such shard"):
        list(read_shards(tmp_path / "s-{009..011}.tar"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="no shards"):
        list(read_shards(tmp_path / "empty"))


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../out.png", b"x")], "has a path that leads out of the shard"),
        ([("/etc/out.png", b"x")], "leads out"),
        ([special("1.png", tarfile.SYMTYPE, "/etc/passwd")], "is a link or a device"),
        ([special("1.png", tarfile.LNKTYPE, "2.png")], "is a link or a device"),
        ([special("1.png", tarfile.CHRTYPE)], "is a link or a device"),
        ([("1.png", b"x" * 2000)], "has 2000 bytes, more than the 1000 allowed"),
        ([("1.txt", b"caption")], r"has no image among its members \(txt\)"),
        ([("1.png", b"x"), ("1.jpg", b"x")], r"has 2 images \(png, jpg\)"),
        ([("1.png", b"x"), ("1.png", b"x")], "is there twice"),
        ([("1.png", b"x"), ("1.json", b"{")], r"its \.json is malformed"),
        ([("1.png", b"x"), ("1.json", b"[]")], r"its \.json is not an object"),
        ([("1.png", b"x"), ("1.json", b'{"captions": [1]}')], r"captions in its \.json are not strings"),
        ([("1.png", b"x"), ("1.json", b'{"regions": [[1, 2]]}')], "has a region that is not"),
        ([("1.png", b"x"), ("1.txt", b"\xff")], r"its \.txt is not UTF-8"),
    ],
)
def test_broken_members_become_errors(tmp_path: Path, members: list[tuple[str, bytes]], message: str) -> None:
    """The sentence names shard and member, and the sample after the broken one is read."""
    path = tar(tmp_path / "a.tar", *members, ("good.png", b"y"))
    *broken, good = list(read_shards(path, largest_member=1000))
    assert good.extra["image"] == b"y"
    assert "error" not in good.extra
    (sentence,) = problems(broken)
    assert str(path) in sentence
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(sentence)


def test_a_key_that_comes_again(tmp_path: Path) -> None:
    first, second = tar(tmp_path / "1.tar", ("a.png", b"x")), tar(tmp_path / "2.tar", ("a.png", b"y"), ("b.png", b"z"))
    samples = list(read_shards(first, second))
    assert "a sample with the id 'a' came before" in errors(samples)[1]
    assert "image" not in samples[1].extra
    assert samples[2].id == "b"


def test_damaged_archives_do_not_stop_the_others(tmp_path: Path) -> None:
    whole = tar(tmp_path / "1.tar", ("a.png", image() * 50), ("b.png", image() * 50)).read_bytes()
    (tmp_path / "1.tar").write_bytes(whole[: len(whole) // 3])
    (tmp_path / "2.tar").write_bytes(b"no archive at all" * 100)
    (tmp_path / "3.tar").write_bytes(b"")
    tar(tmp_path / "4.tar.gz", ("c.png", image() * 50), mode="w:gz")
    content = (tmp_path / "4.tar.gz").read_bytes()
    (tmp_path / "4.tar.gz").write_bytes(content[: len(content) // 2])
    tar(tmp_path / "5.tar", ("d.png", image()))
    samples = list(read_shards(tmp_path))
    assert samples[-1].id == "d"
    assert "error" not in samples[-1].extra
    for name in ("1.tar", "2.tar", "4.tar.gz"):
        assert any(name in text and "damaged" in text for text in errors(samples)), name


def test_nothing_is_lost_silently_when_a_header_is_damaged_or_the_end_is_missing(tmp_path: Path) -> None:
    content = tar(tmp_path / "1.tar", ("a.png", b"x"), ("b.png", b"y")).read_bytes()
    for hurt in (content[:1024], content[:1024] + b"?" * 512 + content[1536:]):  # after the first member's 1024 bytes
        (tmp_path / "1.tar").write_bytes(hurt)
        samples = list(read_shards(tmp_path))
        assert samples[0].extra["image"] == b"x"
        assert "the archive is damaged from here on" in errors(samples)[0]


@given(st.integers(0, 5000), st.integers(0, 255), st.integers(0, 5000))
@settings(max_examples=150, deadline=None)
def test_any_flipped_byte_or_cut_is_survived(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, cut: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "hurt.tar"
    content = bytearray(tar(path, ("a.png", image()), ("a.txt", b"one"), ("b.png", image())).read_bytes())
    content[place % len(content)] = value
    path.write_bytes(content[: max(len(content) - cut, 0)])
    for sample in read_shards(path):
        assert isinstance(sample, Sample)


def test_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "file.weird"
    file.write_bytes(image("blue"))
    samples = [
        Sample(
            ImageRef("a/b.c.jpg", file, 8, 6, "squares"),
            ("A blue\nsquare.", "Naïve."),
            "train",
            (Region(Box(0, 1, 2, 3), "square", 0.5), Region(Box(0, 0, 1, 1))),
        ),
        Sample(ImageRef("42"), extra={"image": image()}),
        Sample(ImageRef("43", file)),
    ]
    shards = write_shards(samples, tmp_path / "out", size=2)
    assert [path.name for path in shards] == ["shard-000000.tar", "shard-000001.tar"]
    again = list(read_shards(tmp_path / "out"))
    assert problems(again) == []
    for one, other in zip(samples, again, strict=True):
        assert (other.id, other.captions, other.split, other.regions) == (one.id, one.captions, one.split, one.regions)
        assert other.image.label == one.image.label
    assert [sample.extra["image"] for sample in again] == [image("blue"), image(), image("blue")]


def test_the_same_bytes_every_time(tmp_path: Path) -> None:
    samples = [Sample(ImageRef(str(index)), ("A square.",), extra={"image": image()}) for index in range(3)]
    first, second = (write_shards(samples, tmp_path / name)[0].read_bytes() for name in ("one", "two"))
    assert first == second


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="'a' has no file"):
        write_shards([Sample(ImageRef("a"))], tmp_path)
    with pytest.raises(DatasetError, match="two samples with the id 'a'"):
        write_shards([Sample(ImageRef("a"), extra={"image": image()})] * 2, tmp_path)
    with pytest.raises(DatasetError, match="is not an image"):
        write_shards([Sample(ImageRef("a"), extra={"image": b"text"})], tmp_path)
    with pytest.raises(DatasetError, match="at least one"):
        write_shards([], tmp_path, size=0)
    assert list(tmp_path.iterdir()) == []  # nothing half written is left


@pytest.mark.needs("data")
def test_real_images(data: Path, tmp_path: Path) -> None:
    from captrial.data.datasets import present, read_coco

    samples = present(read_coco(data / "coco" / "captions_val2017.json"))[:20]
    write_shards(samples, tmp_path, size=8)
    again = list(read_shards(tmp_path))
    assert [(one.id, one.captions) for one in again] == [(one.id, one.captions) for one in samples]
    assert open_image(again[0].extra["image"]).size == (samples[0].image.width, samples[0].image.height)  # type: ignore[arg-type]


def test_shards_of_others_are_kept(tmp_path: Path) -> None:
    (tmp_path / "shard-000001.tar").write_text("mine")
    samples = [Sample(ImageRef(str(number)), extra={"image": image()}) for number in range(2)]
    with pytest.raises(InputError, match="was not written by captrial"):
        write_shards(samples, tmp_path, size=1)
    assert (tmp_path / "shard-000001.tar").read_text() == "mine"
    write_shards(samples, tmp_path, size=1, overwrite=True)
    write_shards(samples, tmp_path, size=1)
    (tmp_path / "shard-000000.tar").write_text("mine")
    with pytest.raises(InputError, match="has changed since"):
        write_shards([], tmp_path)
