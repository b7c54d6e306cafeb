"""`captrial attend`: attention correctness of captioners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli import options
from captrial.cli.output import JsonFlag


def attend(
    data: options.DataOption,
    models: options.ModelsOption,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = Path("attend"),
    images: options.ImagesOption = None,
    boxes: options.BoxesOption = None,
    split: options.SplitOption = None,
    limit: options.LimitOption = None,
    features: options.FeaturesOption = None,
    methods: options.MethodsOption = "attention",
    captions: Annotated[
        str, typer.Option("--captions", help="forced (the references), generated, or both with a comma.")
    ] = "forced,generated",
    phrase: Annotated[str, typer.Option("--phrase", help="A phrase is the max or the mean of its words.")] = "max",
    masks: Annotated[bool, typer.Option("--masks", help="Measure against masks where there are some.")] = False,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Phrases drawn side by side; 0: none.")] = 6,
    over: options.OverOption = "elements",
    steps: options.StepsOption = None,
    beam: options.BeamOption = 5,
    similarity: options.SimilarityOption = "table+vectors",
    vectors: options.VectorsOption = None,
    seed: options.SeedOption = 0,
    json: JsonFlag = False,
) -> None:
    """Attention correctness of captioners (Liu 2017): by size, against caption quality, with intervals and figures.

    captrial attend --data toyworld --split test --models runs/implicit,runs/strong --out attend
    """
    from captrial.grounding.attention_correctness import (
        check_reduction,
        check_samples,
        check_settings,
        measure_attention,
    )
    from captrial.grounding.attention_tables import all_tables
    from captrial.grounding.figures import AttentionStudy
    from captrial.grounding.study_data import DataSource, StudyAttribution, load_models, method_names
    from captrial.grounding.tables import write_tables
    from captrial.language.similarity import SimilaritySettings

    settings, reduction = check_settings(captions), check_reduction(phrase)
    choice, names = StudyAttribution(over, steps, beam), method_names(methods)
    words = SimilaritySettings(similarity, vectors).load()  # type: ignore[arg-type]
    samples = options.read_images(DataSource(data, images, boxes, split, limit)).samples
    check_samples(samples)
    attributors, results = [], []
    for model in load_models(models):
        store = model.features(samples, features, out)
        for method in names:
            attributor = choice.attributor(model, store, method, samples)
            found = measure_attention(attributor, samples, settings, similarity=words, reduction=reduction, masks=masks)
            found.method += ", pixels" * choice.by_pixels(method)
            found.write(out / "scores" / f"{choice.file_stem(model.name, method)}.json")
            attributors.append(attributor)
            results.append(found)
    tables = all_tables(results, samples, seed)
    write_tables(tables, out)
    AttentionStudy(attributors, results, samples, words).draw(settings, out, examples)
    options.show_tables(tables, json)
