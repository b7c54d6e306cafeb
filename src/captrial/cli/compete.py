"""`captrial compete`: create a competition, select images, add models, show the status; and its other commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli import compete_analysis, compete_results
from captrial.cli.compete_options import (
    Captioners,
    CaptionFiles,
    Directory,
    IgnoreChanges,
    caption_files,
    open_competition,
)
from captrial.cli.engine_options import EngineOptions, RayAddress
from captrial.cli.output import (
    CaptionColumn,
    IdTable,
    JsonFlag,
    caption_layout,
    console,
    print_json,
    print_next_step,
    print_table,
    print_warning,
)
from captrial.compete.selection.design import DEFAULT_DESIGN, DISCREPANCY_SHARE, design_help, design_named
from captrial.compete.selection.registry import refuse_stored_function, similarity_help
from captrial.compete.storage.manifest import COMPETITION
from captrial.errors import InputError
from captrial.folders import lock_folder
from captrial.installation import usable_cpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from captrial.compete import Competition, SelectionSettings

SHOWN_PROBLEMS = 5  # images that cannot be opened; more are counted

app = typer.Typer(
    no_args_is_help=True, help="Rank captioners on your images with few labels (maximum discrepancy competition)."
)
app.command("rank")(compete_results.rank)
app.command("stability")(compete_analysis.stability)
app.command("repetition")(compete_analysis.repetition)
app.command("flip")(compete_analysis.flip)
app.command("plan")(compete_analysis.plan)
app.command("statistics")(compete_analysis.statistics)
app.command("report")(compete_results.report)
app.command("export")(compete_results.export)


@app.command()
def new(
    directory: Directory,
    captions: CaptionFiles = None,
    captioner: Captioners = None,
    images: Annotated[Path | None, typer.Option(help="The folder of the images, for labelling and the report.")] = None,
    seed: Annotated[int, typer.Option(help="Decides between images on which captions differ equally.")] = 0,
    first_sentence: Annotated[
        bool, typer.Option("--first-sentence", help="Cut every caption after its first sentence.")
    ] = False,
    caption_column: CaptionColumn = None,
    ids: IdTable = None,
    common: Annotated[
        bool, typer.Option("--common", help="Compete on the images that all files share, leaving out the others.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Create a competition from caption files or captioners, one a model, for the same images."""
    from captrial.compete import Competition
    from captrial.compete.storage.creation import check_empty

    check_empty(directory)  # before any captioner is run
    files = caption_files(directory, captioner, captions, images)
    layout = caption_layout(caption_column, ids)
    made = Competition.create(
        directory, files, images=images, seed=seed, first_sentence=first_sentence, common=common, layout=layout
    )
    problems = made.image_problems()
    if json:
        facts = {"directory": str(directory), "models": list(made.models), "images": made.manifest.image_count}
        print_json({**facts, **({"image_problems": problems} if problems else {})})
        return
    _print_models(made, f"{directory}: {made.manifest.image_count} images")
    _print_image_problems(made, problems)
    print_next_step(f"captrial compete select {directory}", "select the images where captions differ most")


