"""Files that analyses, detectors, downloads and the annotation keep, for the fuzzing of their readers.

Each entry is a function that makes the valid files, and one that reads them (`test_fuzzing.CASES`).
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import save

from annotate.annotation_world import make_competition, write_everything
from captrial.annotate.service import AnnotationService
from captrial.annotate.settings import AnnotationSettings, parse_settings, write_settings
from captrial.captioners.huggingface.processors import _processor_class
from captrial.compete.storage.captioner_runs import _check_source, _note, describe_source
from captrial.compete.storage.creation import _clean_parquet
from captrial.compete.storage.labels import DerivedHead, read_derived, write_derived
from captrial.data import read_captions
from captrial.data.pools.download import DownloadSettings, download
from captrial.engines.engine import run
from captrial.engines.inputs import entry_parts, find_parts
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.jobs.extract_features import FeatureJob, gather
from captrial.engines.jobs.ground import GroundJob, read_rows
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder
from captrial.errors import CaptrialError
from captrial.folders import LOCK, _locked_message
from captrial.grounding.attention_correctness import AttentionResult, PhraseScore
from captrial.grounding.attention_tables import correctness_table
from captrial.grounding.external_maps import MapFiles
from captrial.grounding.regions import detect_regions
from captrial.grounding.score import Grounder
from captrial.grounding.study import GroundingResult, ground_dataset
from captrial.judges import (
    EndpointJudge,
    JudgeDescription,
    MachineGrade,
    MachineVerdict,
    VerdictFile,
    read_prices,
    read_rubric,
    read_verdicts,
)
from captrial.judges.answers import read_answer
from captrial.judges.endpoint_judge import Asked
from captrial.judges.endpoint_propositions import located
from captrial.judges.machine_verdicts import LostCost
from captrial.judges.trial_file import TEMPLATE, read_trial
from captrial.metrics.meteor.resources import ParaphraseTable
from captrial.papers.experiments import ExperimentResult, FigureFile, PaperClaim, TextTable, load_papers
from captrial.papers.reproduction import SETTINGS, Reproduction
from captrial.papers.study_captioners import read_kept_captions
from captrial.records import ImageRef, Sample
from captrial.toyworld import ToyWorldSettings, write_toyworld
from captrial.vision.backbones.efficientnet import EfficientNetLite
from captrial.vision.backbones.vgg import read_weights
from captrial.vision.detectors.noun_localiser import NounLocaliser
from captrial.vision.detectors.noun_presence import NounPresence, PresenceTable
from captrial.vision.detectors.region_detector import RegionDetector, RegionNetwork
from captrial.vision.hub_checkpoints import is_transformers
from grounding.scripted_captioner import IMAGES, LABELS, SCRIPT
from stored_inputs import VISION, Files, made
from vision.detectors.test_region_detector import LABELS as REGION_LABELS
from vision.detectors.test_region_detector import SMALL


def dumps(value: object) -> bytes:
    return json.dumps(value).encode()


# What `ground`, `attend` and `papers` keep ----------------------------------------------------------------------------


@cache
def grounder() -> Grounder:
    return Grounder(LABELS)


def ground(folder: Path) -> None:
    with suppress(IsADirectoryError):  # a folder where a file is to be written; `main` turns it into a message
        found = ground_dataset(SCRIPT, IMAGES, grounder(), keep=folder / "scripted.jsonl")
        assert len(found.scores(0)) == len(IMAGES)


class Finder:
    """A detector that finds a dog everywhere."""

    name, labels = "finder", ("dog",)

    def describe(self) -> dict[str, str]:
        return {"name": self.name}

    def detect(self, images: list[Image.Image]) -> list[list[object]]:
        return [[IMAGES[0].regions[0]] for _ in images]


def find_regions(folder: Path) -> None:
    image = folder / "a.png"
    if not image.exists():
        Image.new("RGB", (8, 8)).save(image)
    with suppress(IsADirectoryError):
        detect_regions([Sample(ImageRef("a", image))], Finder(), folder / "regions.jsonl")  # type: ignore[arg-type]


MEASURES = {"correctness": 0.4, "pointing": 1.0, "auc": 0.5, "l1": 0.1, "l2": 0.2, "kl": float("nan")}
SCORE = PhraseScore(
    model="m", setting="forced", image="1", caption=0, text="a dog", start=0, area=0.2, kind="animals", **MEASURES
)


def write_attention(folder: Path) -> None:
    dropped = {"forced": Counter({"no region": 2})}
    AttentionResult("m", "attention", [SCORE] * 3, {"1": "a dog"}, dropped).write(folder / "a.json")


def read_attention(folder: Path) -> None:
    correctness_table([AttentionResult.read(folder / "a.json")])


def maps() -> Files:
    archive, single, nested = io.BytesIO(), io.BytesIO(), io.BytesIO()
    values = np.ones((2, 3, 3), np.float32)
    np.savez(archive, **{"1": values, "1#0": values})
    np.save(single, values)
    np.savez(nested, values)
    return {"m.npz": archive.getvalue(), "f/1.npy": single.getvalue(), "f/2.npz": nested.getvalue()}


def read_maps(folder: Path) -> None:
    for path in (folder / "m.npz", folder / "f"):
        found = MapFiles(path)
        for key in found.keys:
            found[key].sum()


def write_reproduction(folder: Path) -> None:
    paper = load_papers()["liu"]
    key = next(experiment.key for experiment in paper.experiments if experiment.kind == "measured")
    table = TextTable("t", "A table", ("a", "b"), (("1", "2"),), ("a note",))
    result = ExperimentResult(
        key, (table,), (FigureFile("figures/f.svg", "F"),), (PaperClaim("c", True, "s"),), ("n",), "", 1.5
    )
    plain = {name: value for name, value in asdict(result).items() if name != "reused"}
    (folder / "experiments").mkdir()
    (folder / "experiments" / f"{key}.json").write_bytes(dumps({"made with": "x", "result": plain}))
    (folder / SETTINGS).write_bytes(dumps({"settings": {"beam": 1}, "command": "captrial papers liu"}))


def read_reproduction(folder: Path) -> None:
    found = Reproduction.read(load_papers()["liu"], folder)
    assert found.seconds >= 0 or found.seconds < 0
    assert all(table.markdown() for result in found.results.values() for table in result.tables)


# Outputs of workers ---------------------------------------------------------------------------------------------------


class GroundingRows(Job):
    """Gives the rows of `GroundJob`."""

    schema = GroundJob.schema

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        found = ground_dataset(SCRIPT, IMAGES, grounder()).images
        return [{"grounded": dumps(found[int(row["id"])].to_dict()).decode()} for row in rows]


class FeatureRows(Job):
    """Gives the rows of `FeatureJob`."""

    schema = FeatureJob.schema

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        elements, boxes = np.ones((2, 3), np.float16).tobytes(), np.ones((2, 4), np.float16).tobytes()
        return [{"elements": elements, "boxes": boxes, "notes": '{"labels": ["dog", "cat"]}'} for _ in rows]


def write_rows(job: type[Job]) -> Callable[[Path], None]:
    parts = entry_parts("items", [(str(number), str(number)) for number in range(2)], 1)
    return lambda folder: run(JobSpec(job), parts, folder / "shards", LocalEngine())


def read_grounding_rows(folder: Path) -> None:
    result = GroundingResult("m", "", "attention", "", grounder=grounder())
    read_rows(OutputFolder(folder / "shards"), result)
    result.scores(0)


def gather_rows(folder: Path) -> None:
    with suppress(IsADirectoryError):
        gather(OutputFolder(folder / "shards"), folder / "store", VISION)
        gather(OutputFolder(folder / "shards"), folder / "store", VISION)


def rows_of_parquet() -> Files:
    stream = io.BytesIO()
    pq.write_table(pa.table({"id": ["a", "b"], "path": ["a.png", "../b.png"], "caption": ["x", "y"]}), stream)
    return {"rows.parquet": stream.getvalue()}


def read_parquet_rows(folder: Path) -> None:
    for part in find_parts(folder / "rows.parquet"):
        list(part.rows())


# Detectors and weights ------------------------------------------------------------------------------------------------


def write_detector(folder: Path) -> None:
    torch.manual_seed(0)
    RegionDetector(RegionNetwork(REGION_LABELS, SMALL)).save_pretrained(folder)


def write_localiser(folder: Path) -> None:
    NounLocaliser(["dog", "cat"], ["red"], EfficientNetLite(0)).save_pretrained(folder)


def write_presence(folder: Path) -> None:
    table = PresenceTable(("dog", "cat"), ("dog", None), np.ones((2, 4)), measured={})
    NounPresence(table, torch.nn.Linear(3, 2)).save_pretrained(folder)


def weights() -> Files:
    stream = io.BytesIO()
    torch.save({"a": torch.ones(2)}, stream)
    return {"a.safetensors": save({"a": torch.ones(2)}), "a.pth": stream.getvalue()}


def read_all_weights(folder: Path) -> None:
    for name in ("a.safetensors", "a.pth"):
        with suppress(CaptrialError):
            read_weights(folder / name)


def processor() -> Files:
    return {
        "config.json": dumps({"model_type": "blip"}),
        "preprocessor_config.json": dumps({"processor_class": "BlipProcessor", "auto_map": {}}),
    }


def read_processor(folder: Path) -> None:
    is_transformers(folder)
    _processor_class(folder, None, code=False)


# The annotation, downloads, competitions ------------------------------------------------------------------------------


def write_annotation(folder: Path) -> None:
    directory = make_competition(folder, k=2, reserve=0, images=6)
    with closing(AnnotationService(directory)) as service:
        write_everything(service, 2)
        with service.store.change() as connection:
            write_settings(service.store, connection, AnnotationSettings(writers=2))
    with closing(sqlite3.connect(directory / "annotations.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")


def read_annotation(folder: Path) -> None:
    parse_settings.cache_clear()
    with closing(AnnotationService(folder / "competition", read_only=True)) as service:
        service.report()
        service.export("jsonl", names=True)


def continue_annotation(folder: Path) -> None:
    with suppress(IsADirectoryError), closing(AnnotationService(folder / "competition")) as service:
        service.write_files()


def derived(folder: Path) -> None:
    write_derived(folder / "references.annotated.jsonl", DerivedHead("d", "s"), [{"id": "1", "captions": ["a dog"]}])


def journal() -> Files:
    entry = {"url": "http://127.0.0.1:9/a.jpg", "file": "a.jpg", "size": 1}
    return {"journal.jsonl": dumps(entry) + b"\n", "a.jpg": b"x"}


def continue_download(folder: Path) -> None:
    settings = DownloadSettings(retries=0, timeout=1.0)  # a private address: refused without a connection
    with suppress(IsADirectoryError):
        download(["http://127.0.0.1:9/a.jpg"], folder, settings)


def write_note(folder: Path) -> None:
    (folder / "m.jsonl").write_bytes(b"{}")
    _note(folder / "m.jsonl").write_bytes(dumps(describe_source("shipped")))


def quoted() -> Files:
    text = 'image_id\tcaption\n42\t"a dog\n43\ta "big" cat\n'
    inches = b'id,caption\n42,a 6" dog\n7,a 5" cat\n'
    return {"t.tsv": text.encode(), "t.csv": inches, "t.parquet": rows_of_parquet()["rows.parquet"]}


def read_quoted(folder: Path) -> None:
    _clean_parquet(folder / "t.parquet")
    for name in ("t.tsv", "t.csv"):
        with suppress(CaptrialError):
            read_captions(folder / name)


def paraphrases(folder: Path) -> None:
    (folder / "cache").mkdir()
    (folder / "p.gz").write_bytes(gzip.compress(b"0.5\na dog\na hound\n0.2\nbig\nvery large\n"))
    read_paraphrases(folder)


def read_paraphrases(folder: Path) -> None:
    before = os.environ.get("CAPTRIAL_CACHE", "")
    os.environ["CAPTRIAL_CACHE"] = str(folder / "cache")
    try:
        with suppress(IsADirectoryError, FileNotFoundError):  # without the wheel's file `meteor` is refused earlier
            assert ParaphraseTable.load(folder / "p.gz").is_consistent()
    finally:
        os.environ["CAPTRIAL_CACHE"] = before


def read_lock(folder: Path) -> None:
    holder = (folder / LOCK).read_bytes() if (folder / LOCK).is_file() else b""
    assert str(folder) in _locked_message(folder, "store", holder)


def read_sheet(folder: Path) -> None:
    with suppress(IsADirectoryError):
        write_toyworld(folder, ToyWorldSettings(2, size=32, shares={"train": 1}))


VERDICT = MachineVerdict("tiny", "7", "a", "b", "b", "a", "it says dog", 100, 5, 0.25, "k1")


def write_verdicts(folder: Path) -> None:
    with VerdictFile(folder, JudgeDescription("tiny", "tiny-vlm")) as file:
        file.append([VERDICT, replace(VERDICT, image="8", preferred=None), LostCost("9", 0.5)])
    with VerdictFile(folder, JudgeDescription("grader", "tiny-vlm", "grade")) as file:
        file.append([MachineGrade("grader", "8", model, 7) for model in ("a", "b")])


def read_and_extend_verdicts(folder: Path) -> None:
    for verdict in read_verdicts(folder):
        assert verdict.outcome in (0, 0.5, 1)
    write_verdicts(folder)
    assert read_verdicts(folder)


JUDGE_ANSWER = {"choices": [{"message": {"content": dumps({"reason": "r", "better": "first"}).decode()}}], "usage": {}}


def read_propositions(folder: Path) -> None:
    content = (folder / "answer").read_bytes() if (folder / "answer").is_file() else b""
    for item in located("A brown dog.", content.decode(errors="replace")):
        assert item.text
        assert all(0 <= start < end <= 12 for start, end in item.words)


def read_judge_answer(folder: Path) -> None:
    content = (folder / "answer").read_bytes() if (folder / "answer").is_file() else b""
    _, text, problem = EndpointJudge("http://127.0.0.1:9/v1", "m")._read(content, Asked(), 0.0)
    if problem is not None:
        raise problem
    assert read_answer(text, "pairs").choice in ("first", "second", "tie")


KEPT: dict[str, tuple[Callable[[], Files], Callable[[Path], object]]] = {
    "grounded captions": (made(ground), ground),
    "regions of a detector": (made(find_regions), find_regions),
    "attention correctness": (made(write_attention), read_attention),
    "maps of another program": (maps, read_maps),
    "results of a paper": (made(write_reproduction), read_reproduction),
    "captions of a paper": (
        lambda: {"c.json": b'{"1": "a dog"}'},
        lambda folder: read_kept_captions(folder / "c.json"),
    ),
    "grounding by workers": (made(write_rows(GroundingRows)), read_grounding_rows),
    "features by workers": (made(write_rows(FeatureRows)), gather_rows),
    "rows of a Parquet file": (rows_of_parquet, read_parquet_rows),
    "region detector": (made(write_detector), RegionDetector.from_pretrained),
    "noun localiser": (made(write_localiser), NounLocaliser.from_pretrained),
    "noun presence": (made(write_presence), NounPresence.from_pretrained),
    "weights of a backbone": (weights, read_all_weights),
    "processor of transformers": (processor, read_processor),
    "annotation": (made(write_annotation), read_annotation),
    "annotation to continue": (made(write_annotation), continue_annotation),
    "labels of the annotation": (made(derived), lambda folder: read_derived(folder / "references.annotated.jsonl")),
    "journal of downloads": (journal, continue_download),
    "note of a captioner": (made(write_note), lambda folder: _check_source(folder / "m.jsonl", "shipped")),
    "captions with quotes": (quoted, read_quoted),
    "index of paraphrases": (made(paraphrases), read_paraphrases),
    "lock": (lambda: {LOCK: dumps({"pid": 1, "host": "h", "command": "c", "since": "s"})}, read_lock),
    "verdicts of machines": (made(write_verdicts), read_and_extend_verdicts),
    "answer of a judge": (lambda: {"answer": dumps(JUDGE_ANSWER)}, read_judge_answer),
    "propositions of a language model": (
        lambda: {"answer": dumps({"statements": [{"statement": "a dog is brown", "quote": "brown dog"}]})},
        read_propositions,
    ),
    "prices of judges": (
        lambda: {"p.json": dumps({"m": {"prompt": 2.5, "completion": 10}})},
        lambda folder: read_prices(folder / "p.json"),
    ),
    "trial file": (lambda: {"t.yaml": TEMPLATE.encode()}, lambda folder: read_trial(folder / "t.yaml")),
    "rubric": (lambda: {"r.txt": b"Say which is better."}, lambda folder: read_rubric(folder / "r.txt")),
    "toy world to continue": (made(read_sheet), read_sheet),
}
