"""The judging round: people see the captions of two models side by side, without names, and choose the better one."""

from __future__ import annotations

from collections import Counter
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
from captrial.compete.storage.labels import JUDGEMENTS
from captrial.errors import InputError

if TYPE_CHECKING:
    from captrial.compete.competition import Competition

_PAIR = select(caption_pairs).where(caption_pairs.c.id == bindparam("item"))


class JudgementForm(AnswerForm):
    """Which caption is better, as shown to the person."""

    action: ClassVar[str] = "judge"
    table: ClassVar[Table] = judgements

    winner: Literal["left", "right", "tie"]


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

    def row(self, connection: Connection, form: AnswerForm, person: int) -> Answer:
        """The better model and the one on the left, by name: positions would mean nothing without the page."""
        assert isinstance(form, JudgementForm)
        pair = connection.execute(_PAIR, {"item": form.item}).one_or_none()
        if pair is None:
            raise InputError(f"there is no item {form.item}")
        left, right = (pair.second, pair.first) if swapped(form.item, person) else (pair.first, pair.second)
        return {"pair": form.item, "left": left, "preferred": {"left": left, "right": right}.get(form.winner)}

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
        """Every judgement, also of a round that has been closed."""
        lines = _all_judgements(connection, settings.judges)
        return {JUDGEMENTS: lines} if lines or settings.judges else {}

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


def _all_judgements(connection: Connection, judges: int) -> list[Answer]:
    """Every judgement, as `captrial compete` reads them (see `captrial.compete.storage.judgements`).

    Images come in the order in which they got their last judgement. An image is complete when all its pairs have their
    judges.
    """
    rows = connection.execute(
        select(
            images.c.image,
            images.c.active,
            *(caption_pairs.c[name] for name in ("id", "first", "second")),
            *(judgements.c[name] for name in ("pair", "person", "left", "preferred", "created")),
        )
        .select_from(caption_pairs)
        .join(images, images.c.id == caption_pairs.c.image)
        .outerjoin(judgements, judgements.c.pair == caption_pairs.c.id)
        .order_by(caption_pairs.c.id, judgements.c.person)
    ).all()
    cast = Counter(row.pair for row in rows if row.pair is not None)
    waiting = {row.image for row in rows if row.active and cast[row.id] < judges}
    last: dict[str, float] = {}
    for row in rows:
        last[row.image] = max(last.get(row.image, 0.0), row.created or 0.0)
    ordered = sorted(
        (row for row in rows if row.pair is not None),
        key=lambda row: (row.image in waiting, last[row.image], row.image),
    )
    return [
        {
            "image": row.image,
            "model_a": row.left,
            "model_b": row.second if row.left == row.first else row.first,
            "preferred": row.preferred,
            "annotator": row.person,
            "complete": row.image not in waiting,
        }
        for row in ordered
    ]


def _overlap(caption: str, references: Sequence[str]) -> float:
    """The share of words in common with the most similar reference."""
    words = set(caption.lower().split())
    others = [set(reference.lower().split()) for reference in references]
    return max((len(words & other) / max(len(words | other), 1) for other in others), default=0.0)
