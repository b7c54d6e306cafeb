"""Consoles that texts of others cannot steer, and progress bars on stderr, which are shown in terminals only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

T = TypeVar("T")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines
_shown: list[Progress] = []  # the display on the terminal, at most one


class SafeConsole(Console):
    """A console on which texts of others (captions, ids, answers of endpoints) cannot steer the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, with `?` for control characters, of which escape sequences are made."""
        for segment in super().render(renderable, options):
            if segment.control or not _CONTROL.search(segment.text):
                yield segment
            else:
                yield Segment(_CONTROL.sub("?", segment.text), segment.style)


class RateColumn(ProgressColumn):
    """Items per second, or seconds per item for slow work, over the last half minute."""

    def render(self, task: Task) -> Text:
        """The rate of a task: `12.5/s`, `3.2 s each`; empty before the first items."""
        return Text(rate(task.finished_speed or task.speed), style="progress.data.speed")


def rate(speed: float | None) -> str:
    """Format a rate in items per second.

    >>> rate(1234.5), rate(12.5), rate(0.25), rate(None)
    ('1,234/s', '12.5/s', '4.0 s each', '')
    """
    if not speed:
        return ""
    if speed < 1:
        return f"{1 / speed:,.1f} s each"
    return f"{speed:,.1f}/s" if speed < 100 else f"{speed:,.0f}/s"


@contextmanager
def progress_bar(hidden: bool = False) -> Iterator[Progress]:
    """A rich progress display; use `.add_task` and `.advance` on it. With `hidden`, nothing is shown.

    Inside another one, its tasks are lines of that one until the end of the `with` block.
    """
    if _shown and not hidden:
        with _lines_of(_shown[-1]) as bar:
            yield bar
        return
    console = SafeConsole(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal) as bar:
        if hidden:
            yield bar
            return
        _shown.append(bar)
        try:
            yield bar
        finally:
            _shown.remove(bar)


@contextmanager
def _lines_of(bar: Progress) -> Iterator[Progress]:
    before = set(bar.task_ids)
    try:
        yield bar
    finally:
        for task in set(bar.task_ids) - before:
            bar.remove_task(task)


def say(text: str) -> None:
    """Print a line on stderr, above a progress bar; nothing where stderr is not a terminal."""
    console = _shown[-1].console if _shown else SafeConsole(stderr=True)
    if console.is_terminal:
        console.print(text, style="dim", highlight=False, markup=False)


def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Iterate over `items` with a progress bar labelled `what`.

    >>> sum(track([1, 2, 3], "adding"))
    6
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress_bar() as bar:
        task = bar.add_task(what, total=total)
        for item in items:
            yield item
            bar.advance(task)
