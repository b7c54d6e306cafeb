"""Visual Genome: descriptions of regions, objects with attributes, and relationships between them.

A folder with `region_descriptions.json` and, as far as they are there, `image_data.json` (sizes), `objects.json`,
`attributes.json` and `relationships.json`, as published (versions 1.2 and 1.4). Boxes are `x, y, w, h`, or `width` and
`height` for regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from captrial.data.datasets.base import (
    DatasetReader,
    Probe,
    expect,
    expect_field,
    image_root,
    is_empty,
    read_box,
    read_json,
)
from captrial.data.datasets.samples import reject_duplicates
from captrial.records import Box, ImageRef, Phrase, Region, Sample

REGIONS = "region_descriptions.json"
FOLDERS = ("VG_100K", "VG_100K_2", "images", "")  # where the photographs are, below the folder of the images


def read_visual_genome(root: Path | str, *, images: Path | str | None = None) -> list[Sample]:
    """Read a Visual Genome folder.

    The id of an image is its number (`"2407890"`). Captions are the descriptions of its regions, each a phrase of its
    own with its region, so `captrial attend` and strong supervision can use them; descriptions without words or area
    are left out and listed in `extra["problems"]`. `regions` are the objects, labelled by their first name. `extra` has
    `attributes`, a tuple of strings an object, and `relationships`, triples (subject, predicate, object) of numbers of
    objects; relationships of objects that `objects.json` does not have are left out and listed.
    """
    root = Path(root)
    sizes = _by_image(root / "image_data.json", "image_id") if (root / "image_data.json").is_file() else {}
    parts = {name: _optional(root / f"{name}.json") for name in ("objects", "attributes", "relationships")}
    folder = image_root(root / REGIONS, images) or next(
        (root / name for name in FOLDERS if (root / name).is_dir()), None
    )
    files = _files(folder)
    samples = []
    for identity, record in _by_image(root / REGIONS, "id").items():
        where = f"{root / REGIONS}: image {identity}"
        size = sizes.get(identity, {})
        path = files.get(identity, folder / f"{identity}.jpg" if folder else None)
        image = ImageRef(identity, path, size.get("width"), size.get("height"))
        samples.append(_sample(image, record, {name: part.get(identity, {}) for name, part in parts.items()}, where))
    reject_duplicates(samples, root / REGIONS)
    return samples


def _by_image(path: Path, key: str) -> dict[str, dict[str, Any]]:
    """The records of a file by image; files call the number `id` or `image_id`."""
    found = {}
    for index, record in enumerate(expect(read_json(path), list, f"{path}: the file")):
        record = expect(record, dict, f"{path}: record {index}")
        name = key if key in record else "image_id"
        found[str(expect_field(record, name, int, f"{path}: record {index}"))] = record
    return found


def _optional(path: Path) -> dict[str, dict[str, Any]]:
    return _by_image(path, "image_id") if path.is_file() else {}


def _files(folder: Path | None) -> dict[str, Path]:
    """Photographs by number; they lie in two folders."""
    if folder is None:
        return {}
    folders = [folder / name for name in FOLDERS if (folder / name).is_dir()]
    return {path.stem: path for one in reversed(folders) for path in one.iterdir() if path.suffix == ".jpg"}


def _sample(image: ImageRef, record: Mapping[str, Any], parts: Mapping[str, Any], where: str) -> Sample:
    problems: list[str] = []
    captions, phrases = [], []
    for index, entry in enumerate(expect_field(record, "regions", list, where)):
        here = f"{where}: regions[{index}]"
        text = " ".join(expect_field(entry, "phrase", str, here).split())
        box = _box(entry, here)
        if not text or is_empty(box):
            problems.append(f"{here} has {'no words' if not text else 'an empty box'} and was left out")
            continue
        captions.append(text)
        identity = str(entry.get("region_id", index))
        phrases.append((Phrase(text, 0, len(text.split()), (Region(box),), identity, ("region",)),))
    regions, numbers = _objects(parts["objects"].get("objects", []), where, problems)
    extra: dict[str, object] = {"tokens": tuple(tuple(text.split()) for text in captions)}
    extra["attributes"] = _attributes(parts["attributes"].get("attributes", []), numbers, len(regions), where)
    extra["relationships"] = _relationships(parts["relationships"].get("relationships", []), numbers, where, problems)
    if problems:
        extra["problems"] = tuple(problems)
    return Sample(image, tuple(captions), None, tuple(regions), tuple(phrases), extra)


def _box(entry: Mapping[str, Any], where: str) -> Box:
    sides = [
        entry.get(name, entry.get(short)) for name, short in (("x", "x"), ("y", "y"), ("width", "w"), ("height", "h"))
    ]
    x, y, width, height = read_box(sides, where)
    return Box(x, y, x + width, y + height)


def _objects(entries: Sequence[Any], where: str, problems: list[str]) -> tuple[list[Region], dict[int, int]]:
    """Labelled regions, and the number of each by its object id; merged objects have several ids."""
    regions: list[Region] = []
    numbers: dict[int, int] = {}
    for index, entry in enumerate(entries):
        here = f"{where}: objects[{index}]"
        names = expect_field(entry, "names", list, here)
        box = _box(entry, here)
        if not names or is_empty(box):
            problems.append(f"{here} has {'no name' if not names else 'an empty box'} and was left out")
            continue
        for identity in (expect_field(entry, "object_id", int, here), *entry.get("merged_object_ids", [])):
            numbers[identity] = len(regions)
        regions.append(Region(box, str(names[0])))
    return regions, numbers


def _attributes(
    entries: Sequence[Any], numbers: Mapping[int, int], count: int, where: str
) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = [()] * count
    for index, entry in enumerate(entries):
        number = numbers.get(expect_field(entry, "object_id", int, f"{where}: attributes[{index}]"))
        if number is not None:
            found[number] = tuple(str(word).strip() for word in entry.get("attributes") or ())
    return tuple(found)


def _relationships(
    entries: Sequence[Any], numbers: Mapping[int, int], where: str, problems: list[str]
) -> tuple[tuple[int, str, int], ...]:
    found = []
    for index, entry in enumerate(entries):
        here = f"{where}: relationships[{index}]"
        ends = [
            expect_field(expect_field(entry, end, dict, here), "object_id", int, here) for end in ("subject", "object")
        ]
        known = [numbers.get(identity) for identity in ends]
        if known[0] is None or known[1] is None:
            problems.append(f"{here} is of an object that is not among the objects and was left out")
            continue
        found.append((known[0], expect_field(entry, "predicate", str, here).strip().lower(), known[1]))
    return tuple(found)


def _recognise(probe: Probe) -> bool:
    return probe.is_folder and (probe.path / REGIONS).is_file()


VISUAL_GENOME = DatasetReader(
    name="visual-genome",
    title="Visual Genome",
    description="region_descriptions.json, objects.json, attributes.json, relationships.json",
    needs="the folder",
    recognise=_recognise,
    read=lambda path, options: read_visual_genome(path, images=options.images),
    takes_images=True,
)
