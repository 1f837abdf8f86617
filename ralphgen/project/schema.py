"""The tables of a database as facts, the SQL that defines them, and the rows of sessions."""

import difflib
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.model import Column, Names, Schema, Table, table_facts
from ralphgen.runtime.engine import TABLES, fingerprint, fold, quoted
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.engine.sqlite.schema import check_values, sql_tokens
from ralphgen.runtime.errors import ToolError

REQUIRED_COLUMNS = {
    "disciplines": ("name",),
    "features": ("name",),
    "tasks": ("id", "feature", "discipline", "title", "status"),
}
"""The tables and columns without which no server can be written."""

_REPLACED_TABLES = {"tasks": "runtime_tasks", "features": "subsystems"}
_REPLACED_COLUMNS = {"feature": ("feature_id", "subsystem_id"), "discipline": ("discipline_id",)}
_LIKELY = 0.6

Facts = Mapping[str, Sequence[Mapping[str, Any]]]
"""Table name to columns, as `read_tables` returns them and JSON keeps them."""


def table_names(connection: Snapshot) -> tuple[str, ...]:
    """Return the names of all tables, sorted, for `schema_problems`."""
    return tuple(sorted(name for (name,) in connection.rows(connection.catalog.TABLE_NAMES)))


def relation_names(connection: Snapshot) -> tuple[str, ...]:
    """Return the names of all tables and views, sorted, without virtual ones and their parts."""
    return tuple(sorted(name for (name,) in connection.rows(connection.catalog.RELATION_NAMES)))


def column_names(connection: Snapshot, table: str) -> list[str]:
    """Return the names of a table's columns; none without such a table."""
    return [name for (name,) in connection.rows(connection.catalog.COLUMN_NAMES, [table])]


def task_indexes(connection: Snapshot) -> set[Names]:
    """Return the keys of each index on all tasks, as SQL; unknown keys are empty."""
    found: dict[str, list[str]] = {}
    for index, key in connection.rows(connection.catalog.TASK_INDEXES):
        found.setdefault(index, []).append((key or "").replace("((", "(").replace("))", ")"))
    return {tuple(keys) for keys in found.values()}


def schema_from_facts(
    facts: Facts,
    hide: Iterable[str] = (),
    *,
    case_sensitive: bool = False,
    elsewhere: Collection[str] | None = (),
    required: Mapping[str, Collection[str]] = REQUIRED_COLUMNS,
) -> Schema:
    """Return the schema of tables as `read_tables` or `table_facts` give them, sorted by name.

    Sorting makes the output independent of the order in which columns were added. `hide` names
    columns (`"tasks.internal_note"`) that the server must not see. They remain in `tables`, since a
    hidden NOT NULL column affects which rows can be written, but not in the fingerprint. Entries
    may also name columns of other tables, which named queries could read: `elsewhere` are these
    columns in lower case, or None if they are unknown.

    Raises `ProjectError` for a `hide` entry that matches no column or a `required` one. A schema
    that lacks required columns is returned: see `schema_problems`.
    """
    tables = tuple(
        Table(
            name,
            tuple(
                Column(**{**column, "values": None if values is None else tuple(values)})
                for column in sorted(columns, key=itemgetter("name"))
                for values in (column["values"],)
            ),
        )
        for name, columns in sorted(facts.items())
    )
    hidden = tuple(sorted(set(hide)))
    problems = [
        problem
        for entry in hidden
        for problem in _hide_problems(entry, tables, elsewhere, required)
    ]
    if problems:
        raise ProjectError.of(problems)
    return Schema(tables, fingerprint(table_facts(tables), hidden), hidden, case_sensitive)


