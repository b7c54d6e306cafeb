"""A competition as CSV tables for spreadsheets and other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from captrial.compete.competition import Competition
from captrial.compete.ranking.result import Verdict, verdict
from captrial.compete.storage.labels import Labels
from captrial.files import atomic_write


def export_tables(competition: Competition, labels: Labels, metrics: Sequence[str], folder: Path) -> list[Path]:
    """Write selection.csv, images.csv and, for every metric and where labelled, p, f, ranking and beats."""
    files = [_selection(competition, folder), _images(competition, labels, folder)]
    jury = competition.jury(labels)
    if jury.images:
        for metric in metrics:
            files += verdict_tables(verdict(jury.evidence(metric), seed=competition.state.seed), folder)
    return files


def verdict_tables(found: Verdict, folder: Path) -> list[Path]:
    """P, F, the ranking and the probabilities to beat, each as a table."""
    names = list(found.models)
    matrices = {"p": found.dominance.p, "f": found.dominance.f, "beats": found.replicates.beats}
    files = []
    for name, matrix in matrices.items():
        rows = [[model, *(_number(value) for value in row)] for model, row in zip(names, matrix.tolist(), strict=True)]
        files.append(write_csv(folder / f"{name}_{found.metric}.csv", ["model", *names], rows))
    ranking = found.rows()
    cells = [list(row.values()) for row in ranking]
    files.append(write_csv(folder / f"ranking_{found.metric}.csv", list(ranking[0]), cells))
    return files


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    """Write a table, whole or not at all."""
    atomic_write(path, csv_table(columns, rows))
    return path


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as CSV; text that a spreadsheet would run as a formula gets an apostrophe in front.

    >>> csv_table(["id", "caption"], [[1, "=SUM(1)"], [2, "a dog"]])
    b"id,caption\\r\\n1,'=SUM(1)\\r\\n2,a dog\\r\\n"
    """
    text = io.StringIO(newline="")
    csv.writer(text).writerows([_harmless(cell) for cell in row] for row in [columns, *rows])
    return text.getvalue().encode()


def _selection(competition: Competition, folder: Path) -> Path:
    rows = [
        [*found.models, place, image, value]
        for found in competition.selections().values()
        for place, (image, value) in enumerate(zip(found.images, found.similarity, strict=True), 1)
    ]
    return write_csv(folder / "selection.csv", ["model_1", "model_2", "place", "image", "similarity"], rows)


def _images(competition: Competition, labels: Labels, folder: Path) -> Path:
    captions = competition.selected_captions()
    rows = [[image, *captions[image], " | ".join(labels.references.get(image, []))] for image in competition.images()]
    return write_csv(folder / "images.csv", ["image", *competition.models, "references"], rows)


def _number(value: float) -> float | None:
    return None if value != value else value


def _harmless(cell: object) -> object:
    risky = isinstance(cell, str) and cell[:1] in {"=", "+", "-", "@", "\t", "\r"}
    return f"'{cell}" if risky else cell
