"""Every reader on malformed files: a result or a `CaptrialError`; in time (20 s) and in bounded memory (1 GiB).

`make test` reads some 30 malformed inputs of each kind; `pytest --full tests/test_fuzzing.py` 400 of each, more than
30 000 in all; with `CAPTRIAL_RESULTS=FILE` each kind adds a line with its counts to that file, of which `python -m
studies.reliability_counts FILE` makes a table. To add a reader, write a valid input and a function that reads it, and
add a line to `CASES`; the reader of a data set needs only `EXAMPLE`, the files of a valid one, in its own test.
`test_readers.py` fails where a reader has neither.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sqlite3
import struct
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from PIL import Image
from safetensors.torch import save

from analysis_inputs import KEPT
from captrial.arrays import map_npy, read_npz
from captrial.captioners.chat_client import refused_parameters
from captrial.captioners.published import read_weights, read_words
from captrial.data import image_size, open_image, read_captions, read_dataset, read_references
from captrial.data.captions import read_id_table
from captrial.data.datasets import problems, read_shards
from captrial.data.datasets.coco import read_coco
from captrial.data.datasets.toyworld import read_toyworld
from captrial.data.image_source import ImageSource
from captrial.data.images import image_orientation
from captrial.data.pools import ImagePool, PoolSettings, build_pool, verify_pool
from captrial.data.pools.sources import read_url_list
from captrial.errors import CaptrialError
from captrial.language.class_words import ClassTable
from captrial.language.text_cache import TextCache
from captrial.language.vector_files import read_vectors
from captrial.language.vectors import VectorFiles, WordVectors, convert
from captrial.language.vocabulary import Vocabulary
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.semantic.sentence_encoder import read_settings
from captrial.toyworld import ToyWorldSettings, write_toyworld
from data.datasets.reader_examples import examples, place
from data.datasets.saved_dataset import save_splits
from malformed import Change, limits, malformed, mutations
from stored_inputs import STORED

Files = Mapping[str, bytes]
CAPTIONS = {"42": "a dog runs", "7": 'two cats, "asleep"', "000000000139.jpg": "ein Hund"}


@dataclass(frozen=True)
class Case:
    """A valid input, and a function that reads it."""

    files: Callable[[], Files]
    read: Callable[[Path], object]


def one(name: str, content: bytes) -> Callable[[], Files]:
    return lambda: {name: content}


WEIGHTS = {"a.weight": torch.zeros(2, 3), "a.bias": torch.zeros(2)}


def read_refusal(folder: Path) -> None:
    if (folder / "answer").is_file():  # answers come from the network: there is always one
        refused_parameters((folder / "answer").read_bytes(), {"temperature": 0})


def pickled_weights() -> Files:
    stream = io.BytesIO()
    torch.save({"state_dict": WEIGHTS}, stream)
    return {"w.pth": stream.getvalue()}


def dumps(value: object) -> bytes:
    return json.dumps(value).encode()


def parquet(columns: Mapping[str, list[Any]]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), stream)
    return stream.getvalue()


def image_bytes(form: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((24, 16)).convert(mode).save(stream, form, **options)
    return stream.getvalue()


def tar(mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        record = {"id": "a", "captions": ["a dog"], "regions": [[0, 0, 5, 5, "dog", 1.0]], "split": "train"}
        for name, content in {
            "a.jpg": image_bytes("JPEG"),
            "a.json": dumps(record),
            "b.png": image_bytes(),
            "b.txt": b"x",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def tree(folder: Path) -> Files:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@cache
def toyworld() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        write_toyworld(Path(folder) / "toy", ToyWorldSettings(2, size=32, shares={"train": 1, "robot": 1}))
        return tree(Path(folder) / "toy")


@cache
def pool() -> Files:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shards").mkdir()
        (folder / "shards" / "s.tar").write_bytes(tar())
        build_pool([folder / "shards"], folder / "pool", PoolSettings(unpack=True))
        return {name: content for name, content in tree(folder / "pool").items() if not name.startswith("scan")}


@cache
def converted_vectors() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v.txt"
        path.write_bytes(VECTORS)
        os.environ["CAPTRIAL_CACHE"] = folder
        return tree(convert(path).folder)


def entities() -> Files:
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>10</xmax><ymax>20</ymax></bndbox>"
    size = "<size><width>30</width><height>40</height></size>"
    xml = f"<annotation><filename>77.jpg</filename>{size}<object><name>1</name>{box}</object></annotation>"
    return {
        "Sentences/77.txt": b"[/EN#1/people A man] rides [/EN#0/notvisual a lot] .\n",
        "Annotations/77.xml": xml.encode(),
        "train.txt": b"77\n",
    }


def sequences(name: str, content: bytes) -> Callable[[], Files]:
    return lambda: {f"run/{name}": content, "run/000.png": image_bytes(), "run/001.png": image_bytes()}


def karpathy() -> Files:
    sentence = {"raw": "A dog.", "tokens": ["a", "dog"], "imgid": 0, "sentid": 0}
    image = {"filename": "a.jpg", "filepath": "val", "cocoid": 42, "imgid": 0, "split": "train", "sentids": [0]}
    return {"dataset.json": dumps({"images": [{**image, "sentences": [sentence]}], "dataset": "x"})}


def saved_dataset() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        save_splits(Path(folder) / "d", {"train": ["A dog.", "A cat."]})
        return {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()
        }


def coco() -> Files:
    boxes = {"id": 1, "image_id": 42, "category_id": 1, "bbox": [1, 2, 5, 6], "iscrowd": 0, "area": 30}
    polygon = {**boxes, "segmentation": [[1, 1, 6, 1, 6, 8]]}
    runs = {**boxes, "id": 2, "segmentation": {"size": [16, 24], "counts": [10, 20, 354]}}
    text = {**boxes, "id": 3, "segmentation": {"size": [16, 24], "counts": "0P<"}}
    images = [{"id": 42, "file_name": "a.jpg", "width": 24, "height": 16}]
    return {
        "a.json": dumps(
            {"images": images, "annotations": [polygon, runs, text], "categories": [{"id": 1, "name": "dog"}]}
        )
    }


def coco_captions() -> Files:
    images = [{"id": 42, "file_name": "a.jpg"}, {"id": 7, "file_name": "b.jpg"}]
    return {"a.json": dumps({"images": images, "annotations": ROWS})}


def document_frequencies() -> Files:
    stream = io.BytesIO()
    DocumentFrequencies.of([["a dog runs", "a dog"], ["a cat"]]).write(stream)
    return {"df.npz": stream.getvalue()}


def arrays() -> Files:
    stream, single = io.BytesIO(), io.BytesIO()
    np.savez(stream, a=np.arange(6.0).reshape(2, 3), b=np.array("x"))
    np.save(single, np.arange(6.0).reshape(2, 3))
    return {"a.npz": stream.getvalue(), "a.npy": single.getvalue()}


def vocabulary() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        Vocabulary(("a", "dog")).save(Path(folder) / "v.json")
        return tree(Path(folder))


def text_cache() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        TextCache("x", directory=Path(folder)).complete(["a", "b"], lambda texts: [text.upper() for text in texts])
        with sqlite3.connect(Path(folder) / "x.sqlite") as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        connection.close()
        return tree(Path(folder))


def read_cache(folder: Path) -> None:
    texts = ["a", "b", "c"]
    found = TextCache("x", directory=folder).complete(texts, lambda missing: [text.upper() for text in missing])
    assert all(isinstance(text, str) for text in found)


def read_any_captions(name: str, folder: Path) -> None:
    for read in (read_captions, partial(read_captions, known_ids=["42", "139"], strict=False), read_references):
        try:
            found = read(folder / name)
        except CaptrialError:
            continue
        entries = found if isinstance(found, dict) else found.to_dict()
        assert entries
        assert all(isinstance(key, str) for key in entries)


def read_all(path: Path, form: str | None = None) -> None:
    samples = read_dataset(path, format=form)
    problems(samples)
    for sample in samples:
        assert isinstance(sample.id, str)
        assert all(isinstance(caption, str) for caption in sample.captions)


def open_all(folder: Path) -> None:
    for read in (open_image, image_size, image_orientation):
        for path in folder.iterdir():
            try:
                read(path)
            except CaptrialError:
                continue


def read_pool(folder: Path) -> None:
    for found in (verify_pool(folder), verify_pool(folder)):
        assert found.kind == "image pool"
    loaded = ImagePool.load(folder)
    loaded.left_out()
    loaded.classes()
    source = ImageSource(folder)
    for image in loaded.images():
        source.open(image.id)


def read_pool_without_checksums(folder: Path) -> None:
    path = folder / "checksums.json"
    path.unlink() if path.is_file() else None
    read_pool(folder)


def rebuild_pool(folder: Path) -> None:
    (folder / "photos").mkdir(exist_ok=True)
    (folder / "photos" / "a.png").write_bytes(image_bytes())
    with suppress(IsADirectoryError):  # a folder where a file is to be written; `main` turns it into a message
        build_pool([folder / "photos"], folder / "pool")


def read_converted(folder: Path) -> None:
    vectors = WordVectors(VectorFiles(folder, folder / "vectors.npy"), "own", 1)
    vectors.similarities(["dog", "unknown"], ["cat"])
    assert len(vectors.words) == len(vectors)


def open_vectors(folder: Path) -> None:
    read_vectors(folder / "v")
    os.environ["CAPTRIAL_CACHE"] = str(folder)
    WordVectors.open(folder / "v").similarities(["dog"], ["cat"])


def unreadable(folder: Path) -> None:
    read_npz(folder / "a.npz")
    map_npy(folder / "a.npy").sum()


def log_archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("samples/42_epoch_1.json", dumps({"id": 42, "output": {"completion": "a dog"}}))
        archive.writestr("header.json", dumps({"eval": {"task": "caption"}}))
    return target.getvalue()


def workbook() -> bytes:
    target = io.BytesIO()
    pd.DataFrame({"index": [42, 7], "prediction": ["a dog", "a cat"]}).to_excel(target, index=False, engine="openpyxl")
    return target.getvalue()


VECTORS = b"dog 0.1 0.2 0.5\ncat 0.3 -1.5 0.5\nsofa 1e-3 2 3\nbus 1 1 0\n"
BINARY = b"3 2\n" + b"".join(word + b" " + struct.pack("<2f", 1.5, -2) + b"\n" for word in (b"dog", b"cat", b"bus"))
ROWS = [{"image_id": 42, "caption": "a dog"}, {"image_id": 7, "caption": "a cat"}]
BOXES = {"000.png": [[0, 0, 5, 5, "dog", 0.5]], "001": [[1, 1, 3, 3, "cat"]]}
ACRV = {"000000": {"_metadata": {"x": 1}, "7": {"class": "dog", "bounding_box": [1, 1, 4, 4]}}}
CAPTION_FILES = {
    "results.json": dumps(ROWS),
    "mapping.json": dumps(CAPTIONS),
    "references.json": dumps({"42": ["a dog", "a cat"], "7": ["x"]}),
    "coco.json": dumps({"images": [{"id": 42}], "annotations": ROWS}),
    "karpathy.json": karpathy()["dataset.json"],
    "lines.jsonl": b"\n".join(map(dumps, ROWS)),
    "table.csv": b'id,caption\n42,a dog\n7,"two cats, ""asleep"""\n',
    "table.tsv": b"image_id\tcaption\n42\ta dog\n",
    "token.txt": b"a.jpg#0\tA dog .\na.jpg#1\tA cat .\n",
    "table.parquet": parquet({"id": list(CAPTIONS), "caption": list(CAPTIONS.values()), "split": ["a", "b", "a"]}),
    "log.eval": log_archive(),
    "table.xlsx": workbook(),
    "log.jsonl": dumps({"doc_id": 1, "doc": {"img_id": 42}, "filtered_resps": ["a dog"], "c": {"pred": "x"}}) + b"\n",
    "lists.parquet": parquet({"id": [1, 2], "captions": [["a"], ["b", "c"]]}),
}
IMAGES = {
    "JPEG": image_bytes("JPEG", exif=Image.Exif()),
    "progressive": image_bytes("JPEG", progressive=True),
    "CMYK": image_bytes("JPEG", "CMYK"),
    "PNG": image_bytes(),
    "palette": image_bytes("PNG", "P", transparency=0),
    "16 bits": image_bytes("PNG", "I;16"),
    "WebP": image_bytes("WebP", "RGBA"),
    "GIF": image_bytes("GIF", "P"),
    "BMP": image_bytes("BMP"),
    "TIFF": image_bytes("TIFF"),
    "float": image_bytes("TIFF", "F", compression="tiff_lzw"),
    "deflate": image_bytes("TIFF", "RGBA", compression="tiff_adobe_deflate"),
}


