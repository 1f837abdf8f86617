"""Runs the project's SQL on SQLite: named queries, and the statements of custom tools.

Queries that read use a read-only connection with some columns and harmless functions: no files, no
extensions, and no other tables. Statements of tools see no hidden columns.
"""

from __future__ import annotations

import re

from ...deferred import take_time
from ...errors import ToolError
from ...statements import in_child
from .. import quoted
from ..ledger import PREFIX
from ..queries import MOVED, Query, answer, changing_by, records, whole_records
from . import sqlite3
from .database import Database, in_memory
from .journal import WRITING, is_forged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..queries import Run

    Objects = Sequence[tuple[str, str, str]]
    Records = list[dict[str, Any]]


__all__ = ["Query", "asking", "changing"]


@in_child
def asking(query: Query) -> Run:
    """Return the tool of a reading query; its first argument is the kit's workspace."""

    def ask(workspace: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        from . import sqlite3

        values = query.values(arguments)
        skipped, limit = (0, 1) if query.kind == "one" else query.begin(arguments)
        reader = _reader(workspace, query)
        guard = reader.guard

        def work() -> dict[str, Any]:
            try:
                reader.show(query)
                guard.reads, guard.refused = query.reads, ""
                cursor = reader.connection.execute(query.sql, values)
                names = [column[0] for column in cursor.description]
                for _ in range(skipped):
                    if cursor.fetchone() is None:
                        break
                found: dict[str, Any] = answer(query, records(names, cursor), skipped, limit)
                cursor.close()
            except BaseException as error:
                reader.forget()
                if isinstance(error, sqlite3.DatabaseError):
                    raise _convert_error(query, error, guard.refused) from error
                raise
            finally:
                guard.reads = None
            return found

        return reader.reading(work)

    return ask


@in_child
def changing(query: Query) -> Run:
    """Return the tool of a writing query; its first argument is the workspace."""

    def run(workspace: Any, values: dict[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        from . import sqlite3

        try:
            cursor = workspace.database.connection.execute(query.sql, values)
        except sqlite3.OperationalError as error:
            raise _convert_error(query, error, "") from error
        return [column[0] for column in cursor.description], cursor.fetchall()

    return changing_by(query, run)


def _reader(workspace: Any, query: Query) -> QueryReader:
    """Return the read-only connection; opens it at the first query of a session."""
    reader = next((one for one in workspace.beside if isinstance(one, QueryReader)), None)
    if reader is None:
        reader = QueryReader(workspace.database.path, float(query.seconds))
        workspace.beside.append(reader)  # the workspace closes it
    return reader


def _convert_error(query: Query, error: Exception, refused: str) -> Exception:
    """Convert an error of SQLite: `ToolError` for a changed schema, a timeout or bad values."""
    from . import sqlite3

    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_INTERRUPT and query.kind != "exec":
        take_time()  # runs the call again if that allows more time
        return ToolError(query.took_too_long)
    if code == sqlite3.SQLITE_AUTH:
        return ToolError(MOVED.format(query.name, f'it would read "{refused}"'))
    if code == sqlite3.SQLITE_ERROR and str(error).startswith("no such "):
        return ToolError(MOVED.format(query.name, str(error)))
    if code == sqlite3.SQLITE_ERROR:
        return ToolError(f'the query "{query.name}" fails on these values: {error}')
    return error


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


DEFINITION = "CREATE VIEW "  # starts each view in the schema table


class QueryReader(Database):
    """A connection with a `guard` that limits the columns of the current query.

    Temporary views with the columns of the query have the names of the tables, so that no other
    column compiles. The guard is a second check. Its queries may run for `seconds`. Raises
    `StartError` as `Database` does.
    """

    __slots__ = ("_shown", "guard")

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__(path, seconds, STEPS)
        self._shown: Query | None = None
        self.connection.execute("PRAGMA temp_store = MEMORY")
        self.connection.execute("PRAGMA query_only = ON")
        self.connection.execute(WARMING).fetchall()
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self.guard = QueryGuard()
        self.connection.set_authorizer(self.guard)

    def show(self, query: Query) -> None:
        """Make the views of a query, and only those; within a transaction."""
        if self._shown is query:
            return
        self.forget()
        self.connection.execute("PRAGMA query_only = OFF")
        try:
            for (name,) in self.rows("SELECT name FROM temp.sqlite_master WHERE type = 'view'"):
                self.change(f"DROP VIEW temp.{quoted(name)}")
            for name, columns in query.reads.items():
                if name not in query.views:
                    listed = ", ".join(map(exact, columns)) or "1"
                    names = f"({listed})" if columns else ""
                    body = ("SELECT", listed, "FROM", f"main.{quoted(name)}")
                    self.change(f"CREATE TEMP VIEW {quoted(name)}{names} AS {' '.join(body)}")
            for definition in query.views.values():
                self.change(f"CREATE TEMP VIEW {definition.removeprefix(DEFINITION)}")
        finally:
            self.connection.execute("PRAGMA query_only = ON")
        self._shown = query

    def forget(self) -> None:
        """Let the next query make its views again: a failed transaction rolls them back."""
        self._shown = None


def exact(column: str) -> str:
    """Return a column in backticks: SQLite takes "name" as a text if there is no such column."""
    return f"`{column.replace('`', '``')}`"


LEDGER = "what ralphgen keeps for itself cannot be written"
READS = "project.rows only reads: use project.write"
WRITES = "project.write takes only INSERT, UPDATE, DELETE and SELECT"
ALWAYS_HIDDEN = ("disciplines.mcp_servers",)  # may hold secrets
_INTERNAL = (PREFIX, "sqlite_", "pragma_")
_ROWIDS = {"rowid", "oid", "_rowid_"}
_FUNCTIONS = ("last_insert_rowid",)  # return the key of a row, which may be hidden
_HARMLESS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION)
_TOKENS = (
    r"""(?s)--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|"""
    r"""`(?:[^`]|``)*`|\[[^\]]*\]|[\w$\u0080-\U0010ffff]+|\S"""
)
_OBJECTS = """
    SELECT coalesce(l.type, m.type), m.name, m.sql FROM main.sqlite_master AS m
        LEFT JOIN pragma_table_list AS l ON l.schema = 'main' AND l.name = m.name
    WHERE m.sql IS NOT NULL
"""
_COLUMNS = "SELECT name, pk FROM pragma_table_xinfo(?, 'main') WHERE hidden <> 1"
_UNIQUE = "SELECT name FROM pragma_index_list(?) WHERE origin = 'u'"
_INDEXED = "SELECT name FROM pragma_index_info(?) ORDER BY seqno"


class StatementGuard:
    """SQLite's authorizer for a statement of a tool; it is also asked about triggers.

    It denies hidden columns and ralphgen's own tables, except to triggers, and every statement
    that is not a SELECT, INSERT, UPDATE or DELETE. `refused` explains it. `closes` is whether the
    statement itself, and not a trigger, writes the status of a task.
    """

    __slots__ = ("_hidden", "_of_app", "_triggers", "_writes", "closes", "refused")

    def __init__(
        self, hidden: set[str], triggers: set[str], of_app: set[str], *, writes: bool
    ) -> None:
        self._hidden = hidden
        self._of_app = of_app
        self._triggers = triggers
        self._writes = writes
        self.closes = False
        self.refused = ""

    def __call__(
        self, action: int, first: str | None, second: str | None, _base: object, by: str | None
    ) -> int:
        """Return whether a part of a statement is allowed; `by` is its trigger or view."""
        table, column = (first or "").lower(), (second or "").lower()
        reason = ""
        if action in WRITING:
            if not self._writes:
                reason = READS
            elif table.startswith(PREFIX) if by is None else is_forged(table, by, self._of_app):
                reason = LEDGER
            is_status = action == sqlite3.SQLITE_INSERT or column == "status"
            self.closes |= table == "tasks" and is_status and by is None
        elif action == sqlite3.SQLITE_READ:
            if (by or "").lower() not in self._triggers and self._hides(table, column):
                reason = f'a statement of a tool cannot read "{first}.{second}"'
        elif action == sqlite3.SQLITE_FUNCTION and column in _FUNCTIONS:
            reason = f'a statement of a tool cannot use the function "{column}"'
        elif action not in _HARMLESS:
            is_search = (action, table) == (sqlite3.SQLITE_PRAGMA, "data_version")  # FTS5 uses it
            reason = "" if is_search else WRITES if self._writes else READS
        self.refused = self.refused or reason
        return sqlite3.SQLITE_DENY if reason else sqlite3.SQLITE_OK

    def _hides(self, table: str, column: str) -> bool:
        return f"{table}.{column}" in self._hidden or table.startswith(_INTERNAL)


class StatementReader(Database):
    """A connection for `project.rows`: temporary views replace tables that have hidden columns.

    The views of the application become temporary too, so that they read these.
    """

    __slots__ = ("_version", "guard", "hidden")

    def __init__(self, path: str, hide: Sequence[str]) -> None:
        super().__init__(path)
        self.hidden = folded(hide)
        self.guard = StatementGuard(self.hidden, set(), set(), writes=False)
        self._version = -1
        self.connection.execute("PRAGMA temp_store = MEMORY")
        self.connection.execute(WARMING).fetchall()
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)

    def show(self) -> None:
        """Make the views for the current schema; within a transaction."""
        version = self.schema_version()
        if version == self._version:
            return
        self._version = -1
        for (name,) in self.rows("SELECT name FROM temp.sqlite_master WHERE type = 'view'"):
            self.change(f"DROP VIEW temp.{quoted(name)}")
        objects = self.rows(_OBJECTS)
        missing = absent_tables(objects, self.hidden)
        for kind, name, sql in objects:
            if kind == "view":
                self._replace_view(name, sql)
            elif name.lower() in missing:
                self._hide(name)
            elif kind in ("table", "virtual"):
                columns = _columns(self.connection, name)  # connects a virtual table too
                shown = _visible_columns(name, columns, self.hidden)
                if len(shown) < len(columns):
                    self._view(name, shown, f"main.{quoted(name)}")
        self._version = version

    def forget(self) -> None:
        """Make the views again for the next statement: a failed transaction undoes them."""
        self._version = -1

    def _replace_view(self, name: str, sql: str) -> None:
        columns = _columns(self.connection, name)
        if not _refusal(sql) and len(_visible_columns(name, columns, self.hidden)) == len(columns):
            self.change(f"CREATE TEMP VIEW {sql.removeprefix(DEFINITION)}")
        else:
            self._hide(name)

    def _hide(self, name: str) -> None:
        """Let no statement compile that reads a table or view."""
        self._view(name, (), quoted(f"{name} without hidden columns"))

    def _view(self, name: str, columns: Sequence[str], source: str) -> None:
        listed = ", ".join(map(exact, columns)) or "1"
        names = f"({listed})" if columns else ""
        body = ("SELECT", listed, "FROM", source)
        self.change(f"CREATE TEMP VIEW {quoted(name)}{names} AS {' '.join(body)}")


def reader(workspace: Any, hide: Sequence[str]) -> StatementReader:
    """Return the connection for the reading tools of a session."""
    found = next((one for one in workspace.beside if isinstance(one, StatementReader)), None)
    if found is None:
        found = StatementReader(workspace.database.path, hide)
        workspace.beside.append(found)  # the workspace closes it
    return found


def read_records(
    database: StatementReader, sql: str, values: Sequence[object], most: int, _hide: Sequence[str]
) -> Records:
    """Return at most so many rows of a statement, by column; within a transaction.

    Raises `ToolError` for a statement that writes or reads hidden columns.
    """
    if refusal := _refusal(sql):
        raise ToolError(refusal)
    connection, guard = database.connection, database.guard
    try:
        database.show()
        guard.refused = ""
        connection.set_authorizer(guard)
        return _records(database, sql, values, most)[0]
    except BaseException as error:
        database.forget()
        if guard.refused and isinstance(error, sqlite3.DatabaseError):
            raise ToolError(guard.refused) from error
        raise
    finally:
        database.end_restriction()


def write_records(
    database: Database, sql: str, values: Sequence[object], most: int, hide: Sequence[str]
) -> tuple[Records, int]:
    """Return at most so many rows of a statement that writes, and how many it changed.

    The statement first compiles on empty tables without the hidden columns. Its transaction
    includes the work of triggers. Raises `ToolError` if it writes ralphgen's own tables, or
    uses hidden columns.
    """
    hidden = folded(hide)
    tokens = _tokens(sql)
    if re.search(rf"(?i)\b(?:INTO|UPDATE|FROM)\s+[\"`\[']?{PREFIX}", sql):
        raise ToolError(LEDGER)
    if refusal := _refusal(sql):
        raise ToolError(refusal)
    if "natural" in map(str.lower, tokens):
        raise ToolError("project.write does not support NATURAL: name the columns with USING or ON")
    if merged := _merged(tokens, hidden):
        raise ToolError(f'a statement of a tool cannot use USING with "{merged}": use ON')
    connection = database.connection
    objects = database.rows(_OBJECTS)
    words = {_name(token) for token in tokens}
    for kind, name, _ in objects if words & _ROWIDS else ():
        keys = connection.execute(_COLUMNS, (name,)) if name.lower() in words else ()
        if kind == "table" and any(
            pk and not _visible_columns(name, [key], hidden) for key, pk in keys
        ):
            raise ToolError(f'a statement of a tool cannot use the rowids of "{name}"')
    copy = _visible_copy(connection, objects, hidden)
    try:
        copy.execute(f"EXPLAIN {sql}", values).close()
    finally:
        copy.close()
    # The authorizer can distinguish a trigger from a view or a WITH only by its name.
    views = [definition for kind, _, definition in objects if kind == "view"]
    words |= {_name(token) for text in views for token in _tokens(text)}
    temporary = database.rows("SELECT name FROM temp.sqlite_master WHERE type = 'trigger'")
    of_app = {name for kind, name, _ in objects if kind == "trigger"}
    triggers = {name.lower() for name in (*of_app, *(name for (name,) in temporary))}
    guard = StatementGuard(hidden, triggers - words, of_app, writes=True)
    connection.set_authorizer(guard)
    try:
        # Its task must be proved all the same, which its caller finds out.
        return database.closing(
            lambda _: guard.closes, lambda: _records(database, sql, values, most)
        )
    except sqlite3.DatabaseError as error:
        if guard.refused:
            raise ToolError(guard.refused) from error
        raise
    finally:
        database.end_restriction()


def _records(
    database: Database, sql: str, values: Sequence[object], most: int
) -> tuple[Records, int]:
    cursor = database.connection.execute(sql, values)
    try:
        names = [column[0] for column in cursor.description or ()]
        rows = whole_records(names, (row for _, row in zip(range(most), cursor, strict=False)))
        return rows, cursor.rowcount
    finally:
        cursor.close()


def _visible_copy(
    connection: sqlite3.Connection, objects: Objects, hidden: set[str]
) -> sqlite3.Connection:
    """Return a database in memory with the tables and views, empty and without hidden columns.

    It omits objects that cannot be created: statements that need them do not compile.
    """
    copy = in_memory()
    missing = absent_tables(objects, hidden)
    for sort in ("table", "virtual", "index", "view"):
        for kind, name, sql in objects:
            if kind != sort or name.lower().startswith(_INTERNAL) or name.lower() in missing:
                continue
            statements = [sql]
            columns = [] if kind == "index" else _columns(connection, name)
            shown = _visible_columns(name, columns, hidden)
            if kind == "view":
                merges = "natural" in sql.lower() or _merged(_tokens(sql), hidden)
                if _refusal(sql) or len(shown) < len(columns) or merges:
                    continue
                statements += [
                    f"CREATE TRIGGER {quoted(f'{verb} {name}')} INSTEAD OF {verb} "
                    f"ON {quoted(name)} BEGIN SELECT 1; END"
                    for verb in ("INSERT", "UPDATE", "DELETE")
                ]
            elif len(shown) < len(columns):
                statements = [*_reduced(connection, name, shown)]
            try:
                for statement in statements:
                    copy.execute(statement)
            except sqlite3.Error:
                pass
    return copy


def _reduced(connection: sqlite3.Connection, table: str, shown: Sequence[str]) -> Iterator[str]:
    """Yield the statements for a table with only these columns and its unique constraints."""
    keys = connection.execute(_COLUMNS, (table,)).fetchall()
    key = [name for _, name in sorted((pk, name) for name, pk in keys if pk)]
    parts = [quoted(column) for column in shown]
    if key and {*key} <= {*shown}:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
    yield f"CREATE TABLE {quoted(table)} ({', '.join(parts)})"
    for (index,) in connection.execute(_UNIQUE, (table,)).fetchall():
        names = [name for (name,) in connection.execute(_INDEXED, (index,))]
        if {*names} <= {*shown}:
            listed = ", ".join(map(quoted, names))
            yield f"CREATE UNIQUE INDEX {quoted(f'copy {index}')} ON {quoted(table)} ({listed})"


def _columns(connection: sqlite3.Connection, name: str) -> list[str]:
    """Return the columns of a table or view; none of a view that does not compile."""
    try:
        return [column for column, _ in connection.execute(_COLUMNS, (name,))]
    except sqlite3.OperationalError:
        return []


def _visible_columns(table: str, columns: Sequence[str], hidden: set[str]) -> list[str]:
    return [column for column in columns if f"{table}.{column}".lower() not in hidden]


def absent_tables(objects: Objects, hidden: set[str]) -> set[str]:
    """Return, in lower case, the tables that do not exist for statements.

    These are virtual tables that may index a hidden column, since they name it or such a table,
    and their shadow tables.
    """
    words = {
        name.lower(): {*map(_name, _tokens(sql))} - {name.lower()}
        for kind, name, sql in objects
        if kind == "virtual"
    }
    found, size = {entry.partition(".")[2] for entry in hidden}, -1
    tables = {entry.partition(".")[0] for entry in hidden}
    # FTS4 takes all columns of a table whose rows it indexes.
    found |= {name for name, named in words.items() if "fts4" in named and named & tables}
    while len(found) > size:
        size = len(found)
        found |= {name for name, named in words.items() if named & found}
    found &= {*words}
    shadows = (name.lower() for kind, name, _ in objects if kind == "shadow")
    return found | {name for name in shadows if name.rpartition("_")[0] in found}


def _merged(tokens: Sequence[str], hidden: set[str]) -> str:
    """Return the hidden column that a USING may join by, or an empty text.

    SQLite joins by the first table that has the column, so one next to the join counts too.
    """
    words = {_name(token) for token in tokens}
    is_using = False
    for part in tokens:
        is_using = (is_using and part != ")") or part.lower() == "using"
        for table in words if is_using else ():
            if f"{table}.{_name(part)}" in hidden:
                return f"{table}.{_name(part)}"
    return ""


def folded(hide: Sequence[str]) -> set[str]:
    """Return the hidden columns in lower case, including `ALWAYS_HIDDEN`."""
    return {entry.lower() for entry in (*ALWAYS_HIDDEN, *hide)}


def _refusal(sql: str) -> str:
    """Return why a statement or view cannot be used, judged by its names, or an empty text."""
    tokens = [*_tokens(sql), ""]
    for at, token in enumerate(tokens):
        name = _name(token)
        if name in ("main", "temp") and tokens[at + 1] == ".":
            return f'a statement of a tool cannot name the schema "{name}": name the table alone'
        if name.startswith(_INTERNAL) or name == "dbstat":
            return f'a statement of a tool cannot name "{name}": pass a text as a parameter'
    return ""


def _name(token: str) -> str:
    """Return the name that a token may stand for, in lower case."""
    quote = token[:1]
    if quote in ("'", '"', "`"):
        token = token[1:-1].replace(2 * quote, quote)
    return (token[1:-1] if quote == "[" else token).lower()


def _tokens(sql: str) -> list[str]:
    found = re.findall(_TOKENS, sql)
    return [token for token in found if not token.startswith(("--", "/*"))]
