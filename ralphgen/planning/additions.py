"""Plans the project's additions, named queries and own tools, as tools of a kit."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.planning import (
    RECIPES,
    TEXT,
    Argument,
    JsonObject,
    KitPlan,
    PlannedTool,
    ToolData,
    answer_of,
    typed,
)
from ralphgen.planning.policy import BROUGHT, unknown_recipe
from ralphgen.planning.server import Addition
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.model import OwnTool, ProjectFacts
from ralphgen.project.own_tools import FOLDER
from ralphgen.project.queries import PreparedQuery
from ralphgen.runtime import kit as runtime_kit
from ralphgen.runtime.encoding import DIGITS
from ralphgen.runtime.engine.queries import ROWS, SECONDS
from ralphgen.runtime.kit import CURSOR, DESTRUCTIVE, NON_DESTRUCTIVE, READ_ONLY
from ralphgen.runtime.policy import GRANTS, REQUIRED
from ralphgen.spelling import Construction, Lines, Value, constant

OWN_TOOLS = "own_tools"
MODULE = "runtime.own_tools"
ABOUT_OWN_TOOLS = (
    "Some tools are custom functions of the project. Their authors wrote the descriptions and the "
    "error messages. A call is stopped at its time limit."
)
OWN_TOOLS_USED_FOR = "Use it also for the project's custom tools."


def plan_own_tools(project: ProjectFacts, _host: KitPlan) -> Addition:
    """Return the tools of `.ralph/tools` as an addition to a server.

    Raises `ProjectError` for recipes that are not built in.
    """
    if not project.own_tools:
        return Addition()
    problems = [
        unknown_recipe(tool.place, name, project)
        for tool in project.own_tools
        for name in tool.recipes
        if name not in RECIPES
    ]
    if problems:
        raise ProjectError.of(problems)
    return Addition(
        nouns={OWN_TOOLS: f"The project's own tools, from {FOLDER}."},
        tools=tuple(_own_tool(tool) for tool in project.own_tools),
        overview={"Custom tools of the project": ABOUT_OWN_TOOLS},
        used_for=OWN_TOOLS_USED_FOR,
        origins={tool.name: tool.origin for tool in project.own_tools},
    )


def _own_tool(tool: OwnTool) -> PlannedTool:
    about = dict(tool.about)
    function = Construction(
        "OwnFunction",
        (tool.name, tool.file, tool.sha256),
        {
            "seconds": tool.seconds,
            **({"reads": True} if tool.hints == "READ_ONLY" else {}),
            **({"answers": schema} if (schema := json.loads(tool.returns)) else {}),
        },
    )
    return PlannedTool(
        tool.name,
        module=OWN_TOOLS,
        hints=getattr(runtime_kit, tool.hints),
        description=tool.sentence,
        arguments=tuple(
            Argument(
                name,
                json.loads(schema) | ({"description": about[name]} if name in about else {}),
                required=required,
            )
            for name, schema, required in tool.parameters
        ),
        run=f"{MODULE}.own_tool",
        data=ToolData(f"OWN_{tool.name.upper()}", MODULE, function),
        recipes=tool.recipes,
        interactive=tool.interactive,
        bound={name: f"own {row}" for name, row in tool.bind},
        granted_by=()
        if tool.hints == "READ_ONLY"
        else tuple(dict.fromkeys(dict(tool.bind).values())),
        instruction="custom tools: {tools}",
        purpose=f"run a function of the project: {tool.sentence}",
        answer="the result of the function",
    )


QUERIES = "queries"
TITLE = "The project's named queries, from the files in .ralph/queries/."
ABOUT_QUERIES = (
    "A named query answers one question; its arguments are values in the query. A query for one "
    "row returns the row or null, and a query for many rows returns a page: request the next page "
    "with its cursor. If a query fits, prefer it to listing and counting rows."
)
QUERIES_USED_FOR = "Use it also to run the project's named queries."
FUNCTIONS = {"one": "asking", "many": "asking", "exec": "changing"}
ANSWERS = {
    "one": "a row, or null",
    "many": "a page of rows, with a cursor if there are more",
    "exec": "the number of changed rows and their new values",
}
HINTS: Mapping[str, Mapping[str, bool]] = {
    "": READ_ONLY,
    "INSERT": NON_DESTRUCTIVE,
    "REPLACE": DESTRUCTIVE,
    "UPDATE": DESTRUCTIVE,
    "DELETE": DESTRUCTIVE,
}


def plan_queries(project: ProjectFacts, host: KitPlan) -> Addition:
    """Return the tools of a project's named queries, for the server `host`.

    Raises `ProjectError` for unknown recipes, for a query that writes values reserved to task
    tools, and for a query that writes in sessions whose row it is not bound to.
    """
    if project.queries is None:
        return Addition()
    settings = json.loads(project.queries.settings)
    module = f"runtime.engine.{project.engine}.queries"
    problems: list[Problem] = []
    tools: list[PlannedTool] = []
    names: set[str] = set()
    for query in project.queries.prepared:
        said = settings.get(query.name, {})
        problems += _recipe_problems(query, said, host, project)
        problems += _status_problems(query, project)
        name = f"{constant(query.name)}_QUERY"
        if name in names:
            text = f'{query.place}: "{query.name}" differs from another query only in case'
            problems.append(Problem(text, "rename it"))
        names.add(name)
        data = ToolData(name, module, _call(query, settings))
        tools.append(_query_tool(query, said, settings["rows"], data))
    if problems:
        raise ProjectError.of(problems)
    return Addition(
        nouns={QUERIES: TITLE},
        tools=tuple(tools),
        overview={"Named queries": ABOUT_QUERIES},
        used_for=QUERIES_USED_FOR,
        origins={query.name: query.place for query in project.queries.prepared},
    )


def _recipe_problems(
    query: PreparedQuery, said: Mapping[str, Any], host: KitPlan, project: ProjectFacts
) -> Iterator[Problem]:
    """Yield the problems of the recipes of a query."""
    recipes, bound = said.get("recipes", ()), set(said.get("bind", {}).values())
    place = f"{CONFIG}: [queries.{query.name}]"
    for recipe in recipes:
        if recipe not in RECIPES:
            yield unknown_recipe(place, recipe, project)
        elif query.verb and not bound & _certain(recipe, host):
            text = f'{place}: in "{recipe}", "{query.name}" can write rows of other sessions'
            hint = 'bind a parameter to the row of the session: bind = { id = "task" }'
            yield Problem(text, hint)


def _certain(recipe: str, host: KitPlan) -> set[str]:
    """Return the kinds of rows that a session of a recipe is bound to if it has a tool."""
    found = {
        kind for kind, need in host.targets.get(recipe, {}).items() if need in (REQUIRED, GRANTS)
    }
    return found | {brought for kind in found for brought in BROUGHT.get(kind, ())}


def _status_problems(query: PreparedQuery, project: ProjectFacts) -> Iterator[Problem]:
    """Yield a problem for a query that could close a task without proof."""
    if project.done is None or query.writes.lower() != "tasks":
        return
    sets = {column.lower() for column in query.sets}
    if "status" in sets or query.verb in ("INSERT", "REPLACE"):
        text = f'{query.place}: query "{query.name}" could close a task without its checks'
        yield Problem(text, "add tasks and set their status only with the task tools")


def _query_tool(
    query: PreparedQuery, said: Mapping[str, Any], rows: int, data: ToolData
) -> PlannedTool:
    return PlannedTool(
        query.name,
        module=QUERIES,
        hints=HINTS[query.verb],
        description=f"{query.description.removesuffix('.')}.",
        arguments=tuple(_arguments(query, rows)),
        returns=_returns(query),
        run=f"{data.module}.{FUNCTIONS[query.kind]}",
        data=data,
        recipes=tuple(said.get("recipes", ())),
        interactive=said.get("interactive", True),
        bound={name: f"own {kind}" for name, kind in said.get("bind", {}).items()},
        granted_by=tuple(dict.fromkeys(said.get("bind", {}).values())) if query.verb else (),
        instruction="named queries of the project: {tools}",
        purpose=f"run a query of the project: {query.description.removesuffix('.')}",
        answer=ANSWERS[query.kind],
    )


def _arguments(query: PreparedQuery, rows: int) -> Iterator[Argument]:
    for one in query.parameters:
        rules: JsonObject = {} if one.default is None else {"default": one.default}
        kind = one.type
        if kind == "decimal":
            kind, rules = "string", {"format": DIGITS, **rules}
        yield typed(one.name, kind, one.description, required=not one.optional, **rules)
    if query.kind == "many":
        yield typed("limit", "integer", minimum=1, maximum=rows)
        yield Argument("cursor", CURSOR)


def _returns(query: PreparedQuery) -> JsonObject:
    """Return the JSON Schema of rows, or of a row or null; empty for the answer to a change."""
    row: JsonObject = {"properties": {name: TEXT for name, _ in query.columns}}
    if query.kind == "one":
        return answer_of(row=row)
    rows: JsonObject = {"type": "array", "items": {"type": "object", **row}}
    return answer_of(rows=rows, next_cursor=TEXT) if query.kind == "many" else {}


def _call(query: PreparedQuery, settings: Mapping[str, Any]) -> Construction:
    """Return the emitted query: its deviations from the defaults, and the columns it reads."""
    defaults = {one.name: one.default for one in query.parameters if one.default is not None}
    keywords: dict[str, Value] = {}
    if query.parameters:
        keywords["parameters"] = tuple(one.name for one in query.parameters)
    if defaults:
        keywords["defaults"] = defaults
    if query.reads:
        keywords["reads"] = Lines({table: list(columns) for table, columns in query.reads.items()})
    if query.views and not query.verb:
        keywords["views"] = Lines(dict(query.views))
    if settings["seconds"] != SECONDS:
        keywords["seconds"] = settings["seconds"]
    if settings["rows"] != ROWS:
        keywords["rows"] = settings["rows"]
    return Construction("Query", (query.name, query.kind, query.sql), keywords)
