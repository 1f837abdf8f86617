"""What named queries may not do, whatever the engine: the sentences with file and line."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from ralphgen.errors import Problem
from ralphgen.project.queries.files import (
    VERBS,
    NamedSql,
    Token,
    items_of,
    outermost,
    returned,
    verb_and_table,
)
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


Column = tuple[str, str]
"""A column as the statement names it: by a table or its alias, or an empty text, and its name."""

_SIGNS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_TEXTS = ("LIKE", "GLOB", "ILIKE")
_BEFORE = ("AND", "OR", "NOT", "WHERE", "ON", "SET", "HAVING", "WHEN", "BETWEEN", "SELECT", "THEN")
_BEHIND = (
    *("AND", "OR", "THEN", "WHEN", "ELSE", "END", "GROUP", "ORDER", "LIMIT", "HAVING", "WHERE"),
    *("RETURNING", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "ON", "JOIN", "LEFT", "INNER", "FROM"),
    *("OFFSET", "AS", "ESCAPE", "COLLATE"),
)


def compared_columns(tokens: Sequence[Token], name: str) -> list[Column | str]:
    """Return, for each place of a parameter that tells its type, the column there, or a type.

    `tokens` are those of the statement without comments and spaces. A type is "integer" behind
    LIMIT and OFFSET, and "text" behind LIKE.
    """
    found: list[Column | str] = []
    for at, token in enumerate(tokens):
        if token.kind == "parameter" and token.text[1:] == name and _ends(tokens, at + 1):
            known = _at(tokens, at)
            if known:
                found.append(known)
    return found


def _at(tokens: Sequence[Token], at: int) -> Column | str | None:
    """Return what one place of a parameter tells."""
    none = Token("", "", 0)
    third, second, before = [none, none, none, *tokens[:at]][-3:]
    behind = tokens[at + 1] if at + 1 < len(tokens) else none
    found: Column | str | None = None
    if before.is_word("LIMIT", "OFFSET"):
        found = "integer"
    elif before.is_word(*_TEXTS):
        found = "text"
    elif before.text in _SIGNS or before.is_word("IS", "BETWEEN"):
        found = _left(tokens, at - 1)
    elif before.is_word("NOT") and second.is_word("IS"):
        found = _left(tokens, at - 2)
    elif before.is_word("AND") and third.is_word("BETWEEN"):
        found = _left(tokens, at - 3)
    elif before.text in ("(", ","):
        found = _listed(tokens, at)
    if found is None and behind.text in _SIGNS and _begins(tokens, at - 1):
        found = _right(tokens, at + 2)
    return found


def _ends(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an operand ends before a token, so that nothing is added to it."""
    if at >= len(tokens):
        return True
    token = tokens[at]
    return token.text in (*_SIGNS, ")", ",") or token.is_word(*_BEHIND, "IS", *_TEXTS)


def _left(tokens: Sequence[Token], at: int) -> Column | None:
    """Return the column that is the whole operand before an operator."""
    if at and tokens[at - 1].is_word("NOT"):
        at -= 1
    return _chain(tokens, at - 1, is_whole=True)


