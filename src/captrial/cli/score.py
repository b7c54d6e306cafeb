"""`captrial score`: metrics of caption files against references, with intervals and tests between systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.options import (
    EngineName,
    RayAddress,
    Workers,
    chosen_engine,
    wants_engine,
)
from captrial.cli.output import JsonFlag, console_err, print_json
from captrial.cli.score_tables import print_metrics, print_scores


def _list_metrics(wanted: bool) -> None:
    if wanted:
        print_metrics()
        raise typer.Exit


def score(
    systems: Annotated[list[Path], typer.Argument(metavar="SYSTEM...", help="Caption files, one a system.")],
    references: Annotated[Path, typer.Option("--references", "-r", help="Reference captions, several an image id.")],
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
