"""`captrial papers`: the experiments of the three papers on any data, with the papers' numbers beside ours."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli import study_options as options
from captrial.cli.output import (
    JsonFlag,
    SimilarityOption,
    VectorsOption,
    console,
    console_err,
    hold_folder,
    print_json,
    print_table,
)
from captrial.errors import InputError
from captrial.vision.registry import detector_usages

if TYPE_CHECKING:
    from captrial.papers.reproduction import ExperimentFunction

LARGEST_BATCH = 1000  # of Fig. 2
app = typer.Typer(
    no_args_is_help=True,
    help="Reproduce the tables and figures of the three papers on your data, with the papers' numbers beside them.",
)

DataOption = Annotated[Path, typer.Option("--data", help="Any data set that `captrial data show` reads.")]
StoresOption = Annotated[
    str | None,
    typer.Option("--features", help="Feature stores, with commas between; made in --out for models that fit none."),
]


@app.command()
def wan(
    data: Annotated[
        Path, typer.Option("--data", help="A folder: a file of captions per model, and references.json beside them.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results; finished ones are reused.")] = Path(
        "papers-wan"
    ),
    images: Annotated[Path | None, typer.Option("--images", help="Folder of the images, or a pool.")] = None,
    external_scores: Annotated[
        Path | None,
        typer.Option(
            "--external-scores", help="As `captrial score --json` prints; by default computed, where that is possible."
        ),
    ] = None,
    objects: Annotated[
        Path | None, typer.Option("--objects", help='Objects of the images, {"id": \\[class, ...]}: for Fig. 5.')
    ] = None,
    metrics: Annotated[str, typer.Option("--metrics", help="The two metrics to rank by.")] = "cider,spice",
    k: Annotated[int, typer.Option("--k", min=5, help="Images a pair.")] = 70,
    seed: options.SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Wan 2022: rank captioners by maximum discrepancy competition. Needs captions and references, no model.

    captrial papers wan --data ../shared/data/captioners/karpathy_test
    """
    from captrial.compete.ranking.result import read_external_scores
    from captrial.metrics.score_inputs import read_objects
    from captrial.papers.wan2022 import Wan2022
    from captrial.papers.wan2022_competition import Wan2022Settings

    hold_folder(out)
    settings = Wan2022Settings(
        data,
        images,
        read_external_scores(external_scores) if external_scores else None,
        read_objects(objects, []) if objects else None,
        tuple(metrics.split(",")),
        k,
        seed,
    )
    described = settings.describe()
    _run("wan", Wan2022(settings, out).functions(), out, described, json)


