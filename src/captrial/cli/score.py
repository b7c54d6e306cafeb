"""`captrial score`: metrics of caption files against references, with intervals and who beats whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.engine_options import EngineName, RayAddress, Workers, chosen_engine, wants_engine
from captrial.cli.output import JsonFlag, console_err, print_json
from captrial.cli.score_tables import print_scores
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.engines.engine import Engine
    from captrial.metrics import ScoreTable
    from captrial.metrics.nouns.noun_arrays import WordSimilarity


def score(
    systems: Annotated[list[Path], typer.Argument(metavar="SYSTEM...", help="Caption files, one a system.")],
    references: Annotated[Path, typer.Option("--references", "-r", help="What people said: several captions an id.")],
    metrics: Annotated[
        str | None, typer.Option("--metrics", "-m", help="Names with commas; by default all that can be had here.")
    ] = None,
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
    from captrial.data import read_references
    from captrial.metrics import score as score_captions
    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
    from captrial.metrics.scoring import check_suffix

    if per_image:
        check_suffix(per_image)
    known = read_references(references, split=split)
    _notice_foreign(references.name, [(image, text) for image, texts in known.items() for text in texts])
    captions = _read(systems, known, strict, references.name)
    captions = _shortened(captions, known, first_sentence, max_words)
    image_ids = [image for image in known if all(image in said for said in captions.values())]
    if not image_ids:
        raise InputError("no image has a caption of every system; check that all files use the same ids")
    known = {image: known[image] for image in image_ids}
    if save_df:
        DocumentFrequencies.of(known).save(save_df)
    said_of_all = {name: {image: said[image] for image in image_ids} for name, said in captions.items()}
    names = metrics.split(",") if metrics is not None else None
    options: dict[str, Any] = {
        "document_frequencies": DocumentFrequencies.load(df) if df else None,
        "objects": _objects(objects, image_ids),
        "training": _training(training),
        "images": _images(images, image_ids),
        "clip": clip,
    }
    if wants_engine(engine, workers):
        options["similarity"] = None if _is_default(similarity, vectors) else (similarity, vectors)
        table = _score_on(chosen_engine(engine, workers, ray_address), said_of_all, known, names, work, options)
    else:
        table = score_captions(said_of_all, known, names, similarity=_similarity(similarity, vectors), **options)
    if per_image:
        table.write_per_image(per_image)
    if json:
        print_json(table.to_dict())
        for note in table.notes:
            _warn(note)
        return
    print_scores(table, seed)


def _score_on(
    engine: Engine,
    captions: Mapping[str, Mapping[str, str]],
    known: Mapping[str, Sequence[str]],
    metrics: Sequence[str] | None,
    work: Path | None,
    options: Mapping[str, Any],
) -> ScoreTable:
    """Score on an engine; without a folder for the parts they live as long as the run."""
    from tempfile import TemporaryDirectory

    from captrial.engines.jobs.score import score_all

    with TemporaryDirectory(prefix="captrial-score-") as temporary:
        return score_all(captions, known, metrics, work or temporary, engine, **options)


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
        _notice_foreign(path.name, list(captions[name].items()))
    missing = {image for said in captions.values() for image in known if image not in said}
    if missing:
        _warn(f"scored are the {len(known) - len(missing)} of {len(known)} images that every system captioned")
    return captions


def _notice_foreign(source: str, captions: Sequence[tuple[str, str]]) -> None:
    """Say which captions are not English: the tokeniser and every metric are made for English."""
    from captrial.language.english import not_english

    found = not_english([text for _, text in captions])
    if found:
        image, text = captions[found[0]]
        _warn(
            f"{source}: {len(found)} of {len(captions)} captions do not look English (the first: id {image}, "
            f"{text[:60]!r}); these metrics are made for English"
        )


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


def _is_default(mode: str, vectors: Path | None) -> bool:
    return mode == "table+vectors" and vectors is None


def _similarity(mode: str, vectors: Path | None) -> WordSimilarity | None:
    """None for the default, which is opened only if a metric needs it."""
    if _is_default(mode, vectors):
        return None
    from captrial.language.similarity import Similarity
    from captrial.language.vectors import WordVectors

    return Similarity(WordVectors.open(vectors), mode=mode)  # type: ignore[arg-type]


def _objects(path: Path | None, image_ids: Sequence[str]) -> dict[str, list[str]] | None:
    if path is None:
        return None
    import orjson

    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(found, dict) or not all(_is_names(names) for names in found.values()):
        raise InputError(f'{path}: must be {{"image id": ["class", ...], ...}}')
    missing = sum(image not in found for image in image_ids)
    if missing:
        _warn(f"{path.name}: {missing} of {len(image_ids)} images have no entry and count as having no objects")
    return found


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _training(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    from captrial.data import read_references

    return [text for texts in read_references(path).values() for text in texts]


def _images(folder: Path | None, image_ids: Sequence[str]) -> dict[str, Path] | None:
    """Files by image id: a file's id is its relative path, its name, its stem, or a COCO number inside its stem."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder of images")
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            number = path.stem.rpartition("_")[2].lstrip("0")
            for name in (str(path.relative_to(folder)), path.name, path.stem, number):
                found.setdefault(name, path)
    return {image: found[image] for image in image_ids if image in found}


def _warn(text: str) -> None:
    console_err.print(f"captrial: {text}", style="yellow", soft_wrap=True, highlight=False, markup=False)
