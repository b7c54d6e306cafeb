"""`captrial score`: metrics of caption files against references, with intervals and who beats whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.output import JsonFlag, console_err, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.metrics import ScoreTable
    from captrial.metrics.bootstrap import Interval
    from captrial.metrics.nouns import WordSimilarity
    from captrial.metrics.paired import Comparison

SIGNIFICANT = 0.05
# how a column is shown: factor and decimals; x100 with one decimal unless listed
SHOWN = {"nw": (1, 3), "clip_score": (1, 3), "ref_clip_score": (1, 3), "length": (1, 1), "vocabulary": (1, 0)}
FEW = 4  # so many systems fit beside each other


def score(
    systems: Annotated[list[Path], typer.Argument(metavar="SYSTEM...", help="Caption files, one a system.")],
    references: Annotated[Path, typer.Option("--references", "-r", help="What people said: several captions an id.")],
    metrics: Annotated[
        str | None, typer.Option("--metrics", "-m", help="Names with commas; by default all that can be had here.")
    ] = None,
    per_image: Annotated[Path | None, typer.Option("--per-image", help="Write the scores of every image.")] = None,
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
    pictures: Annotated[Path | None, typer.Option("--pictures", help="Folder of pictures, for CLIPScore.")] = None,
    clip: Annotated[str | None, typer.Option("--clip", help="CLIP checkpoint (name or folder), for CLIPScore.")] = None,
    similarity: Annotated[
        str, typer.Option("--similarity", help="How nouns compare: table+vectors, or the papers' vectors alone.")
    ] = "table+vectors",
    vectors: Annotated[
        Path | None, typer.Option("--vectors", help="A GloVe or word2vec file for --similarity.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the resampling behind intervals and tests.")] = 0,
) -> None:
    """Score captions: BLEU, ROUGE-L, CIDEr, METEOR, SPICE, NW, Coverage and more, without Java.

    captrial score ours.json theirs.json --references refs.json
    """
    from captrial.data import read_references
    from captrial.metrics import score as score_captions
    from captrial.metrics.df import DocumentFrequencies

    known = read_references(references, split=split)
    captions = _read(systems, known, strict, references.name)
    captions = _shortened(captions, known, first_sentence, max_words)
    images = [image for image in known if all(image in said for said in captions.values())]
    if not images:
        raise InputError("no image has a caption of every system; check that all files use the same ids")
    known = {image: known[image] for image in images}
    if save_df:
        DocumentFrequencies.of(known).save(save_df)
    table = score_captions(
        {name: {image: said[image] for image in images} for name, said in captions.items()},
        known,
        metrics.split(",") if metrics is not None else None,
        document_frequencies=DocumentFrequencies.load(df) if df else None,
        similarity=_similarity(similarity, vectors),
        objects=_objects(objects, images),
        training=_training(training),
        pictures=_pictures(pictures, images),
        clip=clip,
    )
    if per_image:
        table.write_per_image(per_image)
    if json:
        print_json(table.to_dict())
        for note in table.notes:
            _warn(note)
        return
    _print(table, seed)


def _read(
    paths: Sequence[Path], known: Mapping[str, Sequence[str]], strict: bool, source: str
) -> dict[str, dict[str, str]]:
    """Captions by system; what is doubtful about them goes to stderr."""
    from captrial.data import read_captions

    captions: dict[str, dict[str, str]] = {}
    for name, path in zip(system_names(paths), paths, strict=True):
        found = read_captions(path, known_ids=known, strict=strict)
        if found.problems:
            _warn(f"{found.report()} (Known ids are those of {source}.)")
        captions[name] = found.to_dict()
    missing = {image for said in captions.values() for image in known if image not in said}
    if missing:
        _warn(f"scored are the {len(known) - len(missing)} of {len(known)} images that every system captioned")
    return captions


def system_names(paths: Sequence[Path]) -> list[str]:
    """The stem of each file; equal stems give way to the folder's name, equal folders to the path as given."""
    names = [path.stem for path in paths]
    for longer in (lambda path: path.resolve().parent.name, str):
        times = Counter(names)
        names = [longer(path) if times[name] > 1 else name for path, name in zip(paths, names, strict=True)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"{twice[0]} is given twice; give every system once")
    return names


