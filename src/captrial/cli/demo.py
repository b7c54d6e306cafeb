"""`captrial demo`: a whole trial on rendered pictures, offline, in a few minutes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from captrial.cli.output import console, print_table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything the demonstration makes.")] = Path("demo"),
) -> None:
    """Render a toy world, let four speakers with known faults compete, have simulated people label, rank, report."""
    from captrial.demo import SPEAKERS, Demo

    started = time.monotonic()
    made = Demo(out, lambda text: console.print(f"[{time.monotonic() - started:5.1f} s]", text, markup=False))
    result = made.run()
    faults = {speaker.name: f"{speaker.mistakes:.0%} wrong, {speaker.forgets:.0%} cut" for speaker in SPEAKERS}
    rows = [
        (row["rank"], row["model"], row["score"], f"{row['rank_low']}-{row['rank_high']}", faults[row["model"]])
        for row in result["ranking"]
    ]
    labels = result["labels"]
    notes = [
        f"{labels['people']} simulated people labelled {labels['pictures']} pictures over HTTP: {labels['refs']:.2f} "
        f"sentences a picture stand, {labels['discarded']} were discarded",
        f"reused from the last run: {', '.join(made.reused)}" if made.reused else "everything was made in this run",
        f"open {result['report']} for the dominance matrix, the ranking with intervals and the gallery",
    ]
    print_table("who speaks best?", ["rank", "speaker", "score", "95% of ranks", "its real faults"], rows, notes)
