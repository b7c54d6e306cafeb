"""Tables 1 and 3 of Cornia 2022 from the kept runs of `studies.paper_runs`, the paper's numbers beside ours.

python -m studies.paper_tables            both tables
python -m studies.paper_claims write      puts them into docs/results.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from captrial.attribution.methods.registry import title_of
from captrial.captioners.registry import ARCHITECTURES
from captrial.grounding.baselines import NULLS, skill
from captrial.metrics.registry import scale_of
from captrial.papers.cornia2022 import QUALITY
from captrial.papers.experiments import load_papers
from studies.paper_runs import CORNIA, GROUNDING_METHODS, RESULTS, Run, read_grounding, read_summaries

STAGES = {"xe": "XE", "rl": "XE + RL"}
FEATURES = {"regions": "regions", "grid": "ViT"}  # ours: the paper's
Array = NDArray[np.float64]


def groups(kept: Sequence[Run]) -> dict[tuple[str, str, str], list[Run]]:
    """The short runs of the three captioners, all seeds of one together, by features, stage and captioner."""
    wanted = [(features, stage, name) for features in FEATURES for stage in STAGES for name in CORNIA]
    found = {
        key: [run for run in kept if (run.features, run.stage, run.captioner, run.length) == (*key, "short")]
        for key in wanted
    }
    return {key: runs for key, runs in found.items() if runs}


def captions_table(results: Path = RESULTS) -> str:
    """Table 1: every metric on Flickr8k's test photographs, mean over seeds ± their standard deviation; Markdown."""
    summaries = read_summaries(results)
    lines = [f"| features | model | training | seeds | {' | '.join(QUALITY)} | C in the paper |"]
    lines.append("| --- " * (len(QUALITY) + 5) + "|")
    for (features, stage, name), runs in groups(list(summaries)).items():
        scores, title = [summaries[run]["scores"]["flickr8k"] for run in runs], ARCHITECTURES[name].title
        cells = [_over_seeds([values[column] for values in scores], column) for column in QUALITY.values()]
        printed = _printed("table-1", (FEATURES[features], title, "test"), "C") if stage == "rl" else "–"
        lines.append(f"| {' | '.join([features, title, STAGES[stage], str(len(runs)), *cells, printed])} |")
    return "\n".join(lines)


def grounding_table(results: Path = RESULTS) -> str:
    """Table 3: GroundingScore on COCO's human boxes by method, beside null models, and skill over the best of them."""
    columns = ["features", "model", "method", "seeds", "δ=0", "δ=∞", "checkable, δ=0", *NULLS]
    columns += ["skill over the best null", "δ=0 in the paper"]
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for (features, stage, name), runs in groups(list(read_summaries(results))).items():
        for method in GROUNDING_METHODS if stage == "rl" else ():
            found, title = _mean_scores(runs, method, results), ARCHITECTURES[name].title
            nulls = {null: float(np.nanmean(found[f"null_{null}"])) for null in NULLS}
            best = max(nulls, key=lambda null: nulls[null])
            gain = skill(found["score_0"], found[f"null_{best}"], list(range(len(found["score_0"]))))
            shown = [f"{100 * np.nanmean(found[column]):.1f}" for column in ("score_0", "score_∞", "checkable_0")]
            shown += [f"{100 * value:.1f}" for value in nulls.values()]
            over = f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] ({best})"
            printed = _printed("table-3", (FEATURES[features], title, title_of(method)), "δ=0")
            row = [features, title, title_of(method), str(len(runs)), *shown, over, printed]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _over_seeds(values: Sequence[float], column: str) -> str:
    factor, decimals = scale_of(column)
    mean = f"{factor * float(np.mean(values)):.{decimals}f}"
    return mean if len(values) < 2 else f"{mean} ± {factor * float(np.std(values, ddof=1)):.{decimals}f}"


def _mean_scores(runs: Sequence[Run], method: str, results: Path) -> Mapping[str, Array]:
    """Every column of the kept GroundingScores (images,), the mean over seeds; NaN where no seed has a score."""
    tables = []
    for run in runs:
        rows = [row for row in read_grounding(run, results) if row["method"] == method]
        rows.sort(key=lambda row: row["image_id"])
        names = [name for name in rows[0] if name not in ("method", "image_id")]
        tables.append({name: np.array([float(row[name]) for row in rows]) for name in names})
    stacked = {name: np.stack([table[name] for table in tables]) for name in tables[0]}
    counts = {name: (~np.isnan(values)).sum(0) for name, values in stacked.items()}
    return {
        name: np.where(counts[name] > 0, np.nansum(values, 0) / np.maximum(counts[name], 1), np.nan)
        for name, values in stacked.items()
    }


def _printed(experiment: str, row: tuple[str, ...], column: str) -> str:
    printed = load_papers()["cornia"].experiment(experiment).printed
    assert printed is not None
    return next(str(line[printed.columns.index(column)]) for line in printed.rows if tuple(line[:3]) == row)


def main() -> None:
    """Print both tables."""
    print(captions_table())
    print()
    print(grounding_table())


if __name__ == "__main__":
    main()
