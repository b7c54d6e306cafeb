"""`captrial reproduce`: the experiments of the three papers on any data, with the papers' numbers beside ours."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.explain_options import (
    BeamOption,
    BoxesOption,
    ImagesOption,
    LimitOption,
    ModelsOption,
    SeedOption,
    SimilarityOption,
    StepsOption,
    ThresholdOption,
    VectorsOption,
    read_images,
    warn_of_missing,
)
from captrial.cli.ground import METHODS, MethodsOption
from captrial.cli.output import JsonFlag, console, console_err, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from captrial.papers.captioners import Subject
    from captrial.papers.runner import Maker
    from captrial.records import Sample

app = typer.Typer(
    no_args_is_help=True,
    help="The tables and figures of the three papers, made here on your data, the papers' numbers beside them.",
)

DataOption = Annotated[Path, typer.Option("--data", help="Any data set that `captrial data show` reads.")]
StoresOption = Annotated[
    str | None,
    typer.Option("--features", help="Feature stores, with commas between; made in --out for models that fit none."),
]


@app.command()
def mad(
    data: Annotated[
        Path, typer.Option("--data", help="A folder: a file of captions a model, and references.json beside them.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results; what is finished is used again.")] = Path(
        "reproduce-mad"
    ),
    images: Annotated[Path | None, typer.Option("--images", help="Folder of the images, or a pool.")] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            "--scores", help="Scores elsewhere, as `captrial score --json` prints; else computed, if possible."
        ),
    ] = None,
    objects: Annotated[
        Path | None, typer.Option("--objects", help='What is on the images, {"id": \\[class, ...]}: for Fig. 5.')
    ] = None,
    metrics: Annotated[str, typer.Option("--metrics", help="The two metrics to rank by.")] = "cider,spice",
    k: Annotated[int, typer.Option("--k", min=5, help="Images a pair.")] = 70,
    seed: SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Wan 2022: which captioner is best, by maximum discrepancy. Needs captions and references, no model.

    captrial reproduce mad --data ../shared/data/captioners/karpathy_test
    """
    from captrial.compete.ranking.result import read_external_scores
    from captrial.papers.trial import MadSettings
    from captrial.papers.wan2022 import Mad

    settings = MadSettings(
        data,
        images,
        read_external_scores(scores) if scores else None,
        _read_objects(objects) if objects else None,
        tuple(metrics.split(",")),
        k,
        seed,
    )
    described = settings.describe()
    _run("mad", Mad(settings, out).makers(), out, described, json)


