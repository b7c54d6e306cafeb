"""`captrial compete`: from caption files to a ranking that people can rely on, step by step in one directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli import compete_analysis, compete_rank, export_report
from captrial.cli.compete_captioning import Captioners, caption_files
from captrial.cli.compete_options import (
    CaptionFiles,
    Directory,
    IgnoreChanges,
    open_competition,
    say_next,
    warn,
)
from captrial.cli.engine_options import RayAddress, chosen_engine
from captrial.cli.output import JsonFlag, console, print_json, print_table
from captrial.errors import InputError
from captrial.installation import usable_cpus

if TYPE_CHECKING:
    from captrial.compete import Competition, SelectionSettings

app = typer.Typer(
    no_args_is_help=True, help="Rank captioners on your images with few labels (maximum discrepancy competition)."
)
app.command("rank")(compete_rank.rank)
app.command("stability")(compete_analysis.stability)
app.command("repetition")(compete_analysis.repetition)
app.command("flip")(compete_analysis.flip)
app.command("plan")(compete_analysis.plan)
app.command("statistics")(compete_analysis.statistics)
app.command("report")(export_report.report)
app.command("export")(export_report.export)


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
    common: Annotated[
        bool, typer.Option("--common", help="Compete on the images that all files share, leaving out the others.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make a competition of caption files or captioners, one a model, about the same images."""
    from captrial.compete import Competition
    from captrial.compete.storage.creation import check_empty

    check_empty(directory)  # before any captioner is run
    files = caption_files(directory, captioner, captions, images)
    made = Competition.create(directory, files, images=images, seed=seed, first_sentence=first_sentence, common=common)
    if json:
        print_json({"directory": str(directory), "models": list(made.models), "images": made.manifest.image_count})
        return
    _print_models(made, f"{directory}: {made.manifest.image_count} images")
    say_next(f"captrial compete select {directory}", "select the images where captions differ most")


@app.command()
def select(
    directory: Directory,
    k: Annotated[int | None, typer.Option("--k", min=1, help="Images a pair of models. \\[default: 70]")] = None,
    reserve: Annotated[
        int | None, typer.Option(min=0, help="Replacements kept beyond k. \\[default: as many as k]")
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(help="ngsm, nouns, spice, embedding, or module:function of your own. \\[default: ngsm]"),
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
    workers: Annotated[int | None, typer.Option(min=1, help="Threads or workers. \\[default: one a processor]")] = None,
    ray_address: RayAddress = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """For every pair of models, find the images on which their captions differ most."""
    from captrial.compete.storage.manifest import SelectionSettings

    competition = open_competition(directory, ignore_changes)
    kept = competition.manifest.selection or SelectionSettings()
    count = k or kept.k
    settings = SelectionSettings(
        k=count,
        reserve=reserve if reserve is not None else kept.reserve if k in (None, kept.k) else count,
        similarity=similarity or kept.similarity,
        diverse=kept.diverse if diverse is None else diverse,
        skip_broken=kept.skip_broken if skip_broken is None else skip_broken,
    )
    if engine is None:
        fresh = _select(competition, settings, again, workers)
    else:
        from captrial.engines.jobs.select import EngineRanker

        made = chosen_engine(engine, workers or usable_cpus(), ray_address)
        fresh = competition.select(settings, again=again, rank=EngineRanker(made, directory, settings.similarity))
    if json:
        print_json(_selection_json(competition))
        return
    _print_selection(competition, len(fresh))


@app.command()
def add(
    directory: Directory,
    captions: CaptionFiles = None,
    captioner: Captioners = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads. \\[default: one a processor]")] = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Add a model: only its own pairs are selected and need labels, everything before stays as it is."""
    competition = open_competition(directory, ignore_changes)
    before = set(competition.selected_images())
    files = caption_files(directory, captioner, captions, competition.image_root)
    if not files:
        raise InputError("nothing to add; give --captions NAME=FILE or --captioner NAME=RUN")
    for name, file in files.items():
        competition.add_model(name, file)
    fresh = _select(competition, None, False, workers) if competition.manifest.selection else []
    if json:
        print_json({"models": list(competition.models), "new_pairs": len(fresh)})
        return
    _print_models(competition, f"{directory}: {len(competition.models)} models")
    if competition.manifest.selection:
        more = len(set(competition.selected_images()) - before)
        console.print(f"{len(fresh)} new pairs; {more} images more than before in all.")
    _say_next_step(competition)


@app.command()
def status(directory: Directory, json: JsonFlag = False) -> None:
    """What has been done, what is missing, and what to do next."""
    competition = open_competition(directory, ignore_changes=True)
    facts = _facts(competition)
    if json:
        print_json(facts)
        return
    _print_models(competition, f"{directory}: {facts['images']} images")
    for name in facts["changed_sources"]:
        warn(f"the caption file of {name} has changed since this competition read it")
    rows = [[name.replace("_", " "), str(facts[name])] for name in ("pairs", "selected_pairs", "images", "labelled")]
    print_table("progress", ["what", "how many"], [*rows, ["indescribable", str(facts["indescribable"])]])
    _say_next_step(competition)


def _selection_json(competition: Competition) -> dict[str, Any]:
    """The shape that scripts rely on: k, and the images of every pair as they stand."""
    settings = competition.manifest.selection
    return {
        "k": settings.k if settings else None,
        "pairs": [
            {"models": list(found.models), "images": list(found.images), "similarity": list(found.similarity)}
            for found in competition.selections().values()
        ],
    }


def _select(
    competition: Competition, settings: SelectionSettings | None, again: bool, workers: int | None
) -> list[tuple[int, int]]:
    from captrial.progress import progress_bar

    with progress_bar() as bar:
        task = bar.add_task("comparing captions", total=competition.pool.blocks)
        return competition.select(
            settings, again=again, workers=workers or usable_cpus(), progress=lambda: bar.advance(task)
        )


def _facts(competition: Competition) -> dict[str, Any]:
    images = competition.selected_images()
    waiting = competition.images_to_label()
    return {
        "models": list(competition.models),
        "pool": competition.manifest.image_count,
        "selection": competition.manifest.selection,
        "pairs": len(competition.pairs),
        "selected_pairs": len(competition.selected_pairs()),
        "images": len(images),
        "labelled": len(images) - len(waiting),
        "to_label": len(waiting),
        "indescribable": len(competition.indescribable()),
        "changed_sources": competition.changed_sources(),
    }


def _print_models(competition: Competition, title: str) -> None:
    from captrial.compete.storage.creation import verbosity_note

    rows = [
        [entry.name, round(entry.mean_words, 1), "; ".join(entry.problems)] for entry in competition.manifest.models
    ]
    print_table(title, ["model", "words a caption", "remarks"], rows)
    note = verbosity_note(competition.manifest)
    if note:
        warn(note)


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
    images = len(competition.selected_images())
    done = "selected" if fresh else "were selected before; nothing to do for"
    console.print(f"{fresh or len(rows)} pairs {done}: {images} different images in all.")
    _say_next_step(competition)


def _say_next_step(competition: Competition) -> None:
    directory = competition.directory
    if len(competition.selected_pairs()) < len(competition.pairs):
        say_next(f"captrial compete select {directory}", "select the images to label")
        return
    waiting = len(competition.images_to_label())
    if waiting:
        say_next(f"captrial annotate serve {directory}", f"have {waiting} images labelled, or give references:")
        say_next(f"captrial compete rank {directory} --references FILE", "rank by what is labelled")
    else:
        say_next(f"captrial compete report {directory}", "all images are labelled; see the result")
