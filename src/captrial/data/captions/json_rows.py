"""JSON and JSON-lines caption files as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from captrial.data.captions.evaluation_logs import log_rows
from captrial.data.captions.rows import ID_NAMES, Pairs, Rows, decode, describe, records_to_rows
from captrial.errors import CaptionFileError


def read_json(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of a COCO results list, a mapping, COCO annotations, a Karpathy split file, JSON lines, or a log."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        if _is_lines(content):
            return _read_lines(content, source, caption_names)
        return _read_slowly(content, source, caption_names)
    logged = log_rows(document, source, caption_names)
    if logged is not None:
        return logged
    rows = document_to_rows(document, source, caption_names)
    if _keys_repeat(content, document, rows):
        return _read_slowly(content, source, caption_names)
    return rows


def document_to_rows(document: Any, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of a parsed JSON document of any known structure."""
    if isinstance(document, list):
        return records_to_rows(document, source, caption_names, unit="entry")
    if isinstance(document, Pairs):
        return _mapping_rows([key for key, _ in document.items], [value for _, value in document.items])
    if not isinstance(document, dict):
        raise CaptionFileError(f"{source}: is {describe(document)}; a list or an object of captions was expected")
    if isinstance(document.get("annotations"), list):
        return records_to_rows(document["annotations"], source, caption_names, unit="annotation")
    if isinstance(document.get("images"), list):
        return _karpathy_rows(document["images"], source)
    if _is_record(document, caption_names):
        return records_to_rows([document], source, caption_names, unit="line")
    return _mapping_rows(list(document), list(document.values()))


def parse_leniently(text: str) -> Any:
    """Parse JSON that orjson refuses: NaN, lone surrogates, bytes that are not UTF-8 (escaped)."""
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> Any:
    value = dict(pairs)
    return value if len(value) == len(pairs) else Pairs(pairs)


def _is_record(document: dict[str, Any], caption_names: Sequence[str]) -> bool:
    """Whether an object is one row of JSON lines rather than a mapping from ids to captions, or to lists of them."""
    ids = [document[name] for name in ID_NAMES if name in document]
    return any(not isinstance(identity, list) for identity in ids) and not document.keys().isdisjoint(caption_names)


def _mapping_rows(ids: list[Any], captions: list[Any]) -> Rows:
    return Rows(ids, captions, "id", "caption", "entry")


def _karpathy_rows(images: list[Any], source: str) -> Rows:
    """Images with `sentences`, each with its `raw` text; the id is `cocoid` where there is one, else `filename`."""
    ids, captions, splits = [], [], []
    for index, image in enumerate(images):
        try:
            ids.append(image["cocoid"] if "cocoid" in image else image["filename"])
            captions.append([sentence["raw"] for sentence in image["sentences"]])
            splits.append(image.get("split"))
        except (KeyError, TypeError, AttributeError):
            raise CaptionFileError(
                f"{source}: image {index + 1} has no filename or no sentences with a raw text; this is neither a "
                "Karpathy split file nor COCO captions"
            ) from None
    id_name = "cocoid" if images and "cocoid" in images[0] else "filename"
    return Rows(ids, captions, id_name, "sentences", "image", splits=splits)


def _read_slowly(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Parse with Python's `json`: slower, but repeated keys stay apart and bytes that are not UTF-8 stay visible."""
    text, bad_byte = decode(content)
    try:
        document = parse_leniently(text)
    except (ValueError, RecursionError) as error:
        raise CaptionFileError(f"{source}: {_json_error(error)}; write it again or repair it there") from None
    return replace(document_to_rows(document, source, caption_names), suspect=True, bad_byte=bad_byte)


def _json_error(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    return f"not JSON: {'nested too deeply' if isinstance(error, RecursionError) else error}"


def _is_lines(content: bytes) -> bool:
    """Whether the first line is a complete JSON object and more lines follow."""
    first, _, rest = content.strip().partition(b"\n")
    try:
        return bool(rest) and isinstance(parse_leniently(decode(first)[0]), dict | Pairs)
    except (ValueError, RecursionError):
        return False


def _read_lines(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    lines = content.split(b"\n")
    numbers = [number for number, line in enumerate(lines, start=1) if line and not line.isspace()]
    lines = [lines[number - 1] for number in numbers]

    def rows_of(records: list[Any]) -> Rows:
        return records_to_rows(records, source, caption_names, unit="line", number=numbers.__getitem__)

    try:
        records = list(map(orjson.loads, lines))
        logged = log_rows(records, source, caption_names, "line", numbers.__getitem__)
        if logged is not None:
            return logged
        rows = rows_of(records)
        if not _names_repeat(content, rows):
            return rows
    except orjson.JSONDecodeError:
        pass
    exact = rows_of([_parse_line(line, number, source) for line, number in zip(lines, numbers, strict=True)])
    return replace(exact, suspect=True, bad_byte=decode(content)[1])


def _parse_line(line: bytes, number: int, source: str) -> Any:
    try:
        return parse_leniently(decode(line)[0])
    except (ValueError, RecursionError) as error:
        reason = _json_error(error).replace("line 1, ", "")
        raise CaptionFileError(f"{source}: line {number} is {reason}; repair or remove that line") from None


def _keys_repeat(content: bytes, document: Any, rows: Rows) -> bool:
    """Whether some object may have a key twice, which orjson does not report.

    Counting quotes or names in the bytes takes a hundredth of the time of parsing again; a false alarm only costs time.
    """
    if not isinstance(document, dict) or len(document) != len(rows.ids):
        return _names_repeat(content, rows)
    strings = len(document)
    for value in document.values():
        if isinstance(value, str):
            strings += 1
        elif isinstance(value, list) and all(isinstance(text, str) for text in value):
            strings += len(value)
        else:
            return True
    return _quotes(content) != 2 * strings


def _quotes(content: bytes) -> int:
    """The number of quotes that open or close a string: all that do not follow a backslash."""
    if b"\\" not in content:
        return content.count(b'"')
    unescaped = content.replace(rb"\\", b"")  # without pairs of backslashes, each one that is left escapes a character
    return unescaped.count(b'"') - unescaped.count(rb"\"")


def _names_repeat(content: bytes, rows: Rows) -> bool:
    return any(content.count(b'"%s"' % name.encode()) > len(rows.ids) for name in (rows.id_name, rows.caption_name))
