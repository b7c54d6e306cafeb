"""What a caption file held, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST_CASES = 5  # how many cases of a problem are named; the rest are counted

# What each kind of problem is called in a report: one case, several cases, and what was done with the rows.
WORDING = {
    "incomplete": ("row without an id or a caption", "rows without an id or a caption", "left out"),
    "wrong type": ("row of a wrong type", "rows of a wrong type", "left out"),
    "bad utf-8": ("row that is not valid UTF-8", "rows that are not valid UTF-8", "left out"),
    "duplicate": ("repeated row", "repeated rows", "kept once"),
    "empty": ("empty caption", "empty captions", "kept"),
    "unknown id": ("unknown id", "unknown ids", "left out"),
    "missing": ("image without a caption", "images without a caption", ""),
}


@dataclass(frozen=True, slots=True)
class CaptionProblem:
    """One kind of trouble in a caption file: how often, and the first cases by line or entry and id.

    Kinds: `incomplete`, `wrong type`, `bad utf-8`, `unknown id` (such rows are left out), `duplicate` (the same caption
    twice for an id: kept once), `empty` (kept as ""), `missing` (a known id that has no caption).
    """

    kind: str
    count: int
    first: tuple[str, ...]

    def __str__(self) -> str:
        one, several, fate = WORDING[self.kind]
        cases = "; ".join(self.first) + ("; ..." if self.count > len(self.first) else "")
        return f"{self.count} {one if self.count == 1 else several}{f', {fate}' if fate else ''} ({cases})"


@dataclass(frozen=True, slots=True)
class CaptionSet:
    """One caption an id, in file order: `texts[n]` is the caption of image `ids[n]`."""

    source: str
    ids: list[str]
    texts: list[str]
    problems: tuple[CaptionProblem, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def to_dict(self) -> dict[str, str]:
        """Id to caption, in file order."""
        return dict(zip(self.ids, self.texts, strict=True))

    def report(self) -> str:
        """What was read, and every problem with its first cases, as sentences.

        >>> CaptionSet("a.json", ["7"], [""], (CaptionProblem("empty", 1, ("entry 1 (id 7)",)),)).report()
        'a.json: 1 caption. 1 empty caption, kept (entry 1 (id 7)).'
        """
        found = f"{self.source}: {len(self)} caption{'' if len(self) == 1 else 's'}."
        return " ".join([found, *(f"{problem}." for problem in self.problems)])


@dataclass(slots=True)
class ProblemLog:
    """Collects cases by kind: every one is counted, the first few are kept."""

    counts: dict[str, int] = field(default_factory=dict)
    cases: dict[str, list[str]] = field(default_factory=dict)

    def wants(self, kind: str) -> bool:
        """Whether another case of this kind would be kept, so that its words are worth composing."""
        return len(self.cases.get(kind, ())) < FIRST_CASES

    def add(self, kind: str, case: str = "") -> None:
        """Count a case, and keep its words if it is among the first."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if case and self.wants(kind):
            self.cases.setdefault(kind, []).append(case)

    def add_all(self, kind: str, cases: Iterable[str]) -> None:
        """Count several cases of one kind."""
        for case in cases:
            self.add(kind, case)

    def problems(self) -> tuple[CaptionProblem, ...]:
        """What was collected, in the order of `WORDING`."""
        return tuple(
            CaptionProblem(kind, self.counts[kind], tuple(self.cases.get(kind, ())))
            for kind in WORDING
            if kind in self.counts
        )
