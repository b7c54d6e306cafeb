"""What every annotation round has in common.

A round is a subclass of `AnnotationRound` in a module of its own, and one line in `registry.py`. It has a table for the
answers (in its module, or in `database/schema.py` where other modules need it), a page (`web/templates/<name>.html`),
usually a number of people for each item (in `settings.py`), and a form for each kind of answer, which becomes the route
`POST /api/<action>`. Everything else (assignment, undo, progress, pages, simulated annotators) works on any round in
the registry.

What an item still needs is counted from the answers and never stored beside them. The database does the counting: a
request never reads more than one item from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    Integer,
    Row,
    Select,
    Table,
    bindparam,
    exists,
    func,
    select,
)
from sqlalchemy.sql.dml import ReturningInsert

from captrial.annotate.accounts import Person
from captrial.annotate.database.schema import images, leases, people, receipts
from captrial.annotate.database.schema import settings as settings_table
from captrial.annotate.database.transactions import Store
from captrial.annotate.rounds.assignment import ONE, Items, Values, Work, item_values
from captrial.annotate.settings import AnnotationSettings, parse_settings
from captrial.errors import NotAllowedError, StateError

if TYPE_CHECKING:
    from captrial.compete.competition import Competition

Answer = dict[str, Any]  # JSON of the API
SelectedPairs = Mapping[str, set[tuple[str, str]]]  # image -> the pairs of models for which it was selected
PERSON = bindparam("person", type_=Integer)

Key = Annotated[str, Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
Item = Annotated[int, Field(ge=1, le=2**31 - 1)]
MAX_REASON = 300
Reason = Annotated[str, Field(max_length=MAX_REASON)]


class Form(BaseModel):
    """The body of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class AnswerForm(Form):
    """What somebody answers about an item. The same `key` sent twice is stored once."""

    action: ClassVar[str]  # the route is POST /api/<action>
    table: ClassVar[Table]

    item: Item
    key: Key

    def row(self, person: int) -> Answer:
        """The row of `table` to store, without `person`, `created` and `seconds`."""
        raise NotImplementedError


class SimulatedAnnotator(Protocol):
    """What a round may ask of a simulated person (see `captrial.annotate.simulate`)."""

    def references_of(self, shown: Answer) -> Sequence[str]:
        """The reference captions of the image that is shown."""

    def any_references(self) -> Sequence[str]:
        """The reference captions of some image."""

    def choose(self, captions: Sequence[str]) -> str:
        """One of the captions, at random."""

    def is_mistaken(self) -> bool:
        """Whether the person makes a mistake now."""


class BaseRound(ABC):
    """Name, title and role of a round, the table of its answers, and its page."""

    name: ClassVar[str]  # in addresses, leases and the audit log
    title: ClassVar[str]  # of its page
    description: ClassVar[str]
    roles: ClassVar[tuple[str, ...]]  # who takes part; others may, too: see `roles_with`
    table: ClassVar[Table]  # with columns person, created and seconds

    @property
    def template(self) -> str:
        """The file in `web/templates` that shows the round."""
        return f"{self.name}.html"

    def page_values(self) -> dict[str, object]:
        """What the template needs besides the round and the person."""
        return {}

    def roles_with(self, settings: AnnotationSettings) -> tuple[str, ...]:
        """Everybody whom the settings let take part."""
        return self.roles

    def remove_person(self, connection: Connection, person: int) -> None:
        """Delete what a person answered."""
        connection.execute(self.table.delete().where(self.table.c.person == person))


