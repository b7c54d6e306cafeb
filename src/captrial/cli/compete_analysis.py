"""`captrial compete stability`, `repetition`, `flip`, `plan` and `statistics`: analyses beside the ranking."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from captrial.cli.options import Directory, IgnoreChanges, MetricName, References, Split, open_competition
from captrial.cli.output import JsonFlag, console, print_json, print_table


def stability(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Is k large enough? Rank correlation of the top-k ranking with the full one, k = 5, 6, ... (SRCC)."""
    from captrial.compete.analysis.stability import measure_stability

    competition = open_competition(directory, ignore_changes)
    scorer = competition.labelled_scorer(competition.labels(references, split))
    found = measure_stability(lambda k: scorer.score(metric, k))
    if json:
        print_json({"metric": metric, "k": found.k, "srcc": found.srcc, "settled": found.settled(), "weak": found.weak})
        return
    rows = [[k, value] for k, value in zip(found.k, found.srcc, strict=True) if k % 5 == 0 or k == found.k[-1]]
    notes = [f"above 0.9 from k = {found.settled()} on" if found.settled() else "never above 0.9 for good"]
    if not found.k:
        notes = ["the pairs have fewer than 5 images each"]
    if found.weak:
        notes.append(f"with {found.models} models a rank correlation carries little information")
    print_table(f"SRCC of the top-k ranking, {metric}", ["k", "SRCC"], rows, notes)


def repetition(directory: Directory, json: JsonFlag = False) -> None:
    """Find captions in which one word stands three or more times in a row, by model and word."""
    from captrial.compete.analysis.repetition import find_repetition
    from captrial.progress import progress_bar

    competition = open_competition(directory, ignore_changes=True)
    with progress_bar() as bar:
        task = bar.add_task("reading captions", total=competition.pool.blocks)
        found = find_repetition(competition.pool, progress=lambda: bar.advance(task))
    if json:
        print_json([{**asdict(part), "share": part.share} for part in found])
        return
    rows = [
        [
            part.model,
            part.repeated,
            f"{part.share:.3%}",
            len(part.words),
            ", ".join(f"{word} ({count})" for word, count in list(part.words.items())[:5]),
        ]
        for part in found
    ]
    columns = ["model", "captions", "share", "different words", "most frequent"]
    print_table(f"repetition in {competition.manifest.image_count} captions a model", columns, rows)


def flip(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """The fewest images whose removal changes the winner: exact for one and two, an upper bound beyond."""
    from captrial.compete.analysis.flip import flip_report

    competition = open_competition(directory, ignore_changes)
    scorer = competition.labelled_scorer(competition.labels(references, split))
    found = flip_report(scorer.score(metric))
    if json:
        print_json({"metric": metric, **asdict(found)})
        return
    rows = [[image, margin] for image, margin in found.influential]
    notes = [f"the winner's score is {found.margin:.4g} times the second's with all images"]
    print_table(f"most influential images, {metric}", ["image", "margin without it"], rows, notes)
    console.print(found.summary(), soft_wrap=True, markup=False)
    if found.removed:
        console.print(f"  {', '.join(found.removed)}", style="dim", soft_wrap=True, markup=False)


def plan(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    goal: Annotated[str, typer.Option(help="winner: who is first; order: every model's place.")] = "winner",
    target: Annotated[float, typer.Option(min=0.0, max=0.5, help="Risk that is acceptable.")] = 0.05,
    count: Annotated[int, typer.Option(min=1, help="How many images to name.")] = 20,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """How many more labels until the ranking is stable, and which images to label next."""
    from captrial.compete.analysis.planner import PlanSettings, plan_labels

    competition = open_competition(directory, ignore_changes)
    scorer = competition.scorer(competition.labels(references, split))
    found = plan_labels(scorer.score(metric), scorer.unlabelled, PlanSettings(goal, target, count))
    left = len({image for pair in scorer.unlabelled for image in pair})
    if json:
        print_json({"metric": metric, "stable": found.stable, "to_label": left, **asdict(found)})
        return
    rows = [[ahead, behind, risk] for ahead, behind, risk in found.doubts]
    print_table(f"what labelling the rest may still change, {metric}", ["ahead", "behind", "probability"], rows)
    if found.stable:
        console.print(f"Stable: the risk that the {goal} changes is {found.risk:.3f}; {left} images are not needed.")
    else:
        console.print(
            f"Risk {found.risk:.3f}: about {found.labels_needed} of the {left} images left will settle the {goal}."
        )
        console.print(f"Label next: {', '.join(found.next_images)}", soft_wrap=True, markup=False)


def statistics(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Show statistics of annotations, classes of the selected images, and which models were right on them."""
    from captrial.compete.analysis import statistics as facts

    competition = open_competition(directory, ignore_changes)
    scorer = competition.labelled_scorer(competition.labels(references, split))
    annotations = facts.annotation_statistics(scorer.references)
    threshold = facts.right_threshold(scorer, metric)
    outcomes = facts.pair_outcomes(scorer.score(metric), threshold.value)
    classes = facts.class_distribution(map(competition.class_of, competition.selected_images()))
    if json:
        shape = {"annotations": annotations, "classes": classes, "threshold": threshold.value, "outcomes": outcomes}
        print_json({"metric": metric, **shape})
        return
    if annotations:
        rows = [list(asdict(annotations).values())]
        columns = ["images", "refs", "words", "max refs", "min refs", "max words", "min words"]
        print_table("annotations", columns, rows)
    if classes:
        print_table("classes of the selected images", ["class", "images"], list(classes.items())[:20])
    rows = [[*outcome.models, outcome.both, outcome.first, outcome.second, outcome.neither] for outcome in outcomes]
    notes = [f"right: {metric} of at least {threshold.value:.4g} ({threshold.description})"]
    columns = ["first", "second", "both right", "only first", "only second", "neither"]
    print_table("which models were right", columns, rows, notes)
