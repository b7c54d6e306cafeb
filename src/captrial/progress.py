"""Progress bars for long work: on stderr, with rate and time left, silent where nobody watches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

T = TypeVar("T")


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Progress]:
    """A rich progress display with our columns; use `.add_task` and `.advance` on it. `quiet` shows nothing."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        yield bar


def track(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Go through `items` behind a progress bar.

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
