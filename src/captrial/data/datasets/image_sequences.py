"""Robot sequences (ACRV and others): folders of frames in order, optionally with boxes of the objects in them.

The boxes of a sequence are beside its frames, or under the same name in another folder, in one of three formats:
`boxes.json`  `{"000001.png": [[x1, y1, x2, y2, "label"(, score)], ...]}`;
`boxes.csv`   a header `frame,x1,y1,x2,y2,label(,score)` and one row per box;
`labels.json` ACRV's ground truth: `{"000001": {"_metadata": ..., "7": {"class", "bounding_box": [l, t, r, b]}}}`,
whose corners are pixels inside the object: here right and bottom are one further.
A frame is named by its file, or by its file without the suffix; leading zeros do not matter.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from captrial.data.datasets.base import (
    DatasetReader,
    Probe,
    expect,
    expect_field,
    is_empty,
    read_box,
    read_json,
    read_lines,
)
from captrial.data.datasets.coco import labelled_boxes
from captrial.data.datasets.image_folder import walk_images
from captrial.errors import DatasetError
from captrial.records import Box, ImageRef, Region, Sample

BOX_FILES = ("boxes.json", "boxes.csv", "labels.json")
_COLUMNS = ["frame", "x1", "y1", "x2", "y2", "label"]


@dataclass(slots=True)
class FrameBoxes:
    """The boxes of one frame, the ids of their objects where known, and problems: boxes that were left out."""

    regions: list[Region] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_sequences(root: Path | str, *, boxes: Path | str | None = None) -> list[Sample]:
    """Read all sequences below a folder: every folder with images is one, its frames in natural order.

    Ids are paths relative to `root`; `extra` has `sequence` (the folder's path), `frame` (from 0) and, for ACRV's
    labels, `instances` (object ids, aligned with `regions`). `boxes` is a folder with the same sub-folders that
    contains the box files; by default they are expected beside the frames. Boxes of a missing frame are an error; empty
    boxes are left out and listed in `extra["problems"]`.
    """
    root = Path(root)
    if not root.is_dir():
        raise DatasetError(f"{root}: no such folder")
    place = Path(boxes) if boxes is not None else root
    if not place.is_dir():
        raise DatasetError(f"{place}: no such folder of boxes")
    samples: list[Sample] = []
    for folder, group in groupby(walk_images(root), key=lambda path: path.parent):
        samples += _sequence(root, folder, list(group), place / folder.relative_to(root), boxes is not None)
    if not samples:
        raise DatasetError(f"{root}: no images in it or below it")
    return samples


def _sequence(root: Path, folder: Path, frames: list[Path], place: Path, wanted: bool) -> list[Sample]:
    files = [place / name for name in BOX_FILES if (place / name).is_file()]
    if len(files) > 1:
        raise DatasetError(f"{place}: both {files[0].name} and {files[1].name}; keep one")
    if wanted and not files:
        raise DatasetError(f"{place}: no {', '.join(BOX_FILES)} for the sequence {folder.relative_to(root)}")
    found, masks = read_frame_boxes(files[0]) if files else ({}, set())
    frames = [frame for frame in frames if frame.name not in masks]
    of = _match(found, frames, files[0] if files else place)
    name = folder.relative_to(root).as_posix()
    return [_sample(root, frame, name, index, of.get(frame)) for index, frame in enumerate(frames)]


def _sample(root: Path, frame: Path, sequence: str, index: int, boxes: FrameBoxes | None) -> Sample:
    extra: dict[str, object] = {"sequence": sequence, "frame": index}
    image = ImageRef(frame.relative_to(root).as_posix(), frame)
    if boxes is None:
        return Sample(image, extra=extra)
    if boxes.instances:
        extra["instances"] = tuple(boxes.instances)
    if boxes.problems:
        extra["problems"] = tuple(boxes.problems)
    return Sample(image, regions=tuple(boxes.regions), extra=extra)


def _match(found: dict[str, FrameBoxes], frames: list[Path], source: Path) -> dict[Path, FrameBoxes]:
    """Boxes by frame; the file may name frames with or without suffix and leading zeros."""
    names = {key: frame for frame in frames for key in (_plain(frame.stem), frame.stem, frame.name)}
    matched: dict[Path, FrameBoxes] = {}
    for name, boxes in found.items():
        frame = names.get(name) or names.get(_plain(name))
        if frame is None:
            raise DatasetError(f"{source}: frame {name!r} has boxes and no image")
        if frame in matched:
            raise DatasetError(f"{source}: frame {frame.name} is named twice")
        matched[frame] = boxes
    return matched


def _plain(name: str) -> str:
    return (name.lstrip("0") or "0") if name.isdecimal() else name


def read_frame_boxes(path: Path) -> tuple[dict[str, FrameBoxes], set[str]]:
    """The boxes of each frame, and the names of the mask images beside the frames (ACRV)."""
    if path.suffix == ".csv":
        return _read_csv(path), set()
    document = expect(read_json(path), dict, f"{path}: the file")
    if all(isinstance(frame, dict) for frame in document.values()) and document:
        masks = {
            str(frame.get("_metadata", {}).get("mask_name")) for frame in document.values() if _has_metadata(frame)
        }
        return {name: _acrv_frame(frame, f"{path}: frame {name!r}") for name, frame in document.items()}, masks
    found = {}
    for name, rows in document.items():
        regions, wrong = labelled_boxes(rows, f"{path}: frame {name!r}")
        found[name] = FrameBoxes(list(regions), problems=list(wrong))
    return found, set()


def _has_metadata(frame: dict[str, Any]) -> bool:
    return isinstance(frame.get("_metadata"), dict)


def _acrv_frame(frame: dict[str, Any], where: str) -> FrameBoxes:
    found = FrameBoxes()
    for name, instance in frame.items():
        if name.startswith("_"):
            continue
        here = f"{where}: object {name!r}"
        instance = expect(instance, dict, here)
        label = expect_field(instance, "class", str, here)
        corners = instance.get("bounding_box")
        if not corners:
            found.problems.append(f"{here} ({label}) has no bounding_box and was left out")
            continue
        inside = read_box(expect(corners, list, f"{here}: 'bounding_box'"), here)
        box = Box(inside.x1, inside.y1, inside.x2 + 1, inside.y2 + 1)
        if is_empty(box):
            found.problems.append(f"{here} ({label}) has an empty box and was left out: {corners}")
            continue
        found.regions.append(Region(box, label))
        found.instances.append(name)
    return found


def _read_csv(path: Path) -> dict[str, FrameBoxes]:
    rows = csv.reader(read_lines(path), strict=True)
    found: dict[str, FrameBoxes] = {}
    try:
        header = next(rows, [])
        if header[:6] != _COLUMNS or header[6:] not in ([], ["score"]):
            raise DatasetError(f"{path}: line 1 must be `{','.join(_COLUMNS)}` or the same with `,score`")
        for row in rows:
            if row:
                _add_row(found, row, len(header), f"{path}: line {rows.line_num}")
    except csv.Error as error:
        raise DatasetError(f"{path}: line {rows.line_num}: {error}") from None
    return found


def _add_row(found: dict[str, FrameBoxes], row: list[str], columns: int, where: str) -> None:
    if len(row) != columns:
        raise DatasetError(f"{where}: expected {columns} columns, found {len(row)}")
    try:
        numbers = [float(text) for text in row[1:5] + row[6:]]
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from None
    frame = found.setdefault(row[0], FrameBoxes())
    regions, wrong = labelled_boxes([[*numbers[:4], row[5], *numbers[4:]]], where)
    frame.regions += regions
    frame.problems += wrong


def _recognise(probe: Probe) -> bool:
    patterns = (depth + name for name in BOX_FILES for depth in ("*/", ""))
    return probe.is_folder and any(next(probe.path.glob(pattern), None) for pattern in patterns)


SEQUENCES = DatasetReader(
    name="sequences",
    title="robot sequences",
    description=f"folders of frames with {', '.join(BOX_FILES)}",
    needs="the folder of the sequences",
    recognise=_recognise,
    read=lambda path, _: read_sequences(path),
)
