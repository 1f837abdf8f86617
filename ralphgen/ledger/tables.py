"""Ralphgen's own tables in a database: adds, upgrades, counts and prunes them.

If an engine keeps entries as rows, the entries of the state files move in and out with them.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.errors import ProjectError
from ralphgen.project.database import Snapshot, is_detached, open_database, opened_database
from ralphgen.project.root import project_home
from ralphgen.project.schema import table_names
from ralphgen.runtime.engine.ledger import BASELINE, EVIDENCE, KEPT, MARKER
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import read_file, reason
from ralphgen.runtime.files.entry_log import write_entry

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Catalog, Database


STATE_FILES = ("progress.txt", "learnings.txt")
LARGEST_FILE = 1 << 30  # bytes of a file

_ENTRY_START = re.compile(r"^(?=[^ \t\r\n])", re.MULTILINE)
_STORED_ENTRIES = f"SELECT entry FROM {KEPT} WHERE file = ? ORDER BY number"
_ADD_ENTRIES = (
    f"INSERT INTO {KEPT} (file, entry) SELECT ?::text, one FROM unnest(?::text[]) "
    "WITH ORDINALITY AS its (one, place) ORDER BY place"
)


def entries_of(path: Path) -> list[str]:
    """Return the entries of a state file, in its order; none if the file is missing.

    Bytes that are not UTF-8 and U+0000, which rows cannot hold, become U+FFFD. Raises
    `ProjectError` if the file cannot be read.
    """
    try:
        data, _ = read_file(str(path), LARGEST_FILE)
    except FileNotFoundError:
        return []
    except OSError as error:
        text = f'"{path.name}" cannot be read: {reason(error)}'
        raise ProjectError(text, "move it elsewhere, or make it readable") from error
    text = data.decode("utf-8", "replace").replace("\0", "\ufffd")
    return [piece.removesuffix("\n") for piece in _ENTRY_START.split(text) if piece]


def take_in(database: "Database", folder: Path) -> int:
    """Turn the entries of the files in a folder into rows, if there are none; return their number.

    The caller is in a transaction of `database.writing`. The files remain. Raises `ProjectError` as
    `entries_of` does.
    """
    if database.row(f"SELECT 1 FROM {KEPT} LIMIT 1") is not None:
        return 0
    found = {file: entries_of(folder / file) for file in STATE_FILES}
    for file, entries in found.items():
        database.change(_ADD_ENTRIES, [file, entries])
    return sum(map(len, found.values()))


def take_in_others(database: "Database", folder: Path) -> int:
    """Turn file entries that are not rows yet into rows; return their number.

    These come from another machine, whose files were missing when the others became rows. The
    caller is in a transaction as for `take_in`.
    """
    added = 0
    for file in STATE_FILES:
        entries = entries_of(folder / file)
        left = _others(database, file, entries)
        found = []
        for entry in entries:
            if left[entry]:
                left[entry] -= 1
                found.append(entry)
        database.change(_ADD_ENTRIES, [file, found])
        added += len(found)
    return added


def move_in(database: "Database", folder: Path) -> tuple[int, tuple[str, ...]]:
    """Turn entries into rows as `take_in` does; return their number, and messages."""
    names = " and ".join(STATE_FILES)
    found = {file: entries_of(folder / file) for file in STATE_FILES}
    if database.row("SELECT to_regclass(?) IS NOT NULL", [KEPT]) != (1,):
        told = f"left out: {names}; without a ledger they remain files"
        return 0, (told,) * any(found.values())
    if not any(_others(database, file, entries) for file, entries in found.items()):
        return 0, ()
    added = take_in(database, folder)
    if not added:
        return 0, (f"left out: {names}; the database already has such entries",)
    return added, (f"moved the entries of {names} into the database; the files are no longer read",)


def give_back(database: "Database", folder: Path) -> None:
    """Add the entries that are rows to the files in a folder, unless these have them already.

    The caller is in a transaction. Raises `ProjectError` and `ToolError` if a file cannot be read
    or written.
    """
    for file in STATE_FILES:
        known = Counter(entries_of(folder / file))
        for (entry,) in database.rows(_STORED_ENTRIES, [file]):
            if known[entry]:
                known[entry] -= 1
            else:
                write_entry(str(folder / file), entry)


def _others(database: "Database", file: str, entries: Sequence[str]) -> Counter[str]:
    """Return the entries of a file that are not rows."""
    return Counter(entries) - Counter(entry for (entry,) in database.rows(_STORED_ENTRIES, [file]))


FOLDER = ".ralph"  # the folder of the state files
VERSION = 2
WITHOUT_ENTRIES = 0
"""The version of a ledger that does not hold the state files as rows yet, but could."""
_SCHEMA, _ENTRIES_SCHEMA = (
    resources.files("ralphgen.ledger").joinpath(name).read_text(encoding="utf-8")
    for name in ("schema.sql", "entries.sql")
)
# SQLite cannot change the default of a column.
_SECOND_VERSION = f"""{_SCHEMA[_SCHEMA.index("CREATE TABLE ralphgen_questions") :]}
ALTER TABLE {EVIDENCE} ADD COLUMN run INTEGER;
ALTER TABLE ralphgen_sessions ADD COLUMN worker TEXT;
ALTER TABLE ralphgen_sessions ADD COLUMN estimated_usd REAL;
ALTER TABLE ralphgen_evidence ADD COLUMN worker TEXT;
ALTER TABLE {MARKER} DROP COLUMN version;
ALTER TABLE {MARKER} ADD COLUMN version INTEGER NOT NULL DEFAULT 2;
ALTER TABLE {MARKER} ADD COLUMN rows_imported TEXT;
ALTER TABLE {MARKER} ADD COLUMN rows_exported TEXT;
ALTER TABLE {MARKER} ADD COLUMN rows_skipped TEXT;
"""
STEPS = {WITHOUT_ENTRIES: _ENTRIES_SCHEMA, 1: _SECOND_VERSION}
"""What brings the tables of a version to the next one, as SQL, by the version that it starts at."""

_COLUMN = re.compile("^    ([a-z_]+) +[A-Z]", re.MULTILINE)  # in the definition of a table
_TABLE = re.compile("^CREATE TABLE ([a-z_]+)", re.MULTILINE)
_INDEX = re.compile("^CREATE (?:UNIQUE )?INDEX ([a-z_]+)", re.MULTILINE)
_WITHOUT_RECORD = (
    "ended < ? AND id NOT IN (SELECT session FROM ralphgen_journal WHERE session IS NOT NULL "
    "UNION SELECT session FROM ralphgen_evidence WHERE session IS NOT NULL)"
)
# A session is kept or deleted completely: undoing half of one would leave its rows in a state that
# never existed. Later sessions that wrote its rows are kept too: without their entries, an undo
# would mistake their values for its own.
_WHOLLY_OLD = """
time < ? AND (session IS NULL OR session NOT IN (
    WITH RECURSIVE kept (session) AS (
        SELECT session FROM ralphgen_journal WHERE time >= ? AND session IS NOT NULL
        UNION
        SELECT later.session FROM kept JOIN ralphgen_journal AS own ON own.session = kept.session
        JOIN ralphgen_journal AS later ON later.table_name = own.table_name
            AND later.row_key = own.row_key AND later.number > own.number
        WHERE own.row_key <> '' AND later.session IS NOT NULL
    )
    SELECT session FROM kept
))
"""
_PRUNED = (
    ("ralphgen_journal", _WHOLLY_OLD),
    ("ralphgen_evidence", f"started < ? AND check_name <> '{BASELINE}'"),  # not accepted yet
    ("ralphgen_questions", "answered < ?"),
    ("ralphgen_merges", "ended < ?"),
    ("ralphgen_runs", "ended < ?"),
    ("ralphgen_reviews", "time < ?"),
    ("ralphgen_sessions", _WITHOUT_RECORD),
)


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The ledger in a database: its version, None without one, and the number of rows by table."""

    version: int | None
    rows: dict[str, int]


