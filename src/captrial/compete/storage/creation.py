"""Create a competition and add models to it: caption files are read, checked, aligned by image and written."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from captrial.compete.storage.caption_pool import POOL, StoredPool, write_column
from captrial.compete.storage.manifest import COMPETITION, MANIFEST, Manifest, ModelEntry, fingerprint
from captrial.data import CaptionLayout, read_captions
from captrial.data.captions.rows import CAPTION_NAMES, pick_columns
from captrial.data.image_ids import ImageIds, two_styles
from captrial.errors import InputError, MismatchError, StateError
from captrial.folders import foreign_files, kind_marks, lock_folder, write_checked
from captrial.language.english import language_note, not_english
from captrial.language.sentences import first_sentence
from captrial.progress import track

_log = logging.getLogger(__name__)
_UNKNOWN_WORD = r"(?i)(^|[^a-z])<?unk>?($|[^a-z])"
_LANGUAGE_SAMPLE = 5000  # captions per model that are checked
_FOREIGN_SHARE = 0.02  # of them is worth a remark
_VERBOSE = 2.0  # captions this many times longer than another model's are worth a warning


def create(
    directory: Path,
    captions: Mapping[str, Path],
    *,
    images: Path | None = None,
    seed: int = 0,
    first_sentence: bool = False,
    common: bool = False,
    layout: CaptionLayout | None = None,
) -> Manifest:
    """Create a competition from caption files; `common` keeps only the images that all of them share."""
    with lock_folder(directory, COMPETITION):
        check_empty(directory)
        if len(captions) < 2:
            raise InputError("a competition needs the captions of at least two models; give --captions NAME=FILE twice")
        if images is not None and not images.is_dir():
            raise InputError(f"{images}: no such folder of images")
        with write_checked(directory, overwrite=False) as staging:  # a failure leaves the directory as it was
            pool = _shared_images(captions, layout) if common else None
            entries = []
            for number, (name, path) in enumerate(track(captions.items(), "reading captions")):
                entry, part = (
                    _entry(name, path),
                    import_captions(path, layout),
                )  # one model at a time: memory stays bounded
                part = part if pool is None or not common else restrict(part, pool)
                pool = part.ids if pool is None else pool
                texts = align(name, part, pool)
                texts = first_sentences(texts) if first_sentence else texts
                entries.append(_write_model(staging, number, entry, part, texts, pool))
            write_column(staging / POOL, "id", pool)
        root = str(images.resolve()) if images else None
        manifest = Manifest(seed, 0 if pool is None else len(pool), root, first_sentence, tuple(entries))
        manifest.save(directory)
    return manifest


def add_model(directory: Path, name: str, path: Path, layout: CaptionLayout | None = None) -> Manifest:
    """Add a model (Algorithm 2): its captions and its entry; nothing that was there changes."""
    with lock_folder(directory, COMPETITION):
        manifest = Manifest.load(directory)  # not one read before the lock: another process may have added a model
        known = {entry.name: entry for entry in manifest.models}
        entry = _entry(name, path)
        if name in known:
            if known[name].fingerprint == entry.fingerprint:
                return manifest
            raise StateError(f"model {name} is in this competition with other captions; add it under another name")
        imported = import_captions(path, layout)
        pool = StoredPool(directory, list(known)).ids()
        texts = align(name, _only_known(imported, pool), pool)
        texts = first_sentences(texts) if manifest.first_sentence else texts
        with write_checked(directory) as staging:
            described = _write_model(staging, len(manifest.models), entry, imported, texts, pool)
        manifest = replace(manifest, models=(*manifest.models, described))
        manifest.save(directory)
    return manifest


def verbosity_note(manifest: Manifest) -> str | None:
    """A warning where one model's captions are much longer than another's: n-gram scores then rank verbosity."""
    shortest = min(manifest.models, key=lambda entry: entry.mean_words)
    longest = max(manifest.models, key=lambda entry: entry.mean_words)
    if longest.mean_words < _VERBOSE * shortest.mean_words:
        return None
    return (
        f"{longest.name} writes {longest.mean_words:.0f} words per caption, {shortest.name} {shortest.mean_words:.0f}: "
        "n-gram similarity and metrics will rank verbosity; `compete new --first-sentence` cuts captions to their "
        "first sentence"
    )


def check_empty(directory: Path) -> None:
    """Refuse a directory that holds a competition or other files, except what an interrupted `new` left."""
    if (directory / MANIFEST).exists():
        raise StateError(
            f"{directory} is a competition already; see `captrial compete status {directory}`, add a model with "
            f"`captrial compete add`, or choose another directory"
        )
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file; choose another directory")
    foreign = kind_marks(directory) or list(islice(foreign_files(directory), 3))
    if foreign:
        raise InputError(f"{directory} holds other files ({', '.join(foreign)}); choose an empty or new directory")


def _shared_images(captions: Mapping[str, Path], layout: CaptionLayout | None) -> pa.Array:
    """The images that every file has, in the order of the first; only ids are kept of each."""
    return common_ids([import_captions(path, layout).ids for path in captions.values()])


def _entry(name: str, path: Path) -> ModelEntry:
    if not name or "\n" in name:
        raise InputError(f"{path}: a model needs a name, as in --captions NAME={path}")
    digest = fingerprint(path)
    status = path.stat()
    return ModelEntry(name, str(path.resolve()), status.st_size, status.st_mtime_ns, digest, 0.0)


def _only_known(imported: ImportedCaptions, pool: pa.Array) -> ImportedCaptions:
    """Only the captions of images in the pool: a new model may have captioned more."""
    keep = pc.is_in(spelled_as(imported.ids, pool)[0], value_set=pool)
    return ImportedCaptions(imported.ids.filter(keep), imported.texts.filter(keep), imported.problems)


def _write_model(
    directory: Path,
    number: int,
    entry: ModelEntry,
    part: ImportedCaptions,
    texts: pa.Array,
    pool: pa.Array,
) -> ModelEntry:
    write_column(directory / "captions" / f"{number}.parquet", "caption", texts)
    broken = _list_broken(directory, number, entry.name, texts, pool)
    problems = [*part.problems, *([f"{broken} broken captions (see captions/{number}.broken.jsonl)"] if broken else [])]
    foreign = _language_problem(pool, texts)
    problems += [foreign] if foreign else []
    return replace(entry, mean_words=mean_words(texts), problems=tuple(problems))


def _language_problem(pool: pa.Array, texts: pa.Array) -> str | None:
    """What to say about captions that are not English, from evenly spaced ones where there are many."""
    step = -(-len(texts) // _LANGUAGE_SAMPLE)
    sample = list(zip(pool.to_pylist()[::step], texts.to_pylist()[::step], strict=True))
    if len(not_english([text for _, text in sample])) < _FOREIGN_SHARE * len(sample):
        return None
    note = language_note("language", sample)
    return note.removeprefix("language: ").replace("these metrics are", "similarity and metrics are") if note else None


def _list_broken(directory: Path, number: int, name: str, texts: pa.Array, pool: pa.Array) -> int:
    """List empty captions and those with an unknown-word mark in `captions/<number>.broken.jsonl`."""
    empty = pc.equal(pc.utf8_trim_whitespace(texts), "")
    rows = pc.indices_nonzero(pc.or_(empty, pc.match_substring_regex(texts, _UNKNOWN_WORD)))
    with (directory / "captions" / f"{number}.broken.jsonl").open("wb") as stream:
        for image, text in zip(pool.take(rows).to_pylist(), texts.take(rows).to_pylist(), strict=True):
            kind = "unknown word" if text.strip() else "empty"
            stream.write(orjson.dumps({"model": name, "id": image, "kind": kind, "caption": text}) + b"\n")
    return len(rows)


@dataclass(frozen=True)
class ImportedCaptions:
    """One model's captions as read from a file: ids, texts and problems of the file."""

    ids: pa.Array
    texts: pa.Array
    problems: tuple[str, ...]


