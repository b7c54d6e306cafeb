from __future__ import annotations

import io
import logging
import tarfile
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from captrial.cli.app import app
from captrial.data.datasets import READERS, DatasetReader, Probe, ReadOptions, detect, read_dataset
from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample
from captrial.toyworld import ToyWorldSettings, write_toyworld
from data.datasets.reader_examples import examples, place
from data.datasets.saved_dataset import save_split

KARPATHY = {"images": [{"filename": "a.jpg", "split": "train", "sentences": [{"raw": "A dog."}]}], "dataset": "ours"}
COCO = {"images": [{"id": 1, "file_name": "a.jpg"}], "annotations": [{"image_id": 1, "caption": "A dog."}]}
EXAMPLES = examples()
XML = "<annotation><filename>7.jpg</filename></annotation>"


def make(folder: Path, form: str) -> Path:
    """A small data set of a form; returns the path a user would name."""
    folder.mkdir()
    if form in EXAMPLES:
        for name, content in EXAMPLES[form].items():
            (folder / name).write_bytes(content)
        return place(folder, EXAMPLES[form])
    if form == "toyworld":
        write_toyworld(folder, ToyWorldSettings(1, size=32))
    if form in ("karpathy", "coco", "boxes"):
        document = {"karpathy": KARPATHY, "coco": COCO, "boxes": {"1": [[0, 0, 1, 1, "dog"]]}}[form]
        (folder / "file.json").write_bytes(orjson.dumps(document))
        return folder / "file.json"
    if form == "coco-folder":
        (folder / "annotations").mkdir()
        (folder / "annotations" / "captions_val2017.json").write_bytes(orjson.dumps(COCO))
        boxes = [{"image_id": 1, "bbox": [0, 0, 1, 1], "category_id": 1}]
        instances = {**COCO, "annotations": boxes, "categories": [{"id": 1, "name": "dog"}]}
        (folder / "annotations" / "instances_val2017.json").write_bytes(orjson.dumps(instances))
    if form == "flickr8k":
        (folder / "tokens").write_text("a.jpg#0\tA dog.\n")
        return folder / "tokens"
    if form == "entities":
        for name, content in (("Sentences/7.txt", "A [/EN#1/animals dog] ."), ("Annotations/7.xml", XML)):
            (folder / name).parent.mkdir()
            (folder / name).write_text(content)
    if form == "sequences":
        (folder / "room").mkdir()
        (folder / "room" / "0.png").touch()
        (folder / "room" / "boxes.json").write_text("{}")
    if form == "shards":
        with tarfile.open(folder / "a.tar", "w") as archive:
            member = tarfile.TarInfo("1.png")
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    if form == "table":
        (folder / "captions.csv").write_text("image,caption\na.jpg,A dog.\n")
        return folder / "captions.csv"
    if form == "imagefolder":
        (folder / "metadata.jsonl").write_text('{"file_name": "a.jpg", "text": "A dog."}\n')
    if form == "huggingface":
        folder.rmdir()
        save_split(folder, ["A dog."])
    if form == "folder":
        (folder / "dog").mkdir()
        (folder / "dog" / "a.jpg").touch()
    return folder


@pytest.mark.parametrize("form", READERS)
def test_every_form_is_recognised_and_read(tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture) -> None:
    path = make(tmp_path / form, form)
    assert detect(path).format == form
    assert str(READERS[form]) in str(detect(path))
    with caplog.at_level(logging.INFO, "captrial"):
        assert len(read_dataset(path)) == 1
    assert str(READERS[form]) in caplog.text
    assert len(read_dataset(path, format=form)) == 1


