"""Reads which indexes there are on a project's tasks."""

from ralphgen.project.connection import DatabaseConnection
from ralphgen.project.model import Names
from ralphgen.project.postgresql import PostgresqlConnection

_OF_SQLITE = """
    SELECT i.name, k.name || CASE k.coll WHEN 'BINARY' THEN '' ELSE ' COLLATE ' || k.coll END
    FROM pragma_index_list('tasks') AS i, pragma_index_xinfo(i.name) AS k
    WHERE k.key AND NOT i.partial
    ORDER BY i.name, k.seqno
"""
_OF_POSTGRESQL = """
    SELECT i.indexrelid::text, pg_catalog.pg_get_indexdef(i.indexrelid, k.at, true)
    FROM pg_catalog.pg_index AS i
        JOIN pg_catalog.pg_class AS c ON c.oid = i.indrelid
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        CROSS JOIN LATERAL pg_catalog.generate_series(1, i.indnkeyatts::int) AS k (at)
    WHERE n.nspname = pg_catalog.current_schema() AND c.relname = 'tasks'
        AND i.indisvalid AND i.indpred IS NULL
    ORDER BY i.indexrelid, k.at
"""


def task_indexes(connection: DatabaseConnection) -> set[Names]:
    """Return the keys of each index on all tasks, as SQL; those that are unknown are empty."""
    of_postgresql = isinstance(connection, PostgresqlConnection)
    found: dict[str, list[str]] = {}
    for index, key in connection.execute(_OF_POSTGRESQL if of_postgresql else _OF_SQLITE):
        found.setdefault(index, []).append((key or "").replace("((", "(").replace("))", ")"))
    return {tuple(keys) for keys in found.values()}
