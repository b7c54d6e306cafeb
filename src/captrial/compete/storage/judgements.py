"""Judgements: which of two models' captions (or answers) of one image is better. Files of them, also called battles.

JSON lines, a JSON list, CSV or TSV, one judgement a row:

    image              also image_id, question_id, question, id: rows that share it are judged together
    model_a, model_b   also a, b: the two models; model_a was shown first (or on the left)
    preferred          the better model's name; null, an empty cell or `tie` where neither is
    winner             instead of `preferred`: a name, `model_a` or `model_b` (also `a`, `b`), or `tie`
    annotator          optional: who judged
    words_a, words_b   optional: the lengths of the two captions, for `--control length`
    complete           optional: false while judgements of the image are still to come; the stop rule skips it

captrial itself writes `preferred`, which is always a name. A `winner` that could be read both as a name and as a
position, with different results, is refused.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from captrial.data.captions.rows import decode, load, looks_like_json
from captrial.errors import InputError

IMAGE_NAMES = ("image", "image_id", "question_id", "question", "id")
MODEL_NAMES = (("model_a", "model_b"), ("a", "b"))
ANNOTATOR_NAMES = ("annotator", "judge", "person")
POSITIONS = {"model_a": 1.0, "a": 1.0, "model_b": 0.0, "b": 0.0}
TIES = ("tie", "tie (bothbad)", "bothbad", "both", "neither", "draw", "")
DERIVED = "captrial annotate: derived from its database and replaced whenever that changes; do not edit"
MACHINE = "captrial judge: verdicts of a machine, not of people; do not edit"  # the first line of such a file
COLUMNS = "image, model_a, model_b and winner (or preferred)"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which of two models' captions of an image was preferred: 1 the first, 0 the second, 0.5 neither."""

    image: str
    first: str  # shown first, or on the left
    second: str
    outcome: float
    annotator: str | None = None
    words: tuple[int, int] | None = None  # of the two captions
    complete: bool = True  # whether the image has all the judgements it is to get


def read_judgements(path: Path | str, models: Sequence[str] | None = None) -> list[Judgement]:
    """Read a file of judgements; `models` are the names that may occur, by default any."""
    path = Path(path)
    return [_judgement(place, record, models) for place, record in read_records(path, "judgements")]


def read_words(path: Path | str) -> dict[tuple[str, str], int]:
    """Read a table of lengths with the columns image, model and words: (image, model) -> words."""
    found = {}
    for place, record in read_records(Path(path), "numbers of words"):
        image, model = _value(record, IMAGE_NAMES), record.get("model")
        if image is None or model in (None, ""):
            raise InputError(f"{place}: has {_listed(record)}; needed are image, model and words")
        found[str(image), str(model)] = _count(place, record, "words")
    return found


def with_words(judgements: Sequence[Judgement], words: Mapping[tuple[str, str], int]) -> list[Judgement]:
    """The judgements with the lengths of their captions; those without an entry keep what they have."""
    found = []
    for judgement in judgements:
        pair = [words.get((judgement.image, model)) for model in (judgement.first, judgement.second)]
        known = (pair[0], pair[1]) if pair[0] is not None and pair[1] is not None else judgement.words
        found.append(replace(judgement, words=known))
    return found


def verdict(judgement: Judgement) -> tuple[str, frozenset[str], str | None]:
    """A judgement whatever the order in which the two captions were shown: image, models, the better one."""
    better = {1.0: judgement.first, 0.0: judgement.second}.get(judgement.outcome)
    return judgement.image, frozenset((judgement.first, judgement.second)), better


