"""What the papers show, as data: `papers.json` holds every exhibit and the numbers that were printed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import orjson

from captrial.papers.results import Sheet


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of a paper and its counterpart here."""

    key: str  # names its files
    label: str  # "Table 1", as printed
    title: str
    kind: Literal["measured", "described"]  # diagrams are described
    how: str  # how ours is made
    stand_in: str = ""  # what stands in for what the paper had
    see: str = ""  # the page that describes it
    said: tuple[str, ...] = ()  # what the paper's text says of a figure
    printed: Sheet | None = None  # the paper's own numbers, as printed


@dataclass(frozen=True)
class Paper:
    """One of the three papers."""

    name: str  # mad, grounding or attention
    number: str
    cite: str
    question: str
    differences: tuple[str, ...]  # where we compute otherwise than it is printed
    exhibits: tuple[Exhibit, ...]

    def exhibit(self, key: str) -> Exhibit:
        """The exhibit of that key."""
        return next(exhibit for exhibit in self.exhibits if exhibit.key == key)


@cache
def papers() -> dict[str, Paper]:
    """The three papers by name.

    >>> papers()["attention"].exhibit("table-1").printed.rows[0]
    ('Ground Truth', 'Implicit', '0.3214', '0.3836')
    """
    document = orjson.loads((files("captrial.papers") / "papers.json").read_bytes())
    return {name: _paper(name, entry) for name, entry in document.items()}


def _paper(name: str, entry: dict[str, Any]) -> Paper:
    exhibits = tuple(_exhibit(part) for part in entry["exhibits"])
    return Paper(name, entry["paper"], entry["cite"], entry["question"], tuple(entry["differences"]), exhibits)


def _exhibit(entry: dict[str, Any]) -> Exhibit:
    table = entry.get("table")
    printed = Sheet.from_dict({"name": entry["key"], "title": "In the paper", **table}) if table else None
    plain = {key: value for key, value in entry.items() if key not in ("table", "said")}
    return Exhibit(**plain, said=tuple(entry.get("said", ())), printed=printed)