def schema_problems(schema: Schema, found: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each required table or column that is missing, sorted.

    `found` names all tables of the database, so that a renamed one can be named.
    """
    known = {fold(name) for name in found}
    columns = {
        table.name: [schema.folded(column.name) for column in table.columns]
        for table in schema.tables
    }
    sentences: list[str] = []
    for table, needed in REQUIRED_COLUMNS.items():
        if table not in columns:
            replacement = _REPLACED_TABLES.get(table)
            later = f', found "{replacement}" of a newer schema' if replacement in known else ""
            sentences.append(f'table "{table}" is missing{later}')
        else:
            gaps = [name for name in needed if name not in columns[table]]
            for name in gaps:
                newer = [one for one in _REPLACED_COLUMNS.get(name, ()) if one in columns[table]]
                later = f', found "{table}.{newer[0]}" of a newer schema' if newer else ""
                sentences.append(f'column "{table}.{name}" is missing{later}')
    return sorted(sentences)


def _hide_problems(
    entry: str,
    tables: Sequence[Table],
    elsewhere: Collection[str] | None,
    required: Mapping[str, Collection[str]],
) -> Iterator[Problem]:
    """Yield at most one problem of an entry of `[schema] hide`."""
    table, _, column = fold(entry).partition(".")
    names = [f"{one.name}.{two.name}" for one in tables for two in one.columns]
    if column in required.get(table, ()):
        text = f'[schema] hide contains "{entry}", which servers require'
        yield Problem(text, "remove it from hide")
    elif fold(entry) in map(fold, names) or fold(entry) in (elsewhere or ()):
        return
    elif elsewhere is not None or table in map(fold, (*TABLES, *(one.name for one in tables))):
        yield Problem(
            f'[schema] hide contains "{entry}", expected a column as "table.column"',
            _nearest(entry, names),
        )


def _nearest(entry: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(entry, names, n=1, cutoff=_LIKELY)
    tables = ", ".join(f'"{table}"' for table in TABLES)
    return f'did you mean "{close[0]}"?' if close else f"the tables are {tables}"


Parts = tuple[tuple[str, Names], ...]
Definitions = Mapping[str, Sequence[str]]
"""Parts by table, sorted; a table without parts besides its columns is not included."""

GENERATED, COLLATE, FOREIGN_KEY = "GENERATED ", "COLLATE ", "FOREIGN KEY "
CREATED = ("CREATE INDEX ", "CREATE UNIQUE INDEX ", "CREATE TRIGGER ")
VIEW = "CREATE VIEW "

OPERATORS = {"<=", ">=", "<>", "==", "!=", "||", "->", "<<", ">>"}

_TABLE = """
    SELECT type, name, sql FROM sqlite_master
    WHERE type IN ('table', 'view') AND lower(name) = ?
"""
_INDEXES = 'SELECT name, "unique", origin, partial FROM pragma_index_list(?) ORDER BY name'
_INDEXED = "SELECT cid, name, desc, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno"
_KEYS = """
    SELECT id, "table", on_update, on_delete, "from", "to"
    FROM pragma_foreign_key_list(?) ORDER BY id, seq
"""
_OTHERS = """
    SELECT type, name, sql FROM sqlite_master
    WHERE type IN ('index', 'trigger') AND lower(tbl_name) = ? AND sql IS NOT NULL
"""
_CONSTRAINTS = ("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN")


def definitions_of(connection: Snapshot, tables: Facts) -> Parts | None:
    """Return the definitions as a schema holds them; None for a database of another engine."""
    if connection.sql.TYPED:
        return None
    found = read_definitions(connection.connection, tables)
    return tuple((name, tuple(one)) for name, one in found.items())


def recorded_parts(facts: Mapping[str, Any]) -> Parts | None:
    """Return the definitions in a `project.json`, or None if it has none.

    Raises the usual errors of Python for a value of another form.
    """
    known = facts.get("definitions")
    if known is None:
        return None
    return tuple((str(name), tuple(map(str, parts))) for name, parts in sorted(known.items()))


def read_definitions(connection: sqlite3.Connection, tables: Facts) -> Definitions:
    """Return the properties of tables that their columns do not express, as parts of SQL.

    These are keys, CHECKs other than lists of values, generation and collation of columns, STRICT,
    WITHOUT ROWID and AUTOINCREMENT, indexes and triggers; of a view, its whole definition. They do
    not depend on details that SQLite ignores, such as spaces, comments and the order of columns.
    `tables` are the tables of the database, as `read_tables` gives them. Raises the errors of
    `sqlite3`.
    """
    found: dict[str, list[str]] = {}
    for table, columns in sorted(tables.items()):
        row = connection.execute(_TABLE, (fold(table),)).fetchone()
        if table == MARKER or row is None:
            continue
        kind, name, sql = row
        if kind == "view":
            found[table] = [_joined(sql_tokens(sql))]
            continue
        parts = {*_of_text(sql_tokens(sql), columns), *_keys(connection, name)}
        parts |= {*_unique(connection, name), *_created(connection, name)}
        if parts:
            found[table] = sorted(parts)
    return found


def _of_text(tokens: Sequence[str], columns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the properties that only the text of a table contains."""
    items, behind = _items(tokens)
    words = [word.upper() for word in behind]
    yield from (one for one in ("STRICT",) if one in words)
    yield from (one for one in ("WITHOUT ROWID",) if "WITHOUT" in words)
    by_name = {fold(column["name"]): column for column in columns}
    listed = {fold(column["name"]) for column in columns if column["values"] is not None}
    head = f"CREATE TABLE t ({', '.join(quoted(column['name']) for column in columns)}"
    for item in items:
        upper = [word.upper() for word in item]
        column = by_name.get(fold(_name(item[0])))
        is_column = column is not None and upper[0] not in _CONSTRAINTS
        for at, word in enumerate(upper):
            inner = f"({_joined(_inside(item, at + 1))})" if item[at + 1 : at + 2] == ["("] else ""
            if word == "CHECK" and inner:
                said = check_values(f"{head}, CHECK {inner})")
                if not said or not {fold(one) for one in said} <= listed:
                    yield f"CHECK {inner}"
            elif word == "AS" and inner and is_column and column and column["generated"]:
                stored = " STORED" if "STORED" in upper[at:] else ""
                yield f"{GENERATED}{quoted(column['name'])} AS {inner}{stored}"
            elif word == "COLLATE" and is_column and column and upper[at + 1] != "BINARY":
                yield f"{COLLATE}{quoted(column['name'])} {upper[at + 1]}"
            elif word in {"AUTOINCREMENT", "CONFLICT", "DEFERRABLE"}:
                yield "ON CONFLICT" if word == "CONFLICT" else word


def _items(tokens: Sequence[str]) -> tuple[list[list[str]], Sequence[str]]:
    """Return the comma-separated items of a CREATE TABLE, and the tokens after them."""
    opening = tokens.index("(")
    inside = _inside(tokens, opening)
    items: list[list[str]] = [[]]
    depth = 0
    for part in inside:
        depth += (part == "(") - (part == ")")
        if part == "," and not depth:
            items.append([])
        else:
            items[-1].append(part)
    return items, tokens[opening + len(inside) + 2 :]


def _inside(tokens: Sequence[str], opening: int) -> Sequence[str]:
    """Return the tokens between the parenthesis at `opening` and its counterpart."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += (tokens[at] == "(") - (tokens[at] == ")")
        if not depth:
            return tokens[opening + 1 : at]
    return tokens[opening + 1 :]


def _joined(tokens: Sequence[str]) -> str:
    """Return tokens as SQL: a space between any two that are not one operator."""
    text = ""
    for before, token in pairwise(["", *tokens]):
        text += token if not before or before[-1] + token in OPERATORS else f" {token}"
    return text


def _name(token: str) -> str:
    """Return the name in a token, without its quotes."""
    for mark, end in (('"', '"'), ("`", "`"), ("[", "]"), ("'", "'")):
        if token.startswith(mark):
            return token[1:-1].replace(end * 2, end)
    return token


def _keys(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield the foreign keys that the columns do not express completely."""
    found: dict[int, list[tuple[str, ...]]] = {}
    for number, *facts in connection.execute(_KEYS, (table,)):
        found.setdefault(number, []).append(tuple(facts))
    for rows in found.values():
        parent, update, delete, _, first = rows[0]
        if len(rows) == 1 and update == delete == "NO ACTION":
            continue
        own = ", ".join(quoted(row[3]) for row in rows)
        named = f" ({', '.join(quoted(row[4]) for row in rows)})" if first is not None else ""
        actions = f" ON UPDATE {update}" * (update != "NO ACTION")
        actions += f" ON DELETE {delete}" * (delete != "NO ACTION")
        yield f"{FOREIGN_KEY}({own}) REFERENCES {quoted(parent)}{named}{actions}"


def _unique(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield the keys of a table but its plain primary key."""
    for index, _, origin, _ in connection.execute(_INDEXES, (table,)).fetchall():
        rows = connection.execute(_INDEXED, (index,)).fetchall()
        if origin == "u":
            yield f"UNIQUE ({_columns(rows)})"
        elif origin == "pk" and any(desc or coll != "BINARY" for _, _, desc, coll in rows):
            yield f"PRIMARY KEY ({_columns(rows)})"


def _created(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield the indexes and triggers of a table; simple indexes in a normalized form."""
    plain = {
        index: f"CREATE {'UNIQUE ' if unique else ''}INDEX {quoted(index)} ON {quoted(fold(table))}"
        for index, unique, origin, partial in connection.execute(_INDEXES, (table,)).fetchall()
        if origin == "c" and not partial
    }
    for kind, name, sql in connection.execute(_OTHERS, (fold(table),)).fetchall():
        rows = connection.execute(_INDEXED, (name,)).fetchall() if kind == "index" else []
        if name in plain and all(row[0] >= 0 for row in rows):
            yield f"{plain[name]} ({_columns(rows)})"
        else:
            yield _joined(sql_tokens(sql))


def _columns(rows: Sequence[tuple[int, str, int, str]]) -> str:
    return ", ".join(
        f"{quoted(name)}{'' if coll == 'BINARY' else f' COLLATE {coll}'}{' DESC' * desc}"
        for _, name, desc, coll in rows
    )


NAMES = {
    "features": "SELECT name FROM features",
    "disciplines": "SELECT name FROM disciplines",
    "recipe_configs": "SELECT name FROM recipe_configs",
}
LIMIT = 2**62  # above all ids that SQL can subtract without overflow


FORMERLY = "was task {}"  # the comment of a task whose number a sync has changed
RENUMBERED_BY = "ralphgen"  # its author


class ProjectRows:
    """Queries on the database of a project; missing columns return None.

    Unless it `has_tasks`, its features, disciplines and recipes are ignored too.
    """

    def __init__(self, connection: Snapshot, *, has_tasks: bool = True) -> None:
        """Query `connection`."""
        self._connection = connection
        self._has_tasks = has_tasks

    def identity(self, hidden: Sequence[str] = ()) -> tuple[str | None, str | None]:
        """Return the project's title and its creation day, each None if its column is `hidden`.

        Raises `ProjectError` if a value is not a string, which tables that are not strict allow.
        """
        is_own = self._has("metadata") and "id" in column_names(self._connection, "metadata")
        if not is_own:  # a table with another meaning
            return None, None
        row = self._row("metadata", "SELECT * FROM metadata ORDER BY id LIMIT 1")
        row = {key: value for key, value in row.items() if f"metadata.{key}" not in hidden}
        return _text_of(row, "project_title"), _text_of(row, "project_created")

    def task(self, task: int) -> tuple[str, str] | None:
        """Return the feature and the discipline of a task.

        Raises `ProjectError` for a task whose names are not strings.
        """
        row = self._row("tasks", "SELECT * FROM tasks WHERE id = ?", task)
        if not row:
            return None
        feature, discipline = row["feature"], row["discipline"]
        if not isinstance(feature, str) or not isinstance(discipline, str):
            raise ProjectError(
                f"task {task} has no feature or no discipline", "set both, then try again"
            )
        return feature, discipline

    def status(self, task: int) -> str | None:
        """Return the status of a task, or None without a task or if it is not a string."""
        found = self._row("tasks", "SELECT * FROM tasks WHERE id = ?", task).get("status")
        return found if isinstance(found, str) else None

    def count(self, status: str) -> int:
        """Return how many tasks have a status."""
        sql = "SELECT count(*) FROM tasks WHERE status = ?"
        return int(self._connection.rows(sql, [status])[0][0])

    def tasks(self) -> int:
        """Return how many tasks there are."""
        return int(self._connection.rows("SELECT count(*) FROM tasks")[0][0])

    def indexes(self) -> set[Names]:
        """Return the keys of each index on all tasks, as SQL; unknown keys are empty."""
        return task_indexes(self._connection)

    def titles(self, beginning: str, most: int) -> list[tuple[int, str]]:
        """Return ids that begin with these digits, smallest first, each with its title."""
        sql = (
            "SELECT id, title FROM tasks WHERE substr(CAST(id AS TEXT), 1, ?) = ? "
            "ORDER BY id LIMIT ?"
        )
        found = self._connection.rows(sql, [len(beginning), beginning, most])
        return [(task, str(title)) for task, title in found]

    def formerly(self, task: int) -> list[tuple[int, str]]:
        """Return the tasks that had this number before a sync, each with its title."""
        sql = (
            "SELECT DISTINCT tasks.id, tasks.title FROM task_comments JOIN tasks "
            "ON tasks.id = task_comments.task_id WHERE author = ? AND body = ? ORDER BY tasks.id"
        )
        if not {"author", "body"} <= {*column_names(self._connection, "task_comments")}:
            return []
        found = self._connection.rows(sql, [RENUMBERED_BY, FORMERLY.format(task)])
        return [(number, str(title)) for number, title in found]

    def nearest_tasks(self, task: int, most: int) -> list[int]:
        """Return the ids of the tasks whose numbers are nearest, the smallest first."""
        sql = "SELECT id FROM tasks ORDER BY abs(id - ?), id LIMIT ?"
        if not self._has("tasks") or abs(task) >= LIMIT:
            return []
        return sorted(found for (found,) in self._connection.rows(sql, [task, most]))

    def names(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's rows, sorted; none without such a column."""
        if not self._has_tasks or "name" not in column_names(self._connection, table):
            return ()
        found = (name for (name,) in self._connection.rows(NAMES[table]))
        return tuple(sorted(name for name in found if isinstance(name, str)))

    def base(self, recipe: str) -> object:
        """Return the base of a recipe that is a row of `recipe_configs`, None if there is none."""
        sql = "SELECT * FROM recipe_configs WHERE name = ?"
        return self._row("recipe_configs", sql, recipe).get("base_recipe")

    def mcp_servers(self, discipline: str) -> object:
        """Return the text in a discipline's own column of MCP servers."""
        sql = "SELECT * FROM disciplines WHERE name = ?"
        return self._row("disciplines", sql, discipline).get("mcp_servers")

    def _has(self, table: str) -> bool:
        return self._has_tasks and table in map(str.lower, table_names(self._connection))

    def _row(self, table: str, sql: str, *values: object) -> dict[str, object]:
        """Return the first row, by column; empty if there is no row or no such table."""
        if not self._has(table):
            return {}
        try:
            return self._connection.record(sql, values)
        except (OverflowError, UnicodeEncodeError, ToolError):  # no column can hold such a value
            return {}


def _text_of(row: Mapping[str, object], column: str) -> str | None:
    value = row.get(column)
    if value is None or isinstance(value, str):
        return value
    raise ProjectError(
        f'"{column}" of the metadata is not a string', "set a new value, then try again"
    )


@contextmanager
def open_rows(root: Path, *, has_tasks: bool = True) -> Iterator[ProjectRows]:
    """The rows of the project in `root`; raises `ProjectError` if they cannot be read."""
    with open_database(root) as connection:
        yield ProjectRows(connection, has_tasks=has_tasks)
