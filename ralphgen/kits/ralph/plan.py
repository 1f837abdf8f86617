"""The decisions of the ralph kit: which tools and arguments a schema has a place for."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ralphgen.kits.ralph.answers import answer_schema
from ralphgen.kits.ralph.columns import PREFIXES, Table, read_table
from ralphgen.kits.ralph.skill import SKILL
from ralphgen.kits.ralph.table_tool import TableTool
from ralphgen.kits.ralph.tools import TOOLS
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
# Emitted name in tables.py, by table; no project is without the first three.
TABLES = {
    "tasks": "tasks",
    "features": "features",
    "disciplines": "disciplines",
    "task_comments": "comments",
    "metadata": "metadata",
}

TARGETS: Mapping[str, Mapping[str, str]] = {
    "ramble": {"feature": "optional"},
    "discuss": {"discipline": "grants"},
    "task_execution": {"task": "required"},
    "opus_review": {"feature": "optional"},
    "enrichment": {"task": "optional"},
}


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a project has no place for a tool."""

    reason: str


def plan_ralph(project: Project) -> KitPlan:
    """Return the server of the ralph kit, with the tools that the project's tables allow."""
    found = {name: read_table(project.schema, name) for name in TABLES}
    tables = {
        name: table for name, (table, _) in found.items() if table is not None and _fits(table)
    }
    planned = {tool.name: _tool(tool, tables) for tool in TOOLS}
    tools = tuple(tool for tool in planned.values() if isinstance(tool, ToolPlan))
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
        targets=TARGETS,
        prompts=True,
        services=True,
        resources=True,
        warnings=tuple(warning for _, warnings in found.values() for warning in warnings),
        skill=SKILL,
    )


def _fits(table: Table) -> bool:
    """Whether a table of this name is the one that is meant."""
    return all(column in table.columns for column in NEEDED.get(table.name, ()))


def _tool(tool: TableTool, tables: Mapping[str, Table]) -> ToolPlan | Absence:
    """Return the tool as the project has a place for it, or why it has none."""
    absence = _missing_need(tool, tables) or _unfilled_column(tool, tables)
    if absence is not None:
        return absence
    values = _known_values(tool, tables)
    useless = {recipe for recipe, left in values.items() if not all(left.values())}
    decided = {
        "description": _description(tool, tables),
        "arguments": _arguments(tool, tables),
        "returns": answer_schema(tool.answer_shape, tables),
        "narrowed_values": values,
        "recipes": tuple(recipe for recipe in tool.recipes if recipe not in useless),
    }
    kept = {field.name: getattr(tool, field.name) for field in fields(ToolPlan)}
    return ToolPlan(**(kept | decided))


def _known_values(tool: TableTool, tables: Mapping[str, Table]) -> dict[str, dict[str, Names]]:
    """Return the values that recipes leave, as far as the columns of the project may hold them."""
    return {
        recipe: {
            column: tuple(value for value in left if value in tables[tool.table].values(column))
            for column, left in values.items()
        }
        for recipe, values in tool.narrowed_values.items()
    }


def _missing_need(tool: TableTool, tables: Mapping[str, Table]) -> Absence | None:
    for need in tool.needs:
        table, _, column = need.partition(".")
        if table not in tables or column not in tables[table].columns:
            return Absence(f'the database has no column "{need}"')
    hidden = {f"tasks.{column.name}" for column in tables["tasks"].unusable}
    for guard in tool.guards:
        if guard in hidden:
            return Absence(f'what "{guard}" holds is hidden, and could forbid it')
    possible = tables["tasks"].values("status")
    for status in tool.statuses:
        if status not in possible:
            return Absence(f'no task can have the status "{status}"')
    return None


def _description(tool: TableTool, tables: Mapping[str, Table]) -> str:
    """Return the tool's sentence, without what it says of columns that the project lacks."""
    notes = [text for column, text in tool.notes if column in tables[tool.table].columns]
    return "; ".join([tool.description.removesuffix("."), *notes]) + "."


def _unfilled_column(tool: TableTool, tables: Mapping[str, Table]) -> Absence | None:
    """Return why a tool that adds a row could never do so, if it could not."""
    if not tool.creates:
        return None
    table = tables[tool.table]
    unfilled = table.unfillable((*tool.fields, *(table.added() if tool.added else ())))
    if not unfilled:
        return None
    return Absence(f'"{tool.table}.{unfilled[0]}" needs a value that no argument can give')


def _arguments(tool: TableTool, tables: Mapping[str, Table]) -> tuple[Argument, ...]:
    if not tool.table:
        return tool.arguments
    table = tables[tool.table]
    fields = [*tool.fields, *(table.added() if tool.added else ())]
    arguments = [*tool.arguments]
    for field in fields:
        special = _special(tool, field, tables)
        if special is not None:
            arguments.append(special)
        elif field in table.given():
            required = field in tool.required
            arguments.append(table.argument(field, required=required))
    if not tool.creates:
        arguments = [_optional(argument, tool) for argument in arguments]
    if tool.clears:
        arguments.extend(_clear(table, fields))
    return tuple(arguments)


def _special(tool: TableTool, field: str, tables: Mapping[str, Table]) -> Argument | None:
    """Return the argument of a field that is no plain column, if it is one."""
    tasks = tables["tasks"]
    if field == "reason" and "blocked_by" in tasks.columns and "blocked" in tasks.values("status"):
        return Argument("reason", REASON)
    if field == "summary" and _comment_needs_no_more(tables):
        return Argument("summary", SUMMARY)
    if field == "status" and tool.name == "create_task":
        return Argument("status", {"type": "string", "enum": list(first_statuses(tables))})
    return None


def _comment_needs_no_more(tables: Mapping[str, Table]) -> bool:
    """Return whether the server can write a comment when it is given the text alone."""
    found = next(tool for tool in TOOLS if tool.name == "add_task_comment")
    tool = _tool(found, tables)
    if isinstance(tool, Absence):
        return False
    needed = {argument.name for argument in tool.arguments if argument.required}
    return needed <= {"task_id", "author", "body"}


def first_statuses(tables: Mapping[str, Table]) -> Names:
    """Return the statuses that a new task may have; the first of them is the default."""
    known = tuple(map(str, tables["tasks"].values("status")))
    return tuple(status for status in known if status in ("draft", "pending")) or known[:1]


def _optional(argument: Argument, tool: TableTool) -> Argument:
    """Return the argument of a change, which may leave alone what must not be empty."""
    fixed = {given.name for given in tool.arguments if given.required}
    required = argument.name in fixed or argument.name in tool.required
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
    """Return the lists of values that arguments refer to, by the name of the constant."""
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
