"""The tables of docs/ground.md and docs/attend.md from the results that `studies.grounding_photographs` wrote.

python -m studies.grounding_tables
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from captrial.attribution.methods.registry import METHODS
from studies.grounding_photographs import GROUNDED, RESULTS, Study, studies

VERDICTS = ("grounded", "grounded early", "not checkable", "hallucinated")  # of results made before the last was split


def results() -> Iterator[tuple[Study, dict[str, Any]]]:
    """What there is, in the order of the plan."""
    found = [(study, study.path) for study in studies(GROUNDED)]
    yield from ((study, orjson.loads(path.read_bytes())) for study, path in found if path.exists())


def grounding(data: str, over: str) -> str:
    """Cornia 2022's Tables 2-4 turned: a row a method and model, all nouns and checkable ones, delta 0 to infinity."""
    rows = [result for study, result in results() if (study.data, study.over) == (data, over)]
    if not rows:
        return ""
    deltas = list(rows[0]["scores"]["all"])
    head = ["method", "captioner", *(f"δ = {delta}" for delta in deltas), "checkable: δ = 0", "δ = ∞", *VERDICTS]
    lines = [f"### {data}, {over}, {rows[0]['images']} images", "", line(head), line(["---"] * len(head))]
    for row in rows:
        scores = [shown(row["scores"]["all"][delta]) for delta in deltas]
        scores += [shown(row["scores"]["checkable"][delta]) for delta in (deltas[0], deltas[-1])]
        counts = [str(row["verdicts"].get(verdict, 0)) for verdict in VERDICTS]
        lines.append(line([METHODS[row["method"]].title, row["model"], *scores, *counts]))
    return "\n".join([*lines, "", f"{rows[0]['words compared by']}."])


def catching() -> str:
    """How often *hallucinated* is true where boxes are complete."""
    head = ["method", "captioner", "nouns", "not there", "flagged", "precision", "F1", "chance", "s an image"]
    lines = ["### coco, hallucinated by verdict and not there by its boxes", "", line(head), line(["---"] * len(head))]
    for study, row in results():
        if "caught" in row:
            found = row["caught"]
            counts = [str(found[key]) for key in ("nouns", "wrong", "flagged")]
            rates = [f"{found[key]:.3f}" for key in ("precision", "f1", "chance")]
            method = METHODS[study.method].title + ", pixels" * (study.over == "pixels")
            lines.append(line([method, study.model, *counts, *rates, str(row["processor seconds an image"])]))
    return "\n".join(lines)


def attending() -> str:
    """The tables of `captrial attend`."""
    path, parts = RESULTS / "attend.json", []
    for table in orjson.loads(path.read_bytes()).values() if path.exists() else ():
        heads = list(table["rows"][0])
        parts.append(f"### {table['title']}\n\n{line(heads)}\n{line(['---'] * len(heads))}")
        parts[-1] += "".join(f"\n{line([shown(row[head], 1, 3) for head in heads])}" for row in table["rows"])
        parts[-1] += "".join(f"\n\n{note}" for note in table["notes"])
    return "\n\n".join(parts)


def shown(value: Any, factor: float = 100, decimals: int = 1) -> str:
    """A mean with half of its interval, or anything else."""
    if isinstance(value, dict):
        if value["value"] is None:
            return "–"
        half = (value["high"] - value["low"]) / 2
        return f"{factor * value['value']:.{decimals}f} ±{factor * half:.{decimals}f}"
    return f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)


def line(cells: list[str]) -> str:
    """A row of Markdown."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    tables = [grounding(data, over) for data in ("coco", "flickr8k") for over in ("elements", "pixels")]
    print("\n\n".join(table for table in [*tables, catching(), attending()] if table))
