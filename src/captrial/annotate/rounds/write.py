"""The writing round: people describe images by COCO's writing rules, with drafts that are saved while they type."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    Subquery,
    Table,
    bindparam,
    case,
    exists,
    func,
    select,
)

from captrial.annotate.accounts import clean, one_line
from captrial.annotate.database.schema import captions, drafts, images, refusals, votes
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.assignment import Items, Work, open_work
from captrial.annotate.rounds.base import (
    MAX_REASON,
    PERSON,
    AnnotationRound,
    Answer,
    AnswerForm,
    Reason,
    SimulatedAnnotator,
    last_row,
    statement_values,
)
from captrial.annotate.settings import AnnotationSettings
from captrial.compete.storage.labels import REFERENCES
from captrial.errors import StateError

if TYPE_CHECKING:
    from captrial.compete.competition import Competition

MAX_CAPTION = 1000
WRITTEN = ("live", "discarded")  # states of captions that count as written
CaptionText = Annotated[str, Field(max_length=4 * MAX_CAPTION)]  # before blanks are removed
WRITERS = bindparam("writers", type_=Integer)


# The writing rules ---------------------------------------------------------------------------------------------------

MIN_WORDS = 8
RULES = (
    "Describe all the important parts of the image.",
    "Do not describe unimportant details.",
    "Do not describe things that might have happened before or may happen after.",
    "Do not describe what a person in the image might say.",
    "Do not give people or places proper names.",
    f"Write at least {MIN_WORDS} words.",
    'Do not start with "There is".',
)


@dataclass(frozen=True, slots=True)
class Hint:
    """How a caption breaks a writing rule. The writer can ignore it."""

    rule: int  # index in RULES
    text: str


_FUTURE = re.compile(r"\b(will|going to|about to|gonna|used to|had been|just finished|preparing to|getting ready to)\b")
_SPEECH = re.compile(r"[\"“”«»]|\b(says?|saying|said|shouts?|shouting|asks?|asking)\b")
_GUESS = re.compile(r"\b(maybe|perhaps|probably|possibly|might be|could be|i think|i see|looks like)\b")
_START = re.compile(r"\s*there\s*('s|’s|is|are)\b", re.IGNORECASE)


def check(caption: str) -> list[Hint]:
    """Check the writing rules that a program can check; the hints are in the order of the rules.

    >>> [hint.rule for hint in check("There is a dog")]
    [5, 6]
    """
    lower = caption.lower()
    hints = []
    if guess := _GUESS.search(lower):
        hints.append(Hint(1, f"“{guess.group()}” sounds like a guess: describe only what can be seen."))
    if future := _FUTURE.search(lower):
        hints.append(Hint(2, f"“{future.group()}” is about another moment: describe what can be seen now."))
    if _SPEECH.search(lower):
        hints.append(Hint(3, "Do not quote or guess what somebody says."))
    if names := _proper_names(caption):
        hints.append(Hint(4, f"“{names[0]}” looks like a proper name: say what kind of thing it is."))
    words = count_words(caption)
    if words < MIN_WORDS:
        hints.append(Hint(5, f"{words} of at least {MIN_WORDS} words."))
    if _START.match(caption):
        hints.append(Hint(6, "Start with what is there, not with “There is”."))
    return hints


def count_words(caption: str) -> int:
    """Words as people count them."""
    return len(re.findall(r"[^\W_]+(?:['’-][^\W_]+)*", caption))


def _proper_names(caption: str) -> list[str]:
    """Capitalised words that do not begin a sentence, except acronyms and "I"."""
    inner = re.sub(r"(^|[.!?]\s+)\W*\w+", " ", caption)
    return re.findall(r"\b[A-Z][a-z]+\b", inner)


# The round -----------------------------------------------------------------------------------------------------------


class CaptionForm(AnswerForm):
    """A caption of an image."""

    action: ClassVar[str] = "write"
    table: ClassVar[Table] = captions

    text: CaptionText

    def row(self, person: int) -> Answer:
        """The caption, with the rules that the writer chose to ignore."""
        text = clean(self.text, MAX_CAPTION, "a caption")
        hints = ",".join(str(hint.rule) for hint in check(text))
        return {"image": self.item, "text": text, "hints": hints, "state": "live"}


class RefusalForm(AnswerForm):
    """The image cannot be described; enough such votes replace it."""

    action: ClassVar[str] = "refuse"
    table: ClassVar[Table] = refusals

    reason: Reason = ""

    def row(self, person: int) -> Answer:
        """The vote, with its reason."""
        return {"image": self.item, "reason": one_line(self.reason)[:MAX_REASON]}


_OWN_DRAFT = (
    (drafts.c.round == "write") & (drafts.c.item == bindparam("item")) & (drafts.c.person == bindparam("person"))
)
_FORGET_DRAFT = drafts.delete().where(_OWN_DRAFT)
_OWN_CAPTION = exists().where(captions.c.image == bindparam("item"), captions.c.person == bindparam("person"))
_SAVE_DRAFT = drafts.insert().from_select(
    list(drafts.columns),
    select(*(bindparam(f"new_{column.name}", type_=column.type) for column in drafts.columns)).where(~_OWN_CAPTION),
)


class WriteRound(AnnotationRound):
    """An image needs writers until enough captions were written and enough of them have not been discarded."""

    name = "write"
    title = "Describe"
    description = "Write a caption for an image."
    progress_title = "Captions written"
    roles = ("annotator",)
    table, item = captions, captions.c.image
    forms = (CaptionForm, RefusalForm)
    shown = select(select(drafts.c.text).where(_OWN_DRAFT).scalar_subquery().label("draft"))

    def page_values(self) -> dict[str, object]:
        """The rules are shown beside the image."""
        return {"rules": RULES, "practice": False}

    def people_wanted(self, settings: AnnotationSettings) -> int:
        """Writers of an image."""
        return settings.writers

    def work(self, items: Items = ()) -> Work:
        """Images a person may describe."""
        return _work(items)

    def show(self, item: int, row: Row[Any], person: int, competition: Competition) -> Answer:
        """The image, and the person's draft."""
        return {"image": item, "draft": row.draft or ""}

    def answers(self) -> Select[int]:
        """Captions that count as written."""
        return super().answers().where(captions.c.state.in_(WRITTEN))

    def after_answer(self, connection: Connection, settings: AnnotationSettings, form: AnswerForm) -> bool:
        """A refusal may replace the image."""
        return isinstance(form, RefusalForm)

    def forget_draft(self, connection: Connection, person: int, item: int) -> None:
        """Delete the draft of a caption."""
        connection.execute(_FORGET_DRAFT, {"item": item, "person": person})

    def undo(self, store: Store, connection: Connection, person: int) -> int:
        """Delete the last caption, whose text becomes a draft again, or the last refusal, whichever is later."""
        caption = last_row(connection, captions, person, captions.c.state == "live")
        refusal = last_row(connection, refusals, person)
        if refusal is not None and (caption is None or refusal.created > caption.created):
            return _undo_refusal(connection, refusal)
        if caption is None:
            raise StateError("there is nothing to undo")
        if connection.execute(select(votes.c.person).where(votes.c.caption == caption.id)).first():
            raise StateError("your last caption has been inspected already; it can no longer be undone")
        connection.execute(captions.delete().where(captions.c.id == caption.id))
        save_draft(store, connection, person, caption.image, caption.text)
        return int(caption.image)

    def progress(self, connection: Connection, settings: AnnotationSettings) -> tuple[int, int]:
        """Captions of active images, and how many these need."""
        written = select(func.count()).select_from(captions).join(images).where(captions.c.state.in_(WRITTEN))
        done = connection.execute(written.where(images.c.active, ~images.c.qualification)).scalar_one()
        return done, done + missing_captions(connection, settings)

    def remove_person(self, connection: Connection, person: int) -> None:
        """Erase a person's captions, and delete their refusals.

        A caption keeps its row without the text, so that votes of others still refer to something.
        """
        erased = {"text": "", "hints": "", "state": "removed"}
        connection.execute(captions.update().where(captions.c.person == person).values(**erased))
        connection.execute(refusals.delete().where(refusals.c.person == person))

    def competition_files(self, connection: Connection, settings: AnnotationSettings) -> dict[str, list[Answer]]:
        """The references, and the images that cannot be described."""
        accepted = accepted_captions(connection, settings)
        lines: list[Answer] = [{"id": image, "captions": texts} for image, texts in accepted.items()]
        lines += [{"id": image, "indescribable": True} for image in indescribable_images(connection, settings)]
        return {REFERENCES: lines}

    def simulate(self, shown: Answer, person: SimulatedAnnotator) -> tuple[str, Answer]:
        """Write a reference of the image, or of another one by mistake; refuse an image without references."""
        known = person.references_of(shown)
        if not known:
            return "refuse", {}
        if person.is_mistaken():
            known = person.any_references()
        return "write", {"text": person.choose(known)}


