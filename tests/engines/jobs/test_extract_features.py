"""Feature stores made by workers: whatever is done once is never done again, and nothing is left behind."""

from __future__ import annotations

import importlib
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from captrial.engines.inputs import InputPart, find_parts
from captrial.engines.jobs import extract_features
from captrial.engines.jobs.extract_features import extract_all, sample_parts
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder, do_part
from captrial.errors import MismatchError
from captrial.files import atomic_write
from captrial.records import ImageRef, Sample
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter
from captrial.vision.features.visual_features import Features
from engines.example_jobs import write_images

Extracted = tuple[int, int, dict[str, str]]


class Widths:
    """A backbone that sees how wide an image is, remembers which it saw, and takes 13 for infinite."""

    seen: list[int]

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> dict[str, object]:
        return {"backbone": self.name, "width": 2}

    def to(self, device: torch.device) -> Widths:
        return self

    def extract(self, images: Sequence[Image.Image]) -> Features:
        widths = [image.width for image in images]
        self.seen += widths
        elements = torch.tensor([[[1e9 if width == 13 else width, 1.0]] for width in widths])
        return Features(elements, torch.ones(elements.shape[:2], dtype=torch.bool), torch.zeros(len(widths), 1, 4))


@pytest.fixture(autouse=True)
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    importlib.import_module("captrial.training.feature_extraction")  # first: it would keep the patched name
    monkeypatch.setattr("captrial.vision.registry.load_backbone", Widths)
    Widths.seen = []
    return Widths.seen


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_images(tmp_path / "images", range(10, 18))


def as_files(folder: Path) -> list[InputPart]:
    return sample_parts([Sample(ImageRef(path.name, path)) for path in sorted(folder.iterdir())], 3)


def as_tars(folder: Path) -> list[InputPart]:
    files, shards = sorted(folder.iterdir()), folder.with_name("shards")
    shards.mkdir(exist_ok=True)
    for number in range(0, len(files), 3):
        if not (shards / f"{number}.tar").exists():
            with tarfile.open(shards / f"{number}.tar", "w") as tar:
                for path in files[number : number + 3]:
                    tar.add(path, path.name)
    return find_parts(shards)


def as_parquet(folder: Path) -> list[InputPart]:
    files, path = sorted(folder.iterdir()), folder.with_name("all.parquet")
    table = pa.table({"id": [one.name for one in files], "bytes": [one.read_bytes() for one in files]})
    if not path.exists():  # a file written anew counts as another one
        pq.write_table(table, path)
    return find_parts(path, 3)


def as_urls(folder: Path) -> list[InputPart]:
    path = folder.with_name("list.txt")
    path.write_text("\n".join(f"file://{one}" for one in sorted(folder.iterdir())))
    return find_parts(path, 3)


def extract(parts: Sequence[InputPart], store: Path, backbone: str = "widths") -> Extracted:
    return extract_all(parts, store, backbone, LocalEngine(), batch=2)


def is_right(store: Path, outcome: Extracted, new: int) -> None:
    """Seven images, two that have none, and nothing left of the run."""
    assert (outcome[0], outcome[1], len(outcome[2])) == (7, new, 2)
    assert sorted(why.split()[-1] for why in outcome[2].values())[-1] == "precision"
    found = FeatureStore(store)
    assert [found.get([name]).elements[0, 0, 0].item() for name in found] == [10, 11, 12, 14, 15, 16, 17]
    assert not list(store.glob("*shards*"))
    assert not list(store.glob(".*"))


@pytest.mark.parametrize("made", [as_files, as_tars, as_parquet, as_urls])
def test_a_finished_store_is_left_alone(
    folder: Path, tmp_path: Path, seen: list[int], made: Callable[[Path], list[InputPart]]
) -> None:
    is_right(tmp_path / "store", extract(made(folder), tmp_path / "store"), 7)
    assert sorted(seen) == list(range(10, 18))
    seen.clear()
    is_right(tmp_path / "store", extract(made(folder), tmp_path / "store"), 0)
    assert set(seen) <= {13}  # images by name that could not be done are tried again: they may have been mended