def models_of(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """The names of all models, sorted."""
    return tuple(sorted({name for judgement in judgements for name in (judgement.first, judgement.second)}))


def read_records(path: Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of JSON lines, a JSON list, CSV or TSV, each with its place for messages; `what` the file should hold."""
    if path.is_dir():
        raise InputError(f"{path}: is a directory; name a file of {what}")
    if path.is_file() and not path.read_bytes().strip():
        return
    content = load(path)
    if looks_like_json(content):
        yield from _json_records(content, path.name)
        return
    text, bad = decode(content)
    if bad:
        raise InputError(f"{path.name}: is not UTF-8 ({bad}); save it as UTF-8")
    delimiter = "\t" if "\t" in text.split("\n", 1)[0] else ","
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [str(name).strip().lower() for name in rows.fieldnames or ()]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"{path.name}: two columns are named {twice[0]}; rename one")
        rows.fieldnames = names
        for row in rows:
            if None in row or None in row.values():
                raise InputError(f"{path.name}, line {rows.line_num}: has not {len(names)} cells, as the header has")
            yield f"{path.name}, line {rows.line_num}", row
    except csv.Error as error:
        raise InputError(f"{path.name}, line {rows.line_num}: {error}; quote cells that contain quotes") from None


def _json_records(content: bytes, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    listed = content.lstrip()[:1] == b"["
    try:
        entries = orjson.loads(content) if listed else content.split(b"\n")
    except orjson.JSONDecodeError as error:
        raise InputError(f"{name}: not JSON ({error}); repair the file") from None
    for number, entry in enumerate(entries, 1):
        place = f"{name}, {'entry' if listed else 'line'} {number}"
        if not listed:
            if not entry.strip():
                continue
            entry = read_line(entry, place)
        if number == 1 and isinstance(entry, dict) and entry.get("derived") == DERIVED:
            continue
        if number == 1 and isinstance(entry, dict) and entry.get("machine") == MACHINE:
            raise InputError(
                f"{name}: holds verdicts of a machine, not of people; they are never ranked as if they were"
            )
        if not isinstance(entry, dict):
            raise InputError(f"{place}: needs an object with {COLUMNS}")
        yield place, entry


def read_line(line: bytes | str, place: str) -> Any:
    """The value of one line of JSON; `place` names it in messages."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{place}: not JSON ({error}); repair or remove the line") from None


def _judgement(place: str, record: Mapping[str, Any], models: Sequence[str] | None) -> Judgement:
    image = _value(record, IMAGE_NAMES)
    names = next((pair for pair in MODEL_NAMES if pair[0] in record and pair[1] in record), None)
    if image is None or names is None or not ("winner" in record or "preferred" in record):
        raise InputError(f"{place}: has {_listed(record)}; needed are {COLUMNS}")
    first, second = (record[name] for name in names)
    if not isinstance(first, str) or not isinstance(second, str) or not first or not second:
        raise InputError(f"{place}: {names[0]} and {names[1]} must be names of models")
    for name in (first, second):
        if models is not None and name not in models:
            raise InputError(f"{place}: {name} is not a model of this competition; they are {', '.join(models)}")
    annotator = _value(record, ANNOTATOR_NAMES)
    return Judgement(
        str(image),
        first,
        second,
        _outcome(place, record, first, second),
        None if annotator is None else str(annotator),
        _words(place, record),
        str(record.get("complete", True)).lower() not in ("false", "0"),
    )


def _outcome(place: str, record: Mapping[str, Any], first: str, second: str) -> float:
    by_name = {first: 1.0, second: 0.0}
    if first == second:
        return 0.5
    if "preferred" in record:
        name = record["preferred"]
        if isinstance(name, str) and name in by_name:
            return by_name[name]
        if name is None or str(name).lower() in TIES:
            return 0.5
        raise InputError(f"{place}: preferred is {name!r}, but the two models are {first} and {second}")
    winner = record["winner"]
    if winner is None:
        return 0.5
    word = str(winner).lower()
    found = {by_name.get(str(winner)), POSITIONS.get(word), 0.5 if word in TIES else None} - {None}
    if len(found) > 1:
        raise InputError(
            f"{place}: winner {winner!r} is the name of a model and could also mean another; give the better model's "
            "name in a column `preferred` (delete a judgements.jsonl that an earlier captrial wrote: they are in "
            "judgements.annotated.jsonl now)"
        )
    if not found:
        raise InputError(f"{place}: winner is {winner!r}; it must be {first}, {second}, model_a, model_b or tie")
    return float(found.pop() or 0.0)


def _words(place: str, record: Mapping[str, Any]) -> tuple[int, int] | None:
    if record.get("words_a") in (None, "") or record.get("words_b") in (None, ""):
        return None
    return _count(place, record, "words_a"), _count(place, record, "words_b")


def _count(place: str, record: Mapping[str, Any], name: str) -> int:
    try:
        count = int(record[name])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{place}: {name} is {record.get(name)!r}; it must be a whole number") from None
    if count < 0:
        raise InputError(f"{place}: {name} is {count}; it cannot be negative")
    return count


def _value(record: Mapping[str, Any], names: Sequence[str]) -> object | None:
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def _listed(record: Mapping[str, Any]) -> str:
    return ", ".join(str(name)[:40] for name in list(record)[:8]) or "nothing"