def encoder_settings() -> Files:
    kinds = ("Transformer", "Pooling", "Normalize")
    return {
        "sentence_bert_config.json": dumps({"max_seq_length": 256, "do_lower_case": False}),
        "modules.json": dumps(
            [{"idx": n, "type": f"sentence_transformers.models.{kind}"} for n, kind in enumerate(kinds)]
        ),
        "1_Pooling/config.json": dumps({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}),
    }


def of_reader(files: Files) -> Case:
    return Case(lambda: files, lambda folder: read_all(place(folder, files)))


CASES: dict[str, Case] = {
    **{
        f"captions {name}": Case(one(name, text), partial(read_any_captions, name))
        for name, text in CAPTION_FILES.items()
    },
    **{f"image {name}": Case(one("image", content), open_all) for name, content in IMAGES.items()},
    **{f"dataset {name.replace('-', ' ')}": of_reader(files) for name, files in examples().items()},
    "dataset toyworld": Case(toyworld, lambda folder: read_all(folder)),
    "dataset toyworld masks": Case(toyworld, lambda folder: read_toyworld(folder, masks=True)),
    "dataset entities": Case(entities, lambda folder: read_all(folder)),
    "dataset shards": Case(one("a.tar", tar()), lambda folder: read_all(folder)),
    "dataset shards gz": Case(one("a.tar.gz", tar("w:gz")), lambda folder: list(read_shards(folder / "a.tar.gz"))),
    "dataset boxes.json": Case(sequences("boxes.json", dumps(BOXES)), lambda folder: read_all(folder, "sequences")),
    "dataset labels.json": Case(sequences("labels.json", dumps(ACRV)), lambda folder: read_all(folder, "sequences")),
    "dataset boxes.csv": Case(
        sequences("boxes.csv", b"frame,x1,y1,x2,y2,label\n000.png,0,0,5,5,dog\n"), lambda folder: read_all(folder)
    ),
    "dataset karpathy": Case(karpathy, lambda folder: read_all(folder)),
    "dataset flickr8k": Case(
        one("x.token", CAPTION_FILES["token.txt"]), lambda folder: read_all(folder / "x.token", "flickr8k")
    ),
    "dataset coco": Case(coco, lambda folder: read_all(folder / "a.json")),
    "dataset coco masks": Case(coco, lambda folder: read_coco(folder / "a.json", masks=True)),
    "dataset coco captions": Case(coco_captions, lambda folder: read_all(folder / "a.json")),
    "dataset plain boxes": Case(one("b.json", dumps(BOXES)), lambda folder: read_all(folder / "b.json", "boxes")),
    "ids csv": Case(one("ids.csv", b"theirs,ours\n1,a.jpg\n"), lambda folder: read_id_table(folder / "ids.csv")),
    "ids json": Case(one("ids.json", b'{"1": "a.jpg"}'), lambda folder: read_id_table(folder / "ids.json")),
    "dataset references": Case(
        one("d.json", b'{"a.jpg": ["A dog.", "One dog."]}'), lambda folder: read_all(folder / "d.json", "table")
    ),
    "dataset table": Case(
        one("d.csv", b"file_name,caption,split\na.jpg,A dog.,train\n"), lambda folder: read_all(folder / "d.csv")
    ),
    "dataset imagefolder": Case(
        one("metadata.jsonl", b'{"file_name": "a.jpg", "text": "A dog."}\n'), lambda folder: read_all(folder)
    ),
    "dataset huggingface": Case(saved_dataset, lambda folder: read_all(folder / "d")),
    "dataset folder": Case(
        lambda: {"cats/a.png": image_bytes(), "b.jpg": image_bytes("JPEG")}, lambda folder: read_all(folder)
    ),
    "pool": Case(pool, read_pool),
    "pool without checksums": Case(pool, read_pool_without_checksums),
    "pool to build again": Case(lambda: {f"pool/{name}": content for name, content in pool().items()}, rebuild_pool),
    "pool from a shard": Case(one("s.tar", tar()), lambda folder: build_pool([folder / "s.tar"], folder / "pool")),
    "url list": Case(
        one("urls.txt", b"url,id,class\nhttp://a.example/1.jpg,one,cat\nhttps://b.example/2.jpg,two,dog\n"),
        lambda folder: read_url_list(folder / "urls.txt"),
    ),
    "vectors as text": Case(one("v", VECTORS), open_vectors),
    "vectors with header": Case(one("v", b"4 3\n" + VECTORS), open_vectors),
    "vectors as binary": Case(one("v", BINARY), open_vectors),
    "vectors converted": Case(converted_vectors, read_converted),
    "document frequencies": Case(document_frequencies, lambda folder: DocumentFrequencies.load(folder / "df.npz")),
    "sentence encoder's settings": Case(encoder_settings, read_settings),
    "arrays": Case(arrays, unreadable),
    "vocabulary": Case(vocabulary, lambda folder: Vocabulary.load(folder / "v.json")),
    "class table": Case(
        one("c.txt", b"[x]\ndog: puppy, =hound, ~husky\ncat: kitten\n"), lambda f: ClassTable.load(f / "c.txt")
    ),
    "text cache": Case(text_cache, read_cache),
    "published weights": Case(
        one("w.safetensors", save(WEIGHTS)), lambda folder: read_weights(folder / "w.safetensors")
    ),
    "published weights as pickle": Case(pickled_weights, lambda folder: read_weights(folder / "w.pth")),
    "published words": Case(
        one("words.json", dumps({"ix_to_word": {"1": "a", "2": "dog"}})), lambda f: read_words(f / "words.json")
    ),
    "published words as pickle": Case(
        one("words.pkl", pickle.dumps({"ix_to_word": {"1": "a", "2": "dog"}}, 2)),
        lambda folder: read_words(folder / "words.pkl", allow_pickle=True),
    ),
    "refusal of an endpoint": Case(
        one("answer", dumps({"error": {"param": "temperature", "code": "unsupported_value"}})),
        read_refusal,
    ),
    **{name: Case(*pair) for name, pair in {**STORED, **KEPT}.items()},
}


