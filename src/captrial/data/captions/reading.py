"""Reading caption files: `read_captions` (one caption per image id) and `read_references` (several per id).

The format is recognised from the content, never from the file name: COCO results, `{"id": "caption"}`, COCO captions,
Karpathy split files, JSON lines, CSV, TSV, Parquet and .xlsx; also what lmms-eval, VLMEvalKit and inspect write.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from captrial.data.captions.evaluation_logs import read_log_archive
from captrial.data.captions.json_rows import read_json
from captrial.data.captions.rows import (
    CAPTION_NAMES,
    REFERENCE_NAMES,
    NotARecord,
    Rows,
    describe,
    is_log_archive,
    is_parquet,
    is_unicode,
    is_workbook,
    load,
    looks_like_json,
)
from captrial.data.captions.table_rows import read_delimited, read_parquet
from captrial.data.captions.workbook_rows import read_workbook
from captrial.data.image_ids import ImageIds, two_styles
from captrial.errors import CaptionFileError

logger = logging.getLogger(__name__)
CAPTION_NUMBER = re.compile(r"#\d+\Z")  # Flickr's token files: `photo.jpg#0<TAB>caption`
FIRST_CASES = 5  # cases of a problem that are listed; the rest are only counted

# Kinds of problems: words for one case, for several, and what happens to these rows.
WORDING = {
    "incomplete": ("row without an id or a caption", "rows without an id or a caption", "left out"),
    "wrong type": ("row of a wrong type", "rows of a wrong type", "left out"),
    "bad utf-8": ("row that is not valid UTF-8", "rows that are not valid UTF-8", "left out"),
    "duplicate": ("repeated row", "repeated rows", "kept once"),
    "empty": ("empty caption", "empty captions", "kept"),
    "unknown id": ("unknown id", "unknown ids", "left out"),
    "missing": ("image without a caption", "images without a caption", ""),
}


@dataclass(frozen=True, slots=True)
class CaptionProblem:
    """One kind of problem in a caption file: its number of cases, and the first ones by line or entry and id.

    Kinds: `incomplete`, `wrong type`, `bad utf-8`, `unknown id` (such rows are left out), `duplicate` (the same caption
    twice for an id: kept once), `empty` (kept as ""), `missing` (a known id that has no caption).
    """

    kind: str
    count: int
    first: tuple[str, ...]

    def __str__(self) -> str:
        one, several, fate = WORDING[self.kind]
        cases = "; ".join(self.first) + ("; ..." if self.count > len(self.first) else "")
        return f"{self.count} {one if self.count == 1 else several}{f', {fate}' if fate else ''} ({cases})"


@dataclass(frozen=True, slots=True)
class CaptionSet:
    """One caption per image id, in file order: `texts[n]` is the caption of image `ids[n]`.

    `matched` says which ids were matched with known ids other than exactly (see `captrial.data.image_ids`).
    """

    source: str
    ids: list[str]
    texts: list[str]
    problems: tuple[CaptionProblem, ...] = ()
    matched: str = ""

    def __len__(self) -> int:
        return len(self.ids)

    def to_dict(self) -> dict[str, str]:
        """Id to caption, in file order."""
        return dict(zip(self.ids, self.texts, strict=True))

    def report(self) -> str:
        """The number of captions, how ids were matched, and every problem with its first cases, as text.

        >>> CaptionSet("a.json", ["7"], [""], (CaptionProblem("empty", 1, ("entry 1 (id 7)",)),)).report()
        'a.json: 1 caption. 1 empty caption, kept (entry 1 (id 7)).'
        """
        found = f"{self.source}: {len(self)} caption{'' if len(self) == 1 else 's'}."
        matched = [f"{self.matched}."] if self.matched else []
        return " ".join([found, *matched, *(f"{problem}." for problem in self.problems)])


@dataclass(slots=True)
class ProblemLog:
    """Collects problems by kind: every case is counted, the first `FIRST_CASES` are listed."""

    counts: dict[str, int] = field(default_factory=dict)
    cases: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, case: str) -> None:
        """Count a case, and list it if it is among the first."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self.cases.setdefault(kind, [])) < FIRST_CASES:
            self.cases[kind].append(case)

    def add_all(self, kind: str, cases: Iterable[str]) -> None:
        """Count several cases of one kind."""
        for case in cases:
            self.add(kind, case)

    def problems(self) -> tuple[CaptionProblem, ...]:
        """The collected problems, in the order of `WORDING`."""
        return tuple(
            CaptionProblem(kind, self.counts[kind], tuple(self.cases.get(kind, ())))
            for kind in WORDING
            if kind in self.counts
        )


