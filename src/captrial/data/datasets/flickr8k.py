"""The token file of Flickr8k and Flickr30k: one caption per line, `name.jpg#0<TAB>caption`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from captrial.data.datasets.base import DatasetReader, Probe, image_root, read_lines, safe_join
from captrial.data.datasets.samples import select_split
from captrial.errors import DatasetError
from captrial.records import ImageRef, Sample

_SPLIT_FILES = {"train": "trainImages", "val": "devImages", "test": "testImages"}


def read_flickr8k(
    path: Path | str,
    *,
    images: Path | str | None = None,
    split: str | None = None,
    splits: Mapping[str, Path | str] | None = None,
) -> list[Sample]:
    """Read a token file; the id of an image is its file name, its captions are in the order of their numbers.

    `splits` maps each split to a file of image names; by default `Flickr_8k.trainImages.txt`, `devImages` (split
    `val`) and `testImages` beside the token file are used if they exist. Images in none of these files have no split.
    Caption numbers must run from 0 without gaps; an empty caption is an error.
    """
    path = Path(path)
    captions = _captions(path)
    root = image_root(path, images)
    of = _splits(path, splits, captions)
    samples = [
        Sample(ImageRef(name, safe_join(root, name, str(path)) if root else None), texts, of.get(name))
        for name, texts in captions.items()
    ]
    return select_split(samples, split, path)


def _captions(path: Path) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[int, str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        name, index, caption = _parse(line, f"{path}: line {number}")
        if index in found.setdefault(name, {}):
            raise DatasetError(f"{path}: line {number}: {name}#{index} is given twice; keep one")
        found[name][index] = caption
    for name, numbered in found.items():
        if sorted(numbered) != list(range(len(numbered))):
            raise DatasetError(
                f"{path}: the captions of {name} are numbered {sorted(numbered)}, not from 0 without gaps"
            )
    if not found:
        raise DatasetError(f"{path}: no captions in it")
    return {name: tuple(numbered[index] for index in sorted(numbered)) for name, numbered in found.items()}


def _parse(line: str, where: str) -> tuple[str, int, str]:
    key, tab, caption = line.partition("\t")
    name, mark, index = key.strip().rpartition("#")
    if not (tab and mark and name and index.isascii() and index.isdecimal() and len(index) < 6):
        raise DatasetError(f"{where} must be `name.jpg#0<TAB>caption`, found {line[:60]!r}")
    if not caption.strip():
        raise DatasetError(f"{where}: the caption of {key} is empty; remove the line or write one")
    safe_join(Path(), name, where)
    return name, int(index), caption


def _splits(
    path: Path, given: Mapping[str, Path | str] | None, captions: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    beside = {split: path.parent / f"Flickr_8k.{name}.txt" for split, name in _SPLIT_FILES.items()}
    files = given if given is not None else {split: file for split, file in beside.items() if file.is_file()}
    of: dict[str, str] = {}
    for split, file in files.items():
        for number, line in enumerate(read_lines(file), 1):
            name = line.strip()
            if name and name not in captions:
                raise DatasetError(f"{file}: line {number}: {name} has no captions in {path.name}")
            if name and of.setdefault(name, split) != split:
                raise DatasetError(f"{file}: line {number}: {name} is in the split {of[name]!r} already")
    return of


def _recognise(probe: Probe) -> bool:
    key, tab, _ = probe.first_line.partition(b"\t")
    return bool(tab) and key.rpartition(b"#")[2].strip().isdigit()


FLICKR8K = DatasetReader(
    name="flickr8k",
    title="token file",
    description="name.jpg#0<TAB>caption",
    needs="the text file, or a folder with one",
    recognise=_recognise,
    read=lambda path, options: read_flickr8k(path, images=options.images),
    takes_images=True,
    in_folders=True,
)
