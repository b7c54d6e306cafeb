"""What a data set holds, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from captrial.data.datasets.common import present, problems
from captrial.data.datasets.registry import Found, detect, read_dataset
from captrial.records import Sample


@dataclass(frozen=True, slots=True)
class Summary:
    """A data set that was read, and counts of what is in it."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("images", "files there", "captions", "regions", "phrases", "classes")

    found: Found
    samples: list[Sample]

    @property
    def problems(self) -> list[str]:
        """What the reader had to leave out."""
        return problems(self.samples)

    def rows(self) -> list[tuple[object, ...]]:
        """A row of counts for each split, in the order they come, and one for all if there are several."""
        splits = list(dict.fromkeys(sample.split for sample in self.samples))
        rows = [(split or "–", *_counts([one for one in self.samples if one.split == split])) for split in splits]
        return [*rows, ("all", *_counts(self.samples))] if len(splits) != 1 else list(rows)

    def document(self) -> dict[str, object]:
        """The same for machines."""
        rows = [dict(zip(("split", *self.COLUMNS), row, strict=True)) for row in self.rows()]
        return {"form": self.found.form, "path": str(self.found.path), "splits": rows, "problems": self.problems}


def summarise(
    path: Path | str, *, split: str | None = None, images: Path | str | None = None, form: str | None = None
) -> Summary:
    """Read a data set and count what it holds."""
    found = detect(path) if form is None else Found(form, Path(path))
    return Summary(found, read_dataset(found.path, split=split, images=images, form=form or found.form))


def _counts(samples: Sequence[Sample]) -> tuple[int, ...]:
    labels = {region.label for sample in samples for region in sample.regions if region.label}
    labels |= {sample.image.label for sample in samples if sample.image.label}
    inside = sum("image" in sample.extra for sample in samples)  # shards bring their images along
    return (
        len(samples),
        len(present(samples)) + inside,
        sum(len(sample.captions) for sample in samples),
        sum(len(sample.regions) for sample in samples),
        sum(len(phrases) for sample in samples for phrases in sample.phrases),
        len(labels),
    )
