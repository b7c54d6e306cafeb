"""`captrial score`: metrics of caption files against references, with intervals and tests between systems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.options import EngineName, RayAddress, Workers, chosen_engine, wants_engine
from captrial.cli.output import JsonFlag, console_err, print_json, print_table

if TYPE_CHECKING:
    from captrial.metrics import ScoreTable
    from captrial.metrics.significance.bootstrap import Interval
    from captrial.metrics.significance.paired import Comparison

SIGNIFICANT = 0.05
FEW = 4  # systems that fit beside each other


def score(
    systems: Annotated[list[Path], typer.Argument(metavar="SYSTEM...", help="Caption files, one for each system.")],
    references: Annotated[Path, typer.Option("--references", "-r", help="Reference captions, several for an image.")],
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
    objects: Annotated[
        Path | None, typer.Option("--objects", help='Classes in each image, {"id": [...]}: for CHAIR and Coverage.')
    ] = None,
    json: JsonFlag = False,
    strict: Annotated[bool, typer.Option("--strict", help="Any doubtful id or caption is an error.")] = False,
    first_sentence: Annotated[bool, typer.Option("--first-sentence", help="Score only the first sentence.")] = False,
    max_words: Annotated[int | None, typer.Option("--max-words", min=1, help="Score only the first N words.")] = None,
    df: Annotated[
        Path | None, typer.Option("--df", help="CIDEr's document frequencies, as saved by --save-df.")
    ] = None,
    save_df: Annotated[
        Path | None, typer.Option("--save-df", help="Write the document frequencies of these references.")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Use one split of the references file.")] = None,
    training: Annotated[
        Path | None, typer.Option("--training", help="Training captions, for the novelty of `statistics`.")
    ] = None,
    images: Annotated[Path | None, typer.Option("--images", help="Folder of images, for CLIPScore.")] = None,
    clip: Annotated[str | None, typer.Option("--clip", help="CLIP checkpoint (name or folder), for CLIPScore.")] = None,
    similarity: Annotated[
        str, typer.Option("--similarity", help="How nouns compare: table+vectors, or the papers' vectors alone.")
    ] = "table+vectors",
    vectors: Annotated[
        Path | None, typer.Option("--vectors", help="A GloVe or word2vec file for --similarity.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the resampling behind intervals and tests.")] = 0,
    engine: EngineName = "local",
    workers: Workers = None,
    ray_address: RayAddress = None,
    work: Annotated[
        Path | None, typer.Option("--work", help="Folder where workers leave their parts; a stopped run continues.")
    ] = None,
) -> None:
    """Score captions: BLEU, ROUGE-L, CIDEr, METEOR, SPICE, NW, Coverage and more, without Java.

    captrial score ours.json theirs.json --references refs.json
    """
    from captrial.language.similarity import SimilaritySettings
    from captrial.metrics import score as score_captions
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
    from captrial.metrics.registry import MetricOptions
    from captrial.metrics.score_inputs import ScoreFiles, read_inputs
    from captrial.metrics.scoring import check_suffix

    if per_image:
        check_suffix(per_image)
    files = ScoreFiles(
        systems, references, split, strict, first_sentence, max_words, objects=objects, training=training, images=images
    )
    inputs = read_inputs(files, _warn)
    if save_df:
        DocumentFrequencies.of(inputs.references).save(save_df)
    words = SimilaritySettings(similarity, vectors)  # type: ignore[arg-type]
    if words != SimilaritySettings():
        words.load()  # a bad name or file is an error before anything is computed
    options = MetricOptions(
        DocumentFrequencies.load(df) if df else None, words, inputs.objects, inputs.training, inputs.images, clip
    )
    names = metrics.split(",") if metrics is not None else None
    if wants_engine(engine, workers):
        from captrial.engines.jobs.score import score_all

        where = chosen_engine(engine, workers, ray_address)
        table = score_all(inputs.captions, inputs.references, names, where, work, options)
    else:
        table = score_captions(inputs.captions, inputs.references, names, **vars(options))
    if per_image:
        table.write_per_image(per_image)
    if json:
        print_json(table.to_dict())
        for note in table.notes:
            _warn(note)
        return
    print_scores(table, seed)


def _warn(text: str) -> None:
    console_err.print(f"captrial: {text}", style="yellow", soft_wrap=True, highlight=False, markup=False)


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
    several = len(table.ids) > 1  # over one image there is no interval and nothing to test
    intervals = table.intervals(seed=seed) if several else {}
    cells = {
        (name, column): _cell(scores[column].corpus, intervals.get(name, {}).get(column), column)
        for name, scores in table.scores.items()
        for column in table.columns
    }
    systems, columns = list(table.scores), table.columns
    head, rows = ["system", *columns], [[name, *(cells[name, column] for column in columns)] for name in systems]
    if len(systems) <= FEW:  # metrics go down the page
        head, rows = ["", *systems], [[column, *(cells[name, column] for name in systems)] for column in columns]
    half = "± half of the 95% interval, images resampled 1000 times" if several else "no interval over one image"
    notes = [f"{_scales(columns)}{half}", *table.notes]
    print_table(f"Scores on {len(table.ids)} image{'s' * (len(table.ids) != 1)}", head, rows, notes)
    comparisons = [row for row in table.compare(seed=seed) if table.better(row.metric)] if several else []
    if comparisons:
        _print_comparisons(table, comparisons)


def _cell(value: float, interval: Interval | None, column: str) -> str:
    if value != value:
        return "–"
    return _shown(value, column) + (f" ±{_shown((interval.high - interval.low) / 2, column)}" if interval else "")


def _scales(columns: Sequence[str]) -> str:
    from captrial.metrics.registry import scale_of

    plain = [column for column in columns if scale_of(column)[0] == 1]
    if len(plain) == len(columns):
        return ""
    return f"x100 except {', '.join(plain)}; " if plain else "x100; "


def _shown(value: float, column: str, sign: str = "") -> str:
    from captrial.metrics.registry import scale_of

    factor, decimals = scale_of(column)
    return f"{factor * value:{sign}.{decimals}f}"


def _print_comparisons(table: ScoreTable, comparisons: Sequence[Comparison]) -> None:
    if len(table.states) == 2:
        _print_pair(table, comparisons)
        return
    wins = _wins(table, comparisons)
    rows = [[name, *(wins[name, column] for column in _tested(comparisons))] for name in table.states]
    note = f"won–undecided–lost against the other systems; both paired tests p < {SIGNIFICANT}, Holm-corrected"
    print_table("Who beats how many", ["system", *_tested(comparisons)], rows, [note])
    main = "cider" if "cider" in _tested(comparisons) else _tested(comparisons)[0]
    _print_matrix(table, [row for row in comparisons if row.metric == main], main)


def _print_pair(table: ScoreTable, comparisons: Sequence[Comparison]) -> None:
    rows = [
        [
            row.metric,
            _shown(row.difference, row.metric, "+"),
            f"{_shown(row.interval.low, row.metric, '+')} to {_shown(row.interval.high, row.metric, '+')}",
            f"{row.bootstrap_p:.3f}",
            f"{row.permutation_p:.3f}",
            winner(table, row) or "undecided",
        ]
        for row in comparisons
    ]
    first, second = table.states
    columns = ["metric", f"{first} - {second}", "95% interval", "p bootstrap", "p permutation", "better"]
    print_table("Who beats whom", columns, rows, [f"better: both p < {SIGNIFICANT}"])


def winner(table: ScoreTable, row: Comparison) -> str | None:
    """The better system of a pair, if both tests say so."""
    if max(row.bootstrap_p, row.permutation_p) >= SIGNIFICANT:
        return None
    return row.first if (row.difference > 0) == (table.better(row.metric) == "higher") else row.second


def _wins(table: ScoreTable, comparisons: Sequence[Comparison]) -> dict[tuple[str, str], str]:
    """`won–undecided–lost` by system and column."""
    counts = {(name, column): [0, 0, 0] for name in table.states for column in _tested(comparisons)}
    for row in comparisons:
        better = winner(table, row)
        for name in (row.first, row.second):
            counts[name, row.metric][1 if better is None else 0 if better == name else 2] += 1
    return {key: "–".join(map(str, value)) for key, value in counts.items()}


def _print_matrix(table: ScoreTable, comparisons: Sequence[Comparison], metric: str) -> None:
    cells: dict[tuple[str, str], str] = {}
    for row in comparisons:
        mark = "" if winner(table, row) is None else "*"
        cells[row.first, row.second] = _shown(row.difference, metric, "+") + mark
        cells[row.second, row.first] = _shown(-row.difference, metric, "+") + mark
    names = list(table.states)
    rows = [[name, *(cells.get((name, other), "") for other in names)] for name in names]
    print_table(f"{metric}: row minus column", ["", *names], rows, [f"* both paired tests p < {SIGNIFICANT}"])


def _tested(comparisons: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(row.metric for row in comparisons))


def _list_metrics(wanted: bool) -> None:
    if wanted:
        print_metrics()
        raise typer.Exit
