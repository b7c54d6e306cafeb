"""`captrial score`: metrics of caption files against references, with intervals and tests between systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from captrial.cli.engine_options import EngineName, EngineOptions, RayAddress
from captrial.cli.output import (
    CaptionColumn,
    ClipOption,
    IdTable,
    JsonFlag,
    ObjectsOption,
    OverwriteFlag,
    ReferencesOption,
    ReferencesSplit,
    SimilarityOption,
    VectorsOption,
    caption_layout,
    console,
    hold_folder,
    print_json,
    print_table,
    print_warning,
)
from captrial.files import refuse_overwrite

if TYPE_CHECKING:
    from captrial.language.similarity import SimilaritySettings
    from captrial.metrics import MetricOptions, ScoreTable
    from captrial.metrics.score_inputs import ScoreInputs
    from captrial.metrics.semantic.facts import Extract
    from captrial.metrics.significance.paired import Comparison


def score(
    systems: Annotated[list[str], typer.Argument(metavar="[NAME=]FILE...", help="Caption files, one for each system.")],
    references: ReferencesOption,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics", "-m", help="Names with commas (--list-metrics); by default all that can be computed."
        ),
    ] = None,
    list_metrics: Annotated[
        bool,
        typer.Option("--list-metrics", callback=_list_metrics, is_eager=True, help="List the metrics and exit."),
    ] = False,
    per_image: Annotated[
        Path | None, typer.Option("--per-image", help="Write the scores of every image (.parquet, .csv).")
    ] = None,
    objects: ObjectsOption = None,
    coverage_union: Annotated[
        bool,
        typer.Option("--coverage-union", help="Coverage of all references' nouns together, not of each reference."),
    ] = False,
    json: JsonFlag = False,
    format_: Annotated[
        Literal["table", "markdown", "latex", "csv", "json"],
        typer.Option("--format", help="Output; json has intervals and tests, --json values alone."),
    ] = "table",
    strict: Annotated[bool, typer.Option("--strict", help="Any doubtful id or caption is an error.")] = False,
    first_sentence: Annotated[bool, typer.Option("--first-sentence", help="Score only the first sentence.")] = False,
    max_words: Annotated[int | None, typer.Option("--max-words", min=1, help="Score only the first N words.")] = None,
    frequencies: Annotated[
        Path | None, typer.Option("--frequencies", help="CIDEr's document frequencies, as saved by --save-frequencies.")
    ] = None,
    save_frequencies: Annotated[
        Path | None, typer.Option("--save-frequencies", help="Write the document frequencies of these references.")
    ] = None,
    caption_column: CaptionColumn = None,
    ids: IdTable = None,
    split: ReferencesSplit = None,
    training: Annotated[
        Path | None, typer.Option("--training", help="Training captions, for the novelty of `statistics`.")
    ] = None,
    images: Annotated[Path | None, typer.Option("--images", help="Folder of images, for CLIPScore.")] = None,
    clip: ClipOption = None,
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", help="Sentence encoder (name or folder) of semantic, facts, words."),
    ] = None,
    match: Annotated[
        Literal["sentences", "tokens"], typer.Option("--match", help="What `semantic` compares; tokens: as BERTScore.")
    ] = "sentences",
    propositions: Annotated[
        str | None,
        typer.Option(
            "--propositions",
            metavar="http://HOST/v1#MODEL",
            help="Language model that takes captions apart for `facts`. \\[default: the parser]",
        ),
    ] = None,
    similarity: SimilarityOption = "table+vectors",
    vectors: VectorsOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the resampling behind intervals and tests.")] = 0,
    engine: EngineName = "local",
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Workers. \\[default: one per processor from 2 000 images on, else 1]"),
    ] = None,
    ray_address: RayAddress = None,
    work: Annotated[
        Path | None, typer.Option("--work", help="Folder where workers leave their parts; a stopped run continues.")
    ] = None,
    overwrite: OverwriteFlag = False,
) -> None:
    """Score captions: BLEU, ROUGE-L, CIDEr, METEOR, SPICE, NW, Coverage and more, without Java.

    captrial score ours.json theirs.json --references refs.json
    """
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
    from captrial.metrics.registry import MetricOptions
    from captrial.metrics.score_formats import FORMATS
    from captrial.metrics.score_inputs import ScoreFiles, named_systems, read_inputs
    from captrial.metrics.scoring import default_workers

    named = named_systems(systems)
    read = [*named.values(), references, objects, frequencies, training, images, vectors, ids]
    _check_outputs(per_image, save_frequencies, read, overwrite)
    if work:
        hold_folder(work)
    files = ScoreFiles(
        named,
        references,
        split,
        strict,
        first_sentence,
        max_words,
        objects=objects,
        training=training,
        images=images,
        layout=caption_layout(caption_column, ids),
    )
    inputs = read_inputs(files, print_warning)
    if save_frequencies:
        DocumentFrequencies.of(inputs.references).save(save_frequencies, overwrite=overwrite)
    chosen = MetricOptions(
        DocumentFrequencies.load(frequencies) if frequencies else None,
        _similarity(similarity, vectors),
        inputs.objects,
        inputs.training,
        inputs.images,
        clip,
        encoder,
        match,
        None if propositions is None else _propositions(propositions),
        coverage_union,
    )
    where = EngineOptions(engine, workers or default_workers(len(inputs.references)), ray_address)
    table = _compute(inputs, metrics.split(",") if metrics is not None else None, chosen, where, work)
    if per_image:
        table.write_per_image(per_image, overwrite=overwrite)
    if json:
        print_json(table.to_dict())
        for note in table.notes:
            print_warning(note)
    elif format_ == "table":
        print_scores(table, seed)
    else:
        typer.echo(FORMATS[format_](table, seed), nl=False)


def _check_outputs(
    per_image: Path | None, frequencies: Path | None, read: Sequence[Path | None], overwrite: bool
) -> None:
    """Refuse files that cannot be written, that are read, or that are somebody's."""
    from captrial.metrics.scoring import check_suffix

    if per_image:
        check_suffix(per_image)
    for output, other in ((per_image, frequencies), (frequencies, per_image)):
        if output:
            refuse_overwrite(output, inputs=[*read, other], overwrite=overwrite)


