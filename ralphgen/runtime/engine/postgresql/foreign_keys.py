"""Reads which tables a table names, and which name it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import Keys, Snapshot

# Of tables in this schema: one in another is left to the database itself.
_KEYS = """
    SELECT k.oid::bigint, child.relname::text, parent.relname::text,
        a.attname::text, b.attname::text
    FROM pg_catalog.pg_constraint AS k
        JOIN pg_catalog.pg_class AS child ON child.oid = k.conrelid
        JOIN pg_catalog.pg_class AS parent ON parent.oid = k.confrelid
        JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS pair(own, theirs, place) ON true
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = pair.own
        JOIN pg_catalog.pg_attribute AS b ON b.attrelid = k.confrelid AND b.attnum = pair.theirs
    WHERE k.contype = 'f' AND child.relnamespace = pg_catalog.current_schema()::regnamespace
        AND parent.relnamespace = child.relnamespace
"""
# What this login may not read is left to the database too, but where a row would take others along.
_READABLE = (
    "(SELECT bool_and(has_column_privilege({}, number, 'SELECT')) FROM unnest({}) AS of (number))"
)
_PARENTS = (
    f"{_KEYS} AND child.relname = ? AND {_READABLE.format('k.confrelid', 'k.confkey')} "
    "ORDER BY k.conname, k.oid, pair.place"
)
_CHILDREN = (
    f"{_KEYS} AND parent.relname = ? AND CASE WHEN k.confdeltype IN ('a', 'r') "
    f"THEN {_READABLE.format('k.conrelid', 'k.conkey')} ELSE ?::boolean END "
    "ORDER BY child.relname, k.conname, k.oid, pair.place"
)


def parents(database: Snapshot, table: str) -> Keys:
    """Return each foreign key of a table: the table it names, and its columns with theirs."""
    found: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for number, _, parent, column, theirs in database.rows(_PARENTS, [table]):
        found.setdefault(number, (parent, []))[1].append((column, theirs))
    return list(found.values())


def children(database: Snapshot, table: str, *, also_following: bool = False) -> Keys:
    """Return each foreign key that keeps rows of a table: the table that has it, and its columns.

    Those by which the other rows would go, or be emptied, keep none, and come if `also_following`.
    """
    found: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for number, child, _, column, theirs in database.rows(_CHILDREN, [table, also_following]):
        found.setdefault(number, (child, []))[1].append((column, theirs))
    return list(found.values())
