"""Which parts of SQLite named queries may use: no files, no extensions, and no other tables."""

from __future__ import annotations

from .library import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAMES = (
    "-> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat "
    "concat_ws cos cosh count cume_dist current_date current_time current_timestamp date "
    "datetime degrees dense_rank exp first_value floor format glob group_concat hex if ifnull "
    "iif instr json json_array json_array_length json_error_position json_extract "
    "json_group_array json_group_object json_insert json_object json_patch json_pretty "
    "json_quote json_remove json_replace json_set json_type json_valid julianday lag last_value "
    "lead length like likelihood likely ln log log10 log2 lower ltrim max median min mod "
    "nth_value ntile nullif octet_length percent_rank percentile percentile_cont "
    "percentile_disc pi pow power printf quote radians random rank replace round row_number "
    "rtrim sign sin sinh soundex sqrt strftime string_agg substr substring sum tan tanh time "
    "timediff total trim trunc typeof unhex unicode unistr unistr_quote unixepoch unlikely "
    "upper "
)
FUNCTIONS = frozenset(_NAMES.split())
TABLE_FUNCTIONS = frozenset(("json_each", "json_tree"))
# Their first use creates virtual tables, so run it before setting a guard.
WARMING = "SELECT 1 FROM json_each('[]'), json_tree('[]')"
LONGEST = 10_000_000  # bytes of a value, including temporary ones
STEPS = 1_000  # between two clock checks: a single step may create such a value
_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE)


class QueryGuard:
    """An SQLite authorizer that allows only some columns and harmless functions.

    `reads` has the columns by table, ignoring case; None allows everything. SQLite calls it when
    it prepares a statement, and reuses the prepared statement until the schema changes.
    """

    __slots__ = ("reads", "refused")

    def __init__(self) -> None:
        self.reads: Mapping[str, Sequence[str]] | None = None
        self.refused = ""

    def __call__(
        self, action: int, first: str | None, second: str | None, _base: object, _by: object
    ) -> int:
        """Return whether a part of a statement is allowed; `refused` has the first denied part."""
        if self.reads is None or action in _READING:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            table, column = (first or "").lower(), (second or "").lower()
            known = {
                one.lower()
                for name, columns in self.reads.items()
                for one in columns
                if name.lower() == table
            }
            if column in known or table in TABLE_FUNCTIONS or is_counted(table, column):
                return sqlite3.SQLITE_OK
        self.refused = self.refused or ".".join(filter(None, (first, second))) or str(action)
        return sqlite3.SQLITE_DENY


def is_counted(table: str, column: str) -> bool:
    """Return whether a statement only counts the rows of a table or subquery.

    False for the tables of ralphgen and SQLite.
    """
    return not column and not table.startswith(("ralphgen_", "sqlite_", "pragma_"))
