"""Moves all rows of a project from its file of SQLite into PostgreSQL, or none of them."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.emit.scaffold import STACKS, load_stack, make_tables_in
from ralphgen.errors import Problem, ProjectError, Say, plain
from ralphgen.exchange.rows import (
    NAMED_ROWS,
    Key,
    encode_value,
    key_column,
    key_label,
    opened_file,
    ralphs_tables,
    unreadable,
)
from ralphgen.kits.registry import project_config
from ralphgen.ledger.tables import FOLDER, LedgerState, move_in, state_of
from ralphgen.project.database import FileSnapshot, Snapshot, first_line, opened_database
from ralphgen.project.inspect import names_of
from ralphgen.project.root import CONFIG, project_home
from ralphgen.project.schema import REQUIRED_COLUMNS, Facts, table_names
from ralphgen.runtime.engine import fold, quoted
from ralphgen.runtime.engine.ledger import KEPT, MARKER, PREFIX
from ralphgen.runtime.engine.postgresql.database import Database
from ralphgen.runtime.engine.postgresql.journal import watch
from ralphgen.runtime.tasks import decode_strings
from ralphgen.runtime.tasks.status import IMPORTED, record_reason

if TYPE_CHECKING:
    import psycopg

SETTLE = "nothing was changed; fix this in the file or in PostgreSQL, then import again"
_LINE = re.compile(r"line (\d+)(?:, column ([^:]+))?")  # in PostgreSQL's error context


@dataclass(frozen=True, slots=True)
class MovedColumn:
    """A column that is moved: its name in the file, that in PostgreSQL, and its kind there."""

    source: str
    name: str
    kind: str


class IncomingRows:
    """The rows of a table of the file, for the table of the same name and key in PostgreSQL.

    Before any row is added, PostgreSQL itself reports the values that it refuses, and the
    differences.
    """

    def __init__(
        self,
        database: "Database",
        table: str,
        key: Sequence[str],
        columns: Sequence[MovedColumn],
    ) -> None:
        """Work within the transaction of `database`; `key` are columns that tell rows apart."""
        self.table = table
        self._database = database
        self._connection: psycopg.Connection[Any] = database.connection
        self._table = quoted(table)
        self._key = key
        self._columns = columns
        self._names = ", ".join(quoted(column.name) for column in columns)
        self._incoming = f"pg_temp.{quoted(f'{PREFIX}{table}')}"
        pairs = (f"its.{quoted(one)} = new.{quoted(one)}" for one in key)
        self._on_key = " AND ".join(pairs)
        self._by_key = ", ".join(map(quoted, key))

    def load(self, source: sqlite3.Connection) -> None:
        """Read the rows of the file, in the order of their keys.

        Raises `ProjectError` for values that PostgreSQL does not hold, and `sqlite3.Error`.
        """
        import psycopg

        self._run(
            f"CREATE TEMPORARY TABLE {quoted(f'{PREFIX}{self.table}')} ON COMMIT DROP AS "
            f"SELECT {self._names} FROM {self._table} WITH NO DATA"
        )
        names = ", ".join(quoted(column.source) for column in self._columns)
        by_key = ", ".join(quoted(one.source) for one in self._columns if one.name in self._key)
        sql = f"SELECT {names} FROM {self._table} ORDER BY {by_key}"
        keys: list[Key] = []
        problems: list[Problem] = []
        text = f"COPY {self._incoming} ({self._names}) FROM STDIN".encode()
        try:
            with self._connection.cursor().copy(text) as copy:
                for row in self._encode_rows(source.execute(sql), keys, problems):
                    copy.write_row(row)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            problems.append(_refusal(error, keys))
        if problems:
            *others, last = problems
            raise ProjectError.of([*others, Problem(last.text, SETTLE)])

    def refuse_differing(self) -> None:
        """Raise `ProjectError` for rows that are in both and not the same."""
        differs = " OR ".join(
            f"its.{quoted(column.name)}::text IS DISTINCT FROM new.{quoted(column.name)}::text"
            for column in self._columns
        )
        keys = ", ".join(f"its.{quoted(one)}" for one in self._key)
        found = self._run(
            f"SELECT {keys} FROM {self._table} AS its JOIN {self._incoming} AS new "
            f"ON {self._on_key} WHERE {differs} ORDER BY {keys} LIMIT {NAMED_ROWS}"
        )
        if found:
            shown = [
                f"{key_label((self.table, key))} is a different row in PostgreSQL" for key in found
            ]
            *others, last = shown
            raise ProjectError.of([*map(Problem, others), Problem(last, SETTLE)])

    def add(self) -> int:
        """Add the missing rows and let numbering continue after them; return how many were added.

        Raises `ProjectError` if the table refuses a row.
        """
        import psycopg

        missing = (
            f"FROM {self._incoming} AS new WHERE NOT EXISTS "
            f"(SELECT 1 FROM {self._table} AS its WHERE {self._on_key}) ORDER BY {self._by_key}"
        )
        try:
            added = self._database.change(
                f"INSERT INTO {self._table} ({self._names}) OVERRIDING SYSTEM VALUE "
                f"SELECT {self._names} {missing}"
            )
        except psycopg.IntegrityError as error:
            said = error.diag.message_primary or ""
            if (error.diag.message_detail or "").startswith("Key "):  # else it is the whole row
                said += f": {error.diag.message_detail}"
            raise ProjectError(
                f"PostgreSQL rejected rows of {self.table}: {said}", SETTLE
            ) from error
        if left := self._run(f"SELECT {self._by_key} {missing} LIMIT 1"):
            row = key_label((self.table, left[0]))
            raise ProjectError(f"{row}: discarded by a PostgreSQL trigger", SETTLE)
        kinds = [column.kind for column in self._columns if column.name in self._key]
        if kinds in (["INTEGER"], [""]):  # no report for the ledger
            self._database.continue_numbers(self.table, self._key[0])
        return added

    def _encode_rows(
        self, rows: Iterable[Sequence[Any]], keys: list[Key], problems: list[Problem]
    ) -> Iterator[list[Any]]:
        """Yield the rows in PostgreSQL's format; collect their keys, and the problems of values."""
        names = [column.name for column in self._columns]
        places = [names.index(one) for one in self._key]
        columns = [(column.kind, column.name) for column in self._columns]
        for row in rows:
            keys.append((self.table, tuple(row[at] for at in places)))
            values = []
            for (kind, name), value in zip(columns, row, strict=True):
                try:
                    values.append(encode_value(kind, name, value))
                except ValueError as error:
                    problems.append(Problem(f'{key_label(keys[-1])}: "{name}": {error}'))
                    values.append(None)
            if len(problems) >= NAMED_ROWS:
                return
            yield values

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def _refusal(error: "psycopg.Error", keys: Sequence[Key]) -> Problem:
    """Return PostgreSQL's error for a value, with its row and column."""
    found = _LINE.search(error.diag.context or "")
    at = int(found[1]) - 1 if found else -1
    where = key_label(keys[at]) if 0 <= at < len(keys) else "a row"
    column = f', "{found[2]}"' if found and found[2] else ""
    return Problem(f"{where}{column}: rejected by PostgreSQL: {first_line(error)}")


