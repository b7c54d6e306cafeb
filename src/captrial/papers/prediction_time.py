"""Prediction time against batch size (Cornia 2022 Fig. 2): decoding alone, features given."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np
import torch
from matplotlib.axes import Axes

from captrial.captioners.trained import generate
from captrial.papers.study_captioners import StudyCaptioner
from captrial.report.charts import COLOURS, GRID, Chart, draw

STYLES = ("o-", "s--", "^:", "D-.")  # with colours, twenty lines that are told apart, some without colours too
TITLE = "Here: seconds a batch, mean and standard deviation"


@dataclass(frozen=True)
class Timing:
    """Seconds that batches of one size took."""

    name: str
    batch: int
    seconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self.seconds))

    @property
    def spread(self) -> float:
        """Their standard deviation (n - 1)."""
        return float(np.std(self.seconds, ddof=1)) if len(self.seconds) > 1 else 0.0


@torch.inference_mode()
def time_batches(
    study: StudyCaptioner, ids: Sequence[str], batches: Sequence[int], repeats: int, beam: int
) -> list[Timing]:
    """Caption batches of every size, after one to warm up; where images are few, they are taken again."""
    captioner, vocabulary = study.checkpoint.captioner, study.checkpoint.vocabulary
    device = next(captioner.parameters()).device
    found = []
    for batch in batches:
        features = study.store.get(list(islice(cycle(ids), batch))).to(device)
        spent = []
        for _ in range(repeats + 1):
            start = clock()
            generate(captioner, vocabulary, captioner.encode(features), beam)
            spent.append(clock() - start)
        found.append(Timing(study.name, batch, tuple(spent[1:])))
    return found


def clock() -> float:
    """Seconds; on one thread those of the processor, which other work on the machine disturbs less."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def timing_chart(timings: Sequence[Timing]) -> Chart:
    """Seconds against batch size, a line a captioner with a band of one standard deviation."""
    names = list(dict.fromkeys(timing.name for timing in timings))

    def paint(axes: Axes) -> None:
        for number, name in enumerate(names):
            colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
            own = [timing for timing in timings if timing.name == name]
            x, mean, spread = (np.array([getattr(t, part) for t in own]) for part in ("batch", "mean", "spread"))
            axes.plot(x, mean, style, color=colour, markersize=4, linewidth=1.6, label=name)
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
        axes.set_xlabel("batch size")
        axes.set_ylabel("seconds a batch")
        axes.set_ylim(bottom=0)
        axes.grid(color=GRID)
        axes.set_axisbelow(True)

    rows = tuple((timing.name, timing.batch, timing.mean, timing.spread) for timing in timings)
    svg = draw((5.6, 3.4), paint, legend=min(3, len(names)))
    return Chart("time", TITLE, svg, ("model", "batch", "mean", "standard deviation"), rows)
