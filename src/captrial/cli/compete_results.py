"""`captrial compete rank`, `stability`, `repetition`, `flip`, `plan` and `statistics`: what the labels say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.compete_captioning import costs_of, tokens
from captrial.cli.compete_options import (
    Directory,
    IgnoreChanges,
    MetricName,
    References,
    Split,
    labels_of,
    open_competition,
    say_next,
)
from captrial.cli.output import JsonFlag, console, print_json, print_table
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.compete import Competition, Verdict
    from captrial.compete.labels import Labels
    from captrial.compete.scoring import Jury


def rank(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    frequencies: Annotated[
        str, typer.Option(help="CIDEr's document frequencies: pair, all, or a table made by captrial.")
    ] = "pair",
    replicates: Annotated[int, typer.Option(min=10, help="Bootstrap replicates behind the intervals.")] = 1000,
    against: Annotated[
        Path | None, typer.Option(help='Another table, {"model": score}: shows how ranks changed.')
    ] = None,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Rank the models by the labels there are, with intervals on every rank."""
    from captrial.compete import verdict
    from captrial.compete.verdict import rank_changes

    competition = open_competition(directory, ignore_changes)
    jury = _jury(competition, labels_of(competition, references, split))
    evidence = jury.evidence(metric, frequencies=_frequencies(frequencies))
    found = verdict(evidence, replicates, competition.state.seed)
    changes = rank_changes(found, read_table(against)) if against else None
    people = _people(competition, jury, metric)
    if json:
        extra = {"changes": changes} if changes is not None else {}
        costs = costs_of(directory)
        print_json({**found.to_json(), **extra, **people, **({"costs": costs} if costs else {})})
        return
    _print_verdict(found, changes, people)
    _print_costs(directory)
    say_next(f"captrial compete report {directory}{_again(references)}", "see it with pictures")


