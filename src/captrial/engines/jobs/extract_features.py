"""Features of any number of images: extracted by workers into Parquet shards, then gathered into one store."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa

from captrial.engines.engine import Engine, run
from captrial.engines.inputs import InputPart, entry_parts, open_rows
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.shards import REMAKE, OutputFolder, key_of, read_shard, rows_of
from captrial.errors import DamagedError, DatasetError, InputError, damage_named
from captrial.files import atomic_write, is_changed, stamps
from captrial.folders import lock_folder
from captrial.records import Sample

if TYPE_CHECKING:
    from captrial.vision.features.feature_store import FeatureWriter

GATHERED = "gathered.json"  # in a store: the parts that it holds
TOGETHER = 64  # images that are added to the store, and synced, at once


class FeatureJob(Job):
    """The features of a backbone: `elements` (k, d) and `boxes` (k, 4) as float16 bytes, labels of regions as JSON."""

    schema: ClassVar[pa.Schema] = pa.schema([("elements", pa.binary()), ("boxes", pa.binary()), ("notes", pa.string())])

    def __init__(self, backbone: str) -> None:
        from captrial.vision.devices import best_device
        from captrial.vision.registry import load_backbone

        self.backbone = load_backbone(backbone).to(best_device())

    def prepare(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Open the images."""
        return open_rows(rows)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Extract the features of the images."""
        from captrial.training.feature_extraction import extract_batch

        features, notes = extract_batch(self.backbone, [row["image"] for row in rows])
        answers: list[Row] = []
        for number in range(len(rows)):
            inside = features.mask[number]
            elements = features.elements[number][inside].half().cpu().numpy()
            if not np.isfinite(elements).all():  # the store would refuse it, and all others with it
                answers.append({"error": "its features are not finite numbers in half precision"})
                continue
            boxes = np.zeros((len(elements), 4), np.float16)
            if features.boxes is not None:
                boxes = features.boxes[number][inside].half().cpu().numpy()
            note = orjson.dumps({**(notes[number] if notes else {}), "image": rows[number].get("source")}).decode()
            answers.append({"elements": elements.tobytes(), "boxes": boxes.tobytes(), "notes": note})
        return answers


def sample_parts(samples: Sequence[Sample], size: int | None = None) -> list[InputPart]:
    """Parts of a data set whose images are files."""
    for sample in samples:
        if sample.image.path is None:
            raise DatasetError(f"image {sample.id} has no file; add --images FOLDER")
    return entry_parts(
        "files", ((sample.id, str(Path(sample.image.path or "").absolute())) for sample in samples), size
    )


def extract_all(
    parts: Sequence[InputPart], store: Path | str, backbone: str, engine: Engine, *, batch: int = 32
) -> tuple[int, int, dict[str, str]]:
    """Extract what is not in `store` yet; shards are kept in `store/shards` until all are gathered.

    Returns how many images the store holds, how many of them are new, and by id why others could not be opened.
    """
    with lock_folder(store, "feature store"):
        return _extract_all(parts, Path(store), backbone, engine, batch)


def _extract_all(
    parts: Sequence[InputPart], store: Path, backbone: str, engine: Engine, batch: int
) -> tuple[int, int, dict[str, str]]:
    from captrial.vision.registry import load_backbone

    vision, shards = load_backbone(backbone).describe(), OutputFolder(store / "shards")
    before = len(_ids_in(store, vision))
    if shards.is_whole():  # of a run that was killed as it gathered
        gather(shards, store, vision)
        shards.clear()
    read, done = gathered_parts(store), _ids_in(store, vision)
    refused = {name: why for part in parts if part.in_file for name, why in read.get(part.key, {}).items()}
    missing = list(_missing(parts, read, done))
    if missing:
        run(JobSpec(FeatureJob, {"backbone": backbone}, batch, _files(backbone)), missing, shards.folder, engine)
        refused |= gather(shards, store, vision)
        done = _ids_in(store, vision)
    shards.clear()
    return len(done), len(done) - before, refused


def _ids_in(store: Path, vision: Mapping[str, Any]) -> dict[str, object]:
    """The images of a store with their sources; one of another backbone is refused before any work is done."""
    from captrial.vision.features.feature_store import FeatureWriter

    with FeatureWriter(store, vision) as writer:
        return dict(writer.sources)


def _missing(parts: Sequence[InputPart], read: Container[str], done: Mapping[str, object]) -> Iterator[InputPart]:
    """What is to be done: files that were not read to their end, and images by name that the store lacks."""
    for part in parts:
        entries = tuple(
            (name, place)
            for name, place in part.entries
            if name not in done or (part.kind == "files" and is_changed(place, done[name]))
        )
        if entries or (part.in_file and part.key not in read):
            yield replace(part, entries=entries)


def _files(backbone: str) -> dict[str, str]:
    """Stamps of the files or folders that a backbone's name names."""
    from captrial.vision.descriptions import BackboneName
    from captrial.vision.registry import split_grid

    detector, grid = split_grid(backbone)
    parse = BackboneName.parse
    sources = {"backbone": parse(detector).source, "grid": parse(grid).source if grid else None}
    return stamps(**sources)


