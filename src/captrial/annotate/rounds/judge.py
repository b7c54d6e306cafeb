"""The judging round: people see the captions of two models side by side, without names, and choose the better one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sqlalchemy import Connection, Row, Table, bindparam, select

from captrial.annotate.database.schema import caption_pairs, images, judgements
from captrial.annotate.rounds.assignment import Items, Work
from captrial.annotate.rounds.base import (
    AnnotationRound,
    Answer,
    AnswerForm,
    SelectedPairs,
    SimulatedAnnotator,
    answers_per_item,
    items_in_need,
)
from captrial.annotate.settings import AnnotationSettings

if TYPE_CHECKING:
    from captrial.compete.competition import Competition

JUDGEMENTS = "judgements.jsonl"


class JudgementForm(AnswerForm):
    """Which caption is better, as shown to the person."""

    action: ClassVar[str] = "judge"
    table: ClassVar[Table] = judgements

    winner: Literal["left", "right", "tie"]

    def row(self, person: int) -> Answer:
        """The winner, as the pair is stored."""
        left, right = ("second", "first") if swapped(self.item, person) else ("first", "second")
        return {"pair": self.item, "winner": {"left": left, "right": right}.get(self.winner, "tie")}


class JudgeRound(AnnotationRound):
    """Every pair of models on every image that was selected for it needs its judges."""

    name = "judge"
    title = "Compare"
    description = "Choose the better of two captions."
    progress_title = "Captions compared"
    roles = ("annotator", "inspector")
    table, item = judgements, judgements.c.pair
    forms = (JudgementForm,)
    shown = (
        select(caption_pairs, images.c.image.label("name")).join(images).where(caption_pairs.c.id == bindparam("item"))
    )

    def people_wanted(self, settings: AnnotationSettings) -> int:
        """Judges of a pair."""
        return settings.judges

    def work(self, items: Items = ()) -> Work:
        """Pairs of captions a person may compare."""
        return _work(items)

    def show(self, item: int, row: Row[Any], person: int, competition: Competition) -> Answer:
        """The image and both captions, the left one first."""
        by_model = competition.captions_of(row.name)
        captions = [by_model[row.first], by_model[row.second]]
        return {"image": row.image, "captions": captions[::-1] if swapped(item, person) else captions}

    def refresh_items(self, connection: Connection, settings: AnnotationSettings, selected: SelectedPairs) -> None:
        """Add pairs of models for the images that were selected for them."""
        if not settings.judges:
            return
        numbers = {row.image: row.id for row in connection.execute(select(images.c.id, images.c.image))}
        known = {(row.image, row.first, row.second) for row in connection.execute(select(caption_pairs))}
        for image, pairs in sorted(selected.items()):
            for first, second in sorted(pairs):
                if (numbers[image], first, second) not in known:
                    row = {"image": numbers[image], "first": first, "second": second}
                    connection.execute(caption_pairs.insert().values(**row))

    def progress(self, connection: Connection, settings: AnnotationSettings) -> tuple[int, int]:
        """Judgements, and how many the pairs of active images need."""
        cast = answers_per_item(connection, judgements.c.pair, select(caption_pairs.c.id).join(images))
        return sum(min(people, settings.judges) for people in cast), settings.judges * len(cast)

    def competition_files(self, connection: Connection, settings: AnnotationSettings) -> dict[str, list[Answer]]:
        """Every judgement."""
        return {JUDGEMENTS: _all_judgements(connection)} if settings.judges else {}

    def simulate(self, shown: Answer, person: SimulatedAnnotator) -> tuple[str, Answer]:
        """The caption that has more words in common with the image's references wins."""
        left, right = (_overlap(caption, person.references_of(shown)) for caption in shown["captions"])
        if person.is_mistaken():
            left, right = right, left
        return "judge", {"winner": "tie" if left == right else "left" if left > right else "right"}


def swapped(item: int, person: int) -> bool:
    """Whether this person sees the second caption on the left: different for different people and pairs."""
    return (item * 2654435761 + person * 40503) >> 7 & 1 == 1


@cache
def _work(items: Items) -> Work:
    work = items_in_need(caption_pairs.c.id, judgements.c.pair, "judges", items)
    return work.join(images, images.c.id == caption_pairs.c.image).where(images.c.active)


def _all_judgements(connection: Connection) -> list[Answer]:
    """Every judgement, as `captrial compete` reads them."""
    names = {"first": "a", "second": "b", "tie": "tie"}
    rows = connection.execute(
        select(images.c.image, caption_pairs.c.first, caption_pairs.c.second, judgements.c.winner)
        .join(caption_pairs, caption_pairs.c.image == images.c.id)
        .join(judgements, judgements.c.pair == caption_pairs.c.id)
        .order_by(images.c.image, caption_pairs.c.id, judgements.c.person)
    )
    return [{"id": row.image, "a": row.first, "b": row.second, "winner": names[row.winner]} for row in rows]


def _overlap(caption: str, references: Sequence[str]) -> float:
    """The share of words in common with the most similar reference."""
    words = set(caption.lower().split())
    others = [set(reference.lower().split()) for reference in references]
    return max((len(words & other) / max(len(words | other), 1) for other in others), default=0.0)
