"""Flickr30k Entities: captions with bracketed phrases, and the boxes of the entities they refer to.

`Sentences/36979.txt`: `[/EN#137644/people A group of friends] playing [/EN#137645/other cards] .`, one caption per
line.
`Annotations/36979.xml`: `<object>`s with one or more `<name>` (entity ids) and a `<bndbox>`, or with
`<nobndbox>1</nobndbox>` and `<scene>1</scene>` for entities that have no box or are the whole scene.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree.ElementTree import Element

from captrial.data.datasets.base import (
    DatasetReader,
    Probe,
    image_root,
    is_empty,
    natural_key,
    read_bytes,
    read_lines,
    safe_join,
)
from captrial.data.datasets.karpathy import read_karpathy
from captrial.data.datasets.samples import select_split
from captrial.data.images import image_size
from captrial.data.xml_documents import parse_xml
from captrial.errors import DatasetError
from captrial.records import Box, ImageRef, Phrase, Region, Sample

SPLITS = ("train", "val", "test")
_OPENING = re.compile(r"\[/EN#(\d+)((?:/[^\s/\]]+)+)\s")


@dataclass(slots=True)
class _Annotations:
    """The content of an XML file: the boxes and flags of each entity."""

    filename: str
    width: int | None = None
    height: int | None = None
    regions: list[Region] = field(default_factory=list)
    boxes: dict[str, list[Region]] = field(default_factory=dict)
    scenes: set[str] = field(default_factory=set)
    without_box: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def scale(self, across: float, down: float) -> None:
        """Scale all boxes to another size of the image; a change of its shape is noted as a problem."""
        if not 0.95 < across / down < 1.05:
            self.problems.append(f"{self.filename}: the image is {across:.2f} x {down:.2f} of the XML's size")
        moved = {
            id(region): replace(
                region, box=Box(*(side * by for side, by in zip(region.box, (across, down) * 2, strict=True)))
            )
            for region in self.regions
        }
        self.regions = [moved[id(region)] for region in self.regions]
        self.boxes = {name: [moved[id(region)] for region in regions] for name, regions in self.boxes.items()}


def read_entities(root: Path | str, *, images: Path | str | None = None, split: str | None = None) -> list[Sample]:
    """Read a folder with `Sentences` and `Annotations`, or one that holds such a folder and one of the photographs.

    Photographs are found by name (`36979.jpg`) or by number (`36979_8bf2c8b5.jpg`, as Flickr8k names them); the id of
    an image is the name of its file. Boxes are scaled where a file has another size than the XML. Splits are those of
    `train.txt`, `val.txt` and `test.txt`, else of a Karpathy file beside the folder of the images.

    Captions are the lines without brackets; those that `UNRELATED_CAPTIONS` lists are left out. `extra["tokens"]` are
    their words as the file separates them, and the indices of every `Phrase` count in these. The entity of a phrase is
    the number after `EN#` (`"0"`: not visual), its kinds those of the bracket, plus `scene` and `nobox` from the XML.
    The XML counts pixels from 1 and includes the last: `x1 = xmin - 1`, `x2 = xmax`.
    """
    given = Path(root)
    root = entities_folder(given)
    sentences = sorted((root / "Sentences").glob("*.txt"), key=lambda path: natural_key(path.name))
    if not sentences:
        raise DatasetError(f"{root / 'Sentences'}: no sentence files; expected e.g. 36979.txt")
    known = {path.stem for path in sentences}
    orphans = sorted(path.name for path in (root / "Annotations").glob("*.xml") if path.stem not in known)
    if orphans:
        raise DatasetError(f"{root / 'Annotations' / orphans[0]}: no Sentences file for it ({len(orphans)} such files)")
    folder = image_root(root / "Sentences", images)
    photographs = Photographs(folder if folder or root == given else _images_beside(root, known))
    reader = _Reader(root, photographs, _splits(root, known) or photographs.splits(), _unrelated(root))
    return select_split([reader.sample(path) for path in sentences], split, root)


def entities_folder(path: Path) -> Path:
    """The folder with `Sentences`: `path` itself or, if it has none, the only one of its folders that has."""
    if (path / "Sentences").is_dir():
        return path
    inside = sorted(folder.parent for folder in path.glob("*/Sentences") if folder.is_dir()) if path.is_dir() else []
    if len(inside) > 1:
        raise DatasetError(f"{inside[0]} and {inside[1]} both have `Sentences`; name the one to read")
    return inside[0] if inside else path


def _images_beside(root: Path, known: set[str]) -> Path | None:
    """The folder `images` of a neighbour of the Entities folder that holds photographs of these numbers."""
    found = [
        folder
        for folder in sorted(root.parent.glob("*/images"))
        if folder.is_dir() and not known.isdisjoint(Photographs(folder).numbers)
    ]
    if len(found) > 1:
        raise DatasetError(f"{found[0]} and {found[1]} hold photographs of these sentences; say which with --images")
    return found[0] if found else None


class Photographs:
    """The files of an image folder by name and by number, the part of a name before `_` or its suffix."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.names = {entry.name for entry in os.scandir(folder) if entry.is_file()} if folder else set()
        self.numbers: dict[str, list[str]] = {}
        for name in sorted(self.names):
            self.numbers.setdefault(re.split(r"[_.]", name, maxsplit=1)[0], []).append(name)

    def find(self, name: str, number: str, where: str) -> str:
        """The file of an image: of this name or, if there is none, of this number; the name where neither is here."""
        found = self.numbers.get(number, [])
        if name in self.names or not found:
            return name
        if len(found) > 1:
            raise DatasetError(f"{where}: {found[0]} and {found[1]} both begin with {number}; keep one")
        return found[0]

    def splits(self) -> dict[str, str]:
        """Splits by number from the Karpathy files (`dataset_*.json`) beside the folder; empty where there is none."""
        found: dict[str, str] = {}
        for path in sorted(self.folder.parent.glob("dataset_*.json")) if self.folder else []:
            for sample in read_karpathy(path):
                found[re.split(r"[_.]", sample.id, maxsplit=1)[0]] = sample.split or ""
        return found


