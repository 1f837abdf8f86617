"""The changes that a call makes to a row, and the normal form of the paths in it."""

from __future__ import annotations

import time

from ..errors import ToolError
from ..system import os
from .lists import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..engine import Database
    from .tables import StoredTable, Tables


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

    `values` starts as the given arguments that are columns, without the `key`, plus what empties
    the fields named in `clear`. Raises `ToolError` for a path that may not be stored, and for a
    field that is both set and cleared.
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
        """Store the values and stamps; returns the fields that are different now, sorted.

        Raises `ToolError` where no field was given at all.
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
        """Return the facts of an answer, with the warnings where there are any."""
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
    """Raise `ToolError` where a row is not as it was read, and keep it so for the transaction.

    `read` is what a session has as `as_read`. That there is no such row is for the tool to say.
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
    """Raise `ToolError` for the first of these arguments that was given without any text."""
    for name in names:
        if name in arguments and not arguments[name].strip():
            raise ToolError(f'"{name}" must not be blank')


def checked_path(path: str, argument: str) -> str:
    """Return a path in normal form; raises `ToolError` where it may not be stored."""
    problem = path_problem(path)
    if problem:
        raise ToolError(f'"{argument}": {problem}')
    return normalise(path)


def path_warnings(work_tree: str, path: str) -> list[str]:
    """Return warnings on a path that may be stored all the same."""
    from ..values import shortened

    if is_noise(path):
        return [f"{shortened(path)} looks like a lock file or build output, which helps no reader"]
    if not os.path.exists(os.path.join(work_tree, path)):
        return [f"{shortened(path)} does not exist in the project"]
    return []


def path_problem(path: str) -> str | None:
    """Return one sentence on why a path may not be stored, `None` where it may.

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
    """Return a path in the form in which it is stored: no ".", no empty part, no "/" at its end."""
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
    """Return why a path is refused, `None` where it is not."""
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