LEDGER = {
    "ralphgen_sessions": ("id",),
    "ralphgen_claims": ("task_id",),
    "ralphgen_journal": ("number",),
    "ralphgen_unfinished": ("number",),
    "ralphgen_evidence": ("number",),
    "ralphgen_questions": ("number",),
    "ralphgen_merges": ("number",),
    "ralphgen_runs": ("number",),
    "ralphgen_runner": ("target",),
    "ralphgen_reviews": ("number",),
    "ralphgen_order": ("task_id",),
    "ralphgen_workers": ("name",),
}
"""The tables of the ledger, each with its key columns."""

_TYPES = {"INTEGER": "bigint", "REAL": "double precision", "BLOB": "bytea", "NUMERIC": "numeric"}
_NONE_YET = ("features", "tasks", "task_comments", "recipe_configs")
_OTHERS = """
    SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'
    ORDER BY name
"""
_EMPTY = (None, "", "[]")  # values of a column that nobody has set


class _DryRunError(Exception):
    """All was tried, and nothing is to stay."""


def move_project(root: Path, file: Path, *, dry_run: bool, say: Say) -> Mapping[str, int]:
    """Move the rows of another project's file, or of this one's former file; return how many.

    These are all columns of ralphgen's own tables and of the tables in the settings, and the ledger
    if both sides have one; missing tables of ralphgen are created in PostgreSQL. Existing rows are
    kept. The entries of the state files next to that file become rows. Raises `ProjectError` if a
    row differs, has no place in PostgreSQL, or is refused by it: nothing is changed then.
    """
    done: list[tuple[dict[str, int], list[str]]] = []
    config = project_config(root)
    ralphs = ralphs_tables(root)
    needed = tuple(REQUIRED_COLUMNS) if ralphs else ()
    beside = (folder for folder in file.resolve().parents if folder.name == FOLDER)
    folder = next(beside, project_home(root) / FOLDER)
    with (
        suppress(_DryRunError),
        _opened_file(file, needed) as source,
        opened_database(root) as database,
    ):
        if not isinstance(database, Database):
            raise ProjectError(
                "the project's rows are in SQLite",
                f'set engine = "postgresql" below [database] in {CONFIG}',
            )

        def work() -> None:
            move = _Move(database, source, file, (ralphs, names_of(config)), folder)
            done[:] = [(database.closing(lambda _: True, move.run), move.notes)]
            brings_ledger = state_of(FileSnapshot(source)).version is not None
            if not brings_ledger and state_of(database).version is not None:
                record_reason(database, "import", IMPORTED, database.closed_tasks(), "import")
            if dry_run:
                raise _DryRunError

        database.has_tasks = bool(ralphs)
        database.writing(work)
    ((added, notes),) = done
    for note in notes:
        say(note)
    return added