class AnnotationRound(BaseRound):
    """A round whose items are assigned to people, a given number of people to each item."""

    progress_title: ClassVar[str]  # what is counted, on the lead's page
    item: ClassVar[Column[int]]  # the column of `table` that holds the item
    forms: ClassVar[tuple[type[AnswerForm], ...]]
    shown: ClassVar[Select[Any]]  # what `show` needs of :item for :person

    # Items -----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def people_wanted(self, settings: AnnotationSettings) -> int:
        """How many people each item needs; 0 where the round is not part of the experiment."""

    def people_able(self, settings: AnnotationSettings, invited: Mapping[str, int]) -> int:
        """How many of the people invited, by role, may do one item of the round."""
        return sum(invited.get(role, 0) for role in self.roles_with(settings))

    @abstractmethod
    def work(self, items: Items = ()) -> Work:
        """Select items :person may do, all or some of `items`: item, missing people, people who have done it.

        Must return the same object for the same arguments: what is built on top of it is cached.
        """

    @abstractmethod
    def show(self, item: int, row: Row[Any], person: int, competition: Competition) -> Answer:
        """What the page gets about an item; `image` must be among it."""

    def refresh_items(self, connection: Connection, settings: AnnotationSettings, selected: SelectedPairs) -> None:
        """Add items for images that were selected; the images themselves are in their table already."""

    # Answers ---------------------------------------------------------------------------------------------------------

    def answers(self) -> Select[int]:
        """Count the answers that are valid."""
        return select(func.count()).select_from(self.table)

    def row(self, connection: Connection, form: AnswerForm, person: int) -> Answer:
        """The row to store for a form; by default the form knows it."""
        return form.row(person)

    def after_answer(self, connection: Connection, settings: AnnotationSettings, form: AnswerForm) -> bool:
        """Apply what follows from an answer; return whether the active images must be computed again."""
        return False

    def forget_draft(self, connection: Connection, person: int, item: int) -> None:
        """Delete the draft of an answer that was submitted, where the round has drafts."""

    def undo(self, store: Store, connection: Connection, person: int) -> int:
        """Delete the last answer of this person and return its item."""
        last = last_row(connection, self.table, person)
        if last is None:
            raise StateError("there is nothing to undo")
        self.check_undo(connection, last)
        item = getattr(last, self.item.name)
        connection.execute(self.table.delete().where(self.item == item, self.table.c.person == person))
        return int(item)

    def check_undo(self, connection: Connection, last: Row[Any]) -> None:
        """Raise `StateError` where an answer can no longer be undone."""

    # Reports ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def progress(self, connection: Connection, settings: AnnotationSettings) -> tuple[int, int]:
        """Answers there are, and answers wanted."""

    def seconds_each(self, connection: Connection) -> float | None:
        """The median time for an answer."""
        seconds = self.table.c.seconds
        times = list(connection.execute(select(seconds).where(seconds.is_not(None))).scalars())
        return median(times) if times else None

    def competition_files(self, connection: Connection, settings: AnnotationSettings) -> dict[str, list[Answer]]:
        """Files of JSON lines that `captrial compete` reads, by name; written again after every change."""
        return {}

    def simulate(self, shown: Answer, person: SimulatedAnnotator) -> tuple[str, Answer]:
        """The action and the body with which a simulated person answers; none by default."""
        raise NotImplementedError(f"simulated people cannot do the round {self.name}")


# Taking part --------------------------------------------------------------------------------------------------------

_RECEIPT = (
    select(receipts.c.subject).where(receipts.c.person == people.c.id, receipts.c.key == bindparam("of_key"))
).scalar_subquery()
_PARTICIPATION: Select[Any] = (
    select(settings_table.c.value, leases.c.started, leases.c.expires, _RECEIPT.label("received"))
    .outerjoin_from(people, settings_table, settings_table.c.name == "settings")
    .outerjoin(
        leases,
        (leases.c.round == bindparam("of_round"))
        & (leases.c.item == bindparam("of_item"))
        & (leases.c.person == people.c.id),
    )
    .where(people.c.id == bindparam("of_person"), people.c.removed.is_(None))
)


def check_participation(
    connection: Connection, round_: AnnotationRound, person: Person, item: int | None = None, key: str | None = None
) -> tuple[AnnotationSettings, Any]:
    """Refuse a person who may not take part in the round (now).

    Returns the settings, and a row: `started` and `expires` of their lease on the item, and `received`, the subject of
    a submission with this key that was received before (None where there was none).
    """
    values = {"of_round": round_.name, "of_person": person.id, "of_item": item, "of_key": key}
    found = connection.execute(_PARTICIPATION, values).one_or_none()
    if found is None:  # their data was removed while the request waited
        raise NotAllowedError("this account is closed")
    settings = parse_settings(found.value)
    if person.role not in round_.roles_with(settings):
        raise NotAllowedError(f"this round is not for the role {person.role}")
    require_consent(person)
    if not person.qualified:
        raise NotAllowedError("please pass the qualification first")
    if not round_.people_wanted(settings):
        raise StateError("this round is not part of this experiment")
    return settings, found


