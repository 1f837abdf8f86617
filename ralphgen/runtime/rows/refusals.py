"""Says which rule a row breaks that the database refuses, and lets none take another's place."""

from __future__ import annotations

import re

from ..errors import ToolError
from ..values import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..engine import Database
    from .table import RowTable

LONGEST = 300  # characters of a rule that is told whole
_WORD = r"[^\W\d][\w$]*"


def refusal(database: Database, table: RowTable, error: ToolError) -> ToolError:
    """Return what is said of a write that failed: where a CHECK refused it, which one that is.

    Of one on a column that is hidden nothing is told.
    """
    cause = error.__cause__
    rules = database.catalog
    if not rules.is_broken_rule(cause):
        return error
    rule = database.reading(lambda: rules.broken_rule(database, table.name, cause))
    words = {word.lower() for word in re.findall(_WORD, rule)}
    own = f"{table.name}.".lower()
    hidden = {name.removeprefix(own) for name in table.hidden if name.startswith(own)}
    if not rule or any(words & {*re.findall(_WORD, name)} for name in hidden):
        return error
    told = " ".join(rule.split())
    if len(told) > LONGEST:
        told = f"{told[:LONGEST]}…"
    return ToolError(f"the database refuses this: it breaks a rule of its table, {told}")


def alone(database: Database, table: RowTable, write: Callable[[], Any], *, new: int) -> Any:
    """Return `write()`, which makes so many `new` rows of a table, where it is not ignored.

    Raises `ToolError` where another row would have to go for it, as a table can say of its UNIQUEs.
    """
    if not database.catalog.replaces_rows(database, table.name):
        return write()
    sql = f"SELECT COUNT(*) FROM {table.quoted}"
    (before,) = database.row(sql) or (0,)
    done = write()
    (after,) = database.row(sql) or (0,)
    if after < before + (new if done else 0):
        raise ToolError(
            f"another {table.words} has one of these values already, and would be deleted: "
            f"{shortened(table.name)} replaces rows on conflict; change or delete it first"
        )
    return done
