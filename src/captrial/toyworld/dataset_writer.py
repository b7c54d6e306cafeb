"""Writing the toy world to disk: images, Karpathy and COCO annotations, phrases, scene graphs, robot sequences."""

from __future__ import annotations

import math
import multiprocessing
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from PIL import Image

from captrial.data.datasets.base import read_json
from captrial.data.datasets.masks import compress, mask_to_counts
from captrial.errors import DatasetError, InputError
from captrial.files import atomic_write
from captrial.folders import LOCK, lock_folder
from captrial.progress import track
from captrial.records import Region, Sample
from captrial.toyworld.captions.caption_writer import tokens
from captrial.toyworld.scene.generation import SPLITS
from captrial.toyworld.scene.object_classes import OBJECT_CLASSES
from captrial.toyworld.scene.robot import FRAMES, sequence_name
from captrial.toyworld.world import ToyImage, ToyWorld

MAX_IMAGES = 10_000_000
GENERATION = 1  # increased whenever the same (seed, split, index) gives another image
DEFAULT_SHARES: dict[str, float] = {"train": 6, "val": 1, "test": 1, "wild": 1, "robot": 1}
FORMATS: dict[str, dict[str, Any]] = {"png": {"compress_level": 3}, "jpg": {"quality": 92}}
CATEGORIES = {name: number for number, name in enumerate(OBJECT_CLASSES, start=1)}
Job = tuple[int, str, int]  # number among all images, split, index in the split


@dataclass(frozen=True, slots=True)
class ToyWorldSettings:
    """The settings that decide the content of a written toy world."""

    images: int = 1000  # in all splits together
    seed: int = 0
    size: int = 256  # width and height in pixels
    shares: Mapping[str, float] = field(default_factory=lambda: DEFAULT_SHARES)  # of the images, by split
    image_format: str = "png"

    @property
    def splits(self) -> dict[str, int]:
        """The number of images of each split."""
        return split_counts(self.images, self.shares)

    def check(self) -> None:
        """Raise an `InputError` for settings that cannot be used."""
        if self.image_format not in FORMATS:
            raise InputError(f"toy world: no image format {self.image_format!r}; there are {', '.join(FORMATS)}")
        ToyWorld(self.seed, self.size)
        split_counts(self.images, self.shares)

    def document(self) -> dict[str, object]:
        """The settings as written to `toyworld.json`."""
        parts = {"seed": self.seed, "size": self.size, "splits": self.splits, "image_format": self.image_format}
        return {"generation": GENERATION, **parts}


