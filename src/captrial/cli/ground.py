"""`captrial ground`: GroundingScore and verdicts on the nouns of captions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.attribution.region_rules import DEFAULT_RULE, REGION_RULES, region_rule
from captrial.cli import study_options as options
from captrial.cli.engine_options import DeviceOption, DtypeOption, EngineName, EngineOptions, RayAddress, Workers
from captrial.cli.output import JsonFlag, OverwriteFlag, SimilarityOption, VectorsOption, hold_folder
from captrial.errors import InputError
from captrial.vision.registry import detector_usages


def ground(
    data: options.DataOption,
    models: options.ModelsOption,
    out: options.OutOption = Path("ground"),
    methods: options.MethodsOption = options.GROUNDING_METHODS,
    regions: Annotated[
        str,
        typer.Option("--regions", help=f"data (its boxes), a detector ({detector_usages()}), or elements."),
    ] = "data",
    images: options.ImagesOption = None,
    boxes: options.BoxesOption = None,
    split: options.SplitOption = None,
    limit: options.LimitOption = None,
    features: options.FeaturesOption = None,
    threshold: options.ThresholdOption = None,
    rule: Annotated[
        str, typer.Option("--rule", help=f"How the top region of a word is chosen: {', '.join(REGION_RULES)}.")
    ] = DEFAULT_RULE,
    masks: options.MasksOption = False,
    over: options.OverOption = "elements",
    steps: options.StepsOption = None,
    beam: options.BeamOption = 5,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: options.SeedOption = 0,
    engine: EngineName = "local",
    workers: Workers = None,
    ray_address: RayAddress = None,
    overwrite: OverwriteFlag = False,
    json: JsonFlag = False,
) -> None:
    """GroundingScore of captioners (Cornia 2022): models x features x attribution methods, verdicts, intervals.

    captrial ground --data toyworld --split test --models runs/transformer,runs/m2 --methods saliency,attention
    """
    from captrial.data.datasets.coco import check_masks
    from captrial.engines.jobs.ground import GroundingStudy
    from captrial.files import stamps
    from captrial.grounding.regions import DATA, ELEMENTS, check_regions
    from captrial.grounding.study import RegionChoice, grounding_summary, grounding_tables
    from captrial.grounding.study_data import DataSource, StudyAttribution, load_any_models, method_names
    from captrial.grounding.tables import write_tables
    from captrial.grounding.verdict_evaluation import detection_table, verdict_accuracies
    from captrial.language.similarity import SimilaritySettings

    region_rule(rule)
    choice, names = StudyAttribution(over, steps, beam), method_names(methods)
    check_regions(regions, DATA, ELEMENTS)
    if masks and regions != DATA:
        raise InputError(f"--masks: {regions} gives boxes; masks are those of the data set (--regions data)")
    where = EngineOptions(engine, workers, ray_address)
    for option, given in (("--over pixels", over == "pixels"), ("--steps", steps is not None)):
        if given and where.several:
            raise InputError(f"{option} works in one process; leave out --engine and --workers")
    compared, loaded = SimilaritySettings(similarity, vectors), load_any_models(models, device=device, dtype=dtype)  # type: ignore[arg-type]
    hold_folder(out, overwrite)
    found = options.read_images(DataSource(data, images, boxes, split, limit))
    if masks:
        check_masks(found.samples, "--masks")
    study = GroundingStudy(out, choice, compared, RegionChoice(rule, masks), threshold, regions, stamps(boxes=boxes))
    results = study.run(found, loaded, names, features, where.make() if where.several else None)
    tables = grounding_tables(results, seed)
    summary = [{**entry, "regions": regions} for entry in grounding_summary(results, seed)]
    if found.labels:  # the data set's own boxes tell what is there
        tables.append(detection_table(results, found.samples, compared.load()))
        for entry, accuracy in zip(summary, verdict_accuracies(results, found.samples, compared.load()), strict=True):
            entry["accuracy"] = accuracy
    write_tables(tables, out)
    options.show_tables(tables, json, {"results": summary})
