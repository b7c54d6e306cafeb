"""Labels by people: reference captions, images that cannot be described, and preferences between two captions.

`references.jsonl` has a line an image, `{"id": ..., "captions": [...]}` or `{"id": ..., "indescribable": true}`; of
several lines about one image the last counts. `judgements.jsonl` has a line a judgement,
`{"id": ..., "a": model, "b": model, "winner": "a" | "b" | "tie"}`; the winner may also be the model's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from captrial.errors import InputError


@dataclass(frozen=True)
class Labels:
    """Reference captions by image, and the images that people could not describe."""

    references: dict[str, list[str]] = field(default_factory=dict)
    indescribable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which of two models' captions of an image a person preferred: 1 the first, 0 the second, 0.5 neither."""

    image: str
    first: str
    second: str
    outcome: float


def read_labels(path: Path) -> Labels:
    """Read `references.jsonl`; no file, no labels yet."""
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


def read_judgements(path: Path, models: Sequence[str]) -> list[Judgement]:
    """Read `judgements.jsonl`; no file, no judgements."""
    found = []
    for place, record in _records(path):
        first, second, winner = str(record.get("a")), str(record.get("b")), record.get("winner")
        if first not in models or second not in models or first == second:
            raise InputError(f"{place}: {first} and {second} are not two models of this competition")
        outcomes = {"a": 1.0, first: 1.0, "b": 0.0, second: 0.0, "tie": 0.5, None: 0.5}
        if winner not in outcomes:
            raise InputError(f'{place}: winner is {winner!r}; it must be "a", "b", "tie" or one of the two models')
        found.append(Judgement(str(record["id"]), first, second, outcomes[winner]))
    return found


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{path.name}, line {number}"
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{place}: not JSON ({error}); repair or remove the line") from None
        if not isinstance(record, dict) or not isinstance(record.get("id"), str | int):
            raise InputError(f'{place}: needs an object with an "id"')
        yield place, record
