"""Scores of systems on any number of images: each image's additive statistics by workers, the table by the driver.

What is global is reduced exactly: CIDEr's document frequencies are counted in a first pass and merged; corpus values,
intervals and tests are functions of the statistics of all images in the order of the input, as in one process.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from captrial.engines.engine import Engine, run
from captrial.engines.inputs import InputPart, entry_parts, parquet_parts
from captrial.engines.job import Job, JobSpec, Row, digest
from captrial.engines.local import LocalEngine
from captrial.engines.shards import OutputFolder
from captrial.errors import InputError
from captrial.files import atomic_path, stamps
from captrial.folders import claim_folder, lock_folder, work_folder
from captrial.language.similarity import SimilaritySettings
from captrial.metrics.corpus import Corpus
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.registry import Metric, MetricOptions, choose_metrics
from captrial.metrics.scores import Candidates, References, State
from captrial.metrics.scoring import ScoreTable

Floats = NDArray[np.float64]
SLICE = 512  # images per part: some seconds of METEOR and SPICE
FREQUENCY_SLICE = 32 * SLICE  # counting takes no time beside scoring; a small input is counted in this process
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("candidates", pa.list_(pa.string())),  # one a system, tokenised
        ("references", pa.list_(pa.string())),
        ("written_candidates", pa.list_(pa.string())),  # before tokenising
        ("written_references", pa.list_(pa.string())),
    ]
)


class FrequencyJob(Job):
    """Document frequencies of slices of the references; a row is a slice, `first:last` image."""

    schema: ClassVar[pa.Schema] = pa.schema([("table", pa.binary())])

    def __init__(self, images: str, fingerprint: str) -> None:
        self.images, self.fingerprint = (
            images,
            fingerprint,
        )  # the latter describes the input

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """A table a slice, as its file's bytes."""
        return [{"table": self._count(*map(int, row["item"].split(":")))} for row in rows]

    def _count(self, first: int, last: int) -> bytes:
        images = list(InputPart("parquet", self.images, first, last).rows())
        buffer = io.BytesIO()
        DocumentFrequencies.of(corpora(images, 1)[0]).write(buffer)
        return buffer.getvalue()


