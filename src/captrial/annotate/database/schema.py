"""The tables of the annotation database, and the migrations from one version of them to the next.

Every round stores what people answered in one table with the columns `person`, `created` and `seconds`. Missing tables
are created when a database is opened, so a new table needs no migration; a changed table does.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
)

from captrial.errors import MismatchError

VERSION = 5
metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

settings = Table("settings", metadata, Column("name", String(64), primary_key=True), Column("value", Text))

people = Table(
    "people",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(80), nullable=False),
    Column("role", String(16), nullable=False),  # lead, annotator, inspector
    Column("invitation", String(64), unique=True),  # hash of the invitation's token
    Column("password", Text),  # argon2 hash, where the person chose one
    Column("consented", Float),
    Column("qualified", Float),
    Column("removed", Float),
    Column("created", Float, nullable=False),
)

images = Table(
    "images",
    metadata,
    Column("id", Integer, primary_key=True),  # the number people see in addresses; says nothing about the file
    Column("image", Text, nullable=False, unique=True),
    Column("active", Boolean, nullable=False),  # in some selection D_ij now
    Column("qualification", Boolean, nullable=False, default=False),
)

captions = Table(  # of the writing round
    "captions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("image", ForeignKey("images.id"), nullable=False),
    Column("person", ForeignKey("people.id"), nullable=False, index=True),
    Column("text", Text, nullable=False),
    Column("hints", Text, nullable=False, default=""),  # rules the writer chose to override
    Column("state", String(16), nullable=False),  # live, discarded, removed
    Column("created", Float, nullable=False),
    Column("seconds", Float),
    UniqueConstraint("image", "person"),  # nobody describes an image twice
    Index("captions_of_image", "image", "state"),
    sqlite_autoincrement=True,  # a number is never used again: an inspector may have that caption on screen
)

refusals = Table(  # "cannot be described"
    "refusals",
    metadata,
    Column("image", ForeignKey("images.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("reason", Text, nullable=False, default=""),
    Column("created", Float, nullable=False),
)

votes = Table(  # of the inspection round
    "votes",
    metadata,
    Column("caption", ForeignKey("captions.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("right", Boolean, nullable=False),
    Column("reason", Text, nullable=False, default=""),
    Column("created", Float, nullable=False),
    Column("seconds", Float),
    Index("votes_of_person", "person"),
)

caption_pairs = Table(  # captions of one image by two models, to be compared
    "caption_pairs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("image", ForeignKey("images.id"), nullable=False),
    Column("first", Text, nullable=False),  # models
    Column("second", Text, nullable=False),
    UniqueConstraint("image", "first", "second"),
)

judgements = Table(  # of the judging round
    "judgements",
    metadata,
    Column("pair", ForeignKey("caption_pairs.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("preferred", Text),  # model; null where neither is better
    Column("left", Text, nullable=False),  # model whose caption was shown on the left
    Column("created", Float, nullable=False),
    Column("seconds", Float),
    Index("judgements_of_person", "person"),
)

practice_captions = Table(  # of the qualification
    "practice_captions",
    metadata,
    Column("image", ForeignKey("images.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("text", Text, nullable=False),
    Column("good", Boolean, nullable=False),
    Column("created", Float, nullable=False),
)

leases = Table(  # who is working on which item; an expired lease has no effect
    "leases",
    metadata,
    Column("round", String(16), primary_key=True),  # name of a round
    Column("item", Integer, primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("started", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Index("leases_of_person", "person", "round"),
)

drafts = Table(
    "drafts",
    metadata,
    Column("round", String(16), primary_key=True),
    Column("item", Integer, primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("text", Text, nullable=False),
    Column("saved", Float, nullable=False),
)

receipts = Table(  # keys of submissions: the same submission sent twice is stored once
    "receipts",
    metadata,
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("created", Float, nullable=False),
    Column("subject", String(40), nullable=False, server_default=""),  # hash of what was sent with the key
)

sessions = Table(  # of people who are signed in; a session ends with its row
    "sessions",
    metadata,
    Column("token", String(64), primary_key=True),  # hash of the cookie's
    Column("person", ForeignKey("people.id"), nullable=False, index=True),
    Column("created", Float, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Float, nullable=False),
    Column("person", Integer),
    Column("action", String(40), nullable=False),
    Column("detail", Text, nullable=False, default=""),
)

RENAMED_TABLES = {  # in version 3
    "pictures": "images",
    "sentences": "captions",
    "duels": "caption_pairs",
    "trials": "practice_captions",
}
RENAMED_COLUMNS = (  # in version 3: table, old name, new name
    ("images", "picture", "image"),
    ("captions", "picture", "image"),
    ("refusals", "picture", "image"),
    ("caption_pairs", "picture", "image"),
    ("practice_captions", "picture", "image"),
    ("votes", "sentence", "caption"),
    ("judgements", "duel", "pair"),
)
# Until version 4 judgements named positions: `winner` first, second or tie of the pair. Who was shown on the left
# followed from the numbers of pair and person, as here.
_PAIR_MODEL = "(SELECT {} FROM caption_pairs WHERE caption_pairs.id = judgements.pair)"
_SWAPPED = "(((CAST(pair AS BIGINT) * 2654435761 + CAST(person AS BIGINT) * 40503) >> 7) & 1) = 1"
_FIRST, _SECOND = _PAIR_MODEL.format("first"), _PAIR_MODEL.format("second")
# MIGRATIONS[n] changes a database of version n into one of version n + 1.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: ("ALTER TABLE receipts DROP COLUMN answer",),  # it was always the same
    2: (
        *(f"ALTER TABLE {old} RENAME TO {new}" for old, new in RENAMED_TABLES.items()),
        *(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}" for table, old, new in RENAMED_COLUMNS),
        """UPDATE settings SET value = REPLACE(value, '"min_sentences":', '"min_captions":') WHERE name = 'settings'""",
    ),
    3: (
        "ALTER TABLE judgements ADD COLUMN preferred TEXT",
        """ALTER TABLE judgements ADD COLUMN "left" TEXT NOT NULL DEFAULT ''""",
        f"UPDATE judgements SET preferred = {_FIRST} WHERE winner = 'first'",
        f"UPDATE judgements SET preferred = {_SECOND} WHERE winner = 'second'",
        f"""UPDATE judgements SET "left" = CASE WHEN {_SWAPPED} THEN {_SECOND} ELSE {_FIRST} END""",
        "ALTER TABLE judgements DROP COLUMN winner",
    ),
    4: ("ALTER TABLE receipts ADD COLUMN subject VARCHAR(40) NOT NULL DEFAULT ''",),
}


def check_version(connection: Connection) -> None:
    """Refuse a database that is not an annotation database of this version."""
    if not inspect(connection).has_table(schema_version.name):
        raise MismatchError("this is not an annotation database of captrial")
    found = connection.execute(select(schema_version.c.version)).scalar_one()
    if found > VERSION:
        raise MismatchError(f"this database was made by a newer captrial (version {found}); upgrade captrial")
    if found < VERSION:
        raise MismatchError(
            f"this database was made by an older captrial (version {found}); `captrial annotate serve` upgrades it"
        )


def migrate(connection: Connection) -> None:
    """Create missing tables and bring those of an earlier version up to date; refuse a later version."""
    if inspect(connection).has_table(schema_version.name):
        found = connection.execute(select(schema_version.c.version)).scalar_one()
        if found > VERSION:
            raise MismatchError(f"this database was made by a newer captrial (version {found}); upgrade captrial")
        for version in range(found, VERSION):
            for statement in MIGRATIONS[version]:
                connection.exec_driver_sql(statement)
        connection.execute(schema_version.update().values(version=VERSION))
        metadata.create_all(connection)
    else:
        foreign = inspect(connection).get_table_names()
        if foreign:
            raise MismatchError(f"this database has tables of something else ({foreign[0]}); give one of its own")
        metadata.create_all(connection)
        connection.execute(schema_version.insert().values(version=VERSION))