@app.command()
def cornia(
    data: DataOption,
    models: options.ModelsOption,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results; finished ones are reused.")] = Path(
        "papers-cornia"
    ),
    methods: options.MethodsOption = options.GROUNDING_METHODS,
    regions: Annotated[
        str,
        typer.Option(
            "--regions",
            help=f"data (its boxes), elements (the regions that features are of), or a detector: {detector_usages()}.",
        ),
    ] = "data",
    split: Annotated[
        str, typer.Option("--split", help="The splits for Tables 2, 3 and 4; a data set without splits is `test`.")
    ] = "val,test,robot",
    robot: Annotated[
        Path | None, typer.Option("--robot", help="Robot sequences (ACRV) for Table 4, if not a split of --data.")
    ] = None,
    robot_boxes: Annotated[
        Path | None, typer.Option("--robot-boxes", help="Folder of the sequences' boxes, if not beside their frames.")
    ] = None,
    images: options.ImagesOption = None,
    boxes: options.BoxesOption = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N images of a split.")] = None,
    features: StoresOption = None,
    threshold: options.ThresholdOption = None,
    beam: options.BeamOption = 5,
    steps: options.StepsOption = None,
    batches: Annotated[str, typer.Option("--batches", help="Batch sizes of Fig. 2.")] = "1,5,10,25,50",
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=1000, help="How often Fig. 2 times each.")] = 5,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: options.SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Cornia 2022: grounding of captions, by captioner, features and attribution method.

    captrial papers cornia --data toyworld --models runs/transformer,runs/smart,runs/m2
    """
    from captrial.grounding.regions import DATA, ELEMENTS, check_regions, dataset_regions
    from captrial.grounding.study_data import DataSource, method_names
    from captrial.language.similarity import SimilaritySettings
    from captrial.papers.cornia2022 import Cornia2022, Cornia2022Settings
    from captrial.papers.study_captioners import StudySplit, load_study_captioners

    check_regions(regions, DATA, ELEMENTS)
    hold_folder(out)
    asked = method_names(methods)
    words = SimilaritySettings(similarity, vectors).load()  # type: ignore[arg-type]
    source = DataSource(data, images, boxes, limit=limit)
    found = source.read_splits(split.split(","), required=robot is None)
    for part in list(found.values())[:1]:
        options.warn_of_missing(part, data)
    if robot is not None:
        found["robot"] = options.read_images(DataSource(robot, boxes=robot_boxes, limit=limit))
    splits = {
        name: StudySplit(
            name,
            *(
                (part.samples, part.labels)
                if regions == ELEMENTS
                else dataset_regions(part.samples, part.labels, regions, out)
            ),
        )
        for name, part in found.items()
    }
    samples = [sample for part in splits.values() for sample in part.samples]
    captioners = load_study_captioners(models, samples, _stores(features), out)
    chosen = Cornia2022Settings(
        tuple(asked), beam, threshold, seed, _sizes(batches), repeats, steps, regions == DATA, regions == ELEMENTS
    )
    study = Cornia2022(captioners, splits, out, chosen, words)
    _run("cornia", study.functions(), out, {"data": data.name, "regions": regions, **study.describe()}, json)


@app.command()
def liu(
    data: DataOption,
    models: Annotated[
        str, typer.Option("--models", help="The captioner with implicit attention, then supervised ones.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results; finished ones are reused.")] = Path(
        "papers-liu"
    ),
    images: options.ImagesOption = None,
    boxes: options.BoxesOption = None,
    split: Annotated[str | None, typer.Option("--split", help="Only this split of the data.")] = None,
    limit: options.LimitOption = None,
    features: StoresOption = None,
    method: Annotated[str, typer.Option("--method", help="attention, or an attribution method.")] = "attention",
    examples: Annotated[int, typer.Option("--examples", min=1, help="Phrases in Fig. 5 and 6.")] = 5,
    beam: options.BeamOption = 5,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: options.SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Liu 2017: attention correctness, implicit against supervised attention.

    captrial papers liu --data toyworld --split test --models runs/implicit,runs/strong,runs/weak
    """
    from captrial.attribution.methods.registry import dataset_method
    from captrial.data.sample_sizes import with_size
    from captrial.grounding.attention_correctness import check_samples
    from captrial.grounding.study_data import DataSource
    from captrial.language.similarity import SimilaritySettings
    from captrial.papers.liu2017 import Liu2017, Liu2017Settings
    from captrial.papers.study_captioners import StudySplit, load_study_captioners

    dataset_method(method)
    hold_folder(out)
    words = SimilaritySettings(similarity, vectors).load()  # type: ignore[arg-type]
    found = options.read_images(DataSource(data, images, boxes, split, limit))
    check_samples(found.samples)
    captioners = load_study_captioners(models, found.samples, _stores(features), out)
    shown = StudySplit(split or "all", [with_size(sample) for sample in found.samples], found.labels)
    study = Liu2017(captioners, shown, out, Liu2017Settings(method, beam, seed, examples), words)
    _run("liu", study.functions(), out, {"data": data.name, **study.describe()}, json)


def _stores(features: str | None) -> list[str]:
    return features.split(",") if features else []


def _sizes(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() and 0 < int(part) <= LARGEST_BATCH for part in text.split(",")):
        raise InputError(f"--batches {text}: give batch sizes up to {LARGEST_BATCH}, e.g. 1,10,50")
    return tuple(map(int, text.split(",")))


def _run(
    name: str, functions: Mapping[str, ExperimentFunction], out: Path, settings: Mapping[str, Any], json: bool
) -> None:
    """Run the experiments, write the page, print a summary."""
    from captrial.papers.experiments import load_papers
    from captrial.papers.reproduction import reproduce
    from captrial.papers.reproduction_page import summary, write_reproduction_page

    def say(text: str) -> None:
        console_err.print(f"captrial: {text}", style="dim", highlight=False, markup=False)

    made = reproduce(load_papers()[name], functions, out, settings, say, _command())
    page = write_reproduction_page(made)
    rows = summary(made)
    if json:
        keys = ("experiment", "title", "state", "claims")
        print_json(
            {"page": str(page), "seconds": made.seconds, "experiments": [dict(zip(keys, r, strict=True)) for r in rows]}
        )
        return
    notes = [f"reused: {', '.join(made.reused)}"] if made.reused else []
    print_table(f"{made.paper.short}: {made.paper.question}", ["in the paper", "what", "here", "holds?"], rows, notes)
    console.print(f"  {page}", soft_wrap=True, highlight=False, markup=False)


def _command() -> str:
    """The command line as it was given, for the page."""
    arguments = sys.argv[1:]
    return f"captrial {shlex.join(arguments)}" if arguments[:1] == ["papers"] else ""
