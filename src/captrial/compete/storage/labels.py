"""Labels by people: reference captions, images that cannot be described, and preferences between two captions.

    references.jsonl             reference captions and images that cannot be described; by a person
    judgements.jsonl             preferences; by a person
    references.annotated.jsonl   the same from the database of `captrial annotate`, below a line that says so
    judgements.annotated.jsonl   the same
    indescribable.json           a list of images that cannot be described, by `Competition.mark_indescribable`

captrial never writes the first two, and never replaces one of the others that it did not write.

References have a line an image, `{"id": ..., "captions": [...]}` or `{"id": ..., "indescribable": true}`; of several
lines about one image in one file the last counts. Judgements have a line a judgement (see `storage.judgements`).

Sources are merged by these rules (`merge_labels`, `LabelFiles.judgements`):
1. An image has the captions of all sources: `--references` first, then `references.jsonl`, then those of
   `captrial annotate`. A caption that several sources have counts once.
2. An image that one source calls indescribable is left out of the selection, also where another source has captions of
   it. This is a conflict, and reported.
3. All judgements count. A `judgements.jsonl` of which every line is also in `judgements.annotated.jsonl` (a copy of it)
   counts once, and this is reported.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from captrial.compete.storage.judgements import DERIVED, Judgement, read_judgements, read_line, verdict
from captrial.data.image_ids import FIRST_IDS, MatchedIds
from captrial.errors import InputError, MismatchError, StateError
from captrial.files import atomic_write, content_hash

REFERENCES, JUDGEMENTS, MARKS = "references.jsonl", "judgements.jsonl", "indescribable.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labels:
    """Reference captions by image, the images that people could not describe, and what there is to report."""

    references: dict[str, list[str]] = field(default_factory=dict)
    indescribable: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def derived_name(name: str) -> str:
    """The name of the file that `captrial annotate` writes instead of a hand-made one.

    >>> derived_name("references.jsonl")
    'references.annotated.jsonl'
    """
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.annotated.{suffix}"


LABEL_FILES = (REFERENCES, JUDGEMENTS, derived_name(REFERENCES), derived_name(JUDGEMENTS), MARKS)


class LabelFiles:
    """The label files of a competition's directory.

    `match` finds the competition's images by other spellings of their ids (see `captrial.data.image_ids`).
    """

    def __init__(self, directory: Path, match: Callable[[Iterable[str]], MatchedIds]) -> None:
        self.directory, self._match = directory, match
        self._read: dict[str, tuple[tuple[int, int], Labels]] = {}
        self._reported: set[str] = set()  # notes, each reported once

    def labels(self, given: Mapping[str, Sequence[str]] | None = None, source: str = "--references") -> Labels:
        """All labels, merged; `given` are those of a file that the user names, `source` its name."""
        found = [(name, self._labels(name)) for name in (REFERENCES, derived_name(REFERENCES))]
        found.append((MARKS, Labels(indescribable=self._marks())))
        if given is not None:
            named = Labels({image: list(captions) for image, captions in given.items()})
            found.insert(0, (source, self._matched(named, source)))
        merged = merge_labels(found)
        for note in sorted(set(merged.notes) - self._reported):
            _log.warning(note)
        self._reported |= set(merged.notes)
        return merged

    def indescribable(self, by_hand: bool = False) -> frozenset[str]:
        """Images that cannot be described; `by_hand`: without what the annotators of `captrial annotate` voted."""
        names = (REFERENCES,) if by_hand else (REFERENCES, derived_name(REFERENCES))
        return self._marks().union(*(self._labels(name).indescribable for name in names))

    def mark(self, image: str) -> None:
        """Add an image to `indescribable.json`."""
        marked = self._marks()
        if image not in marked:
            atomic_write(self.directory / MARKS, orjson.dumps(sorted({*marked, image})) + b"\n")

    def judgements(self, models: Sequence[str], file: Path | None = None) -> list[Judgement]:
        """All preferences, or those of a file that the user names instead."""
        if file is not None:
            return self._judgements(file, models)
        paths = [self.directory / name for name in (JUDGEMENTS, derived_name(JUDGEMENTS))]
        own, derived = (self._judgements(path, models) if path.is_file() else [] for path in paths)
        if own and not Counter(map(verdict, own)) - Counter(map(verdict, derived)):
            _log.warning("%s repeats %s; each judgement counts once", JUDGEMENTS, derived_name(JUDGEMENTS))
            return derived
        return [*own, *derived]

    def _judgements(self, path: Path, models: Sequence[str]) -> list[Judgement]:
        """The judgements of one file, by the competition's own image ids."""
        found = read_judgements(path, models)
        known = self._match(dict.fromkeys(judgement.image for judgement in found)).known
        return [replace(judgement, image=known.get(judgement.image, judgement.image)) for judgement in found]

    def _labels(self, name: str) -> Labels:
        """The labels of one file, read again when it has changed."""
        path = self.directory / name
        if not path.is_file():
            return Labels()
        version = (path.stat().st_mtime_ns, path.stat().st_size)
        if name not in self._read or self._read[name][0] != version:
            self._read[name] = version, self._matched(read_labels(path), name)
        return self._read[name][1]

    def _matched(self, labels: Labels, source: str) -> Labels:
        """The labels by the competition's own ids; ids that are no image of it stay as they are."""
        matched = self._match([*labels.references, *labels.indescribable])
        known, report = matched.known, matched.report()
        notes = (f"{source}: {report}",) if report else ()
        references = {known.get(image, image): captions for image, captions in labels.references.items()}
        return Labels(references, frozenset(known.get(image, image) for image in labels.indescribable), notes)

    def _marks(self) -> frozenset[str]:
        path = self.directory / MARKS
        try:
            marked = orjson.loads(path.read_bytes()) if path.is_file() else []
            if not isinstance(marked, list) or not all(isinstance(image, str) for image in marked):
                raise ValueError("it is not a list of texts")
        except ValueError as error:
            raise InputError(f"{path}: cannot be read as a list of images ({error}); repair or remove it") from None
        return frozenset(marked)


