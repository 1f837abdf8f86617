"""The decisions of the ralph kit: which tools and arguments a schema has a place for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ralphgen.kits.ralph.answers import answer_schema
from ralphgen.kits.ralph.bindings import TARGETS, bind
from ralphgen.kits.ralph.columns import PREFIXES, Table, read_table
from ralphgen.kits.ralph.profiles import CLOSING, LOADED_FIRST, narrow, narrow_values, profiles
from ralphgen.kits.ralph.skill import SKILL
from ralphgen.kits.ralph.spec import Spec
from ralphgen.kits.ralph.tools import SPECS
from ralphgen.planning.model import Argument, KitPlan, Module, Names, ToolPlan, Values
from ralphgen.project.model import Project
from ralphgen.spelling import Lines, Name, Value, argument_name

KEY = "ralph"
SERVER_NAME = "ralph-project"
TITLE = "The project's tasks, features, disciplines and state files."
NOUNS = {
    "tasks": "Tools on tasks.",
    "comments": "Tools on the comments of tasks.",
    "features": "Tools on features.",
    "disciplines": "Tools on disciplines.",
    "project": "Tools on the project as a whole.",
    "state_files": "Tools on the project's progress and learnings.",
}
REASON: Value = {"type": "string", "description": "Why it is blocked."}
SUMMARY: Value = {"type": "string", "description": "Stored as a comment."}
NEEDED = {"task_comments": ("id", "task_id", "body")}
# Emitted name in tables.py, by table; the first three are the heart of every schema.
TABLES = {
    "tasks": "tasks",
    "features": "features",
    "disciplines": "disciplines",
    "task_comments": "comments",
    "metadata": "metadata",
}


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a project has no place for a tool."""

    reason: str


def plan_ralph(project: Project) -> KitPlan:
    """The server of the ralph kit for a project."""
    found = {name: read_table(project.schema, name) for name in TABLES}
    tables = {
        name: table for name, (table, _) in found.items() if table is not None and _fits(table)
    }
    planned = {spec.name: _tool(spec, tables) for spec in SPECS}
    tools = tuple(tool for tool in planned.values() if isinstance(tool, ToolPlan))
    statuses = tables["tasks"].values("status")
    return KitPlan(
        key=KEY,
        server_name=SERVER_NAME,
        title=TITLE,
        nouns=NOUNS,
        tools=tools,
        modules=(_tables_module(tables),),
        workspace=(("tables", "TABLES"),),
        server="ralphgen.kits.ralph.server",
        runtime=("files", "sqlite"),
        constants=_constants(tables),
        absent={name: tool.reason for name, tool in planned.items() if isinstance(tool, Absence)},
        profiles=profiles(tools, statuses),
        narrow=narrow,
        narrow_values=partial(narrow_values, statuses),
        targets=TARGETS,
        bind=bind,
        loaded_first=LOADED_FIRST,
        closing=CLOSING,
        prompts=True,
        services=True,
        resources=True,
        warnings=tuple(warning for _, warnings in found.values() for warning in warnings),
        skill=SKILL,
    )


def _fits(table: Table) -> bool:
    """Whether a table of this name is the one that is meant."""
    return all(column in table.columns for column in NEEDED.get(table.name, ()))


def _tool(spec: Spec, tables: Mapping[str, Table]) -> ToolPlan | Absence:
    absence = _missing_need(spec, tables) or _unfilled_column(spec, tables)
    if absence is not None:
        return absence
    return ToolPlan(
        name=spec.name,
        module=spec.module,
        description=_description(spec, tables),
        hints=spec.hints,
        arguments=_arguments(spec, tables),
        returns=answer_schema(spec.answers, tables),
        search_hint=spec.search_hint,
    )


def _missing_need(spec: Spec, tables: Mapping[str, Table]) -> Absence | None:
    for need in spec.needs:
        table, _, column = need.partition(".")
        if table not in tables or column not in tables[table].columns:
            return Absence(f'the database has no column "{need}"')
    hidden = {f"tasks.{column.name}" for column in tables["tasks"].unusable}
    for guard in spec.guards:
        if guard in hidden:
            return Absence(f'what "{guard}" holds is hidden, and could forbid it')
    possible = tables["tasks"].values("status")
    for status in spec.statuses:
        if status not in possible:
            return Absence(f'no task can have the status "{status}"')
    return None


