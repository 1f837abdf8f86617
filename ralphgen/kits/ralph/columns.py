"""The columns that SPEC-070 names: their content, and who may write them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ralphgen.errors import ProjectError
from ralphgen.kits.ralph.server.project import LEARNINGS, PROGRESS
from ralphgen.planning import Argument, Constant, JsonObject, KitPlan, Names, Values
from ralphgen.planning.access import CLAIMS, QUESTIONS, Command, KitAccess, Use, of_own_rows
from ralphgen.project.model import Column, ProjectFacts, Schema
from ralphgen.project.schema import REQUIRED_COLUMNS
from ralphgen.runtime.engine import fold
from ralphgen.runtime.engine.ledger import KEPT, MARKER
from ralphgen.runtime.kit import INTEGER, INTEGERS, NUMBER, STRING, STRINGS
from ralphgen.runtime.policy import Policy, Recipe
from ralphgen.runtime.tasks import STATUSES
from ralphgen.spelling import argument_name, constant, sql_name, sql_text

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
    "tasks": (
        *("comments", "comments_total", "dependencies", "dependents", "held_by", "inferred"),
    ),
    "features": ("learnings_total", "missing_files", "tasks", "unreadable_learnings"),
}
"""Fields of answers, by table, that are no columns; `CUT` stands in the answers on every table."""
CUT = ("cut", "unreadable")

# A kind is the name of a constant in runtime/tasks; here, the schema of its argument.
SCHEMAS: Mapping[str, JsonObject] = {
    "TEXT": STRING,
    "INTEGER": INTEGER,
    "REAL": NUMBER,
    "NUMERIC": STRING,  # SQLite converts text that is a number, and keeps dates as text
    "STRINGS": STRINGS,
    "PATHS": STRINGS,
    "INTEGERS": INTEGERS,
    "DISCIPLINE": STRING,
}
ARRAY = "[]"  # the end of the type of a list
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
    keywords: tuple[tuple[str, object], ...] = ()


TEXT = Known()
BY_SERVER = Known(given=False)  # the server writes it
HIDDEN = Known(given=False, shown=False)
ACRONYM = Known(keywords=(("pattern", "^[A-Z0-9]{4}$"),))
PROSE = Known(keywords=(("maxLength", 3000),))
STRING_LIST, PATHS = Known("STRINGS"), Known("PATHS")

COLUMNS: Mapping[str, Mapping[str, Known]] = {
    "tasks": {
        "id": Known("INTEGER", given=False),
        "feature": TEXT,
        "discipline": TEXT,
        "title": TEXT,
        "description": TEXT,
        "status": Known(given=False, values=STATUSES),
        "priority": Known(values=PRIORITIES),
        "tags": STRING_LIST,
        "depends_on": Known("INTEGERS"),
        "blocked_by": BY_SERVER,
        "created": BY_SERVER,
        "updated": BY_SERVER,
        "completed": BY_SERVER,
        "acceptance_criteria": STRING_LIST,
        "context_files": PATHS,
        "output_artifacts": PATHS,
        "hints": TEXT,
        "estimated_turns": Known("INTEGER", keywords=(("minimum", 0),)),
        "provenance": BY_SERVER,
        "pseudocode": BY_SERVER,
        "enriched_at": BY_SERVER,
    },
    "features": {
        "name": TEXT,
        "display_name": TEXT,
        "acronym": ACRONYM,
        "description": PROSE,
        "created": BY_SERVER,
        "knowledge_paths": PATHS,
        "context_files": PATHS,
        "architecture": PROSE,
        "boundaries": Known(keywords=(("maxLength", 1500),)),
        "learnings": Known("OBJECTS", given=False),
        "dependencies": STRING_LIST,
    },
    "disciplines": {
        "name": TEXT,
        "display_name": TEXT,
        "acronym": ACRONYM,
        "icon": TEXT,
        "color": Known(keywords=(("pattern", "^#[0-9A-Fa-f]{6}$"),)),
        "system_prompt": TEXT,
        "skills": STRING_LIST,
        "conventions": TEXT,
        "mcp_servers": Known("OBJECTS", given=False),
        "stack_id": HIDDEN,
        "image_path": HIDDEN,
        "crops": HIDDEN,
        "description": TEXT,
        "image_prompt": HIDDEN,
        "mcp_tool_overrides": HIDDEN,
        "disabled_tools": HIDDEN,
    },
    "task_comments": {
        "id": Known("INTEGER", given=False),
        "task_id": Known("INTEGER", given=False),
        "author": TEXT,
        "discipline": Known("DISCIPLINE"),
        "agent_task_id": Known("INTEGER", given=False),
        "priority": Known(values=PRIORITIES),
        "body": TEXT,
        "created": BY_SERVER,
        "updated": BY_SERVER,
    },
    "metadata": {
        "id": Known("INTEGER", given=False),
        "schema_version": HIDDEN,
        "project_title": BY_SERVER,
        "project_description": BY_SERVER,
        "project_created": BY_SERVER,
    },
}
PREFIXES = {
    "tasks": "TASK",
    "features": "FEATURE",
    "disciplines": "DISCIPLINE",
    "task_comments": "COMMENT",
}
NEEDED = {"task_comments": ("id", "task_id", "body")}
# Emitted name in tables.py, by table; no project is without the first three.
TABLES = {
    "tasks": "tasks",
    "features": "features",
    "disciplines": "disciplines",
    "task_comments": "comments",
    "metadata": "metadata",
}


@dataclass(frozen=True, slots=True)
class OfferedTable:
    """A table of the project as the tools see it: its usable columns by name, in order.

    `unusable` are those that tools neither read nor write.
    """

    name: str
    columns: Mapping[str, Column]
    unusable: tuple[Column, ...] = ()

    def column_facts(self, column: str) -> Known:
        """Return what is known of a column; an added one is shown, and given unless generated."""
        found = COLUMNS[self.name].get(column)
        declared = self.columns[column]
        if found is None:
            return Known(AFFINITIES[declared.type], given=not declared.generated)
        if column == "author" and (declared.references or "").startswith("disciplines("):
            return Known("DISCIPLINE")
        return found

    def answer_columns(self) -> Names:
        """Return the columns that answers hold."""
        return tuple(column for column in self.columns if self.column_facts(column).shown)

    def added(self) -> Names:
        """Return the columns that SPEC-070 does not know."""
        return tuple(column for column in self.columns if column not in COLUMNS[self.name])

    def argument_columns(self) -> Names:
        """Return the columns that tools take as arguments."""
        return tuple(column for column in self.columns if self.column_facts(column).given)

    def values(self, column: str) -> Values:
        """Return what a column may hold: its CHECK list, else its own vocabulary, else nothing."""
        declared, kind = self.columns[column], self.column_facts(column).kind
        if declared.values is not None and JSON_TYPES.get(kind) == "string":
            return declared.values
        if declared.values is not None and kind == declared.type == "INTEGER":
            return tuple(int(value) for value in declared.values)
        known = self.column_facts(column).values
        if column == "status" and self.name == "tasks" and "pseudocode" not in self.columns:
            return known[1:]  # drafts came with the column that enriches them
        return known

    def constant(self, column: str) -> str:
        """Return the name of the emitted list of a column's values."""
        return f"{PREFIXES[self.name]}_{constant(column)}"

    def argument(self, column: str, *, required: bool = False) -> Argument:
        """Return the argument that sets a column."""
        name = argument_name(column)
        schema = SCHEMAS[self.column_facts(column).kind]
        extra: JsonObject = dict(self.column_facts(column).keywords)
        if self.values(column):
            extra = {"enum": Constant(self.constant(column), self.values(column)), **extra}
        if name != column:
            meant = column if len(column) <= SHOWN else f"{column[:SHOWN]}…"
            extra = {**extra, "description": f'column "{meant}"'}
        if extra:
            schema = {**_open(self.column_facts(column).kind), **extra}
        must = required or (_needed(self.columns[column]) and column not in STAMPED[self.name])
        return Argument(name, schema, required=must)

    def clearable(self, column: str) -> bool:
        """Return whether a field may be emptied."""
        declared = self.columns[column]
        return not declared.not_null and not declared.primary_key and column not in LASTING

    def unfillable(self, given: Names) -> Names:
        """Return the columns that a new row needs a value for and that nothing gives one."""
        fillable = {*STAMPED[self.name], *given}
        return (
            *(column.name for column in self.unusable if _needed(column)),
            *(
                name
                for name, column in self.columns.items()
                if _needed(column) and name not in fillable
            ),
        )


