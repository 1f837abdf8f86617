"""The rules on tasks, as functions on a database: no session, and no protocol.

This module has the project's tables, finds rows in them, converts their values to and from JSON,
and collects the changes of a call to one row. Some columns hold lists as text; paths in them are
normalised.
"""

from __future__ import annotations

import time

from ..encoding import JsonReader, write_json
from ..engine import quoted
from ..errors import ToolError
from ..policy import FULL
from ..system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from ..engine import Database, Snapshot
    from ..session import Session

    Actor: TypeAlias = "Session | Ralphgen"  # works on tasks

TEXT = "text"
INTEGER = "integer"
REAL = "real"
NUMERIC = "numeric"  # a number, or other text, such as a date
STRINGS = "strings"  # a JSON list of strings, as text
PATHS = "paths"  # a JSON list of paths relative to the project, as text
INTEGERS = "integers"  # a JSON list of integers, as text
OBJECTS = "objects"  # a JSON list of objects, as text
DISCIPLINE = "discipline"  # the name of a discipline, or nothing
LISTED = 20  # names in a refusal
CHUNK = 500  # ids in one statement
LIMIT = 2**63  # of the ids that SQLite can hold
DATABASE = ".ralph/db/ralph.db"


class StoredTable:
    """One table: its name, its columns, and their argument names.

    `columns` maps each column to one of the kinds above, in schema order. `arguments` maps a column
    to its argument if the column name is not a valid one. `added` are columns that are not in
    SPEC-070: lists show them too.
    """

    __slots__ = ("_columns", "_fields", "_lists", "added", "columns", "name", "quoted")

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],
        *,
        added: Sequence[str] = (),
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.quoted = quoted(name)
        self._lists: dict[tuple[str, ...], str] = {}  # of quoted columns, as statements have them
        self.columns = columns
        self.added = added
        self._fields = {column: (arguments or {}).get(column, column) for column in columns}
        self._columns = {field: column for column, field in self._fields.items()}

    def __contains__(self, column: str) -> bool:
        """Return whether the project's table has this column."""
        return column in self.columns

    def available_columns(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that the table has, in the given order."""
        return [column for column in columns if column in self.columns]

    def select(self, columns: Sequence[str], rest: str = "") -> str:
        """Return a SELECT of the columns; `rest` is trusted SQL (WHERE, ORDER BY)."""
        key = tuple(columns)
        names = self._lists.get(key)
        if names is None:
            names = self._lists[key] = ", ".join(map(quoted, columns))
        return f"SELECT {names} FROM {self.quoted} {rest}"

    def decoded(self, columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
        """Return a row as JSON without empty fields; unreadable lists are shown as stored."""
        record: dict[str, Any] = {}
        unreadable: dict[str, str] = {}
        for column, value in zip(columns, row, strict=True):
            decode = DECODERS.get(self.columns[column])
            if decode is None:
                record[self._fields[column]] = plain(value)
                continue
            found = decode(value)
            if not found.readable:
                unreadable[self._fields[column]] = plain(value)
            record[self._fields[column]] = found.values
        record = {field: value for field, value in record.items() if value not in (None, [], "")}
        return {**record, "unreadable": unreadable} if unreadable else record

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to store, by column; ignores arguments that are not columns."""
        return {
            self._columns[field]: self.stored(self._columns[field], value)
            for field, value in arguments.items()
            if field in self._columns
        }

    def stored(self, column: str, value: Any) -> Any:
        """Return a value as the column stores it: a list becomes JSON text."""
        return encode(value) if self.columns[column] in DECODERS else value

    def cleared(self, fields: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the empty values by column; raises `ToolError` for a field that is also set."""
        both = [field for field in fields if field in arguments]
        if both:
            raise ToolError(f'"{both[0]}" is both set and named in "clear": use only one')

        columns = [self._columns[field] for field in fields]
        return {column: EMPTY if self.columns[column] in DECODERS else None for column in columns}

    def paths(self) -> list[str]:
        """Return the columns that hold lists of paths."""
        return [column for column, kind in self.columns.items() if kind == PATHS]

    def field(self, column: str) -> str:
        """Return the argument name of a column."""
        return self._fields[column]

    def insert(self, database: Database, values: Mapping[str, Any]) -> int:
        """Add a row, ignoring values without a column; return its number."""
        columns = self.available_columns(values)
        names = ", ".join(quoted(column) for column in columns)
        marks = ", ".join("?" * len(columns))
        number = database.sql.returning("id") if "id" in self else ""
        given = database.sql.GIVEN_NUMBER if "id" in columns else ""
        sql = f"INSERT INTO {self.quoted} ({names}){given} VALUES ({marks}){number}"
        stored = [self._storable(column, values[column]) for column in columns]
        return database.insert(sql, stored)

    def update(
        self, database: Database, key: str, identity: object, values: Mapping[str, Any]
    ) -> None:
        """Update the row whose `key` column is `identity`, ignoring values without a column."""
        columns = self.available_columns(values)
        settings = ", ".join(f"{quoted(column)} = ?" for column in columns)
        sql = f"UPDATE {self.quoted} SET {settings} WHERE {quoted(key)} = ?"
        stored = [self._storable(column, values[column]) for column in columns]
        database.change(sql, [*stored, identity])

    def _storable(self, column: str, value: Any) -> Any:
        """Return the value; raises `ToolError` for text that SQLite's own functions would cut."""
        if isinstance(value, str) and "\0" in value:
            raise ToolError(
                f'"{self._fields[column]}" contains the character U+0000, which the database '
                "cannot store: remove it"
            )
        return value


class Tables:
    """The tables that the project has; `comments` and `metadata` may be missing.

    `first_status` is the default status of a new task. `ledger` is whether ralphgen's tables exist,
    `takes_reason` whether the reason for a blocked task can be stored, and `may_block` whether
    tasks can be blocked. `database` is the path of the file, relative to the project.
    """

    def __init__(
        self,
        *,
        tasks: StoredTable,
        features: StoredTable,
        disciplines: StoredTable,
        comments: StoredTable | None = None,
        metadata: StoredTable | None = None,
        first_status: str,
        ledger: bool = False,
        takes_reason: bool = True,
        may_block: bool = True,
        database: str = DATABASE,
    ) -> None:
        self.database = database
        self.first_status = first_status
        self.ledger = ledger
        self.takes_reason = takes_reason
        self.may_block = may_block
        self.tasks = tasks
        self.features = features
        self.disciplines = disciplines
        self.comments = comments
        self.metadata = metadata


def refuse_unknown(database: Snapshot, table: StoredTable, name: str, argument: str) -> None:
    """Raise `ToolError`, with the nearest name, if no row of the table has this name."""
    if database.row(table.select(["name"], f"WHERE {database.sql.SAME_NAME}"), [name]):
        return
    from ..values import nearest, shortened  # refusals alone need this module

    names = row_names(database, table)
    near = nearest(name, names)
    hint = f": did you mean {shortened(near)}?" if near else _name_list(names)
    raise ToolError(f"there is no {argument} {shortened(name)}{hint}")


def _name_list(names: list[str]) -> str:
    if not names:
        return ": there is none yet"
    from ..values import shortened

    shown = ", ".join(shortened(name) for name in names[:LISTED])
    there = "there is only" if len(names) == 1 else "there are"
    return f": {there} {shown}" + (f" and {len(names) - LISTED} more" if names[LISTED:] else "")


def row_names(database: Snapshot, table: StoredTable) -> list[str]:
    """Return the names of a table's rows that are text, sorted."""
    rows = database.rows(table.select(["name"], f"ORDER BY {database.sql.ordered('name')}"))
    return [row[0] for row in rows if isinstance(row[0], str)]


def task_row(
    database: Snapshot, tables: Tables, task: int, columns: Sequence[str]
) -> tuple[Any, ...]:
    """Return these columns of a task; raises `ToolError` if there is no such task."""
    row = database.row(tables.tasks.select(columns, "WHERE id = ?"), [task])
    if row is None:
        from ..values import shortened

        raise ToolError(f"there is no task {shortened(task)}")
    return row


STATUSES = ("draft", "pending", "in_progress", "done", "blocked", "skipped")
LONGEST_PATH = 1_000  # characters

_HIDDEN = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_URL = "[A-Za-z][A-Za-z0-9+.-]+://"
_DRIVE = "[A-Za-z]:"
_LOCK_FILES = frozenset(
    {"bun.lockb", "go.sum", "gradle.lockfile", "npm-shrinkwrap.json", "package-lock.json"}
    | {"packages.lock.json", "pnpm-lock.yaml"}
)
_NOISE_ENDINGS = (".lock", ".min.js", ".min.css", ".map", ".pyc", ".class", ".o")
_NOISE_FOLDERS = frozenset(
    {".cache", ".dart_tool", ".git", ".gradle", ".mypy_cache", ".next", ".nuxt", ".pytest_cache"}
    | {".ruff_cache", ".svelte-kit", ".tox", ".turbo", ".venv", "__pycache__", "build"}
    | {"coverage", "deriveddata", "dist", "node_modules", "out", "target", "venv"}
)


class Changes:
    """The values to store in one row, by column, with warnings about them.

    `values` starts with the arguments that are columns, without the `key`, and None for the fields
    in `clear`. Raises `ToolError` if a path is invalid, or if a field is both set and cleared.
    """

    __slots__ = ("_work_tree", "table", "values", "warnings")

    def __init__(
        self, work_tree: str, table: StoredTable, arguments: Mapping[str, Any], key: str = ""
    ) -> None:
        self._work_tree = work_tree
        self.table = table
        self.warnings: list[str] = []
        given = {name: value for name, value in arguments.items() if name != key}
        self.values = table.values({**given, **self._checked_paths(given)})
        self.values.update(table.cleared(arguments.get("clear", ()), arguments))

    def apply(
        self, database: Database, key: str, identity: object, stamps: Mapping[str, Any]
    ) -> list[str]:
        """Store the values and stamps; return the changed fields, sorted.

        Raises `ToolError` if there are no values.
        """
        if not self.values:
            raise ToolError("nothing to change: give at least one field")
        columns = list(self.values)
        sql = self.table.select(columns, f'WHERE "{key}" = ?')
        before = database.row(sql, [identity]) or ()
        old = dict(zip(columns, before, strict=True))
        changed = {column for column in columns if old[column] != self.values[column]}
        if changed:
            values = {column: self.values[column] for column in columns if column in changed}
            self.table.update(database, key, identity, {**values, **stamps})
        return sorted(self.table.field(column) for column in changed)

    def answer(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the facts of an answer, with the warnings if there are any."""
        return {**facts, "warnings": self.warnings} if self.warnings else facts

    def _checked_paths(self, given: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the path lists among the arguments, in normal form and without repeats."""
        checked: dict[str, list[str]] = {}
        for column in self.table.paths():
            argument = self.table.field(column)
            if argument not in given:
                continue
            paths = [checked_path(path, argument) for path in given[argument]]
            checked[argument] = list(dict.fromkeys(paths))
            if argument != "output_artifacts":
                for path in checked[argument]:
                    self.warnings.extend(path_warnings(self._work_tree, path))
        return checked


def refuse_changed(database: Database, tables: Tables, read: Mapping[str, Any]) -> None:
    """Raise `ToolError` if a row was changed since it was read; lock it for the transaction.

    `read` is the `as_read` of a session. Ignores a missing row: the tool reports it.
    """
    kind, key, columns = read["kind"], read["key"], read["columns"]
    table = {"task": tables.tasks, "feature": tables.features}.get(kind, tables.disciplines)
    column = "id" if kind == "task" else "name"
    where = f"WHERE {column} = ?{database.sql.ROW_LOCK}"
    row = database.row(table.select([*columns], where), [key])
    if row is not None and [*map(plain, row)] != [*columns.values()]:
        from ..values import shortened

        named = f"task {key}" if kind == "task" else f"the {kind} {shortened(key)}"
        raise ToolError(f"{named} was changed since it was read: nothing was changed")


def refuse_blank(arguments: Mapping[str, Any], *names: str) -> None:
    """Raise `ToolError` if one of these arguments is blank."""
    for name in names:
        if name in arguments and not arguments[name].strip():
            raise ToolError(f'"{name}" must not be blank')


def checked_path(path: str, argument: str) -> str:
    """Return a normalised path; raises `ToolError` if it is invalid."""
    problem = path_problem(path)
    if problem:
        raise ToolError(f'"{argument}": {problem}')
    return normalise(path)


def path_warnings(work_tree: str, path: str) -> list[str]:
    """Return warnings about a valid path."""
    from ..values import shortened

    if is_noise(path):
        return [f"{shortened(path)} looks like a lock file or build output, which helps no reader"]
    if not os.path.exists(os.path.join(work_tree, path)):
        return [f"{shortened(path)} does not exist in the project"]
    return []


def path_problem(path: str) -> str | None:
    """Return one sentence on why a path is invalid, or `None`.

    A path is relative to the project, with "/" between its parts, and stays inside; "a..b.ts" is
    an ordinary name. It need not exist.
    """
    if not path.strip():
        return "a path must not be blank"
    if len(path) > LONGEST_PATH:
        return f"a path of {len(path)} characters is too long: {LONGEST_PATH} is the most"
    # Both forms: "./~/x" is stored as "~/x".
    what = _what_is_wrong(path) or _what_is_wrong(normalise(path))
    import json
    import re

    shown = json.dumps(path, ensure_ascii=re.search(_HIDDEN, path) is not None)
    return f"the path {shown} {what}" if what else None


def normalise(path: str) -> str:
    """Return a path in its stored form: without ".", empty parts or a "/" at the end."""
    return "/".join(part for part in path.split("/") if part not in {"", "."})


def is_noise(path: str) -> bool:
    """Return whether a path is a lock file, a dependency or build output."""
    *folders, name = normalise(path).lower().split("/")
    return (
        name in _LOCK_FILES
        or name.endswith(_NOISE_ENDINGS)
        or not _NOISE_FOLDERS.isdisjoint([*folders, name])
    )


def _what_is_wrong(path: str) -> str | None:
    """Return why a path is invalid, or `None`."""
    import re

    checks = (
        (re.search(_HIDDEN, path), "holds a control character"),
        (path != path.strip(), "begins or ends with a space"),
        (re.match(_URL, path), "is a URL: give the path of a file in the project"),
        (re.match(_DRIVE, path), "begins with a drive: give it relative to the project"),
        ("\\" in path, 'holds "\\": write "/" between its parts'),
        (path.startswith("/"), "is absolute: give it relative to the project"),
        (path.startswith("~"), 'begins with "~": give it relative to the project'),
        (".." in path.split("/"), 'has ".." as a part: it must stay inside the project'),
        (not normalise(path), "is the project itself: name a file in it"),
    )
    return next((what for wrong, what in checks if wrong), None)


def today() -> str:
    """Return the date in UTC, as tasks, features and metadata store it: 2026-02-10."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def now() -> str:
    """Return the moment in UTC, as comments and recipes store it: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def now_offset() -> str:
    """Return the moment in UTC, as learnings store it: 2026-02-10T17:56:00+00:00."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


# Warnings about a stored list that was not plain JSON of the right shape.
ESCAPED = "stored with escaped quotes, read leniently"
RAW = "stored with raw control characters, read leniently"
SEPARATED = "read as a ;-separated list"
NULL = "stored as null, read as an empty list"
NUMBERS = "numbers in a list of texts, read as text"
TEXTS = "integers stored in another form, read as integers"
UNREADABLE = "cannot be read as a list"
EMPTY = "[]"
_JSON_STARTS = ("[", "{", '"')
_INTEGER = "[+-]?[0-9]{1,18}"
_WHOLE_FLOATS = 2**53  # above it, a float cannot represent every integer
_INFINITY = float("inf")
# Patterns are compiled at their first use: a server starts without them.
_LONE_SURROGATE = "[\ud800-\udfff]"


class Decoded:
    """The items of a stored list.

    `warning` is why the text was not plain JSON of the right shape, or None. If `readable` is
    false, `values` is empty and the text must not be overwritten.
    """

    __slots__ = ("readable", "values", "warning")

    def __init__(
        self, values: list[Any], warning: str | None = None, *, readable: bool = True
    ) -> None:
        self.values = values
        self.warning = warning
        self.readable = readable


def decode_strings(stored: object) -> Decoded:
    """Return the texts of a stored list; integers among them become text, with a warning.

    `stored` is the value of the column: NULL and blank text are the empty list. Older servers left
    lists with escaped quotes and lists separated by semicolons: both are read, with a warning.
    """
    return _converted(decode_list(stored, plain=True), _string, NUMBERS)


def decode_integers(stored: object) -> Decoded:
    """Return the integers of a stored list; "7" and 7.0 are read as 7, with a warning."""
    return _converted(decode_list(stored, plain=True), _integer, TEXTS)


def decode_objects(stored: object) -> Decoded:
    """Return the objects of a stored list; with anything else among them it is unreadable."""
    return _converted(decode_list(stored), _object, "")


# The kinds of lists, with the functions that read them.
DECODERS = {
    STRINGS: decode_strings,
    PATHS: decode_strings,
    INTEGERS: decode_integers,
    OBJECTS: decode_objects,
}


def decode_list(stored: object, *, plain: bool = False) -> Decoded:
    """Return the items of a stored list, of any JSON type.

    `plain` allows text that does not look like JSON: it is split at its semicolons.
    """
    text = "" if stored is None else stored
    if not isinstance(text, str):
        return unreadable()
    text = text.strip()
    if text in ("", EMPTY):
        return Decoded([])
    for candidate, warning in _candidates(text):
        value = _parsed(candidate, strict=warning is None)
        if isinstance(value, list):
            return Decoded(value, warning)
    if text == "null":
        return Decoded([], NULL)
    if plain and not text.lstrip("\ufeff").startswith(_JSON_STARTS):
        items = [item.strip() for item in text.split(";")]
        return Decoded([item for item in items if item], SEPARATED)
    return unreadable()


def unreadable() -> Decoded:
    """Return the result for text that is not a list."""
    return Decoded([], UNREADABLE, readable=False)


def encode(values: Sequence[Any]) -> str:
    """Return a list as compact JSON text as Ralph itself writes it: no spaces, no ASCII escapes.

    Half a surrogate pair, which SQLite cannot store, is escaped. Raises `ValueError` for NaN and
    infinity, which JSON does not have.
    """
    import re

    text = write_json(list(values))
    return re.sub(_LONE_SURROGATE, lambda half: f"\\u{ord(half[0]):04x}", text)


def joined(*warnings: str | None) -> str | None:
    """Join warnings into one, or return `None` if there are none."""
    return "; ".join(warning for warning in warnings if warning) or None


def _candidates(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the texts that may be the JSON that was meant, each with its warning."""
    yield text, None
    yield text, RAW
    if '\\"' in text:
        whole = _parsed(f'"{text}"', strict=False)  # the JSON was escaped twice
        if isinstance(whole, str):
            yield whole, ESCAPED
        yield text.replace('\\"', '"'), ESCAPED


def _parsed(text: str, *, strict: bool) -> object:
    """Return the JSON value, or `None` if it is invalid or would not survive a round trip."""
    try:
        value: object = (_STRICT if strict else _LENIENT).read(text)
    except (ValueError, RecursionError):
        return None
    return value


def _refused(word: str) -> None:
    raise ValueError(f'"{word}" is not valid JSON')


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == _INFINITY:
        raise ValueError(f'"{digits}" is too large')
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raises `ValueError` if it has a duplicate key: one would be lost."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return members


_STRICT = JsonReader(_distinct, _refused, real=_finite)
_LENIENT = JsonReader(_distinct, _refused, real=_finite, strict=False)


def _converted(found: Decoded, convert: Callable[[Any], object], warning: str) -> Decoded:
    """Return the converted items, with a warning if one changed; or an unreadable list."""
    if not found.values:
        return found
    items = [convert(item) for item in found.values]
    if not found.readable or any(item is None for item in items):
        return unreadable()
    changed = any(type(old) is not type(new) for old, new in zip(found.values, items, strict=True))
    separated = found.warning == SEPARATED
    return Decoded(items, joined(found.warning, warning if changed and not separated else None))


def _string(item: object) -> str | None:
    if isinstance(item, str):
        return item
    return str(item) if isinstance(item, int) and not isinstance(item, bool) else None


def _integer(item: object) -> int | None:
    if isinstance(item, str):
        import re

        return int(item) if re.fullmatch(_INTEGER, item.strip()) else None
    if isinstance(item, float):
        return int(item) if item.is_integer() and abs(item) <= _WHOLE_FLOATS else None
    return item if isinstance(item, int) and not isinstance(item, bool) else None


def _object(item: object) -> dict[str, Any] | None:
    return item if isinstance(item, dict) else None


def plain(value: Any) -> Any:
    """Return a stored value as JSON: infinity and NaN, and blobs of old tables, as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if not isinstance(value, float) or abs(value) < _INFINITY else str(value)


class Ralphgen:
    """The actor ralphgen, for a session whose task it claims or releases."""

    __slots__ = ("session_id",)
    recipe = "ralphgen"  # signs the comments
    discipline = task = claim = worker = None
    is_users = is_typed = False
    profile = FULL  # any evidence counts

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


def needed_tasks(stored: object) -> list[int] | None:
    """Return the ids in a stored `depends_on`, None if it is unreadable."""
    if stored is None or stored == "[]":
        return []
    found = decode_integers(stored)
    return list(found.values) if found.readable else None


def prerequisites(stored: object) -> list[int]:
    """Return the ids in a stored `depends_on`, none if it is unreadable."""
    return list(decode_integers(stored).values)


def rows_by_id(
    database: Snapshot, tables: Tables, ids: Iterable[int], columns: Sequence[str]
) -> dict[int, Any]:
    """Return the columns of the existing tasks among `ids`; one statement for 500 ids."""
    tasks = tables.tasks
    wanted = sorted({task for task in ids if -LIMIT <= task < LIMIT})
    rows: dict[int, Any] = {}
    for at in range(0, len(wanted), CHUNK):
        part = wanted[at : at + CHUNK]
        marks = ", ".join("?" * len(part))
        sql = tasks.select(["id", *columns], f"WHERE id IN ({marks})")
        rows.update({row[0]: row[1:] for row in database.rows(sql, part)})
    return rows
