"""Table uses of the tools on a project's own tables, for the logins of sessions."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ralphgen.kits.tables.columns import ToolTable, offered
from ralphgen.kits.tables.tools import tool_name
from ralphgen.planning.access import OWN, Command, Use
from ralphgen.planning.model import INTERACTIVE, KitPlan, Names
from ralphgen.project.model import ProjectFacts, Schema
from ralphgen.runtime.policy import FULL, Policy, Recipe
from ralphgen.spelling import sql_name

_REFERENCE = re.compile(r"([^.]+)\(([^)]+)\)")  # a column of a table in the same schema


def table_uses(project: ProjectFacts, kit: KitPlan, policy: Policy) -> Iterator[Use]:
    """Yield the uses of the tools on own tables in the sessions of each recipe that has them.

    This includes preliminary look-ups: rows that a row references, and rows that reference it.
    """
    tables, _ = offered(project.tables, project.schema, (), ())
    planned = {tool.name: tool for tool in kit.tools}
    for table in tables:
        for verb in table.served.tools:
            name = tool_name(table, verb)
            for recipe, plan in policy.recipes.items():
                if name in plan.tools.get(kit.key, ()):
                    every = planned[name].argument_names
                    left = plan.narrowed_arguments.get(f"{kit.key}:{name}", every)
                    rows = _own_rows(table, recipe, plan)
                    for command, where, columns in _needs(table, verb, left, project.schema):
                        own = "" if command == "SELECT" else rows
                        yield Use(recipe, name, command, where, columns, own)


def _needs(
    table: ToolTable, verb: str, left: Sequence[str], schema: Schema
) -> Iterator[tuple[Command, str, Names]]:
    """Yield each command that a tool runs, with its table and columns.

    `left` are the arguments that the sessions have.
    """
    name, key, bound = table.served.name, table.served.key, (*dict(table.served.bind),)
    if verb in ("list", "get"):
        yield "SELECT", name, (*table.columns,)
        return
    given = tuple(column for column in table.given() if table.field(column) in left)
    if verb == "create":
        written = tuple(dict.fromkeys((*given, *bound)))
        yield "INSERT", name, written
        yield "SELECT", name, key
        yield from _parents(table, written, schema)
    elif verb == "update":
        written = tuple(column for column in given if column not in key)
        yield "UPDATE", name, written
        yield "SELECT", name, tuple(dict.fromkeys((*key, *bound, *written)))
        yield from _parents(table, written, schema)
    else:
        yield "DELETE", name, ()
        yield "SELECT", name, tuple(dict.fromkeys((*key, *bound)))
        # The deleted row must not be referenced: these columns are read to check that.
        for other in schema.tables:
            for column in other.columns:
                found = _REFERENCE.fullmatch(column.references or "")
                if found and found[1] == table.served.name:
                    for name, one in ((other.name, column.name), (found[1], found[2])):
                        if not schema.hidden(name, one):
                            yield "SELECT", name, (one,)


def _parents(
    table: ToolTable, columns: Iterable[str], schema: Schema
) -> Iterator[tuple[Command, str, Names]]:
    """Yield the reads that check whether the referenced rows exist."""
    for column in columns:
        found = _REFERENCE.fullmatch(table.columns[column].references or "")
        if found and not schema.hidden(found[1], found[2]):
            yield "SELECT", found[1], (found[2],)


def _own_rows(table: ToolTable, recipe: str, plan: Recipe) -> str:
    """Return the condition that a row is the session's; the user's session may have no row.

    The comparison uses text for columns of any type, as `runtime.rows.tools` does.
    """
    found: list[str] = []
    for column, kind in table.served.bind:
        name = f"{sql_name(table.served.name)}.{sql_name(column)}"
        condition = f"{name}::text = {OWN[kind]}::text"
        if (plan.base or recipe) in (INTERACTIVE, FULL):
            condition = f"({OWN[kind]} IS NULL OR {condition})"
        found.append(f" AND {condition}")
    return "".join(found)
