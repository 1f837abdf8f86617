"""Which rows and columns each recipe's sessions may write, as roles and policies of the database.

What is enforced is what `planning/policy.py` decides: columns by grants to a role for each recipe,
rows by policies that look the session up by its login in the table `ralphgen_logins`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ralphgen.kits.ralph.columns import STAMPED, OfferedTable, first_statuses, offered_tables
from ralphgen.kits.ralph.server.project import LEARNINGS, PROGRESS
from ralphgen.planning.access import CLAIMS, QUESTIONS, Command, KitAccess, Use, of_own_rows
from ralphgen.planning.model import KitPlan, Names
from ralphgen.project.model import ProjectFacts
from ralphgen.runtime.engine.entries import KEPT
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.policy import Policy, Recipe
from ralphgen.spelling import argument_name, sql_name, sql_text

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
FILES = {"append_learning": LEARNINGS, "append_progress": PROGRESS}  # whose entries a tool adds
MASKED = (("disciplines", "mcp_servers"),)  # what tools show of it has no secrets


@dataclass(frozen=True, slots=True)
class RowWrite:
    """What a tool does to the rows of a table.

    `columns` are those that it sets besides the ones of its arguments; a new row also gets its key,
    and what the server stamps it with.
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
            name: tuple(column for column in table.shown() if (name, column) not in MASKED)
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
