"""The inspection round: people say whether captions that others wrote are right."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy import Connection, Row, Table, bindparam, func, select

from captrial.annotate.accounts import one_line
from captrial.annotate.database.schema import captions, images, votes
from captrial.annotate.rounds.assignment import Items, Work
from captrial.annotate.rounds.base import (
    MAX_REASON,
    PERSON,
    AnnotationRound,
    Answer,
    AnswerForm,
    Reason,
    SimulatedAnnotator,
    answers_per_item,
    items_in_need,
)
from captrial.annotate.rounds.write import RULES, WRITERS, WRITTEN, missing_captions
from captrial.annotate.settings import AnnotationSettings
from captrial.errors import StateError

if TYPE_CHECKING:
    from captrial.compete.competition import Competition


class VoteForm(AnswerForm):
    """Whether a caption is right."""

    action: ClassVar[str] = "vote"
    table: ClassVar[Table] = votes

    right: bool
    reason: Reason = ""

    def row(self, person: int) -> Answer:
        """The vote, with its reason."""
        return {"caption": self.item, "right": self.right, "reason": one_line(self.reason)[:MAX_REASON]}


class InspectRound(AnnotationRound):
    """A caption needs inspectors until enough have voted or it is discarded."""

    name = "inspect"
    title = "Inspect"
    description = "Check a caption that somebody else wrote."
    progress_title = "Votes on captions"
    roles = ("inspector",)
    table, item = votes, votes.c.caption
    forms = (VoteForm,)
    shown = select(captions.c.image, captions.c.text).where(captions.c.id == bindparam("item"))

    def page_values(self) -> dict[str, object]:
        """The rules are shown on request."""
        return {"rules": RULES}

    def roles_with(self, settings: AnnotationSettings) -> tuple[str, ...]:
        """Annotators, too, unless the lead forbids it: five people need no separate inspectors."""
        return (*self.roles, "annotator") if settings.annotators_inspect else self.roles

    def people_able(self, settings: AnnotationSettings, invited: Mapping[str, int]) -> int:
        """Nobody inspects a caption of their own."""
        writers = max(0, invited.get("annotator", 0) - 1) if settings.annotators_inspect else 0
        return invited.get("inspector", 0) + writers

    def people_wanted(self, settings: AnnotationSettings) -> int:
        """Inspectors of a caption; none where nobody writes."""
        return settings.inspectors if settings.writers else 0

    def work(self, items: Items = ()) -> Work:
        """Captions a person may inspect: live, by somebody else, of images that have enough captions."""
        return _work(items)

    def show(self, item: int, row: Row[Any], person: int, competition: Competition) -> Answer:
        """The image and its caption."""
        return {"image": row.image, "caption": row.text}

    def after_answer(self, connection: Connection, settings: AnnotationSettings, form: AnswerForm) -> bool:
        """Discard a caption that enough inspectors called wrong."""
        if isinstance(form, VoteForm) and not form.right:
            wrong = select(func.count()).select_from(votes).where(votes.c.caption == form.item, ~votes.c.right)
            if connection.execute(wrong).scalar_one() >= settings.discards:
                connection.execute(captions.update().where(captions.c.id == form.item).values(state="discarded"))
        return False

    def check_undo(self, connection: Connection, last: Row[Any]) -> None:
        """A vote on a discarded caption stays: the image may be open again, and somebody may be writing."""
        state = connection.execute(select(captions.c.state).where(captions.c.id == last.caption)).scalar_one()
        if state != "live":
            raise StateError("the caption has been discarded; your last vote can no longer be undone")

    def progress(self, connection: Connection, settings: AnnotationSettings) -> tuple[int, int]:
        """Votes on live captions, and how many these and those still to be written need."""
        live = select(captions.c.id).join(images).where(captions.c.state == "live")
        cast = answers_per_item(connection, votes.c.caption, live)
        done = sum(min(people, settings.inspectors) for people in cast)
        return done, settings.inspectors * (len(cast) + missing_captions(connection, settings))

    def simulate(self, shown: Answer, person: SimulatedAnnotator) -> tuple[str, Answer]:
        """A caption is right if it is one of the image's references."""
        right = shown["caption"] in {" ".join(text.split()) for text in person.references_of(shown)}
        return "vote", {"right": right, "reason": "" if right else "not this image"}


def refresh_states(connection: Connection, settings: AnnotationSettings) -> None:
    """Discard captions that enough inspectors call wrong now, and restore others: votes or settings have changed."""
    if not settings.inspectors:
        return
    called_wrong = select(func.count()).select_from(votes).where(votes.c.caption == captions.c.id, ~votes.c.right)
    wrong = called_wrong.scalar_subquery()
    for state, condition in (("live", wrong < settings.discards), ("discarded", wrong >= settings.discards)):
        other = "discarded" if state == "live" else "live"
        connection.execute(captions.update().where(captions.c.state == other, condition).values(state=state))


@cache
def _work(items: Items) -> Work:
    same_image = captions.alias()
    # counted caption by caption from the index: joined as a table of all images, PostgreSQL, whose statistics know
    # nothing of the last minutes, counted all images again for every caption: 111 of 115 ms
    written = (
        select(func.count())
        .select_from(same_image)
        .where(same_image.c.image == captions.c.image, same_image.c.state.in_(WRITTEN))
        .scalar_subquery()
    )
    return (
        items_in_need(captions.c.id, votes.c.caption, "inspectors", items)
        .join(images, images.c.id == captions.c.image)
        .where(images.c.active, captions.c.state == "live", captions.c.person != PERSON)
        .where(written >= WRITERS)
    )
