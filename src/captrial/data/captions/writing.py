"""Writing caption and reference files: the suffix chooses the format; files are complete or not there.

A file that captrial did not write, or that has changed since, is replaced only with `overwrite`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet

from captrial.data.captions.reading import CaptionSet
from captrial.data.captions.rows import is_unicode
from captrial.errors import CaptionFileError
from captrial.files import output_path, refuse_overwrite

COCO_ID = re.compile(r"0|[1-9]\d{0,14}")
NEEDS_QUOTES = {",": re.compile(r'[",\r\n]'), "\t": re.compile(r'["\t\r\n]')}


def write_captions(path: Path | str, captions: Mapping[str, str] | CaptionSet, *, overwrite: bool = False) -> None:
    """Write one caption per image id as `.json` (COCO results), `.jsonl`, `.csv`, `.tsv` or `.parquet`.

    COCO results have numbers as ids if every id is one, as the COCO tools expect. An existing file is replaced
    if captrial wrote it and it is unchanged, or with `overwrite`; else an `InputError` is raised.
    """
    path = Path(path)
    refuse_overwrite(path, overwrite=overwrite)
    mapping = captions.to_dict() if isinstance(captions, CaptionSet) else captions
    ids, texts = list(mapping), list(mapping.values())
    _check(ids, texts, path)
    if path.suffix.lower() == ".json":
        rows = [{"image_id": i, "caption": text} for i, text in zip(coco_ids(ids), texts, strict=True)]
        content = _pretty_rows(rows)
    else:
        content = _table(path, ids, texts)
    _write(path, content, overwrite)


def write_references(path: Path | str, references: Mapping[str, Sequence[str]], *, overwrite: bool = False) -> None:
    """Write several captions per image id: `.json` as COCO captions, other suffixes with one row per caption.

    Existing files are treated as in `write_captions`.
    """
    path = Path(path)
    refuse_overwrite(path, overwrite=overwrite)
    ids = [identity for identity, texts in references.items() for _ in texts]
    texts = [text for several in references.values() for text in several]
    _check(ids, texts, path)
    for identity, several in references.items():
        if isinstance(several, str) or not several:
            raise CaptionFileError(
                f"{path.name}: id {identity} has no list of captions; give it at least one, or leave it out"
            )
    if path.suffix.lower() == ".json":
        numbers = dict(zip(references, coco_ids(list(references)), strict=True))
        annotations = [
            {"id": n, "image_id": numbers[i], "caption": text}
            for n, (i, text) in enumerate(zip(ids, texts, strict=True))
        ]
        images = [{"id": number} for number in numbers.values()]
        content = orjson.dumps({"images": images, "annotations": annotations})
    else:
        content = _table(path, ids, texts)
    _write(path, content, overwrite)


def _write(path: Path, content: bytes, overwrite: bool) -> None:
    with output_path(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)


def coco_ids(ids: list[str]) -> list[str] | list[int]:
    """Ids as numbers if all are plain decimal numbers, so that reading returns the same ids; else unchanged.

    >>> coco_ids(["42", "7"]), coco_ids(["42", "007"])
    ([42, 7], ['42', '007'])
    """
    return list(map(int, ids)) if all(map(COCO_ID.fullmatch, ids)) else ids


def _check(ids: list[str], texts: list[str], path: Path) -> None:
    for identity, text in zip(ids, texts, strict=True):
        if not isinstance(identity, str) or not isinstance(text, str):
            raise CaptionFileError(
                f"{path.name}: id {identity!r} and its caption must both be text; convert them first"
            )
        if not identity:
            raise CaptionFileError(f"{path.name}: an id is empty; every caption needs one")
        if not is_unicode(identity) or not is_unicode(text):
            raise CaptionFileError(f"{path.name}: id {identity!a} or its caption is not valid Unicode; repair it first")


def _pretty_rows(rows: list[dict[str, object]]) -> bytes:
    """A JSON list with one entry per line, for diff and grep."""
    return b"[" + b",\n".join(map(orjson.dumps, rows)) + b"]\n"


def _table(path: Path, ids: list[str], texts: list[str]) -> bytes:
    writers: dict[str, Callable[[Path, list[str], list[str]], bytes]] = {
        ".jsonl": _lines,
        ".csv": _delimited,
        ".tsv": _delimited,
        ".parquet": _parquet,
    }
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise CaptionFileError(f"{path.name}: unknown suffix {path.suffix!r}; use .json, {', '.join(writers)}")
    return writer(path, ids, texts)


def _lines(_path: Path, ids: list[str], texts: list[str]) -> bytes:
    return b"".join(orjson.dumps({"id": i, "caption": text}) + b"\n" for i, text in zip(ids, texts, strict=True))


def _delimited(path: Path, ids: list[str], texts: list[str]) -> bytes:
    for identity, text in zip(ids, texts, strict=True):
        if "\0" in identity or "\0" in text:
            raise CaptionFileError(
                f"{path.name}: id {identity!a} contains a zero character; write .json or .parquet instead"
            )
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    needs_quotes = NEEDS_QUOTES[delimiter].search
    # Tools read a partly quoted TSV differently: quote all of its fields, header included, or none.
    everything = delimiter == "\t" and any(map(needs_quotes, [*ids, *texts]))

    def field(text: str) -> str:
        return _quoted(text) if everything or needs_quotes(text) else text

    rows = zip(["id", *ids], ["caption", *texts], strict=True)
    return "".join(f"{field(identity)}{delimiter}{field(text)}\n" for identity, text in rows).encode()


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"'


def _parquet(_path: Path, ids: list[str], texts: list[str]) -> bytes:
    table = pa.table({"id": pa.array(ids, pa.string()), "caption": pa.array(texts, pa.string())})
    stream = io.BytesIO()
    pa.parquet.write_table(table, stream, compression="zstd")
    return stream.getvalue()