@contextmanager
def _opened_file(file: Path, needed: Sequence[str]) -> Iterator[sqlite3.Connection]:
    """A project's file; raises `ProjectError` if it lacks a table or cannot be read."""
    with opened_file(file) as connection:
        facts = FileSnapshot(connection).tables()
        if lacking := [table for table in needed if table not in facts]:
            text = f'"{file}" is not a project database: it has no table "{lacking[0]}"'
            raise ProjectError(text, "choose the database of a project")
        yield connection


def parents_first(facts: Facts, tables: Sequence[str]) -> list[str]:
    """Return tables, each after those it refers to; tables in a cycle keep their order."""
    ahead = {
        table: [
            parent
            for column in facts.get(table, ())
            for parent in tables
            if parent != table and (column["references"] or "").startswith(f"{parent}(")
        ]
        for table in tables
    }
    sorter = TopologicalSorter(ahead)
    with suppress(CycleError):
        sorter.prepare()
    found: list[str] = []
    while ready := sorter.get_ready():
        found += ready
        sorter.done(*ready)
    return [*found, *(table for table in tables if table not in found)]


class _Move:
    """The move of a file's rows, within a transaction that writes; `notes` list what is left out.

    The rows first go into temporary tables with the same columns. PostgreSQL itself then reports
    the values that it refuses, and the differences, before any row is added.
    """

    def __init__(
        self,
        database: Database,
        source: sqlite3.Connection,
        file: Path,
        tables: tuple[Sequence[str], Sequence[str]],
        folder: Path,
    ) -> None:
        """Move ralph's tables, which may be empty, and the project's own tables."""
        self.notes: list[str] = []
        self._database = database
        self._schema = database.path.partition("/")[2]
        self._connection: psycopg.Connection[Any] = database.connection
        self._source = source
        self._file_rows = FileSnapshot(source)
        self._file = file
        self._ralphs, self._named = tables
        self._tables = [*self._ralphs, *self._named]
        self._folder = folder  # the folder of the state files

    def run(self) -> dict[str, int]:
        """Return how many rows were added to each table; raises `ProjectError`."""
        self._connection.execute(b"SET LOCAL statement_timeout = 0")
        theirs, theirs_state = self._facts(self._file_rows), state_of(self._file_rows)
        if theirs_state.rows.get("ralphgen_unfinished"):
            text = f'an undo in "{self._file}" was interrupted'
            raise ProjectError(text, 'finish it there with "ralphgen log"')
        if self._ralphs and not {*self._ralphs} & {*table_names(self._database)}:
            self._make_tables(theirs, with_ledger=theirs_state.version is not None)
        facts = self._facts(self._database)
        ours = {
            name: columns for name, columns in facts.items() if name in table_names(self._database)
        }
        keys = self._keys(theirs, ours)
        columns = self._columns(theirs, ours, keys)
        if self._takes_ledger(theirs_state, state_of(self._database)):
            present = [table for table in LEDGER if table in theirs_state.rows]
            columns.update((table, self._same_columns(table)) for table in present)
            keys.update(LEDGER)
        own = {*map(fold, self._tables), *LEDGER, MARKER}
        found = [name for (name,) in self._source.execute(_OTHERS) if fold(name) not in own]
        if found:
            more = f" and {len(found) - NAMED_ROWS} more" if len(found) > NAMED_ROWS else ""
            named = ", ".join(map(plain, found[:NAMED_ROWS]))
            self.notes.append(f"left out: tables that are not ralphgen's: {named}{more}")
        if self._ralphs:
            self._give_way()
        incoming = [
            IncomingRows(self._database, table, keys[table], moved)
            for table, moved in columns.items()
        ]
        for one in incoming:
            try:
                one.load(self._source)
            except sqlite3.Error as error:
                raise unreadable(self._file, error) from error
        for one in incoming:
            one.refuse_differing()
        added = {one.table: one.add() for one in incoming}
        entries, told = move_in(self._database, self._folder)
        self.notes += told
        return added | {KEPT: entries}

    def _facts(self, connection: Snapshot) -> Facts:
        return connection.tables(self._named, own=self._ralphs)

    def _keys(self, theirs: Facts, ours: Facts) -> dict[str, tuple[str, ...]]:
        """Return the key columns by table, parents first.

        A table without a key is noted and left out. Raises `ProjectError` for a missing table of
        which the file has rows.
        """
        found: dict[str, tuple[str, ...]] = {}
        problems: list[Problem] = []
        names = {fold(name): name for name in theirs}
        for table in parents_first(ours, self._tables):
            source = names.get(fold(table))
            if table not in ours:
                if source is not None and self._holds_rows(source):
                    text = f'PostgreSQL has no table "{plain(table)}"'
                    problems.append(
                        Problem(text, "create it first, with the migrations of the app")
                    )
                continue
            keys = sorted((one["primary_key"], one["name"]) for one in ours[table])
            key = tuple(name for number, name in keys if number)
            if table in self._ralphs:
                found[table] = (key_column(table),)
            elif key:
                found[table] = key
            else:
                text = f'left out: "{plain(table)}" has no primary key to identify its rows'
                self.notes.append(text)
        if problems:
            raise ProjectError.of(problems)
        return found

    def _make_tables(self, theirs: Facts, *, with_ledger: bool) -> None:
        """Make the tables of a new project, with those columns of the file that it has besides."""
        make_tables_in(self._connection, self._schema, with_ledger=with_ledger)
        if with_ledger:
            watch(self._database)
        self.notes.append("creates the tables of a new project")
        ours = self._database.tables()
        for table in self._ralphs:
            known = {column["name"] for column in ours[table]}
            for column in theirs.get(table, ()):
                name = fold(column["name"])
                if name not in known and not column["generated"]:
                    kind = _TYPES.get(column["type"], "text")
                    self._rows(f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {kind}")
                    self.notes.append(f'added the column "{plain(f"{table}.{name}")}" ({kind})')

    def _columns(
        self, theirs: Facts, ours: Facts, tables: Iterable[str]
    ) -> dict[str, list[MovedColumn]]:
        """Return the columns to move by table; raise `ProjectError` if one has no counterpart.

        A column that is empty or computed may be left out.
        """
        problems: list[Problem] = []
        found: dict[str, list[MovedColumn]] = {}
        in_file = {fold(name): columns for name, columns in theirs.items()}
        for table in tables:
            kinds = {one["name"]: one["type"] for one in ours[table] if not one["generated"]}
            computed = {one["name"] for one in ours[table] if one["generated"]}
            for column in in_file.get(fold(table), ()):
                source = column["name"]
                name = source if source in kinds else fold(source)
                if name in kinds:
                    found.setdefault(table, []).append(MovedColumn(source, name, kinds[name]))
                elif (
                    name not in computed and not column["generated"] and self._holds(table, source)
                ):
                    kind = _TYPES.get(column["type"], "text")
                    hint = f"ALTER TABLE {quoted(table)} ADD COLUMN {quoted(name)} {kind};"
                    text = f'PostgreSQL has no column "{plain(f"{table}.{source}")}"'
                    problems.append(Problem(text, hint))
        if problems:
            raise ProjectError.of(problems)
        return found

    def _same_columns(self, table: str) -> list[MovedColumn]:
        """Return the columns of a table of the ledger, which is the same on both engines."""
        names = self._source.execute("SELECT name FROM pragma_table_info(?)", [table])
        return [MovedColumn(name, name, "") for (name,) in names]

    def _holds_rows(self, table: str) -> bool:
        return self._source.execute(f"SELECT 1 FROM {quoted(table)} LIMIT 1").fetchone() is not None

    def _holds(self, table: str, column: str) -> bool:
        sql = f"SELECT 1 FROM {quoted(table)} WHERE {quoted(column)} IS NOT NULL LIMIT 1"
        return self._source.execute(sql).fetchone() is not None

    def _takes_ledger(self, theirs: LedgerState, ours: LedgerState) -> bool:
        """Return whether to move the ledger: only as a whole, and only into an empty one."""
        there, here = (
            {table: one.rows.get(table, 0) for table in LEDGER} for one in (theirs, ours)
        )
        if not any(there.values()):
            return False
        if ours.version is None:
            self.notes.append(
                'left out: the ledger; to include it, first run "ralphgen db ledger on"'
            )
        elif any(here.values()) and here != there:
            self.notes.append("left out: the ledger; PostgreSQL already has ledger entries")
        else:
            return True
        return False

    def _give_way(self) -> None:
        """Delete the rows that `init` has added to tables without any further rows."""
        there = table_names(self._database)
        if any(self._rows(f"SELECT 1 FROM {one} LIMIT 1") for one in _NONE_YET if one in there):
            return
        if "metadata" in there:
            self._rows("DELETE FROM metadata")
        stacks = [load_stack(name) for name in STACKS]
        known = {(one.name, stack.id): asdict(one) for stack in stacks for one in stack.disciplines}
        cursor = self._connection.execute(b"SELECT * FROM disciplines")
        names = [column.name for column in cursor.description or ()]
        for row in cursor.fetchall():
            values = dict(zip(names, row, strict=True))
            default = known.get((values["name"], values.pop("stack_id", None)), {})
            values["skills"] = tuple(decode_strings(values.get("skills")).values)
            if all(value in (default.get(name), *_EMPTY) for name, value in values.items()):
                self._connection.execute(
                    b"DELETE FROM disciplines WHERE name = $1", [values["name"]]
                )

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []
