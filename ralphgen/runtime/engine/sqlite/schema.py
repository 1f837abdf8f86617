"""Reads the tables of a server from SQLite, and says what the errors of their rules mean."""

from __future__ import annotations

import json
import re

from ...encoding import sha256_hex
from .. import EMPTY, NOT_UNIQUE, TABLES, fold
from . import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .. import Column, Keys, Snapshot


_COLUMNS = """
    SELECT lower(t.name), t.sql, c.name, c.type, c."notnull", c.dflt_value, c.pk, c.hidden
    FROM sqlite_master AS t, pragma_table_xinfo(t.name, 'main') AS c
    WHERE t.type = 'table' AND c.hidden <> 1
        AND lower(t.name) IN (SELECT value FROM json_each(?))
    ORDER BY 1, c.cid
"""
# Additional tables and views of a server, of any name.
_FURTHER = """
    SELECT t.name, t.type, t.sql,
        EXISTS (SELECT 1 FROM pragma_index_list(t.name, 'main') AS i WHERE i.origin = 'pk'),
        c.name, c.type, c."notnull", c.dflt_value, c.pk, c.hidden
    FROM sqlite_master AS t, pragma_table_xinfo(t.name, 'main') AS c
    WHERE t.type IN ('table', 'view') AND c.hidden <> 1
        AND lower(t.name) IN (SELECT lower(value) FROM json_each(?))
    ORDER BY 1, c.cid
"""
KEEPS_ENTRIES = False  # they are files
COLUMN_NAMES = "SELECT name FROM pragma_table_info(?)"
INDEX_NAMES = "SELECT name FROM sqlite_master WHERE type = 'index'"
LEDGER_COLUMNS = (
    "SELECT one.name, its.name FROM sqlite_master AS one JOIN pragma_table_info(one.name) AS its "
    "WHERE one.type = 'table' AND lower(one.name) LIKE 'ralphgen%'"
)
RELATION_NAMES = (
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'view') "
    "AND substr(name, 1, 7) <> 'sqlite_'"
)
TABLE_NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"
TASK_INDEXES = """
    SELECT i.name, k.name || CASE k.coll WHEN 'BINARY' THEN '' ELSE ' COLLATE ' || k.coll END
    FROM pragma_index_list('tasks') AS i, pragma_index_xinfo(i.name) AS k
    WHERE k.key AND NOT i.partial
    ORDER BY i.name, k.seqno
"""
# A foreign key may omit the parent's columns, which means its primary key, and may use another
# case for both names: the parent's spelling is used.
_FOREIGN_KEYS = """
    SELECT lower(t.name), k."from",
        coalesce((SELECT p.name FROM sqlite_master AS p
                  WHERE p.type = 'table' AND lower(p.name) = lower(k."table")), k."table"),
        coalesce((SELECT c.name FROM pragma_table_xinfo(k."table", 'main') AS c
                  WHERE lower(c.name) = lower(k."to") OR (k."to" IS NULL AND c.pk = k.seq + 1)),
                 k."to", '?')
    FROM sqlite_master AS t, pragma_foreign_key_list(t.name, 'main') AS k
    WHERE t.type = 'table' AND lower(t.name) IN (SELECT lower(value) FROM json_each(?))
"""
# Rules 1 to 4 of SQLite's "Determination Of Column Affinity", in their order; 5 is NUMERIC.
_AFFINITIES = (
    (("INT",), "INTEGER"),
    (("CHAR", "CLOB", "TEXT"), "TEXT"),
    (("BLOB",), "BLOB"),
    (("REAL", "FLOA", "DOUB"), "REAL"),
)
# Types of columns in additional tables, beyond affinities, by prefix of the declared type.
_MEANT = {"BOOL": "BOOLEAN", "JSON": "JSON", "DEC": "REAL", "NUM": "REAL", "MONEY": "REAL"}
_PLAIN_INTEGER = "0|-?[1-9][0-9]*"
# Omitted parent columns mean its primary key.
_KEY_COLUMNS = """
    SELECT k.id, k."table", k."from",
        coalesce(k."to", (SELECT c.name FROM pragma_table_info(k."table") AS c
                          WHERE c.pk = k.seq + 1), '')
"""
_PARENTS = f"{_KEY_COLUMNS} FROM pragma_foreign_key_list(?) AS k ORDER BY k.id, k.seq"
_CHILDREN = f"""
    {_KEY_COLUMNS}, t.name FROM sqlite_master AS t, pragma_foreign_key_list(t.name) AS k
    WHERE t.type = 'table' AND lower(k."table") = lower(?)
        AND (? OR k.on_delete IN ('NO ACTION', 'RESTRICT'))
    ORDER BY t.name, k.id, k.seq
"""
_FAILED = "CHECK constraint failed: "
_SQL = "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND lower(name) = lower(?)"
_REPLACES = f"{_SQL} AND sql LIKE '%CONFLICT%REPLACE%'"