def save_draft(store: Store, connection: Connection, person: int, item: int, text: str) -> None:
    """Save what a person has written so far, unless the caption itself has been submitted."""
    own = {"item": item, "person": person}
    draft = {"round": "write", **own, "text": text.replace("\0", "")[:MAX_CAPTION], "saved": store.clock()}
    with store.pipeline(connection):
        connection.execute(_FORGET_DRAFT, own)
        connection.execute(_SAVE_DRAFT, {**own, **{f"new_{name}": value for name, value in draft.items()}})


def missing_captions(connection: Connection, settings: AnnotationSettings) -> int:
    """How many more captions the active images need."""
    return open_work(connection, _work(()), statement_values(settings, person=0)).answers


def indescribable_images(connection: Connection, settings: AnnotationSettings) -> list[str]:
    """Images that enough people could not describe."""
    rows = connection.execute(
        select(images.c.image)
        .join(refusals, refusals.c.image == images.c.id)
        .group_by(images.c.image)
        .having(func.count() >= settings.refusals)
    )
    return sorted(rows.scalars())


def accepted_captions(connection: Connection, settings: AnnotationSettings) -> dict[str, list[str]]:
    """The references by image: captions not discarded, inspected by enough people (or by none if that round is off)."""
    inspected = select(func.count()).select_from(votes).where(votes.c.caption == captions.c.id).scalar_subquery()
    rows = connection.execute(
        select(captions.c.text, images.c.image)
        .join(images, images.c.id == captions.c.image)
        .where(captions.c.state == "live", images.c.active, inspected >= settings.inspectors)
        .order_by(images.c.image, captions.c.id)
    )
    found: dict[str, list[str]] = defaultdict(list)
    for text, image in rows:
        found[image].append(text)
    return dict(found)