def split_counts(images: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Divide a number of images among splits in proportion to their shares; the counts add up to `images`.

    >>> split_counts(10, {"train": 2, "val": 1})
    {'train': 7, 'val': 3}
    """
    if images < 1:
        raise InputError(f"toy world: {images} images are too few; use at least 1")
    if images > MAX_IMAGES:
        raise InputError(f"toy world: {images} images are too many; use at most {MAX_IMAGES}")
    unknown = [split for split in shares if split not in SPLITS]
    if unknown:
        raise InputError(f"toy world: no split {unknown[0]!r}; there are {', '.join(SPLITS)}")
    if not all(0 <= share < math.inf for share in shares.values()) or not sum(shares.values()):
        raise InputError("toy world: shares of the splits must be positive numbers, e.g. train=8,val=1,test=1")
    total = sum(shares.values())
    exact = {split: images * share / total for split, share in shares.items()}
    counts = {split: int(value) for split, value in exact.items()}
    for split in sorted(exact, key=lambda name: counts[name] - exact[name])[: images - sum(counts.values())]:
        counts[split] += 1
    return counts


def write_toyworld(out: Path | str, settings: ToyWorldSettings, workers: int = 1) -> None:
    """Write the images and annotations of a toy world to the folder `out`.

    Writes `images/<split>/` (robot: `images/robot/<sequence>/`), `dataset.json` (Karpathy), `instances.json` (COCO
    boxes and masks), `phrases.json`, `scene_graphs.json`, `images/robot/<sequence>/boxes.json` and `README.txt`. The
    same settings give the same files for any number of workers; run an interrupted call again to finish it. Raises
    `DatasetError` for a folder that contains something else or a toy world with other settings.
    """
    settings.check()
    out = Path(out)
    with lock_folder(out, "toy world"):
        _claim(out, settings)
        _write_all(out, settings, workers)


def _write_all(out: Path, settings: ToyWorldSettings, workers: int) -> None:
    jobs = [(split, index) for split, count in settings.splits.items() for index in range(count)]
    numbered = [(number, split, index) for number, (split, index) in enumerate(jobs)]
    results = list(_results(out, settings, numbered, workers))
    os.sync()  # images must be on disk before the documents that refer to them
    _write_documents(out, settings, results)


def _claim(out: Path, settings: ToyWorldSettings) -> None:
    """Mark the folder as this toy world, or refuse it."""
    marker = out / "toyworld.json"
    document = settings.document()
    if marker.exists():
        if read_json(marker) != document:
            raise DatasetError(f"{out}: has a toy world with other settings ({marker}); choose another folder")
        return
    if out.exists() and (not out.is_dir() or any(path.name != LOCK for path in out.iterdir())):
        raise DatasetError(f"{out}: already exists and is not a toy world; choose another folder")
    atomic_write(marker, _json(document))


def _results(out: Path, settings: ToyWorldSettings, jobs: list[Job], workers: int) -> Iterator[dict[str, Any]]:
    """Render and write all images; yields their records in order."""
    make = partial(_make, out, settings)
    if workers <= 1:
        yield from track(map(make, jobs), "rendering the toy world", len(jobs))
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from track(pool.map(make, jobs, chunksize=16), "rendering the toy world", len(jobs))


def _make(out: Path, settings: ToyWorldSettings, job: Job) -> dict[str, Any]:
    """Render and save one image; returns its records."""
    number, split, index = job
    image = ToyWorld(settings.seed, settings.size).render(split, index)
    folder, name = _location(split, index, settings.image_format)
    path = out / "images" / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")  # renamed when complete; all images are synced once, at the end
    Image.fromarray(image.pixels).save(
        temporary, settings.image_format.replace("jpg", "jpeg"), **FORMATS[settings.image_format]
    )
    temporary.replace(path)
    return _records(number, folder, name, image)


def _location(split: str, index: int, image_format: str) -> tuple[str, str]:
    if split == "robot":
        sequence, frame = divmod(index, FRAMES)
        return f"robot/{sequence_name(sequence)}", f"{frame:03d}.{image_format}"
    return split, f"{split}_{index:06d}.{image_format}"


def _records(number: int, folder: str, name: str, image: ToyImage) -> dict[str, Any]:
    """The entries of one image in all documents."""
    sample = image.sample
    height, width = image.pixels.shape[:2]
    first = number * len(sample.captions)
    sentences = [
        {"tokens": tokens(text), "raw": text, "imgid": number, "sentid": first + place}
        for place, text in enumerate(sample.captions)
    ]
    return {
        "karpathy": {
            "filepath": folder, "filename": name, "imgid": number, "cocoid": number, "split": sample.split,
            "sentids": [sentence["sentid"] for sentence in sentences], "sentences": sentences,
        },
        "image": {
            "id": number, "file_name": f"{folder}/{name}", "width": width, "height": height, "split": sample.split,
        },
        "instances": [_instance(number, region) for region in sample.regions],
        "phrases": _phrases(sample),
        "graph": sample.extra,
    }  # fmt: skip


def _instance(number: int, region: Region) -> dict[str, Any]:
    assert region.mask is not None
    x1, y1, x2, y2 = region.box
    counts = compress(mask_to_counts(region.mask))
    return {
        "image_id": number, "category_id": CATEGORIES[str(region.label)], "bbox": [x1, y1, x2 - x1, y2 - y1],
        "area": int(np.count_nonzero(region.mask)), "iscrowd": 0,
        "segmentation": {"size": list(region.mask.shape), "counts": counts},
    }  # fmt: skip


def _phrases(sample: Sample) -> dict[str, Any]:
    numbers = {id(region): number for number, region in enumerate(sample.regions)}
    sentences = [
        [
            {"text": phrase.text, "start": phrase.start, "end": phrase.end, "entity": phrase.entity,
             "kinds": list(phrase.kinds), "regions": [numbers[id(region)] for region in phrase.regions]}
            for phrase in phrases
        ]
        for phrases in sample.phrases
    ]  # fmt: skip
    return {"regions": [[*region.box, region.label] for region in sample.regions], "sentences": sentences}


def _write_documents(out: Path, settings: ToyWorldSettings, results: list[dict[str, Any]]) -> None:
    annotations = [record for result in results for record in result["instances"]]
    for number, record in enumerate(annotations, start=1):
        record["id"] = number
    info = {"description": "captrial toy world", **settings.document()}
    categories = [
        {"id": number, "name": name, "supercategory": OBJECT_CLASSES[name].group} for name, number in CATEGORIES.items()
    ]
    images = [result["image"] for result in results]
    instances = {"info": info, "images": images, "annotations": annotations, "categories": categories}
    by_id = {str(result["image"]["id"]): result for result in results}
    documents: dict[str, object] = {
        "instances.json": instances,
        "phrases.json": {"info": info, "images": {key: result["phrases"] for key, result in by_id.items()}},
        "scene_graphs.json": {"info": info, "images": {key: result["graph"] for key, result in by_id.items()}},
        "dataset.json": {"dataset": "toyworld", "images": [result["karpathy"] for result in results]},
    }
    for folder, boxes in _sequence_boxes(results).items():
        documents[f"images/{folder}/boxes.json"] = boxes
    for name, document in documents.items():
        atomic_write(out / name, _json(document))
    atomic_write(out / "README.txt", _readme(settings))


def _sequence_boxes(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For every robot sequence `{frame: [[x1, y1, x2, y2, label], ...]}`."""
    boxes: dict[str, dict[str, Any]] = {}
    for result in results:
        record = result["karpathy"]
        if record["split"] == "robot":
            boxes.setdefault(record["filepath"], {})[record["filename"]] = result["phrases"]["regions"]
    return boxes


def _readme(settings: ToyWorldSettings) -> str:
    shares = ",".join(f"{split}={count}" for split, count in settings.splits.items())
    command = (
        f"captrial data toyworld OUT --images {sum(settings.splits.values())} --seed {settings.seed} "
        f"--size {settings.size} --splits {shares} --image-format {settings.image_format}"
    )
    return f"""The toy world of captrial, generation {GENERATION}, seed {settings.seed}.
Made by: {command}

dataset.json       captions and splits, Karpathy form
instances.json     boxes and masks (visible pixels), COCO form
phrases.json       for every caption its phrases: token indices [start, end) and numbers of regions
scene_graphs.json  scene, light, objects with attributes, relations
images/            the image files; robot sequences in images/robot/<room>-<light>-<camera height>/ with boxes.json
"""


def _json(document: object) -> bytes:
    return orjson.dumps(document) + b"\n"
