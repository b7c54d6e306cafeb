"""`captrial trial`: a whole trial of captioners from one file."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.judge import print_judge_ranking
from captrial.cli.output import JsonFlag, console, console_err, print_json, print_next_step
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.judges import TrialResult

app = typer.Typer(help="A whole trial from one file: captions, judges, people, ranking.", no_args_is_help=True)
TrialPath = Annotated[Path, typer.Argument(metavar="FILE.yaml", help="The trial file.", show_default=False)]


@app.command()
def init(file: TrialPath = Path("trial.yaml")) -> None:
    """Write a commented trial file to edit."""
    from captrial.files import atomic_write
    from captrial.judges.trial_file import TEMPLATE

    if file.exists():
        raise InputError(f"{file}: exists already; name another file")
    atomic_write(file, TEMPLATE.encode())
    print_next_step(f"captrial trial run {file}", f"edit {file}, then")


@app.command()
def run(
    file: TrialPath,
    send_images: Annotated[
        bool, typer.Option("--send-images", help="Images may be sent to endpoints on other machines.")
    ] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Open the annotation pages where votes are missing.")] = False,
    port: Annotated[int, typer.Option(help="Port of the annotation pages.")] = 8765,
    json: JsonFlag = False,
) -> None:
    """Do what is left to do; exit code 0: complete, 3: votes or verdicts are missing."""
    from captrial.judges import read_trial, run_trial
    from captrial.report import write_trial_report

    trial = read_trial(file)
    trial = replace(trial, send_images=trial.send_images or send_images)
    result = run_trial(trial, _tell)
    if serve and result.votes < result.wanted:
        _serve(result.directory, port)
        result = run_trial(trial, _tell)
    _tell("report")
    page = write_trial_report(result.to_json(), result.directory / "report", trial.out.name)
    if json:
        print_json({**result.to_json(), "requests": result.requests, "page": str(page)})
    else:
        _print_result(result, page)
    if not result.complete:
        raise typer.Exit(3)


def _tell(step: str) -> None:
    console_err.print(f"trial: {step}", style="dim", markup=False, highlight=False)


def _serve(directory: Path, port: int) -> None:
    """Two captions side by side, one person for each item; Ctrl+C ends it."""
    from captrial.annotate.service import AnnotationService
    from captrial.annotate.settings import parse_changes
    from captrial.cli.annotate import serve

    with closing(AnnotationService(directory)) as service:
        service.change_settings(parse_changes(["writers=0", "judges=1"]))
    serve(directory, port=port)


def _print_result(result: TrialResult, page: Path) -> None:
    for ranked in result.rankings.values():
        print_judge_ranking(ranked, ranked.notes)
        if ranked.plan is not None:
            console.print(ranked.plan.summary(), soft_wrap=True, markup=False)
    for note in result.notes:
        console.print(note, style="dim", soft_wrap=True, markup=False)
    console.print(f"results: {result.directory}/trial.json, {page}", soft_wrap=True, markup=False, highlight=False)
    if result.votes < result.wanted:
        print_next_step(
            f"captrial annotate settings {result.directory} writers=0 judges=1 && captrial annotate serve "
            f"{result.directory}",
            f"{result.votes} of {result.wanted} votes of people are there; then run the trial again",
        )