def merge_labels(sources: Sequence[tuple[str, Labels]]) -> Labels:
    """Merge labels, each with the name of its source, by the rules above; `notes` report what was joined and conflicts.

    >>> merged = merge_labels([("a", Labels({"1": ["a dog"]})), ("b", Labels({"1": ["a dog", "a pug"]}))])
    >>> merged.references, merged.notes
    ({'1': ['a dog', 'a pug']}, ('1 image has captions in a and in b (1): all of them count',))
    """
    references: dict[str, list[str]] = {}
    for _, labels in sources:
        for image, captions in labels.references.items():
            known = set(references.setdefault(image, []))  # of other sources; equal captions of one source all count
            references[image] += [caption for caption in captions if caption not in known]
    notes = [note for _, labels in sources for note in labels.notes]
    for place, (first, one) in enumerate(sources):
        for second, other in sources[place + 1 :]:
            both = one.references.keys() & other.references.keys()
            differing = [image for image in both if set(one.references[image]) != set(other.references[image])]
            if differing:
                notes.append(f"{_images(differing)} captions in {first} and in {second}{_first(differing)}: {_JOINED}")
    for first, one in sources:
        for second, other in sources:
            conflict = one.references.keys() & other.indescribable
            if conflict:
                notes.append(
                    f"conflict: {_images(conflict)} captions in {first} but cannot be described according to {second}"
                    f"{_first(conflict)}: left out; to use the captions, remove the mark in {second}"
                )
    return Labels(references, frozenset().union(*(labels.indescribable for _, labels in sources)), tuple(notes))


_JOINED = "all of them count"


def _images(found: Iterable[str]) -> str:
    count = len(set(found))
    return f"{count} image{' has' if count == 1 else 's have'}"


def _first(found: Iterable[str]) -> str:
    listed = sorted(found)
    return f" ({', '.join(listed[:FIRST_IDS])}{', ...' if len(listed) > FIRST_IDS else ''})"


# Reading a file ------------------------------------------------------------------------------------------------------


def read_labels(path: Path) -> Labels:
    """Read a file of references; no file, no labels yet."""
    references: dict[str, list[str]] = {}
    bad: set[str] = set()
    for place, record in _records(path):
        image = str(record["id"])
        references.pop(image, None)
        bad.discard(image)
        if record.get("indescribable"):
            bad.add(image)
            continue
        captions = record.get("captions")
        if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
            raise InputError(f'{place}: image {image} needs "captions", a list of texts, or "indescribable"')
        if captions:
            references[image] = captions
    return Labels(references, frozenset(bad))


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.exists():
        return
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); it should be a file of JSON lines") from None
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{path.name}, line {number}"
        record = read_line(line, place)
        if number == 1 and isinstance(record, dict) and record.get("derived") == DERIVED:
            continue
        if not isinstance(record, dict) or not isinstance(record.get("id"), str | int):
            raise InputError(f'{place}: needs an object with an "id"')
        yield place, record


# Derived files -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DerivedHead:
    """The first line of a derived file: the database that its lines come from."""

    database: str  # its id
    source: str  # where it is, for messages; without a password
    checksum: str = ""  # of the lines below

    def line(self) -> bytes:
        """The line itself."""
        return orjson.dumps({"derived": DERIVED, **asdict(self)}) + b"\n"


def read_derived(path: Path) -> tuple[DerivedHead, bytes] | None:
    """The head of a derived file and the lines below it; None where there is no such file.

    Raises a `StateError` where the file is not one that captrial wrote, or was edited since.
    """
    if not path.exists():
        return None
    try:
        first, _, body = path.read_bytes().partition(b"\n")
        record = orjson.loads(first)
        head = DerivedHead(record["database"], record["source"], record["checksum"])
        if record["derived"] != DERIVED or head.checksum != content_hash(body):
            raise ValueError("edited")
    except (OSError, ValueError, KeyError, TypeError):
        raise StateError(
            f"{path}: captrial annotate keeps its labels in a file of this name, but this one was not written by it, "
            f"or was edited since; move it away, or rename it to {path.name.replace('.annotated', '')} to use its "
            "labels beside those of the annotation"
        ) from None
    return head, body


def write_derived(path: Path, head: DerivedHead, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a derived file if its content has changed; what a person or another database made is never replaced."""
    body = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    kept = read_derived(path)
    if kept is not None:
        check_origin(path, kept[0], head)
        if kept[1] == body:
            return
    atomic_write(path, DerivedHead(head.database, head.source, content_hash(body)).line() + body)


def check_origin(path: Path, kept: DerivedHead, own: DerivedHead) -> None:
    """Refuse a derived file that comes from another database."""
    if kept.database != own.database:
        raise MismatchError(
            f"{path}: holds the labels of another annotation database ({kept.source}), not of {own.source}; give that "
            f"one by --database, or, to keep these labels beside those of a new database, rename the file to "
            f"{path.name.replace('.annotated', '')}"
        )
