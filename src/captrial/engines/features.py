"""Features of any number of pictures: extracted by workers into Parquet shards, then gathered into one store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.output import OutputFolder, plain_rows
from captrial.engines.pictures import open_rows
from captrial.engines.running import Engine, run
from captrial.engines.sources import PART, Part, entry_parts
from captrial.engines.stamps import stamps
from captrial.errors import DatasetError, InputError
from captrial.records import Sample

TOGETHER = 64  # pictures that are added to the store, and synced, at once


class FeatureJob(Job):
    """What a backbone sees: `elements` (k, d) and `boxes` (k, 4) as float16 bytes, labels of regions as JSON."""

    schema: ClassVar[pa.Schema] = pa.schema([("elements", pa.binary()), ("boxes", pa.binary()), ("notes", pa.string())])

    def __init__(self, backbone: str) -> None:
        from captrial.vision.loading import load_backbone

        self.backbone = load_backbone(backbone)

    def prepare(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Open the pictures."""
        return open_rows(rows)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Look at the pictures."""
        from captrial.training.extraction import see

        features, notes = see(self.backbone, [row["picture"] for row in rows])
        answers = []
        for number in range(len(rows)):
            inside = features.mask[number]
            elements = features.elements[number][inside].half().cpu().numpy()
            boxes = np.zeros((len(elements), 4), np.float16)
            if features.boxes is not None:
                boxes = features.boxes[number][inside].half().cpu().numpy()
            note = orjson.dumps(notes[number]).decode() if notes else None
            answers.append({"elements": elements.tobytes(), "boxes": boxes.tobytes(), "notes": note})
        return answers


def sample_parts(samples: Sequence[Sample], size: int = PART) -> list[Part]:
    """Parts of a data set whose pictures are files."""
    for sample in samples:
        if sample.picture.path is None:
            raise DatasetError(f"picture {sample.id} has no file; say where the pictures are: --images FOLDER")
    return entry_parts(
        "files", ((sample.id, str(Path(sample.picture.path or "").absolute())) for sample in samples), size
    )


def extract_all(
    parts: Sequence[Part], store: Path | str, backbone: str, engine: Engine, *, batch: int = 32
) -> tuple[int, int, dict[str, str]]:
    """Extract into `store` (its shards are kept in `store/shards` until all are gathered).

    Returns how many pictures the store holds, how many of them are new, and by id why others could not be opened.
    """
    shards = Path(store) / "shards"
    run(JobSpec(FeatureJob, {"backbone": backbone}, batch, _files(backbone)), parts, shards, engine)
    return gather(shards, store, backbone)


def _files(backbone: str) -> dict[str, str]:
    """Stamps of the files or folders that a backbone's name names."""
    from captrial.vision.naming import Name, split_grid

    detector, grid = split_grid(backbone)
    sources = {"backbone": Name.parse(detector).source, "grid": Name.parse(grid).source if grid else None}
    return stamps(**sources)


def gather(shards: Path | str, store: Path | str, backbone: str) -> tuple[int, int, dict[str, str]]:
    """Move finished shards into a feature store, in order; a killed gathering continues."""
    from captrial.vision.loading import load_backbone
    from captrial.vision.store import FeatureWriter

    vision = load_backbone(backbone).describe()
    folder, refused = OutputFolder(shards), dict[str, str]()
    _refuse_repeated(folder)
    with FeatureWriter(store, vision) as writer:
        before = len(writer.done)
        rows = (row for row in _fine(folder, refused) if row["id"] not in writer.done)
        while some := list(islice(rows, TOGETHER)):
            notes = [orjson.loads(row["notes"] or "{}") for row in some]
            writer.add([row["id"] for row in some], _stacked(some, vision), notes)
        total = len(writer.done)
    for path in (*folder.shards(), folder.folder / "run.json"):
        path.unlink()
    folder.folder.rmdir()
    return total, total - before, refused


def _refuse_repeated(folder: OutputFolder) -> None:
    """A store has one entry an id: the second picture of it would be left out and nobody told."""
    seen: set[str] = set()
    for shard in folder.shards():
        for row in plain_rows(pq.read_table(shard, columns=["id", "error"], partitioning=None)):
            if row["id"] in seen:
                raise InputError(
                    f"two pictures are called {row['id']}, and a store can hold one of them; rename one, remove "
                    f"{folder.folder} and extract again"
                )
            seen.add(row["id"])


def _fine(folder: OutputFolder, refused: dict[str, str]) -> Iterator[Row]:
    for row in folder.rows():
        if row["error"]:
            refused[row["id"]] = row["error"]
        else:
            yield row


def _stacked(rows: Sequence[Row], vision: Mapping[str, Any]) -> Any:
    import torch

    from captrial.vision.features import Features, stack_features

    pictures = []
    for row in rows:
        elements = np.frombuffer(row["elements"], np.float16).reshape(-1, int(vision["width"]))
        boxes = np.frombuffer(row["boxes"], np.float16).reshape(-1, 4)
        one, where = torch.from_numpy(elements.copy())[None], torch.from_numpy(boxes.copy())[None]
        pictures.append(Features(one, torch.ones(one.shape[:2], dtype=torch.bool), where))
    return stack_features(pictures)