@dataclass(frozen=True, slots=True)
class CaptionLayout:
    """What a caption file does not tell: the column of the captions, and other names of images by id in the file."""

    caption_column: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def caption_names(self) -> Sequence[str]:
        """The columns that may hold captions."""
        return CAPTION_NAMES if self.caption_column is None else (self.caption_column,)


def read_captions(
    path: Path | str,
    *,
    known_ids: Collection[str] | None = None,
    strict: bool = False,
    layout: CaptionLayout | None = None,
) -> CaptionSet:
    """Read a caption file; its format is recognised from its content.

    An id that is not among `known_ids` is matched with one of them by file name or number where that is unambiguous
    (`000000000139.jpg` is `139`), and replaced by it; `matched` says so. Rows that cannot be used (no id or caption,
    wrong type, bytes that are not UTF-8, an id outside `known_ids`) are left out and listed in `problems`, as are known
    ids without a caption, empty captions and repeated rows. Raises `CaptionFileError` for two different captions of one
    id and for a file without a usable row; with `strict`, for any problem. `layout` names the column of the captions
    where its name is none of the usual ones, and translates ids.
    """
    path, layout = Path(path), layout or CaptionLayout()
    rows = read_rows(path, layout.caption_names)
    log = ProblemLog()
    ids, texts, kept = usable_rows(rows, log)
    ids, texts = _without_duplicates(ids, texts, kept, rows, log, path.name)
    ids = given = [layout.ids.get(identity, identity) for identity in ids] if layout.ids else ids
    ids, matched = _matched_ids(ids, known_ids)
    ids, texts = _with_known_ids(ids, texts, known_ids, log)
    texts = _with_empty_captions(ids, texts, log)
    captions = CaptionSet(path.name, ids, texts, log.problems(), matched)
    if not ids:
        way = f" {two_styles(path.name, given, 'the other file', known_ids)}" if given and known_ids else ""
        raise CaptionFileError(f"{captions.report()} Nothing is left to use.{way or ' Check the file and its ids'}")
    if strict and captions.problems:
        raise CaptionFileError(f"{captions.report()} Repair them, or read without strict")
    return captions


def read_rows(path: Path, caption_names: Sequence[str]) -> Rows:
    """The raw rows of a caption or reference file of any format."""
    content = load(path)
    if is_parquet(content):
        return read_parquet(content, path.name, caption_names)
    if is_log_archive(content):
        return read_log_archive(content, path.name, caption_names)
    if is_workbook(content):
        return read_workbook(content, path.name, caption_names)
    if looks_like_json(content):
        return read_json(content, path.name, caption_names)
    return read_delimited(content, path.name, caption_names)


def as_id(value: Any) -> str | None:
    """An id as a string, or None where it cannot be one: a float may be a rounded number, and booleans are not ids.

    >>> as_id(42), as_id("000042"), as_id(42.0), as_id(True)
    ('42', '000042', None, None)
    """
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def row_problem(rows: Rows, index: int) -> tuple[str, str] | None:
    """(kind, message) of the problem that makes a row unusable, or None."""
    raw, caption = rows.ids[index], rows.captions[index]
    if isinstance(raw, NotARecord):
        return "wrong type", f"{rows.where(index)} is {describe(raw)}"
    if raw is None or raw == "":
        return "incomplete", f"{rows.where(index)} has no {rows.id_name}"
    identity = as_id(raw)
    if identity is None:
        return "wrong type", f"{rows.where(index)}: {rows.id_name} is {describe(raw)}, not text or a whole number"
    if rows.suspect and not is_unicode(identity):
        return "bad utf-8", f"{rows.where(index)}: {rows.id_name}{_bad_byte(rows)}"
    if caption is None:
        return "incomplete", f"{rows.where(index)} (id {identity}) has no caption"
    if not isinstance(caption, str):
        hint = ", as in a reference file" if isinstance(caption, list) else ""
        return "wrong type", f"{rows.where(index)} (id {identity}): the caption is {describe(caption)}{hint}"
    if rows.suspect and not is_unicode(caption):
        return "bad utf-8", f"{rows.where(index)} (id {identity}){_bad_byte(rows)}"
    return None


