"""Making a competition and adding a model to it: captions are read, checked, aligned and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from captrial.compete.storage import caption_store
from captrial.compete.storage.manifest import (
    FILE,
    ModelEntry,
    State,
    fingerprint,
)
from captrial.errors import InputError, StateError
from captrial.files import atomic_path
from captrial.progress import track

# What an interrupted `new` may leave: finished files, and hidden ones named after what they were to become.
_OURS = re.compile(r"pool\.parquet|captions/\d+\.(parquet|broken\.jsonl)")
_UNFINISHED = re.compile(r"\.(pool\.parquet|competition\.json)\..+|captions/\.\d+\.(parquet|broken\.jsonl)\..+")
_UNKNOWN_WORD = r"(?i)(^|[^a-z])<?unk>?($|[^a-z])"
_VERBOSE = 2.0  # captions this many times longer than another model's are worth a warning


def found(
    directory: Path,
    captions: Mapping[str, Path],
    *,
    images: Path | None = None,
    seed: int = 0,
    first_sentence: bool = False,
    common: bool = False,
) -> State:
    """Make a competition of caption files; `common` keeps the images that all of them share."""
    refuse_taken(directory)
    if len(captions) < 2:
        raise InputError("a competition needs the captions of at least two models; give --captions NAME=FILE twice")
    if images is not None and not images.is_dir():
        raise InputError(f"{images}: no such folder of images")
    made = not directory.exists()
    try:
        pool = _shared_images(captions) if common else None
        entries = []
        for number, (name, path) in enumerate(track(captions.items(), "reading captions")):
            entry, part = (
                _entry(name, path),
                caption_store.import_captions(path),
            )  # one model at a time: memory stays bounded
            part = part if pool is None or not common else caption_store.restrict(part, pool)
            pool = part.ids if pool is None else pool
            texts = caption_store.align(name, part, pool)
            texts = caption_store.first_sentences(texts) if first_sentence else texts
            entries.append(_write_model(directory, number, entry, part, texts, pool))
        caption_store.write_column(directory / "pool.parquet", "id", pool)
    except BaseException:
        _withdraw(directory, made)
        raise
    root = str(images.resolve()) if images else None
    state = State(seed, 0 if pool is None else len(pool), root, first_sentence, tuple(entries))
    state.save(directory)
    return state


def admit(directory: Path, state: State, name: str, path: Path) -> State:
    """Add a model (Algorithm 2): its captions and its entry; nothing that was there changes."""
    known = {entry.name: entry for entry in state.models}
    entry = _entry(name, path)
    if name in known:
        if known[name].fingerprint == entry.fingerprint:
            return state
        raise StateError(f"model {name} is in this competition with other captions; add it under another name")
    imported = caption_store.import_captions(path)
    pool = caption_store.StoredPool(directory, list(known)).ids()
    texts = caption_store.align(name, _only_known(imported, pool), pool)
    texts = caption_store.first_sentences(texts) if state.first_sentence else texts
    described = _write_model(directory, len(state.models), entry, imported, texts, pool)
    state = replace(state, models=(*state.models, described))
    state.save(directory)
    return state


def verbosity_note(state: State) -> str | None:
    """Long captions beside short ones: n-grams then rank verbosity, not sense."""
    shortest = min(state.models, key=lambda entry: entry.mean_words)
    longest = max(state.models, key=lambda entry: entry.mean_words)
    if longest.mean_words < _VERBOSE * shortest.mean_words:
        return None
    return (
        f"{longest.name} writes {longest.mean_words:.0f} words a caption, {shortest.name} {shortest.mean_words:.0f}: "
        "n-gram similarity and metrics will rank verbosity; `compete new --first-sentence` cuts captions to their "
        "first sentence"
    )


def refuse_taken(directory: Path) -> None:
    """Refuse a directory that holds a competition or anything else that is not ours."""
    if (directory / FILE).exists():
        raise StateError(
            f"{directory} is a competition already; see `captrial compete status {directory}`, add a model with "
            f"`captrial compete add`, or choose another directory"
        )
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file; choose another directory")
    names = {_inside(path, directory): path for path in _entries(directory)}
    foreign = sorted(name for name in names if not (_OURS.fullmatch(name) or _UNFINISHED.fullmatch(name)))
    if foreign:
        raise InputError(f"{directory} holds other files ({', '.join(foreign[:3])}); choose an empty or new directory")
    for name, path in names.items():
        if _UNFINISHED.fullmatch(name):
            path.unlink()


def _shared_images(captions: Mapping[str, Path]) -> pa.Array:
    """The images that every file has, in the order of the first; only ids are kept of each."""
    return caption_store.common_ids([caption_store.import_captions(path).ids for path in captions.values()])


def _withdraw(directory: Path, made: bool) -> None:
    """After an error, leave nothing of ours behind, and touch nothing else."""
    for path in _entries(directory):
        if _OURS.fullmatch(_inside(path, directory)):
            path.unlink()
    for folder in (directory / "captions", directory):
        if made and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _entries(directory: Path) -> list[Path]:
    """What is in the directory and in its `captions`; other folders are not looked into."""
    folder = directory / "captions"
    return [path for path in [*directory.glob("*"), *folder.glob("*")] if path != folder]


def _inside(path: Path, directory: Path) -> str:
    return path.relative_to(directory).as_posix()


def _entry(name: str, path: Path) -> ModelEntry:
    if not name or "\n" in name:
        raise InputError(f"{path}: a model needs a name, as in --captions NAME={path}")
    digest = fingerprint(path)
    status = path.stat()
    return ModelEntry(name, str(path.resolve()), status.st_size, status.st_mtime_ns, digest, 0.0)


def _only_known(imported: caption_store.ImportedCaptions, pool: pa.Array) -> caption_store.ImportedCaptions:
    """A new model may have captioned more images than the pool holds; the others do not matter."""
    keep = pc.is_in(imported.ids, value_set=pool)
    return caption_store.ImportedCaptions(imported.ids.filter(keep), imported.texts.filter(keep), imported.problems)


def _write_model(
    directory: Path,
    number: int,
    entry: ModelEntry,
    part: caption_store.ImportedCaptions,
    texts: pa.Array,
    pool: pa.Array,
) -> ModelEntry:
    caption_store.write_column(directory / "captions" / f"{number}.parquet", "caption", texts)
    broken = _list_broken(directory, number, entry.name, texts, pool)
    problems = [*part.problems, *([f"{broken} broken captions (see captions/{number}.broken.jsonl)"] if broken else [])]
    return replace(entry, mean_words=caption_store.mean_words(texts), problems=tuple(problems))


def _list_broken(directory: Path, number: int, name: str, texts: pa.Array, pool: pa.Array) -> int:
    """List empty captions and those with an unknown-word mark in `captions/<number>.broken.jsonl`."""
    empty = pc.equal(pc.utf8_trim_whitespace(texts), "")
    rows = pc.indices_nonzero(pc.or_(empty, pc.match_substring_regex(texts, _UNKNOWN_WORD)))
    with atomic_path(directory / "captions" / f"{number}.broken.jsonl") as temporary, temporary.open("wb") as stream:
        for image, text in zip(pool.take(rows).to_pylist(), texts.take(rows).to_pylist(), strict=True):
            kind = "unknown word" if text.strip() else "empty"
            stream.write(orjson.dumps({"model": name, "id": image, "kind": kind, "caption": text}) + b"\n")
    return len(rows)
