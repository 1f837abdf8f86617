"""What SQLite's errors mean to an agent."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .library import sqlite3

UNNAMED = {3091: "SQLITE_CONSTRAINT_DATATYPE"}  # has no name in Python 3.11


def sentence(error: sqlite3.Error) -> str:
    """Return a sentence on an SQLite error and what to do, without SQL text."""
    code = getattr(error, "sqlite_errorcode", 0)  # missing if Python itself raised it
    name = str(UNNAMED.get(code) or getattr(error, "sqlite_errorname", ""))
    column = str(error).rpartition(": ")[2]
    sentences = {
        "SQLITE_CONSTRAINT_FOREIGNKEY": "the database refuses this: a row that it names, or that "
        "still names it, is in the way; look it up and try again",
        "SQLITE_CONSTRAINT_NOTNULL": f'the database refuses this: "{column}" must not be empty',
        "SQLITE_CONSTRAINT_UNIQUE": f'the database refuses this: "{column}" is taken already',
        "SQLITE_CONSTRAINT_PRIMARYKEY": f'the database refuses this: "{column}" already exists',
        "SQLITE_CONSTRAINT_CHECK": "the database refuses this: a value breaks a rule of its table",
        "SQLITE_CONSTRAINT_DATATYPE": "the database refuses this: a value has the wrong type",
        "SQLITE_CONSTRAINT_TRIGGER": f"the database refuses this: {column}",
        "SQLITE_FULL": "the disk is full: nothing was changed; free some space and try again",
        "SQLITE_INTERRUPT": "the database took too long and was stopped: nothing was changed; "
        "request less, or ask the user to check for an endless trigger or view",
        "SQLITE_READONLY": "the database is read-only: nothing was changed; fix its permissions",
        "SQLITE_TOOBIG": "the database refuses this: a value is too long",
    }
    known = sentences.get(name) or sentences.get("_".join(name.split("_")[:2]))
    return known or 'the database cannot be used: ask the user to run "ralphgen doctor"'
