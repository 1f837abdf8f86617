"""The kit `ralph`: the project's own database as tools, planned by its schema."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ralphgen.kits.ralph.columns import (
    TABLES,
    OfferedTable,
    first_statuses,
    offered_tables,
    ralph_access,
)
from ralphgen.kits.ralph.tools import (
    NO_CHECKS,
    RUN_CHECKS,
    STATUS,
    TOOLS,
    TableTool,
    answer_schema,
    with_proof,
)
from ralphgen.planning import (
    Argument,
    Constant,
    HttpUse,
    KitPlan,
    Module,
    Names,
    PlannedTool,
    SkillPlan,
    Step,
    Workflow,
    typed,
)
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import ProjectFacts
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.kit import STRINGS
from ralphgen.spelling import Lines, Name, argument_name

WORKFLOWS = (
    Workflow(
        "Do a task and close it",
        (
            Step("Read the task, its comments and its dependencies.", "get_task", {"id": None}),
            Step("Read what earlier sessions learned.", "read_learnings"),
            Step("Mark it as started.", "set_task_status", {"status": "in_progress"}),
            Step("Do the work, and check it against the acceptance criteria."),
            Step("Record surprises.", "append_learning", {"text": None}),
            Step("Log the work.", "append_progress", {"text": None}),
            Step(
                "Close it when everything is done.",
                "set_task_status",
                {"status": "done", "summary": None},
            ),
        ),
        needs=("get_task", "set_task_status"),
    ),
    Workflow(
        "Stop a task that cannot continue",
        (
            Step(
                "Describe what is missing, so that others can answer.",
                "add_task_comment",
                {"task_id": None, "body": None},
            ),
            Step(
                "Close it as blocked, with the reason.",
                "set_task_status",
                {"status": "blocked", "reason": None},
            ),
        ),
        needs=("set_task_status",),
    ),
    Workflow(
        "Plan new work",
        (
            Step("List the features.", "list_features"),
            Step(
                "Add a missing feature.",
                "create_feature",
                {"name": None, "display_name": None},
            ),
            Step("List the disciplines.", "list_disciplines"),
            Step("Look for a duplicate task.", "list_tasks", {"filter_feature": None}),
            Step(
                "Create the task with its dependencies.",
                "create_task",
                {"feature": None, "discipline": None, "title": None, "depends_on": None},
            ),
        ),
        needs=("create_task",),
    ),
    Workflow(
        "Enrich a draft",
        (
            Step("Find the drafts.", "list_tasks", {"filter_status": "draft"}),
            Step("Read one, and the code it concerns.", "get_task", {"id": None}),
            Step("Read its feature.", "get_feature", {"name": None}),
            Step(
                "Add the pseudocode, which makes it pending.",
                "enrich_task",
                {"id": None, "pseudocode": None},
            ),
        ),
        needs=("enrich_task",),
    ),
    Workflow(
        "Review work",
        (
            Step("Find finished tasks.", "list_tasks", {"filter_status": "done"}),
            Step("Read a task, then its code.", "get_task", {"id": None}),
            Step("Record your findings.", "add_task_comment", {"task_id": None, "body": None}),
            Step("Reopen it if it falls short.", "set_task_status", {"status": "pending"}),
            Step(
                "Record lessons for the whole feature.",
                "append_feature_learning",
                {"feature_name": None, "text": None},
            ),
        ),
        needs=("list_tasks", "set_task_status"),
    ),
)
SKILL = SkillPlan(
    name="ralph-project",
    title="The project's tasks, features and disciplines",
    description=(
        "Works with the project's tasks, features, disciplines, comments and learnings. Use when "
        "a task is chosen, done, reviewed, commented on or closed, when work is planned or a draft "
        "enriched, when the user asks about progress, or to save a learning for later sessions."
    ),
    overview={
        "Tasks, features and disciplines": (
            "A task belongs to a feature (a part of the project) and a discipline (an agent role). "
            "A task is ready when all its dependencies are closed. Learnings and progress are for "
            "later sessions. Everything is in the project's database: change it with the tools, "
            "never with SQL or by editing files in .ralph/."
        ),
        "How to close work": (
            "Set the status of a task when you start and when you stop. End a session with done "
            "and a summary of the changes, or with blocked and the reason. Never leave a task in "
            "progress, and never close work that you have not checked. If the session cannot set "
            "a status, list the remaining work in your last answer."
        ),
    },
    workflows=WORKFLOWS,
)


REASON = {"type": "string", "description": "Why the task is blocked."}
SUMMARY = {"type": "string", "description": "Stored as a comment."}
FORCE = typed("force", "boolean", "End the claim of another session.")
QUESTION = typed("question", "string", "Asks the user.")
OPTIONS = Argument("options", STRINGS)
SERVER = KitPlan(
    key="ralph",
    server_name="ralph-project",
    title="The project's tasks, features, disciplines and state files.",
    nouns={
        "tasks": "Tools on tasks and their comments.",
        "checks": "Tools that prove that a task is done.",
        "features": "Tools on features and disciplines.",
        "project": "Tools on the project as a whole, its progress and its learnings.",
    },
    tools=TOOLS,
    workspace=(("tables", "TABLES"),),
    server="ralphgen.kits.ralph.server",
    has_database=True,
    targets={
        "ramble": {"feature": "optional"},
        "discuss": {"discipline": "grants"},
        "task_execution": {"task": "required"},
        "opus_review": {"feature": "optional"},
        "enrichment": {"task": "optional"},
    },
    prompts="prompts",
    brief=True,
    services="services",
    resources=True,
    http=HttpUse(),
    skill=SKILL,
)


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a project has no place for a tool."""

    reason: str


