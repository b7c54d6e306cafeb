"""Options and output that studies of data sets share: ground, attend, papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.attribution.methods.registry import dataset_methods
from captrial.cli.output import print_json, print_table, print_warning

if TYPE_CHECKING:
    from captrial.grounding.study_data import DataSource, StudyImages
    from captrial.grounding.tables import Table

GROUNDING_METHODS = "saliency,guided_backprop,integrated_gradients"  # those of Cornia 2022

DataOption = Annotated[Path, typer.Option("--data", help="Images with captions: a toy world, Karpathy JSON, COCO ...")]
ModelsOption = Annotated[
    str, typer.Option("--models", help="Run folders, shipped names, transformers folders or owner/model, with commas.")
]
ImagesOption = Annotated[
    Path | None, typer.Option("--images", help="Folder of the images, if not beside the annotations.")
]
BoxesOption = Annotated[
    Path | None,
    typer.Option(
        "--boxes",
        help='Boxes by image id: {"id": \\[\\[x1, y1, x2, y2, "class"], ...]}; of robot sequences their folder.',
    ),
]
SplitOption = Annotated[str | None, typer.Option("--split", help="Only this split of the data.")]
MasksOption = Annotated[
    bool,
    typer.Option("--masks", help="Take the masks of regions that have one (COCO, the toy world), not boxes."),
]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N images.")]
FeaturesOption = Annotated[
    Path | None, typer.Option("--features", help="A store made by `captrial features`; made in --out if absent.")
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the results; a stopped study continues there.")]
MethodsOption = Annotated[str, typer.Option("--methods", help=f"With commas between: {', '.join(dataset_methods())}.")]
OverOption = Annotated[
    str, typer.Option("--over", help="Attribute to the visual elements, or to pixels (slow: use --limit).")
]
StepsOption = Annotated[
    int | None,
    typer.Option("--steps", min=1, help="Steps of integrated gradients; by default as many as 1% needs (slower)."),
]
BeamOption = Annotated[int, typer.Option("--beam", min=1, help="Width of the beam search.")]
ThresholdOption = Annotated[
    float | None, typer.Option("--threshold", help="tau_g; by default as calibrated on the toy world.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the resampling behind the intervals.")]


def read_images(source: DataSource) -> StudyImages:
    """Read the images of a study, with a warning if some are missing."""
    found = source.read()
    warn_of_missing(found, source.path)
    return found


def warn_of_missing(found: StudyImages, path: Path) -> None:
    """Warn if not all images of a data set have a file."""
    if found.present < found.total:
        print_warning(f"{found.present} of {found.total} images of {path.name} are here")


def show_tables(tables: Sequence[Table], json: bool, more: Mapping[str, Any] | None = None) -> None:
    """Tables as JSON, with `more` beside them, or for people: a wide one is printed by its groups of columns."""
    if json:
        print_json({**{table.name: table.to_dict() for table in tables}, **(more or {})})
        return
    for table in tables:
        for part in table.parts():
            print_table(part.title, part.columns, part.shown(), part.notes)