def read_tables(
    connection: sqlite3.Connection, also: Sequence[str] = (), *, own: Sequence[str] = TABLES
) -> dict[str, list[Column]]:
    """Return the existing tables of `own` by name, each with its columns in schema order.

    A column is `name`, `type` (INTEGER, TEXT, REAL, BLOB, NUMERIC by SQLite's affinity rules, ANY
    in STRICT tables), `not_null`, `default` (SQL text; `None` also for NULL), `primary_key` (0, or
    the position in the key), `references` (`"table(column)"` or `None`), `values` (the list that
    the CHECKs allow, `None` if it is uncertain) and `generated`. `also` names additional tables and
    views; they keep the case of their names, and the type of a column may also be BOOLEAN or JSON,
    or ANY if none is declared. Runs two queries, or three with `also`. Raises errors of `sqlite3`.
    """
    cursor = connection.cursor()
    cursor.row_factory = None
    references = _references(cursor, (*own, *also), own)
    tables: dict[str, list[Column]] = {}
    allowed: dict[str, list[str]] = {}
    for table, sql, name, *declared in cursor.execute(_COLUMNS, [json.dumps(list(own))]):
        if table not in tables:
            tables[table] = []
            allowed = check_values(sql) if "check" in sql.lower() else {}
        column = _column(name, *declared, sql=sql)
        column["references"] = references.get((table, fold(name)))
        column["values"] = _values(column["type"], allowed.get(name))
        tables[table].append(column)
    if also:
        tables = {**_further(cursor, also, references, own), **tables}
    return tables


def _further(
    cursor: sqlite3.Cursor,
    names: Sequence[str],
    references: Mapping[tuple[str, str], str],
    own: Sequence[str],
) -> dict[str, list[Column]]:
    """Return tables and views by exact name, except the tables of `own`."""
    tables: dict[str, list[Column]] = {}
    allowed: dict[str, list[str]] = {}
    try:
        found = cursor.execute(_FURTHER, [json.dumps(list(names))]).fetchall()
    except sqlite3.OperationalError:  # one unreadable view fails the query for all
        found = [row for name in names for row in _columns_of(cursor, _FURTHER, json.dumps([name]))]
    for table, sort, sql, has_index, name, declared, *rest in found:
        if fold(table) in own:
            continue
        if table not in tables:
            tables[table] = []
            has_checks = sort == "table" and "check" in sql.lower()
            allowed = check_values(sql) if has_checks else {}
        column = _column(name, declared, *rest, sql=sql if sort == "table" else "")
        if column["type"] in ("BLOB", "NUMERIC"):
            column["type"] = _json_type(declared.upper(), column["type"])
        if column["primary_key"]:
            # A key without an index is the rowid, and SQLite fills it. Other keys allow NULL.
            column["not_null"] = bool(has_index)
        column["references"] = references.get((fold(table), fold(name)))
        column["values"] = _values(column["type"], allowed.get(name))
        tables[table].append(column)
    return tables


def _columns_of(
    connection: sqlite3.Connection | sqlite3.Cursor, sql: str, table: str
) -> list[tuple[Any, ...]]:
    """Return the rows of a query on one table: none for a view of a missing table."""
    try:
        return connection.execute(sql, [table]).fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        return []


def _json_type(declared: str, affinity: str) -> str:
    if not declared:
        return "ANY"
    return next((kind for begin, kind in _MEANT.items() if declared.startswith(begin)), affinity)


def views_digest(connection: sqlite3.Connection, names: Iterable[str]) -> str:
    """Return the sha256, in hex, of the views among `names` and the views that they read.

    Empty if there are none. A view counts as read if a definition contains its name. Comments and
    white space do not matter, so `init` can make the views again from their tokens.
    """
    sql = "SELECT name, CAST(sql AS BLOB) FROM main.sqlite_master WHERE type = 'view'"
    found = connection.execute(sql).fetchall()
    views = {fold(name): text.decode(errors="replace") for name, text in found}
    used: dict[str, str] = {}
    waiting = [name for name in map(fold, names) if name in views]
    while waiting:
        name = waiting.pop()
        used[name] = views[name]
        # A quote within a quoted name is written twice.
        text = fold(views[name]).replace('""', '"').replace("``", "`").replace("''", "'")
        waiting += [one for one in views if one in text and one not in used]
    tokens = sorted((name, sql_tokens(text)) for name, text in used.items())
    return sha256_hex(repr(tokens).encode()) if used else ""


