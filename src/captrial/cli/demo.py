"""`captrial demo`: train, rank, ground and explain captioners on rendered images, offline, in a few minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import console, hold_folder, print_table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for all results of the demonstration.")] = Path("demo"),
) -> None:
    """Render a toy world, train five captioners on it, rank and analyse them, and write one page."""
    from captrial.demo import Demo
    from captrial.metrics.registry import column_title

    hold_folder(out)
    started = time.monotonic()
    made = Demo(out, lambda text: console.print(f"[{time.monotonic() - started:5.1f} s]", text, markup=False))
    result = made.run()
    rows = [
        (
            row["rank"],
            row["model"],
            row["score"],
            "–" if row["rank_low"] is None else f"{row['rank_low']}-{row['rank_high']}",
            "–" if row["first"] is None else f"{row['first']:.0%}",
        )
        for row in result["ranking"]
    ]
    labels = result["labels"]
    notes = [
        f"{labels['people']} simulated annotators labelled {labels['images']} images over HTTP: {labels['refs']:.2f} "
        f"captions per image kept, {labels['discarded']} discarded",
        f"reused from the last run: {', '.join(made.steps.reused)}" if made.steps.reused else "all steps were run",
        f"{time.monotonic() - started:.0f} s; open {result['report']}",
    ]
    print_table("which captioner is best?", ["rank", "captioner", "score", "95% ranks", "first in"], rows)
    console.print(result["conclusion"], style="bold", soft_wrap=True, markup=False)
    checked = [
        (row["captioner"], f"{100 * row['cider']:.1f}", _percent(row["there"]), _percent(row["by_chance"]))
        for row in sorted(result["quality"], key=lambda row: -row["cider"])
    ]
    print_table(
        "all captions of the wild images, checked against what is in them",
        ["captioner", column_title("cider"), "objects that are there", "by chance"],
        checked,
        [f"on photographs: {result['photographs']}", *notes],
    )


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
