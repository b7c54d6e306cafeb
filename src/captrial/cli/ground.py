"""`captrial ground`: does a captioner look at what it says? GroundingScore and a verdict a noun."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.engine_options import EngineName, RayAddress, Workers, chosen_engine, wants_engine
from captrial.cli.explain_options import (
    BeamOption,
    BoxesOption,
    DataOption,
    FeaturesOption,
    ImagesOption,
    LimitOption,
    ModelsOption,
    OutOption,
    OverOption,
    SeedOption,
    SimilarityOption,
    SplitOption,
    StepsOption,
    VectorsOption,
    ask,
    check_over,
    check_regions,
    checkpoint_paths,
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
    from collections.abc import Mapping, Sequence
    from typing import Any

    from captrial.records import Sample
    from captrial.vision.features.feature_store import FeatureStore

METHODS = "saliency,guided_backprop,integrated_gradients"


def ground(
    data: DataOption,
    models: ModelsOption,
    out: OutOption = Path("ground"),
    methods: Annotated[str, typer.Option("--methods", help="Attribution methods, or attention.")] = METHODS,
    regions: Annotated[
        str,
        typer.Option("--regions", help="data (its boxes), a detector (onnx:FILE, detr:MODEL, localiser), or elements."),
    ] = "data",
    images: ImagesOption = None,
    boxes: BoxesOption = None,
    split: SplitOption = None,
    limit: LimitOption = None,
    features: FeaturesOption = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="tau_g; by default calibrated on the toy world.")
    ] = None,
    over: OverOption = "elements",
    steps: StepsOption = None,
    beam: BeamOption = 5,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: SeedOption = 0,
    engine: EngineName = "local",
    workers: Workers = None,
    ray_address: RayAddress = None,
    json: JsonFlag = False,
) -> None:
    """GroundingScore of captioners (Cornia 2022): models x features x attribution methods, verdicts, intervals.

    captrial ground --data toyworld --split test --models runs/transformer,runs/m2 --methods saliency,attention
    """
    from captrial.engines.job import stamps
    from captrial.engines.jobs.ground import GroundJobSettings, ground_all
    from captrial.grounding.grounding_score import Grounder
    from captrial.grounding.grounding_study import ground as measure
    from captrial.grounding.grounding_study import grounding_table, verdict_table
    from captrial.grounding.hallucination import detection_table
    from captrial.grounding.tables import write_tables
    from captrial.language.similarity import SimilaritySettings

    check_over(over)
    check_regions(regions, "data", "elements")
    if over == "pixels" and wants_engine(engine, workers):
        raise InputError("--over pixels works in one process; leave out --engine and --workers")
    if steps is not None and wants_engine(engine, workers):
        raise InputError("--steps works in one process; leave out --engine and --workers")
    asked = method_names(methods)
    words = open_similarity(similarity, vectors)
    checkpoints, paths = load_checkpoints(models), checkpoint_paths(models)
    samples, known = read_samples(data, images, boxes, split, limit)
    shared = None if regions == "elements" else with_regions(samples, known, regions, out)
    results = []
    for name, checkpoint in checkpoints.items():
        store = features_for(checkpoint, samples, features, out)
        seen, labels = shared or elements_of(samples, store)
        for method in asked:
            attributor = ask(name, checkpoint, store, method, beam, over, samples, steps)
            grounder = Grounder(labels, words, threshold)
            keep = out / "nouns" / f"{study_name(name, method, over, steps)}.jsonl"
            heading = describe(checkpoint.vision) + ", pixels" * goes_by_pixels(method, over)
            if not wants_engine(engine, workers):
                made_with = {"regions": regions, "beam": beam, **stamps(boxes=boxes, checkpoint=paths[name])}
                results.append(measure(attributor, seen, grounder, heading, keep, made_with))
                continue
            where, parts = chosen_engine(engine, workers, ray_address), keep.with_suffix(".parts")
            workers_load = GroundJobSettings(
                str(paths[name].absolute()),
                str(store.directory.absolute()),
                method,
                beam,
                tuple(labels),
                SimilaritySettings(similarity, vectors),  # type: ignore[arg-type]
                threshold,
            )
            results.append(ground_all(name, heading, seen, workers_load, parts, where))
    tables = [grounding_table(results, seed=seed), grounding_table(results, checkable=True, seed=seed)]
    tables.append(verdict_table(results))
    if regions == "data" and shared:
        tables.append(detection_table(results, shared[0], words))
    write_tables(tables, out)
    if json:
        print_json({table.name: table.to_dict() for table in tables})
    else:
        print_tables(tables)


def with_regions(
    samples: Sequence[Sample], known: Sequence[str], regions: str, out: Path
) -> tuple[list[Sample], list[str]]:
    """Samples with the regions to ground on, and all labels that these can have."""
    from captrial.data.images import with_size
    from captrial.grounding.region_sources import detect_regions, labels_of

    if regions == "data":
        if not known:
            labels_of(samples)  # says what to do
        return [with_size(sample) for sample in samples], list(known)
    from captrial.vision.registry import load_detector

    detector = load_detector(regions)
    found = detect_regions(samples, detector, out / "regions.json")
    return [with_size(sample) for sample in found], list(detector.labels)


def elements_of(samples: Sequence[Sample], store: FeatureStore) -> tuple[list[Sample], list[str]]:
    """Samples with the regions that a captioner's features are of."""
    from captrial.data.images import with_size
    from captrial.grounding.region_sources import element_regions, labels_of

    found = element_regions([with_size(sample) for sample in samples], store)
    return found, labels_of(found)


def describe(vision: Mapping[str, Any]) -> str:
    """What a captioner sees, as the heading above its rows."""
    name = str(vision.get("backbone", "features"))
    return f"{name}, regions" if vision.get("regions") else name
