"""A project's database: the interface that every engine implements, and comparison of schemas.

Each engine is a package next to this module, with the same modules in it. Its `database` has the
classes `Database` and `Snapshot`, and the package itself is its `Dialect`. In statements, "?" marks
a value on every engine. A server refuses to start if the schema differs from its build, and to
continue if it changes.
"""

from __future__ import annotations

from ..encoding import sha256_hex
from ..errors import StartError, ToolError, log
from ..system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from .ledger import MayClose, Moved

    Column = dict[str, Any]
    Keys = list[tuple[str, list[tuple[str, str]]]]
    Records = list[dict[str, Any]]
    Result = TypeVar("Result")

    class Dialect(Protocol):
        """The parts of statements that differ between engines."""

        DEFER_KEYS: str  # checks foreign keys at the end of the transaction
        DIFFERS: str  # compares with a value; either side may be NULL
        GIVEN_NUMBER: str  # follows the columns of an INSERT with an explicit row number
        HAS_TEXT: str  # the condition that the column `name` has a text
        HEX_NAME: str  # the bytes of the column `name`
        NAME_KEY: str  # orders rows by `name` of any stored type
        ROW_LOCK: str  # ends a SELECT whose rows no one else may change until the transaction ends
        SAME_LETTERS: str  # compares the column `title`, ignoring the case of ASCII letters
        SAME_NAME: str  # compares the column `name` exactly
        __package__: str | None  # of the engine
        UNINDEXED: str  # follows a table that is read whole
        TYPED: bool  # whether a column has values of its type alone

        def among(self, column: str, kind: str = "bigint", /) -> str:
            """Return the condition that a value is in a list, given as JSON; `kind` may be text."""

        def comparable(self, column: str) -> str:
            """Return a comparable expression for a column of any type."""

        def exact(self, column: str) -> str:
            """Return the bytes of a text, in the encoding of `encoding_of`."""

        def exactly(self, column: str) -> str:
            """Return a text that is compared, grouped and ordered by its characters alone."""

        def holding(self, column: str) -> str:
            """Return the condition that a text contains another one."""

        def holds(self, column: str) -> str:
            """Return the condition that a column is like a pattern, with the escape "!"."""

        def is_text(self, column: str) -> str:
            """Return the condition that a column stores text."""

        def member(self, column: str, name: str) -> str:
            """Return a member of a JSON object, as text."""

        def stored_name(self, table: str) -> str:
            """Return the name of a table as text, in the spelling of the database."""

        def next_number(self, table: str) -> str:
            """Return the SELECT of the number of the next row."""

        def ordered(self, column: str) -> str:
            """Return an ORDER BY term: the bytes of a column, rows without a value first."""

        def returning(self, key: str, /) -> str:
            """Return the end of an INSERT whose row number is needed."""

        def same_json(self, column: str) -> str:
            """Return the condition that a column has a JSON value, however it is spelled."""

        def stored_type(self, column: str) -> str:
            """Return the type of a stored value: null, text, or another type's name."""

        def encoding_of(self, database: Snapshot, /) -> str:
            """Return the encoding of `exact`, as Python names it."""

        def may_add(self, database: Snapshot, table: str, /) -> bool:
            """Return whether rows may be added to a table."""

        def can_read(self, database: Snapshot, table: str, column: str, /) -> bool:
            """Return whether a column may be read."""

        def naming(self, database: Database, task: int, /) -> tuple[str, list[str]]:
            """Return the condition that `depends_on` may name a task, and its values."""

        def own_code(self, database: Snapshot) -> Sequence[str]:
            """Return which statements on ralph's tables run code of the project.

            A "write" runs triggers; generated columns count for a "read" too.
            """

    class Catalog(Protocol):
        """The parts of a schema: statements that list them, keys, and rules of tables."""

        KEEPS_ENTRIES: bool  # whether the ledger has a table for the entries of state files
        COLUMN_NAMES: str  # of one table, in order
        INDEX_NAMES: str
        LEDGER_COLUMNS: str  # table and column, of the tables of the ledger
        RELATION_NAMES: str  # of tables and views, without virtual tables and their parts
        TABLE_NAMES: str
        TASK_INDEXES: str  # the name of each index on `tasks`, and each of its keys

        def defined(self, sql: str) -> str:
            """Return definitions of tables, as SQLite takes them, for this engine."""

        def parents(self, database: Snapshot, table: str) -> Keys:
            """Return each foreign key of a table: its parent, and the pairs of columns."""

        def children(self, database: Snapshot, table: str, *, also_following: bool = False) -> Keys:
            """Return each foreign key that keeps rows of a table: its table and columns.

            Keys that delete or empty the other rows are included if `also_following`.
            """

        def read_tables(
            self, connection: Any, *, also: Sequence[str], own: Sequence[str]
        ) -> dict[str, list[Column]]:
            """Return the columns of tables, as `Snapshot.tables` does."""

        def absent_columns(self, connection: Any, reads: Mapping[str, Sequence[str]]) -> list[str]:
            """Return missing columns, as `Snapshot.absent_columns` does."""

        def views_digest(self, connection: Any, names: Iterable[str]) -> str:
            """Return a digest, as `Snapshot.views_digest` does."""

        def is_broken_rule(self, error: BaseException | None) -> bool:
            """Return whether a statement failed by a CHECK."""

        def broken_rule(
            self, database: Snapshot, table: str, error: BaseException | None, /
        ) -> str:
            """Return the CHECK that a statement broke, empty if it is unknown.

            Runs in the transaction after the failed one.
            """

        def replaces_rows(self, database: Snapshot, table: str, /) -> bool:
            """Return whether a new row of the table may delete another."""

    class StateFiles(Protocol):
        """The entries of progress.txt and learnings.txt: files, or rows that all machines share.

        `workspace` is that of the kit ralph.
        """

        def read_page(
            self, workspace: Any, file: str, limit: int, before: str | None = None
        ) -> Any:
            """Return a `Page` of the last `limit` entries of a file, or those before a cursor."""

        def stored_page(self, database: Snapshot, folder: str, file: str, limit: int, /) -> Any:
            """Return a `Page` of the last `limit` entries of a file in the project's folder."""

        def append_entry(
            self, workspace: Any, file: str, entry: str, tool: str, *, once: bool
        ) -> int:
            """Add an entry, `once` if it is new; return the number of bytes added."""

        def finish_stopped_undo(self, workspace: Any, /) -> None:
            """Finish an undo that was stopped; within a transaction."""

    class Statements(Protocol):
        """Statements of custom tools; they cannot read hidden columns."""

        def reader(self, workspace: Any, hide: Sequence[str]) -> Any:
            """Return the database for the reading tools of a session."""

        def read_records(
            self,
            database: Any,
            sql: str,
            values: Sequence[object],
            most: int,
            hide: Sequence[str],
            /,
        ) -> Records:
            """Return at most `most` rows of a statement; within a transaction."""

        def write_records(
            self,
            database: Any,
            sql: str,
            values: Sequence[object],
            most: int,
            hide: Sequence[str],
            /,
        ) -> tuple[Records, int]:
            """Return at most `most` rows of a writing statement, and how many it changed."""

    class Revocations(Protocol):
        """The sessions whose tokens were ended."""

        def holds(self, session: str) -> bool:
            """Return whether a session was ended; raises `OSError` if the list is unreadable."""

        def close(self) -> None:
            """Close the list."""

    class Journal(Protocol):
        """Records each row that a connection changes."""

        def begin(self) -> None:
            """Record the changes of this transaction; called first in each one."""

    class WriteNotices(Protocol):
        """Waits for writes of others, on one thread."""

        def wait(self, interval: float) -> bool:
            """Wait for a write, a while at most; return whether there may have been one.

            If no notice can arrive, it ends after `interval` seconds.
            """

        def close(self) -> None:
            """Release the connection."""

    class Snapshot(Protocol):
        """One state of a database, for reading."""

        @property
        def connection(self) -> Any:
            """The connection of the driver."""

        @property
        def sql(self) -> Dialect:
            """The parts of statements that differ between engines."""

        @property
        def catalog(self) -> Catalog:
            """The statements that list the parts of a schema."""

        @property
        def entries(self) -> StateFiles:
            """The entries of the state files."""

        def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            """Return all rows of a statement."""

        def each(self, sql: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
            """Yield the rows one by one."""

        def row(self, sql: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
            """Return the first row, or None."""

        def record(self, sql: str, values: Sequence[object] = ()) -> dict[str, Any]:
            """Return the first row by column, empty if there is none."""

        def keep_bytes(self) -> None:
            """Read bytes that are not UTF-8 as surrogates from now on, if there can be any."""

        def tables(
            self, also: Sequence[str] = (), *, own: Sequence[str] | None = None
        ) -> dict[str, list[Column]]:
            """Return the columns of the existing tables in `own` and `also`.

            `own` defaults to the tables of a project with tasks. `also` may have views. A column is
            `name`, `type`, `not_null`, `default` (SQL text, None also for NULL), `primary_key` (0,
            or its position in the key), `references` ("table(column)" or None), `values` (the list
            that a CHECK allows, or None) and `generated`.
            """

        def absent_columns(self, reads: Mapping[str, Sequence[str]]) -> list[str]:
            """Return, as "table.column", the columns in `reads` that no longer exist."""

        def views_digest(self, names: Iterable[str]) -> str:
            """Return a digest of the views among `names` and the views that they read, or ""."""

    class Database(Snapshot, Protocol):
        """A connection that reads and writes in transactions.

        `path` is the result of `located`. Each writing transaction first calls the functions in
        `before_writes`, and last the functions in `before_commits`, with the tasks that it made
        done or skipped; these only read. Unless it `has_tasks`, a table `tasks` is like any other.
        No error names a `hidden` column, which is "table.column" in lower case. The columns of
        `known` tables, also in lower case, are hidden only by that name.
        `sees_redefined_views` is whether a redefined view changes `schema_version`.
        """

        before_commits: list[Callable[[Moved], None]]
        before_writes: list[Callable[[], None]]
        has_tasks: bool
        hidden: set[str]
        known: set[str]
        path: str
        sees_redefined_views: bool

        def __init__(self, path: str, patience: float = ...) -> None: ...

        @staticmethod
        def located(root: str, named: str, /) -> str:
            """Return the path of the database with this name, in the project with this home."""

        @property
        def statements(self) -> Statements:
            """The statements of custom tools."""

        @property
        def is_lost(self) -> bool:
            """Whether only another connection can be used; safe in any thread."""

        def another(self, patience: float = ...) -> Database:
            """Return another connection to the same database, for another thread."""

        def change(self, sql: str, values: Sequence[object] = ()) -> int:
            """Run a writing statement; return the number of changed rows."""

        def change_rows(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
            """Run a writing statement that returns rows."""

        def insert(self, sql: str, values: Sequence[object]) -> int:
            """Run one INSERT; return the number of the row."""

        def closed_tasks(self) -> Moved:
            """Return the tasks that the open transaction has made done or skipped so far."""

        def closing(self, may_close: MayClose, write: Callable[[], Result]) -> Result:
            """Return `write()` and let only these tasks become done; in a transaction."""

        @property
        def refusals(self) -> tuple[type[Exception], ...]:
            """The errors of the driver for values that a table refuses."""

        def broken_keys(self) -> Iterable[tuple[Any, ...]]:
            """Yield each broken foreign key: table, number of the row, parent, key.

            Raises an error of the driver if the engine refuses them itself.
            """

        def continue_numbers(self, table: str, key: str) -> None:
            """Give the next row of a table a number above all others."""

        def ignore_keys(self) -> None:
            """Check no foreign key from now on, if the engine can; outside of a transaction."""

        def watch(self) -> bool:
            """Make the missing triggers of the journal, if the engine stores them; return whether.

            Runs in a transaction. Connections of other engines watch for themselves.
            """

        def unwatch(self) -> None:
            """Remove the stored triggers of the journal; within a transaction."""

        def when_open(self, check: Callable[[], None]) -> None:
            """Call `check` when the database is open."""

        def open_soon(self) -> None:
            """Open the database, if that takes time, on another thread."""

        def close(self) -> None:
            """Roll back the open transaction and close the connection."""

        def definitions(self) -> str:
            """Return a digest of all tables' definitions; empty if columns are as fast to read."""

        def schema_version(self) -> int:
            """Return a number that differs after a change of the schema; within a transaction."""

        def moved(self) -> object:
            """Return a value that differs after any write by others; within a transaction."""

        def notices(self) -> WriteNotices | None:
            """Return a waiter for writes by others, or None if `moved` has to be polled."""

        def reading(self, work: Callable[[], Result]) -> Result:
            """Return `work()`, run on one state of the database; raises `ToolError`."""

        def writing(self, work: Callable[[], Result]) -> Result:
            """Return `work()` in one transaction, or change nothing; raises `ToolError`.

            It may run more than once: a lost race is rolled back and tried again.
            """

        def journal(
            self,
            session: str,
            facts: Mapping[str, Any],
            tool: Callable[[], str],
            *,
            ends_with_writes: bool = False,
        ) -> Journal:
            """Return the journal of this connection, with the arguments of `SessionJournal`."""

    Tables = Mapping[str, Sequence[Column]]

PATIENCE = 20.0  # seconds that a call waits for other writers


def quoted(name: str) -> str:
    """Return an SQL identifier for any name."""
    return '"' + name.replace('"', '""') + '"'


NOT_UNIQUE = "the database refuses this: a value that must be unique is already taken"
EMPTY = "the database refuses this: a value that must not be empty is missing"


def hidden_columns(hidden: Iterable[str], table: str) -> set[str]:
    """Return the columns of a table among the hidden ones, in lower case."""
    start = f"{table}.".lower()
    return {name[len(start) :] for name in hidden if name.startswith(start)}


def mentions(sql: str, columns: Iterable[str]) -> bool:
    """Return whether an expression may name one of the columns, which are in lower case."""
    import re  # only refusals need it

    text = sql.lower()
    words = {*re.findall(r"[\w$]+", text)}
    parts = {name: {*re.findall(r"[\w$]+", name)} for name in columns}
    return any(words & found if found else name in text for name, found in parts.items())


class SnapshotBase:
    """The part of a `Snapshot` that all engines have in common."""

    def tables(
        self: Snapshot, also: Sequence[str] = (), *, own: Sequence[str] | None = None
    ) -> dict[str, list[Column]]:
        """Return the columns of the existing tables in `own` and `also`."""
        read = self.catalog.read_tables
        return read(self.connection, also=also, own=TABLES if own is None else own)

    def absent_columns(self: Snapshot, reads: Mapping[str, Sequence[str]]) -> list[str]:
        """Return, as "table.column", the columns in `reads` that no longer exist."""
        return self.catalog.absent_columns(self.connection, reads)

    def views_digest(self: Snapshot, names: Iterable[str]) -> str:
        """Return a digest of the views among `names` and the views that they read, or ""."""
        return self.catalog.views_digest(self.connection, names)


class DatabaseBase:
    """The part of a `Database` that all engines have in common."""

    @property
    def statements(self: Database) -> Statements:
        """The statements of custom tools."""
        found: Statements = _module_beside(self, "queries")
        return found

    def another(self: Database, patience: float = PATIENCE) -> Database:
        """Return another connection to the same database, for another thread."""
        other = type(self)(self.path, patience)
        other.hidden, other.known = self.hidden, self.known
        return other

    def journal(
        self: Database,
        session: str,
        facts: Mapping[str, Any],
        tool: Callable[[], str],
        *,
        ends_with_writes: bool = False,
    ) -> Journal:
        """Return the journal of this connection, with the arguments of `SessionJournal`."""
        made: Callable[..., Journal] = _module_beside(self, "journal").Journal
        return made(self, session, facts, tool, ends_with_writes=ends_with_writes)


class LockedDatabaseError(ToolError):
    """Another program had the database locked for too long: nothing was changed."""


def busy(patience: float) -> LockedDatabaseError:
    """Return the error for a call that waited too long for other writers."""
    return LockedDatabaseError(
        f"the database is busy: another program has locked it for {patience:.0f} seconds; nothing "
        "was changed, try again"
    )


def unstorable(error: UnicodeEncodeError | OverflowError) -> ToolError:
    """Return the error for a value that the driver cannot pass to the database."""
    if isinstance(error, OverflowError):
        return ToolError("an integer is beyond 64 bits, which the database cannot store")
    found = ord(error.object[error.start])
    return ToolError(
        f"a string contains U+{found:04X}, half of a surrogate pair: send well-formed Unicode"
    )


def _module_beside(database: Database, name: str) -> Any:
    """Import a module of the database's engine by name, so that only its servers contain it."""
    return __import__(f"{database.sql.__package__}.{name}", None, None, [name])


TABLES = (
    "disciplines",
    "features",
    "metadata",
    "ralphgen_ledger",
    "recipe_configs",
    "task_comments",
    "tasks",
)

WAITING = 'column {} is new; run "ralphgen regen"'
_ASPECTS = (
    ("type", "type"),
    ("not_null", "NOT NULL"),
    ("default", "default"),
    ("primary_key", "primary key"),
    ("references", "foreign key"),
    ("values", "CHECK values"),
    ("generated", "generated"),
)
REDEFINED = "the definition of a served view, or of a view that it reads, changed"
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def fold(name: str) -> str:
    """Return a name for comparison: only ASCII letters become lower case."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def fingerprint(tables: Tables, hide: Iterable[str] = ()) -> str:
    """Return the sha256, in hex, of the columns outside of `hide` (`"table.column"`).

    It depends only on name, type, NOT NULL, default, keys, CHECK values and generated columns: not
    on the order of tables, columns or values, nor on spelling, indexes, triggers or other tables.
    """
    import json

    facts = [
        [table, name, *(column[key] for key, _ in _ASPECTS)]
        for table, columns in sorted(_visible(tables, hide).items())
        for name, column in sorted(columns.items())
    ]
    return sha256_hex(json.dumps(facts, separators=(",", ":")).encode("ascii"))


def only_served(tables: Mapping[str, Any], named: Iterable[str]) -> dict[str, Any]:
    """Return the named tables and the ledger, for a server without other tables."""
    served = {fold(name) for name in (*named, "ralphgen_ledger")}
    return {name: columns for name, columns in tables.items() if fold(name) in served}


def differences(built_for: Tables, found: Tables, hide: Iterable[str] = ()) -> list[str]:
    """Return one sentence for each table or column that differs between schemas, sorted by name.

    Empty if and only if the fingerprints are equal. Both schemas have the form of `read_tables`,
    also after a round trip through JSON.
    """
    hidden = tuple(hide)
    before, after = _visible(built_for, hidden), _visible(found, hidden)
    sentences: list[str] = []
    for table in sorted({*before, *after}):
        if table not in after:
            sentences.append(f'table "{table}" is gone')
        elif table not in before:
            sentences.append(f'table "{table}" is new')
        else:
            sentences += _column_differences(table, before[table], after[table])
    return sentences


def new_columns(built_for: Tables, found: Tables, hide: Iterable[str] = ()) -> list[str]:
    """Return the new, optional columns of `found` in tables of both schemas, sorted.

    Each is `"table.column"`. An optional column can be null, has a default or is generated. Takes
    the arguments of `differences`.
    """
    hidden = tuple(hide)
    before, after = _visible(built_for, hidden), _visible(found, hidden)
    return sorted(
        f"{table}.{name}"
        for table in before.keys() & after.keys()
        for name, column in after[table].items()
        if name not in before[table] and _may_be_left_out(column)
    )


def refuse_unlike(
    kit: str,
    folder: str,
    expected: Mapping[str, Any],
    found: Tables,
    gone: Sequence[str],
    views: str,
) -> bool:
    """Return whether the `found` tables have no new columns; raises `StartError` if others differ.

    `folder` is the server's directory, and `expected` the schema in its manifest. New optional
    columns are only logged, because the server works without them. `views` is the digest of the
    served views. The error names the columns that differ, or the missing columns of named queries,
    which are in `gone`.
    """
    if gone:
        raise StartError(
            f'named queries read missing columns ({", ".join(gone)}): run "ralphgen regen"'
        )
    hide = expected["hide"]
    is_same = fingerprint(found, hide) == expected["fingerprint"]
    before = recorded_tables(folder)
    if "ralphgen_ledger" in before and "ralphgen_ledger" not in found:
        raise StartError('the database has no ledger: run "ralphgen db ledger on"')
    new = [] if is_same else new_columns(before, found, hide)
    if not is_same and fingerprint(found, [*hide, *new]) != expected["fingerprint"]:
        moved = "; ".join(differences(before, found, hide))
        raise StartError(
            "the schema of the database does not match this server: "
            f'{moved or "see a diff"}; run "ralphgen regen"'
        )
    if views != expected.get("views", ""):
        raise StartError(f'{REDEFINED}: run "ralphgen regen"')
    for column in new:
        log("warning", kit, WAITING.format(column))
    return not new


def refuse_migrated(moved: Iterable[str]) -> None:
    """Raise `ToolError` if there is a sentence about a schema change since the session began."""
    if sentences := sorted({*moved}):
        raise ToolError(
            f"the database's schema changed during this session ({'; '.join(sentences)}): "
            'run "ralphgen regen" and start a new session'
        )


def recorded_tables(folder: str) -> dict[str, list[Column]]:
    """Return the tables of the server's build, from `project.json` in `folder`.

    Empty if the file cannot be read.
    """
    import json

    try:
        with open(os.path.join(folder, "project.json"), encoding="utf-8") as file:
            tables: dict[str, list[Column]] = json.load(file)["schema"]
        whole = all(isinstance(column, dict) for columns in tables.values() for column in columns)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return tables if whole else {}


def _may_be_left_out(column: Column) -> bool:
    given = column["generated"] or column["default"] is not None
    return not column["primary_key"] and (given or not column["not_null"])


def _visible(tables: Tables, hide: Iterable[str]) -> dict[str, dict[str, Column]]:
    """Return the visible columns by table and name, with sorted CHECK values."""
    hidden = {fold(entry) for entry in hide}
    visible: dict[str, dict[str, Column]] = {}
    for table, columns in tables.items():
        for column in columns:
            if fold(f"{table}.{column['name']}") not in hidden:
                values = column["values"]
                comparable = {**column, "values": values and sorted(values)}
                visible.setdefault(table, {})[column["name"]] = comparable
    return visible


def _column_differences(
    table: str, before: Mapping[str, Column], after: Mapping[str, Column]
) -> list[str]:
    sentences: list[str] = []
    for name in sorted({*before, *after}):
        column = f'column "{table}.{name}"'
        if name not in after:
            sentences.append(f"{column} is gone")
        elif name not in before:
            sentences.append(f"{column} is new")
        else:
            changed = [word for key, word in _ASPECTS if before[name][key] != after[name][key]]
            sentences += [f"{column} changed: {', '.join(changed)}"] if changed else []
    return sentences
