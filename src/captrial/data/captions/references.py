"""Reading what people said: several captions an id."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from captrial.data.captions.captionset import ProblemLog
from captrial.data.captions.reading import read_rows, usable
from captrial.data.captions.rows import REFERENCE_NAMES, Rows
from captrial.errors import CaptionFileError

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