def require_consent(person: Person) -> None:
    """Refuse a person who has not accepted the consent text."""
    if not person.consented:
        raise NotAllowedError("please read and accept the consent text first")


# Statements that rounds share ---------------------------------------------------------------------------------------


def statement_values(settings: AnnotationSettings, person: int, item: int | None = None) -> dict[str, Any]:
    """Values of the parameters of `AnnotationRound.work`: the numbers of the settings, the person, the item."""
    numbers = {name: value for name, value in vars(settings).items() if isinstance(value, int)}
    return {**numbers, "person": person, **item_values([item])}


def items_in_need(item: Column[int], answered: Column[int], wanted: str, items: Items) -> Work:
    """Select items that still need people, all or some of `items`; a base for `AnnotationRound.work`.

    `item` is the primary key of the items, `answered` the column of the answers that refers to it, and `wanted` the
    setting that says how many people an item needs.
    """
    counted = select(answered.label("item"), func.count().label("people")).group_by(answered)
    done = (counted.where(answered.in_(items)) if items else counted).subquery()
    number, people_wanted = func.coalesce(done.c.people, 0), bindparam(wanted, type_=Integer)
    answers = answered.table
    if items:
        own: ColumnElement[bool] = exists().where(answered == item, answers.c.person == PERSON)
    else:  # one list of the person's answers, where PostgreSQL may look for them once for every item
        own = item.in_(select(answered).where(answers.c.person == PERSON))
    work = (
        select(item.label("item"), (people_wanted - number).label("missing"), number.label("done"))
        .outerjoin(done, done.c.item == item)
        .where(number < people_wanted, ~own)
    )
    return work.where(item.in_(items)) if items else work


def answers_per_item(connection: Connection, item: Column[int], items: Select[int]) -> list[int]:
    """How many people have done each of the selected items of active images."""
    (number,) = items.selected_columns
    done = select(func.count()).select_from(item.table).where(item == number).scalar_subquery()
    return list(connection.execute(items.with_only_columns(done).where(images.c.active)).scalars())


def last_row(connection: Connection, table: Table, person: int, *conditions: Any) -> Row[Any] | None:
    """The last row that a person added to a table."""
    own = select(table).where(table.c.person == person, *conditions)
    return connection.execute(own.order_by(table.c.created.desc()).limit(1)).one_or_none()


def store_answer(
    connection: Connection, round_: AnnotationRound, table: Table, row: Mapping[str, Any], values: Values
) -> bool:
    """Insert a person's answer if the item still needs it from them; return whether it did.

    `values` are those of `statement_values`, with the round's name and the time `now`: a person whose lease has expired
    does not take the place of somebody who holds one.
    """
    new = {f"new_{column.name}": row[column.name] for column in _insertable(table)}
    return connection.execute(_store_statement(round_, table), {**values, **new}).first() is not None


@cache
def _store_statement(round_: AnnotationRound, table: Table) -> ReturningInsert[int]:
    needed = round_.work(ONE).subquery()
    columns = _insertable(table)
    held = (leases.c.round == bindparam("round")) & (leases.c.item == needed.c.item)
    held &= leases.c.expires > bindparam("now", type_=Float)
    others = select(func.count()).select_from(leases).where(held, leases.c.person != PERSON).scalar_subquery()
    own = exists().where(held, leases.c.person == PERSON)
    values = select(*(bindparam(f"new_{column.name}", type_=column.type) for column in columns)).select_from(needed)
    values = values.where(own | (needed.c.missing > others))
    return table.insert().from_select(columns, values).returning(table.c.person)


def _insertable(table: Table) -> list[Column[Any]]:
    """All columns but a number that the database assigns."""
    return [column for column in table.columns if column.foreign_keys or not column.primary_key]
