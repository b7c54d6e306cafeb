"""A competition as CSV tables, for spreadsheets and other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from captrial.compete import Competition, Labels, RankingResult, rank_models
from captrial.files import write_csv
from captrial.folders import output_folder


def export_tables(
    competition: Competition, labels: Labels, metrics: Sequence[str], folder: Path, *, overwrite: bool = False
) -> list[Path]:
    """`write_tables` into a folder of their own; one of something else is used only with `overwrite`."""
    with output_folder(folder, overwrite=overwrite) as staging:
        files = write_tables(competition, labels, metrics, staging)
        return [folder / file.relative_to(staging) for file in files]


def write_tables(competition: Competition, labels: Labels, metrics: Sequence[str], folder: Path) -> list[Path]:
    """Write selection.csv, images.csv and, for every metric and where labelled, p, f, ranking and beats."""
    files = [_selection(competition, folder), _images(competition, labels, folder)]
    scorer = competition.scorer(labels)
    if scorer.images:
        for metric in metrics:
            scores = scorer.score(metric, frequencies=scorer.frequencies)
            files += ranking_tables(rank_models(scores, seed=competition.manifest.seed), folder)
    return files


def ranking_tables(found: RankingResult, folder: Path) -> list[Path]:
    """P, F, the ranking and the probabilities to beat, each as a table."""
    names = list(found.models)
    matrices = {"p": found.dominance.p, "f": found.dominance.f, "beats": found.uncertainty.beats}
    files = []
    for name, matrix in matrices.items():
        rows = [[model, *(_number(value) for value in row)] for model, row in zip(names, matrix.tolist(), strict=True)]
        files.append(write_csv(folder / f"{name}_{found.metric}.csv", ["model", *names], rows))
    ranking = found.rows()
    cells = [list(row.values()) for row in ranking]
    files.append(write_csv(folder / f"ranking_{found.metric}.csv", list(ranking[0]), cells))
    return files


def _selection(competition: Competition, folder: Path) -> Path:
    rows = [
        [*found.models, place, image, value]
        for found in competition.selections().values()
        for place, (image, value) in enumerate(zip(found.images, found.similarity, strict=True), 1)
    ]
    return write_csv(folder / "selection.csv", ["model_1", "model_2", "place", "image", "similarity"], rows)


def _images(competition: Competition, labels: Labels, folder: Path) -> Path:
    captions = competition.selected_captions()
    rows = [
        [image, *captions[image], " | ".join(labels.references.get(image, []))]
        for image in competition.selected_images()
    ]
    return write_csv(folder / "images.csv", ["image", *competition.models, "references"], rows)


def _number(value: float) -> float | None:
    return None if value != value else value