def _splits(root: Path, known: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for split in SPLITS:
        path = root / f"{split}.txt"
        for number, line in enumerate(read_lines(path) if path.is_file() else [], 1):
            name = line.strip().removesuffix(".jpg")
            if name and name not in known:
                raise DatasetError(f"{path}: line {number}: no sentences for image {name}")
            if name and found.setdefault(name, split) != split:
                raise DatasetError(f"{path}: line {number}: image {name} is in the split {found[name]!r} already")
    return found


def _unrelated(root: Path) -> dict[str, set[int]]:
    """Captions that are not about their image, by number of the image; captions are numbered from 1."""
    path, found = root / "UNRELATED_CAPTIONS", dict[str, set[int]]()
    for number, line in enumerate(read_lines(path) if path.is_file() else [], 1):
        parts = line.split("#")[0].split()
        if parts and (len(parts) != 2 or not parts[1].isdecimal()):
            raise DatasetError(f"{path}: line {number} must be `image caption`, such as `36979 5`; found {line[:60]!r}")
        if parts:
            found.setdefault(parts[0], set()).add(int(parts[1]))
    return found


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads the samples of one folder."""

    root: Path
    photographs: Photographs
    splits: dict[str, str]
    unrelated: dict[str, set[int]]

    def sample(self, sentences: Path) -> Sample:
        number, xml = sentences.stem, self.root / "Annotations" / f"{sentences.stem}.xml"
        annotations = _annotations(xml, number)
        lines = [(place, line) for place, line in enumerate(read_lines(sentences), 1) if line.strip()]
        skipped = self.unrelated.get(number, set())
        kept = [(place, line) for order, (place, line) in enumerate(lines, 1) if order not in skipped]
        parsed = [parse_entities(line, f"{sentences}: line {place}") for place, line in kept]
        image = self._image(annotations, number, xml)
        extra: dict[str, object] = {"tokens": tuple(tokens for tokens, _ in parsed)}
        if len(kept) < len(lines):
            extra["unrelated"] = tuple(line for order, (_, line) in enumerate(lines, 1) if order in skipped)
        if annotations.problems:
            extra["problems"] = tuple(annotations.problems)
        return Sample(
            image,
            tuple(" ".join(tokens) for tokens, _ in parsed),
            self.splits.get(number) or None,
            tuple(annotations.regions),
            tuple(tuple(_link(phrase, annotations) for phrase in phrases) for _, phrases in parsed),
            extra,
        )

    def _image(self, annotations: _Annotations, number: str, xml: Path) -> ImageRef:
        """The image; the boxes of the annotations are scaled to the size of its file."""
        name = self.photographs.find(annotations.filename, number, str(xml))
        path = safe_join(self.photographs.folder, name, str(xml)) if self.photographs.folder else None
        width, height = annotations.width, annotations.height
        if path is None or name not in self.photographs.names:
            return ImageRef(name, path, width, height)
        size = image_size(path)
        if width and height and size != (width, height):
            annotations.scale(size[0] / width, size[1] / height)
        return ImageRef(name, path, *size)


def parse_entities(line: str, where: str = "sentence") -> tuple[tuple[str, ...], tuple[Phrase, ...]]:
    """The words of a caption with brackets, and its phrases, without regions.

    >>> tokens, phrases = parse_entities("[/EN#7/people A man] rides [/EN#8/animals a horse] .")
    >>> tokens, [(phrase.text, phrase.start, phrase.end, phrase.entity) for phrase in phrases]
    (('A', 'man', 'rides', 'a', 'horse', '.'), [('A man', 0, 2, '7'), ('a horse', 3, 5, '8')])
    """
    tokens: list[str] = []
    phrases: list[Phrase] = []
    place = 0
    for opening in _OPENING.finditer(line):
        if opening.start() < place:
            raise DatasetError(f"{where}: column {opening.start() + 1}: a phrase begins inside another")
        closing = line.find("]", opening.end())
        words = line[opening.end() : closing].split()
        if closing < 0 or not words:
            fault = "is not closed with `]`" if closing < 0 else "has no words"
            raise DatasetError(f"{where}: column {opening.start() + 1}: the phrase EN#{opening[1]} {fault}")
        tokens += line[place : opening.start()].split()
        kinds = tuple(opening[2].strip("/").split("/"))
        phrases.append(Phrase(" ".join(words), len(tokens), len(tokens) + len(words), (), opening[1], kinds))
        tokens += words
        place = closing + 1
    rest = line[place:]
    if "[/EN#" in rest:
        raise DatasetError(f"{where}: column {place + rest.index('[/EN#') + 1}: expected `[/EN#id/kind words]`")
    return (*tokens, *rest.split()), tuple(phrases)


def _link(phrase: Phrase, annotations: _Annotations) -> Phrase:
    entity = phrase.entity or "0"
    flags = {"scene": entity in annotations.scenes, "nobox": entity in annotations.without_box}
    kinds = (*phrase.kinds, *(name for name, given in flags.items() if given and name not in phrase.kinds))
    regions = tuple(annotations.boxes.get(entity, ()))
    return Phrase(phrase.text, phrase.start, phrase.end, regions, phrase.entity, kinds)


def _annotations(path: Path, stem: str) -> _Annotations:
    try:
        tree = parse_xml(read_bytes(path))
    except ValueError as error:
        raise DatasetError(f"{path}: {error}") from None
    found = _Annotations(tree.findtext("filename") or f"{stem}.jpg")
    found.width, found.height = (_number(tree, f"size/{side}", path) for side in ("width", "height"))
    for index, item in enumerate(tree.findall("object")):
        _add_object(found, item, f"{path}: object {index}")
    return found


def _add_object(found: _Annotations, item: Element, where: str) -> None:
    names = [(name.text or "").strip() for name in item.findall("name")]
    if not names or not all(name.isdecimal() for name in names):
        raise DatasetError(f"{where}: every object needs the number of an entity as its <name>, found {names}")
    if item.find("bndbox") is not None:
        corners = [_number(item, f"bndbox/{side}", where) for side in ("xmin", "ymin", "xmax", "ymax")]
        if None in corners:
            raise DatasetError(f"{where}: <bndbox> needs xmin, ymin, xmax and ymax")
        x1, y1, x2, y2 = (corner or 0 for corner in corners)
        region = Region(Box(x1 - 1, y1 - 1, x2, y2))
        if is_empty(region.box):
            found.problems.append(f"{where} (EN#{names[0]}) has an empty box and was left out: {corners}")
        else:
            found.regions.append(region)
            for name in names:
                found.boxes.setdefault(name, []).append(region)
    for tag, group in (("scene", found.scenes), ("nobndbox", found.without_box)):
        if _number(item, tag, where):
            group.update(names)


def _number(item: Element, name: str, where: object) -> int | None:
    text = item.findtext(name)
    if text is None:
        return None
    if not re.fullmatch(r"\s*-?[0-9]{1,9}\s*", text):
        raise DatasetError(f"{where}: <{name.rpartition('/')[2]}> must be a whole number, found {text[:40]!r}")
    return int(text)


def _recognise(probe: Probe) -> bool:
    if not probe.is_folder:
        return False
    return (probe.path / "Sentences").is_dir() or len(list(probe.path.glob("*/Sentences"))) == 1


ENTITIES = DatasetReader(
    name="entities",
    title="Flickr30k Entities",
    description="a folder with Sentences and Annotations",
    needs="the folder, or one that holds it and the photographs",
    recognise=_recognise,
    read=lambda path, options: read_entities(path, images=options.images),
    takes_images=True,
)
