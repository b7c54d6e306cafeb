"""The tables of docs/ that show the registries: `make tables` writes them, and a test finds what it has not written.

A new metric, data set reader, similarity, attribution method, captioner, backbone or detector appears in its table by
its entry in the registry alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from captrial.attribution.methods.registry import METHODS
from captrial.captioners.huggingface import FAMILIES
from captrial.captioners.registry import ARCHITECTURES
from captrial.compete.selection.registry import SIMILARITIES
from captrial.data.datasets.registry import READERS
from captrial.metrics.registry import METRICS, Metric
from captrial.vision.registry import BACKBONES, DETECTORS, FEATURE_FORMATS
from studies.printing import with_tables

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTHING = "–"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table as the lines of a page."""
    return [f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows)]


def metrics() -> list[str]:
    """What `captrial score --list-metrics` prints."""
    return markdown(("name", "metric", "better", "columns", "needs"), map(_metric, METRICS.values()))


def _metric(metric: Metric) -> tuple[str, ...]:
    name = f"`{metric.name}`" + " *" * metric.by_default
    columns = ", ".join(f"`{column}`" for column in metric.columns)
    needs = "; ".join(need.description for need in metric.needs) or NOTHING
    return name, f"{metric.title}: {metric.description}", metric.better or NOTHING, columns, needs


def similarities() -> list[str]:
    """The similarities of `captrial compete select`."""
    entries = SIMILARITIES.values()
    rows = [(f"`{one.name}`", f"{one.title}: {one.description}", one.needs or NOTHING) for one in entries]
    own = ("`module:function`", "a Python function of your own", NOTHING)
    return markdown(("`--similarity`", "S is", "needs"), [*rows, own])


def readers() -> list[str]:
    """The data set readers."""
    rows = [(f"`{one.name}`", one.title, one.description, one.needs) for one in READERS.values()]
    return markdown(("name", "format", "content", "needs"), rows)


def methods() -> list[str]:
    """The attribution methods."""
    rows = [(f"`{one.name}`", one.title, one.description, str(one.needs)) for one in METHODS.values()]
    return markdown(("`method`", "title", "description", "needs"), rows)


def architectures() -> list[str]:
    """The architectures that can be trained."""
    rows = [(f"`{name}`", one.title, one.description, one.needs) for name, one in ARCHITECTURES.items()]
    return markdown(("name", "title", "what it is", "needs"), rows)


def families() -> list[str]:
    """The families of transformers captioners and VLMs."""
    return markdown(("family", "what it is"), [(one.title, one.description) for one in FAMILIES])


def backbones() -> list[str]:
    """Backbones, then detectors."""
    rows = [(one.usage, one.description, one.needs) for one in (*BACKBONES, *DETECTORS)]
    return markdown(("name", "elements", "weights"), rows)


def feature_formats() -> list[str]:
    """Formats of features that other programs computed."""
    return markdown(("format", "what is read"), [(f"`{one.name}`", one.description) for one in FEATURE_FORMATS])


TABLES: dict[str, dict[str, Callable[[], list[str]]]] = {
    "metrics.md": {"metrics": metrics},
    "competition.md": {"similarities": similarities},
    "datasets.md": {"readers": readers},
    "explain.md": {"attribution methods": methods},
    "captioners.md": {"architectures": architectures, "families": families},
    "vision.md": {"backbones": backbones, "feature formats": feature_formats},
}
"""The tables of each page, by the comment that they stand behind."""


def updated(page: str) -> str:
    """The text of a page of docs/ with the tables that the registries give now."""
    text = (DOCS / page).read_text()
    return with_tables(text, {name: table() for name, table in TABLES[page].items()})


if __name__ == "__main__":
    for page in TABLES:
        (DOCS / page).write_text(updated(page))
