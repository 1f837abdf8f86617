"""Imports SQLite's module, and contains the parts of SQL that differ between engines.

The module is imported without `functools`: it needs only `lru_cache`, which is written in C, while
`functools` also imports `collections` and `operator`: these take twice as long as SQLite's library.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .. import Database, Snapshot

SAME_NAME = "name = ? COLLATE BINARY"
SAME_LETTERS = "title = ? COLLATE NOCASE"
TYPED = False  # any value may be in any column
DEFER_KEYS = "PRAGMA defer_foreign_keys = ON"
DIFFERS = "IS NOT"  # from a value, including NULL
HEX_NAME = "hex(name)"
HAS_TEXT = "typeof(name) = 'text'"
# Names sort by their bytes and then by stored type: this orders every name, though old tables have
# names that are invalid UTF-8, not text, or NULL.
NAME_KEY = "hex(name) || '.' || substr(typeof(name), 1, 1)"
UNINDEXED = "NOT INDEXED"
ROW_LOCK = ""  # row locks of a SELECT: a writing transaction locks all rows
GIVEN_NUMBER = ""  # for an INSERT with an explicit row number
# Whether the list in `depends_on` may name a task; the caller then parses the matching texts. A ";"
# list may write 7 as 007. Every row is read, so `instr` excludes most of them first, at a fifth of
# the cost of GLOB. For a bare `GLOB ?` SQLite would compile the statement at each call.
_NAMING = (
    "(instr(depends_on, ?) AND ';' || depends_on || ';' GLOB +? "
    "OR depends_on LIKE '%e%' AND depends_on GLOB '*[0-9][eE]*')"
)


def _lru_cache(size: int) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like `functools.lru_cache` that does not copy names."""
    cache = vars(__import__("_functools"))["_lru_cache_wrapper"]
    return lambda function: cache(function, size, False, tuple)


if "functools" in sys.modules or sys.implementation.name != "cpython":
    import _sqlite3
else:
    functools = type(sys)("functools")
    vars(functools)["lru_cache"] = _lru_cache
    sys.modules["functools"] = functools
    try:
        import _sqlite3
    finally:
        del sys.modules["functools"]
sqlite3 = _sqlite3


_OWN_CODE = """
WITH known (name) AS (
    VALUES ('tasks'), ('features'), ('disciplines'), ('task_comments'), ('metadata')
)
SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'trigger'), EXISTS (
    SELECT 1 FROM known JOIN pragma_table_xinfo(known.name) AS field WHERE field.hidden > 1
)
"""


def own_code(database: Snapshot) -> Sequence[str]:
    """Return the kinds of statements on ralph's tables that run code of the project.

    A "write" runs triggers; generated columns count for a "read" too.
    """
    triggers, generated = database.row(_OWN_CODE) or (0, 0)
    return ("read", "write") if generated else ("write",) if triggers else ()


def naming(_database: Database, task: int) -> tuple[str, list[str]]:
    """Return the condition that the list in `depends_on` may name a task, with its values."""
    return _NAMING, [str(task), f"*[^1-9]{task}[^0-9]*"]


def next_number(table: str) -> str:
    """Return the SELECT of the next row number, one above the highest."""
    return f"SELECT COALESCE(MAX(id), 0) + 1 FROM {table}"


def may_add(_database: Snapshot, _table: str) -> bool:
    """Return True: a writable file allows new rows in every table."""
    return True


def can_read(_database: Snapshot, _table: str, _column: str) -> bool:
    """Return True: every column of a readable file may be read."""
    return True


def ordered(column: str) -> str:
    """Return an ORDER BY term: the bytes of a column, rows without a value first."""
    return column


def exact(column: str) -> str:
    """Return an expression for the bytes of a text."""
    return f"CAST({column} AS BLOB)"


def holding(column: str) -> str:
    """Return the condition that a text contains another one."""
    return f"instr({column}, ?) > 0"


def comparable(column: str) -> str:
    """Return a comparable expression for a column of any type."""
    return column


def same_json(column: str) -> str:
    """Return the condition that a column has a JSON value, ignoring white space."""
    same = f"{column} = given OR json_valid({column}) AND json({column}) = given"
    return f"(SELECT {same} FROM (SELECT ? AS given))"


def returning(_key: str) -> str:
    """Return "": the driver of SQLite always has the row number of an INSERT."""
    return ""


def among(column: str, _kind: str = "bigint") -> str:
    """Return the condition that a value is in a list, given as JSON."""
    return f"{column} IN (SELECT value FROM json_each(?))"


def exactly(column: str) -> str:
    """Return a text that is compared, grouped and ordered by its characters alone."""
    return f"{column} COLLATE BINARY"


def holds(column: str) -> str:
    """Return the condition that a column is like a pattern; only ASCII letters have two cases."""
    return f"{column} LIKE ? ESCAPE '!'"


def is_text(column: str) -> str:
    """Return the condition that a column stores text."""
    return f"typeof({column}) = 'text'"


def member(column: str, name: str) -> str:
    """Return a member of a JSON object, as text."""
    return f"CAST(json_extract(coalesce({column}, '{{}}'), '$.{name}') AS TEXT)"


def stored_name(table: str) -> str:
    """Return the name of a table as text, in the spelling of the database."""
    return f"(SELECT name FROM sqlite_master WHERE type = 'table' AND lower(name) = '{table}')"


def stored_type(column: str) -> str:
    """Return the type of a stored value."""
    return f"typeof({column})"


def encoding_of(database: Snapshot) -> str:
    """Return the encoding of `exact`, as Python names it."""
    ((encoding,),) = database.rows("PRAGMA encoding")
    return str(encoding)