class ScoreJob(Job):
    """The statistics of every image: those of all metrics of the first system, of the second, and so on."""

    schema: ClassVar[pa.Schema] = pa.schema([("statistics", pa.list_(pa.float64()))])

    def __init__(
        self,
        systems: int,
        metrics: Sequence[str],
        frequencies: str | None,
        fingerprint: str,
        options: Mapping[str, Any],
    ) -> None:
        table = DocumentFrequencies.load(frequencies) if frequencies else None
        self.options, self.fingerprint = MetricOptions(table, **options), fingerprint
        self.systems, self.metrics = systems, choose_metrics(metrics, self.options)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Score the images together; each row gets its own statistics."""
        tables = [
            metric.state(corpus, self.options).statistics()
            for corpus in corpora(rows, self.systems)
            for metric in self.metrics
        ]
        return [{"statistics": row} for row in np.concatenate(tables, axis=1)]


def corpora(rows: Sequence[Row], systems: int) -> list[Corpus]:
    """A prepared corpus a system."""
    ids, references = [row["id"] for row in rows], [row["references"] for row in rows]
    written, shared = [row["written_references"] for row in rows], dict[str, list[list[str]]]()
    return [
        Corpus(
            ids,
            [row["candidates"][system] for row in rows],
            references,
            ([row["written_candidates"][system] for row in rows], written),
            shared,
        )
        for system in range(systems)
    ]


def score_all(
    systems: Mapping[str, Candidates],
    references: References,
    metrics: Sequence[str] | None,
    engine: Engine,
    work: Path | str | None = None,
    options: MetricOptions | None = None,
) -> ScoreTable:
    """`captrial.metrics.score` on an engine.

    `work` is a folder for parts, where a stopped run continues; without one they are kept as long as the run lasts.
    Metrics whose statistics are not additive are computed in this process.
    """
    if work is None:
        with work_folder("score") as temporary:
            return score_all(systems, references, metrics, engine, temporary, options)
    options, work = options or MetricOptions(), Path(work).absolute()
    if isinstance(options.similarity, SimilaritySettings):
        options.similarity.load()  # a bad name or file is an error before any work is done
    chosen = choose_metrics(metrics, options)
    with lock_folder(work, "work folder"):
        claim_folder(work)
        prepared = Corpus.prepare_systems(systems, references)
        images = _write_images(list(prepared.values()), work)
        additive = [metric for metric in chosen if metric.additive]
        statistics, options = _statistics(images, prepared, additive, engine, options)
    return _table(prepared, chosen, options, statistics)


def _statistics(
    images: Path, prepared: Mapping[str, Corpus], metrics: Sequence[Metric], engine: Engine, options: MetricOptions
) -> tuple[Floats, MetricOptions]:
    """Statistics (images, all systems and metrics) by workers, and the options with the document frequencies used."""
    count, fingerprint, work = len(next(iter(prepared.values()))), digest(images), images.parent
    if not metrics:
        return np.zeros((count, 0)), options
    frequencies = None
    used = {name for metric in metrics for name in metric.uses}
    if "document_frequencies" in used:
        frequencies = _frequencies(images, fingerprint, count, options.document_frequencies, engine)
        options = replace(options, document_frequencies=DocumentFrequencies.load(frequencies))
    arguments = {
        "systems": len(prepared),
        "metrics": [metric.name for metric in metrics],
        "frequencies": str(frequencies) if frequencies else None,
        "fingerprint": fingerprint,
        "options": {name: getattr(options, name) for name in sorted(used - {"document_frequencies"})},
    }
    vectors = options.similarity.vectors if isinstance(options.similarity, SimilaritySettings) else None
    tables = {"frequencies": frequencies, "vectors": vectors}  # workers read these
    read = {name: digest(path) for name, path in tables.items() if path} | stamps(
        clip=options.clip and options.clip.partition("?")[0], encoder=options.encoder
    )
    parts = [replace(part, stamp="") for part in parquet_parts([images], SLICE)]  # written again; the fingerprint tells
    run(JobSpec(ScoreJob, arguments, 1024, read), parts, work / "scores", engine)
    folder = OutputFolder(work / "scores")
    with folder.all_needed():
        return gather_statistics(folder.tables()), options


def gather_statistics(tables: Iterable[pa.Table]) -> Floats:
    """(images, statistics of all systems and metrics), in the order of the input; an image that failed is an error."""
    parts = []
    for table in tables:
        if table["error"].null_count < len(table):
            row = next(row for row in table.select(["id", "error"]).to_pylist() if row["error"])
            raise InputError(f"image {row['id']} could not be scored: {row['error']}")
        flat = pa.concat_arrays([chunk.flatten() for chunk in table["statistics"].chunks]).to_numpy()
        parts.append(flat.reshape(len(table), -1))
    return np.concatenate(parts)


def _table(
    prepared: Mapping[str, Corpus], metrics: Sequence[Metric], options: MetricOptions, statistics: Floats
) -> ScoreTable:
    """The states of all systems and metrics from the statistics of all images."""
    states: dict[str, dict[str, State]] = {}
    start = 0
    for name, corpus in prepared.items():
        states[name] = {}
        for metric in metrics:
            if not metric.additive:
                states[name][metric.name] = metric.state(corpus, options)
                continue
            like = metric.state(corpus.select([0]), options)
            stop = start + like.statistics().shape[1]
            states[name][metric.name] = like.with_statistics(statistics[:, start:stop])
            start = stop
    return ScoreTable(next(iter(prepared.values())).ids, metrics, states)


def _write_images(prepared: Sequence[Corpus], work: Path) -> Path:
    """All captions and references, tokenised, as one Parquet file that workers read slices of.

    They are tokenised here, all together: the toolkit's tokeniser looks past the end of a caption at the next one.
    """
    first = prepared[0]
    rows = zip(
        first.ids,
        zip(*(corpus.candidates for corpus in prepared), strict=True),
        first.references,
        zip(*(corpus.as_written[0] for corpus in prepared), strict=True),
        first.as_written[1],
        strict=True,
    )
    path = work / "images.parquet"
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        while some := list(islice(rows, SLICE)):
            columns = zip(SCHEMA, zip(*some, strict=True), strict=True)
            writer.write_table(
                pa.table([pa.array(map(_plain, column), field.type) for field, column in columns], SCHEMA)
            )
    return path


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else list(value)


def _frequencies(images: Path, fingerprint: str, count: int, given: DocumentFrequencies | None, engine: Engine) -> Path:
    """The file of the table to use: the one given, or that of all references, counted in slices."""
    work = images.parent
    path = work / "frequencies.npz"
    if given is None:
        engine = engine if count > FREQUENCY_SLICE else LocalEngine()
        slices = [f"{first}:{min(first + FREQUENCY_SLICE, count)}" for first in range(0, count, FREQUENCY_SLICE)]
        parts = entry_parts("items", ((f"images {one}", one) for one in slices), 1)
        spec = JobSpec(FrequencyJob, {"images": str(images), "fingerprint": fingerprint}, batch=1)
        run(spec, parts, work / "frequencies", engine)
        folder = OutputFolder(work / "frequencies")
        with folder.all_needed():
            given = DocumentFrequencies.merge(list(_tables(folder.rows())))
    given.save(path, overwrite=True)
    return path


def _tables(rows: Iterator[Row]) -> Iterator[DocumentFrequencies]:
    for row in rows:
        if row["error"]:
            raise InputError(f"{row['id']}: {row['error']}")
        yield DocumentFrequencies.read(io.BytesIO(row["table"]), row["id"])
