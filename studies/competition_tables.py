"""The tables of docs/competition.md from the results of the studies of competitions.

python -m studies.competition_tables
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from studies.competition_scores import read_results
from studies.competition_stop import ARMS

DESIGNS = {
    "eq7": "discrepancy, Eq. 7",
    "selected": "discrepancy, all labels for all",
    "random": "random",
    "weighted": "weighted, pool",
    "weighted, all": "weighted, plain mean",
    "hybrid": "hybrid, pool",
    "hybrid, all": "hybrid, plain mean",
}
CONFIRMED = ("weighted", "weighted, all", "hybrid", "hybrid, all")  # compared with random images, pair by pair


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}%"


def coverage(found: dict[str, Any]) -> str:
    """Coverage and width of the intervals, by target and number of labels."""
    rows = []
    for row in found["coverage"]:
        cells = [row["target"], row["labels"]]
        for kind in ("pairs", "scores", "ranks"):
            width = row[f"{kind}_width"]
            cells += [percent(row[f"{kind}_coverage"]), "–" if width is None else f"{width:.2f}"]
        rows.append([*cells, percent(row["scores_given"], 0)])
    return table(["target", "labels", "pairs", "width", "scores", "width", "ranks", "width", "scores given"], rows)


def adding(found: dict[str, Any]) -> str:
    """What a newcomer's pool score is worth before it has labels of its own."""
    bias = f"{found['bias']:+.4f} ± {1.96 * found['bias_standard_error']:.4f}"
    cells = [found["draws"], bias, percent(found["covered"]), f"{found['median_width_ratio']:.2f}"]
    return table(["draws", "mean error, CIDEr", "inside the interval", "width, of random labels"], [cells])


def designs(found: dict[str, Any]) -> str:
    """Winner and order, by design."""
    rows = [
        [row["models"], row["k"], f"{row['labels']:.0f}"]
        + [f"{percent(row[f'{name}_winner'], 0)} {row[f'{name}_srcc']:.2f}" for name in DESIGNS]
        for row in found["rows"]
    ]
    return table(["models", "k", "labels", *DESIGNS.values()], rows)


def confirmation(found: dict[str, Any]) -> str:
    """How many points more often the designs name the winner than random images, by cell and over all k."""
    rows = []
    for models in dict.fromkeys(row["models"] for row in found["rows"]):
        own = [row for row in found["rows"] if row["models"] == models]
        mean: dict[str, Any] = {"models": models, "k": "all"}
        for name in ("labels", "random_winner", *(f"{name}_wins_more" for name in CONFIRMED)):
            mean[name] = sum(row[name] for row in own) / len(own)
        for name in CONFIRMED:  # competitions of different k are drawn independently
            mean[f"{name}_wins_more_se"] = sum(row[f"{name}_wins_more_se"] ** 2 for row in own) ** 0.5 / len(own)
        rows += [*own, mean]
    cells = []
    for row in rows:
        more = [
            f"{100 * row[f'{name}_wins_more']:+.1f} ± {196 * row[f'{name}_wins_more_se']:.1f}" for name in CONFIRMED
        ]
        cells.append([row["models"], row["k"], f"{row['labels']:.0f}", percent(row["random_winner"]), *more])
    return table(["models", "k", "labels", "random", *(DESIGNS[name] for name in CONFIRMED)], cells)


def stop(found: dict[str, Any]) -> str:
    """Errors of the stop, and labels until it."""
    rows = []
    for row in sorted(found["rows"], key=lambda row: row["models"]):
        errors = [percent(row[f"{arm}_error"]) for arm in ARMS]
        labels = [f"{row[f'{arm}_labels']:.0f}" for arm in ARMS]
        ratios = [
            f"{row[f'ratio_of_{arm}']:.3f} ± {1.96 * row[f'ratio_standard_error_of_{arm}']:.3f}" for arm in ARMS[:2]
        ]
        medians = [f"{row[f'median_ratio_of_{arm}']:.2f}" for arm in ARMS[:2]]
        rows.append([row["models"], row["replays"], " / ".join(errors), *labels, *ratios, " / ".join(medians)])
    arms = ["labels, random", "random, control variates", "weighted"]
    return table(["models", "replays", "errors, all three", *arms, "ratio to random", "to both", "median ratios"], rows)


def plain(found: dict[str, Any]) -> str:
    """The usual rule on random images, and the weighted sample's labels by it."""
    rows = [
        [row["models"], row["replays"], percent(row["error"]), f"{row['labels']:.0f}", _ratio(row)]
        for row in sorted(found["rows"], key=lambda row: row["models"])
    ]
    return table(["models", "replays", "errors", "labels, random, usual rule", "weighted to it"], rows)


def _ratio(row: dict[str, float]) -> str:
    return f"{row['ratio']:.3f} ± {1.96 * row['ratio_standard_error']:.3f}"


def tied(found: dict[str, Any]) -> str:
    """How often one of several models that are equally good is ever put out."""
    rows = [
        [row["models"], row["replays"], percent(row["random_error"]), percent(row["weighted_error"])]
        for row in found["rows"]
    ]
    return table(["models", "replays", "put out, random", "put out, weighted"], rows)


def skewed(found: dict[str, Any]) -> str:
    """How often one of two equally good models is put out, where differences are far from normal."""
    rows = [[row["world"], row["replays"], percent(row["error"])] for row in found["rows"]]
    return table(["differences", "replays", "put out"], rows)


def page_tables() -> dict[str, str]:
    """Every table of the page, by name."""
    covered = read_results("coverage_cider")
    return {
        "coverage": coverage(covered),
        "add": adding(covered["add"]),
        "designs": designs(read_results("designs_cider")),
        "designs on the other half": confirmation(read_results("designs_cider_half1")),
        "stop": stop(read_results("stop_cider")),
        "stop, usual rule": plain(read_results("stop_cider_plain")),
        "stop, tied models": tied(read_results("stop_cider_tied")),
        "stop, skewed differences": skewed(read_results("stop_cider_skewed")),
        "stop by meaning": stop(read_results("stop_semantic")),
    }


def main() -> None:
    for name, found in page_tables().items():
        print(f"\n{name}\n\n{found}")


if __name__ == "__main__":
    main()
