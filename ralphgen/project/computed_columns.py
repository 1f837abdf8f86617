"""Finds generated columns that are computed from hidden columns."""

from collections.abc import Iterator, Sequence

from ralphgen.project.database import Snapshot
from ralphgen.project.model import Schema
from ralphgen.project.queries.rules import is_secret
from ralphgen.project.queries.tokens import Token, read_tokens, without_comments
from ralphgen.runtime.engine.schema import fold

_TABLES = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE '%(%'"
# Up to version 14 the column depends on its sources, since then its expression does.
_DEPENDENCIES = """
SELECT c.relname::text, g.attname::text, s.attname::text
FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS g ON g.attrelid = c.oid AND g.attgenerated <> ''
    JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = g.attnum
    JOIN pg_catalog.pg_depend AS p ON p.refclassid = 'pg_catalog.pg_class'::regclass
        AND p.refobjid = c.oid
        AND (p.classid = 'pg_catalog.pg_attrdef'::regclass AND p.objid = d.oid
            OR p.classid = 'pg_catalog.pg_class'::regclass AND p.objid = c.oid
                AND p.objsubid = g.attnum)
    JOIN pg_catalog.pg_attribute AS s ON s.attrelid = c.oid AND s.attnum = p.refobjsubid
WHERE n.nspname = pg_catalog.current_schema() AND s.attnum <> g.attnum
ORDER BY 1, 2, 3
"""


def computed_from_hidden(connection: Snapshot, schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield each visible generated column and a hidden column it needs, as "table.column"."""
    is_told = connection.sql.TYPED
    pairs = connection.rows(_DEPENDENCIES) if is_told else _by_definition(connection)
    for table, column, source in pairs:
        shown = not is_secret(table, column, schema.hidden)
        if shown and is_secret(table, source, schema.hidden):
            yield f"{table}.{column}", f"{table}.{source}"


def _by_definition(connection: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yield the table, the generated column and each name in its definition."""
    for table, sql in connection.rows(_TABLES):
        if sql.upper().startswith("CREATE TABLE"):
            tokens = without_comments(read_tokens(sql, table, 1, sqlite=True))
            for part, is_generated in _parts(tokens):
                if is_generated:
                    for token in part[1:]:
                        if token.name:
                            yield table, part[0].name, fold(token.name)


def _parts(tokens: Sequence[Token]) -> Iterator[tuple[list[Token], bool]]:
    """Yield the definition of each column or constraint, and whether it is a generated column."""
    part: list[Token] = []
    depth, is_generated = 0, False
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if (depth == 1 and token.text == ",") or (depth == 0 and token.text == ")"):
            if part:
                yield part, is_generated
            part, is_generated = [], False
        elif depth and not (depth == 1 and token.text == "(" and not part):
            is_generated = is_generated or (depth == 1 and token.is_word("AS"))
            part.append(token)