def gather(shards: OutputFolder, store: Path, vision: Mapping[str, Any]) -> dict[str, str]:
    """Copy finished shards into a feature store, in order; one that is killed continues.

    The store then knows that it has them, so they can go. Returns by id why images are in none of them.
    """
    from captrial.vision.features.feature_store import FeatureWriter

    _refuse_repeated(shards)
    read = gathered_parts(store)
    with FeatureWriter(store, vision) as writer:
        for shard in shards.shards():
            refused = read[key_of(shard)] = dict[str, str]()
            rows = _new_rows(shard, refused, writer)
            while some := list(islice(rows, TOGETHER)):
                with damage_named(shard, REMAKE, "holds no features"):
                    notes, stacked = [_notes(row) for row in some], _stacked(some, vision)
                writer.add([row["id"] for row in some], stacked, notes)
    atomic_write(store / GATHERED, orjson.dumps(read))
    return {name: why for shard in shards.shards() for name, why in read[key_of(shard)].items()}


def _new_rows(shard: Path, refused: dict[str, str], writer: FeatureWriter) -> Iterator[Row]:
    with damage_named(shard, REMAKE, "holds no features"):
        yield from (row for row in _fine(shard, refused) if _is_new(row, writer))


def _is_new(row: Row, writer: FeatureWriter) -> bool:
    """Whether the store lacks the features of this content of an image."""
    kept = writer.sources.get(row["id"])
    source = _notes(row).get("image")
    return row["id"] not in writer.done or bool(kept and source and kept[1:] != source[1:])


def _notes(row: Row) -> dict[str, Any]:
    return dict(orjson.loads(row["notes"] or "{}"))


def gathered_parts(store: Path) -> dict[str, dict[str, str]]:
    """By key of each part that was gathered into a store: its images that could not be opened, and why."""
    path = store / GATHERED
    try:
        return {str(key): dict(refused) for key, refused in orjson.loads(path.read_bytes()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DamagedError(path, f"is not a list of parts ({error})", "`captrial features` after removing it") from None


def _refuse_repeated(shards: OutputFolder) -> None:
    """Refuse two images of one id: a store has one entry an id, and the second would be lost silently."""
    seen: set[str] = set()
    for shard in shards.shards():
        ids, errors = read_shard(shard, ["id", "error"]).columns
        for name in ids.filter(errors.is_null()).to_pylist():
            if name in seen:
                raise InputError(
                    f"two images are called {name}, and a store can hold one of them; rename one, remove "
                    f"{shards.folder} and extract again"
                )
            seen.add(name)


def _fine(shard: Path, refused: dict[str, str]) -> Iterator[Row]:
    for row in rows_of(shard):
        if row["error"]:
            refused[row["id"]] = row["error"]
        else:
            yield row


def _stacked(rows: Sequence[Row], vision: Mapping[str, Any]) -> Any:
    import torch

    from captrial.vision.features.visual_features import Features, stack_features

    images = []
    for row in rows:
        elements = np.frombuffer(row["elements"], np.float16).reshape(-1, int(vision["width"]))
        boxes = np.frombuffer(row["boxes"], np.float16).reshape(-1, 4)
        one, where = torch.from_numpy(elements.copy())[None], torch.from_numpy(boxes.copy())[None]
        images.append(Features(one, torch.ones(one.shape[:2], dtype=torch.bool), where))
    return stack_features(images)