def import_captions(path: Path, layout: CaptionLayout | None = None) -> ImportedCaptions:
    """Read a caption file; a Parquet file without problems is read as columns, without a Python object per row."""
    columns = _clean_parquet(path) if layout in (None, CaptionLayout()) else None
    if columns is not None:
        return ImportedCaptions(*columns, ())
    found = read_captions(path, layout=layout)
    return ImportedCaptions(
        pa.array(found.ids, pa.string()), pa.array(found.texts, pa.string()), tuple(map(str, found.problems))
    )


def align(name: str, captions: ImportedCaptions, pool: pa.Array) -> pa.Array:
    """The model's captions in the order of the pool; an id too many or too few is an error that names it."""
    if captions.ids.equals(pool):
        return captions.texts
    ids, matched = spelled_as(captions.ids, pool)
    captions = replace(captions, ids=ids)
    if matched:
        _log.warning("captions of %s: %s", name, matched)
    places = pc.index_in(pool, value_set=captions.ids)
    if places.null_count:
        missing = pool.filter(pc.is_null(places))
        if len(missing) == len(pool) and len(captions.ids):
            others = two_styles(name, captions.ids.to_pylist(), "the captions of the other models", pool.to_pylist())
            raise MismatchError(f"no image has captions of all models. {others}")
        raise MismatchError(_differs(name, "has no caption for", missing))
    if len(captions.ids) > len(pool):
        unknown = captions.ids.filter(pc.invert(pc.is_in(captions.ids, value_set=pool)))
        raise MismatchError(_differs(name, "has a caption that others lack for", unknown))
    return captions.texts.take(places)


