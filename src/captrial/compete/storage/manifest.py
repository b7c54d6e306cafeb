"""`competition.json`, the manifest of a competition: its models, its images and how they were selected."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from captrial.errors import DamagedError, InputError, StateError
from captrial.files import content_hash
from captrial.folders import check_files, write_checked

FORMAT = 2
MANIFEST = "competition.json"
COMPETITION = "competition"  # in messages about its lock
REMAKE = "`captrial compete new` and the same caption files"


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
class Wave:
    """A part of the pool's sample: how likely each image was drawn, and how many are labelled at its end."""

    models: tuple[str, ...]  # those whose disagreement makes an image likelier
    weighted: bool  # False: all images were equally likely
    labels: int  # images of the sample in all, those of earlier waves included
    similarity: str = "ngsm"  # of the selection when the wave was drawn (see `selection.caption_agreement`)


@dataclass(frozen=True)
class SampleSettings:
    """The design of the labels, and the sample of the pool that belongs to it (see `selection.design`)."""

    design: str
    waves: tuple[Wave, ...] = ()

    @property
    def labels(self) -> int:
        """How many images the sample has."""
        return self.waves[-1].labels if self.waves else 0


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
    sample: SampleSettings | None = None  # None: D alone is labelled
    id: str = ""  # tells it from other competitions: an annotation database belongs to one of them

    def save(self, directory: Path) -> None:
        """Write the file, whole or not at all."""
        record = {**asdict(self), "id": self.id or _identity(self.seed, self.models, directory)}
        with write_checked(directory) as staging:
            (staging / MANIFEST).write_bytes(orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        """Read the file; a `StateError` where the directory is not a competition."""
        path = directory / MANIFEST
        if not path.is_file():
            raise StateError(f"{directory} is not a competition; make one with `captrial compete new {directory} ...`")
        check_files(directory, REMAKE, [MANIFEST])
        try:
            return cls._parse(orjson.loads(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedError(path, f"cannot be read as a competition ({error})", REMAKE) from None

    @classmethod
    def _parse(cls, record: dict[str, Any]) -> Manifest:
        if record["format"] != FORMAT:
            raise StateError(
                f"this competition has format {record['format']}, this version reads format {FORMAT}; make it again "
                "with `captrial compete new` and the same caption files"
            )
        models = tuple(ModelEntry(**{**model, "problems": tuple(model["problems"])}) for model in record["models"])
        if not all(isinstance(model.name, str) and isinstance(model.source, str) for model in models):
            raise TypeError("a model without a name or a source")
        settings = record["selection"]
        return cls(
            record["seed"],
            record["image_count"],
            record["images"],
            record["first_sentence"],
            models,
            SelectionSettings(**settings) if settings else None,
            sample=_parse_sample(record.get("sample")),
            id=record.get("id") or _identity(record["seed"], models),  # older ones have none
        )


def _identity(seed: int, models: Sequence[ModelEntry], directory: Path | None = None) -> str:
    """The id of a competition: the same for the same command, another one in another directory."""
    made_from = [(entry.name, entry.fingerprint) for entry in models[:2]]  # `add` changes neither
    return content_hash(repr((seed, made_from, str(directory.resolve()) if directory else None)))


def _parse_sample(record: dict[str, Any] | None) -> SampleSettings | None:
    if record is None:  # a competition of before there were designs: D alone is labelled
        return None
    waves = (
        Wave(tuple(wave["models"]), wave["weighted"], wave["labels"], wave.get("similarity", "ngsm"))
        for wave in record["waves"]
    )
    return SampleSettings(record["design"], tuple(waves))


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
