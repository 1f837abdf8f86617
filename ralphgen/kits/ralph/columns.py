"""What SPEC-070 knows of the columns: what they hold, and who may write them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ralphgen.planning.model import Argument, Names, Values
from ralphgen.project.model import Column, Schema
from ralphgen.runtime.sqlite.check_constraints import fold
from ralphgen.spelling import Name, Value, argument_name, constant

STATUSES = ("draft", "pending", "in_progress", "done", "blocked", "skipped")
PRIORITIES = ("low", "medium", "high", "critical")
STAMPED: Mapping[str, Names] = {
    "tasks": ("id", "created", "provenance", "status"),
    "features": ("created", "acronym"),
    "disciplines": ("created", "acronym"),
    "task_comments": ("id", "task_id", "author", "created"),
}
"""The columns to which the server itself gives a value in a new row."""
LASTING = ("title", "name", "display_name", "acronym", "icon", "color", "body")
"""The columns without which a row could not be told from others: never emptied."""
RESERVED = ("clear", "cursor", "id", "limit", "reason", "summary")
"""Arguments that mean something else than a column."""
SHOWN = 100  # characters of a column's name in a description
ANSWERED: Mapping[str, Names] = {
    "tasks": ("comments", "comments_total", "dependencies", "dependents", "inferred"),
    "features": ("learnings_total", "missing_files", "tasks", "unreadable_learnings"),
}
"""Fields of answers, by table, that are no columns; `CUT` stands in the answers on every table."""
CUT = ("cut", "unreadable")

# A kind is the name of a constant in runtime/ralph/tables.py; here, the schema of its argument.
SCHEMAS: Mapping[str, Value] = {
    "TEXT": Name("STRING"),
    "INTEGER": Name("INTEGER"),
    "REAL": Name("NUMBER"),
    "NUMERIC": Name("STRING"),  # SQLite makes a number of it where it is one; dates stay text
    "STRINGS": Name("STRINGS"),
    "PATHS": Name("STRINGS"),
    "INTEGERS": Name("INTEGERS"),
    "DISCIPLINE": Name("STRING"),
}
AFFINITIES = {"TEXT": "TEXT", "INTEGER": "INTEGER", "REAL": "REAL", "NUMERIC": "NUMERIC"}
JSON_TYPES = {
    "TEXT": "string",
    "DISCIPLINE": "string",
    "INTEGER": "integer",
    "REAL": "number",
    "NUMERIC": "string",
}
"""The types of arguments, by kind, that can carry an enum or other keywords."""


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

    def values(self, column: str) -> Values:
        """What a column may hold: its CHECK list, else its own vocabulary, else nothing known."""
        declared, kind = self.columns[column], self.known(column).kind
        if declared.values is not None and JSON_TYPES.get(kind) == "string":
            return declared.values
        if declared.values is not None and kind == declared.type == "INTEGER":
            return tuple(int(value) for value in declared.values)
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
            extra = {**extra, "description": _described(column)}
        if extra:
            schema = {**_open(self.known(column).kind), **extra}
        must = required or (_needed(self.columns[column]) and column not in STAMPED[self.name])
        return Argument(name, schema, required=must)

    def clearable(self, column: str) -> bool:
        """Whether a field may be emptied."""
        declared = self.columns[column]
        return not declared.not_null and not declared.primary_key and column not in LASTING

    def unfillable(self, given: Names) -> Names:
        """The columns that a new row needs a value for and that nothing gives one."""
        fillable = {*STAMPED[self.name], *given}
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
    columns = tuple(_spelled(name, column) for column in found.columns)
    shown = tuple(column for column in columns if not schema.hidden(name, column.name))
    warnings = tuple(filter(None, (_warning(name, column.name) for column in shown)))
    usable = {column.name: column for column in shown if _usable(name, column)}
    rest = tuple(column for column in columns if column.name not in usable)
    return Table(name, usable, rest), warnings


def _spelled(table: str, column: Column) -> Column:
    """The column, with the letter case of SPEC-070 where it is one of its columns."""
    name = fold(column.name)
    return replace(column, name=name) if name in COLUMNS[table] else column


def _usable(table: str, column: Column) -> bool:
    """Not what has no JSON form (BLOB, ANY) or bears a name that means something else."""
    known = column.name in COLUMNS[table]
    return known or (column.type in AFFINITIES and not _warning(table, column.name))


def _needed(column: Column) -> bool:
    """Whether a new row must be given a value for it."""
    return column.not_null and column.default is None and not column.generated


def _warning(table: str, column: str) -> str:
    """Why an added column is left out because of its name; empty where it is not."""
    name = fold(column)
    argument = name in RESERVED
    if name in COLUMNS[table] or not (argument or name in (*CUT, *ANSWERED.get(table, ()))):
        return ""
    place = "an argument" if argument else "a field of answers"
    return (
        f'the column "{table}.{column}" is left out of all tools: '
        f"{place} of this name means something else"
    )


def _described(column: str) -> str:
    """The sentence that tells which column is meant, where its argument has another name."""
    shown = column if len(column) <= SHOWN else f"{column[:SHOWN]}…"
    return f'column "{shown}"'


def _open(kind: str) -> Mapping[str, Value]:
    """The schema of a kind as a mapping that takes more keywords."""
    if kind in JSON_TYPES:
        return {"type": JSON_TYPES[kind]}
    items = "integer" if kind == "INTEGERS" else "string"
    return {"type": "array", "items": {"type": items}}