def definition(catalog: "Catalog | None" = None) -> str:
    """Return the SQL that makes the tables, as an engine takes it; without one, as SQLite does."""
    if catalog is None or not catalog.KEEPS_ENTRIES:
        return _SCHEMA
    return catalog.defined(f"{_SCHEMA}\n{_ENTRIES_SCHEMA}")


def statements(sql: str) -> list[str]:
    """Return the statements in a text of SQL, each of which ends a line."""
    return [part for part in sql.split(";\n") if part.strip()]


def read_state(root: Path) -> LedgerState:
    """Return the state of the ledger in the database of the project in `root`.

    A worker has none. Raises `ProjectError` for a ledger that is incomplete or of a later version.
    """
    if is_detached():
        return LedgerState(None, {})
    with open_database(root) as connection:
        return state_of(connection)


def add_tables(root: Path) -> bool:
    """Add the tables to the database of the project in `root`; return whether it had none.

    If the engine stores the triggers of the journal, missing ones are created too. If it keeps
    entries as rows, the entries of the state files become rows.

    Raises `ProjectError` if the tables cannot be added, or if other tables have their names.
    """
    with opened_database(root) as database:

        def work() -> bool:
            is_new = state_of(database).version is None
            if is_new:
                for statement in statements(definition(database.catalog)):
                    database.change(statement)
                database.change("INSERT INTO ralphgen_ledger (created) VALUES (?)", (now(),))
            database.watch()
            if is_new and database.catalog.KEEPS_ENTRIES:
                take_in(database, project_home(root) / FOLDER)
            return is_new

        return database.writing(work)


