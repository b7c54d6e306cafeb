"""`captrial judge`: verdicts of LLM and VLM judges on the captions of a competition."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from captrial.cli.compete_preferences import PreferenceFile
from captrial.cli.output import JsonFlag, console, console_err, interval_text, print_json, print_table, ranking_cells
from captrial.errors import InputError
from captrial.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from captrial.judges import EndpointJudge, JudgeRecord, JudgeReport, JudgeResult
    from captrial.judges.judge_comparison import ShareEstimate

app = typer.Typer(help="LLM or VLM judges compare captions; people correct them.", no_args_is_help=True)


@app.command()
def run(
    directory: Annotated[Path, typer.Argument(help="The competition's directory.")],
    judge: Annotated[
        str,
        typer.Option(
            "--judge", help="http://host/v1#model, or a model's name alone (OPENAI_BASE_URL is its endpoint)."
        ),
    ],
    mode: Annotated[
        Literal["pairs", "grade"], typer.Option(help="Compare two captions, or grade one at a time from 0 to 10.")
    ] = "pairs",
    name: Annotated[str | None, typer.Option(help="Name of the judge and its file. \\[default: the model's]")] = None,
    rubric: Annotated[Path | None, typer.Option(help="What the judge is told; see `captrial judge rubric`.")] = None,
    text_only: Annotated[bool, typer.Option("--text-only", help="Show references instead of the image.")] = False,
    references: Annotated[
        Path | None, typer.Option(help="Reference captions, shown to the judge. \\[text-only: those in the directory]")
    ] = None,
    all_images: Annotated[bool, typer.Option("--all-images", help="The whole pool, not the selected images.")] = False,
    limit: Annotated[int | None, typer.Option(help="Judge this many images, chosen at random.")] = None,
    longest_side: Annotated[int, typer.Option(help="Images are shrunk to this many pixels.")] = 768,
    max_tokens: Annotated[
        int, typer.Option(help="Tokens of an answer at most; models that reason first need thousands.")
    ] = 300,
    concurrency: Annotated[int, typer.Option(help="Requests in flight.")] = 8,
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
    """Compare captions of every pair of models in both orders, or grade them; exit code 1 if some got no verdict."""
    from captrial.compete import Competition
    from captrial.judges import EndpointJudge, JudgeSettings, judge_competition, read_rubric

    asked = EndpointJudge.parse(judge)
    settings = JudgeSettings(
        name if name is not None else re.sub(r"[^A-Za-z0-9._-]+", "-", asked.model).strip("-._")[:100],
        rubric="" if rubric is None else read_rubric(rubric),
        send_images=not text_only,
        references=references,
        longest_side=longest_side,
        concurrency=concurrency,
        all_images=all_images,
        limit=limit,
        mode=mode,
        max_tokens=max_tokens,
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
def rank(
    directory: Annotated[Path, typer.Argument(help="The competition's directory.")],
    judge: Annotated[str | None, typer.Option("--judge", help="Name of the judge. \\[default: the only one]")] = None,
    preferences: PreferenceFile = None,
    judge_only: Annotated[
        bool, typer.Option("--judge-only", help="Show the judge's own ranking where nobody has voted.")
    ] = False,
    risk: Annotated[
        float, typer.Option("--risk", help="Risk of the intervals (0.05: 95% intervals) and of the stop rule.")
    ] = 0.05,
    json: JsonFlag = False,
) -> None:
    """Rank models by a judge's verdicts, corrected by the votes of people on a random part of the same items."""
    from captrial.compete import Competition
    from captrial.judges import items_for_people, rank_by_judge, read_judge, the_judge

    if not 0 < risk < 0.5:
        raise InputError(f"--risk {risk}: must be above 0 and below 0.5")
    competition = Competition.open(directory)
    name = the_judge(directory, judge)
    verdicts = [one.judgement() for one in read_judge(directory, name)[1]]
    people = competition.judgements(preferences)
    selected = preferences is None and competition.selected_pairs()
    for_people = items_for_people(competition) if selected else None
    _print_ranking(rank_by_judge(people, verdicts, name, risk, judge_only, for_people), json)


