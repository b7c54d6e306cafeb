"""How somebody stands to a round: may they take part, what do they hold, was a submission seen before?"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, bindparam, exists, select

from captrial.annotate.accounts import Person
from captrial.annotate.database.schema import leases, people, receipts
from captrial.annotate.database.schema import settings as settings_table
from captrial.annotate.rounds.rounds import ROLES_OF
from captrial.annotate.settings import Settings, parse_settings
from captrial.errors import NotAllowedError, StateError

_RECEIPT = exists().where(receipts.c.person == people.c.id, receipts.c.key == bindparam("of_key"))
_STANDING = (
    select(settings_table.c.value, leases.c.started, leases.c.expires, _RECEIPT.label("seen"))
    .outerjoin_from(people, settings_table, settings_table.c.name == "settings")
    .outerjoin(
        leases,
        (leases.c.round == bindparam("of_round"))
        & (leases.c.item == bindparam("of_item"))
        & (leases.c.person == people.c.id),
    )
    .where(people.c.id == bindparam("of_person"), people.c.removed.is_(None))
)


def stand(
    connection: Connection, round_: str, person: Person, item: int | None = None, key: str | None = None
) -> tuple[Settings, Row[Any]]:
    """The settings, if this person may take part in the round; their lease on the item; whether the key was seen."""
    about = {"of_round": round_, "of_person": person.id, "of_item": item, "of_key": key}
    standing = connection.execute(_STANDING, about).one_or_none()
    if standing is None:  # whose data was removed while the request waited
        raise NotAllowedError("this account is closed")
    settings = parse_settings(standing.value)
    if person.role not in ROLES_OF[round_]:
        raise NotAllowedError(f"this round is not for the role {person.role}")
    require_consent(person)
    if not person.qualified:
        raise NotAllowedError("please pass the qualification first")
    if (round_ == "inspect" and not settings.inspectors) or (round_ == "judge" and not settings.judges):
        raise StateError("this round is not part of this experiment")
    return settings, standing


def require_consent(person: Person) -> None:
    """Refuse who has not accepted the consent text."""
    if not person.consented:
        raise NotAllowedError("please read and accept the consent text first")
