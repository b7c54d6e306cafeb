"""Folders and answers that captrial stores or receives, for the fuzzing of their readers (`test_fuzzing.CASES`).

Each entry is a function that makes the valid files, and one that reads them.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import torch

from captrial.attribution.attribution import Attribution
from captrial.attribution.explanation import Explanation
from captrial.captioners.batch_captioning import caption_to_file
from captrial.captioners.chat_client import _decoded
from captrial.captioners.checkpoint import Checkpoint, verify_checkpoint
from captrial.captioners.endpoint import EndpointCaptioner
from captrial.captioners.registry import create
from captrial.compete import Competition, SelectionSettings
from captrial.compete.competition import verify_competition
from captrial.compete.ranking.result import read_external_scores
from captrial.engines.engine import run
from captrial.engines.inputs import entry_parts
from captrial.engines.job import JobSpec
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder, verify_output
from captrial.errors import CaptrialError
from captrial.language.vocabulary import Vocabulary
from captrial.metrics.score_inputs import ScoreFiles, read_inputs
from captrial.records import ImageRef, Sample
from captrial.training.run import TrainingData, train, verify_run
from captrial.training.state import STATE, read_counters
from captrial.vision.features.feature_store import FeatureStore, FeatureWriter, verify_store
from captrial.vision.features.hdf5 import Hdf5Features
from captrial.vision.features.npz import NpzFeatures
from captrial.vision.features.precomputed import PrecomputedFeatures
from captrial.vision.features.tsv import TsvFeatures
from captrial.vision.features.visual_features import Features
from compete import synthetic
from data.pools.photos import encoded, scene
from engines.example_jobs import Shout

Files = Mapping[str, bytes]
VISION = {"backbone": "test", "preprocess": {"size": 32}, "width": 3}


def tree(folder: Path) -> Files:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def made(write: Callable[[Path], object]) -> Callable[[], Files]:
    """The files that `write` leaves in a folder; written once."""

    @cache
    def files() -> Files:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            return tree(Path(folder))

    return files


def without_checksums(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """The same reader where nothing tells of the damage but the file itself."""

    def reading(folder: Path) -> object:
        for path in [*folder.rglob("checksums.json")]:
            path.unlink() if path.is_file() else None
        return read(folder)

    return reading


def features(rows: int = 2) -> Features:
    elements = torch.arange(rows * 3.0).reshape(1, rows, 3)
    return Features(elements, torch.ones(1, rows, dtype=torch.bool), torch.rand(1, rows, 4))


def write_store(folder: Path) -> None:
    with FeatureWriter(folder, VISION) as writer:
        for name in ("a", "b"):
            writer.add([name], features(), [{"labels": ["dog", "cat"], "image": ["1", "2"]}])


def read_store(folder: Path) -> None:
    verify_store(folder)
    store = FeatureStore(folder)
    found = store.get(list(store)) if len(store) else None
    assert found is None or torch.isfinite(found.elements).all()


def continue_store(folder: Path) -> None:
    with suppress(IsADirectoryError), FeatureWriter(folder, VISION) as writer:  # `main` turns it into a message
        writer.add(["c"], features())


def write_competition(folder: Path) -> None:
    (folder / "files").mkdir()
    files, _ = synthetic.write_files(folder / "files", synthetic.captions(12, 3))
    competition = Competition.create(folder / "c", files)
    competition.select(SelectionSettings(3, 3))
    competition.sample("hybrid")
    lines = [{"id": image, "captions": ["a dog runs"]} for image in competition.selected_images()]
    (folder / "c" / "references.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = {"id": lines[0]["id"], "a": competition.models[0], "b": competition.models[1], "winner": "a"}
    (folder / "c" / "judgements.jsonl").write_text(json.dumps(judged) + "\n")
    (folder / "c" / "indescribable.json").write_text(json.dumps([lines[1]["id"]]))


def only(part: str, files: Callable[[], Files]) -> Callable[[], Files]:
    return lambda: {
        name.removeprefix(f"{part}/"): data for name, data in files().items() if name.startswith(f"{part}/")
    }


def read_competition(folder: Path) -> None:
    verify_competition(folder)
    competition = Competition.open(folder)
    competition.status()
    competition.label_sample()
    competition.judgements()
    competition.rank()


def select_again(folder: Path) -> None:
    with suppress(IsADirectoryError):
        Competition.open(folder).select(SelectionSettings(2, 2), again=True)


def write_checkpoint(folder: Path) -> None:
    words = Vocabulary(("a", "dog"))
    captioner = create("transformer-small", words=len(words), features=3, width=8, heads=2, hidden=8)
    Checkpoint(captioner, words, VISION).save_pretrained(folder)


def read_checkpoint(folder: Path) -> None:
    verify_checkpoint(folder)
    Checkpoint.from_pretrained(folder)


class OneImage:
    def get(self, image_ids: list[str]) -> Features:
        one = features()
        return Features(one.elements.expand(len(image_ids), -1, -1), one.mask.expand(len(image_ids), -1), None)


def train_tiny(folder: Path) -> None:
    samples = [Sample(ImageRef(str(number)), ("a dog runs",)) for number in range(3)]
    sizes = {"width": "8", "heads": "2", "hidden": "8", "min_count": "1", "epochs": "1"}
    with suppress(IsADirectoryError):
        train("transformer-small", TrainingData(samples, samples, OneImage(), VISION), folder, sizes)


def read_run(folder: Path) -> None:
    verify_run(folder)
    if (folder / STATE).exists():
        read_counters(folder / STATE)
    Checkpoint.from_pretrained(folder / "best")


def write_output(folder: Path) -> None:
    run(JobSpec(Shout), entry_parts("items", [(str(n), str(n)) for n in range(4)], 2), folder, LocalEngine())


def read_output(folder: Path) -> None:
    verify_output(folder)
    list(OutputFolder(folder).rows())
    OutputFolder(folder).is_whole()


def read_precomputed(source: PrecomputedFeatures) -> None:
    for image in source:
        try:
            source.get([image])
            source.entry(image)
        except CaptrialError:
            continue


def tsv() -> Files:
    def text(values: np.ndarray) -> bytes:
        return base64.b64encode(values.tobytes())

    boxes, found = np.array([[0, 0, 5, 5], [1, 1, 9, 9]], np.float32), np.ones((2, 3), np.float32)
    line = b"\t".join([b"42", b"10", b"10", b"2", text(boxes), text(found)])
    long = [b"7", b"10", b"10", text(np.array([1, 2])), text(np.ones(2, np.float32)), b"", b"", b"2"]
    return {"a.tsv": line + b"\n" + b"\t".join([*long, text(boxes), text(found)]) + b"\n"}


def npz() -> Files:
    stream, single = io.BytesIO(), io.BytesIO()
    np.savez(stream, features=np.ones((2, 3), np.float32), boxes=np.ones((2, 4), np.float32), image_w=9, image_h=9)
    np.save(single, np.ones((2, 2, 3), np.float32))
    return {"n/a.npz": stream.getvalue(), "n/b.npy": single.getvalue()}


def write_hdf5(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "f.hdf5", "w") as file:
        file["a_features"], file["a_boxes"] = np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)
        file["a_cls_prob"] = np.ones((2, 5), np.float32)


def write_explanation(folder: Path) -> None:
    boxes = np.array([[0, 0, 0.5, 1], [0.5, 0, 1, 1]], np.float32)
    attribution = Attribution(("a", "dog"), np.ones((2, 2), np.float32), boxes, method="saliency", grid=(1, 2))
    Explanation(attribution, "test").save(folder / "e.npz")


ANSWER = {"choices": [{"message": {"content": "a dog runs"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


def read_answer(folder: Path) -> None:
    captioner = EndpointCaptioner("http://127.0.0.1:9/v1", "m")
    content = (folder / "answer").read_bytes() if (folder / "answer").is_file() else b""
    for encoding in ("", "gzip", "br"):
        try:
            text = captioner._read(200, _decoded(content, encoding, "http://h", "a caption"))
        except CaptrialError:
            continue
        assert text == " ".join(text.split())
    assert isinstance(captioner.usage.prompt_tokens + captioner.usage.completion_tokens, int)


class Namer:
    def caption(self, images: list[object]) -> list[str]:
        return ["a dog"] * len(images)


def write_captions_of_run(folder: Path) -> None:
    (folder / "a.jpg").write_bytes(encoded(scene(1)))
    caption_to_file(Namer(), [ImageRef("a", folder / "a.jpg")], folder / "m.jsonl")  # type: ignore[arg-type]


def read_captions_of_run(folder: Path) -> None:
    with suppress(IsADirectoryError):
        caption_to_file(Namer(), [ImageRef("a", folder / "a.jpg")], folder / "m.jsonl")  # type: ignore[arg-type]


def objects() -> Files:
    return {
        "objects.json": json.dumps({"42": ["dog", "cat"], "7": []}).encode(),
        "s.json": json.dumps([{"image_id": 42, "caption": "a dog"}, {"image_id": 7, "caption": "a cat"}]).encode(),
        "r.json": json.dumps({"42": ["a dog"], "7": ["a cat"]}).encode(),
    }


def read_objects(folder: Path) -> None:
    files = ScoreFiles([folder / "s.json"], folder / "r.json", objects=folder / "objects.json")
    read_inputs(files, lambda _: None)


COMPETITION, STORE, RUN = only("c", made(write_competition)), made(write_store), made(train_tiny)
CHECKPOINT, OUTPUT = made(write_checkpoint), made(write_output)
STORED: dict[str, tuple[Callable[[], Files], Callable[[Path], object]]] = {
    "store": (STORE, read_store),
    "store without checksums": (STORE, without_checksums(read_store)),
    "store to continue": (STORE, continue_store),
    "competition": (COMPETITION, read_competition),
    "competition without checksums": (COMPETITION, without_checksums(read_competition)),
    "competition to select again": (COMPETITION, without_checksums(select_again)),
    "checkpoint": (CHECKPOINT, read_checkpoint),
    "checkpoint without checksums": (CHECKPOINT, without_checksums(read_checkpoint)),
    "training run": (RUN, read_run),
    "training run without checksums": (RUN, without_checksums(read_run)),
    "training run to continue": (RUN, without_checksums(train_tiny)),
    "output of workers": (OUTPUT, read_output),
    "output of workers to continue": (OUTPUT, write_output),
    "features tsv": (tsv, lambda folder: read_precomputed(TsvFeatures(folder / "a.tsv"))),
    "features npz": (npz, lambda folder: read_precomputed(NpzFeatures(folder / "n"))),
    "features hdf5": (made(write_hdf5), lambda folder: read_precomputed(Hdf5Features(folder / "f.hdf5"))),
    "explanation": (made(write_explanation), lambda folder: Explanation.load(folder / "e.npz")),
    "answer of an endpoint": (lambda: {"answer": json.dumps(ANSWER).encode()}, read_answer),
    "captions of a captioner": (made(write_captions_of_run), read_captions_of_run),
    "external scores": (
        lambda: {"s.json": b'{"a": {"cider": 1.2, "bleu_1": 0.5}, "b": 0.7}'},
        lambda folder: read_external_scores(folder / "s.json"),
    ),
    "objects": (objects, read_objects),
}