def absent_columns(connection: sqlite3.Connection, reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Return, as "table.column", the columns in `reads` that no longer exist."""
    missing: list[str] = []
    for table, columns in reads.items():
        found = _columns_of(connection, "SELECT name FROM pragma_table_xinfo(?, 'main')", table)
        names = {fold(name) for (name,) in found}
        there = names | {"rowid", "oid", "_rowid_"}  # not listed by table_xinfo
        gone = [f"{table}.{column}" for column in columns if fold(column) not in there]
        missing += gone if names else [table]
    return missing


def _column(  # one row of table_xinfo
    name: str, kind: str, not_null: int, default: str | None, key: int, hidden: int, *, sql: str
) -> Column:
    return {
        "name": name,
        "type": affinity(kind, sql),
        "not_null": bool(not_null),
        "default": None if default is None or default.upper() == "NULL" else default,
        "primary_key": key,
        "references": None,
        "values": None,
        "generated": hidden > 1,
    }


def affinity(declared: str, sql: str) -> str:
    """Return the affinity of a column, from its declared type and the SQL of its table."""
    kind = declared.upper()
    if kind == "ANY" and is_strict(sql):
        return "ANY"
    for parts, affinity in _AFFINITIES:
        if any(part in kind for part in parts):
            return affinity
    return "NUMERIC" if kind else "BLOB"


def _values(kind: str, allowed: list[str] | None) -> list[str] | None:
    """Return the CHECK list if the column stores its values unchanged, or None."""
    if allowed is None or kind == "TEXT":
        return allowed
    plain = kind == "INTEGER" and all(re.fullmatch(_PLAIN_INTEGER, value) for value in allowed)
    return allowed if plain else None


def _references(
    cursor: sqlite3.Cursor, tables: Sequence[str], own: Sequence[str]
) -> dict[tuple[str, str], str]:
    """Return the foreign key of each column; of several, the first by name."""
    found: dict[tuple[str, str], str] = {}
    for table, column, parent, parent_column in cursor.execute(
        _FOREIGN_KEYS, [json.dumps(list(tables))]
    ):
        name = fold(parent) if fold(parent) in own else parent
        reference, place = f"{name}({parent_column})", (table, fold(column))
        found[place] = min(reference, found.get(place, reference))
    return found


def defined(sql: str) -> str:
    """Return definitions of tables unchanged: they are written for SQLite."""
    return sql


def parents(database: Snapshot, table: str) -> Keys:
    """Return each foreign key of a table: its parent, and the pairs of columns."""
    found: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for number, parent, column, theirs in database.rows(_PARENTS, [table]):
        found.setdefault(number, (parent, []))[1].append((column, theirs))
    return list(found.values())


def children(database: Snapshot, table: str, *, also_following: bool = False) -> Keys:
    """Return each foreign key that prevents deletes from a table: its table and columns.

    Keys that delete or clear the other rows are included only if `also_following`.
    """
    found: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for number, _, column, theirs, child in database.rows(_CHILDREN, [table, also_following]):
        found.setdefault((child, number), []).append((column, theirs))
    return [(child, pairs) for (child, _), pairs in found.items()]


def is_broken_rule(error: BaseException | None) -> bool:
    """Return whether a CHECK caused the error."""
    return str(error).startswith(_FAILED)


def broken_rule(database: Snapshot, table: str, error: BaseException | None) -> str:
    """Return the CHECK that a statement broke, empty if it is unknown.

    Runs in the transaction after the failed one.
    """
    told = str(error).removeprefix(_FAILED)
    row = database.row(_SQL, [table])
    if row is None or fold(told) == fold(table):  # old versions of SQLite name only the table
        return ""
    return f"CHECK ({checks_by_name(row[0]).get(fold(told), told)})"


def replaces_rows(database: Snapshot, table: str) -> bool:
    """Return whether a new row of the table may delete another."""
    return database.row(_REPLACES, [table]) is not None


# SQLite's tokens. Group 1 is empty for skipped text: comments and five kinds of white space.
# A name begins with anything but the ASCII characters listed, so with a no-break space too.
_TOKENS = re.compile(
    r"""(?:--[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|[ \t\n\f\r]+)+
    |([xX]?'[^']*(?:''[^']*)*'
    |"[^"]*(?:""[^"]*)*"|`[^`]*(?:``[^`]*)*`|\[[^\]]*\]
    |[^\0-@\[-^`{-\x7f][^\0-#%-/:-@\[-^`{-\x7f]*
    |[0-9][A-Za-z0-9_.]*
    |[^ ])""",
    re.VERBOSE,
)
_TABLE_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"})
_DECIMAL = "[0-9]{1,19}"
_INTEGER_LIMIT = 2**63


def check_values(create_table_sql: str) -> dict[str, list[str]]:
    """Return the values that CHECKs allow, by column, for the supported forms of CHECK.

    These are `col IN ('a', ...)` and `col IS NULL OR col IN (...)`, in either order and in any
    number of parentheses, with only text literals or only whole numbers (as decimal text).
    Several such CHECKs on one column are intersected, in the order of the first.
    `create_table_sql` is from `sqlite_master.sql`; a virtual table has no CHECKs.
    """
    tokens = sql_tokens(create_table_sql)
    if "VIRTUAL" in _upper(tokens[:2]):
        return {}
    columns = {fold(name): name for name in _column_names(tokens)}
    found: dict[str, list[str]] = {}
    for expression in _check_expressions(tokens):
        listed = _check_values(expression)
        if listed is not None and listed[0] in columns:
            column, values = columns[listed[0]], listed[1]
            found[column] = [v for v in found.get(column, values) if v in values]
    return {column: values for column, values in found.items() if values}


def checks_by_name(create_table_sql: str) -> dict[str, str]:
    """Return the named CHECKs of a table, by folded name."""
    tokens = sql_tokens(create_table_sql)
    words = _upper(tokens)
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if word == "CONSTRAINT" and words[index + 2 : index + 4] == ["CHECK", "("]:
            name = _name(tokens[index + 1], strings=True) or tokens[index + 1]
            inner = tokens[index + 4 : _closing(tokens, index + 3)]
            found[fold(name)] = " ".join(inner)
    return found


def is_strict(create_table_sql: str) -> bool:
    """Return whether the table is STRICT, by the words after the last parenthesis."""
    tokens = sql_tokens(create_table_sql)
    behind = len(tokens) - tokens[::-1].index(")") if ")" in tokens else len(tokens)
    return "STRICT" in _upper(tokens[behind:])


def sql_tokens(sql: str) -> list[str]:
    """Return the tokens of a statement as SQLite reads them, without comments and white space."""
    return [token for token in _TOKENS.findall(sql) if token]


def _upper(tokens: list[str]) -> list[str]:
    return [token.upper() for token in tokens]


def _depths(tokens: list[str]) -> Iterator[tuple[int, str, int]]:
    """Yield each token with its index and the number of parentheses around it."""
    depth = 0
    for index, part in enumerate(tokens):
        depth -= part == ")"
        yield index, part, depth
        depth += part == "("


def _column_names(tokens: list[str]) -> Iterator[str]:
    for index, token, depth in _depths(tokens):
        opens = depth == 1 and tokens[index - 1] in {"(", ","}
        if opens and token.upper() not in _TABLE_CONSTRAINTS:
            yield _name(token, strings=True) or token


def _check_expressions(tokens: list[str]) -> Iterator[list[str]]:
    """Yield the tokens inside the parentheses of each CHECK; the unquoted word is a keyword."""
    for index, word in enumerate(_upper(tokens)):
        if word == "CHECK" and tokens[index + 1 : index + 2] == ["("]:
            yield tokens[index + 2 : _closing(tokens, index + 1)]


def _closing(tokens: list[str], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`."""
    for index, part, depth in _depths(tokens[opening:]):
        if depth == 0 and part == ")":
            return opening + index
    return len(tokens)


def _check_values(expression: list[str]) -> tuple[str, list[str]] | None:
    """Return the casefolded column and the values of one CHECK, `None` if it is uncertain."""
    match _split(_unwrapped(expression), "OR"):
        case [only]:
            return _in_list(only)
        case [left, right]:
            for first, second in ((left, right), (right, left)):
                column, listed = _null_test(first), _in_list(second)
                if listed is not None and listed[0] == column:
                    return listed
    return None


def _in_list(tokens: list[str]) -> tuple[str, list[str]] | None:
    match _split(_unwrapped(tokens), "IN"):
        case [left, ["(", *inner, ")"]]:
            column, values = _name_of(left), _literals(inner)
            return None if column is None or values is None else (column, values)
    return None


def _null_test(tokens: list[str]) -> str | None:
    tokens = _unwrapped(tokens)
    words = _upper(tokens)
    if words[-1:] == ["ISNULL"]:
        return _name_of(tokens[:-1])
    return _name_of(tokens[:-2]) if words[-2:] == ["IS", "NULL"] else None


def _name_of(tokens: list[str]) -> str | None:
    """Return the folded name of a column that stands alone."""
    tokens = _unwrapped(tokens)
    name = _name(tokens[0]) if len(tokens) == 1 else None
    return None if name is None else fold(name)


def _name(token: str, *, strings: bool = False) -> str | None:
    """Return the name that a token spells; with `strings` also 'x', as in declarations."""
    quote = token[0]
    if quote == "[":
        return token[1:-1]
    if quote in '"`' or (strings and quote == "'"):
        return token[1:-1].replace(quote * 2, quote)
    return token if quote.isalpha() or quote == "_" or quote > "\x7f" else None


def _literals(tokens: list[str]) -> list[str] | None:
    """Return the distinct values of a list; `None` unless all are text or all whole numbers."""
    items = [_unwrapped(item) for item in _split(tokens, ",")]
    texts = [_text(item) for item in items]
    integers = [_integer(item) for item in items]
    for values in (texts, integers):
        known = [value for value in values if value is not None]
        if len(known) == len(items):
            return list(dict.fromkeys(known))
    return None


def _text(tokens: list[str]) -> str | None:
    is_text = len(tokens) == 1 and tokens[0].startswith("'")
    return tokens[0][1:-1].replace("''", "'") if is_text else None


def _integer(tokens: list[str]) -> str | None:
    sign = -1 if tokens[:1] == ["-"] else 1
    digits = tokens[1:] if tokens[:1] in (["-"], ["+"]) else tokens
    if len(digits) != 1 or not re.fullmatch(_DECIMAL, digits[0]):
        return None
    number = sign * int(digits[0])
    return str(number) if -_INTEGER_LIMIT < number < _INTEGER_LIMIT else None


def _unwrapped(tokens: list[str]) -> list[str]:
    """Return the tokens without the parentheses that enclose all of them."""
    while tokens[:1] == ["("] and _closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _split(tokens: list[str], separator: str) -> list[list[str]]:
    """Return the parts between separators that stand outside of parentheses."""
    parts: list[list[str]] = [[]]
    for _, token, depth in _depths(tokens):
        if depth == 0 and token.upper() == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _visible_columns(columns: str, hidden: Collection[str]) -> str:
    """Return the columns of a constraint, each "table.column"; "" if unknown or one is hidden."""
    text = f", {columns.lower()}, "
    is_named = text.startswith(", index '") or any(f", {name}, " in text for name in hidden)
    return "" if is_named else columns


UNNAMED = {3091: "SQLITE_CONSTRAINT_DATATYPE"}  # has no name in Python 3.11


def sentence(error: sqlite3.Error, hidden: Collection[str] = ()) -> str:
    """Return a sentence on an SQLite error and what to do, without SQL text or hidden columns."""
    code = getattr(error, "sqlite_errorcode", 0)  # missing if Python itself raised it
    name = str(UNNAMED.get(code) or getattr(error, "sqlite_errorname", ""))
    column = str(error).rpartition(": ")[2]
    key = _visible_columns(str(error).partition(": ")[2], hidden)
    named = f'the database refuses this: "{key}"' if key else ""
    sentences = {
        "SQLITE_CONSTRAINT_FOREIGNKEY": "the database refuses this: a row that it names, or that "
        "still names it, is in the way; look it up and try again",
        "SQLITE_CONSTRAINT_NOTNULL": f"{named} must not be empty" if named else EMPTY,
        "SQLITE_CONSTRAINT_UNIQUE": f"{named} is already taken" if named else NOT_UNIQUE,
        "SQLITE_CONSTRAINT_PRIMARYKEY": f"{named} already exists" if named else NOT_UNIQUE,
        "SQLITE_CONSTRAINT_CHECK": "the database refuses this: a value breaks a rule of its table",
        "SQLITE_CONSTRAINT_DATATYPE": "the database refuses this: a value has the wrong type",
        "SQLITE_CONSTRAINT_TRIGGER": f"the database refuses this: {column}",
        "SQLITE_FULL": "the disk is full: nothing was changed; free some space and try again",
        "SQLITE_INTERRUPT": "the database took too long and was stopped: nothing was changed; "
        "request less, or ask the user to check for an endless trigger or view",
        "SQLITE_READONLY": "the database is read-only: nothing was changed; fix its permissions",
        "SQLITE_TOOBIG": "the database refuses this: a value is too long",
    }
    known = sentences.get(name) or sentences.get("_".join(name.split("_")[:2]))
    return known or 'the database cannot be used: ask the user to run "ralphgen doctor"'
