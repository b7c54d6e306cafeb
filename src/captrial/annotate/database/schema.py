"""The tables, and migrations from one version of them to the next."""

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

VERSION = 2
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
    Column("active", Boolean, nullable=False),  # in some D_ij as things stand
    Column("qualification", Boolean, nullable=False, default=False),
)

sentences = Table(
    "sentences",
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
    Index("sentences_of_image", "image", "state"),
    sqlite_autoincrement=True,  # a number is never used again: somebody may be looking at the sentence that had it
)

refusals = Table(  # "cannot be described"
    "refusals",
    metadata,
    Column("image", ForeignKey("images.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("reason", Text, nullable=False, default=""),
    Column("created", Float, nullable=False),
)

votes = Table(
    "votes",
    metadata,
    Column("sentence", ForeignKey("sentences.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("right", Boolean, nullable=False),
    Column("reason", Text, nullable=False, default=""),
    Column("created", Float, nullable=False),
    Column("seconds", Float),
    Index("votes_of_person", "person"),
)

duels = Table(  # two captions of one image, to be compared
    "duels",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("image", ForeignKey("images.id"), nullable=False),
    Column("first", Text, nullable=False),  # models
    Column("second", Text, nullable=False),
    UniqueConstraint("image", "first", "second"),
)

judgements = Table(
    "judgements",
    metadata,
    Column("duel", ForeignKey("duels.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("winner", String(8), nullable=False),  # first, second, tie
    Column("created", Float, nullable=False),
    Column("seconds", Float),
    Index("judgements_of_person", "person"),
)

trials = Table(  # what people wrote in the qualification
    "trials",
    metadata,
    Column("image", ForeignKey("images.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("text", Text, nullable=False),
    Column("good", Boolean, nullable=False),
    Column("created", Float, nullable=False),
)

leases = Table(  # who is working on what; an expired lease counts for nothing
    "leases",
    metadata,
    Column("round", String(16), primary_key=True),  # write, inspect, judge
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

receipts = Table(  # idempotency: the same submission sent twice is done once
    "receipts",
    metadata,
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("key", String(64), primary_key=True),
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

# MIGRATIONS[n] changes a database of version n into one of version n + 1.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: ("ALTER TABLE receipts DROP COLUMN answer",),  # it was always the same
}


def migrate(connection: Connection) -> None:
    """Create the tables, or bring those of an earlier version up to date; refuse a later version."""
    if not inspect(connection).has_table(schema_version.name):
        metadata.create_all(connection)
        connection.execute(schema_version.insert().values(version=VERSION))
        return
    found = connection.execute(select(schema_version.c.version)).scalar_one()
    if found > VERSION:
        raise MismatchError(f"this database was made by a newer captrial (version {found}); upgrade captrial")
    for version in range(found, VERSION):
        for statement in MIGRATIONS[version]:
            connection.exec_driver_sql(statement)
    connection.execute(schema_version.update().values(version=VERSION))
