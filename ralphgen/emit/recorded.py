"""Creates the database of a committed server in a clone that has none."""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.ledger.tables import definition, now, statements
from ralphgen.project.disciplines import KEY, LIST_COLUMN, REMOVALS_COLUMN
from ralphgen.project.inspect import FACTS
from ralphgen.project.schema import (
    COLLATE,
    CREATED,
    FOREIGN_KEY,
    GENERATED,
    VIEW,
    Definitions,
    Facts,
    read_definitions,
    recorded_parts,
)
from ralphgen.runtime.engine import TABLES, differences, fold
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.engine.sqlite.schema import read_tables

# Files and folders of migrations, in apps that own the schema.
MIGRATIONS = (
    "alembic.ini",
    "database/migrations",
    "db/migrate",
    "db/migrations",
    "drizzle.config.js",
    "drizzle.config.ts",
    "knexfile.js",
    "knexfile.ts",
    "manage.py",
    "migrations",
    "prisma/schema.prisma",
    "priv/repo/migrations",
    "src-tauri/migrations",
    "supabase/migrations",
)
_INSERT = "INSERT INTO TABLE (NAMES) VALUES (MARKS)"
_OVERRIDE = "UPDATE disciplines SET COLUMN = ? WHERE name = ?"
_REFERENCE = re.compile(r"(.+)\((.+)\)", re.DOTALL)
# The declared type of a column that is recorded with this type, if they differ. A column of type
# NUMERIC would be read as decimal numbers.
_DECLARED = {"ANY": "", "NUMERIC": "DATE"}


def default_schema() -> str:
    """Return the SQL of the default tables of a project."""
    return resources.files("ralphgen.emit").joinpath("schema.sql").read_text(encoding="utf-8")


def read_committed(root: Path) -> Mapping[str, Any]:
    """Return the facts of the committed server in `root`.

    Raises `ProjectError` for invalid facts, and if named queries read tables of which only the read
    columns are recorded.
    """
    try:
        facts = json.loads((root / FACTS).read_bytes())
        for columns in facts["schema"].values():
            for column in columns:
                _definition(column)
        for names in facts["disciplines"].values():
            json.dumps(sorted(names))
        set(recorded_kits(facts))
        recorded_parts(facts)
        known = {fold(table) for table in facts["schema"]}
        only_read = sorted(name for name in facts.get("queries", {}) if fold(name) not in known)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        text = f"{FACTS} cannot be read, and there is no database: {error}"
        raise ProjectError(text, f'restore {FACTS} from git, then run "ralphgen init"') from error
    if only_read:
        names = ", ".join(f'"{name}"' for name in only_read)
        text = f"{FACTS} has no full record of the tables that only named queries read: {names}"
        hint = "create the database with the migrations of the app, or copy an existing one"
        raise ProjectError(text, hint)
    found: Mapping[str, Any] = facts
    return found


def recorded_kits(facts: Mapping[str, Any]) -> Sequence[str]:
    """Return the kits that the facts of a committed server name; none before 0.2."""
    kits: Sequence[str] = facts.get("config", {}).get("kits", ())
    return kits


def migrations(root: Path) -> list[str]:
    """Return the files and folders with an app's own migrations."""
    return [path for path in MIGRATIONS if (root / path).exists()]


def make_tables(
    connection: sqlite3.Connection,
    facts: Facts,
    definitions: Definitions | None = None,
    *,
    has_tasks: bool = True,
) -> None:
    """Make the recorded tables in an empty database.

    A table has the recorded columns and its `definitions`, and a view is created from its
    definition. If the definitions were not recorded, by a ralphgen before 0.2, a table is the
    default one with the columns that were added to it. Raises `ProjectError` if the tables would
    differ from those of the server, or if no row could be written to them. Unless the project
    `has_tasks`, no name marks a table as one of ralphgen's.
    """
    own = TABLES if has_tasks else (MARKER,)
    known = _default_tables() if definitions is None and has_tasks else {}
    parts = definitions or {}
    views = {table for table, part in _pairs(parts) if part.startswith(VIEW)}
    tables = {table: columns for table, columns in facts.items() if table not in views}
    try:
        for table, columns in tables.items():
            if table == MARKER:
                connection.executescript(definition())
                connection.execute("INSERT INTO ralphgen_ledger (created) VALUES (?)", (now(),))
            else:
                default = known.get(table, ("", []))
                said = parts.get(table, ())
                _make_table(connection, table, columns, default, said, is_own=table not in own)
        _make_parents(connection, tables, is_known=definitions is not None)
        if definitions is None and has_tasks:
            _make_default_indexes(connection)
        for _, statement in sorted(_pairs(parts)):
            if statement.startswith((*CREATED, VIEW)):
                connection.execute(statement)
        _try_writing(connection, tables)
        found = read_tables(connection, [name for name in facts if name not in own], own=own)
    except sqlite3.Error as error:
        raise _unmade(str(error)) from error
    found.pop(MARKER, None)  # the ledger has the version of this ralphgen
    wanted_tables = {table: [*map(dict, facts[table])] for table in facts if table != MARKER}
    if different := differences(wanted_tables, found):
        raise _unmade("; ".join(different))
    if definitions is not None:
        wanted, made = _pairs(parts), _pairs(read_definitions(connection, found))
        if left := sorted(wanted ^ made):
            raise _unmade("; ".join(f'"{part}" of "{table}"' for table, part in left))