def stability(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Is k large enough? Rank correlation of the top-k ranking with the full one, k = 5, 6, ... (SRCC)."""
    from captrial.compete.stability import stability as curve

    competition = open_competition(directory, ignore_changes)
    jury = _jury(competition, labels_of(competition, references, split))
    found = curve(lambda k: jury.evidence(metric, k))
    if json:
        print_json({"metric": metric, "k": found.k, "srcc": found.srcc, "settled": found.settled(), "weak": found.weak})
        return
    rows = [[k, value] for k, value in zip(found.k, found.srcc, strict=True) if k % 5 == 0 or k == found.k[-1]]
    notes = [f"above 0.9 from k = {found.settled()} on" if found.settled() else "never above 0.9 for good"]
    if found.weak:
        notes.append(f"with {found.models} models a rank correlation says little")
    print_table(f"SRCC of the top-k ranking, {metric}", ["k", "SRCC"], rows, notes)


def repetition(directory: Directory, json: JsonFlag = False) -> None:
    """Captions in which one word stands three or more times in a row, by model and word."""
    from captrial.compete.repetition import repetition as look
    from captrial.progress import progress_bar

    competition = open_competition(directory, ignore_changes=True)
    with progress_bar() as bar:
        task = bar.add_task("reading captions", total=competition.pool.blocks)
        found = look(competition.pool, progress=lambda: bar.advance(task))
    if json:
        print_json([{**_record(part), "share": part.share} for part in found])
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
    print_table(f"repetition in {competition.state.pictures} captions a model", columns, rows)


def flip(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """The fewest pictures whose removal changes the winner: exact for one and two, an upper bound beyond."""
    from captrial.compete.flip import flip_report

    competition = open_competition(directory, ignore_changes)
    jury = _jury(competition, labels_of(competition, references, split))
    found = flip_report(jury.evidence(metric))
    if json:
        print_json({"metric": metric, **_record(found)})
        return
    rows = [[picture, margin] for picture, margin in found.influential]
    notes = [f"the winner's score is {found.margin:.4g} times the second's with all pictures"]
    print_table(f"most influential pictures, {metric}", ["picture", "margin without it"], rows, notes)
    console.print(found.sentence(), soft_wrap=True)
    if found.removed:
        console.print(f"  {', '.join(found.removed)}", style="dim", soft_wrap=True, markup=False)


def plan(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    goal: Annotated[str, typer.Option(help="winner: who is first; order: every model's place.")] = "winner",
    target: Annotated[float, typer.Option(min=0.0, max=0.5, help="Risk that is acceptable.")] = 0.05,
    count: Annotated[int, typer.Option(min=1, help="How many pictures to name.")] = 20,
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """How many more labels until the ranking is stable, and which pictures to label next."""
    from captrial.compete.planner import plan as make_plan

    competition = open_competition(directory, ignore_changes)
    labels = labels_of(competition, references, split)
    jury = competition.jury(labels)
    waiting = [[p for p in contest.images if not labels.references.get(p)] for contest in jury.contests]
    found = make_plan(jury.evidence(metric), waiting, goal, target, most=count)
    left = len({picture for pair in waiting for picture in pair})
    if json:
        print_json({"metric": metric, "stable": found.stable, "to_label": left, **_record(found)})
        return
    rows = [[ahead, behind, risk] for ahead, behind, risk in found.doubts]
    print_table(f"what labelling the rest may still turn, {metric}", ["ahead", "behind", "probability"], rows)
    if found.stable:
        console.print(f"Stable: the risk that the {goal} changes is {found.risk:.3f}; {left} pictures are not needed.")
    else:
        console.print(
            f"Risk {found.risk:.3f}: about {found.labels_needed} of the {left} pictures left will settle the {goal}."
        )
        console.print(f"Label next: {', '.join(found.next_pictures)}", soft_wrap=True, markup=False)


def statistics(
    directory: Directory,
    references: References = None,
    split: Split = None,
    metric: MetricName = "cider",
    ignore_changes: IgnoreChanges = False,
    json: JsonFlag = False,
) -> None:
    """Annotations, classes of the selected pictures, and who was right on them."""
    from captrial.compete import statistics as facts

    competition = open_competition(directory, ignore_changes)
    jury = _jury(competition, labels_of(competition, references, split))
    annotations = facts.annotation_statistics(jury.references)
    threshold = facts.right_threshold(jury, metric)
    outcomes = facts.outcomes(jury.evidence(metric), threshold)
    classes = facts.class_distribution(map(competition.class_of, competition.images()))
    if json:
        shape = {"annotations": annotations, "classes": classes, "threshold": threshold, "outcomes": outcomes}
        print_json({"metric": metric, **shape})
        return
    if annotations:
        rows = [list(_record(annotations).values())]
        columns = ["pictures", "refs", "words", "max refs", "min refs", "max words", "min words"]
        print_table("annotations", columns, rows)
    if classes:
        print_table("classes of the selected pictures", ["class", "pictures"], list(classes.items())[:20])
    rows = [[*outcome.models, outcome.both, outcome.first, outcome.second, outcome.neither] for outcome in outcomes]
    notes = [f"right: {metric} of at least {threshold:.4g} (the lower quartile of people's own sentences)"]
    columns = ["first", "second", "both right", "only first", "only second", "neither"]
    print_table("who was right", columns, rows, notes)


def read_table(path: Path) -> dict[str, float]:
    """Scores of models by name: a JSON object, or the output of `captrial score --json`, by CIDEr."""
    import orjson

    try:
        table = orjson.loads(path.read_bytes())
        found = {name: float(value["cider"] if isinstance(value, dict) else value) for name, value in table.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f'{path}: not a table of scores like {{"model": 1.2}} ({error})') from None
    return found


def _jury(competition: Competition, labels: Labels) -> Jury:
    from captrial.errors import StateError

    jury = competition.jury(labels)
    if not jury.images:
        raise StateError(
            "no selected picture has a reference caption; give --references FILE, or label pictures with "
            f"`captrial annotate serve {competition.directory}`"
        )
    return jury


def _frequencies(name: str) -> Any:
    from captrial.metrics.df import DocumentFrequencies

    return name if name in ("pair", "all") else DocumentFrequencies.load(name)


def _people(competition: Competition, jury: Jury, metric: str) -> dict[str, Any]:
    """What pairwise judgements say, where there are any."""
    from captrial.compete.people import agreement, ranking_by_people
    from captrial.compete.ranking import ranks

    judgements = competition.judgements()
    if not judgements:
        return {}
    strengths = ranking_by_people(competition.models, judgements)
    metrics = list(dict.fromkeys([metric, "cider", "rouge_l", "bleu_4"]))
    places = ranks(strengths.strength)
    return {
        "people": {
            "judgements": len(judgements),
            "ranking": [
                {"model": name, "strength": float(strengths.strength[index]), "rank": int(places[index])}
                for index, name in enumerate(competition.models)
            ],
            "agreement": [_record(agreement(jury.evidence(name), judgements)) for name in metrics],
        }
    }


def _print_costs(directory: Path) -> None:
    """What captions cost, where captioners were run here."""
    costs = costs_of(directory)
    if costs:
        rows = [
            [name, cost["pictures"], cost["seconds"] / max(1, cost["pictures"]), cost["peak_megabytes"], tokens(cost)]
            for name, cost in costs.items()
        ]
        print_table("what captions cost", ["model", "captions", "seconds each", "peak MB", "tokens each"], rows)


def _print_verdict(found: Verdict, changes: dict[str, tuple[int, int, int]] | None, people: dict[str, Any]) -> None:
    columns = ["rank", "model", "score", "95% interval", "ranks", "wins", "Bradley-Terry rank"]
    rows = []
    for row in found.rows():
        interval = f"{row['low']:.4f} - {row['high']:.4f}"
        places = f"{row['rank_low']} - {row['rank_high']}"
        cells = [row["rank"], row["model"], row["score"], interval, places, f"{row['first']:.1%}"]
        rows.append([*cells, row["bradley_terry_rank"]])
    if changes is not None:
        columns += ["old rank", "change"]
        for cells in rows:
            old, _, change = changes.get(str(cells[1]), (None, None, None))
            cells += [old, f"{change:+d}" if change else "0" if change == 0 else None]
    print_table(f"ranking by {found.metric}", columns, rows, found.notes)
    if people:
        named = {row["model"]: row for row in people["people"]["ranking"]}
        ordered = sorted(named.values(), key=lambda row: row["rank"])
        print_table(
            f"ranking by {people['people']['judgements']} judgements of people",
            ["rank", "model", "strength"],
            [[row["rank"], row["model"], row["strength"]] for row in ordered],
        )
        agreements = people["people"]["agreement"]
        cells = [[row["metric"], row["tau"], f"{row['low']:.3f} - {row['high']:.3f}"] for row in agreements]
        print_table("agreement with people", ["metric", "Kendall's tau", "95% interval"], cells)


def _record(value: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)


def _again(references: Path | None) -> str:
    return f" --references {references}" if references else ""
