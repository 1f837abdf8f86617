"""What a project's own tools may ask of the server, which has the database."""

from __future__ import annotations

import re

from ..errors import ToolError
from ..statements.tools import in_child
from ..values import check_arguments, nearest, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .tools import OwnFunction

MOST_ROWS = 10_000
_WORDS = {
    "rows": ("SELECT", "VALUES", "WITH", "EXPLAIN"),
    "write": ("INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"),
}
_FIRST = r"(?s)(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]*)"
_PARTS = r"(?s)'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|::|:([A-Za-z_]\w*)|\?"


def answer(workspace: Any, tool: OwnFunction, asked: dict[str, Any]) -> Any:
    """Return what a tool asks for, or a `DeferredResult` that waits for it.

    Raises `ToolError` where it may not, or asks for nothing.
    """
    what = asked.get("ask")
    if what in _WORDS:
        return stating(tool)(workspace, asked)
    if what == "query":
        return _query(workspace, tool, asked)
    if what == "run":
        return _check(workspace, tool, str(asked.get("check")))
    raise ToolError(f"a tool cannot ask for {shortened(what)}")


def placed(sql: str, parameters: Mapping[str, object]) -> tuple[str, list[object]]:
    """Return a statement with "?" for each `:name`, and the values in their order.

    Raises `ToolError` for a name that has no value, and for a value that nothing asks for.
    """
    values: list[object] = []
    used: set[str] = set()

    def place(found: re.Match[str]) -> str:
        name = found[1]
        if found[0] == "?":
            raise ToolError('the statement contains "?": use named parameters, such as ":name"')
        if name is None:
            return " " if found[0].startswith(("--", "/*")) else found[0]
        if name not in parameters:
            raise ToolError(f'the statement uses ":{name}", but no such parameter was passed')
        used.add(name)
        values.append(_value(parameters[name]))
        return "?"

    text = re.sub(_PARTS, place, sql)
    if left := sorted({*parameters} - used):
        raise ToolError(f'the statement does not use the parameter ":{left[0]}"')
    return text, values


def _value(given: object) -> object:
    if isinstance(given, dict) and [*given] == ["bytes in hex"]:
        return bytes.fromhex(given["bytes in hex"])
    if given is None or isinstance(given, str | int | float):
        return given
    raise ToolError(f"a parameter is {shortened(given)}: expected a string, a number or None")


@in_child
def stating(tool: OwnFunction) -> Callable[[Any, dict[str, Any]], Any]:
    """Return what runs a statement of a tool."""
    return lambda workspace, asked: _statement(workspace, tool, str(asked["ask"]), asked)


def _statement(workspace: Any, tool: OwnFunction, what: str, asked: dict[str, Any]) -> Any:
    """Run one statement that reads or writes."""
    sql = str(asked.get("sql"))
    first = re.match(_FIRST, sql)
    if first is None or first[1].upper() not in _WORDS[what]:
        expected = ", ".join(_WORDS[what])
        raise ToolError(f"project.{what} requires one statement of these: {expected}")
    text, values = placed(sql, asked.get("parameters") or {})
    if what == "write":
        return _written(workspace, tool, text, values)
    return _read(workspace, tool, text, values)


def _read(
    workspace: Any, tool: OwnFunction, sql: str, values: list[object]
) -> list[dict[str, Any]]:
    statements = workspace.database.statements
    database = statements.reader(workspace, tool.hide)

    def work() -> list[dict[str, Any]]:
        workspace.refuse_moved_schema()
        rows = statements.read_records(database, sql, values, MOST_ROWS + 1, tool.hide)
        return [{name: _shown(value) for name, value in row.items()} for row in rows]

    found: list[dict[str, Any]] = _tried(database.reading, work)
    if len(found) > MOST_ROWS:
        raise ToolError(f"there are more than {MOST_ROWS:,} rows: ask for fewer with LIMIT")
    return found


def _written(workspace: Any, tool: OwnFunction, sql: str, values: list[object]) -> dict[str, Any]:
    if tool.reads:
        raise ToolError(
            f'"{tool.name}" is declared read-only: ask the user to declare it as writing'
        )
    database = workspace.database

    def work() -> dict[str, Any]:
        workspace.refuse_moved_schema()
        workspace.tool = tool.name
        write_records = database.statements.write_records
        rows, changed = write_records(database, sql, values, MOST_ROWS, tool.hide)
        shown = [{name: _shown(value) for name, value in row.items()} for row in rows]
        return {"changed": max(changed, 0), "rows": shown}

    by_rules = _service(workspace, "write_by_rules")

    def transaction(write: Callable[[], Any]) -> Any:
        if by_rules is None:
            return database.writing(write)
        return by_rules(workspace, {"write": write})

    done: dict[str, Any] = _tried(transaction, work)
    return done


def _tried(transaction: Callable[[Callable[[], Any]], Any], work: Callable[[], Any]) -> Any:
    """Return what comes of a transaction; an error of the tool's own SQL is told as it is."""
    told: list[str] = []

    def noting() -> Any:
        try:
            return work()
        except ToolError:
            raise
        except Exception as error:
            told[:] = [str(error).partition("\n")[0]]
            raise

    try:
        return transaction(noting)
    except ToolError as error:
        if told and "doctor" in str(error):  # said where nothing else is known
            raise ToolError(f"the database refuses this statement: {told[0]}") from error
        raise


def _shown(value: object) -> object:
    """Return a value of a column as JSON can hold it."""
    if value is None or isinstance(value, str | int | float | list | dict):
        return value
    if isinstance(value, bytes | memoryview):
        return {"bytes in hex": bytes(value).hex()}
    return str(value)


def _query(workspace: Any, tool: OwnFunction, asked: dict[str, Any]) -> Any:
    """Return what a named query answers."""
    name = str(asked.get("name"))
    try:
        tools = __import__(f"{workspace.session.kit}.queries", None, None, ["TOOLS"]).TOOLS
    except ImportError:
        tools = ()
    queries = {one.name: one for one in tools}
    if name not in queries:
        near = nearest(name, queries)
        hint = f': did you mean "{near}"?' if near else ""
        raise ToolError(f"there is no query {shortened(name)}{hint}")
    query = queries[name]
    if tool.reads and not query.hints.get("readOnlyHint"):
        raise ToolError(f'"{tool.name}" is declared read-only, but the query "{name}" writes')
    given = check_arguments(query.input_schema(), asked.get("parameters"))
    return query.function()(workspace, given)


def _check(workspace: Any, tool: OwnFunction, name: str) -> Any:
    """Run a check of the project, by a service of the kit that has them."""
    if tool.reads:
        raise ToolError(
            f'"{tool.name}" is declared read-only, but a check runs commands: ask the user to '
            "declare it as writing"
        )
    run = _service(workspace, "run_check")
    if run is None:
        raise ToolError("the project has no checks")
    return run(workspace, {"check": name})


def _service(workspace: Any, name: str) -> Callable[[Any, dict[str, Any]], Any] | None:
    """Return a service of the session's kit, None where it has no such thing."""
    found: Callable[[Any, dict[str, Any]], Any] | None
    found = __import__(workspace.session.kit).KIT.import_services().get(name)
    return found
