"""Options of `captrial compete` about preferences, and the output of rank, plan and flip by judgements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captrial.cli.output import console, print_json, print_table, print_warning, ranking_cells, share_text
from captrial.errors import InputError, StateError

if TYPE_CHECKING:
    from captrial.compete import Competition, Judgement, PreferenceResult

OptionalDirectory = Annotated[
    Path | None,
    typer.Argument(help="The competition's directory; none is needed with --preferences.", show_default=False),
]
PreferenceFile = Annotated[
    Path | None,
    typer.Option(
        "--preferences",
        help="Judgements between two captions, a row each: image, model_a, model_b, winner (JSON lines or CSV; see "
        "docs/preferences.md). \\[default: those in the directory]",
    ),
]
Control = Annotated[
    list[str] | None,
    typer.Option("--control", help="Rank by preferences as if captions had equal length (length) or place (position)."),
]
WordsFile = Annotated[
    Path | None,
    typer.Option(
        "--lengths", help="Lengths for --control length: image, model, words. \\[default: captions are counted]"
    ),
]


@dataclass(frozen=True)
class PreferenceOptions:
    """What the user said about preferences."""

    file: Path | None = None
    control: tuple[str, ...] = ()
    words: Path | None = None

    @classmethod
    def of(cls, file: Path | None, control: list[str] | None = None, words: Path | None = None) -> PreferenceOptions:
        """The options as typer gives them; unknown controls are refused."""
        if not control:
            return cls(file, (), words)
        from captrial.compete.ranking.preferences import check_controls

        return cls(file, check_controls(control), words)

    def judgements(self, competition: Competition | None) -> list[Judgement]:
        """The judgements that the options and the directory name."""
        from captrial.compete.storage.judgements import read_judgements, read_words, with_words

        if competition is not None:
            found = competition.judgements(self.file, words="length" in self.control and self.words is None)
        elif self.file is not None:
            found = read_judgements(self.file)
        else:
            raise InputError("give a competition's directory, or judgements by --preferences FILE")
        return found if self.words is None else with_words(found, read_words(self.words))

    def rank(self, competition: Competition | None, judgements: Sequence[Judgement]) -> PreferenceResult:
        """The ranking by these judgements."""
        from captrial.compete.ranking.preferences import rank_preferences

        if competition is not None:
            return competition.rank_preferences(judgements, self.control)
        if not judgements:
            raise InputError(f"{self.file}: has no judgements")
        return rank_preferences(judgements, control=self.control)

    def rank_if_possible(self, competition: Competition, judgements: Sequence[Judgement]) -> PreferenceResult | None:
        """The ranking to show beside another; a warning where the judgements do not connect the models yet."""
        try:
            return self.rank(competition, judgements) if judgements else None
        except StateError as error:
            print_warning(f"no ranking by preferences: {error}")
            return None


def by_preferences(competition: Competition | None, metric: str | None, references: Path | None) -> bool:
    """Whether to use judgements alone: asked for, no directory, or nothing else in it."""
    from captrial.compete.ranking.preferences import PREFERENCES

    if metric == PREFERENCES or competition is None:
        return True
    if references is not None or any(competition.labels().references):
        return False
    return bool(competition.judgements())


def show_ranking(result: PreferenceResult, json: bool) -> None:
    """Print the ranking by preferences."""
    if json:
        print_json(result.to_json())
        return
    print_preferences(result.to_json())


def print_preferences(found: dict[str, Any]) -> None:
    """The table of a ranking by preferences, from its JSON."""
    rows = [[*ranking_cells(row), share_text(row["first"]), row["images"]] for row in found["ranking"]]
    notes = ["score: expected share of comparisons won against the other models, ties half", *found["notes"]]
    for effect in found["control"]:
        interval = "" if effect["low"] is None else f" (95%: {effect['low']:.2f} - {effect['high']:.2f})"
        notes.append(
            f"{effect['control']}: {effect['described']} multiplies the odds by {effect['odds']:.2f}{interval}"
        )
    title = f"ranking by {found['judgements']} judgements on {found['images']} images, {found['ties']:.0%} ties"
    print_table(title, ["rank", "model", "score", "95% interval", "ranks", "best", "images"], rows, notes)


def show_plan(
    competition: Competition | None, judgements: Sequence[Judgement], goal: str, risk: float, count: int, json: bool
) -> None:
    """Print whether the goal is settled by the judgements, and what to judge next."""
    from captrial.compete.analysis.preference_analysis import plan_judgements

    unjudged = competition.unjudged(judgements) if competition is not None else {}
    found = plan_judgements(judgements, goal=goal, risk=risk, unjudged=unjudged, most=count)
    if json:
        print_json({"metric": "preferences", **asdict(found)})
        return
    rows = [
        [one.ahead, one.behind, one.images, one.gain, one.evidence, one.images_needed] for one in found.comparisons[:10]
    ]
    columns = ["ahead", "behind", "images", "mean gain", "evidence", "more images"]
    notes = [f"{found.incomplete} images are still being judged and do not count yet"] if found.incomplete else []
    print_table("comparisons that decide, the most doubtful first", columns, rows, notes)
    console.print(found.summary(), soft_wrap=True, markup=False)
    if found.next_pairs and not found.settled:
        console.print(
            "Judge next: " + "; ".join(f"{image} ({a}, {b})" for image, a, b in found.next_pairs),
            soft_wrap=True,
            markup=False,
        )
