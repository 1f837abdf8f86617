"""What SPEC-070 knows of the columns: what they hold, and who may write them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ralphgen.model import Column, Schema
from ralphgen.model import Table as DatabaseTable
from ralphgen.planning.model import Argument, Names
from ralphgen.spelling import Name, Value, argument_name, constant

STATUSES = ("draft", "pending", "in_progress", "done", "blocked", "skipped")
PRIORITIES = ("low", "medium", "high", "critical")
STAMPED = ("id", "created", "updated", "provenance", "status", "acronym", "author", "task_id")
"""The columns to which the server itself gives a value in a new row."""
RESERVED = ("clear", "cursor", "id", "limit", "reason", "summary")
"""Arguments that mean something else than a column."""

# A kind is the name of a constant in runtime/ralph/tables.py; here, the schema of its argument.
SCHEMAS: Mapping[str, Value] = {
    "TEXT": Name("STRING"),
    "INTEGER": Name("INTEGER"),
    "REAL": Name("NUMBER"),
    "STRINGS": Name("STRINGS"),
    "PATHS": Name("STRINGS"),
    "INTEGERS": Name("INTEGERS"),
    "DISCIPLINE": Name("STRING"),
}
AFFINITIES = {"TEXT": "TEXT", "INTEGER": "INTEGER", "REAL": "REAL", "NUMERIC": "REAL"}


@dataclass(frozen=True, slots=True)
class Known:
    """A column that SPEC-070 knows.

    `kind` names what it holds, `given` says whether tools take it as an argument, `shown`
    whether answers hold it. `values` are its own vocabulary, for a schema without a CHECK;
    `keywords` are added to the schema of the argument.
    """

    kind: str = "TEXT"
    given: bool = True
    shown: bool = True
    values: Names = ()
    keywords: tuple[tuple[str, Value], ...] = ()


TEXT = Known()
KEPT = Known(given=False)  # the server writes it
HIDDEN = Known(given=False, shown=False)
ACRONYM = Known(keywords=(("pattern", "^[A-Z0-9]{4}$"),))
PROSE = Known(keywords=(("maxLength", 3000),))
STRINGS, PATHS = Known("STRINGS"), Known("PATHS")

COLUMNS: Mapping[str, Mapping[str, Known]] = {
    "tasks": {
        "id": Known("INTEGER", given=False),
        "feature": TEXT,
        "discipline": TEXT,
        "title": TEXT,
        "description": TEXT,
        "status": Known(given=False, values=STATUSES),
        "priority": Known(values=PRIORITIES),
        "tags": STRINGS,
        "depends_on": Known("INTEGERS"),
        "blocked_by": KEPT,
        "created": KEPT,
        "updated": KEPT,
        "completed": KEPT,
        "acceptance_criteria": STRINGS,
        "context_files": PATHS,
        "output_artifacts": PATHS,
        "hints": TEXT,
        "estimated_turns": Known("INTEGER"),
        "provenance": KEPT,
        "pseudocode": KEPT,
        "enriched_at": KEPT,
    },
    "features": {
        "name": TEXT,
        "display_name": TEXT,
        "acronym": ACRONYM,
        "description": PROSE,
        "created": KEPT,
        "knowledge_paths": PATHS,
        "context_files": PATHS,
        "architecture": PROSE,
        "boundaries": Known(keywords=(("maxLength", 1500),)),
        "learnings": Known("OBJECTS", given=False),
        "dependencies": STRINGS,
    },
    "disciplines": {
        "name": TEXT,
        "display_name": TEXT,
        "acronym": ACRONYM,
        "icon": TEXT,
        "color": Known(keywords=(("pattern", "^#[0-9A-Fa-f]{6}$"),)),
        "system_prompt": TEXT,
        "skills": STRINGS,
        "conventions": TEXT,
        "mcp_servers": Known("OBJECTS", given=False),
        "stack_id": HIDDEN,
        "image_path": HIDDEN,
        "crops": HIDDEN,
        "description": TEXT,
        "image_prompt": HIDDEN,
        "mcp_tool_overrides": HIDDEN,
    },
    "task_comments": {
        "id": Known("INTEGER", given=False),
        "task_id": Known("INTEGER", given=False),
        "author": TEXT,
        "discipline": Known("DISCIPLINE"),
        "agent_task_id": Known("INTEGER", given=False),
        "priority": Known(values=PRIORITIES),
        "body": TEXT,
        "created": KEPT,
        "updated": KEPT,
    },
    "metadata": {
        "id": Known("INTEGER", given=False),
        "schema_version": HIDDEN,
        "project_title": KEPT,
        "project_description": KEPT,
        "project_created": KEPT,
    },
}
PREFIXES = {
    "tasks": "TASK",
    "features": "FEATURE",
    "disciplines": "DISCIPLINE",
    "task_comments": "COMMENT",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the project as the tools see it: its usable columns by name, in order.

    `unusable` are those that tools neither read nor write.
    """

    name: str
    columns: Mapping[str, Column]
    unusable: tuple[Column, ...] = ()

    def known(self, column: str) -> Known:
        """What is known of a column; one that was added is shown, and given unless generated."""
        found = COLUMNS[self.name].get(column)
        declared = self.columns[column]
        if found is None:
            return Known(AFFINITIES[declared.type], given=not declared.generated)
        if column == "author" and (declared.references or "").startswith("disciplines("):
            return Known("DISCIPLINE")
        return found

    def shown(self) -> Names:
        """The columns that answers hold."""
        return tuple(column for column in self.columns if self.known(column).shown)

    def added(self) -> Names:
        """The columns that SPEC-070 does not know."""
        return tuple(column for column in self.columns if column not in COLUMNS[self.name])

    def given(self) -> Names:
        """The columns that tools take as arguments."""
        return tuple(column for column in self.columns if self.known(column).given)

    def values(self, column: str) -> Names:
        """What a column may hold: its CHECK list, else its own vocabulary, else nothing known."""
        declared = self.columns[column]
        if declared.values is not None and declared.type == "TEXT":
            return declared.values
        known = self.known(column).values
        if column == "status" and self.name == "tasks" and "pseudocode" not in self.columns:
            return known[1:]  # drafts came with the column that enriches them
        return known

    def constant(self, column: str) -> str:
        """The name of the emitted list of a column's values."""
        return f"{PREFIXES[self.name]}_{constant(column)}"

    def argument(self, column: str, *, required: bool = False) -> Argument:
        """The argument that sets a column."""
        name = argument_name(column)
        schema: Value = SCHEMAS[self.known(column).kind]
        extra: dict[str, Value] = dict(self.known(column).keywords)
        if self.values(column):
            extra = {"enum": Name(self.constant(column)), **extra}
        if name != column:
            extra = {**extra, "description": f"column {column}"}
        if extra:
            schema = {"type": _json_type(self.known(column).kind), **extra}
        must = required or (_needed(self.columns[column]) and column not in STAMPED)
        return Argument(name, schema, required=must)

    def clearable(self, column: str) -> bool:
        """Whether a field may be emptied."""
        declared = self.columns[column]
        return not declared.not_null and not declared.primary_key

    def unfillable(self, given: Names) -> Names:
        """The columns that a new row needs a value for and that nothing gives one."""
        fillable = {*STAMPED, *given}
        return (
            *(column.name for column in self.unusable if _needed(column)),
            *(
                name
                for name, column in self.columns.items()
                if _needed(column) and name not in fillable
            ),
        )


