"""Features made elsewhere: the field's three formats, lazily, from several processes, with errors that name the id."""

from __future__ import annotations

import base64
import json
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from captrial.cli.app import main
from captrial.errors import DatasetError, InputError, MismatchError, MissingExtraError
from captrial.vision.features.feature_store import FeatureStore
from captrial.vision.features.hdf5 import Hdf5Features
from captrial.vision.features.npz import NpzFeatures
from captrial.vision.features.precomputed import PrecomputedFeatures, import_features
from captrial.vision.features.tsv import TsvFeatures
from captrial.vision.registry import load_backbone, load_features

WIDTH = 5
SIZES = {"42": (200, 100), "7": (80, 80)}
LABELS = ["dog", "cat", "bus"]
Array = NDArray[Any]


def regions(image_id: str) -> tuple[Array, Array]:
    """Features and pixel boxes of one of the two images."""
    random = np.random.default_rng(int(image_id))
    count = {"42": 3, "7": 2}[image_id]
    width, height = SIZES[image_id]
    corners = np.sort(random.random((count, 2, 2)), 1) * [width, height]
    return random.random((count, WIDTH), np.float32), corners.reshape(count, 4).astype(np.float32)


def encoded(array: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def tsv_line(image_id: str) -> str:
    features, boxes = regions(image_id)
    size = SIZES[image_id]
    return "\t".join([image_id, *map(str, size), str(len(boxes)), encoded(boxes), encoded(features)]) + "\n"


def write_tsv(folder: Path) -> PrecomputedFeatures:
    (folder / "regions.tsv").write_text("".join(map(tsv_line, SIZES)))
    return TsvFeatures(folder / "regions.tsv")


def write_hdf5(folder: Path) -> PrecomputedFeatures:
    with h5py.File(folder / "regions.hdf5", "w") as file:
        for image_id in SIZES:
            features, boxes = regions(image_id)
            file[f"{image_id}_features"], file[f"{image_id}_boxes"] = features, boxes
            file[f"{image_id}_cls_prob"] = np.eye(4, dtype=np.float32)[[2, 1, 3]][: len(boxes)] * 0.75
    return Hdf5Features(folder / "regions.hdf5", SIZES, labels=LABELS)


def write_npz(folder: Path) -> PrecomputedFeatures:
    (folder / "bu_att").mkdir()
    (folder / "bu_box").mkdir()
    for image_id in SIZES:
        features, boxes = regions(image_id)
        np.savez(folder / "bu_att" / f"{image_id}.npz", feat=features)
        np.save(folder / "bu_box" / f"{image_id}.npy", boxes)
    return NpzFeatures(folder / "bu_att", SIZES)


WRITERS: dict[str, Callable[[Path], PrecomputedFeatures]] = {"tsv": write_tsv, "hdf5": write_hdf5, "npz": write_npz}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("kind", WRITERS)
def test_reads_what_was_written(tmp_path: Path, kind: str) -> None:
    source = WRITERS[kind](tmp_path)
    assert sorted(source) == ["42", "7"]
    assert (len(source), source.width) == (2, WIDTH)
    assert "42" in source
    assert "8" not in source
    found = source.get(["7", "42"])
    assert found.mask.sum(1).tolist() == [2, 3]
    assert found.boxes is not None
    for row, image_id in enumerate(["7", "42"]):
        features, boxes = regions(image_id)
        np.testing.assert_array_equal(found.elements[row, : len(features)], features)
        width, height = SIZES[image_id]
        np.testing.assert_allclose(found.boxes[row, : len(features)], boxes / [width, height, width, height], rtol=1e-5)
    with pytest.raises(DatasetError, match=r"has no features of '8'; leave the image out, or add them"):
        source.get(["42", "8"])


@pytest.mark.parametrize("kind", WRITERS)
def test_processes_open_files_for_themselves(tmp_path: Path, kind: str) -> None:
    source = WRITERS[kind](tmp_path)
    expected = source.get(["42"]).elements  # the parent has its file open
    assert torch.equal(pickle.loads(pickle.dumps(source)).get(["42"]).elements, expected)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child() -> None:
        answers.put([source.get([image_id]).elements.numpy() for image_id in ["7", "42"] * 20])

    children = [context.Process(target=child) for _ in range(3)]
    for process in children:
        process.start()
    for _ in children:
        found = answers.get()
        assert all(np.array_equal(each, expected.numpy()) for each in found[1::2])
    for process in children:
        process.join(60)
        assert process.exitcode == 0
    assert torch.equal(source.get(["42"]).elements, expected)  # and the children did the parent's no harm


@pytest.mark.parametrize("kind", WRITERS)
def test_import_into_a_store(tmp_path: Path, kind: str) -> None:
    source = WRITERS[kind](tmp_path)
    import_features(source, tmp_path / "store", ["42"])
    store = import_features(source, tmp_path / "store")  # continues
    assert isinstance(store, FeatureStore)
    assert sorted(store) == ["42", "7"]
    wanted, found = source.get(["42", "7"]), store.get(["42", "7"])
    assert torch.allclose(found.elements, wanted.elements, atol=1e-3)
    assert found.boxes is not None
    assert wanted.boxes is not None
    assert torch.allclose(found.boxes, wanted.boxes, atol=1e-3)
    with pytest.raises(MismatchError, match="backbone"):
        FeatureStore(tmp_path / "store", {**source.vision, "backbone": "efficientnet-lite2"})
    with pytest.raises(InputError, match="made by another program"):
        load_backbone(source.vision)
    opened = load_features(f"{kind}:{source.path}", SIZES)
    assert torch.equal(opened.get(["7"]).elements, source.get(["7"]).elements)
    assert sorted(load_features(str(tmp_path / "store"))) == ["42", "7"]


@pytest.mark.parametrize("kind", WRITERS)
def test_copied_by_the_command_line(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The data set's images are copied, and say how large they are where the features do not."""
    source = WRITERS[kind](tmp_path)
    (tmp_path / "images").mkdir()
    records = []
    for image_id, size in SIZES.items():
        Image.new("RGB", size).save(tmp_path / "images" / f"{image_id}.jpg")
        said = [{"raw": "A dog."}]
        records.append({"filename": f"{image_id}.jpg", "cocoid": int(image_id), "split": "train", "sentences": said})
    (tmp_path / "data.json").write_text(json.dumps({"dataset": "coco", "images": records}))
    line = ["features", str(tmp_path / "data.json"), "--backbone", f"{kind}:{source.path}", "--json"]
    for extracted in (2, 0):
        with pytest.raises(SystemExit) as ended:
            main([*line, "--out", str(tmp_path / "store")])
        assert not ended.value.code
        answered = json.loads(capsys.readouterr().out)
        assert (answered["images"], answered["extracted"]) == (2, extracted)
    found, wanted = FeatureStore(tmp_path / "store").get(["7"]).boxes, source.get(["7"]).boxes
    assert found is not None
    assert wanted is not None
    assert torch.allclose(found, wanted, atol=1e-3)


def test_settings_stand_behind_a_question_mark(tmp_path: Path) -> None:
    source = write_hdf5(tmp_path)
    (tmp_path / "classes.txt").write_text("\n".join(LABELS))
    opened = load_features(f"hdf5:{source.path}?boxes=no&labels={tmp_path / 'classes.txt'}")
    assert opened.get(["42"]).boxes is None
    assert opened.entry("42")["labels"] == ["cat", "dog", "bus"]
    with pytest.raises(InputError, match="has no setting size"):
        load_features(f"hdf5:{source.path}?size=3")
    with pytest.raises(InputError, match="hdf5 names features, not a backbone"):
        load_backbone(f"hdf5:{source.path}")


def test_class_probabilities_become_labels(tmp_path: Path) -> None:
    """The first column is the background: class 1 of the file is label 0."""
    source = write_hdf5(tmp_path)
    assert source.entry("42") == {"labels": ["cat", "dog", "bus"], "scores": [0.75, 0.75, 0.75]}
    store = import_features(source, tmp_path / "store")
    assert store.entry("7")["labels"] == ["cat", "dog"]
    few = Hdf5Features(source.path, SIZES, labels=["dog"])
    with pytest.raises(DatasetError, match="image 42 has class 2, but there are only 1 labels"):
        few.entry("42")


def test_tsv_with_classes_has_height_before_width(tmp_path: Path) -> None:
    features, boxes = regions("42")
    classes, scores = np.array([2, 0, 1], np.int64), np.array([0.9, 0.5, 0.25], np.float32)
    ids, confident = encoded(classes), encoded(scores)
    fields = ["42", "100", "200", ids, confident, ids, confident, "3", encoded(boxes), encoded(features)]
    (tmp_path / "lxmert.tsv").write_text("\t".join(fields) + "\n")
    source = TsvFeatures(tmp_path / "lxmert.tsv", labels=LABELS)
    assert source.entry("42") == {"labels": ["bus", "dog", "cat"], "scores": [0.9, 0.5, 0.25]}
    found = source.get(["42"]).boxes
    assert found is not None
    np.testing.assert_allclose(found[0], boxes / [200, 100, 200, 100], rtol=1e-5)


def test_tsv_index_is_made_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_tsv(tmp_path)
    assert len(source) == 2
    (made,) = (cache / "tsv").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr("captrial.vision.features.tsv._scan", lambda path: pytest.fail("scanned again"))
        assert len(TsvFeatures(source.path)) == 2
    with source.path.open("a") as file:
        file.write(tsv_line("7").replace("7", "9", 1))
    os.utime(source.path, ns=(1, 1))
    assert sorted(TsvFeatures(source.path)) == ["42", "7", "9"]
    assert made.exists()


def test_tsv_in_parts_with_repeated_lines(tmp_path: Path) -> None:
    (tmp_path / "x.tsv.0").write_text(tsv_line("42") + tsv_line("7"))
    (tmp_path / "x.tsv.1").write_text(tsv_line("42"))  # the same line again: published files have such
    assert len(TsvFeatures(tmp_path)) == 2
    (tmp_path / "x.tsv.1").write_text(tsv_line("7").replace("7", "42", 1))
    with pytest.raises(DatasetError, match="image 42 stands twice with different features"):
        len(TsvFeatures(tmp_path))


def test_damaged_tsv(tmp_path: Path) -> None:
    (tmp_path / "cut.tsv").write_text(tsv_line("42") + tsv_line("7")[:20])
    with pytest.raises(DatasetError, match=r"cut.tsv, line 2: \d columns, not 6 or 10"):
        len(TsvFeatures(tmp_path / "cut.tsv"))
    (tmp_path / "short.tsv").write_text(tsv_line("42").rstrip("\n")[:-8] + "\n")
    with pytest.raises(DatasetError, match="line of image 42 is damaged"):
        TsvFeatures(tmp_path / "short.tsv").get(["42"])


def test_pixel_boxes_need_sizes(tmp_path: Path) -> None:
    write_hdf5(tmp_path)
    with pytest.raises(DatasetError, match=r"boxes of image 42 are in pixels.*--images.*boxes=no.*sizes="):
        Hdf5Features(tmp_path / "regions.hdf5").get(["42"])
    without = Hdf5Features(tmp_path / "regions.hdf5", boxes=False)
    assert without.get(["42"]).boxes is None
    store = import_features(without, tmp_path / "store")
    assert store.get(["42"]).boxes is None  # not zeros


def test_grids_in_npy_files_have_the_boxes_of_their_cells(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(2 * 2 * WIDTH, dtype=np.float32).reshape(2, 2, WIDTH))
    found = NpzFeatures(tmp_path).get(["a"])
    assert found.elements[0, 2, 0] == 2 * WIDTH
    assert found.boxes is not None
    assert found.boxes[0, 1].tolist() == [0.5, 0, 1, 0.5]


def test_relative_boxes_stay_relative_where_the_size_is_known(tmp_path: Path) -> None:
    """Cells of an imported grid were divided by the image's size, which left boxes of a few thousandths."""
    np.save(tmp_path / "a.npy", np.zeros((2, 2, WIDTH), np.float32))
    found = NpzFeatures(tmp_path, {"a": (640, 480)}).get(["a"])
    assert found.boxes is not None
    assert found.boxes[0, 1].tolist() == [0.5, 0, 1, 0.5]


def test_npz_with_boxes_and_size_inside(tmp_path: Path) -> None:
    features, boxes = regions("7")
    np.savez(tmp_path / "7.npz", features=features, boxes=boxes, image_w=80, image_h=80)
    found = NpzFeatures(tmp_path).get(["7"])
    assert found.boxes is not None
    np.testing.assert_allclose(found.boxes[0], boxes / 80, rtol=1e-6)


def test_errors_name_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_npz(tmp_path)
    (tmp_path / "bu_box" / "7.npy").unlink()
    with pytest.raises(DatasetError, match="no boxes of '7'"):
        source.get(["7"])
    np.savez(tmp_path / "bu_att" / "1.npz", feat=np.ones((2, WIDTH + 1), np.float32))
    np.savez(tmp_path / "bu_att" / "2.npz", feat=np.full((2, WIDTH), np.nan, np.float32))
    np.savez(tmp_path / "bu_att" / "3.npz", one=np.ones(2), two=np.ones(2))
    (tmp_path / "bu_att" / "4.npz").write_bytes(b"PK nothing")
    np.save(tmp_path / "bu_att" / "5.npy", np.array([{"code": "runs"}], object), allow_pickle=True)
    plain = NpzFeatures(tmp_path / "bu_att", boxes=False)
    plain.width = WIDTH
    for image_id, match in {
        "1": r"image 1 has features of shape \(2, 6\), not \(n, 5\)",
        "2": "image 2 has features that are not finite",
        "3": r"3.npz has arrays one, two; one of feat",
        "4": r"4.npz: is not a readable .npz file",
        "5": r"5.npy: is not a readable .npy file",
    }.items():
        with pytest.raises(DatasetError, match=match):
            plain.get([image_id])
    with pytest.raises(DatasetError, match="does not exist"):
        TsvFeatures(tmp_path / "nowhere.tsv")
    (tmp_path / "broken.hdf5").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match="cannot be opened as HDF5"):
        Hdf5Features(tmp_path / "broken.hdf5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"captrial\[models\]"):
        Hdf5Features(tmp_path / "broken.hdf5")


def test_keys_that_are_no_text_are_an_error_of_the_file(tmp_path: Path) -> None:
    import h5py

    from captrial.errors import DatasetError
    from captrial.vision.features.hdf5 import Hdf5Features

    with h5py.File(tmp_path / "f.hdf5", "w") as file:
        file.create_dataset(b"\xff_features", data=[[1.0]])
    with pytest.raises(DatasetError, match="cannot be read as HDF5"):
        Hdf5Features(tmp_path / "f.hdf5").ids()
