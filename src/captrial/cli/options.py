"""Options and messages that several commands share: studies of data sets, competitions, engines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from captrial.attribution.methods.registry import dataset_methods
from captrial.cli.output import console, console_err, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.compete import Competition
    from captrial.engines.engine import Engine
    from captrial.grounding.study_data import DataSource, StudyImages
    from captrial.grounding.tables import Table

GROUNDING_METHODS = "saliency,guided_backprop,integrated_gradients"  # those of Cornia 2022

DataOption = Annotated[Path, typer.Option("--data", help="Images with captions: a toy world, Karpathy JSON, COCO ...")]
ModelsOption = Annotated[str, typer.Option("--models", help="Run folders or shipped names, with commas between.")]
ImagesOption = Annotated[
    Path | None, typer.Option("--images", help="Folder of the images, if not beside the annotations.")
]
BoxesOption = Annotated[
    Path | None, typer.Option("--boxes", help='Boxes by image id: {"id": \\[\\[x1, y1, x2, y2, "class"], ...]}.')
]
SplitOption = Annotated[str | None, typer.Option("--split", help="Only this split of the data.")]
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
SimilarityOption = Annotated[
    str, typer.Option("--similarity", help="How nouns compare: table+vectors, or the papers' vectors alone.")
]
VectorsOption = Annotated[Path | None, typer.Option("--vectors", help="A GloVe or word2vec file for --similarity.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the resampling behind the intervals.")]


def read_images(source: DataSource) -> StudyImages:
    """Read the images of a study, with a warning if some are missing."""
    found = source.read()
    warn_of_missing(found, source.path)
    return found


def warn_of_missing(found: StudyImages, path: Path) -> None:
    """Warn if not all images of a data set have a file."""
    if found.present < found.total:
        there = f"{found.present} of {found.total} images of {path.name} are here"
        console_err.print(f"captrial: {there}", style="yellow")


def show_tables(tables: Sequence[Table], json: bool) -> None:
    """Tables as JSON, or for people: one with groups of columns is printed group by group, as it would be too wide."""
    if json:
        print_json({table.name: table.to_dict() for table in tables})
        return
    for table in tables:
        for part in table.parts():
            print_table(part.title, part.columns, part.shown(), part.notes)


# Options and messages of the commands of `captrial compete`


Directory = Annotated[Path, typer.Argument(help="The competition's directory.", show_default=False)]
CaptionFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--captions", metavar="NAME=FILE", help="A model's name and its captions; once a model.", show_default=False
    ),
]
Captioners = Annotated[
    list[str] | None,
    typer.Option(
        "--captioner",
        metavar="NAME=RUN",
        help="A captioner to run over the images first: run folder, transformers checkpoint or owner/model, or "
        "http://host/v1#model; options behind a ?, e.g. owner/model?beam=3.",
        show_default=False,
    ),
]
IgnoreChanges = Annotated[
    bool, typer.Option("--ignore-changes", help="Continue although a caption file has changed since it was read.")
]
References = Annotated[
    Path | None,
    typer.Option(help="Reference captions: a file or a data set. \\[default: the labels in the directory]"),
]
Split = Annotated[str | None, typer.Option(help="Use one split of the reference file.")]
MetricName = Annotated[str, typer.Option("--metric", help="cider, spice, bleu_4, rouge_l, ...")]
Metrics = Annotated[
    list[str] | None, typer.Option("--metric", help="May be repeated. \\[default: cider and, once labelled, spice]")
]
ExternalScoresFile = Annotated[
    Path | None,
    typer.Option(
        help="External scores to compare with: the output of `captrial score --json`, or {model: score}.",
    ),
]


def caption_files(
    directory: Path, captioners: list[str] | None, captions: list[str] | None, images: Path | None
) -> dict[str, Path]:
    """The caption file of every model: those of `captions`, and those that `captioners` write."""
    files = _named_files(captions)
    if not captioners:
        return files
    sources = _named_sources(captioners)
    twice = sorted(sources.keys() & files.keys())
    if twice:
        raise InputError(f"a captioner and a caption file are both named {twice[0]}; give each model a name of its own")
    if images is None:
        raise InputError("--captioner needs --images, the folder of the images to caption")
    from captrial.compete.storage.captioner_runs import run_captioners

    return {**run_captioners(directory, sources, images), **files}


def open_competition(directory: Path, ignore_changes: bool) -> Competition:
    """Open the directory; a caption file that has changed is an error unless that is to be ignored."""
    from captrial.compete.competition import Competition

    return Competition.open(directory, check_sources=not ignore_changes)


def print_next_step(command: str, purpose: str) -> None:
    """Print the command to run next."""
    console.print(f"[dim]next:[/] {escape(purpose)}\n  [bold]{escape(command)}[/]", highlight=False, soft_wrap=True)


def print_warning(message: str) -> None:
    """Print a warning on stderr."""
    console_err.print(f"[bold yellow]note:[/] {escape(message)}", highlight=False, soft_wrap=True)


def _named_files(options: list[str] | None) -> dict[str, Path]:
    """NAME=FILE options as a mapping; a file alone is named by its stem."""
    files: dict[str, Path] = {}
    for option in options or []:
        name, equals, file = option.partition("=")
        path = Path(file if equals else option)
        name = name if equals else path.stem
        if name in files:
            raise InputError(f"two caption files are named {name}; give each model a name of its own")
        files[name] = path
    return files


def _named_sources(options: list[str]) -> dict[str, str]:
    sources: dict[str, str] = {}
    for option in options:
        name, equals, source = option.partition("=")
        if not equals or not name or not source or name in sources:
            raise InputError(f"--captioner {option}: give each captioner a name of its own, NAME=RUN")
        if "/" in name or name.startswith("."):
            raise InputError(f"--captioner {option}: the name becomes a file's; give it no / and no . in front")
        sources[name] = source
    return sources


# Options of the commands that run on an engine


EngineName = Annotated[str, typer.Option("--engine", help="local (processes here) or ray; see docs/scale.md.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Workers. \\[default: 1 local, 2 on Ray]")]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", help="A Ray cluster, host:port or auto; by default one is started here.")
]


def wants_engine(engine: str, workers: int | None) -> bool:
    """Whether the options ask for more than this process."""
    return engine != "local" or (workers or 1) > 1


def chosen_engine(engine: str, workers: int | None, ray_address: str | None) -> Engine:
    """The engine that the options name."""
    from captrial.engines import make_engine

    return make_engine(engine, workers or (1 if engine == "local" else 2), ray_address)
