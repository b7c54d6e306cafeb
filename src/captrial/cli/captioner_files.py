"""Which captioner wrote the captions beside a competition: another must not go on with its file."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import orjson

from captrial.errors import MismatchError
from captrial.files import atomic_write

PACE = ("backbone", "batch", "concurrency", "device", "timeout")  # options that change no caption


def refuse_another(said: Path, source: str) -> None:
    """An error where the caption file `said` was written by another captioner than `source`.

    A file without a note, of an earlier version, is taken for the same captioner's.
    """
    if not (said.exists() and _note(said).exists()):
        return
    before, now = orjson.loads(_note(said).read_bytes()), describe_source(source)
    if before != now:
        same = before["source"] == now["source"]
        raise MismatchError(
            f"{said} holds captions of {before['source']}, "
            f"{'as it was before its files changed' if same else 'not of ' + now['source']}; "
            "give this captioner another name, or delete that file to caption anew"
        )


def note_source(said: Path, source: str) -> None:
    """Note beside the caption file `said` which captioner writes it."""
    if not said.exists():  # what is left of a deleted one says nothing about this one
        for kind in (".errors.jsonl", ".cost.json"):
            said.with_suffix(kind).unlink(missing_ok=True)
    atomic_write(_note(said), orjson.dumps(describe_source(source)))


def describe_source(source: str) -> dict[str, str]:
    """A captioner's source with the options that its captions depend on, and a stamp of its files where it has some.

    Names and passwords in an address are left out.

    >>> describe_source("https://me:secret@host:8000/v1?key=secret#llava?timeout=9&beam=3")
    {'source': 'https://host:8000/v1#llava?beam=3'}
    """
    from captrial.captioners.loading import is_address, split_source, with_options
    from captrial.captioners.registry import shipped_captioners
    from captrial.engines.job import stamps

    name, told = split_source(source)
    files: dict[str, str] = {}
    if is_address(name):
        parts = urlsplit(name)
        name = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    elif name not in shipped_captioners() and (folder := Path(name).expanduser()).is_dir():
        name, files = str(folder.resolve()), stamps(files=folder)
    options = {option: told[option] for option in sorted(told) if option not in PACE}
    return {"source": with_options(name, **options), **files}


def _note(said: Path) -> Path:
    return said.with_suffix(".source.json")