def plan_ralph(project: ProjectFacts) -> KitPlan:
    """Return the server of the ralph kit, with the tools that the project's tables allow."""
    tables, warnings = offered_tables(project.schema)
    planned = {tool.name: _tool(tool, tables) for tool in TOOLS}
    if project.done is None:
        planned[RUN_CHECKS.name] = Absence(NO_CHECKS)
    server = replace(
        SERVER,
        tools=tuple(tool for tool in planned.values() if isinstance(tool, PlannedTool)),
        modules=(_tables_module(tables, project),),
        absent={name: tool.reason for name, tool in planned.items() if isinstance(tool, Absence)},
        warnings=warnings,
    )
    if project.schema.table(MARKER) is not None:
        server = replace(server, connected=True, tools=tuple(map(_with_ledger, server.tools)))
    elif project.place is not None:
        server = replace(server, connected=True)
    return with_proof(server, project)


def _with_ledger(tool: PlannedTool) -> PlannedTool:
    """Return set_task_status with the arguments that need the ledger.

    The user can end the claim of a session, and agents can ask if a task can be blocked.
    """
    if tool.name != "set_task_status":
        return tool
    reserved: dict[str, Names] = {**tool.reserved, FORCE.name: ()}
    more = [FORCE]
    if "reason" in tool.argument_names:
        more += [QUESTION, OPTIONS]
        reserved |= dict.fromkeys((QUESTION.name, OPTIONS.name), ("task_execution",))
    return replace(tool, arguments=(*tool.arguments, *more), reserved=reserved)


def _tool(tool: TableTool, tables: Mapping[str, OfferedTable]) -> PlannedTool | Absence:
    """Return the tool as the project has a place for it, or why it has none."""
    absence = _absence(tool, tables)
    if absence is not None:
        return absence
    # The values that recipes leave, as far as the columns of the project may hold them.
    values = {
        recipe: {
            column: tuple(value for value in left if value in tables[tool.table].values(column))
            for column, left in narrowed.items()
        }
        for recipe, narrowed in tool.narrowed_values.items()
    }
    useless = {recipe for recipe, left in values.items() if not all(left.values())}
    notes = [text for column, text in tool.notes if column in tables[tool.table].columns]
    return replace(
        tool,
        description="; ".join([tool.description.removesuffix("."), *notes]) + ".",
        arguments=_arguments(tool, tables),
        returns=answer_schema(tool.answer_shape, tables),
        narrowed_values=values,
        recipes=tuple(recipe for recipe in tool.recipes if recipe not in useless),
    )


def _absence(tool: TableTool, tables: Mapping[str, OfferedTable]) -> Absence | None:
    """Return why there is no place for a tool, also for one that could never add a row."""
    for need in tool.columns:
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
    if tool.creates:
        for column in tables[tool.table].unfillable(_fields(tool, tables)):
            return Absence(f'"{tool.table}.{column}" needs a value that no argument can give')
    return None


