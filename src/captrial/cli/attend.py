"""`captrial attend`: is a captioner's attention where a person would look?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from captrial.cli.explain_options import (
    BeamOption,
    BoxesOption,
    DataOption,
    FeaturesOption,
    ImagesOption,
    LimitOption,
    ModelsOption,
    OverOption,
    SeedOption,
    SimilarityOption,
    SplitOption,
    StepsOption,
    VectorsOption,
    ask,
    check_over,
    features_for,
    goes_by_pixels,
    load_checkpoints,
    method_names,
    open_similarity,
    print_tables,
    read_samples,
    study_name,
)
from captrial.cli.output import JsonFlag, print_json
from captrial.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from captrial.attribution.dataset_attribution import CaptionAttributor
    from captrial.grounding.attention_study import Attended
    from captrial.language.similarity import Similarity
    from captrial.records import Sample


def attend(
    data: DataOption,
    models: ModelsOption,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = Path("attend"),
    images: ImagesOption = None,
    boxes: BoxesOption = None,
    split: SplitOption = None,
    limit: LimitOption = None,
    features: FeaturesOption = None,
    methods: Annotated[
        str, typer.Option("--methods", help="attention, or attribution methods, with commas between.")
    ] = "attention",
    captions: Annotated[
        str, typer.Option("--captions", help="forced (the references), generated, or both with a comma.")
    ] = "forced,generated",
    phrase: Annotated[str, typer.Option("--phrase", help="A phrase is the max or the mean of its words.")] = "max",
    masks: Annotated[bool, typer.Option("--masks", help="Measure against masks where there are some.")] = False,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Phrases drawn side by side; 0: none.")] = 6,
    over: OverOption = "elements",
    steps: StepsOption = None,
    beam: BeamOption = 5,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Attention correctness of captioners (Liu 2017): by size, against caption quality, with intervals and figures.

    captrial attend --data toyworld --split test --models runs/implicit,runs/strong --out attend
    """
    from captrial.files import atomic_write
    from captrial.grounding.attention_study import FORCED, GENERATED, check_samples
    from captrial.grounding.attention_study import attend as measure
    from captrial.grounding.attention_tables import all_tables
    from captrial.grounding.tables import write_tables

    settings = captions.split(",")
    if not set(settings) <= {FORCED, GENERATED}:
        raise InputError(f"--captions {captions}: there are {FORCED} and {GENERATED}")
    if phrase not in ("max", "mean"):
        raise InputError(f"--phrase {phrase}: there are max and mean")
    check_over(over)
    asked = method_names(methods)
    words = open_similarity(similarity, vectors)
    samples, _ = read_samples(data, images, boxes, split, limit)
    check_samples(samples)
    attributors: list[CaptionAttributor] = []
    results: list[Attended] = []
    for name, checkpoint in load_checkpoints(models).items():
        store = features_for(checkpoint, samples, features, out)
        for method in asked:
            attributor = ask(name, checkpoint, store, method, beam, over, samples, steps)
            found = measure(attributor, samples, settings, similarity=words, reduction=phrase, masks=masks)  # type: ignore[arg-type]
            found.method += ", pixels" * goes_by_pixels(method, over)
            atomic_write(
                out / "scores" / f"{study_name(name, method, over, steps)}.json", orjson.dumps(found.to_dict())
            )
            attributors.append(attributor)
            results.append(found)
    tables = all_tables(results, samples, seed)
    write_tables(tables, out)
    draw(attributors, results, samples, settings, out, examples, words)
    if json:
        print_json({table.name: table.to_dict() for table in tables})
    else:
        print_tables(tables)


def draw(
    attributors: Sequence[CaptionAttributor],
    results: Sequence[Attended],
    samples: Sequence[Sample],
    settings: Sequence[str],
    out: Path,
    most: int,
    similarity: Similarity,
) -> None:
    """Liu 2017's Fig. 4 for every setting; Fig. 3, 5 and 6 where examples are wanted."""
    from captrial.grounding.attention_examples import draw_side_by_side, draw_targets
    from captrial.grounding.attention_figures import draw_histograms
    from captrial.grounding.attention_tables import improvements

    names = [f"{result.model}, {result.method}" for result in results]
    for setting in settings:
        values = {name: improvements(result, setting) for name, result in zip(names, results, strict=True)}
        draw_histograms(values, out / f"histogram-{setting}.png", f"{setting} captions")
        if most:
            draw_side_by_side(attributors, results, samples, setting, out / f"examples-{setting}.png", most, similarity)
    boxed = [sample for sample in samples if any(region.label for region in sample.regions)]
    if most and boxed:
        draw_targets(boxed[: min(most, 4)], attributors[0].preprocess, out / "targets.png", similarity)
