"""`competition.json`, the manifest of a competition: its models, its images and how they were selected."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from captrial.errors import InputError, StateError
from captrial.files import atomic_write

FORMAT = 2
MANIFEST = "competition.json"


@dataclass(frozen=True)
class ModelEntry:
    """One model: the file its captions came from, their mean length and problems of the file."""

    name: str
    source: str
    size: int
    modified: int  # nanoseconds; with the size, it avoids hashing an unchanged file
    fingerprint: str
    mean_words: float
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectionSettings:
    """How images were selected."""

    k: int = 70
    reserve: int = 70
    similarity: str = "ngsm"
    diverse: bool = False
    skip_broken: bool = False

    def changed(
        self,
        k: int | None = None,
        reserve: int | None = None,
        similarity: str | None = None,
        diverse: bool | None = None,
        skip_broken: bool | None = None,
    ) -> SelectionSettings:
        """These settings with those given in place of the old; with another k, the reserve is as large as k."""
        count = k or self.k
        return SelectionSettings(
            k=count,
            reserve=reserve if reserve is not None else self.reserve if k in (None, self.k) else count,
            similarity=similarity or self.similarity,
            diverse=self.diverse if diverse is None else diverse,
            skip_broken=self.skip_broken if skip_broken is None else skip_broken,
        )


@dataclass(frozen=True)
class Manifest:
    """The content of `competition.json`."""

    seed: int
    image_count: int
    images: str | None
    first_sentence: bool
    models: tuple[ModelEntry, ...]
    selection: SelectionSettings | None = None
    format: int = FORMAT

    def save(self, directory: Path) -> None:
        """Write the file, whole or not at all."""
        atomic_write(directory / MANIFEST, orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2) + b"\n")

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        """Read the file; a `StateError` where the directory is not a competition."""
        path = directory / MANIFEST
        if not path.is_file():
            raise StateError(f"{directory} is not a competition; make one with `captrial compete new {directory} ...`")
        try:
            return cls._parse(orjson.loads(path.read_bytes()))
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise StateError(f"{path}: cannot be read as a competition ({error}); restore it from a copy") from None

    @classmethod
    def _parse(cls, record: dict[str, Any]) -> Manifest:
        if record["format"] != FORMAT:
            raise StateError(
                f"this competition has format {record['format']}, this version reads format {FORMAT}; make it again "
                "with `captrial compete new` and the same caption files"
            )
        models = tuple(ModelEntry(**{**model, "problems": tuple(model["problems"])}) for model in record["models"])
        settings = record["selection"]
        return cls(
            record["seed"],
            record["image_count"],
            record["images"],
            record["first_sentence"],
            models,
            SelectionSettings(**settings) if settings else None,
        )


def fingerprint(path: Path) -> str:
    """A file's content in 16 hexadecimal digits."""
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=8))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    return digest.hexdigest()


def changed(entry: ModelEntry) -> bool:
    """Whether the file that a model's captions came from is still there but holds something else now."""
    path = Path(entry.source)
    if not path.is_file():
        return False
    status = path.stat()
    if (status.st_size, status.st_mtime_ns) == (entry.size, entry.modified):
        return False
    return fingerprint(path) != entry.fingerprint