def _shortened(
    captions: dict[str, dict[str, str]], known: Mapping[str, Sequence[str]], sentence: bool, words: int | None
) -> dict[str, dict[str, str]]:
    from captrial.metrics.long_captions import much_longer, shortened

    if sentence or words is not None:
        captions = {
            name: {image: shortened(text, sentence, words) for image, text in said.items()}
            for name, said in captions.items()
        }
    for name, said in captions.items():
        lengths = much_longer(list(said.values()), known)
        if lengths:
            _warn(
                f"{name}: captions have {lengths[0]:.0f} words on average, references {lengths[1]:.0f}; these metrics "
                "punish length. Score them fairly with --first-sentence or --max-words N"
            )
    return captions


def _similarity(mode: str, vectors: Path | None) -> WordSimilarity | None:
    """None for the default, which is opened only if a metric needs it."""
    if mode == "table+vectors" and vectors is None:
        return None
    from captrial.language.similarity import Similarity
    from captrial.language.vectors import WordVectors

    return Similarity(WordVectors.open(vectors), mode=mode)  # type: ignore[arg-type]


def _objects(path: Path | None, images: Sequence[str]) -> dict[str, list[str]] | None:
    if path is None:
        return None
    import orjson

    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(found, dict) or not all(_is_names(names) for names in found.values()):
        raise InputError(f'{path}: must be {{"image id": ["class", ...], ...}}')
    missing = sum(image not in found for image in images)
    if missing:
        _warn(f"{path.name}: {missing} of {len(images)} images have no entry and count as having no objects")
    return found


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _training(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    from captrial.data import read_references

    return [text for texts in read_references(path).values() for text in texts]


def _pictures(folder: Path | None, images: Sequence[str]) -> dict[str, Path] | None:
    """Files by image id: a file's id is its relative path, its name, its stem, or a COCO number inside its stem."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder of pictures")
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            number = path.stem.rpartition("_")[2].lstrip("0")
            for name in (str(path.relative_to(folder)), path.name, path.stem, number):
                found.setdefault(name, path)
    return {image: found[image] for image in images if image in found}


def _warn(text: str) -> None:
    console_err.print(f"captrial: {text}", style="yellow", soft_wrap=True, highlight=False, markup=False)


def _print(table: ScoreTable, seed: int) -> None:
    intervals = table.intervals(seed=seed)
    cells = {
        (name, column): _cell(scores[column].corpus, intervals[name].get(column), column)
        for name, scores in table.scores.items()
        for column in table.columns
    }
    systems, columns = list(table.scores), table.columns
    head, rows = ["system", *columns], [[name, *(cells[name, column] for column in columns)] for name in systems]
    if len(systems) <= FEW:  # metrics go down the page
        head, rows = ["", *systems], [[column, *(cells[name, column] for name in systems)] for column in columns]
    notes = [f"{_scales(columns)}± half of the 95% interval, images resampled 1000 times", *table.notes]
    print_table(f"Scores on {len(table.ids)} images", head, rows, notes)
    comparisons = [row for row in table.compare(seed=seed) if table.better(row.metric)]
    if comparisons:
        _print_comparisons(table, comparisons)


def _cell(value: float, interval: Interval | None, column: str) -> str:
    if value != value:
        return "–"
    return _shown(value, column) + (f" ±{_shown((interval.high - interval.low) / 2, column)}" if interval else "")


def _scales(columns: Sequence[str]) -> str:
    plain = [column for column in columns if column in SHOWN]
    if len(plain) == len(columns):
        return ""
    return f"x100 except {', '.join(plain)}; " if plain else "x100; "


def _shown(value: float, column: str, sign: str = "") -> str:
    factor, decimals = SHOWN.get(column, (100, 1))
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
    print_table(f"{metric}: row minus column", ["", *names], rows, ["* both tests agree that it is no luck"])


def _tested(comparisons: Sequence[Comparison]) -> list[str]:
    return list(dict.fromkeys(row.metric for row in comparisons))
