"""Captions of any number of images: a job for every captioner that the package can load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from captrial.captioners.batch_captioning import try_caption
from captrial.captioners.loading import (
    ENDPOINT_OPTIONS,
    is_address,
    load_captioner,
    read_options,
    split_source,
    with_options,
)
from captrial.captioners.registry import shipped_captioners
from captrial.engines.engine import Engine, JobResult, run
from captrial.engines.inputs import open_rows, parts_of_all
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.shards import OutputFolder
from captrial.errors import InputError
from captrial.files import stamps

BATCH = 16  # images a call of a local captioner
CONCURRENCY = 8  # requests at once to an endpoint, by default
PACE = ("concurrency", "timeout")  # options of an endpoint that change no caption
WAVES = 4  # images a call to an endpoint, as a multiple of its requests in flight: it rarely waits for us


class CaptionJob(Job):
    """Captions every image."""

    title = "captioning images"
    schema: ClassVar[pa.Schema] = pa.schema([("caption", pa.string())])

    def __init__(self, model: str, beam: int | None = None, **pace: Any) -> None:
        self.captioner = load_captioner(model, beam, **pace)

    def prepare(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Open the images."""
        return open_rows(rows)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """One caption an image."""
        images = [row["image"] for row in rows]
        captions = try_caption(self.captioner, images)
        return [{"caption": found} if isinstance(found, str) else {"error": str(found)} for found in captions]


@dataclass(frozen=True)
class CaptionSettings:
    """A captioner and how to run it."""

    model: str  # any source that `load_captioner` accepts
    beam: int | None = None
    concurrency: int | None = None  # of an endpoint: requests that a worker keeps open; a run may continue with another
    part: int | None = None  # images in a part; by default fewer for small inputs


def caption_all(
    sources: Sequence[Path | str], out: Path | str, settings: CaptionSettings | str, engine: Engine
) -> JobResult:
    """Caption folders, shards, Parquet files, lists of URLs or images into Parquet shards: `id`, `caption`, `error`.

    `settings` may be just the source of a captioner.
    """
    if isinstance(settings, str):
        settings = CaptionSettings(settings)
    parts = parts_of_all(sources, settings.part)
    model, beam = settings.model, settings.beam
    name, options = split_source(model)
    if not is_address(name):
        files = {} if name in shipped_captioners() else stamps(model=name)
        return run(JobSpec(CaptionJob, {"model": model, "beam": beam}, BATCH, files), parts, out, engine)
    pace = read_options(model, {option: options.pop(option) for option in PACE if option in options}, ENDPOINT_OPTIONS)
    pace["concurrency"] = settings.concurrency or pace.get("concurrency", CONCURRENCY)
    arguments = {"model": with_options(name, **options), "beam": beam}
    return run(JobSpec(CaptionJob, arguments, WAVES * pace["concurrency"], pace=pace), parts, out, engine)


def captions_by_id(out: Path | str) -> dict[str, str]:
    """`read_captions_of` as a mapping; two images of one id are an error, since one would hide the other."""
    found: dict[str, str] = {}
    for name, caption in read_captions_of(out):
        if name in found:
            raise InputError(
                f"two images are called {name}, and a caption file can hold one of them; the captions of both are in "
                f"{out}: give --out FOLDER, or caption their folders apart"
            )
        found[name] = caption
    return found


def read_captions_of(out: Path | str) -> Iterator[tuple[str, str]]:
    """Id and caption of all images of a run that could be captioned, in the order of the input."""
    for row in OutputFolder(out).rows():
        if not row["error"]:
            yield row["id"], row["caption"]


def failures_of(out: Path | str) -> Iterator[tuple[str, str]]:
    """Id and reason of the images of a run that could not be captioned."""
    for row in OutputFolder(out).rows():
        if row["error"]:
            yield row["id"], row["error"]
