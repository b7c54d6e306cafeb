"""Options that the commands of `captrial compete` share; those about preferences are in `compete_preferences`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.compete import Competition
    from captrial.compete.ranking.pair_scores import PairScorer

Directory = Annotated[Path, typer.Argument(help="The competition's directory.", show_default=False)]
CaptionFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--captions", metavar="NAME=FILE", help="A model's name and its captions; once per model.", show_default=False
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
MetricName = Annotated[
    str | None,
    typer.Option(
        "--metric",
        help="cider, semantic, spice, bleu_4, ..., or preferences: people's judgements alone. \\[default: cider, but "
        "semantic where captions are of very different lengths]",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics", "-m", help="Names with commas. \\[default: that of rank; in reports also cider and spice]"
    ),
]
ExternalScoresFile = Annotated[
    Path | None,
    typer.Option(
        "--external-scores",
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


def labelled_scorer(
    competition: Competition, references: Path | None, split: str | None, metric: str | None
) -> tuple[PairScorer, str]:
    """What scores the labels that the options name, and by which metric: the labels decide where none is named."""
    labels = competition.labels(references, split)
    return competition.labelled_scorer(labels), metric or competition.default_metric(labels)


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
