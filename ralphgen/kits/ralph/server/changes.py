"""The changes that a call asks for: given fields, cleared fields, and nothing else."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError

from .paths import checked_path, path_warnings
from .tables import PATHS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .tables import Table
    from .workspace import Workspace


class Changes:
    """The values to store in one row, by column, with warnings about them.

    `values` starts as the given arguments that are columns, without the `key`, plus what empties
    the fields named in `clear`. Raises `ToolError` for a path that may not be stored, and for a
    field that is both set and cleared.
    """

    __slots__ = ("table", "values", "warnings", "workspace")

    def __init__(
        self, workspace: Workspace, table: Table, arguments: Mapping[str, Any], key: str = ""
    ) -> None:
        self.workspace = workspace
        self.table = table
        self.warnings: list[str] = []
        given = {name: value for name, value in arguments.items() if name != key}
        self.values = table.values({**given, **self._checked_paths(given)})
        self.values.update(table.cleared(arguments.get("clear", ()), arguments))

    def apply(self, key: str, identity: object, stamps: Mapping[str, Any]) -> list[str]:
        """Store the values and stamps; returns the fields that are different now, sorted.

        Raises `ToolError` where no field was given at all.
        """
        if not self.values:
            raise ToolError("nothing to change: give at least one field")
        columns = list(self.values)
        sql = self.table.select(columns, f'WHERE "{key}" = ?')
        before = self.workspace.database.row(sql, [identity]) or ()
        old = dict(zip(columns, before, strict=True))
        changed = {column for column in columns if old[column] != self.values[column]}
        if changed:
            values = {column: self.values[column] for column in columns if column in changed}
            self.table.update(self.workspace.database, key, identity, {**values, **stamps})
        return sorted(self.table.field(column) for column in changed)

    def answer(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the facts of an answer, with the warnings where there are any."""
        return {**facts, "warnings": self.warnings} if self.warnings else facts

    def _checked_paths(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the path lists among the arguments, in normal form."""
        columns = [column for column, kind in self.table.columns.items() if kind == PATHS]
        return {
            self.table.field(column): self._paths(self.table.field(column), given)
            for column in columns
            if self.table.field(column) in given
        }

    def _paths(self, argument: str, given: Mapping[str, Any]) -> list[str]:
        paths = list(dict.fromkeys(checked_path(path, argument) for path in given[argument]))
        if argument != "output_artifacts":
            for path in paths:
                self.warnings.extend(path_warnings(self.workspace, path))
        return paths


def refuse_blank(arguments: Mapping[str, Any], *names: str) -> None:
    """Raise `ToolError` for the first of these arguments that was given without any text."""
    for name in names:
        if name in arguments and not arguments[name].strip():
            raise ToolError(f'"{name}" must not be blank')
