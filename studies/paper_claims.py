"""What the kept runs of `studies.paper_runs` say about the claims of Cornia 2022 and Wan 2022.

    python -m studies.paper_claims            the table of claims
    python -m studies.paper_claims write      put it, and the table of runs, into docs/results.md

A claim compares two captioners on the same images, each trained by several seeds (`studies.seed_comparison`); those
about robot frames are in `studies.robot_grounding`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from captrial.attribution.methods.registry import title_of
from captrial.files import atomic_write
from captrial.metrics.caption_statistics import repetition
from captrial.metrics.registry import column_title, scale_of
from captrial.papers.experiments import load_papers
from studies.data_paths import ROOT
from studies.paper_runs import (
    GROUNDING_METHODS,
    RESULTS,
    WAN,
    Run,
    read_captions,
    read_grounding,
    read_summaries,
    table,
)
from studies.paper_tables import captions_table, grounding_table
from studies.robot_grounding import camera_table, robot_claims, robot_table
from studies.seed_comparison import CLAIM_COLUMNS, Difference, claim_row, compare_runs

PAGE = ROOT / "docs" / "results.md"
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One side of a claim: one or several captioners, their features and stage, over all seeds there are."""

    captioners: tuple[str, ...]
    features: str
    stage: str

    def runs(self, kept: Sequence[Run]) -> list[list[Run]]:
        """The kept runs, by seed; seeds that not all of the captioners have are left out."""
        seeds = sorted({run.seed for run in kept})
        wanted = [[Run(name, self.features, self.stage, seed) for name in self.captioners] for seed in seeds]
        return [runs for runs in wanted if set(runs) <= set(kept)]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper: the first side scores more than the second; several captioners by their mean."""

    paper: str
    text: str
    first: Side
    second: Side
    printed: str = "–"  # the paper's numbers
    metric: str = "cider"  # a column of the kept captions, REPETITION, or GroundingScore by a method (`grounding_by`)
    images: tuple[str, ...] = ("flickr8k",)  # sets of `studies.paper_runs`


GROUNDED = "grounding/"


def grounding_by(method: str) -> str:
    """GroundingScore at delta 0 by an attribution method, as the metric of a claim; on COCO's human boxes."""
    return f"{GROUNDED}{method}"


REPETITION = "repetition"  # of captions without constraints: whether a word is there three or more times in a row
_TITLES = {"transformer": "Transformer", "smart": "SMArT", "m2": "M2"}
_STAGES = {"xe": "cross-entropy", "rl": "self-critical training"}


def _printed(features: str, captioner: str, column: str = "C") -> str:
    """A column (CIDEr) of Cornia 2022 Table 1, test split; all its captioners had self-critical training."""
    printed = load_papers()["cornia"].experiment("table-1").printed
    assert printed is not None
    place = {"regions": "regions", "grid": "ViT"}[features], _TITLES[captioner], "test"
    return next(row[printed.columns.index(column)] for row in printed.rows if row[:3] == place)


def claims() -> list[Claim]:
    """All claims, in the order of the papers' tables."""
    found = []
    for stage, named in _STAGES.items():
        for features in ("regions", "grid"):
            for first, second in (("smart", "transformer"), ("m2", "transformer"), ("m2", "smart")):
                text = f"{_TITLES[first]} scores more than {_TITLES[second]} on {features}, after {named}"
                numbers = f"{_printed(features, first)}, {_printed(features, second)}" if stage == "rl" else "–"
                sides = Side((first,), features, stage), Side((second,), features, stage)
                found.append(Claim("Cornia 2022 Table 1", text, *sides, numbers))
        for name in _TITLES:
            text = f"{_TITLES[name]} scores more on the grid than on regions, after {named}"
            numbers = f"{_printed('grid', name)}, {_printed('regions', name)}" if stage == "rl" else "–"
            sides = Side((name,), "grid", stage), Side((name,), "regions", stage)
            found.append(Claim("Cornia 2022 Table 1", text, *sides, numbers))
    return [*found, *_coverage(), *_grounding(), *_wan()]


def _coverage() -> list[Claim]:
    """ViT improves Coverage, they find; here the grid has its place."""
    return [
        Claim(
            "Cornia 2022 Table 1",
            f"{title} names more of what the references name on the grid than on regions, after self-critical training",
            Side((name,), "grid", "rl"),
            Side((name,), "regions", "rl"),
            f"{_printed('grid', name, 'Cov')}, {_printed('regions', name, 'Cov')}",
            "coverage",
        )
        for name, title in _TITLES.items()
    ]


def _grounding() -> list[Claim]:
    """Tables 2 and 3 at delta 0: SMArT and M2 against the Transformer, and regions against the grid."""
    found = []
    for method in GROUNDING_METHODS:
        shared = {"metric": grounding_by(method), "images": ("coco",)}
        title = title_of(method)
        for features in ("regions", "grid"):
            for name in ("smart", "m2"):
                text = f"{_TITLES[name]} is better grounded than Transformer on {features}, by {title}"
                numbers = (
                    f"{_printed_grounding(features, name, title)}, {_printed_grounding(features, 'transformer', title)}"
                )
                sides = Side((name,), features, "rl"), Side(("transformer",), features, "rl")
                found.append(Claim("Cornia 2022 Table 3", text, *sides, numbers, **shared))  # type: ignore[arg-type]
        text = f"The three are better grounded on regions than on the grid, by {title}"
        sides = Side(tuple(_TITLES), "regions", "rl"), Side(tuple(_TITLES), "grid", "rl")
        numbers = ", ".join(
            f"{np.mean([_printed_grounding(features, name, title) for name in _TITLES]):.2f}"
            for features in ("regions", "grid")
        )
        found.append(Claim("Cornia 2022 Table 3", text, *sides, numbers, **shared))  # type: ignore[arg-type]
    return found


