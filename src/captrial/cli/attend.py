"""`captrial attend`: attention correctness of captioners."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli import study_options as options
from captrial.cli.engine_options import DeviceOption, DtypeOption
from captrial.cli.output import JsonFlag, OverwriteFlag, SimilarityOption, VectorsOption, hold_folder
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.attribution.dataset_attribution import CaptionAttributor


def attend(
    data: options.DataOption,
    models: Annotated[
        str | None, typer.Option("--models", help="Run folders or shipped names, with commas between.")
    ] = None,
    maps: Annotated[
        str | None,
        typer.Option("--maps", help="Maps of another program: .npz files or folders, with commas; see docs/attend.md."),
    ] = None,
    map_captions: Annotated[
        Path | None, typer.Option("--map-captions", help="The captions that --maps were made with, for generated.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the results.")] = Path("attend"),
    images: options.ImagesOption = None,
    boxes: options.BoxesOption = None,
    split: options.SplitOption = None,
    limit: options.LimitOption = None,
    features: options.FeaturesOption = None,
    methods: options.MethodsOption = "attention",
    captions: Annotated[
        str | None,
        typer.Option(
            "--captions",
            help="forced (the references), generated, forced-classes, generated-classes (nouns linked to the classes "
            "of boxes), with commas. \\[default: forced,generated; the others for data without phrases]",
        ),
    ] = None,
    phrase: Annotated[str, typer.Option("--phrase", help="A phrase is the max or the mean of its words.")] = "max",
    masks: options.MasksOption = False,
    heads: Annotated[bool, typer.Option("--heads", help="Also a table by layer and head (Transformers).")] = False,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Phrases drawn side by side; 0: none.")] = 6,
    over: options.OverOption = "elements",
    steps: options.StepsOption = None,
    beam: options.BeamOption = 5,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: options.SeedOption = 0,
    overwrite: OverwriteFlag = False,
    json: JsonFlag = False,
) -> None:
    """Attention correctness of captioners (Liu 2017): by size, against caption quality, with intervals and figures.

    captrial attend --data toyworld --split test --models runs/implicit,runs/strong --out attend
    """
    from captrial.attribution.dataset_attribution import DatasetAttributor
    from captrial.data.datasets.coco import check_masks
    from captrial.grounding.attention_correctness import (
        check_reduction,
        check_samples,
        choose_settings,
        measure_attention,
    )
    from captrial.grounding.attention_heads import heads_table, measure_heads
    from captrial.grounding.attention_tables import all_tables
    from captrial.grounding.external_maps import map_attributors
    from captrial.grounding.figures import AttentionStudy
    from captrial.grounding.study_data import DataSource, StudyAttribution, load_any_models, method_names
    from captrial.grounding.tables import write_tables
    from captrial.language.similarity import SimilaritySettings

    if not models and maps is None:
        raise InputError("what is to be measured? --models for captioners, --maps for maps of another program")
    reduction, choice, names = check_reduction(phrase), StudyAttribution(over, steps, beam), method_names(methods)
    hold_folder(out, overwrite)
    words = SimilaritySettings(similarity, vectors).load()  # type: ignore[arg-type]
    samples = options.read_images(DataSource(data, images, boxes, split, limit)).samples
    check_samples(samples)
    if masks:
        check_masks(samples, "--masks")
    settings = choose_settings(captions, samples)
    attributors: list[CaptionAttributor] = [*map_attributors(maps, samples, map_captions, settings)]
    stems, by_head = [attributor.name for attributor in attributors], []
    loaded = load_any_models(models, device=device, dtype=dtype) if models else []
    for stem, measured in choice.attributors(loaded, names, samples, features, out):
        attributors.append(measured)
        stems.append(stem)
        if heads and measured.method == names[0] and isinstance(measured, DatasetAttributor):
            by_head.append(measure_heads(measured, samples, settings[0], similarity=words, masks=masks))
    results = []
    for attributor, stem in zip(attributors, stems, strict=True):
        found = measure_attention(attributor, samples, settings, similarity=words, reduction=reduction, masks=masks)
        found.method += ", pixels" * ("-pixels" in stem)
        found.write(out / "scores" / f"{stem}.json")
        results.append(found)
    tables = all_tables(results, samples, seed) + ([heads_table(by_head, seed)] if by_head else [])
    write_tables(tables, out)
    AttentionStudy(attributors, results, samples, words, masks).draw(settings, out, examples)
    options.show_tables(tables, json)
