"""Logs of evaluation programs as caption records: what lmms-eval and inspect wrote for each sample.

- lmms-eval (`--log_samples`): JSON lines, or `{"logs": [...]}`, with `doc_id`, `doc`, `resps` and `filtered_resps`. The
  id is the `image_id` that a captioning task keeps with its prediction, else an id of the document, else `doc_id`.
- inspect: a log `{"eval": ..., "samples": [...]}`, or the `.eval` archive of one file a sample. The id is the sample's.
- VLMEvalKit writes workbooks or tables with the columns `index` and `prediction`, which need nothing of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from captrial.data.captions.rows import CAPTION_NAMES, ID_NAMES, Rows, records_to_rows
from captrial.data.captions.zip_members import unpack
from captrial.errors import CaptionFileError

_DOCUMENT_IDS = (*ID_NAMES, "img_id", "question_id")
_DUMP = "write it as JSON with `inspect log dump`"


def log_records(document: Any) -> list[Any] | None:
    """Records with `id` and `caption` of a parsed log (or of its lines); None where this is no log."""
    if isinstance(document, dict):
        samples = document.get("samples")
        if isinstance(samples, list) and isinstance(document.get("eval"), dict):
            return [_inspect_record(sample) for sample in samples]
        document = [document] if _is_lmms_sample(document) else document.get("logs")
    if isinstance(document, list) and document and all(map(_is_lmms_sample, document)):
        return [_lmms_record(sample) for sample in document]
    return None


def log_rows(
    document: Any,
    source: str,
    caption_names: Sequence[str],
    unit: str = "sample",
    number: Callable[[int], int] = lambda index: index + 1,
) -> Rows | None:
    """Rows of a parsed log; None where this is no log. A model's answers are never references."""
    records = log_records(document)
    return None if records is None else _rows(records, source, caption_names, unit, number)


def _rows(
    records: list[Any],
    source: str,
    caption_names: Sequence[str],
    unit: str = "sample",
    number: Callable[[int], int] = lambda index: index + 1,
) -> Rows:
    if tuple(caption_names) != CAPTION_NAMES:
        raise CaptionFileError(f"{source}: has answers of a model, which are no references; give what people wrote")
    return records_to_rows(records, source, CAPTION_NAMES, unit=unit, number=number)


def read_log_archive(content: bytes, source: str, caption_names: Sequence[str]) -> Rows:
    """Rows of an `.eval` archive of inspect."""
    return _rows(_archive_records(content, source), source, caption_names)


def _archive_records(content: bytes, source: str) -> list[Any]:
    """Records of the samples, one of which is unpacked at a time."""
    try:
        return [_inspect_record(orjson.loads(sample)) for _, sample in unpack(content, source, _is_sample, _DUMP)]
    except orjson.JSONDecodeError as error:
        raise CaptionFileError(f"{source}: a sample is not JSON ({error}); {_DUMP}") from None


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def _inspect_record(sample: Any) -> Any:
    if not isinstance(sample, dict):
        return sample
    output = sample.get("output")
    text = output.get("completion") if isinstance(output, dict) else None
    if text is None and isinstance(output, dict):
        text = _message_text(output.get("choices"))
    failed = text == "" and sample.get("error") is not None  # no answer is not an empty caption
    return {"id": sample.get("id"), "caption": None if failed else text}


def _message_text(choices: Any) -> str | None:
    """The text of the first choice: a string, or the texts of its parts."""
    try:
        content = choices[0]["message"]["content"]
        if isinstance(content, list):
            content = "\n".join(part["text"] for part in content if part.get("type") == "text")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    return content if isinstance(content, str) else None


def _is_lmms_sample(sample: Any) -> bool:
    return isinstance(sample, dict) and "doc_id" in sample and not sample.keys().isdisjoint(("resps", "filtered_resps"))


def _lmms_record(sample: Mapping[str, Any]) -> dict[str, Any]:
    kept = [value for value in sample.values() if isinstance(value, dict) and {"pred", "image_id"} <= value.keys()]
    if kept:
        return {"id": kept[0]["image_id"], "caption": _first_text(kept[0]["pred"])}
    doc = sample.get("doc")
    own = next((doc[name] for name in _DOCUMENT_IDS if name in doc), None) if isinstance(doc, dict) else None
    usable = isinstance(own, str | int) and not isinstance(own, bool)
    answers = sample.get("filtered_resps", sample.get("resps"))
    return {"id": own if usable else sample["doc_id"], "caption": _first_text(answers)}


def _first_text(value: Any) -> Any:
    """The first text of lists in lists: one request a document, one answer a request."""
    while isinstance(value, Sequence) and not isinstance(value, str | bytes) and value:
        value = value[0]
    return value
