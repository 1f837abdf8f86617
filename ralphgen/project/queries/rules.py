"""What named queries may not do, whatever the engine: the sentences with file and line."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from ralphgen.errors import Problem
from ralphgen.project.queries.files import NamedSql
from ralphgen.project.queries.items import VERBS, items_of, returned, verb_and_table
from ralphgen.project.queries.tokens import Token
from ralphgen.runtime.engine.schema import fold

READING = ("SELECT", "WITH", "VALUES")
WRITING = ("INSERT", "UPDATE", "DELETE")
OWN = "ralphgen_"
SECRETS = (("disciplines", "mcp_servers"),)
"""Columns that may contain secrets."""
RESTRICTING = (("disciplines", "mcp_tool_overrides"), ("disciplines", "disabled_tools"))
"""Columns that remove tools from sessions: no session writes them."""
INTERNAL = (OWN, "sqlite_", "pragma_")
ROWIDS = ("rowid", "oid", "_rowid_")
UNTYPED = "has no type, and none can be inferred"
Hidden = Callable[[str, str], bool]


def is_secret(table: str, column: str, hidden: Hidden) -> bool:
    """Return whether queries may not know a column, by the names of its table and its own."""
    pair = (fold(table), fold(column))
    return pair in SECRETS or pair[0].startswith(OWN) or hidden(table, column)


def kind_problem(query: NamedSql, tokens: Sequence[Token]) -> Problem | None:
    """Return why a statement is none of its query's kind; `tokens` are without comments."""
    place = f"{query.where}:{tokens[0].line}"
    verb, _ = verb_and_table(tokens)
    if verb == "REPLACE":
        return Problem(f"{place}: REPLACE is not supported", "use INSERT OR REPLACE")
    if not tokens[0].is_word(*READING, *VERBS):
        text = f'{place}: starts with "{tokens[0].text}", expected SELECT'
        return Problem(f"{text}, or INSERT, UPDATE or DELETE for :exec")
    if query.kind == "exec" and verb not in WRITING:
        text = f'{place}: query "{query.name}" is :exec, expected INSERT, UPDATE or DELETE'
        return Problem(text, "use :one or :many for a query that reads")
    if verb and query.kind == "exec" and not returned(tokens):
        text = f'{place}: query "{query.name}" does not return the rows that it writes'
        return Problem(text, "end it with RETURNING and the columns of the primary key")
    if query.kind != "exec" and verb:
        text = f'{place}: query "{query.name}" is :{query.kind}, but its {verb} writes'
        return Problem(text, "use :exec for a query that writes")
    return None


def refused_names(query: NamedSql, tokens: Sequence[Token]) -> Iterator[Problem]:
    """Yield a problem for each name in SQLite that goes around the visible tables.

    `tokens` are without comments and spaces. A text in single quotes can be a name as well.
    """
    place = f"{query.where}:{tokens[0].line}"
    for before, token, behind in zip((None, *tokens), tokens, (*tokens[1:], None), strict=False):
        is_text = token.kind == "text"
        name = fold(token.text[1:-1] if is_text else token.name)
        qualifies = behind is not None and behind.text == "."
        if name in ("main", "temp") and qualifies:
            text = f'{place}: query "{query.name}" names the schema "{name}"'
            yield Problem(text, "use the table name alone")
        is_name = not is_text or qualifies or _may_name_table(before)
        if is_name and (name.startswith(INTERNAL) or name == "dbstat"):
            yield Problem(f'{place}: query "{query.name}" reads the internal table "{name}"')


def _may_name_table(before: Token | None) -> bool:
    """Return whether a text behind this token may stand for a table."""
    return before is not None and (before.text in ("(", ",") or before.is_word("FROM", "JOIN"))


def merged_secrets(tokens: Sequence[Token], hidden: Hidden) -> Iterator[str]:
    """Yield, as "table.column", each hidden column that a USING may join by.

    SQLite joins by the first table that has the column, so one next to the join counts too.
    `tokens` are without comments and spaces.
    """
    words = sorted({fold(token.name or token.text[1:-1]) for token in tokens})
    is_using = False
    for token in tokens:
        is_using = (is_using and token.text != ")") or token.is_word("USING")
        quoted = token.text[1:-1] if token.kind == "text" else ""  # which names a column here
        name = fold(token.name or quoted) if is_using else ""
        yield from (f"{one}.{name}" for one in words if name and is_secret(one, name, hidden))


def lists_all(tokens: Sequence[Token]) -> bool:
    """Return whether a statement has a * that stands for columns."""
    return any(
        token.text == "*"
        and (before.text in (",", ".") or before.is_word("SELECT", "DISTINCT", "ALL", "RETURNING"))
        for before, token in pairwise(tokens)
    )


def refused_reads(
    query: NamedSql, reads: Iterable[tuple[str, str]], hidden: Hidden
) -> Iterator[Problem]:
    """Yield a problem for each column that the query reads and may not, also by a view."""
    place = f"{query.where}:{query.tokens[0].line if query.tokens else query.line}"
    for table, column in sorted(reads):
        if is_secret(table, column, hidden):
            what = f"{table}.{column}" if column else table
            yield Problem(f'{place}: query "{query.name}" reads "{what}", which is hidden')


def refused_writes(
    query: NamedSql, table: str, sets: Iterable[str], hidden: Hidden
) -> Iterator[Problem]:
    """Yield a problem for each thing that the query writes and may not."""
    place = f"{query.where}:{query.line}"
    if fold(table).startswith(OWN):
        yield Problem(f'{place}: query "{query.name}" writes "{table}", which belongs to ralphgen')
    for column in sorted(sets):
        if is_secret(table, column, hidden):
            text = f'{place}: query "{query.name}" sets "{table}.{column}", which is hidden'
            yield Problem(text)
        elif (fold(table), fold(column)) in RESTRICTING:
            text = f'{place}: query "{query.name}" sets "{table}.{column}", which is not allowed'
            yield Problem(text)


def returning_problem(
    query: NamedSql, back: Sequence[Token], key: Sequence[str], table: str
) -> Iterator[Problem]:
    """Yield a problem where the rows that a query has written do not come back with their key."""
    place = f"{query.where}:{query.line}"
    if not key:
        text = f'{place}: the table "{table}" has no primary key to identify its rows'
        yield Problem(text, "add a primary key")
        return
    items = items_of(back)
    if any(item.is_all for item in items):
        return
    there = {fold(item.column[1]) for item in items if item.column}
    missing = [name for name in key if fold(name) not in there]
    if missing:
        listed = ", ".join(key)
        text = f'{place}: query "{query.name}" does not return the primary key ("{missing[0]}")'
        yield Problem(text, f"end it with: RETURNING {listed}")
