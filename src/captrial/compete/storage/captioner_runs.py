"""Captioners that are run over the images of a competition before they compete, and what that cost.

The captions are kept beside the competition, in `DIR.captions/NAME.jsonl`, with a note of their source
(`NAME.source.json`, without secrets) and of their cost (`NAME.cost.json`). An interrupted run is continued; another
captioner under the same name is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from captrial.errors import DamagedError, MismatchError
from captrial.files import atomic_write, stamps
from captrial.folders import lock_folder

SPEED_OPTIONS = ("backbone", "batch", "concurrency", "device", "timeout")  # options that change no caption


def run_captioners(directory: Path, sources: Mapping[str, str], images: Path) -> dict[str, Path]:
    """Caption all images below `images` with the captioners of `sources`; returns their caption files by name."""
    from captrial.captioners import loading
    from captrial.captioners.batch_captioning import caption_to_file
    from captrial.data.datasets import read_folder

    found = [sample.image for sample in read_folder(images)]
    files = {name: _folder(directory) / f"{name}.jsonl" for name in sources}
    with lock_folder(_folder(directory), "folder of captions"):
        check_captioners(directory, sources)  # before any captioner is run
        for name, source in sources.items():
            captioner = loading.load_captioner(source)
            _note_source(files[name], source)
            caption_to_file(captioner, found, files[name])
    return files


def check_captioners(directory: Path, sources: Mapping[str, str]) -> None:
    """A `MismatchError` where captions that are there were written by other captioners than `sources` by name."""
    for name, source in sources.items():
        _check_source(_folder(directory) / f"{name}.jsonl", source)


def captioning_costs(directory: Path) -> dict[str, dict[str, Any]]:
    """Images, seconds, memory and tokens of each captioner that was run here."""
    from captrial.captioners.batch_captioning import read_cost

    found = {path.name.removesuffix(".cost.json"): path for path in sorted(_folder(directory).glob("*.cost.json"))}
    return {name: asdict(read_cost(path)) for name, path in found.items()}


def describe_source(source: str) -> dict[str, str]:
    """A captioner's source with the options that its captions depend on, and a stamp of its files where it has some.

    User names and passwords in an address are left out.

    >>> describe_source("https://me:secret@host:8000/v1?key=secret#llava?timeout=9&beam=3")
    {'source': 'https://host:8000/v1#llava?beam=3'}
    """
    from captrial.captioners.loading import is_address, split_source, with_options
    from captrial.captioners.registry import shipped_captioners

    name, given = split_source(source)
    files: dict[str, str] = {}
    if is_address(name):
        parts = urlsplit(name)
        name = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    elif name not in shipped_captioners() and (folder := Path(name).expanduser()).is_dir():
        name, files = str(folder.resolve()), stamps(files=folder)
    options = {option: given[option] for option in sorted(given) if option not in SPEED_OPTIONS}
    return {"source": with_options(name, **options), **files}


def _check_source(captions: Path, source: str) -> None:
    """An error where the caption file was written by another captioner than `source`.

    A file without a note, of an earlier version, is taken to be the same captioner's.
    """
    if not (captions.exists() and _note(captions).exists()):
        return
    now = describe_source(source)
    try:
        before = {str(name): str(value) for name, value in orjson.loads(_note(captions).read_bytes()).items()}
        if "source" not in before:
            raise ValueError("it names no source")
    except (OSError, ValueError, AttributeError) as error:
        raise DamagedError(
            _note(captions), f"cannot be read ({error})", "`captrial compete` after removing it"
        ) from None
    if before != now:
        same = before["source"] == now["source"]
        raise MismatchError(
            f"{captions} holds captions of {before['source']}, "
            f"{'as it was before its files changed' if same else 'not of ' + now['source']}; "
            "give this captioner another name, or delete that file to caption again"
        )


def _note_source(captions: Path, source: str) -> None:
    """Write beside the caption file which captioner it comes from."""
    if not captions.exists():  # files of a deleted one do not belong to this one
        for kind in (".errors.jsonl", ".cost.json"):
            captions.with_suffix(kind).unlink(missing_ok=True)
    atomic_write(_note(captions), orjson.dumps(describe_source(source)))


def _note(captions: Path) -> Path:
    return captions.with_suffix(".source.json")


def _folder(directory: Path) -> Path:
    directory = directory.resolve()  # `.` has no name
    return directory.with_name(f"{directory.name}.captions")