@app.command()
def grounding(
    data: DataOption,
    models: ModelsOption,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results; what is finished is used again.")] = Path(
        "reproduce-grounding"
    ),
    methods: MethodsOption = METHODS,
    regions: Annotated[
        str, typer.Option("--regions", help="data (its boxes), or a detector: onnx:FILE, detr:MODEL, localiser.")
    ] = "data",
    split: Annotated[
        str, typer.Option("--split", help="The splits for Tables 2, 3 and 4; a data set without splits is `test`.")
    ] = "val,test,robot",
    robot: Annotated[
        Path | None, typer.Option("--robot", help="Robot sequences (ACRV) for Table 4, if not a split of --data.")
    ] = None,
    images: ImagesOption = None,
    boxes: BoxesOption = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N images of a split.")] = None,
    features: StoresOption = None,
    threshold: ThresholdOption = None,
    beam: BeamOption = 5,
    steps: StepsOption = None,
    batches: Annotated[str, typer.Option("--batches", help="Batch sizes of Fig. 2.")] = "1,5,10,25,50",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often Fig. 2 times each.")] = 5,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Cornia 2022: does a captioner look at what it says? Captioners x features x attribution methods.

    captrial reproduce grounding --data toyworld --models runs/transformer,runs/smart,runs/m2
    """
    from captrial.grounding.regions import DATA, check_regions, dataset_regions
    from captrial.grounding.study_data import DataSource, method_names
    from captrial.language.similarity import SimilaritySettings
    from captrial.papers.captioners import Split
    from captrial.papers.cornia2022 import Grounding, GroundingSettings

    check_regions(regions, DATA)
    asked = method_names(methods)
    words = SimilaritySettings(similarity, vectors).load()  # type: ignore[arg-type]
    source = DataSource(data, images, boxes, limit=limit)
    found = source.read_splits(split.split(","), required=robot is None)
    for part in list(found.values())[:1]:
        warn_of_missing(part, data)
    if robot is not None:
        found["robot"] = read_images(DataSource(robot, limit=limit))
    splits = {
        name: Split(name, *dataset_regions(part.samples, part.labels, regions, out)) for name, part in found.items()
    }
    subjects = _subjects(models, [sample for part in splits.values() for sample in part.samples], features, out)
    chosen = GroundingSettings(
        tuple(asked), beam, threshold, seed, _sizes(batches), repeats, steps, objects=regions == DATA
    )
    study = Grounding(subjects, splits, out, chosen, words)
    _run("grounding", study.makers(), out, {"data": data.name, "regions": regions, **study.describe()}, json)


@app.command()
def attention(
    data: DataOption,
    models: Annotated[
        str, typer.Option("--models", help="The captioner with implicit attention, then supervised ones.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the results; what is finished is used again.")] = Path(
        "reproduce-attention"
    ),
    images: ImagesOption = None,
    boxes: BoxesOption = None,
    split: Annotated[str | None, typer.Option("--split", help="Only this split of the data.")] = None,
    limit: LimitOption = None,
    features: StoresOption = None,
    method: Annotated[str, typer.Option("--method", help="attention, or an attribution method.")] = "attention",
    examples: Annotated[int, typer.Option("--examples", min=1, help="Phrases in Fig. 5 and 6.")] = 5,
    beam: BeamOption = 5,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Liu 2017: is attention where a person would look, implicit against supervised?

    captrial reproduce attention --data toyworld --split test --models runs/implicit,runs/strong,runs/weak
    """
    from captrial.attribution.methods.registry import dataset_method
    from captrial.data.images import with_size
    from captrial.grounding.attention_correctness import check_samples
    from captrial.grounding.study_data import DataSource
    from captrial.language.similarity import SimilaritySettings
    from captrial.papers.captioners import Split
    from captrial.papers.liu2017 import Attention, AttentionSettings

    dataset_method(method)
    words = SimilaritySettings(similarity, vectors).load()  # type: ignore[arg-type]
    found = read_images(DataSource(data, images, boxes, split, limit))
    check_samples(found.samples)
    subjects = _subjects(models, found.samples, features, out)
    shown = Split(split or "all", [with_size(sample) for sample in found.samples], found.labels)
    study = Attention(subjects, shown, out, AttentionSettings(method, beam, seed, examples), words)
    _run("attention", study.makers(), out, {"data": data.name, **study.describe()}, json)


def _subjects(models: str, samples: Sequence[Sample], features: str | None, out: Path) -> list[Subject]:
    """The captioners with their features: of the first store that fits, else extracted."""
    from captrial.files import content_hash
    from captrial.grounding.study_data import load_models
    from captrial.papers.captioners import Subject

    stores = features.split(",") if features else []
    return [
        Subject(
            model.name,
            model.checkpoint,
            model.features_among(samples, stores, out),
            content_hash((model.path / "model.safetensors").read_bytes()),
        )
        for model in load_models(models)
    ]


def _sizes(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() and int(part) for part in text.split(",")):
        raise InputError(f"--batches {text}: give batch sizes with commas between, e.g. 1,10,50")
    return tuple(map(int, text.split(",")))


def _run(name: str, makers: Mapping[str, Maker], out: Path, settings: Mapping[str, Any], json: bool) -> None:
    """Make the exhibits, write the page, say what came out."""
    from captrial.papers.exhibits import papers
    from captrial.papers.pages import summary, write
    from captrial.papers.runner import reproduce

    def say(text: str) -> None:
        console_err.print(f"captrial: {text}", style="dim", highlight=False, markup=False)

    made = reproduce(papers()[name], makers, out, settings, say, _command())
    page = write(made)
    rows = summary(made)
    if json:
        keys = ("exhibit", "title", "state", "claims")
        print_json(
            {"page": str(page), "seconds": made.seconds, "exhibits": [dict(zip(keys, r, strict=True)) for r in rows]}
        )
        return
    notes = [f"used again: {', '.join(made.reused)}"] if made.reused else []
    print_table(
        f"paper {made.paper.number}: {made.paper.question}", ["in the paper", "what", "here", "holds?"], rows, notes
    )
    console.print(f"  {page}", soft_wrap=True, highlight=False, markup=False)


def _command() -> str:
    """The command line as it was given, for the page."""
    arguments = sys.argv[1:]
    return f"captrial {shlex.join(arguments)}" if arguments[:1] == ["reproduce"] else ""


def _read_objects(path: Path) -> dict[str, list[str]]:
    import orjson

    try:
        document = orjson.loads(path.read_bytes())
        return {str(image): [str(name) for name in names] for image, names in document.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f'{path}: must be {{"id": ["class", ...], ...}} ({error})') from None