def _printed_grounding(features: str, captioner: str, method: str) -> float:
    """GroundingScore at delta 0 of Cornia 2022 Table 3, test split, x100."""
    printed = load_papers()["cornia"].experiment("table-3").printed
    assert printed is not None
    place = {"regions": "regions", "grid": "ViT"}[features], _TITLES[captioner], method
    return next(float(row[3].rstrip("†")) for row in printed.rows if tuple(row[:3]) == place)


def _wan() -> list[Claim]:
    """Findings of Wan 2022 that compare captioners with each other, on both sets, after self-critical training."""

    def side(*names: str) -> Side:
        return Side(names, "regions", "rl")

    others = tuple(name for name in WAN if name != "ort")
    both = ("flickr8k", "coco")
    attending, recurrent = ("m2", "x_lan", "aoa"), ("att2in", "top_down", "disc")
    return [
        Claim(
            "Wan 2022 Fig. 9",
            "M2, X-LAN and AoANet (self-attention) score more than SCST, Top-Down and Disc",
            side(*attending),
            side(*recurrent),
            "ranks 1, 2, 3 against 8, 6, 7",
            images=both,
        ),
        Claim(
            "Wan 2022 Fig. 9",
            "Stack-Cap (several stages) scores more than Top-Down",
            side("stack_cap"),
            side("top_down"),
            "ranks 5, 6",
            images=both,
        ),
        Claim(
            "Wan 2022 Fig. 9",
            "The other eight score more than ORT on COCO, unlike the training data",
            side(*others),
            side("ort"),
            "ORT is last",
            images=("coco",),
        ),
        Claim(
            "Wan 2022 Fig. 12",
            "ORT repeats words more often than the other eight",
            side("ort"),
            side(*others),
            "six times as often",
            REPETITION,
            both,
        ),
        Claim(
            "Wan 2022 Fig. 12",
            "ORT without geometry repeats words more often than with it",
            side("ort-no-geometry"),
            side("ort"),
            "about 900 captions more",
            REPETITION,
            both,
        ),
    ]


def image_scores(run: Run, claim: Claim, results: Path) -> Array:
    """The metric of a claim for every image (n,) of its sets, in one order for all runs."""
    if claim.metric.startswith(GROUNDED):
        method = claim.metric.removeprefix(GROUNDED)
        rows = [row for row in read_grounding(run, results) if row["method"] == method]
        rows.sort(key=lambda row: row["image_id"])
        return np.array([float(row["score_0"]) for row in rows])
    rows = [row for row in read_captions(run, results) if row["set"] in claim.images]
    rows.sort(key=lambda row: (row["set"], row["image_id"]))
    if claim.metric == REPETITION:
        captions = [row["free_caption"] for row in rows]
        return repetition(captions, [[caption] for caption in captions]).per_image
    return np.array([float(row[claim.metric]) for row in rows])


def measure(claim: Claim, kept: Sequence[Run], results: Path = RESULTS) -> Difference | None:
    """The difference behind a claim; None where a side has no run yet."""
    sides = []
    for side in (claim.first, claim.second):
        scores = [np.mean([image_scores(run, claim, results) for run in runs], 0) for runs in side.runs(kept)]
        if not scores:
            return None
        sides.append(np.array(scores))
    first, second = sides
    return compare_runs(first, second)


def claims_table(results: Path = RESULTS) -> str:
    """Every claim with its verdict, effect, interval, seeds and the paper's numbers; Markdown."""
    kept = list(read_summaries(results))
    lines = [f"| {' | '.join(CLAIM_COLUMNS)} |", "| --- " * len(CLAIM_COLUMNS) + "|"]
    for claim in claims():
        name = "GroundingScore" if claim.metric.startswith(GROUNDED) else column_title(claim.metric)
        metric = (name, *scale_of(claim.metric))
        lines.append(claim_row(claim.paper, claim.text, measure(claim, kept, results), metric, claim.printed))
    return "\n".join([*lines, *robot_claims()])


def sections(results: Path = RESULTS) -> dict[str, str]:
    """The parts of docs/results.md that are made here, by the name of their marks."""
    return {
        "runs": table(results),
        "cornia table 1": captions_table(results),
        "cornia table 3": grounding_table(results),
        "cornia table 4": robot_table(),
        "cornia table 4 by camera": camera_table(),
        "claims": claims_table(results),
    }


def replace_sections(page: str, parts: Mapping[str, str]) -> str:
    """A page with new text between `<!-- NAME -->` and `<!-- end NAME -->`.

    >>> replace_sections("<!-- a -->\\nold\\n<!-- end a -->", {"a": "new"})
    '<!-- a -->\\nnew\\n<!-- end a -->'
    """
    for name, text in parts.items():
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"\n<!-- end {name} -->")
        if not end:
            raise SystemExit(f"{PAGE}: has no <!-- {name} --> ... <!-- end {name} -->; put the marks back")
        page = f"{before}<!-- {name} -->\n{text}{end}{after}"
    return page


def main() -> None:
    """Print the claims, or write the page's sections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("show", "write"), default="show")
    if parser.parse_args().command == "show":
        print(claims_table())
    else:
        atomic_write(PAGE, replace_sections(PAGE.read_text(), sections()))


if __name__ == "__main__":
    main()
