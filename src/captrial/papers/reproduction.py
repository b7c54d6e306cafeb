"""Run the experiments of a paper one after the other; finished ones are kept and reused."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from captrial.errors import InputError, MissingExtraError, damage_named
from captrial.files import atomic_write, content_hash, write_csv
from captrial.grounding.tables import Table
from captrial.papers.experiments import Experiment, ExperimentOutput, ExperimentResult, FigureFile, Paper, TextTable
from captrial.version import __version__

SETTINGS = "settings.json"
REMAKE = "the same command after removing it"
ExperimentFunction = Callable[[], ExperimentOutput]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Reproduction:
    """The results of a paper's experiments, in the paper's order."""

    paper: Paper
    folder: Path
    settings: Mapping[str, Any]
    results: Mapping[str, ExperimentResult]  # of the measured experiments, by key
    command: str = ""  # that made it

    @classmethod
    def read(cls, paper: Paper, folder: Path) -> Reproduction:
        """Read the results in a folder."""
        path = folder / SETTINGS
        if not path.is_file():
            raise InputError(f"{folder}: no reproduction; make one with `captrial papers {paper.name} --out {folder}`")
        with damage_named(path, REMAKE):
            document = orjson.loads(path.read_bytes())
            settings, command = dict(document["settings"]), str(document["command"])
        results = {}
        for experiment in paper.experiments:
            kept = folder / "experiments" / f"{experiment.key}.json"
            if experiment.kind == "measured" and kept.is_file():
                results[experiment.key] = _result(kept)[1]
        return cls(paper, folder, settings, results, command)

    @property
    def reused(self) -> list[str]:
        """Labels of the experiments that were reused."""
        return [self.paper.experiment(key).label for key, result in self.results.items() if result.reused]

    @property
    def seconds(self) -> float:
        """Processor time of all experiments, including reused ones."""
        return sum(result.seconds for result in self.results.values())


def reproduce(
    paper: Paper,
    functions: Mapping[str, ExperimentFunction],
    folder: Path,
    settings: Mapping[str, Any],
    say: Say = lambda _: None,
    command: str = "",
) -> Reproduction:
    """Run every measured experiment, or read its result where it was run with the same settings before.

    `settings` are everything that the numbers depend on: data, models by content, options. `say` receives progress
    messages.
    """
    settings = {**settings, "version": __version__}
    mark = content_hash(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS))
    results = {}
    for experiment in paper.experiments:
        if experiment.kind == "measured":
            kept = folder / "experiments" / f"{experiment.key}.json"
            results[experiment.key] = _read(kept, mark) or _make(
                experiment, functions[experiment.key], folder, kept, mark, say
            )
    document = {"command": command, "settings": settings}
    atomic_write(folder / SETTINGS, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return Reproduction(paper, folder, settings, results, command)


def _make(
    experiment: Experiment, function: ExperimentFunction, folder: Path, kept: Path, mark: str, say: Say
) -> ExperimentResult:
    say(f"{experiment.label}: {experiment.title}")
    start = time.process_time()
    try:
        made = function()
    except MissingExtraError as error:
        made = ExperimentOutput(missing=str(error))
    result = _keep(experiment.key, made, folder)
    result = replace(result, seconds=round(time.process_time() - start, 2))
    if not made.missing:  # tried again next time
        document = {"made with": mark, "result": result.to_dict(), "values": [t.to_dict() for t in made.tables]}
        atomic_write(kept, orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
    return result


def _keep(key: str, made: ExperimentOutput, folder: Path) -> ExperimentResult:
    """Write tables (CSV, Markdown) and figures below the folder."""
    tables = []
    for number, table in enumerate(made.tables):
        name = f"{key}{f'-{number + 1}' * (len(made.tables) > 1)}"
        tables.append(_write(replace(table, name=name), folder / "tables"))
    drawn = []
    for chart in made.charts:
        chart = replace(chart, name=f"{key}-{chart.name}")
        drawn.append(FigureFile(f"figures/{chart.write(folder / 'figures').name}", chart.title))
        write_csv(folder / "figures" / f"{chart.name}.csv", chart.columns, chart.rows)
    drawn += [FigureFile(str(path.relative_to(folder)), title) for path, title in made.images]
    return ExperimentResult(key, tuple(tables), tuple(drawn), tuple(made.claims), tuple(made.notes), made.missing)


def _write(table: Table, folder: Path) -> TextTable:
    sheet = TextTable.of(table)
    atomic_write(folder / f"{table.name}.csv", table.to_csv())
    atomic_write(folder / f"{table.name}.md", sheet.markdown())
    return sheet


def _read(path: Path, mark: str) -> ExperimentResult | None:
    """The result in a file, where it was made with the same settings and its figures are still there."""
    if not path.is_file():
        return None
    made_with, result = _result(path)
    if made_with != mark:
        return None
    folder = path.parent.parent
    return result if all((folder / figure.file).is_file() for figure in result.figures) else None


def _result(path: Path) -> tuple[str, ExperimentResult]:
    """What the result in a file was made with, and the result."""
    with damage_named(path, REMAKE):
        document = orjson.loads(path.read_bytes())
        return str(document["made with"]), ExperimentResult.from_dict(document["result"])
