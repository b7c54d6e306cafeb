"""`captrial judge`: verdicts of LLM and VLM judges on the captions of a competition."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.output import JsonFlag, console, console_err, print_json, print_table
from captrial.errors import InputError
from captrial.progress import progress_bar

if TYPE_CHECKING:
    from captrial.judges import EndpointJudge, JudgeReport

app = typer.Typer(help="Have LLM or VLM judges compare captions.", no_args_is_help=True)


@app.command()
def run(
    directory: Annotated[Path, typer.Argument(help="The competition's directory.")],
    judge: Annotated[
        str,
        typer.Option(
            "--judge", help="http://host/v1#model, or a model's name alone (OPENAI_BASE_URL is its endpoint)."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Name of the judge and its file. \\[default: the model's]")] = None,
    rubric: Annotated[Path | None, typer.Option(help="What the judge is told; see `captrial judge rubric`.")] = None,
    text_only: Annotated[bool, typer.Option("--text-only", help="Show references instead of the image.")] = False,
    references: Annotated[
        Path | None, typer.Option(help="Captions by people, shown to the judge. \\[text-only: those in the directory]")
    ] = None,
    all_images: Annotated[bool, typer.Option("--all-images", help="The whole pool, not the selected images.")] = False,
    limit: Annotated[int | None, typer.Option(help="Judge this many images, chosen at random.")] = None,
    longest_side: Annotated[int, typer.Option(help="Images are shrunk to this many pixels.")] = 768,
    parallel: Annotated[int, typer.Option(help="Requests in flight.")] = 8,
    budget: Annotated[float | None, typer.Option(help="Stop before this judge has cost more here.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help='Prices of a million tokens: {"model": {"prompt": 2.5, "completion": 10}}.')
    ] = None,
    prompt_price: Annotated[float | None, typer.Option(help="Price of a million tokens that are sent.")] = None,
    completion_price: Annotated[float | None, typer.Option(help="Price of a million tokens of answers.")] = None,
    send_images: Annotated[
        bool, typer.Option("--send-images", help="Do not ask before images leave this machine.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Compare the captions of every pair of models in both orders; exit code 1 where questions have no verdict."""
    from captrial.compete import Competition
    from captrial.judges import RUBRICS, EndpointJudge, JudgeSettings, judge_competition, read_rubric

    asked = EndpointJudge.parse(judge)
    settings = JudgeSettings(
        name if name is not None else re.sub(r"[^A-Za-z0-9._-]+", "-", asked.model).strip("-._")[:100],
        rubric=RUBRICS["pairs"] if rubric is None else read_rubric(rubric),
        send_images=not text_only,
        references=references,
        longest_side=longest_side,
        parallel=parallel,
        all_images=all_images,
        limit=limit,
    )
    _set_prices(asked, budget, prices, (prompt_price, completion_price))
    competition = Competition.open(directory)
    if not asked.local and not send_images and not text_only:
        _allow_sending(asked.name)
    with progress_bar(hidden=json) as bar:
        task = bar.add_task("judging", total=None)
        report = judge_competition(
            competition, asked, settings, lambda done, total: bar.update(task, completed=done, total=total)
        )
    _print_report(report, directory, json)


@app.command()
def rubric() -> None:
    """Print the default rubric; save it, edit it, and give it by `captrial judge run --rubric FILE`."""
    from captrial.judges import RUBRICS

    sys.stdout.write(RUBRICS["pairs"])


def _allow_sending(host: str) -> None:
    """Images go to another machine only where the user says so."""
    if not sys.stdin.isatty():
        raise InputError(f"images would be sent to {host}; allow it with --send-images, or use --text-only")
    if not typer.confirm(f"Send the images of this competition to {host}?", err=True):
        raise InputError(f"no image was sent to {host}; use --text-only with references, or a local judge")


def _set_prices(
    judge: EndpointJudge, budget: float | None, file: Path | None, given: tuple[float | None, float | None]
) -> None:
    from captrial.judges import TokenPrice, read_prices

    price = read_prices(file).get(judge.model) if file is not None else None
    if file is not None and price is None:
        raise InputError(f"{file}: has no price of {judge.model}; add it")
    if given[0] is not None or given[1] is not None:
        price = TokenPrice(given[0] or 0.0, given[1] or 0.0)
    if budget is not None and not 0 < budget < float("inf"):
        raise InputError(f"--budget {budget}: must be above 0")
    if budget is not None and price is None:
        raise InputError("--budget needs prices: give --prices FILE, or --prompt-price and --completion-price")
    judge.spending.price, judge.spending.budget = price, budget


def _print_report(report: JudgeReport, directory: Path, json: bool) -> None:
    if json:
        print_json({**asdict(report), "missing": report.missing})
    else:
        rows = [
            ["verdicts", report.known + report.cached + report.verdicts],
            ["of them new", report.verdicts],
            ["of them from the cache", report.cached],
            ["requests", report.requests],
            ["tokens sent", report.prompt_tokens],
            ["tokens answered", report.completion_tokens],
            *([["cost of this run", round(report.cost, 4)]] if report.cost is not None else []),
            *([f"failed: {kind}", count] for kind, count in sorted(report.failures.items())),
            *([f"no verdict: {kind}", count] for kind, count in sorted(report.unanswered.items())),
            *([f"images left out: {kind}", count] for kind, count in sorted(report.skipped.items())),
        ]
        print_table(f"{report.judge}: {report.questions} questions, each pair in both orders", ["", "count"], rows)
        for note in report.notes:
            console.print(note, style="dim", soft_wrap=True, markup=False)
    if report.stopped:
        console_err.print(f"stopped: {report.stopped}", soft_wrap=True, markup=False, highlight=False)
    if report.missing:
        console_err.print(
            f"{report.missing} of {report.questions} questions have no verdict; run the command again to continue "
            f"(verdicts: {directory}/judges)",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )
        raise typer.Exit(2 if report.refused else 1)
