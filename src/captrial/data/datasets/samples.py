"""Operations on samples: selecting splits, joining two data sets, missing image files, problems, counts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from captrial.errors import DatasetError
from captrial.records import Region, Sample

ALIGNED = ("iscrowd", "segmentations")  # extras of COCO that have one entry a region


def select_split(samples: list[Sample], split: str | None, source: Path | str) -> list[Sample]:
    """The samples of a split, or of several (`"train+restval"`); a split that does not exist is a `DatasetError`."""
    if split is None:
        return samples
    wanted = set(split.split("+"))
    present = Counter(sample.split for sample in samples if sample.split is not None)
    missing = sorted(wanted - set(present))
    if missing:
        known = ", ".join(f"{name} ({count})" for name, count in sorted(present.items())) or "no splits at all"
        raise DatasetError(f"{source}: no split {missing[0]!r}; it has {known}")
    return [sample for sample in samples if sample.split in wanted]


def reject_duplicates(samples: Iterable[Sample], source: Path | str) -> None:
    """Raise a `DatasetError` if two samples share an id."""
    first: dict[str, int] = {}
    for index, sample in enumerate(samples):
        if first.setdefault(sample.id, index) != index:
            raise DatasetError(f"{source}: images {first[sample.id]} and {index} share the id {sample.id!r}; keep one")


def join(samples: Iterable[Sample], others: Iterable[Sample]) -> list[Sample]:
    """`samples` with the regions and extras of `others` with the same ids (e.g. captions with boxes).

    A sample without a counterpart stays unchanged. An extra that both have must be equal, except `"problems"`, which
    are concatenated. Ids that are only in `others` are an error, because their boxes would be lost.
    """
    more = {sample.id: sample for sample in others}
    joined = [_join_one(sample, more.pop(sample.id)) if sample.id in more else sample for sample in samples]
    if more:
        raise DatasetError(f"{len(more)} ids have boxes and no sample, the first {next(iter(more))!r}")
    return joined


def _join_one(sample: Sample, other: Sample) -> Sample:
    extra = {**sample.extra}
    for key, value in other.extra.items():
        if key == "problems":
            extra[key] = (*problems([sample]), *problems([other]))
        elif extra.setdefault(key, value) != value:
            raise DatasetError(f"image {sample.id!r}: the two data sets disagree on {key!r}")
    return replace(sample, regions=sample.regions + other.regions, extra=extra)


def replace_regions(sample: Sample, regions: Sequence[Region], extra: Mapping[str, object] | None = None) -> Sample:
    """The sample with other regions, with `extra` added, and without what was aligned with the regions it had."""
    kept = {name: value for name, value in sample.extra.items() if name not in ALIGNED}
    return replace(sample, regions=tuple(regions), extra={**kept, **(extra or {})})


def problems(samples: Iterable[Sample]) -> list[str]:
    """Messages about data that the readers left out or could not read; empty for a clean data set."""
    found: list[str] = []
    for sample in samples:
        listed = sample.extra.get("problems", ())
        found += [str(text) for text in listed] if isinstance(listed, tuple | list) else []
        if "error" in sample.extra:
            found.append(str(sample.extra["error"]))
    return found


def present(samples: Iterable[Sample]) -> list[Sample]:
    """The samples whose image file exists (annotations often cover more images than were downloaded)."""
    names: dict[Path, set[str]] = {}

    def exists(path: Path | None) -> bool:
        if path is None:
            return False
        if path.parent not in names:  # listing a folder once is much faster than checking every file
            names[path.parent] = {entry.name for entry in os.scandir(path.parent)} if path.parent.is_dir() else set()
        return path.name in names[path.parent]

    return [sample for sample in samples if exists(sample.image.path)]


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """Counts of what a data set contains, by split."""

    COLUMNS: ClassVar[tuple[str, ...]] = ("images", "files there", "captions", "regions", "phrases", "classes")

    samples: Sequence[Sample]

    def rows(self) -> list[tuple[object, ...]]:
        """A row of counts per split, in order of appearance, and one for all if there are several splits."""
        splits = list(dict.fromkeys(sample.split for sample in self.samples))
        rows = [(split or "–", *_counts([one for one in self.samples if one.split == split])) for split in splits]
        return [*rows, ("all", *_counts(self.samples))] if len(splits) != 1 else list(rows)

    def document(self) -> dict[str, object]:
        """The rows and the problems of the samples as a JSON document."""
        rows = [dict(zip(("split", *self.COLUMNS), row, strict=True)) for row in self.rows()]
        return {"splits": rows, "problems": problems(self.samples)}


def _counts(samples: Sequence[Sample]) -> tuple[int, ...]:
    labels = {region.label for sample in samples for region in sample.regions if region.label}
    labels |= {sample.image.label for sample in samples if sample.image.label}
    inside = sum("image" in sample.extra for sample in samples)  # the samples of shards contain their images
    return (
        len(samples),
        len(present(samples)) + inside,
        sum(len(sample.captions) for sample in samples),
        sum(len(sample.regions) for sample in samples),
        sum(len(phrases) for sample in samples for phrases in sample.phrases),
        len(labels),
    )