def read_table(schema: Schema, name: str) -> tuple[OfferedTable | None, Names]:
    """Return the table without columns that tools cannot use, and a warning for each left out.

    Raises `ProjectError` for an array in which tools would have to search.
    """
    found = schema.table(name)
    if found is None:
        return None, ()
    added = tuple(
        column for column in found.columns if schema.folded(column.name) not in COLUMNS[name]
    )
    stored = {schema.folded(column.name): column for column in found.columns}
    # In the order and the letter case of SPEC-070 where it is one of its columns.
    known = tuple(replace(stored[one], name=one) for one in COLUMNS[name] if one in stored)
    columns = (*known, *added)
    shown = tuple(column for column in columns if not schema.hidden(name, column.name))
    said = {column.name: _warning(name, column, stored) for column in shown}
    usable = {  # not what has no JSON form (BLOB, ANY) or bears a name that means something else
        column.name: column
        for column in shown
        if not said[column.name] and (column.name in COLUMNS[name] or column.type in AFFINITIES)
    }
    rest = tuple(column for column in columns if column.name not in usable)
    return OfferedTable(name, usable, rest), tuple(filter(None, said.values()))


def offered_tables(schema: Schema) -> tuple[dict[str, OfferedTable], Names]:
    """Return the tables that tools work on, by name, and a warning for each column left out."""
    found = {name: read_table(schema, name) for name in TABLES}
    tables = {
        name: table
        for name, (table, _) in found.items()
        if table is not None and table.columns.keys() >= {*NEEDED.get(name, ())}
    }
    return tables, tuple(warning for _, warnings in found.values() for warning in warnings)


