from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from captrial.data import open_image
from captrial.data.datasets import detect, read_dataset
from captrial.data.image_source import sample_image
from captrial.errors import DatasetError
from data.datasets.saved_dataset import save_split, save_splits


def test_splits_with_their_images(tmp_path: Path) -> None:
    save_splits(tmp_path / "d", {"train": ["A dog.", "A cat.", "A cow."], "validation": [["A hen.", "One hen."]]})
    assert detect(tmp_path / "d").format == "huggingface"
    found = read_dataset(tmp_path / "d")
    assert [(one.id, one.captions, one.split) for one in found] == [
        ("train/0", ("A dog.",), "train"),
        ("train/1", ("A cat.",), "train"),
        ("train/2", ("A cow.",), "train"),
        ("validation/0", ("A hen.", "One hen."), "val"),
    ]
    sizes = []
    for one in found:
        content = sample_image(one)
        assert content is not None
        sizes.append(open_image(content).size)
    assert sizes == [(8, 6), (9, 6), (10, 6), (8, 6)]


def test_one_split_alone(tmp_path: Path) -> None:
    save_split(tmp_path / "d", ["A dog."], caption="text")
    assert [(one.id, one.split) for one in read_dataset(tmp_path / "d")] == [("0", None)]


def test_bad_data_sets_are_refused(tmp_path: Path) -> None:
    save_split(tmp_path / "d", ["A dog."], caption="label")
    with pytest.raises(DatasetError, match=r"columns image, label; needed are .*rename_column"):
        read_dataset(tmp_path / "d")
    (tmp_path / "d" / "data-00000-of-00001.arrow").write_bytes(b"ARROW1 and more")
    with pytest.raises(DatasetError, match="is not an Arrow file of a data set"):
        read_dataset(tmp_path / "d")
    outside = {"_data_files": [{"filename": "../../etc/passwd"}]}
    (tmp_path / "d" / "state.json").write_bytes(orjson.dumps(outside))
    with pytest.raises(DatasetError, match="leads out of"):
        read_dataset(tmp_path / "d")