COUNTS: Counter[str] = Counter()  # of the case that is attacked


def attack(case: Case, changes: list[Change]) -> None:
    with malformed(case.files(), changes) as folder, limits():
        start = time.monotonic()
        try:
            case.read(folder)
            COUNTS["read"] += 1
        except CaptrialError:
            COUNTS["refused"] += 1
        COUNTS["longest_ms"] = max(COUNTS["longest_ms"], round(1000 * (time.monotonic() - start)))


INPUTS = int(os.environ.get("CAPTRIAL_INPUTS", "400"))  # of each kind, in the long run
SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAPTRIAL_CACHE", str(tmp_path))


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Adds a line with the counts of the case to the file of `CAPTRIAL_RESULTS`, where there is one."""
    COUNTS.clear()
    yield
    if os.environ.get("CAPTRIAL_RESULTS"):
        with Path(os.environ["CAPTRIAL_RESULTS"]).open("a") as stream:
            stream.write(json.dumps({"case": request.node.callspec.params["name"], **COUNTS}) + "\n")


@pytest.mark.parametrize("name", CASES)
def test_valid_inputs_are_read(name: str) -> None:
    with malformed(CASES[name].files(), []) as folder, limits():
        CASES[name].read(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=30, derandomize=True, **SETTINGS)  # the same inputs in every run; the long run draws new ones
@given(changes=mutations())
def test_malformed_inputs(name: str, changes: list[Change]) -> None:
    attack(CASES[name], changes)


@pytest.mark.full
@pytest.mark.usefixtures("counted")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=INPUTS, **SETTINGS)
@given(changes=mutations())
def test_hundreds_of_malformed_inputs(name: str, changes: list[Change]) -> None:
    attack(CASES[name], changes)
