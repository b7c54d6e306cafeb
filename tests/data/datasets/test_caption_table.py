from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from captrial.data.datasets import detect, read_dataset
from captrial.errors import DatasetError


def write_image(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6)).save(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_table(tmp_path: Path, suffix: str) -> None:
    rows = [("b.jpg", "A cat.", "train"), ("a.jpg", "A dog.", "validation"), ("b.jpg", "One cat.", "train")]
    names, path = ("file_name", "text", "split"), tmp_path / f"data.{suffix}"
    if suffix == "parquet":
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        pa.parquet.write_table(pa.table(columns), path)
    elif suffix == "jsonl":
        path.write_text("".join(f'{{"file_name": "{a}", "text": "{b}", "split": "{c}"}}\n' for a, b, c in rows))
    else:
        mark = {"csv": ",", "tsv": "\t"}[suffix]
        path.write_text("\n".join(mark.join(row) for row in (names, *rows)))
    expected = write_image(tmp_path / "b.jpg")
    assert detect(path).format == "table"
    found = read_dataset(path)
    assert [(one.id, one.captions, one.split) for one in found] == [
        ("b.jpg", ("A cat.", "One cat."), "train"),
        ("a.jpg", ("A dog.",), "val"),
    ]
    assert found[0].image.path == expected


def test_lists_of_captions_and_images_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"image_id": 139, "captions": ["A dog.", "One dog."]}\n')
    photo = write_image(tmp_path / "photos" / "000000000139.jpg")
    (found,) = read_dataset(tmp_path / "data.jsonl", images=tmp_path / "photos")
    assert (found.id, found.captions, found.image.path) == ("139", ("A dog.", "One dog."), photo)


def test_a_file_of_references(tmp_path: Path) -> None:
    """What `captrial score --references` reads trains a captioner as well."""
    (tmp_path / "references.json").write_text('{"a.jpg": ["A dog.", "One dog."], "b.jpg": "A cat."}')
    photo = write_image(tmp_path / "images" / "a.jpg")
    assert detect(tmp_path / "references.json").format == "table"
    found = read_dataset(tmp_path / "references.json")
    assert [(one.id, one.captions) for one in found] == [("a.jpg", ("A dog.", "One dog.")), ("b.jpg", ("A cat.",))]
    assert found[0].image.path == photo
    (tmp_path / "numbers.json").write_text('{"a.jpg": 3}')
    with pytest.raises(DatasetError, match="not a data set in a known format"):
        detect(tmp_path / "numbers.json")


def test_a_folder_with_metadata(tmp_path: Path) -> None:
    for split in ("train", "validation"):
        photo = write_image(tmp_path / split / "a.png")
        (tmp_path / split / "metadata.csv").write_text("file_name,caption\na.png,A dog.\n")
    found = read_dataset(tmp_path)
    assert [(one.id, one.split) for one in found] == [("train/a.png", "train"), ("validation/a.png", "val")]
    assert found[1].image.path == photo
    alone = read_dataset(tmp_path / "train")
    assert [(one.id, one.split) for one in alone] == [("a.png", None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,model,output\na.jpg,m,A dog.\n", "columns image, model, output; which is the caption"),
        ("file_name,caption\n../a.jpg,A dog.\n", "leads out of the image folder"),
        ("file_name,caption\n/etc/a.jpg,A dog.\n", "leads out of the image folder"),
        ("file_name,caption,split\na.jpg,A dog.,train\na.jpg,A cat.,val\n", "in the splits train and val; keep it in"),
        ("file_name,caption\na.jpg,\n", "a caption of a.jpg is empty; remove its row"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DatasetError, match=message):
        read_dataset(tmp_path / "data.csv")


def test_two_tables_in_a_folder_are_ambiguous(tmp_path: Path) -> None:
    for suffix in ("csv", "jsonl"):
        (tmp_path / f"metadata.{suffix}").touch()
    with pytest.raises(DatasetError, match=r"several tables \(metadata.csv, metadata.jsonl\); keep one"):
        read_dataset(tmp_path)