def _compute(
    inputs: ScoreInputs, names: list[str] | None, chosen: MetricOptions, where: EngineOptions, work: Path | None
) -> ScoreTable:
    from captrial.metrics import score as score_captions
    from captrial.metrics.scoring import MANY

    if where.several or len(inputs.references) >= MANY:  # also on one worker: the same digits on every machine
        from captrial.engines.jobs.score import score_all

        return score_all(inputs.captions, inputs.references, names, where.make(), work, chosen)
    return score_captions(inputs.captions, inputs.references, names, **vars(chosen))


def _similarity(similarity: str, vectors: Path | None) -> SimilaritySettings:
    from captrial.language.similarity import SimilaritySettings

    settings = SimilaritySettings(similarity, vectors)  # type: ignore[arg-type]
    if settings != SimilaritySettings():
        settings.load()  # a bad name or file is an error before anything is computed
    return settings


def _propositions(address: str) -> Extract:
    from captrial.judges import EndpointJudge, EndpointPropositions

    EndpointJudge.parse(address)  # a bad address is an error before anything is computed
    return EndpointPropositions(address)


# Tables ------------------------------------------------------------------------------------------------------------


def print_metrics() -> None:
    """Print the registry of metrics: name, description, what each needs."""
    from captrial.metrics.registry import METRICS

    rows = [
        [
            metric.name + "*" * metric.by_default,
            f"{metric.title}: {metric.description}",
            metric.better or "–",
            ", ".join(metric.columns),
            "; ".join(need.description for need in metric.needs) or "–",
        ]
        for metric in METRICS.values()
    ]
    columns = ["name", "metric", "better", "columns", "needs"]
    print_table("Metrics", columns, rows, ["* computed by default, where nothing it needs is missing"])


def print_scores(table: ScoreTable, seed: int) -> None:
    """Print corpus scores with intervals, then which system beats which."""
    from captrial.metrics.score_formats import cells, comparisons, scales_note

    columns, several = table.columns, len(table.ids) > 1  # over one image there is no interval and nothing to test
    half = "± half of the 95% interval, images resampled 1000 times" if several else "no interval over one image"
    title = f"Scores on {len(table.ids)} image{'s' * several}"
    heads, rows = ["system", *columns], cells(table, seed)
    bands = _bands([heads, *rows], console.width)
    for number, band in enumerate(bands, 1):
        print_table(
            title if number == 1 else f"{title}, continued",
            [heads[column] for column in band],
            [[row[column] for column in band] for row in rows],
            [f"{scales_note(columns)}{half}", *table.notes] if number == len(bands) else (),
        )
    tested = comparisons(table, seed)
    if tested:
        _print_comparisons(table, tested)


def _bands(lines: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """The columns of tables that are no wider than the terminal: the first in each, every other in one, in order.

    >>> _bands([["system", "cider", "spice"], ["ours", "138.2 ±2.0", "24.5 ±0.3"]], 30)
    [[0, 1], [0, 2]]
    """
    needs = [max(map(len, column)) + 3 for column in zip(*lines, strict=True)]  # two blanks and a line
    bands: list[list[int]] = [[0]]
    for column in range(1, len(needs)):
        if len(bands[-1]) > 1 and 1 + sum(needs[one] for one in (*bands[-1], column)) > width:
            bands.append([0])
        bands[-1].append(column)
    return bands


def _print_comparisons(table: ScoreTable, comparisons: Sequence[Comparison]) -> None:
    from captrial.metrics.score_formats import SIGNIFICANT, differences, wins

    if len(table.states) == 2:
        _print_pair(table, comparisons)
        return
    tested = list(dict.fromkeys(row.metric for row in comparisons))
    note = f"won–undecided–lost against the other systems; both paired tests p < {SIGNIFICANT}, Holm-corrected"
    print_table("Who beats how many", ["system", *tested], wins(table, comparisons), [note])
    metric = "cider" if "cider" in tested else tested[0]
    rows = differences(table, [row for row in comparisons if row.metric == metric])
    print_table(f"{metric}: row minus column", ["", *table.states], rows, [f"* both paired tests p < {SIGNIFICANT}"])


def _print_pair(table: ScoreTable, comparisons: Sequence[Comparison]) -> None:
    from captrial.metrics.score_formats import SIGNIFICANT, shown, winner

    rows = [
        [
            row.metric,
            shown(row.difference, row.metric, "+"),
            f"{shown(row.interval.low, row.metric, '+')} to {shown(row.interval.high, row.metric, '+')}",
            f"{row.bootstrap_p:.3f}",
            f"{row.permutation_p:.3f}",
            winner(table, row) or "undecided",
        ]
        for row in comparisons
    ]
    first, second = table.states
    columns = ["metric", f"{first} - {second}", "95% interval", "p bootstrap", "p permutation", "better"]
    print_table("Who beats whom", columns, rows, [f"better: both p < {SIGNIFICANT}"])


def _list_metrics(wanted: bool) -> None:
    if wanted:
        print_metrics()
        raise typer.Exit