def first_statuses(tables: Mapping[str, OfferedTable]) -> Names:
    """Return the statuses that a new task may have; the first of them is the default."""
    known = tuple(map(str, tables["tasks"].values("status")))
    return tuple(status for status in known if status in ("draft", "pending")) or known[:1]


def _needed(column: Column) -> bool:
    """Return whether a new row must be given a value for it."""
    return column.not_null and column.default is None and not column.generated


def _warning(table: str, declared: Column, stored: Collection[str]) -> str:
    """Return why a column is left out because of its name or as an array; empty where it is not.

    `stored` are the names of all columns of the table, as the database compares them.
    """
    column = declared.name
    if declared.type.endswith(ARRAY):
        if column in (*REQUIRED_COLUMNS.get(table, ()), "depends_on"):
            kind, used = "text", f"{column}::text"
            if column == "depends_on":
                kind, used = "jsonb", f"to_jsonb({column})"
            raise ProjectError(
                f'the column "{table}.{column}" is an array, expected {kind}',
                f"ALTER TABLE {table} ALTER {column} DROP DEFAULT, "
                f"ALTER {column} TYPE {kind} USING {used}",
            )
        return (
            f'the column "{table}.{column}" is left out of all tools: it is an array, expected '
            "jsonb or text that holds JSON"
        )
    name = fold(column)
    if column != name and column in stored and (name in COLUMNS[table] or name in stored):
        left_out = f'the column "{table}.{column}" is left out of all tools'
        return f'{left_out}: it would be taken for "{name}"'
    argument = name in RESERVED
    if name in COLUMNS[table] or not (argument or name in (*CUT, *ANSWERED.get(table, ()))):
        return ""
    place = "an argument" if argument else "a field of answers"
    return (
        f'the column "{table}.{column}" is left out of all tools: '
        f"{place} of this name means something else"
    )


