"""Make the exhibits of a paper one after the other; what is finished is kept and used again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from captrial.errors import InputError, MissingExtraError
from captrial.files import atomic_write, content_hash, write_csv
from captrial.grounding.tables import Table
from captrial.papers.exhibits import Exhibit, Paper
from captrial.papers.results import (
    Drawn,
    Made,
    Result,
    Sheet,
)
from captrial.version import __version__

SETTINGS = "settings.json"
Maker = Callable[[], Made]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Reproduction:
    """A paper's exhibits as made here, in the paper's order."""

    paper: Paper
    folder: Path
    settings: Mapping[str, Any]
    results: Mapping[str, Result]  # of the measured exhibits, by key
    command: str = ""  # that made it

    @classmethod
    def read(cls, paper: Paper, folder: Path) -> Reproduction:
        """What a folder holds, as it was made."""
        path = folder / SETTINGS
        if not path.is_file():
            raise InputError(
                f"{folder}: no reproduction; make one with `captrial reproduce {paper.name} --out {folder}`"
            )
        document = orjson.loads(path.read_bytes())
        results = {}
        for exhibit in paper.exhibits:
            kept = folder / "exhibits" / f"{exhibit.key}.json"
            if exhibit.kind == "measured" and kept.is_file():
                results[exhibit.key] = Result.from_dict(orjson.loads(kept.read_bytes())["result"])
        return cls(paper, folder, document["settings"], results, document["command"])

    @property
    def reused(self) -> list[str]:
        """Labels of the exhibits that were there already."""
        return [self.paper.exhibit(key).label for key, result in self.results.items() if result.reused]

    @property
    def seconds(self) -> float:
        """Processor time that making all of it took, also earlier."""
        return sum(result.seconds for result in self.results.values())


def reproduce(
    paper: Paper,
    makers: Mapping[str, Maker],
    folder: Path,
    settings: Mapping[str, Any],
    say: Say = lambda _: None,
    command: str = "",
) -> Reproduction:
    """Make every measured exhibit, or read it where it was made with the same settings before.

    `settings` are everything that decides the numbers: data, models by content, options.
    """
    settings = {**settings, "version": __version__}
    mark = content_hash(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS))
    results = {}
    for exhibit in paper.exhibits:
        if exhibit.kind == "measured":
            kept = folder / "exhibits" / f"{exhibit.key}.json"
            results[exhibit.key] = _read(kept, mark) or _make(exhibit, makers[exhibit.key], folder, kept, mark, say)
    document = {"command": command, "settings": settings}
    atomic_write(folder / SETTINGS, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return Reproduction(paper, folder, settings, results, command)


def _make(exhibit: Exhibit, maker: Maker, folder: Path, kept: Path, mark: str, say: Say) -> Result:
    say(f"{exhibit.label}: {exhibit.title}")
    start = time.process_time()
    try:
        made = maker()
    except MissingExtraError as error:
        made = Made(missing=str(error))
    result = _keep(exhibit.key, made, folder)
    result = replace(result, seconds=round(time.process_time() - start, 2))
    if not made.missing:  # what could not be made is tried again next time
        document = {"made with": mark, "result": result.to_dict(), "values": [t.to_dict() for t in made.tables]}
        atomic_write(kept, orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
    return result


def _keep(key: str, made: Made, folder: Path) -> Result:
    """Write tables (CSV, Markdown) and figures below the folder."""
    sheets = []
    for number, table in enumerate(made.tables):
        name = f"{key}{f'-{number + 1}' * (len(made.tables) > 1)}"
        sheets.append(_write(replace(table, name=name), folder / "tables"))
    drawn = []
    for chart in made.charts:
        chart = replace(chart, name=f"{key}-{chart.name}")
        drawn.append(Drawn(f"figures/{chart.write(folder / 'figures').name}", chart.title))
        write_csv(folder / "figures" / f"{chart.name}.csv", chart.columns, chart.rows)
    drawn += [Drawn(str(path.relative_to(folder)), title) for path, title in made.images]
    return Result(key, tuple(sheets), tuple(drawn), tuple(made.claims), tuple(made.notes), made.missing)


def _write(table: Table, folder: Path) -> Sheet:
    sheet = Sheet.of(table)
    atomic_write(folder / f"{table.name}.csv", table.to_csv())
    atomic_write(folder / f"{table.name}.md", sheet.markdown())
    return sheet


def _read(path: Path, mark: str) -> Result | None:
    """The result in a file, where it was made with the same settings and its figures are still there."""
    if not path.is_file():
        return None
    document = orjson.loads(path.read_bytes())
    if document["made with"] != mark:
        return None
    result = Result.from_dict(document["result"])
    folder = path.parent.parent
    return result if all((folder / figure.file).is_file() for figure in result.figures) else None
