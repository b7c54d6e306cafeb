"""`captrial ground`: GroundingScore and verdicts on the nouns of captions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli import options
from captrial.cli.options import EngineName, RayAddress, Workers, chosen_engine, wants_engine
from captrial.cli.output import JsonFlag
from captrial.errors import InputError


def ground(
    data: options.DataOption,
    models: options.ModelsOption,
    out: options.OutOption = Path("ground"),
    methods: options.MethodsOption = options.GROUNDING_METHODS,
    regions: Annotated[
        str,
        typer.Option("--regions", help="data (its boxes), a detector (onnx:FILE, detr:MODEL, localiser), or elements."),
    ] = "data",
    images: options.ImagesOption = None,
    boxes: options.BoxesOption = None,
    split: options.SplitOption = None,
    limit: options.LimitOption = None,
    features: options.FeaturesOption = None,
    threshold: options.ThresholdOption = None,
    over: options.OverOption = "elements",
    steps: options.StepsOption = None,
    beam: options.BeamOption = 5,
    similarity: options.SimilarityOption = "table+vectors",
    vectors: options.VectorsOption = None,
    seed: options.SeedOption = 0,
    engine: EngineName = "local",
    workers: Workers = None,
    ray_address: RayAddress = None,
    json: JsonFlag = False,
) -> None:
    """GroundingScore of captioners (Cornia 2022): models x features x attribution methods, verdicts, intervals.

    captrial ground --data toyworld --split test --models runs/transformer,runs/m2 --methods saliency,attention
    """
    from captrial.engines.jobs.ground import GroundJobSettings, ground_all
    from captrial.files import stamps
    from captrial.grounding.regions import DATA, ELEMENTS, check_regions, dataset_regions, element_regions
    from captrial.grounding.score import Grounder
    from captrial.grounding.study import ground_dataset, grounding_tables
    from captrial.grounding.study_data import DataSource, StudyAttribution, features_heading, load_models, method_names
    from captrial.grounding.tables import write_tables
    from captrial.grounding.verdicts import detection_table
    from captrial.language.similarity import SimilaritySettings

    choice, names = StudyAttribution(over, steps, beam), method_names(methods)
    check_regions(regions, DATA, ELEMENTS)
    parallel = wants_engine(engine, workers)
    for option, given in (("--over pixels", over == "pixels"), ("--steps", steps is not None)):
        if given and parallel:
            raise InputError(f"{option} works in one process; leave out --engine and --workers")
    compared, loaded = SimilaritySettings(similarity, vectors), load_models(models)  # type: ignore[arg-type]
    found = options.read_images(DataSource(data, images, boxes, split, limit))
    shared = None if regions == ELEMENTS else dataset_regions(found.samples, found.labels, regions, out)
    results = []
    for model in loaded:
        store = model.features(found.samples, features, out)
        samples, labels = shared or element_regions(found.samples, store)
        for method in names:
            keep = out / "nouns" / f"{choice.file_stem(model.name, method)}.jsonl"
            heading = features_heading(model.checkpoint.vision) + ", pixels" * choice.by_pixels(method)
            if parallel:
                checkpoint, folder = (str(path.absolute()) for path in (model.path, store.directory))
                job = GroundJobSettings(checkpoint, folder, method, beam, tuple(labels), compared, threshold)
                where = chosen_engine(engine, workers, ray_address)
                results.append(ground_all(model.name, heading, samples, job, keep.with_suffix(".parts"), where))
                continue
            attributor = choice.attributor(model, store, method, found.samples)
            grounder = Grounder(labels, compared.load(), threshold)
            made_with = {"regions": regions, "beam": beam, **stamps(boxes=boxes, checkpoint=model.path)}
            results.append(ground_dataset(attributor, samples, grounder, heading, keep, made_with))
    tables = grounding_tables(results, seed)
    if regions == DATA and shared:
        tables.append(detection_table(results, shared[0], compared.load()))
    write_tables(tables, out)
    options.show_tables(tables, json)