def test_a_new_reader_needs_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader added to the registry is recognised, read, listed, and shown by the command line."""

    def read_list(path: Path, options: ReadOptions) -> list[Sample]:
        rows = [line.split("|") for line in path.read_text().splitlines()]
        root = Path(options.images or path.parent)
        return [Sample(ImageRef(name, root / name), (caption,), "test") for name, caption in rows]

    def recognise(probe: Probe) -> bool:
        return probe.path.suffix == ".list"

    reader = DatasetReader("list", "caption list", "name|caption", "the .list file", recognise, read_list, True)
    monkeypatch.setitem(READERS, "list", reader)
    path = tmp_path / "ours.list"
    path.write_text("a.jpg|A dog.\nb.jpg|A cat.\n")
    assert detect(path).reader is reader
    assert [sample.captions for sample in read_dataset(path)] == [("A dog.",), ("A cat.",)]
    assert read_dataset(path, images=tmp_path / "photos", format="list")[0].image.path == tmp_path / "photos" / "a.jpg"
    with pytest.raises(DatasetError, match=r"there are .*, list"):
        read_dataset(path, format="zip")
    with pytest.raises(DatasetError, match=r"caption list \(name\|caption\)"):
        detect(tmp_path)

    shown = CliRunner().invoke(app, ["data", "show", str(path), "--json"])
    document = orjson.loads(shown.stdout)
    assert (document["format"], document["splits"][0]["captions"]) == ("list", 2)
    assert "caption list (name|caption)" in CliRunner().invoke(app, ["data", "show", str(path)]).output
    listed = orjson.loads(CliRunner().invoke(app, ["data", "formats", "--json"]).stdout)
    assert listed[-1] == {
        "name": "list", "title": "caption list", "description": "name|caption", "needs": "the .list file"
    }  # fmt: skip


def test_a_folder_with_annotations(tmp_path: Path) -> None:
    for name, document in (("dataset.json", KARPATHY), ("instances.json", COCO), ("results.json", [])):
        (tmp_path / name).write_bytes(orjson.dumps(document))
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").touch()
    assert detect(tmp_path).path == tmp_path / "dataset.json"  # it alone knows the splits
    assert read_dataset(tmp_path, split="train")[0].image.path == tmp_path / "images" / "a.jpg"
    (tmp_path / "other.json").write_bytes(orjson.dumps(KARPATHY))
    with pytest.raises(DatasetError, match=r"several annotation files \(dataset\.json, other\.json\)"):
        detect(tmp_path)


def test_what_is_not_known_gets_the_list(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"what": 1}')
    (tmp_path / "b.txt").write_text("just text")
    for path in (tmp_path / "a.json", tmp_path / "b.txt", tmp_path):
        with pytest.raises(DatasetError, match=r"Formats: .*; Karpathy JSON"):
            detect(path)
    (tmp_path / "c.json").write_text("{broken")
    with pytest.raises(DatasetError, match=r"c\.json: not JSON"):
        detect(tmp_path / "c.json")
    with pytest.raises(DatasetError, match="no such file or folder"):
        detect(tmp_path / "none")
    with pytest.raises(DatasetError, match=r"no format 'zip'; there are .*karpathy"):
        read_dataset(tmp_path, format="zip")


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    path = make(tmp_path / "folder", "folder")
    with pytest.raises(DatasetError, match="takes no image folder"):
        read_dataset(path, images=tmp_path)
    with pytest.raises(DatasetError, match="no split 'train'; it has no splits at all"):
        read_dataset(path, split="train")


@pytest.mark.needs("data")
def test_real_data(data: Path) -> None:
    assert detect(data / "coco" / "images").format == "folder"
    assert len(read_dataset(data / "coco" / "boxes_val2017.json")) == 4952
    assert len(read_dataset(data / "flickr8k", split="test")) == 500


def test_the_toy_world(tmp_path: Path) -> None:
    write_toyworld(tmp_path / "toy", ToyWorldSettings(10, size=64))
    samples = read_dataset(tmp_path / "toy")
    assert len(samples) == 10
    assert all(sample.regions and len(sample.phrases) == 5 and sample.image.label for sample in samples)
    assert len(read_dataset(tmp_path / "toy", split="train")) == 6
    assert detect(tmp_path / "toy" / "dataset.json").format == "karpathy"  # each file alone is what it is
    assert detect(tmp_path / "toy" / "images" / "robot").format == "sequences"