def _description(spec: Spec, tables: Mapping[str, Table]) -> str:
    """The tool's sentence, without what it says of columns that the project does not have."""
    notes = [text for column, text in spec.notes if column in tables[spec.table].columns]
    return "; ".join([spec.description.removesuffix("."), *notes]) + "."


def _unfilled_column(spec: Spec, tables: Mapping[str, Table]) -> Absence | None:
    """Why a tool that adds a row could never do so."""
    if not spec.creates:
        return None
    table = tables[spec.table]
    unfilled = table.unfillable((*spec.fields, *(table.added() if spec.added else ())))
    if not unfilled:
        return None
    return Absence(f'"{spec.table}.{unfilled[0]}" needs a value that no argument can give')


def _arguments(spec: Spec, tables: Mapping[str, Table]) -> tuple[Argument, ...]:
    if not spec.table:
        return spec.arguments
    table = tables[spec.table]
    fields = [*spec.fields, *(table.added() if spec.added else ())]
    arguments = [*spec.arguments]
    for field in fields:
        special = _special(spec, field, tables)
        if special is not None:
            arguments.append(special)
        elif field in table.given():
            required = field in spec.required
            arguments.append(table.argument(field, required=required))
    if not spec.creates:
        arguments = [_optional(argument, spec) for argument in arguments]
    if spec.clears:
        arguments.extend(_clear(table, fields))
    return tuple(arguments)


def _special(spec: Spec, field: str, tables: Mapping[str, Table]) -> Argument | None:
    """The arguments that are no plain columns."""
    tasks = tables["tasks"]
    if field == "reason" and "blocked_by" in tasks.columns and "blocked" in tasks.values("status"):
        return Argument("reason", REASON)
    if field == "summary" and _comment_needs_no_more(tables):
        return Argument("summary", SUMMARY)
    if field == "status" and spec.name == "create_task":
        return Argument("status", {"type": "string", "enum": list(first_statuses(tables))})
    return None


def _comment_needs_no_more(tables: Mapping[str, Table]) -> bool:
    """Whether the server can write a comment of which it was told the text alone."""
    tool = _tool(_spec("add_task_comment"), tables)
    if isinstance(tool, Absence):
        return False
    needed = {argument.name for argument in tool.arguments if argument.required}
    return needed <= {"task_id", "author", "body"}


def first_statuses(tables: Mapping[str, Table]) -> Names:
    """The statuses that a new task may have; the first of them is the default."""
    known = tuple(map(str, tables["tasks"].values("status")))
    return tuple(status for status in known if status in ("draft", "pending")) or known[:1]


def _spec(name: str) -> Spec:
    return next(spec for spec in SPECS if spec.name == name)


def _optional(argument: Argument, spec: Spec) -> Argument:
    """A change gives what it changes: a column that must not be empty may be left alone."""
    fixed = {given.name for given in spec.arguments if given.required}
    required = argument.name in fixed or argument.name in spec.required
    return Argument(argument.name, argument.schema, required=required)


def _clear(table: Table, fields: list[str]) -> tuple[Argument, ...]:
    given = table.given()
    names = [argument_name(field) for field in fields if field in given and table.clearable(field)]
    if not names:
        return ()
    items: Value = {"type": "string", "enum": Lines(names)}
    schema: Value = {"type": "array", "description": "fields to empty", "items": items}
    return (Argument("clear", schema),)


def _constants(tables: Mapping[str, Table]) -> dict[str, Values]:
    """The lists of values that the arguments name, by the name of the constant."""
    return {
        table.constant(column): table.values(column)
        for name, table in tables.items()
        if name in PREFIXES
        for column in table.columns
        if table.values(column)
    }


def _tables_module(tables: Mapping[str, Table]) -> Module:
    kinds = {
        tables[name].known(column).kind
        for name in TABLES
        if name in tables
        for column in tables[name].shown()
    }
    described = [
        {
            "constant": emitted.upper(),
            "name": name,
            "keyword": emitted,
            "columns": Lines(
                {column: Name(tables[name].known(column).kind) for column in tables[name].shown()}
            ),
            "added": Lines(list(tables[name].added())),
            "arguments": Lines(
                {
                    column: argument_name(column)
                    for column in tables[name].shown()
                    if argument_name(column) != column
                }
            ),
        }
        for name, emitted in TABLES.items()
        if name in tables
    ]
    first = first_statuses(tables)
    values = {"imports": {*kinds, "Table"}, "tables": described, "first_status": first[0]}
    return Module(f"{KEY}/tables.py", "tables.py.jinja", values)