def _open(kind: str) -> JsonObject:
    """Return the schema of a kind as a mapping that takes more keywords."""
    if kind in JSON_TYPES:
        return {"type": JSON_TYPES[kind]}
    items = "integer" if kind == "INTEGERS" else "string"
    return {"type": "array", "items": {"type": items}}


KEYS = {"tasks": "id", "task_comments": "id", "features": "name", "disciplines": "name"}
# The rows of a table that a rule of `runtime.policy` lets a session name; `own` is its login.
ROWS: Mapping[tuple[str, str], str] = {
    ("tasks", "own task"): "{row}.id = own.task_id",
    ("tasks", "own feature"): "{row}.feature = own.feature",
    ("task_comments", "own task"): "{row}.task_id = own.task_id",
    ("task_comments", "task of own feature"): "{row}.task_id IN (SELECT one.id FROM {schema}.tasks "
    "AS one WHERE one.feature = own.feature)",
    (CLAIMS, "own task"): "{row}.task_id = own.task_id",
    (QUESTIONS, "own task"): "{row}.task_id = own.task_id",
    ("features", "own feature"): "{row}.name = own.feature",
    ("disciplines", "own discipline"): "{row}.name = own.discipline",
}
# What is left of the claim on a deleted task, whose id a new one may get.
GONE = " AND NOT EXISTS (SELECT FROM {schema}.tasks AS one WHERE one.id = {row}.task_id)"
FILES = {"append_learning": LEARNINGS, "append_progress": PROGRESS}  # whose entries a tool adds
MASKED = (("disciplines", "mcp_servers"),)  # what tools show of it has no secrets


@dataclass(frozen=True, slots=True)
class RowWrite:
    """The effect of a tool on the rows of a table.

    The tool sets `columns` besides those of its arguments; a new row also gets its key and the
    server's stamps.
    """

    command: Command
    table: str
    columns: Names = ()


CLAIM = RowWrite("UPDATE", CLAIMS)
SIGNED = RowWrite("INSERT", "task_comments", ("discipline", "agent_task_id"))
CLOSING = RowWrite("INSERT", "task_comments", (*SIGNED.columns, "body"))
WRITES: Mapping[str, tuple[RowWrite, ...]] = {
    "create_task": (RowWrite("INSERT", "tasks"), CLAIM),
    "update_task": (RowWrite("UPDATE", "tasks", ("updated",)),),
    "delete_task": (RowWrite("DELETE", "tasks"), RowWrite("DELETE", "task_comments"), CLAIM),
    "set_task_status": (
        RowWrite("UPDATE", "tasks", ("updated", "completed", "blocked_by")),
        CLOSING,
        CLAIM,
        RowWrite("INSERT", QUESTIONS),
    ),
    "enrich_task": (RowWrite("UPDATE", "tasks", ("status", "enriched_at", "updated")),),
    "add_task_comment": (SIGNED,),
    "update_task_comment": (RowWrite("UPDATE", "task_comments"),),
    "delete_task_comment": (RowWrite("DELETE", "task_comments"),),
    "create_feature": (RowWrite("INSERT", "features"),),
    "update_feature": (RowWrite("UPDATE", "features"),),
    "delete_feature": (RowWrite("DELETE", "features"),),
    "append_feature_learning": (RowWrite("UPDATE", "features", ("learnings",)),),
    "add_feature_context_file": (RowWrite("UPDATE", "features", ("context_files",)),),
    "create_discipline": (RowWrite("INSERT", "disciplines"),),
    "update_discipline": (RowWrite("UPDATE", "disciplines"),),
    "delete_discipline": (RowWrite("DELETE", "disciplines"),),
    **dict.fromkeys(FILES, (RowWrite("INSERT", KEPT, ("file", "entry")),)),
}