def caption_counts(condition: ColumnElement[bool] | None = None) -> Subquery:
    """Of every image, or of those meant: how many captions were `written`, and how many of them are `live`."""
    counted = select(
        captions.c.image,
        func.sum(case((captions.c.state.in_(WRITTEN), 1), else_=0)).label("written"),
        func.sum(case((captions.c.state == "live", 1), else_=0)).label("live"),
    ).group_by(captions.c.image)
    return (counted if condition is None else counted.where(condition)).subquery()


@cache
def _work(items: Items) -> Work:
    counted = caption_counts(captions.c.image.in_(items) if items else None)
    written, live = func.coalesce(counted.c.written, 0), func.coalesce(counted.c.live, 0)
    again = bindparam("min_captions", type_=Integer) - live
    missing = case((written < WRITERS, WRITERS - written), else_=again)
    wrote = exists().where(captions.c.image == images.c.id, captions.c.person == PERSON)
    refused = exists().where(refusals.c.image == images.c.id, refusals.c.person == PERSON)
    work = (
        select(images.c.id.label("item"), missing.label("missing"), written.label("done"))
        .outerjoin(counted, counted.c.image == images.c.id)
        .where(images.c.active, ~images.c.qualification, missing > 0, ~wrote, ~refused)
    )
    return work.where(images.c.id.in_(items)) if items else work


def _undo_refusal(connection: Connection, refusal: Row[Any]) -> int:
    active = select(images.c.active).where(images.c.id == refusal.image)
    if not connection.execute(active).scalar_one():
        raise StateError("the image has been replaced already; this can no longer be undone")
    own = (refusals.c.image == refusal.image) & (refusals.c.person == refusal.person)
    connection.execute(refusals.delete().where(own))
    return int(refusal.image)
