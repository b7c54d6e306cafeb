"""The annotation database: `Store` runs transactions on SQLite or PostgreSQL, `schema` defines the tables.

`WriteQueue` is the thread in which the web application makes all its changes.
"""

from captrial.annotate.database.transactions import Store, WriteQueue

__all__ = ["Store", "WriteQueue"]
