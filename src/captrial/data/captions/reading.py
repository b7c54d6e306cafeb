"""Reading what a captioner said: one caption an id, every oddity counted."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from captrial.data.captions import content as contents
from captrial.data.captions.caption_set import CaptionSet, ProblemLog
from captrial.data.captions.csv_rows import read_delimited
from captrial.data.captions.json_rows import read_json
from captrial.data.captions.parquet_rows import read_parquet
from captrial.data.captions.rows import CAPTION_NAMES, REFERENCE_NAMES, NotARecord, Rows, describe
from captrial.errors import CaptionFileError


def read_captions(path: Path | str, *, known_ids: Collection[str] | None = None, strict: bool = False) -> CaptionSet:
    """Read a caption file of any format, told by its content.

    Rows that cannot be used (no id or caption, wrong type, bytes that are not UTF-8, an id outside `known_ids`) are
    left out and reported in `problems`, as are known ids without a caption, empty captions and exact repetitions.
    Two different captions for an id, or a file with no usable row, are a `CaptionFileError`; with `strict`, any
    problem is.
    """
    path = Path(path)
    rows = read_rows(path, CAPTION_NAMES)
    log = ProblemLog()
    ids, texts, kept = usable(rows, log)
    ids, texts = _without_repetition(ids, texts, kept, rows, log, path.name)
    ids, texts = _known(ids, texts, known_ids, log)
    texts = _emptied(ids, texts, log)
    captions = CaptionSet(path.name, ids, texts, log.problems())
    if not ids:
        raise CaptionFileError(f"{captions.report()} Nothing is left to use; check the file and its ids")
    if strict and captions.problems:
        raise CaptionFileError(f"{captions.report()} Repair them, or read without strict")
    return captions


def read_rows(path: Path, caption_names: Sequence[str]) -> Rows:
    """The raw rows of a caption or reference file."""
    content = contents.load(path)
    if contents.is_parquet(content):
        return read_parquet(content, path.name, caption_names)
    if contents.looks_like_json(content):
        return read_json(content, path.name, caption_names)
    return read_delimited(content, path.name, caption_names)


def as_id(value: Any) -> str | None:
    """An id as a string, or None where it cannot be one: a fraction may be a rounded number, true is no id.

    >>> as_id(42), as_id("000042"), as_id(42.0), as_id(True)
    ('42', '000042', None, None)
    """
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def trouble(rows: Rows, index: int) -> tuple[str, str] | None:
    """(kind, words) of what makes a row unusable, or None."""
    raw, caption = rows.ids[index], rows.captions[index]
    if isinstance(raw, NotARecord):
        return "wrong type", f"{rows.where(index)} is {describe(raw)}"
    if raw is None or raw == "":
        return "incomplete", f"{rows.where(index)} has no {rows.id_name}"
    identity = as_id(raw)
    if identity is None:
        return "wrong type", f"{rows.where(index)}: {rows.id_name} is {describe(raw)}, not text or a whole number"
    if rows.suspect and not contents.is_clean(identity):
        return "bad utf-8", f"{rows.where(index)}: {rows.id_name}{_bad_byte(rows)}"
    if caption is None:
        return "incomplete", f"{rows.where(index)} (id {identity}) has no caption"
    if not isinstance(caption, str):
        hint = ", as in a reference file" if isinstance(caption, list) else ""
        return "wrong type", f"{rows.where(index)} (id {identity}): the caption is {describe(caption)}{hint}"
    if rows.suspect and not contents.is_clean(caption):
        return "bad utf-8", f"{rows.where(index)} (id {identity}){_bad_byte(rows)}"
    return None


def _bad_byte(rows: Rows) -> str:
    return f"; the file's first bad byte is {rows.bad_byte}" if rows.bad_byte else "; a lone surrogate"


def usable(rows: Rows, log: ProblemLog) -> tuple[list[str], list[str], Sequence[int]]:
    """Ids, captions and row numbers of the rows that have an id and a text."""
    kinds = set(map(type, rows.ids))
    if kinds <= {int, str} and set(map(type, rows.captions)) == {str} and not rows.suspect and "" not in rows.ids:
        return (rows.ids if kinds == {str} else list(map(str, rows.ids))), rows.captions, range(len(rows.ids))
    kept = []
    for index in range(len(rows.ids)):
        found = trouble(rows, index)
        if found is None:
            kept.append(index)
        else:
            log.add(*found)
    return [str(rows.ids[index]) for index in kept], [rows.captions[index] for index in kept], kept


def _without_repetition(
    ids: list[str], texts: list[str], kept: Sequence[int], rows: Rows, log: ProblemLog, source: str
) -> tuple[list[str], list[str]]:
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


def _known(
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


def _emptied(ids: list[str], texts: list[str], log: ProblemLog) -> list[str]:
    """White space alone is an empty caption: kept, as the empty string, and reported."""
    if all(map(str.strip, texts)):
        return texts
    log.add_all("empty", (f"id {ids[n]}" for n, text in enumerate(texts) if not text.strip()))
    return [text if text.strip() else "" for text in texts]


# Reading what people said: several captions an id.


CAPTION_NUMBER = re.compile(r"#\d+\Z")  # Flickr's token files: `photo.jpg#0<TAB>caption`


def read_references(path: Path | str, *, split: str | None = None) -> dict[str, list[str]]:
    """Id to its captions, in file order.

    Understood are `{"id": ["caption", ...]}`, COCO captions, Karpathy split files (the raw sentences), and JSON lines,
    CSV/TSV or Parquet with several rows, or a list of captions, an id. `split` keeps one split of a file that has
    them, or several (`train+restval`). References are the yardstick, so nothing is let pass: any row that cannot be
    used is a `CaptionFileError`.
    """
    path = Path(path)
    rows = _one_caption_a_row(_of_split(read_rows(path, REFERENCE_NAMES), split, path.name), path.name)
    log = ProblemLog()
    ids, texts, _ = usable(rows, log)
    for problem in log.problems():
        raise CaptionFileError(f"{path.name}: {problem}; references must be whole: repair or remove them")
    if all(map(CAPTION_NUMBER.search, ids)):
        ids = [CAPTION_NUMBER.sub("", identity) for identity in ids]
    references: dict[str, list[str]] = {}
    for identity, text in zip(ids, texts, strict=True):
        references.setdefault(identity, []).append(text)
    if not references:
        raise CaptionFileError(f"{path.name}: holds no captions; check that it is the right file")
    return references


def _of_split(rows: Rows, split: str | None, source: str) -> Rows:
    if split is None:
        return rows
    if rows.splits is None:
        raise CaptionFileError(f"{source}: has no splits, so not {split!r} either; leave the split out")
    wanted, known = split.split("+"), {str(name) for name in rows.splits}
    for name in wanted:
        if name not in known:
            raise CaptionFileError(f"{source}: has no split {name!r}; it has {', '.join(sorted(known))}")
    chosen = [index for index, name in enumerate(rows.splits) if name in wanted]
    return _taken(rows, chosen, [rows.captions[index] for index in chosen])


def _one_caption_a_row(rows: Rows, source: str) -> Rows:
    """Lists of captions laid out as rows."""
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
    return replace(rows, ids=ids, captions=captions, number=lambda index: rows.number(chosen[index]))
