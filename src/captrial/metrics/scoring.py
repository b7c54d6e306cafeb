"""Score captions of one or several systems with any metrics, in one call: `score(...) -> ScoreTable`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from captrial.errors import InputError
from captrial.files import output_path
from captrial.installation import usable_cpus
from captrial.metrics.corpus import Corpus
from captrial.metrics.registry import Metric, MetricOptions, choose_metrics
from captrial.metrics.scores import Candidates, References, Scores, State
from captrial.metrics.significance.bootstrap import REPLICATES, Interval, interval, replicate_scores
from captrial.metrics.significance.paired import Comparison, compare
from captrial.progress import progress_bar
from captrial.result_table import ResultTable

if TYPE_CHECKING:
    import pyarrow as pa

    from captrial.metrics.ngram.document_frequencies import DocumentFrequencies
    from captrial.metrics.nouns.coverage import Objects
    from captrial.metrics.nouns.word_similarity import WordSimilarity
    from captrial.metrics.semantic.facts import Extract

MANY = 2000  # images from which workers earn the seconds that they take to start
ONE = "system"  # what a single, unnamed system is called


def default_workers(images: int) -> int:
    """Workers for so many images where the user names none: every processor for many, this process for few."""
    return usable_cpus() if images >= MANY else 1


def score(
    candidates: Candidates | Corpus | Mapping[str, Candidates] | Mapping[str, Corpus],
    references: References | None = None,
    metrics: Sequence[str] | str | None = None,
    **options: Unpack[OptionFields],
) -> ScoreTable:
    """Score one system, or several that captioned the same images.

    `candidates` are captions by image id (or a sequence aligned with `references`), or such captions by system;
    `metrics` are names (`bleu`, `rouge`, `cider`, `meteor`, `spice`, `nw`, `coverage`, ...), by default all that can be
    computed with what is given. `options` are what some metrics use: the fields of
    `captrial.metrics.registry.MetricOptions`.

    >>> table = score({"1": "a dog", "2": "a cat"}, {"1": ["a dog runs"], "2": ["a cat sits"]}, metrics=["bleu"])
    >>> round(table.to_dict()["system"]["bleu_1"], 4)
    0.6065
    """
    given = MetricOptions(**options)
    chosen = choose_metrics(metrics, given)
    corpora = _corpora(candidates, references)
    states: dict[str, dict[str, State]] = {name: {} for name in corpora}
    with progress_bar() as bar:
        task = bar.add_task("scoring", total=len(corpora) * len(chosen))
        for name, metric in product(corpora, chosen):
            bar.update(task, description=f"{name}, {metric.title}")
            states[name][metric.name] = metric.state(corpora[name], given)
            bar.advance(task)
    return ScoreTable(next(iter(corpora.values())).ids, chosen, states)


class OptionFields(TypedDict, total=False):
    """The keyword arguments of `score`: the fields of `MetricOptions`."""

    document_frequencies: DocumentFrequencies | None
    similarity: WordSimilarity | None
    objects: Objects | None
    training: Collection[str] | None
    images: Mapping[str, Path] | None
    clip: str | None
    encoder: str | None
    match: str
    extract: Extract | None
    coverage_union: bool


@dataclass(frozen=True, repr=False)
class ScoreTable(ResultTable):
    """Scores by system and metric, with what intervals and tests need."""

    ids: Sequence[str]
    metrics: Sequence[Metric]
    states: Mapping[str, Mapping[str, State]]  # by system, then by metric family

    def rows(self) -> list[dict[str, Any]]:
        """Corpus values, a row a system: fractions; None where a metric has no value."""
        return [{"system": system, **values} for system, values in self.to_dict().items()]

    @cached_property
    def scores(self) -> dict[str, dict[str, Scores]]:
        """By system and column (`bleu_1`, `rouge_l`, ...)."""
        return {system: self._shown(families) for system, families in self._families.items()}

    @property
    def columns(self) -> list[str]:
        """The columns every system has, in order."""
        return list(next(iter(self.scores.values())))

    @property
    def notes(self) -> list[str]:
        """Notes of the metrics about these data, once each."""
        families = [scores for of_system in self._families.values() for scores in of_system.values()]
        return list(dict.fromkeys(note for scores in families for note in scores.notes))

    def to_dict(self) -> dict[str, dict[str, float | None]]:
        """Corpus values by system and column: fractions; None where a metric has no value."""
        return {
            system: {name: _plain(scores.corpus) for name, scores in columns.items()}
            for system, columns in self.scores.items()
        }

    def better(self, column: str) -> Literal["higher", "lower"] | None:
        """Which values of this column are the better ones; None where it only describes."""
        return next(metric.better for metric in self.metrics if column in metric.columns)

    def intervals(
        self, replicates: int = REPLICATES, seed: int = 0, level: float = 0.95
    ) -> dict[str, dict[str, Interval]]:
        """Bootstrap intervals by system and column."""
        flat = {(system, family): state for system, of in self.states.items() for family, state in of.items()}
        values = replicate_scores(flat, replicates, seed)
        found: dict[str, dict[str, Interval]] = {system: {} for system in self.states}
        for (system, _), by_column in values.items():
            found[system] |= {name: interval(value, level) for name, value in by_column.items() if name in self.columns}
        return found

    def compare(self, replicates: int | None = None, seed: int = 0, level: float = 0.95) -> list[Comparison]:
        """Paired tests between every two systems, on every column."""
        return [row for row in compare(self.states, replicates, seed, level) if row.metric in self.columns]

    def per_image(self) -> pa.Table:
        """`system`, `image_id` and one column a metric; null where a metric has no value for an image."""
        import pyarrow as pa

        systems = list(self.scores)
        arrays: dict[str, Any] = {
            "system": np.repeat(systems, len(self.ids)).tolist(),
            "image_id": [*self.ids] * len(systems),
        }
        for name in self.columns:
            values = np.concatenate([self.scores[system][name].per_image for system in systems])
            arrays[name] = pa.array(values, mask=np.isnan(values))
        return pa.table(arrays)

    def write_per_image(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write `per_image` as `.parquet` or `.csv`; a file of others is replaced only with `overwrite`."""
        import pyarrow.csv
        import pyarrow.parquet

        check_suffix(path)
        write = pyarrow.csv.write_csv if Path(path).suffix.lower() == ".csv" else pyarrow.parquet.write_table
        with output_path(path, overwrite=overwrite) as temporary:
            write(self.per_image(), temporary)

    @cached_property
    def _families(self) -> dict[str, dict[str, Scores]]:
        return {
            system: {family: state.scores() for family, state in of_system.items()}
            for system, of_system in self.states.items()
        }

    def _shown(self, families: Mapping[str, Scores]) -> dict[str, Scores]:
        found: dict[str, Scores] = {}
        for metric in self.metrics:
            flat = {scores.name: scores for scores in families[metric.name].flat()}
            shown = {name: flat[name] for name in metric.columns if name in flat}
            if not shown:
                raise InputError(
                    f"metric {metric.name!r} has no {', '.join(metric.columns)} with what it was given; it has "
                    f"{', '.join(flat)}"
                )
            found |= shown
        return found


def check_suffix(path: Path | str) -> None:
    """Refuse a name that `ScoreTable.write_per_image` knows no format for, before anything is computed."""
    if Path(path).suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"{path}: scores of every image are written as .parquet or .csv; choose one of these suffixes")


def _corpora(candidates: Any, references: References | None) -> dict[str, Corpus]:
    if isinstance(candidates, Corpus):
        return {ONE: candidates}
    several = isinstance(candidates, Mapping) and not any(isinstance(value, str) for value in candidates.values())
    systems = dict(candidates) if several else {ONE: candidates}
    if not systems:
        raise InputError("there is no system to score; give at least one")
    if all(isinstance(value, Corpus) for value in systems.values()):
        return systems
    if references is None:
        raise InputError("references are needed beside candidates; give both, or a prepared Corpus")
    return Corpus.prepare_systems(systems, references)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