def _begins(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an operand begins behind a token."""
    return at < 0 or tokens[at].text in ("(", ",") or tokens[at].is_word(*_BEFORE)


def _right(tokens: Sequence[Token], at: int) -> Column | None:
    """Return the column that is the whole operand behind an operator."""
    end = at + 2 if at + 2 < len(tokens) and tokens[at + 1].text == "." else at
    return _chain(tokens, end, is_whole=False) if _ends(tokens, end + 1) else None


def _chain(tokens: Sequence[Token], at: int, *, is_whole: bool) -> Column | None:
    """Return the column whose name ends at a token; with `is_whole` the operand begins with it."""
    if not 0 <= at < len(tokens) or not tokens[at].name:
        return None
    table, before = "", at - 1
    if before > 0 and tokens[before].text == "." and tokens[before - 1].name:
        table, before = tokens[before - 1].name, before - 2
    return (table, tokens[at].name) if not is_whole or _begins(tokens, before) else None


def _listed(tokens: Sequence[Token], at: int) -> Column | None:
    """Return the column whose value stands in a list: behind IN, or in VALUES of an INSERT."""
    opening = at - 1
    place = 0
    while opening >= 0 and tokens[opening].text != "(":
        if tokens[opening].text == ")":
            return None
        place += tokens[opening].text == ","
        opening -= 1
    if opening < 1:
        return None
    if tokens[opening - 1].is_word("IN"):
        return _left(tokens, opening - 1)
    if tokens[opening - 1].is_word("VALUES"):
        return _inserted_column(tokens, opening - 1, place)
    return None


def _inserted_column(tokens: Sequence[Token], values: int, place: int) -> Column | None:
    """Return the column of an INSERT whose value stands at a place in its VALUES."""
    closing = values - 1
    opening = closing
    while opening >= 0 and tokens[opening].text != "(":
        opening -= 1
    names = [token.name for token in tokens[opening + 1 : closing] if token.text != ","]
    if opening < 1 or tokens[closing].text != ")" or place >= len(names) or not names[place]:
        return None
    return (tokens[opening - 1].name, names[place])


_JOINS = ("FROM", "USING")  # whose columns would have to be told from those of the table
_MIXED = ("OR", "BETWEEN", "CASE")  # which conditions hold then is not plain
_ENDS = ("RETURNING", "ON")


def tied_columns(tokens: Sequence[Token], verb: str) -> dict[str, str]:
    """Return, by parameter, the column that has its value in every row that is written.

    `tokens` are those of the statement without comments and spaces. What is not plain to see is
    left out: only `column = :name` among conditions that all have to hold, and the values of the
    one row that an INSERT spells out.
    """
    outer = outermost(tokens)
    begins = [at for at, token in outer if token.is_word(verb)]
    if not begins:
        return {}
    behind = [(at, token) for at, token in outer if at > begins[0]]
    return dict(_inserted_values(tokens, behind) if verb == "INSERT" else _compared(tokens, behind))


def _compared(
    tokens: Sequence[Token], outer: Sequence[tuple[int, Token]]
) -> Iterator[tuple[str, str]]:
    """Yield what the conditions of an UPDATE or DELETE say; `outer` begins behind that word."""
    places = [at for at, token in outer if token.is_word("WHERE")]
    rest = outer[1:] if outer and outer[0][1].is_word("FROM") else outer
    if len(places) != 1 or any(
        token.is_word(*_JOINS) or (at > places[0] and token.is_word(*_MIXED)) for at, token in rest
    ):
        return
    ends = [at for at, token in outer if at > places[0] and token.is_word("RETURNING")]
    part: list[Token] = []
    stops = {at for at, token in outer if token.is_word("AND")}
    for at in range(places[0] + 1, len(tokens)):
        if ends and at >= ends[0]:
            break
        if at in stops:
            yield from _tie(part)
            part = []
        else:
            part.append(tokens[at])
    yield from _tie(part)


def _tie(part: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield the parameter and the column of one condition, where it is such a one."""
    places = [at for at, token in enumerate(part) if token.text == "="]
    if len(places) != 1:
        return
    sides = (part[: places[0]], part[places[0] + 1 :])
    for one, other in (sides, sides[::-1]):
        name = _parameter(one)
        match other:
            case [column] | [_, Token(text="."), column] if name and column.name:
                yield name, _stored(column)


def _inserted_values(
    tokens: Sequence[Token], outer: Sequence[tuple[int, Token]]
) -> Iterator[tuple[str, str]]:
    """Yield what the one row of an INSERT is given."""
    ends = [at for at, token in outer if token.is_word(*_ENDS)]
    signs = [
        (at, token)
        for at, token in outer
        if token.text in ("(", ")", ",") and (not ends or at < ends[0])
    ]
    values = [at for at, token in outer if token.is_word("VALUES")]
    match signs:
        case [(first, _), (second, _), (third, _), (fourth, _)] if len(values) == 1:
            columns = _parts(tokens[first + 1 : second])
            given = _parts(tokens[third + 1 : fourth])
            if second < values[0] < third and len(columns) == len(given):
                for column, value in zip(columns, given, strict=True):
                    if len(column) == 1 and (name := _parameter(value)):
                        yield name, _stored(column[0])


def _stored(column: Token) -> str:
    """Return the name of a column as the database keeps it."""
    return fold(column.text) if column.kind == "word" else column.name


def _parameter(tokens: Sequence[Token]) -> str:
    """Return the name of the parameter that these tokens are, with or without a cast."""
    match tokens:
        case [token] | [token, Token(kind="cast"), _] if token.kind == "parameter":
            return token.text[1:]
    return ""


def _parts(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return what stands between the outermost commas."""
    commas = {at for at, token in outermost(tokens) if token.text == ","}
    parts: list[list[Token]] = [[]]
    for at, token in enumerate(tokens):
        if at in commas:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts
