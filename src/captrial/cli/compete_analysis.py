"""`captrial compete stability`, `repetition`, `flip`, `plan` and `statistics`: analyses beside the ranking."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from captrial.cli.compete_options import (
    Directory,
    IgnoreChanges,
    MetricName,
    References,
    labelled_scorer,
    open_competition,
)
from captrial.cli.compete_preferences import (
    Control,
    OptionalDirectory,
    PreferenceFile,
    PreferenceOptions,
    WordsFile,
    by_preferences,
    show_plan,
)
from captrial.cli.output import JsonFlag, ReferencesSplit, console, print_json, print_next_step, print_table

if TYPE_CHECKING:
    from captrial.compete import Competition
    from captrial.compete.analysis.planner import LabelPlan


def stability(
    directory: Directory,
    references: References = None,
    split: ReferencesSplit = None,
    metric: MetricName = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Is k large enough? Rank correlation of the top-k ranking with the full one, k = 5, 6, ... (SRCC)."""
    from captrial.compete.analysis.stability import measure_stability

    competition = open_competition(directory, ignore_changes)
    scorer, metric = labelled_scorer(competition, references, split, metric)
    found = measure_stability(lambda k: scorer.score(metric, k, scorer.frequencies))
    if json:
        print_json({"metric": metric, "k": found.k, "srcc": found.srcc, "settled": found.settled(), "weak": found.weak})
        return
    rows = [[k, value] for k, value in zip(found.k, found.srcc, strict=True) if k % 5 == 0 or k == found.k[-1]]
    notes = [f"above 0.9 from k = {found.settled()} on" if found.settled() else "never stays above 0.9"]
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
    print_table(f"repetition in {competition.manifest.image_count} captions per model", columns, rows)


def flip(
    directory: OptionalDirectory = None,
    references: References = None,
    split: ReferencesSplit = None,
    metric: MetricName = None,
    preferences: PreferenceFile = None,
    control: Control = None,
    words: WordsFile = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """The fewest images whose removal changes the winner: exact for one and two, an upper bound beyond."""
    from captrial.compete.analysis.flip import flip_report
    from captrial.compete.analysis.preference_analysis import flip_judgements

    options = PreferenceOptions.of(preferences, control, words)
    competition = open_competition(directory, ignore_changes) if directory else None
    if competition is None or by_preferences(competition, metric, references):
        metric = "preferences"
        found = flip_judgements(options.rank(competition, options.judgements(competition)))
    else:
        scorer, metric = labelled_scorer(competition, references, split, metric)
        found = flip_report(scorer.score(metric, frequencies=scorer.frequencies))
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
    directory: OptionalDirectory = None,
    references: References = None,
    split: ReferencesSplit = None,
    metric: MetricName = None,
    preferences: PreferenceFile = None,
    goal: Annotated[str, typer.Option(help="winner: who is first; order: every model's place.")] = "winner",
    risk: Annotated[
        float, typer.Option(min=0.0001, max=0.5, help="Risk to be wrong when it says settled, however often one looks.")
    ] = 0.05,
    count: Annotated[int, typer.Option(min=1, help="How many images to name.")] = 20,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Is the winner on the whole pool settled? If not: what is open, how many more labels, which images next."""
    from captrial.compete.analysis.planner import PlanSettings

    competition = open_competition(directory, ignore_changes) if directory else None
    if competition is None or by_preferences(competition, metric, references):
        judgements = PreferenceOptions.of(preferences).judgements(competition)
        show_plan(competition, judgements, goal, risk, count, json)
        return
    labels = competition.labels(references, split)
    metric = metric or competition.default_metric(labels)
    found = competition.plan(metric, labels, PlanSettings(goal, risk))
    waiting = [image for image in competition.sampled_images() if image not in labels.references]
    more = _more_labels(competition, found, len(waiting))
    if json:
        shown = {"metric": metric, **asdict(found), "next_images": waiting[:count], "to_label": len(waiting)}
        print_json({**shown, "command": more})
        return
    columns = ["ahead", "behind", "difference", f"evidence (of {found.threshold:.0f})", "settled", "more labels, about"]
    rows = [
        [one.ahead, one.behind, one.difference, one.evidence, "yes" if one.settled else "no", one.labels_needed]
        for one in found.comparisons
    ]
    print_table(f"the {goal} on the whole pool, {metric}, by {found.labels} labels of its sample", columns, rows)
    if found.settled:
        what = f"{found.winner} is first" if goal == "winner" else "the order"
        console.print(f"Settled: {what}, with a risk of {found.risk:.0%} of being wrong.", markup=False)
        return
    first = found.open[0]
    about = "it looks like a tie" if found.labels_needed is None else f"about {found.labels_needed} more labels"
    console.print(f"Open: {first.ahead} against {first.behind}; {about}.", soft_wrap=True, markup=False)
    if waiting:
        console.print(f"Label next: {', '.join(waiting[:count])}", soft_wrap=True, markup=False)
    if more:
        print_next_step(more, f"the sample has {len(waiting)} images left; draw more where the open models disagree")


def _more_labels(competition: Competition, found: LabelPlan, waiting: int) -> str | None:
    """The command that draws more images, where those of the sample will not be enough."""
    if found.settled or found.labels_needed is None or found.labels_needed <= waiting:
        return None
    total = len(competition.label_sample().to_label()) - waiting + found.labels_needed
    first = found.open[0]
    between = f" --between {first.ahead},{first.behind}" if len(competition.models) > 2 else ""
    design = "weighted" if competition.design == "discrepancy" else competition.design
    return f"captrial compete select {competition.directory} --design {design} --labels {total}{between}"


def statistics(
    directory: Directory,
    references: References = None,
    split: ReferencesSplit = None,
    metric: MetricName = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Show statistics of annotations, classes of the selected images, and which models were right on them."""
    from captrial.compete.analysis import statistics as facts

    competition = open_competition(directory, ignore_changes)
    scorer, metric = labelled_scorer(competition, references, split, metric)
    annotations = facts.annotation_statistics(scorer.references)
    threshold = facts.right_threshold(scorer, metric)
    outcomes = facts.pair_outcomes(scorer.score(metric, frequencies=scorer.frequencies), threshold.value)
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
    rows = [
        [*outcome.models, *map(round, (outcome.both, outcome.first, outcome.second, outcome.neither))]
        for outcome in outcomes
    ]
    notes = [f"right: {metric} of at least {threshold.value:.4g} ({threshold.description})"]
    if any(scorer.unlabelled):
        notes.append("estimates for all images of each D_ij: not all of them are labelled yet")
    columns = ["first", "second", "both right", "only first", "only second", "neither"]
    print_table("which models were right", columns, rows, notes)