def spelled_as(ids: pa.Array, known: pa.Array) -> tuple[pa.Array, str]:
    """Ids in the spelling of the known ones, where they mean one of them, and what was matched, in words.

    >>> spelled_as(pa.array(["000000000139.jpg", "7"]), pa.array(["139", "8"]))[0].to_pylist()
    ['139', '7']
    """
    if pc.all(pc.is_in(ids, value_set=known)).as_py():
        return ids, ""
    matched = ImageIds(known.to_pylist()).match(ids.to_pylist())
    return pa.array([matched.known.get(one, one) for one in ids.to_pylist()], pa.string()), matched.report()


def common_ids(several: Sequence[pa.Array]) -> pa.Array:
    """The ids that all arrays hold, in the order of the first."""
    ids = several[0]
    for other in several[1:]:
        ids = ids.filter(pc.is_in(ids, value_set=spelled_as(other, ids)[0]))
    if not len(ids):
        one, other = (part.to_pylist() for part in (several[0], several[-1]))
        raise MismatchError(
            f"no image has captions of all models. {two_styles('the first file', one, 'the last', other)}"
        )
    return ids


def restrict(captions: ImportedCaptions, ids: pa.Array) -> ImportedCaptions:
    """Only the captions of these images, in their order."""
    places = pc.index_in(ids, value_set=spelled_as(captions.ids, ids)[0])
    return ImportedCaptions(ids, captions.texts.take(places), captions.problems)


def first_sentences(texts: pa.Array) -> pa.Array:
    """Cut every caption after its first sentence.

    >>> first_sentences(pa.array(["A dog at St. Ives. It sleeps.", "a cat"])).to_pylist()
    ['A dog at St. Ives.', 'a cat']
    """
    return pa.array([first_sentence(text) for text in texts.to_pylist()], pa.string())


def mean_words(texts: pa.Array) -> float:
    """Mean number of words per caption, split at blanks."""
    return float(np.mean(pc.add(pc.count_substring(pc.utf8_trim_whitespace(texts), " "), 1)))


def _clean_parquet(path: Path) -> tuple[pa.Array, pa.Array] | None:
    """Ids and captions of a Parquet file about which there is nothing to report, otherwise None."""
    try:
        with path.open("rb") as stream:
            if stream.read(4) != b"PAR1":
                return None
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        chosen = [names[index] for index in pick_columns(names, CAPTION_NAMES, path.name)]
        table = file.read(columns=chosen)
        ids, texts = (table[name].combine_chunks() for name in chosen)
    except (OSError, pa.ArrowException, InputError):
        return None  # read_captions reports the problem
    if not (_is_text(ids.type) or pa.types.is_integer(ids.type)) or not _is_text(texts.type):
        return None
    ids, texts = ids.cast(pa.string()), texts.cast(pa.string())
    odd = not len(ids) or ids.null_count or texts.null_count or pc.count_distinct(ids).as_py() < len(ids)
    blank = pc.any(pc.or_(pc.equal(pc.utf8_trim_whitespace(texts), ""), pc.equal(ids, ""))).as_py()
    return None if odd or blank else (ids, texts)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _differs(name: str, what: str, ids: pa.Array) -> str:
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return (
        f"model {name} {what} image {ids[0]}{more}; all models must caption the same images: complete the file, "
        "or let `compete new --common` make a competition on the images they share"
    )