def read_table(schema: Schema, name: str) -> tuple[Table | None, Names]:
    """The table without columns that tools cannot use, and a warning for each one left out."""
    found = schema.table(name)
    if found is None:
        return None, ()
    warnings = tuple(filter(None, (_warning(found, column) for column in found.columns)))
    usable = {column.name: column for column in found.columns if _usable(schema, found, column)}
    rest = tuple(column for column in found.columns if column.name not in usable)
    return Table(name, usable, rest), warnings


def _usable(schema: Schema, table: DatabaseTable, column: Column) -> bool:
    """Not what is hidden, has no JSON form (BLOB, ANY), or bears a name of our own arguments."""
    if schema.hidden(table.name, column.name):
        return False
    known = column.name in COLUMNS[table.name]
    return known or (column.type in AFFINITIES and column.name.lower() not in RESERVED)


def _needed(column: Column) -> bool:
    """Whether a new row must be given a value for it."""
    return column.not_null and column.default is None and not column.generated


def _warning(table: DatabaseTable, column: Column) -> str:
    if column.name in COLUMNS[table.name] or column.name.lower() not in RESERVED:
        return ""
    return (
        f'the column "{table.name}.{column.name}" is left out of all tools: '
        "an argument of this name means something else"
    )


def _json_type(kind: str) -> str:
    types: dict[str, Any] = {"INTEGER": "integer", "REAL": "number"}
    return str(types.get(kind, "string"))
