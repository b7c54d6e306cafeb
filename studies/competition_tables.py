"""The tables of docs/competition.md from the results of the studies of competitions.

python -m studies.competition_tables [--metric cider]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from studies.competition_scores import read_results
from studies.competition_stop import ARMS

DESIGNS = {
    "eq7": "discrepancy, Eq. 7",
    "selected": "discrepancy, all labels for all",
    "random": "random",
    "weighted": "weighted, pool",
    "hybrid": "hybrid, pool",
    "hybrid, all": "hybrid, plain mean",
}


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}%"


def coverage(found: dict[str, Any]) -> None:
    rows = []
    for row in found["coverage"]:
        cells = [row["target"], row["labels"]]
        for kind in ("pairs", "scores", "ranks"):
            width = row[f"{kind}_width"]
            cells += [percent(row[f"{kind}_coverage"]), "–" if width is None else f"{width:.2f}"]
        rows.append([*cells, percent(row["scores_given"], 0)])
    print(table(["target", "labels", "pairs", "width", "scores", "width", "ranks", "width", "scores given"], rows))
    print(f"\n{found['add']}\n")


def designs(found: dict[str, Any]) -> None:
    rows = [
        [row["models"], row["k"], f"{row['labels']:.0f}"]
        + [f"{percent(row[f'{name}_winner'], 0)} {row[f'{name}_srcc']:.2f}" for name in DESIGNS]
        for row in found["rows"]
    ]
    print(table(["models", "k", "labels", *DESIGNS.values()], rows), "\n")


def stop(found: dict[str, Any]) -> None:
    rows = []
    for row in found["rows"]:
        errors = [percent(row[f"{arm}_error"]) for arm in ARMS]
        labels = [f"{row[f'{arm}_labels']:.0f}" for arm in ARMS]
        ratios = [
            f"{row[f'ratio_of_{arm}']:.2f} ± {1.96 * row[f'ratio_standard_error_of_{arm}']:.2f}" for arm in ARMS[:2]
        ]
        medians = [f"{row[f'median_ratio_of_{arm}']:.2f}" for arm in ARMS[:2]]
        rows.append([row["models"], row["replays"], " / ".join(errors), *labels, *ratios, " / ".join(medians)])
    arms = ["labels, random", "random, control variates", "weighted"]
    print(table(["models", "replays", "errors", *arms, "ratio to random", "to both", "median ratios"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--metric", default="cider")
    metric = parser.parse_args().metric
    for name, show in (("coverage", coverage), ("designs", designs), ("stop", stop)):
        found = read_results(f"{name}_{metric}")
        if found is not None:
            show(found)


if __name__ == "__main__":
    main()
