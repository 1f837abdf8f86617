"""Converts database errors to messages: the problem and the remedy, without SQL text."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .driver import Error

RACES = ("40001", "40P01", "55P03")  # serialization, deadlock, a lock that is held
STOPPED = "57014"
MOVED = ("42703", "42P01", "0A000")  # no such column, no such table, a plan with other columns
TAKEN = "23505"
READ_ONLY = "25006"
LATE = (
    "a trigger of the database still waited for the commit to write, after three rounds in which "
    "waiting triggers ran: nothing was changed; ask the user to let no deferred trigger defer "
    "another"
)
DOCTOR = 'the database cannot be used: ask the user to run "ralphgen doctor"'
SENTENCES = {
    "22001": "the database refuses this: a value is too long",
    "23502": 'the database refuses this: "{column}" must not be empty',
    "23503": "the database refuses this: a referenced row is missing, or another row refers to "
    "this one; look it up and try again",
    "23514": "the database refuses this: a value breaks a rule of its table",
    READ_ONLY: "the database is read-only: nothing was changed; fix its permissions",
    "428C9": "the database refuses this: {message}; leave it out",  # a column that it fills
    "42501": "the login of this server may not do this: nothing was changed; ask the user for the "
    "privilege",
    "42804": "the database refuses this: a value has the wrong type",
    "42883": "the database refuses this: it cannot compare values of this type",
    "53100": "the disk is full: nothing was changed; free some space and try again",
    "57014": "the database took too long and was stopped: nothing was changed; request less, or "
    "ask the user to check for an endless trigger or view",
    "P0001": "the database refuses this: {message}",
}
CLASSES = {"22": "the database refuses this: a value has the wrong type"}
MISSING = "does not exist"
LOGINS = ("authentication failed", "no password supplied", "pg_hba.conf", "role ")


def sentence(error: Error) -> str:
    """Return a sentence on an error of a statement."""
    state = error.sqlstate or ""
    told = error.diag
    column = f"{told.table_name}.{told.column_name}"
    if state == TAKEN:
        column = f"{told.table_name}.{_key(told.message_detail or '')}"
        is_primary = (told.constraint_name or "").endswith("_pkey")
        how = "already exists" if is_primary else "is taken already"
        return f'the database refuses this: "{column}" {how}'
    known = SENTENCES.get(state) or CLASSES.get(state[:2]) or DOCTOR
    return known.format(column=column, message=told.message_primary)


def unreachable(variable: str, error: Error) -> str:
    """Return a sentence on a failed connection, without any part of the DSN."""
    text = str(error)
    problem = "cannot be reached: see that it runs"
    if not text.startswith(("connection ", "consuming ", "could not ")) and not error.sqlstate:
        problem = "is named by no DSN: write one, such as postgresql://user@host/name"
    elif any(words in text for words in LOGINS):
        problem = "refuses the login: see the user and the password"
    elif MISSING in text:
        problem = "does not exist: see the name"
    return f'the database that the environment variable "{variable}" names {problem}'


def _key(detail: str) -> str:
    """Return the columns out of `Key (name)=(value) already exists.`."""
    return detail.partition("(")[2].partition(")=")[0]
