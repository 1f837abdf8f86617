"""A table or view as its tools see it: names, kinds, and the arguments that its columns become."""

import keyword
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ralphgen.planning.model import Argument, Constant, JsonObject, Names, Values
from ralphgen.project.model import Column, Schema, ServedTable
from ralphgen.runtime.encoding import DIGITS, JSON
from ralphgen.runtime.kit import INTEGER, INTEGERS, NUMBER, STRING, STRINGS
from ralphgen.spelling import argument_name, constant

# By the type of a column, the schema of its argument; a blob is none.
SCHEMAS: Mapping[str, JsonObject | None] = {
    "TEXT": STRING,
    "INTEGER": INTEGER,
    "REAL": NUMBER,
    "NUMERIC": STRING,  # a date, or whatever else the column takes as text
    "DECIMAL": {"type": "string", "format": DIGITS},
    "BOOLEAN": {"type": "boolean"},
    "JSON": {"type": "string", "format": JSON},
    "ANY": {"format": DIGITS},
    "OPAQUE": {"format": DIGITS},  # a type without equality, such as point
    "BLOB": None,
    "TEXT[]": STRINGS,  # arrays
    "INTEGER[]": INTEGERS,
    "REAL[]": {"type": "array", "items": {"type": "number"}},
    "NUMERIC[]": STRINGS,
    "DECIMAL[]": {"type": "array", "items": {"type": "string", "format": DIGITS}},
    "ANY[]": STRINGS,
    "BOOLEAN[]": {"type": "array", "items": {"type": "boolean"}},
    "JSON[]": {"type": "array", "items": {"type": "string", "format": JSON}},
    "BLOB[]": None,
}
ARRAY = "[]"  # the end of their types
TYPES = {"TEXT": "string", "NUMERIC": "string", "INTEGER": "integer", "REAL": "number"}
# Names of arguments and of answer fields that cannot be columns.
TAKEN = ("changed", "clear", "cut", "key", "unreadable")
_LEGAL = re.compile("[a-z][a-z0-9_]{0,49}")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\s.-]+")


def snake(name: str) -> str:
    """Return the form of a table's name for the names of tools and modules."""
    plain = _WORDS.sub("_", name).lower()
    return plain if _LEGAL.fullmatch(plain) else constant(name).lower()


@dataclass(frozen=True, slots=True)
class ToolTable:
    """A table with its settings, and its visible columns in the schema's order.

    `snake` is its name within tool names, `module` and `data` are the names of the emitted module
    and of the constant in it. `unusable` are columns without a form in JSON, and `constants` the
    names of the constants for lists of values, by column. No two tables share one of these names.
    """

    served: ServedTable
    snake: str
    module: str
    data: str
    columns: Mapping[str, Column]
    unusable: tuple[Column, ...]
    constants: Mapping[str, str]

    @property
    def noun(self) -> str:
        """The name of one row in the names of its tools, except the listing tool."""
        return self.served.noun or self.snake

    def kind(self, column: str) -> str:
        """Return the kind of a column's values, in the terms of `runtime.rows`."""
        kind = self.columns[column].type
        if kind.endswith(ARRAY):
            return "blobs" if kind == "BLOB[]" else "list"
        return kind.lower()

    def given(self) -> Names:
        """Return the columns that can be written."""
        return tuple(
            name
            for name, column in self.columns.items()
            if SCHEMAS[column.type] is not None and not column.generated
        )

    def unfillable(self) -> Names:
        """Return the columns that a new row needs a value for and that no argument gives one."""
        blobs = [one for one in self.columns.values() if SCHEMAS[one.type] is None]
        return tuple(column.name for column in (*self.unusable, *blobs) if needed(column))

    def values(self, column: str) -> Values:
        """Return the values that a CHECK allows in a column; empty if it allows any."""
        declared = self.columns[column]
        kind = declared.type.removesuffix(ARRAY)
        if declared.values is None or kind not in TYPES or kind == "REAL":
            return ()
        if kind == "INTEGER":
            return tuple(int(value) for value in declared.values)
        return declared.values

    def field(self, column: str) -> str:
        """Return the name of a column in arguments and answers."""
        return argument_name(f"x.{column}" if column in TAKEN else column)

    def argument(self, column: str, *, prefix: str = "", required: bool = False) -> Argument:
        """Return the argument that names a value of a column."""
        kind = self.columns[column].type
        schema = SCHEMAS[kind] or {}
        said: JsonObject = {}
        if self.values(column):
            values = Constant(self.constants[column], self.values(column))
            said = {"type": TYPES[kind.removesuffix(ARRAY)], "enum": values}
            said = {"type": "array", "items": said} if kind.endswith(ARRAY) else said
        meant = dict(self.served.describe).get(column, "")
        if self.field(column) != column:
            meant = f'{meant} (column "{column[:100]}")'.strip()
        if kind == "JSON" and not meant:
            meant = "any JSON value"
        if meant:
            said |= {"description": meant}
        if said and "type" not in said:
            said = {**({"type": TYPES[kind]} if kind in TYPES else schema), **said}
        return Argument(f"{prefix}{self.field(column)}", said or schema, required=required)

    def keys(self) -> tuple[Argument, ...]:
        """Return the argument that names a row: its key column, or an object of several."""
        columns = [self.argument(column, required=True) for column in self.served.key]
        if len(columns) == 1:
            return tuple(columns)
        schema: JsonObject = {
            "type": "object",
            "properties": {one.name: one.schema for one in columns},
            "required": [one.name for one in columns],
            "additionalProperties": False,
        }
        return (Argument("key", schema, required=True),)


def needed(column: Column) -> bool:
    """Return whether a new row must be given a value for a column."""
    return column.not_null and column.default is None and not column.generated


def offered(
    served: Iterable[ServedTable], schema: Schema, modules: Iterable[str], constants: Iterable[str]
) -> tuple[tuple[ToolTable, ...], Names]:
    """Return the tables, and a warning for each omitted column.

    `modules` and `constants` are names that are already in use.
    """
    found: list[ToolTable] = []
    warnings: list[str] = []
    words: set[str] = set()
    taken_modules, taken_constants = {*modules, *keyword.kwlist}, {*constants}
    for one in served:
        table = schema.table(one.name)
        if table is None:
            continue
        shown = [column for column in table.columns if not schema.hidden(one.name, column.name)]
        shown.sort(key=lambda column: column.name not in one.key)  # key columns first
        usable = {column.name: column for column in shown if column.type in SCHEMAS}
        rest = tuple(column for column in table.columns if column.name not in usable)
        warnings += [
            f'the column "{one.name}.{column.name}" is omitted from all tools: JSON cannot '
            "represent its type"
            for column in rest
            if column in shown
        ]
        called = _free(snake(one.name), words)
        module = f"table_{called}" if called in taken_modules else called
        offering = ToolTable(
            one,
            called,
            module=_free(module, taken_modules),
            data=_free(called.upper(), taken_constants),
            columns=usable,
            unusable=rest,
            constants={
                column: _free(f"{called}_{constant(column)}".upper(), taken_constants)
                for column, declared in usable.items()
                if declared.values is not None
            },
        )
        found.append(offering)
    return tuple(found), tuple(warnings)


def _free(name: str, taken: set[str]) -> str:
    """Return a free name, and mark it as taken."""
    found = name
    number = 2
    while found in taken:
        found = f"{name}_{number}"
        number += 1
    taken.add(found)
    return found