@app.command()
def select(
    directory: Directory,
    k: Annotated[int | None, typer.Option("--k", min=1, help="Images of each D_ij. \\[default: 70]")] = None,
    design: Annotated[
        str | None, typer.Option(help=f"What is labelled. {design_help()}. \\[default: {DEFAULT_DESIGN}]")
    ] = None,
    labels: Annotated[
        int | None, typer.Option(min=2, help="Images to label in all; sets k for a new selection unless --k is given.")
    ] = None,
    between: Annotated[
        str | None, typer.Option(help="With more --labels: sample where these models disagree, commas between.")
    ] = None,
    reserve: Annotated[
        int | None, typer.Option(min=0, help="Replacements kept beyond k. \\[default: as many as k]")
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(help=f"{similarity_help()}; or module:function of your own. \\[default: ngsm]"),
    ] = None,
    diverse: Annotated[
        bool | None, typer.Option("--diverse", help="No two near-duplicate captions or images in one pair's set.")
    ] = None,
    skip_broken: Annotated[
        bool | None, typer.Option("--skip-broken", help="Leave out images with a broken caption.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Select anew with other settings; labels are kept.")] = False,
    engine: Annotated[
        str | None, typer.Option("--engine", help="local (processes) or ray; by default threads of this process.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads or workers. \\[default: one per processor]")
    ] = None,
    ray_address: RayAddress = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Find the images on which captions differ most, and draw a sample of the pool: these are to be labelled."""
    from captrial.compete import SelectionSettings

    competition = open_competition(directory, ignore_changes)
    kept = competition.manifest.selection or SelectionSettings()
    if similarity is None:  # before anything uses it
        refuse_stored_function(kept.similarity)
    chosen = design_named(design or (competition.design if competition.manifest.selection else DEFAULT_DESIGN))
    if labels and k is None and chosen.discrepancy and (again or not competition.manifest.selection):
        share = int(labels * DISCREPANCY_SHARE) if chosen.sample else labels
        k = competition.largest_k(share, kept.changed(None, reserve, similarity, diverse, skip_broken))
    settings = kept.changed(k, reserve, similarity, diverse, skip_broken)
    if engine is None:
        fresh = _select(competition, settings, again, workers)
    else:
        from captrial.engines.jobs.select import EngineRanker

        made = EngineOptions(engine, workers or usable_cpus(), ray_address).make()
        fresh = competition.select(settings, again=again, rank=EngineRanker(made, directory, settings.similarity))
    if design or labels or between or not competition.manifest.sample:
        competition.sample(chosen.name, labels, between.split(",") if between else ())
    if json:
        print_json(competition.selection_json())
        return
    _print_selection(competition, len(fresh))


@app.command()
def add(
    directory: Directory,
    captions: CaptionFiles = None,
    captioner: Captioners = None,
    caption_column: CaptionColumn = None,
    ids: IdTable = None,
    similarity: Annotated[
        str | None, typer.Option(help="The module:function that the competition was selected with, if it was one.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. \\[default: one per processor]")] = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Add a model: only its own pairs are selected and need labels, everything else is unchanged."""
    competition = open_competition(directory, ignore_changes)
    kept = competition.manifest.selection
    if kept is not None and similarity != kept.similarity:
        if similarity is not None:
            raise InputError(f"images were selected with the similarity {kept.similarity}, not {similarity}")
        refuse_stored_function(kept.similarity)
    before = set(competition.label_sample().to_label())
    files = caption_files(directory, captioner, captions, competition.image_root)
    if not files:
        raise InputError("nothing to add; give --captions NAME=FILE or --captioner NAME=RUN")
    with lock_folder(directory, COMPETITION):
        for name, file in files.items():
            competition.add_model(name, file, caption_layout(caption_column, ids))
        fresh = _select(competition, kept, False, workers) if kept else []
    if json:
        print_json({"models": list(competition.models), "new_pairs": len(fresh)})
        return
    _print_models(competition, f"{directory}: {len(competition.models)} models")
    if competition.manifest.selection:
        more = len(set(competition.label_sample().to_label()) - before)
        console.print(
            f"{_counted(len(fresh), 'new pair')}; {_counted(more, 'new image') if more else 'no new image'} to label."
        )
    _print_next(competition)


@app.command()
def images(
    directory: Directory,
    folder: Annotated[Path, typer.Argument(help="Where the images are now: a folder, or a pool.")],
    json: JsonFlag = False,
) -> None:
    """Name the folder of the images, where they were moved or none was given; nothing else changes."""
    competition = open_competition(directory, ignore_changes=True)
    missing = competition.move_images(folder)
    problems = competition.image_problems()
    if json:
        print_json({"images": str(competition.image_root), "missing": missing, "image_problems": problems})
        return
    _print_image_problems(competition, problems)
    console.print(f"images of {directory}: {competition.image_root}", soft_wrap=True, markup=False)


@app.command()
def status(directory: Directory, json: JsonFlag = False) -> None:
    """Show what has been done, what is missing, and what to do next."""
    competition = open_competition(directory, ignore_changes=True)
    facts = competition.status()
    if json:
        print_json(facts)
        return
    _print_models(competition, f"{directory}: {facts['pool']} images")
    for name in facts["changed_sources"]:
        print_warning(f"the caption file of {name} has changed since this competition read it")
    shown = {"pairs": "pairs", "selected_pairs": "selected pairs", "images": "images to label", "labelled": "labelled"}
    rows = [["design", facts["design"]], *([title, str(facts[name])] for name, title in shown.items())]
    print_table("progress", ["what", "how many"], [*rows, ["indescribable", str(facts["indescribable"])]])
    _print_next(competition)


def _select(
    competition: Competition, settings: SelectionSettings | None, again: bool, workers: int | None
) -> list[tuple[int, int]]:
    from captrial.progress import progress_bar

    with progress_bar() as bar:
        task = bar.add_task("comparing captions", total=competition.pool.blocks)
        return competition.select(
            settings, again=again, workers=workers or usable_cpus(), progress=lambda: bar.advance(task)
        )


def _print_image_problems(competition: Competition, problems: Sequence[str]) -> None:
    """Images that nobody could be shown: how many, and the first of them."""
    if len(problems) > SHOWN_PROBLEMS:
        again = f"captrial compete images {competition.directory} {competition.image_root} --json"
        print_warning(f"{len(problems)} images cannot be shown to people; the first are below, `{again}` lists all")
    for problem in problems[:SHOWN_PROBLEMS]:
        print_warning(problem)


def _print_models(competition: Competition, title: str) -> None:
    from captrial.compete.storage.creation import verbosity_note

    rows = [
        [entry.name, round(entry.mean_words, 1), "; ".join(entry.problems)] for entry in competition.manifest.models
    ]
    print_table(title, ["model", "words per caption", "remarks"], rows)
    note = verbosity_note(competition.manifest)
    if note:
        print_warning(note)


def _print_selection(competition: Competition, fresh: int) -> None:
    rows = [
        [
            *found.models,
            len(found.images),
            found.similarity[0] if found.similarity else None,
            found.similarity[-1] if found.similarity else None,
            len(found.reserve),
        ]
        for found in competition.selections().values()
    ]
    columns = ["model", "model", "images", "least alike", "most alike", "reserve"]
    print_table("selected images", columns, rows)
    images, sampled = len(competition.selected_images()), len(competition.sampled_images())
    done = "selected" if fresh else "were selected before; nothing to do for"
    console.print(f"{_counted(fresh or len(rows), 'pair')} {done}: {_counted(images, 'different image')} in all.")
    if sampled:
        every = len(competition.label_sample().to_label())
        console.print(f"Design {competition.design}: {sampled} images sampled from the pool; {every} to label in all.")
    elif design_named(competition.design).sample:
        console.print(
            f"Design {competition.design}: D takes all labels, so no image is sampled and nothing can be said about "
            f"the whole pool; use --labels {round(images / DISCREPANCY_SHARE)} or more, or --design weighted."
        )
    _print_next(competition)


def _print_next(competition: Competition) -> None:
    directory = competition.directory
    if len(competition.selected_pairs()) < len(competition.pairs):
        print_next_step(f"captrial compete select {directory}", "select the images to label")
        return
    waiting = len(competition.images_to_label())
    if waiting:
        print_next_step(f"captrial annotate serve {directory}", f"have {waiting} images labelled, or give references:")
        print_next_step(f"captrial compete rank {directory} --references FILE", "rank by what is labelled")
    else:
        print_next_step(f"captrial compete report {directory}", "all images are labelled; see the result")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
