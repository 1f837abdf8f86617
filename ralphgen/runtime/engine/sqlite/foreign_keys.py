"""Reads which tables a table of SQLite names, and which name it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import Keys, Snapshot

# The parent's columns may be left out, and are then its primary key.
_COLUMNS = """
    SELECT k.id, k."table", k."from",
        coalesce(k."to", (SELECT c.name FROM pragma_table_info(k."table") AS c
                          WHERE c.pk = k.seq + 1), '')
"""
_PARENTS = f"{_COLUMNS} FROM pragma_foreign_key_list(?) AS k ORDER BY k.id, k.seq"
_CHILDREN = f"""
    {_COLUMNS}, t.name FROM sqlite_master AS t, pragma_foreign_key_list(t.name) AS k
    WHERE t.type = 'table' AND lower(k."table") = lower(?)
        AND (? OR k.on_delete IN ('NO ACTION', 'RESTRICT'))
    ORDER BY t.name, k.id, k.seq
"""


def parents(database: Snapshot, table: str) -> Keys:
    """Return each foreign key of a table: the table it names, and its columns with theirs."""
    found: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for number, parent, column, theirs in database.rows(_PARENTS, [table]):
        found.setdefault(number, (parent, []))[1].append((column, theirs))
    return list(found.values())


def children(database: Snapshot, table: str, *, also_following: bool = False) -> Keys:
    """Return each foreign key that keeps rows of a table: the table that has it, and its columns.

    Those by which the other rows would go, or be emptied, keep none, and come if `also_following`.
    """
    found: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for number, _, column, theirs, child in database.rows(_CHILDREN, [table, also_following]):
        found.setdefault((child, number), []).append((column, theirs))
    return [(child, pairs) for (child, _), pairs in found.items()]
