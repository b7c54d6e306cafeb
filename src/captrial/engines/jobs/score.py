"""Scores of systems on any number of images: each image's additive statistics by workers, the table by the driver.

What is global is reduced exactly: CIDEr's document frequencies are counted in a first pass and merged; corpus values,
intervals and tests are functions of the statistics of all images in the order of the input, as in one process.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from captrial.engines.engine import Engine, run
from captrial.engines.inputs import Part, digest, entry_parts, parquet_parts, stamps
from captrial.engines.job import Job, JobSpec, Row
from captrial.engines.shards import OutputFolder
from captrial.errors import InputError, MismatchError
from captrial.files import atomic_path
from captrial.metrics.caption_statistics import StatisticsState
from captrial.metrics.corpus import Corpus
from captrial.metrics.meteor import MeteorState
from captrial.metrics.ngram.bleu import BleuState
from captrial.metrics.ngram.cider import CiderState
from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
from captrial.metrics.nouns.chair import ChairState
from captrial.metrics.registry import Entry, Options, chosen
from captrial.metrics.scores import Candidates, MeanState, References, State
from captrial.metrics.scoring import ScoreTable

Floats = NDArray[np.float64]
SLICE = 4096  # images a part: some seconds of METEOR and nouns
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("candidates", pa.list_(pa.string())),  # one a system, tokenised
        ("references", pa.list_(pa.string())),
        ("said", pa.list_(pa.string())),  # as written
        ("known", pa.list_(pa.string())),
    ]
)


class FrequencyJob(Job):
    """Document frequencies of slices of the references; a row is a slice, `first:last` image."""

    schema: ClassVar[pa.Schema] = pa.schema([("table", pa.binary())])

    def __init__(self, images: str, fingerprint: str) -> None:
        self.images, self.fingerprint = images, fingerprint  # the latter tells one input from another

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """A table a slice, as its file's bytes."""
        return [{"table": self._count(*map(int, row["item"].split(":")))} for row in rows]

    def _count(self, first: int, last: int) -> bytes:
        images = list(Part("parquet", self.images, first, last).rows())
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
        self.options, self.fingerprint = make_options(frequencies, **options), fingerprint
        self.systems, self.entries = systems, chosen(metrics, self.options)

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Score the images together, then tell each its own."""
        tables = [
            entry.state(corpus, self.options).statistics()
            for corpus in corpora(rows, self.systems)
            for entry in self.entries
        ]
        return [{"statistics": row} for row in np.concatenate(tables, axis=1)]


def corpora(rows: Sequence[Row], systems: int) -> list[Corpus]:
    """A prepared corpus a system."""
    ids, references = [row["id"] for row in rows], [row["references"] for row in rows]
    known, shared = [row["known"] for row in rows], dict[str, list[list[str]]]()
    return [
        Corpus(
            ids,
            [row["candidates"][system] for row in rows],
            references,
            ([row["said"][system] for row in rows], known),
            shared,
        )
        for system in range(systems)
    ]


def make_options(frequencies: Path | str | None, **options: Any) -> Options:
    """`Options` from what can be sent to a worker: the table by its path, the similarity by (mode, vector file)."""
    table = DocumentFrequencies.load(frequencies) if frequencies else None
    similarity = options.pop("similarity", None)
    if similarity is not None:
        from captrial.language.similarity import Similarity
        from captrial.language.vectors import WordVectors

        similarity = Similarity(WordVectors.open(similarity[1]), mode=similarity[0])
    return Options(table, similarity, **options)


def score_all(
    systems: Mapping[str, Candidates],
    references: References,
    metrics: Sequence[str] | None,
    work: Path | str,
    engine: Engine,
    *,
    document_frequencies: DocumentFrequencies | None = None,
    similarity: tuple[str, Path | None] | None = None,
    objects: Mapping[str, Sequence[str]] | None = None,
    training: Sequence[str] | None = None,
    images: Mapping[str, Path] | None = None,
    clip: str | None = None,
) -> ScoreTable:
    """`captrial.metrics.score` on an engine; `work` is a folder for parts, where a stopped run continues.

    `similarity` is a mode and a vector file (see `captrial.language.similarity.Similarity`), None for the default.
    """
    work = Path(work).absolute()
    sent: dict[str, Any] = {"similarity": similarity, "objects": objects, "images": images, "clip": clip}
    entries = chosen(metrics, make_options(None, **sent, training=training))
    prepared = Corpus.prepare_systems(systems, references)
    table, count = _write_images(list(prepared.values()), work), len(next(iter(prepared.values())))
    fingerprint = digest(table)
    names = [entry.name for entry in entries if entry.name != "statistics"]
    frequencies = None
    if {"cider", "cider_plain"} & set(names):
        frequencies = _frequencies(table, fingerprint, count, document_frequencies, work, engine)
    gathered: Floats = np.zeros((count, 0))
    if names:
        arguments = {
            "systems": len(prepared),
            "metrics": names,
            "frequencies": str(frequencies) if frequencies else None,
            "fingerprint": fingerprint,
            "options": sent,
        }
        tables = {"frequencies": frequencies, "vectors": similarity[1] if similarity else None}  # workers read these
        read = {name: digest(path) for name, path in tables.items() if path} | stamps(clip=clip)
        spec = JobSpec(ScoreJob, arguments, 1024, read)
        run(spec, parquet_parts([table], SLICE), work / "scores", engine)
        folder = OutputFolder(work / "scores")
        with folder.all_needed():
            gathered = gather_statistics(folder.tables())
    return _table(prepared, entries, make_options(frequencies, **sent, training=training), gathered)


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


def restored(like: State, statistics: Floats) -> State:
    """The state whose `statistics()` these are; `like` is a state of the same metric on any images."""
    if isinstance(like, CiderState):
        like = like.means
    if isinstance(like, MeanState):
        columns = zip(like.values, statistics.T[::2], statistics.T[1::2], strict=True)
        return MeanState({name: np.where(counts > 0, value, np.nan) for name, value, counts in columns}, like.notes)
    if isinstance(like, BleuState):
        return BleuState(statistics)
    if isinstance(like, MeteorState):
        return MeteorState(like.name, statistics.astype(np.int64))  # whole segments add no chunk, nor again
    if isinstance(like, ChairState):
        return ChairState(statistics[:, :2])
    raise MismatchError(f"{type(like).__name__} cannot be scored in parts; score it in one process")


def _table(
    prepared: Mapping[str, Corpus],
    entries: Sequence[Entry],
    options: Options,
    statistics: Floats,
) -> ScoreTable:
    states: dict[str, dict[str, State]] = {}
    start = 0
    for name, corpus in prepared.items():
        states[name] = {}
        for entry in entries:
            if entry.name == "statistics":  # vocabularies do not add up; counting words is quick
                states[name][entry.name] = StatisticsState.of(corpus, options.training)
                continue
            like = entry.state(corpus.select([0]), options)
            stop = start + like.statistics().shape[1]
            states[name][entry.name] = restored(like, statistics[:, start:stop])
            start = stop
    return ScoreTable(next(iter(prepared.values())).ids, entries, states)


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


def _frequencies(
    images: Path, fingerprint: str, count: int, given: DocumentFrequencies | None, work: Path, engine: Engine
) -> Path:
    """The file of the table to use: the one given, or that of all references, counted in slices."""
    path = work / "frequencies.npz"
    if given is None:
        slices = [f"{first}:{min(first + SLICE, count)}" for first in range(0, count, SLICE)]
        parts = entry_parts("items", ((f"images {one}", one) for one in slices), 1)
        spec = JobSpec(FrequencyJob, {"images": str(images), "fingerprint": fingerprint}, batch=1)
        run(spec, parts, work / "frequencies", engine)
        folder = OutputFolder(work / "frequencies")
        with folder.all_needed():
            given = DocumentFrequencies.merge(list(_tables(folder.rows())))
    given.save(path)
    return path


def _tables(rows: Iterator[Row]) -> Iterator[DocumentFrequencies]:
    for row in rows:
        if row["error"]:
            raise InputError(f"{row['id']}: {row['error']}")
        yield DocumentFrequencies.read(io.BytesIO(row["table"]), row["id"])