def _pairs(definitions: Definitions) -> set[tuple[str, str]]:
    return {(table, part) for table, parts in definitions.items() for part in parts}


def _make_default_indexes(connection: sqlite3.Connection) -> None:
    for statement in statements(default_schema()):
        with suppress(sqlite3.Error):  # an index of a table or a column that is not there
            if "CREATE INDEX" in statement:
                connection.execute(statement)


def _try_writing(connection: sqlite3.Connection, facts: Facts) -> None:
    """Raise `sqlite3.Error` if no row can be written: a trigger may need a table of the app."""
    for table in facts:
        for statement in ("INSERT INTO TABLE DEFAULT VALUES", "DELETE FROM TABLE"):
            connection.execute(f"EXPLAIN {statement.replace('TABLE', _quoted(table))}")


def _unmade(reason: str) -> ProjectError:
    text = f"the database recorded in {FACTS} cannot be created: {reason}"
    return ProjectError(text, "create it with the migrations of the app, or copy an existing one")


def _default_tables() -> dict[str, tuple[str, Sequence[Mapping[str, Any]]]]:
    """Return the tables of a new project by name, each as its SQL and its facts."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(default_schema())
        made = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
        return {name: (made[name], columns) for name, columns in read_tables(connection).items()}


def _make_table(
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[Mapping[str, Any]],
    default: tuple[str, Sequence[Mapping[str, Any]]],
    parts: Sequence[str],
    *,
    is_own: bool,
) -> None:
    sql, expected = default
    by_name = {column["name"]: column for column in columns}
    if sql and all(by_name.get(column["name"]) == column for column in expected):
        added = [column for column in columns if column not in expected]
        connection.execute("SAVEPOINT made")
        try:
            connection.execute(sql)
            for column in added:
                words = _definition(column)
                connection.execute(f"ALTER TABLE {_quoted(table)} ADD COLUMN {words}")
        except sqlite3.Error:
            connection.execute("ROLLBACK TO made")
        else:
            return
        finally:
            connection.execute("RELEASE made")
    key = sorted(
        (column for column in columns if column["primary_key"]),
        key=lambda column: int(column["primary_key"]),
    )
    items = [_definition(column, parts, is_own=is_own) for column in columns]
    if "AUTOINCREMENT" in parts:
        at = next((at for at, column in enumerate(columns) if column["primary_key"]), 0)
        items[at] += " PRIMARY KEY AUTOINCREMENT"
    elif key:
        items.append(f"PRIMARY KEY ({', '.join(_quoted(column['name']) for column in key)})")
    items += [part for part in parts if part.startswith(("UNIQUE ", "CHECK ", FOREIGN_KEY))]
    behind = [part for part in ("STRICT", "WITHOUT ROWID") if part in parts]
    if not behind and not is_own and any(column["type"] == "ANY" for column in columns):
        behind = ["STRICT"]
    sql = f"CREATE TABLE {_quoted(table)} ({', '.join(items)}) {', '.join(behind)}"
    connection.execute(sql)


def _make_parents(connection: sqlite3.Connection, facts: Facts, *, is_known: bool) -> None:
    """Create the targets of foreign keys, without which no row could be written.

    These are tables outside the server's schema, with the referenced columns only, and unique
    indexes on referenced columns of the server's tables, unless all indexes are recorded
    (`is_known`).
    """
    wanted: dict[str, set[str]] = {}
    for columns in facts.values():
        for column in columns:
            if found := _REFERENCE.fullmatch(column["references"] or ""):
                wanted.setdefault(found[1], set()).add(found[2])
    for table, names in sorted(wanted.items()):
        if table not in facts:
            keys = ", ".join(f"{_quoted(name)} UNIQUE" for name in sorted(names))
            connection.execute(f"CREATE TABLE IF NOT EXISTS {_quoted(table)} ({keys})")
            continue
        if is_known:
            continue
        key = [one["name"] for one in facts[table] if one["primary_key"]]
        for name in sorted(names - ({*key} if len(key) == 1 else set())):
            index = _quoted(f"{table}_by_{name}")
            connection.execute(f"CREATE UNIQUE INDEX {index} ON {_quoted(table)} ({_quoted(name)})")


def _definition(
    column: Mapping[str, Any], parts: Sequence[str] = (), *, is_own: bool = False
) -> str:
    """Return a column as SQL, without the primary key; raise ValueError for an invalid type.

    `parts` are the definitions of its table, and `is_own` is set for tables other than ralphgen's.
    A generated column without a recorded expression is always null.
    """
    kind = str(column["type"])
    if not re.fullmatch("[A-Z]+", kind):
        raise ValueError(f'invalid column type "{kind}"')
    name = _quoted(column["name"])
    words = [name, kind]
    if is_own and "STRICT" not in parts:
        words[1] = _DECLARED.get(kind, kind)
        if kind == "INTEGER" and column["primary_key"] and column["not_null"]:
            words[1] = "INT"  # INTEGER would make it the row number
    generated = [part for part in parts if part.startswith(f"{GENERATED}{name} ")]
    if generated:
        words.append(generated[0].removeprefix(f"{GENERATED}{name} "))
    elif column["generated"]:
        words.append(f"AS ({_filler(column) if column['not_null'] else 'NULL'})")
    elif column["default"] is not None:
        default = str(column["default"])  # double quotes are not an expression
        words.append(f"DEFAULT {default}" if default.startswith('"') else f"DEFAULT ({default})")
    if column["not_null"]:
        words.append("NOT NULL")
    if column["values"] is not None:
        allowed = ", ".join(_literal(value, kind) for value in column["values"])
        words.append(f"CHECK ({name} IN ({allowed}))")
    collated = (part for part in parts if part.startswith(f"{COLLATE}{name} "))
    words += [f"{COLLATE}{part.removeprefix(f'{COLLATE}{name} ')}" for part in collated]
    has_key = any(part.startswith(f"{FOREIGN_KEY}({name}) ") for part in parts)
    if (found := _REFERENCE.fullmatch(column["references"] or "")) and not has_key:
        words.append(f"REFERENCES {_quoted(found[1])} ({_quoted(found[2])})")
    return " ".join(words)


def _filler(column: Mapping[str, Any]) -> str:
    """Return a value, as SQL, that a column may hold."""
    value = column["values"][0] if column["values"] else "0"
    return _literal(value, column["type"])


def _literal(value: object, kind: str) -> str:
    text = str(value)
    if kind != "TEXT" and re.fullmatch("-?[0-9]+", text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def add_row(connection: sqlite3.Connection, table: str, values: Mapping[str, object]) -> None:
    """Add a row with the values for which a table has columns.

    Required columns without a value get a valid one; a missing table gets no row. Raises
    `sqlite3.Error` if the table rejects the row.
    """
    columns = read_tables(connection).get(table, [])
    row = {column["name"]: values.get(column["name"].lower()) for column in columns}
    for column in columns:
        name = column["name"]
        if row[name] is not None or column["generated"]:
            continue
        if column["not_null"] and column["default"] is None and not column["primary_key"]:
            (row[name],) = connection.execute(f"SELECT {_filler(column)}").fetchone()
    given = {name: value for name, value in row.items() if value is not None}
    if given:
        names = ", ".join(map(_quoted, given))
        marks = ", ".join("?" for _ in given)
        parts = {"TABLE": _quoted(table), "NAMES": names, "MARKS": marks}
        sql = re.sub("TABLE|NAMES|MARKS", lambda found: parts[found[0]], _INSERT)
        connection.execute(sql, [*given.values()])


def take_away(connection: sqlite3.Connection, disciplines: Mapping[str, Sequence[str]]) -> None:
    """Let disciplines remove the recorded tools; missing disciplines are added."""
    there = {fold(column["name"]) for column in read_tables(connection).get("disciplines", ())}
    column = (
        LIST_COLUMN if REMOVALS_COLUMN not in there and LIST_COLUMN in there else REMOVALS_COLUMN
    )
    sql = _OVERRIDE.replace("COLUMN", column)
    for name, tools in sorted(disciplines.items()):
        listed = sorted(tools)
        override = json.dumps({KEY: listed} if column == REMOVALS_COLUMN else listed)
        if not connection.execute(sql, (override, name)).rowcount:
            known = {"name": name, "display_name": name, "acronym": name, column: override}
            add_row(connection, "disciplines", known)