def make_triggers(root: Path) -> bool:
    """Create missing triggers of the journal if the engine stores them; return whether any was.

    Raises `ProjectError` if that fails.
    """
    with opened_database(root) as database:
        return database.writing(database.watch)


def remove_tables(root: Path) -> None:
    """Remove the tables with their contents; raise `ProjectError` if the database refuses.

    Entries of state files that are rows are written to the files.
    """
    with opened_database(root) as database:

        def work() -> None:
            names = _own_tables(database)
            if KEPT in names:
                give_back(database, project_home(root) / FOLDER)
            database.unwatch()
            for name in names:
                database.change(f"DROP TABLE {name}")

        # To drop a table is to delete its rows, and would take rows of the app that refer to them.
        database.ignore_keys()
        database.has_tasks = False  # to drop a trigger alters its table
        database.writing(work)


def upgrade_tables(root: Path) -> tuple[int, int]:
    """Upgrade the tables to this version in one transaction; return the old and the new version.

    If this version keeps entries as rows, the entries of the state files become rows.

    Raises `ProjectError` if there are no tables, or if they are of a later version.
    """
    with opened_database(root) as database:

        def work() -> tuple[int, int]:
            begun = state_of(database).version
            if begun is None:
                raise no_ledger()
            for version in range(begun, VERSION):
                for statement in statements(database.catalog.defined(STEPS[version])):
                    database.change(statement)
            database.watch()
            if begun == WITHOUT_ENTRIES:
                take_in(database, project_home(root) / FOLDER)
            _add_indexes(database)
            return begun, VERSION

        return database.writing(work)


def add_indexes(root: Path) -> int:
    """Make the indexes that tables of this version lack, as those made earlier; return how many."""
    with opened_database(root) as database:
        return database.writing(lambda: _add_indexes(database))


def take_in_entries(root: Path) -> int:
    """Turn entries of this machine's state files that are not rows into rows; return their number.

    If the engine keeps no entries as rows, nothing is done. Raises `ProjectError` if a file or the
    database cannot be read.
    """
    with opened_database(root) as database:
        if not database.catalog.KEEPS_ENTRIES:
            return 0
        return database.writing(lambda: take_in_others(database, project_home(root) / FOLDER))