def _bad_byte(rows: Rows) -> str:
    return f"; the file's first bad byte is {rows.bad_byte}" if rows.bad_byte else "; a lone surrogate"


def usable_rows(rows: Rows, log: ProblemLog) -> tuple[list[str], list[str], Sequence[int]]:
    """Ids, captions and row numbers of the rows that have both; problems of the others go to `log`."""
    kinds = set(map(type, rows.ids))
    if kinds <= {int, str} and set(map(type, rows.captions)) == {str} and not rows.suspect and "" not in rows.ids:
        return (rows.ids if kinds == {str} else list(map(str, rows.ids))), rows.captions, range(len(rows.ids))
    kept = []
    for index in range(len(rows.ids)):
        problem = row_problem(rows, index)
        if problem is None:
            kept.append(index)
        else:
            log.add(*problem)
    return [str(rows.ids[index]) for index in kept], [rows.captions[index] for index in kept], kept


def _without_duplicates(
    ids: list[str], texts: list[str], kept: Sequence[int], rows: Rows, log: ProblemLog, source: str
) -> tuple[list[str], list[str]]:
    """Rows that repeat the caption of an id are reported and kept once; a different caption is an error."""
    if len(set(ids)) == len(ids):
        return ids, texts
    first: dict[str, int] = {}
    for position, identity in enumerate(ids):
        earlier = first.setdefault(identity, position)
        if earlier == position:
            continue
        places = [rows.where(kept[earlier]), rows.where(kept[position])]
        if texts[earlier] != texts[position]:
            raise CaptionFileError(_two_captions(identity, places, rows, source))
        log.add("duplicate", f"{rows.id_name} {identity} at {places[0]} and {places[1]}")
    return list(first), [texts[position] for position in first.values()]


def _two_captions(identity: str, places: list[str], rows: Rows, source: str) -> str:
    plural = "entries" if rows.unit == "entry" else f"{rows.unit}s"
    numbers = " and ".join(place.rpartition(" ")[2] for place in places)
    return f"{source}: {rows.id_name} {identity} has two captions ({plural} {numbers}); keep one"


def _matched_ids(ids: list[str], known_ids: Collection[str] | None) -> tuple[list[str], str]:
    """Ids in the spelling of the known ones where they can be matched, and what was matched, in words."""
    if known_ids is None or set(ids) <= set(known_ids):
        return ids, ""
    matched = ImageIds(known_ids).match(ids)
    return [matched.known.get(identity, identity) for identity in ids], matched.report()


def _with_known_ids(
    ids: list[str], texts: list[str], known_ids: Collection[str] | None, log: ProblemLog
) -> tuple[list[str], list[str]]:
    if known_ids is None:
        return ids, texts
    known, present = set(known_ids), set(ids)
    log.add_all("missing", (f"id {identity}" for identity in known_ids if identity not in present))
    if present <= known:
        return ids, texts
    log.add_all("unknown id", (f"id {identity}" for identity in ids if identity not in known))
    pairs = [(identity, text) for identity, text in zip(ids, texts, strict=True) if identity in known]
    return [identity for identity, _ in pairs], [text for _, text in pairs]


def _with_empty_captions(ids: list[str], texts: list[str], log: ProblemLog) -> list[str]:
    """Captions of white space alone are kept as empty strings and reported."""
    if all(map(str.strip, texts)):
        return texts
    log.add_all("empty", (f"id {ids[n]}" for n, text in enumerate(texts) if not text.strip()))
    return [text if text.strip() else "" for text in texts]


def read_references(
    path: Path | str, *, split: str | None = None, known_ids: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Read several captions per image id: `{id: [caption, ...]}`, in file order.

    Formats: `{"id": ["caption", ...]}`, COCO captions, Karpathy split files (the raw sentences), and JSON lines, CSV,
    TSV or Parquet with several rows, or a list of captions, per id. `split` selects one split of a file that has them,
    or several (`train+restval`). With `known_ids`, ids are replaced by the known id that they mean (see
    `captrial.data.image_ids`; logged at level INFO); others stay. Raises `CaptionFileError` for any row that cannot be
    used: scores are computed against references, so none may be lost silently.
    """
    path = Path(path)
    rows = _of_split(read_rows(path, REFERENCE_NAMES), split, path.name)
    ids, texts, _ = _complete_rows(rows, path.name)
    ids, matched = _matched_ids(ids, known_ids)
    if matched:
        logger.info("%s: %s", path.name, matched)
    references: dict[str, list[str]] = {}
    for identity, text in zip(ids, texts, strict=True):
        references.setdefault(identity, []).append(text)
    return references


def read_captioned_images(path: Path | str) -> list[tuple[str, tuple[str, ...], str | None]]:
    """The images of a reference file, in its order: id, captions, and the split where the file has a column `split`.

    Raises `CaptionFileError` as `read_references` does, and for an image that is in two splits.
    """
    path = Path(path)
    ids, texts, splits = _complete_rows(read_rows(path, REFERENCE_NAMES), path.name)
    captions: dict[str, list[str]] = {}
    split_of: dict[str, str | None] = {}
    for identity, text, split in zip(ids, texts, splits or [None] * len(ids), strict=True):
        captions.setdefault(identity, []).append(text)
        named = None if split in (None, "") else str(split)
        if split_of.setdefault(identity, named) != named:
            raise CaptionFileError(
                f"{path.name}: {identity} is in the splits {split_of[identity]} and {named}; keep it in one"
            )
    return [(identity, tuple(own), split_of[identity]) for identity, own in captions.items()]


def _complete_rows(rows: Rows, source: str) -> tuple[list[str], list[str], list[Any] | None]:
    """Ids, captions and splits, one caption a row; any row that cannot be used is an error, and so is no row."""
    rows = _one_caption_a_row(rows, source)
    log = ProblemLog()
    ids, texts, kept = usable_rows(rows, log)
    for problem in log.problems():
        raise CaptionFileError(f"{source}: {problem}; references must be complete: repair or remove them")
    if not ids:
        raise CaptionFileError(f"{source}: has no captions; check that it is the right file")
    if rows.headless and all(map(CAPTION_NUMBER.search, ids)):
        ids = [CAPTION_NUMBER.sub("", identity) for identity in ids]
    return ids, texts, None if rows.splits is None else [rows.splits[index] for index in kept]


def _of_split(rows: Rows, split: str | None, source: str) -> Rows:
    if split is None:
        return rows
    if rows.splits is None:
        raise CaptionFileError(f"{source}: has no splits; read it without split={split!r}")
    wanted, known = split.split("+"), {str(name) for name in rows.splits}
    for name in wanted:
        if name not in known:
            raise CaptionFileError(f"{source}: has no split {name!r}; it has {', '.join(sorted(known))}")
    chosen = [index for index, name in enumerate(rows.splits) if name in wanted]
    return _taken(rows, chosen, [rows.captions[index] for index in chosen])


def _one_caption_a_row(rows: Rows, source: str) -> Rows:
    """Rows with a list of captions become one row per caption."""
    if list not in set(map(type, rows.captions)):
        return rows
    chosen, captions = [], []
    for index, caption in enumerate(rows.captions):
        several = caption if isinstance(caption, list) else [caption]
        if not several:
            raise CaptionFileError(
                f"{source}: {rows.where(index)} (id {rows.ids[index]}) has no captions; add or remove it"
            )
        chosen += [index] * len(several)
        captions += several
    return _taken(rows, chosen, captions)


def _taken(rows: Rows, chosen: list[int], captions: list[object]) -> Rows:
    ids = [rows.ids[index] for index in chosen]
    splits = None if rows.splits is None else [rows.splits[index] for index in chosen]
    return replace(rows, ids=ids, captions=captions, splits=splits, number=lambda index: rows.number(chosen[index]))