def ralph_access(project: ProjectFacts, kit: KitPlan, policy: Policy) -> KitAccess:
    """Return what sessions may do with tasks, features and disciplines, which each may read.

    Each may read the entries of state files too, which are resources of all.
    """
    tables, _ = offered_tables(project.schema)
    schema = project.place.schema if project.place is not None else ""
    has_ledger = project.schema.table(MARKER) is not None
    return KitAccess(
        uses=tuple(
            use for use in _uses(schema, tables, kit, policy) if has_ledger or use.table != KEPT
        ),
        shown={
            name: tuple(column for column in table.answer_columns() if (name, column) not in MASKED)
            for name, table in tables.items()
        }
        | ({KEPT: ("number", "file", "entry")} if has_ledger else {}),
        statuses=_statuses(policy, kit),
        first_statuses=first_statuses(tables),
    )


def _uses(
    schema: str, tables: Mapping[str, OfferedTable], kit: KitPlan, policy: Policy
) -> Iterator[Use]:
    """Yield what the kit's own tools write in the sessions of each recipe that has them."""
    for name, recipe in policy.recipes.items():
        for tool in recipe.tools.get(kit.key, ()):
            for write in WRITES.get(tool, ()):
                columns = write.columns if write.table == KEPT else ()
                if write.table in tables and write.command != "DELETE":
                    columns = tuple(_columns(tables[write.table], kit, recipe, tool, write))
                rules = recipe.bound_arguments.get(f"{kit.key}:{tool}", {})
                rows = of_own_rows(recipe, rules, _own_rows(schema, write.table, rules))
                if rows is not None and write.table == KEPT:
                    rows += f" AND {KEPT}.file = {sql_text(FILES[tool])}"
                elif rows is not None and write.table == CLAIMS and tool != "set_task_status":
                    rows += GONE.format(row=sql_name(CLAIMS), schema=sql_name(schema))
                if rows is not None:
                    yield Use(name, tool, write.command, write.table, columns, rows)


def _columns(
    table: OfferedTable, kit: KitPlan, recipe: Recipe, tool: str, write: RowWrite
) -> Iterable[str]:
    """Return the columns of a table that a tool sets, in the sessions of a recipe."""
    keys = {KEYS.get(table.name, ""), "task_id"}
    given = {*_set_by_arguments(table, kit, recipe, tool)}
    if write.command == "INSERT":
        given |= keys | {*STAMPED[table.name]}
    else:
        given -= keys
    given |= {*write.columns}
    return (one for one in table.columns if one in given)


def _set_by_arguments(
    table: OfferedTable, kit: KitPlan, recipe: Recipe, tool: str
) -> Iterable[str]:
    """Yield the columns that the arguments of a tool set, or that name the row."""
    planned = next(one for one in kit.tools if one.name == tool)
    left = recipe.narrowed_arguments.get(f"{kit.key}:{tool}", planned.argument_names)
    for column in table.columns:
        if argument_name(column) in left:
            yield column


def _own_rows(schema: str, table: str, rules: Mapping[str, str]) -> Mapping[str, str]:
    """Return what the bound arguments of a tool mean for the rows of a table that it writes."""
    names = {"row": sql_name(table), "schema": sql_name(schema)}
    return {
        argument: ROWS[table, rule].format(**names)
        for argument, rule in rules.items()
        if (table, rule) in ROWS
    }


def _statuses(policy: Policy, kit: KitPlan) -> dict[str, Names]:
    """Return, by recipe, the statuses that its sessions may give a task, where they are fewer."""
    values = {
        name: recipe.narrowed_values.get(f"{kit.key}:set_task_status", {}).get("status")
        for name, recipe in policy.recipes.items()
    }
    return {name: tuple(left) for name, left in values.items() if left is not None}