class Killed(BaseException):
    """Stands for kill -9: nobody catches it."""


def dying(*_: object, **__: object) -> object:
    raise Killed


def dying_after_writing(path: Path, content: bytes) -> None:
    atomic_write(path, content)
    dying()


remove_tree = shutil.rmtree


def dying_at_shards(path: Path, **options: bool) -> None:
    """Dies when finished shards are removed; temporary folders are."""
    if "shards" in Path(path).name and path.exists():
        raise Killed
    remove_tree(path, **options)


class DyingAtTheSecond:
    """A function that can be called once."""

    def __init__(self, real: Callable[..., object]) -> None:
        self.real, self.calls = real, 0

    def __call__(self, *arguments: object) -> object:
        self.calls += 1
        return self.real(*arguments) if self.calls == 1 else dying()


@pytest.mark.parametrize("made", [as_files, as_tars])
@pytest.mark.parametrize(
    ("place", "name", "instead"),
    [
        (FeatureWriter, "add", dying),
        (extract_features, "_stacked", None),
        (extract_features, "atomic_write", dying),
        (extract_features, "atomic_write", dying_after_writing),
        (shutil, "rmtree", dying_at_shards),
    ],
    ids=["before the first", "in the middle", "before the store knows", "when it knows", "while removing shards"],
)
def test_a_killed_gathering_continues_and_nothing_is_extracted_again(
    folder: Path,
    tmp_path: Path,
    seen: list[int],
    monkeypatch: pytest.MonkeyPatch,
    made: Callable[[Path], list[InputPart]],
    place: object,
    name: str,
    instead: Callable[..., object] | None,
) -> None:
    store, instead = tmp_path / "store", instead or DyingAtTheSecond(getattr(place, name))
    monkeypatch.setattr(extract_features, "TOGETHER", 2)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, instead)
        with pytest.raises(Killed):
            extract(made(folder), store)
    before = len(FeatureStore(store))
    seen.clear()
    is_right(store, extract(made(folder), store), 7 - before)
    assert set(seen) <= {13}


def test_a_killed_extraction_continues(
    folder: Path, tmp_path: Path, seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("captrial.engines.engine.do_part", DyingAtTheSecond(do_part))
        with pytest.raises(Killed):
            extract(as_files(folder), tmp_path / "store")
    is_right(tmp_path / "store", extract(as_files(folder), tmp_path / "store"), 7)
    assert sorted(seen) == list(range(10, 18))


@pytest.mark.parametrize("made", [as_files, as_tars, as_urls])
def test_only_new_images_are_looked_at(
    folder: Path, tmp_path: Path, seen: list[int], made: Callable[[Path], list[InputPart]]
) -> None:
    extract(made(folder), tmp_path / "store")
    seen.clear()
    for name, width in (("0", 30), ("zz", 31)):  # the first moves all others to other parts
        if name == "zz" or made is not as_tars:
            Image.new("RGB", (width, 5), "red").save(folder / f"{name}.png")
    total, new, refused = extract(made(folder), tmp_path / "store")
    assert (total - new, len(refused)) == (7, 2)
    assert set(seen) - {13} == ({31} if made is as_tars else {30, 31})


def test_another_backbone_is_refused_before_any_work(folder: Path, tmp_path: Path, seen: list[int]) -> None:
    extract(as_files(folder), tmp_path / "store")
    seen.clear()
    with pytest.raises(MismatchError, match="holds features with backbone"):
        extract(as_files(folder), tmp_path / "store", "other")
    assert not seen
    assert not OutputFolder(tmp_path / "store" / "shards").folder.exists()


@pytest.mark.parametrize("name", ["hf:{}", "onnx:{}?threshold=0.1+efficientnet-lite2", "localiser+hf:{}?stage=stage3"])
def test_files_that_a_backbone_is_read_from_are_noticed(tmp_path: Path, name: str) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    before = extract_features._files(name.format(file))
    file.write_bytes(b"other")
    assert before != extract_features._files(name.format(file))
    assert extract_features._files("efficientnet-lite2") == extract_features._files("hf:microsoft/resnet-50") == {}