def prune(root: Path, before: str) -> dict[str, int]:
    """Delete rows older than a time (ISO 8601, UTC); return the number of deleted rows by table.

    The entries of a session are deleted together when the last one is older, unless a session that
    remains wrote one of these rows before. Sessions are deleted if they ended before that time and
    have neither journal nor evidence left. Raises `ProjectError` if there is no ledger.
    """
    with opened_database(root) as database:

        def work() -> dict[str, int]:
            if state_of(database).version is None:
                raise no_ledger()
            return {
                table: database.change(
                    f"DELETE FROM {table} WHERE {condition}", [before] * condition.count("?")
                )
                for table, condition in _PRUNED
            }

        return database.writing(work)


def no_ledger() -> ProjectError:
    """Return the error of a project whose database has no ledger."""
    return ProjectError("the database has no ledger", 'add it with "ralphgen db ledger on"')


def now() -> str:
    """Return the current time in the format of the tables."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def state_of(connection: Snapshot) -> LedgerState:
    """Return the ledger in a database; raises `ProjectError` as `read_state` does."""
    names = _own_tables(connection)
    version = None
    if MARKER in names:
        columns = {column["name"]: column for column in connection.tables()[MARKER]}
        text = str(columns["version"]["default"]) if "version" in columns else ""
        version = int(text) if text.isdecimal() else None
    missing = {*_defined(connection)} - {*names}
    if version == 1 and KEPT in missing:
        version = WITHOUT_ENTRIES
    _refuse_foreign(names, version, missing)
    if version == VERSION and (
        lacking := sorted(_defined_columns(connection) - _columns(connection))
    ):
        raise _not_whole([f"{table} without {column}" for table, column in lacking])
    counts = {
        name: connection.rows(f'SELECT count(*) FROM "{name}"')[0][0]
        for name in names
        if version is not None
    }
    return LedgerState(version, counts)


def _add_indexes(database: "Database") -> int:
    """Make the indexes that a database lacks, in a transaction that is open; return how many."""
    found = {name for (name,) in database.rows(database.catalog.INDEX_NAMES)}
    lacking = [
        statement
        for statement in statements(definition(database.catalog))
        if (name := _INDEX.search(statement)) and name[1] not in found
    ]
    for statement in lacking:
        database.change(statement)
    return len(lacking)


def _defined(connection: Snapshot) -> dict[str, str]:
    """Return the tables defined for an engine, with the columns of each as SQL."""
    sql = f"{_SCHEMA}{_ENTRIES_SCHEMA}" if connection.catalog.KEEPS_ENTRIES else _SCHEMA
    parts = (part.partition(" ") for part in sql.split("CREATE TABLE ")[1:])
    return {table: columns for table, _, columns in parts}


def _own_tables(connection: Snapshot) -> list[str]:
    """Return the ledger's tables in a database; letter case is ignored, as in SQL."""
    defined = _defined(connection)
    found = {name.lower() for name in table_names(connection)}
    return sorted(name for name in defined if name in found)


def _refuse_foreign(names: list[str], version: int | None, missing: Collection[str]) -> None:
    """Raise `ProjectError` for tables that are not a complete ledger of a supported version."""
    if version is not None and version > VERSION:
        raise ProjectError(
            f"the ledger has version {version}, but this ralphgen supports versions up "
            f"to {VERSION}",
            "upgrade ralphgen",
        )
    steps = (sql for start, sql in STEPS.items() if version is not None and start >= version)
    later = {table for sql in steps for table in _TABLE.findall(sql)}
    if names and (version is None or {*missing} - later):
        raise _not_whole(names)


def _not_whole(found: list[str]) -> ProjectError:
    shown = one_line(", ".join(found))[:200]
    return ProjectError(
        f"the ledger in the database is incomplete: {shown}",
        "drop its tables, or restore the database from a backup",
    )


def _columns(connection: Snapshot) -> set[tuple[str, str]]:
    """Return the columns of all tables, as table and column in lower case."""
    found = connection.rows(connection.catalog.LEDGER_COLUMNS)
    return {(table.lower(), column.lower()) for table, column in found}


def _defined_columns(connection: Snapshot) -> set[tuple[str, str]]:
    """Return the columns that the definition makes for an engine, as table and column."""
    return {
        (table, column)
        for table, text in _defined(connection).items()
        for column in _COLUMN.findall(text)
    }