def _fields(tool: TableTool, tables: Mapping[str, OfferedTable]) -> Names:
    """Return the fields of a tool, with columns that SPEC-070 does not know where it takes them."""
    return (*tool.fields, *(tables[tool.table].added() if tool.added else ()))


def _arguments(tool: TableTool, tables: Mapping[str, OfferedTable]) -> tuple[Argument, ...]:
    """Return the arguments that the columns have a place for."""
    status = Constant(tables["tasks"].constant("status"), tables["tasks"].values("status"))
    arguments = [
        replace(one, schema={**STATUS, "enum": status}) if one.schema is STATUS else one
        for one in tool.arguments
    ]
    if not tool.table:
        return tuple(arguments)
    table = tables[tool.table]
    given = [field for field in _fields(tool, tables) if field in table.argument_columns()]
    for field in _fields(tool, tables):
        special = _special(tool, field, tables)
        if special is not None:
            arguments.append(special)
        elif field in given:
            arguments.append(table.argument(field, required=field in tool.required_fields))
    if not tool.creates:  # a change may leave alone what must not be empty
        fixed = {*tool.required_fields, *(one.name for one in tool.arguments if one.required)}
        arguments = [replace(one, required=one.name in fixed) for one in arguments]
    clearable = [argument_name(field) for field in given if table.clearable(field)]
    if tool.clears and clearable:
        items = {"type": "string", "enum": clearable}
        schema = {"type": "array", "description": "fields to empty", "items": items}
        arguments.append(Argument("clear", schema))
    return tuple(arguments)


def _special(tool: TableTool, field: str, tables: Mapping[str, OfferedTable]) -> Argument | None:
    """Return the argument of a field that is no plain column, if it is one."""
    tasks = tables["tasks"]
    if field == "reason" and _takes_reason(tables) and "blocked" in tasks.values("status"):
        return Argument("reason", REASON)
    if field == "summary" and comment_needs_no_more(tables):
        return Argument("summary", SUMMARY)
    if field == "status" and tool.name == "create_task":
        return Argument("status", {"type": "string", "enum": list(first_statuses(tables))})
    return None


def _takes_reason(tables: Mapping[str, OfferedTable]) -> bool:
    """Return whether the reason for a blocked task can be stored: in its row, or as a comment."""
    return "blocked_by" in tables["tasks"].columns or comment_needs_no_more(tables)


def comment_needs_no_more(tables: Mapping[str, OfferedTable]) -> bool:
    """Return whether the server can write a comment when it is given the text alone."""
    found = next(tool for tool in TOOLS if tool.name == "add_task_comment")
    tool = _tool(found, tables)
    if isinstance(tool, Absence):
        return False
    needed = {argument.name for argument in tool.arguments if argument.required}
    return needed <= {"task_id", "author", "body"}


def _tables_module(tables: Mapping[str, OfferedTable], project: ProjectFacts) -> Module:
    found = [(emitted, tables[name]) for name, emitted in TABLES.items() if name in tables]
    kinds = {
        table.column_facts(column).kind for _, table in found for column in table.answer_columns()
    }
    described = [
        {
            "constant": emitted.upper(),
            "name": table.name,
            "keyword": emitted,
            "columns": Lines(
                {column: Name(table.column_facts(column).kind) for column in table.answer_columns()}
            ),
            "added": Lines(list(table.added())),
            "arguments": Lines(
                {
                    column: argument_name(column)
                    for column in table.answer_columns()
                    if argument_name(column) != column
                }
            ),
        }
        for emitted, table in found
    ]
    first = first_statuses(tables)
    values = {
        "imports": {*kinds, "StoredTable", "Tables"},
        "tables": described,
        "first_status": first[0],
        "ledger": project.schema.table(MARKER) is not None,
        "takes_reason": _takes_reason(tables),
        "database": project.place.server_location if project.place else project.database,
    }
    return Module(f"{SERVER.key}/tables.py", "server/tables.py.jinja", values)


RALPH = KitDefinition(SERVER, plan_ralph, access=ralph_access)
