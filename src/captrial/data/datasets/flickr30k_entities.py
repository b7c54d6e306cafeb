"""Flickr30k Entities: captions with bracketed phrases, and the boxes of the entities they refer to.

`Sentences/36979.txt`: `[/EN#137644/people A group of friends] playing [/EN#137645/other cards] .`, one caption per
line.
`Annotations/36979.xml`: `<object>`s with one or more `<name>` (entity ids) and a `<bndbox>`, or with
`<nobndbox>1</nobndbox>` and `<scene>1</scene>` for entities that have no box or are the whole scene.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from captrial.data.datasets.base import (
    DatasetReader,
    image_root,
    is_empty,
    natural_key,
    read_bytes,
    read_lines,
    safe_join,
)
from captrial.data.datasets.samples import select_split
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


def read_entities(root: Path | str, *, images: Path | str | None = None, split: str | None = None) -> list[Sample]:
    """Read a folder with `Sentences`, `Annotations` and, for splits, `train.txt`, `val.txt`, `test.txt`.

    The id of an image is its file name (`36979.jpg`, as in Karpathy's file). Captions are the lines without brackets;
    `extra["tokens"]` are their words as the file separates them, and the indices of every `Phrase` count in these. The
    entity of a phrase is the number after `EN#` (`"0"`: not visual), its kinds those of the bracket, plus `scene` and
    `nobox` from the XML. The XML counts pixels from 1 and includes the last: `x1 = xmin - 1`, `x2 = xmax`.
    """
    root = Path(root)
    sentences = sorted((root / "Sentences").glob("*.txt"), key=lambda path: natural_key(path.name))
    if not sentences:
        raise DatasetError(f"{root / 'Sentences'}: no sentence files; expected e.g. 36979.txt")
    known = {path.stem for path in sentences}
    orphans = sorted(path.name for path in (root / "Annotations").glob("*.xml") if path.stem not in known)
    if orphans:
        raise DatasetError(f"{root / 'Annotations' / orphans[0]}: no Sentences file for it ({len(orphans)} such files)")
    folder, splits = image_root(root / "Sentences", images), _splits(root, known)
    samples = [_sample(path, root / "Annotations" / f"{path.stem}.xml", folder, splits) for path in sentences]
    return select_split(samples, split, root)


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


def _sample(sentences: Path, xml: Path, images: Path | None, splits: dict[str, str]) -> Sample:
    annotations = _annotations(xml, sentences.stem)
    lines = [(number, line) for number, line in enumerate(read_lines(sentences), 1) if line.strip()]
    parsed = [parse_entities(line, f"{sentences}: line {number}") for number, line in lines]
    path = safe_join(images, annotations.filename, str(xml)) if images else None
    extra: dict[str, object] = {"tokens": tuple(tokens for tokens, _ in parsed)}
    if annotations.problems:
        extra["problems"] = tuple(annotations.problems)
    return Sample(
        ImageRef(annotations.filename, path, annotations.width, annotations.height),
        tuple(" ".join(tokens) for tokens, _ in parsed),
        splits.get(sentences.stem),
        tuple(annotations.regions),
        tuple(tuple(_link(phrase, annotations) for phrase in phrases) for _, phrases in parsed),
        extra,
    )


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


class _Builder(ElementTree.TreeBuilder):
    """Builds a tree, and refuses a document type in any encoding: entities may expand to gigabytes."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source = source

    def doctype(self, *_: object) -> None:
        """Called when the parser comes to a document type, before it reads any entity."""
        raise DatasetError(f"{self._source}: a document type is not expected here and is refused")


def _annotations(path: Path, stem: str) -> _Annotations:
    try:
        tree = ElementTree.fromstring(read_bytes(path), ElementTree.XMLParser(target=_Builder(str(path))))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DatasetError(f"{path}: not XML: {error}") from None
    found = _Annotations(tree.findtext("filename") or f"{stem}.jpg")
    found.width, found.height = (_number(tree, f"size/{side}", path) for side in ("width", "height"))
    for index, item in enumerate(tree.findall("object")):
        _add_object(found, item, f"{path}: object {index}")
    return found


def _add_object(found: _Annotations, item: ElementTree.Element, where: str) -> None:
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


def _number(item: ElementTree.Element, name: str, where: object) -> int | None:
    text = item.findtext(name)
    if text is None:
        return None
    if not re.fullmatch(r"\s*-?[0-9]{1,9}\s*", text):
        raise DatasetError(f"{where}: <{name.rpartition('/')[2]}> must be a whole number, found {text[:40]!r}")
    return int(text)


ENTITIES = DatasetReader(
    name="entities",
    title="Flickr30k Entities",
    description="a folder with Sentences and Annotations",
    needs="the folder",
    recognise=lambda probe: (probe.path / "Sentences").is_dir(),
    read=lambda path, options: read_entities(path, images=options.images),
    takes_images=True,
)