@app.command()
def compare(
    directory: Annotated[Path, typer.Argument(help="The competition's directory.")],
    preferences: PreferenceFile = None,
    references: Annotated[
        Path | None, typer.Option(help="Reference captions. \\[default: those in the directory]")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", "-m", help="Names with commas; by default all that can be computed.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Compare every judge and every metric with the votes of people; needs about 50 votes."""
    from captrial.compete import Competition
    from captrial.judges import compare_judges, competition_captions, metric_scores, read_judges

    competition = Competition.open(directory)
    people = competition.judgements(preferences)
    judges = read_judges(directory)
    images = {one.image for one in people} | {one.image for _, verdicts in judges.values() for one in verdicts}
    captions = competition_captions(competition, sorted(images))
    names = None if metrics is None else metrics.split(",")
    scores = metric_scores(captions, competition.labels(references).references, names)
    _print_comparison(compare_judges(people, judges, scores, captions), json)


@app.command()
def rubric(
    mode: Annotated[
        Literal["pairs", "grade"], typer.Option(help="For comparing two captions, or grading one.")
    ] = "pairs",
) -> None:
    """Print the default rubric; save it, edit it, and give it by `captrial judge run --rubric FILE`."""
    from captrial.judges import RUBRICS

    sys.stdout.write(RUBRICS[mode])


def _print_ranking(result: JudgeResult, json: bool) -> None:
    if json:
        print_json(result.to_json())
        return
    if result.ranking is not None:
        print_judge_ranking(result)
    pairs = [
        [
            *(*rate.models, rate.votes, rate.items),
            "JUDGE ONLY" if rate.mean is None else f"{rate.mean.corrected.mean:.3f}",
            None if rate.mean is None else interval_text(rate.mean.corrected.low, rate.mean.corrected.high),
            None if rate.mean is None else f"{rate.mean.people.mean:.3f}",
            f"{rate.judge:.3f}",
        ]
        for rate in result.rates
    ]
    columns = ["ahead", "behind", "votes", "items", "corrected", "interval", "people alone", "judge alone"]
    print_table("win rates, ties half", columns, pairs, result.notes)
    if result.plan is not None:
        console.print(result.plan.summary(), soft_wrap=True, markup=False)


def print_judge_ranking(result: JudgeResult, notes: Sequence[str] = ()) -> None:
    """The table of the models by a judge's verdicts, corrected by votes of people."""
    rows = [ranking_cells(row) for row in (result.ranking.rows() if result.ranking is not None else [])]
    title = f"{result.judge}, votes on {result.votes} of {result.items} judged items"
    print_table(
        f"JUDGE ONLY: {title}" if result.judge_only else title,
        ["rank", "model", "score", "interval", "ranks"],
        rows,
        notes,
    )


def _print_comparison(records: Sequence[JudgeRecord], json: bool) -> None:
    from captrial.judges.judge_comparison import ENOUGH_VOTES, TOO_FEW

    if json:
        print_json({"enough_votes": ENOUGH_VOTES, "judges": [record.to_json() for record in records]})
        return
    rows = [
        [
            *(one.name, one.kind, one.agreement.items, _estimate(one.agreement)),
            (_estimate(one.behind, "+") or "best so far") if one.enough else TOO_FEW,
            *(_estimate(part, "+") for part in (one.position_bias, one.length_bias, one.self_preference)),
            one.cost,
            None if one.votes_saved is None or not one.enough else round(one.votes_saved),
        ]
        for one in records
    ]
    columns = ["", "kind", "votes", "agreement", "less the best", "position", "length", "own family", "cost of 1 000"]
    notes = [
        "agreement: with the winner that people named, ties of the judge half; a coin has 0.5",
        "position: verdicts for the first caption less a half; length and own family: preference less that of people",
        f"fewer than {ENOUGH_VOTES} votes with a winner are {TOO_FEW}; intervals of 95%",
    ]
    print_table("judges and metrics beside people", [*columns, "votes saved"], rows, notes)


def _estimate(value: ShareEstimate | None, sign: str = "") -> str | None:
    if value is None or value.value != value.value:
        return None
    bounds = "" if value.low != value.low else f" ({value.low:{sign}.2f} to {value.high:{sign}.2f})"
    return f"{value.value:{sign}.2f}{bounds}"


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
        print_table(f"{report.judge}: {report.questions} questions", ["", "count"], rows)
        for note in report.notes:
            console.print(note, style="dim", soft_wrap=True, markup=False)
    if report.stopped:
        console_err.print(f"stopped: {report.stopped}", soft_wrap=True, markup=False, highlight=False)
    if not report.questions:
        console_err.print("nothing could be asked: see the images left out; give --references, or check the images")
        raise typer.Exit(1)
    if report.missing:
        console_err.print(
            f"{report.missing} of {report.questions} questions have no verdict; run the command again to continue "
            f"(verdicts: {directory}/judges)",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )
        raise typer.Exit(2 if report.refused else 1)
