"""Which rows and columns each recipe's sessions may write, as roles and policies of PostgreSQL.

What is enforced is what `planning/policy.py` decides: columns by grants to a role for each recipe,
rows by policies that look the session up by its login in the table `ralphgen_logins`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ralphgen.errors import ProjectError
from ralphgen.kits.ralph.columns import STAMPED, OfferedTable, first_statuses, offered_tables
from ralphgen.kits.ralph.server.project import LEARNINGS, PROGRESS
from ralphgen.planning.model import KitPlan, Names, PolicyPlan, RecipePlan
from ralphgen.planning.roles import AGENTS, LONGEST, PREFIX, role
from ralphgen.project.model import Project
from ralphgen.rendering.templates import rendered
from ralphgen.runtime.database.entries import NO_ROW
from ralphgen.runtime.database.ledger import MARKER
from ralphgen.runtime.policy import ANY, RULES
from ralphgen.spelling import argument_name, sql_name, sql_text

Command = Literal["INSERT", "UPDATE", "DELETE"]
COMMANDS: tuple[Command, ...] = ("INSERT", "UPDATE", "DELETE")
CLAUSES = {"INSERT": "WITH CHECK", "UPDATE": "USING", "DELETE": "USING"}
KEYS = {"tasks": "id", "task_comments": "id", "features": "name", "disciplines": "name"}
# The rows of a table that a rule of `runtime.policy` lets a session name; `own` is its login.
ROWS: Mapping[tuple[str, str], str] = {
    ("tasks", "own task"): "{row}.id = own.task_id",
    ("tasks", "own feature"): "{row}.feature = own.feature",
    ("task_comments", "own task"): "{row}.task_id = own.task_id",
    ("task_comments", "task of own feature"): "{row}.task_id IN (SELECT one.id FROM {schema}.tasks "
    "AS one WHERE one.feature = own.feature)",
    ("ralphgen_claims", "own task"): "{row}.task_id = own.task_id",
    ("features", "own feature"): "{row}.name = own.feature",
    ("disciplines", "own discipline"): "{row}.name = own.discipline",
}
OWN = {"task": "own.task_id", "feature": "own.feature", "discipline": "own.discipline"}
MASKED = (("disciplines", "mcp_servers"),)  # what tools show of it has no secrets

Clauses = Sequence[tuple[str, Sequence[str]]]  # USING and WITH CHECK: one condition must hold
Policies = Mapping[str, Clauses]  # by command


@dataclass(frozen=True, slots=True)
class RowWrite:
    """What a tool does to the rows of a table.

    `columns` are those that it sets besides the ones of its arguments; a new row also gets its key,
    and what the server stamps it with.
    """

    command: Command
    table: str
    columns: Names = ()


_NOW = "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS')"
ENDING = "UPDATE (ended, outcome)"
# A line that the session has added to one of the state files; who takes one back is a person.
_LINE = f"""ralphgen_journal.session = own.session AND ralphgen_journal.before IS NULL
            AND ralphgen_journal.table_name IN ({sql_text(LEARNINGS)}, {sql_text(PROGRESS)})
            AND ralphgen_journal.tool IN ('append_learning', 'append_progress')
            AND jsonb_typeof(ralphgen_journal.after::jsonb -> 'line') = 'string'
            AND ralphgen_journal.after::jsonb - 'line' = '{{}}'"""
CLAIM = RowWrite("UPDATE", "ralphgen_claims")
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
}


def access_sql(project: Project, kit: KitPlan, policy: PolicyPlan) -> str:
    """Return the SQL of the roles, grants and policies, which may be run again and again.

    Raises `ProjectError` for a project that is not on PostgreSQL, and for names that no role or
    function can have.
    """
    if project.postgresql is None:
        raise ProjectError(
            "roles are PostgreSQL's: this project is on SQLite",
            'move it with "ralphgen init --engine postgresql" and "ralphgen import FILE --from '
            'sqlite"',
        )
    schema = project.postgresql.schema
    unfit = [
        name
        for name in policy.recipes
        if len(role(name).encode()) > LONGEST or role(name) == AGENTS
    ]
    if unfit or "$" in schema:
        name = f'recipe "{unfit[0]}"' if unfit else f'schema "{schema}"'
        raise ProjectError(f"there can be no roles for the {name}: its name", "choose another")
    tables, _ = offered_tables(project.schema)
    has_ledger = project.schema.table(MARKER) is not None
    own = [_described(schema, table, kit, policy) for table in tables.values()]
    ledger = _ledger(schema, kit, policy) if has_ledger else []
    return rendered(
        "roles.sql.jinja",
        agents=AGENTS,
        first_statuses=first_statuses(tables),
        journaled=[table["name"] for table in own] if has_ledger else [],
        prefix=PREFIX,
        proves=project.done is not None,
        roles=[role(recipe) for recipe in policy.recipes],
        schema=sql_name(schema),
        schema_text=sql_text(schema),
        statuses=sql_text(json.dumps(_statuses(policy, kit))),
        tables=[*own, *ledger],
    )


def _described(
    schema: str, table: OfferedTable, kit: KitPlan, policy: PolicyPlan
) -> dict[str, object]:
    """Return what the template says of a table of the app."""
    grants = [
        (command if command == "DELETE" else _privilege(command, columns), [*map(role, recipes)])
        for command in COMMANDS
        for columns, recipes in _granted(table, kit, policy, command).items()
        if columns or command == "DELETE"
    ]
    policies: Policies = {
        command: [(CLAUSES[command], _conditions(schema, table.name, kit, policy, command))]
        for command in COMMANDS
    }
    shown = [one for one in table.shown() if (table.name, one) not in MASKED]
    read = [(_privilege("SELECT", shown), [AGENTS])] if shown else []
    return _secured(schema, table.name, [*read, *grants], policies)


def _ledger(schema: str, kit: KitPlan, policy: PolicyPlan) -> list[dict[str, object]]:
    """Return what the template says of ralphgen's own tables: of evidence nothing is written."""
    read = ("ralphgen_ledger", "ralphgen_evidence", "ralphgen_unfinished")
    own_session = "ralphgen_sessions.id = own.session"
    ended = {
        "UPDATE": [
            ("USING", [own_session]),
            ("WITH CHECK", [f"{own_session} AND ralphgen_sessions.outcome = 'ended'"]),
        ]
    }
    line = f"ralphgen_journal.row_key = {sql_text(NO_ROW)}"  # of a state file, which all may read
    seen = ("number", "table_name", "before", "after")
    entry = ("time", "session", "tool", "table_name", "row_key", "before", "after")
    ours = "ralphgen_claims.session = own.session AND ralphgen_claims.task_id = own.task_id"
    free = f"(ralphgen_claims.session IS NULL OR ralphgen_claims.expires < {_NOW})"
    rows = _conditions(schema, "ralphgen_claims", kit, policy, "UPDATE")
    released = [f"{condition} AND ralphgen_claims.session IS NULL" for condition in rows]
    claims: Policies = {
        "UPDATE": [
            ("USING", [ours, *(f"{condition} AND {free}" for condition in rows)]),
            ("WITH CHECK", [ours, *released]),
        ],
    }
    return [
        *(_secured(schema, name, [("SELECT", [AGENTS])], {}) for name in read),
        _secured(schema, "ralphgen_sessions", [(f"SELECT, {ENDING}", [AGENTS])], ended),
        _secured(schema, "ralphgen_claims", [("SELECT, UPDATE", [AGENTS])], claims),
        _secured(
            schema,
            "ralphgen_journal",
            [(_privilege("SELECT", seen), [AGENTS]), (_privilege("INSERT", entry), [AGENTS])],
            {"SELECT": [("USING", [line])], "INSERT": [("WITH CHECK", [f"{line} AND {_LINE}"])]},
        ),
    ]


def _secured(
    schema: str,
    name: str,
    grants: Sequence[tuple[str, Sequence[str]]],
    policies: Policies,
) -> dict[str, object]:
    """Return a table for the template; a command without a policy is forbidden to sessions."""
    place = f"{sql_name(schema)}.{sql_name(name)}"
    given: dict[str, Clauses] = {"SELECT": [("USING", ["true"])]}
    given |= {command: [(CLAUSES[command], [])] for command in COMMANDS}
    adding = [one for granted, roles in grants if granted.startswith("INSERT") for one in roles]
    return {
        "name": place,
        "text": sql_text(place),
        "adding": ", ".join(map(sql_name, adding)),  # the roles that number new rows
        "counting": "USAGE, UPDATE" if name == "tasks" else "USAGE",  # by `library.next_number`
        "grants": [(granted, ", ".join(map(sql_name, roles))) for granted, roles in grants],
        "policies": [*(given | dict(policies)).items()],
    }


def _privilege(command: str, columns: Iterable[str]) -> str:
    """Return a privilege on columns."""
    return f"{command} ({', '.join(map(sql_name, columns))})"


def _granted(
    table: OfferedTable, kit: KitPlan, policy: PolicyPlan, command: str
) -> dict[Names, list[str]]:
    """Return the recipes that may run a command on a table, by the columns that they may set."""
    found: dict[Names, list[str]] = {}
    for name, recipe in policy.recipes.items():
        writes = [*_writes(table.name, kit, recipe, command)]
        if not writes:
            continue
        columns: set[str] = set()
        for tool, write in writes:
            columns.update(write.columns)
            keys = {KEYS.get(table.name, ""), "task_id"}
            given = {*_set_by_arguments(table, kit, recipe, tool)}
            if command == "INSERT":
                columns.update(given, keys, STAMPED[table.name])
            if command == "UPDATE":
                columns.update(given - keys)
        kept = () if command == "DELETE" else tuple(one for one in table.columns if one in columns)
        found.setdefault(kept, []).append(name)
    return found


def _writes(
    table: str, kit: KitPlan, recipe: RecipePlan, command: str
) -> Iterable[tuple[str, RowWrite]]:
    """Yield the tools of a recipe that run a command on a table, and how."""
    for tool in recipe.tools.get(kit.key, ()):
        for write in WRITES.get(tool, ()):
            if (write.table, write.command) == (table, command):
                yield tool, write


def _set_by_arguments(
    table: OfferedTable, kit: KitPlan, recipe: RecipePlan, tool: str
) -> Iterable[str]:
    """Yield the columns that the arguments of a tool set, or that name the row."""
    planned = next(one for one in kit.tools if one.name == tool)
    left = recipe.narrowed_arguments.get(f"{kit.key}:{tool}", planned.argument_names)
    for column in table.columns:
        if argument_name(column) in left:
            yield column


def _conditions(
    schema: str, table: str, kit: KitPlan, policy: PolicyPlan, command: str
) -> list[str]:
    """Return when a session may run a command on a row: one of these holds of its login."""
    found: dict[str, dict[str, list[str]]] = {}  # recipes by tools, by the rule on rows
    for name, recipe in policy.recipes.items():
        tools: dict[str, list[str]] = {}
        for tool, _ in _writes(table, kit, recipe, command):
            tools.setdefault(_rows(schema, table, kit, recipe, tool), []).append(tool)
        for rows, names in tools.items():
            found.setdefault(rows, {}).setdefault(",".join(names), []).append(name)
    return [
        f"own.recipe IN ({', '.join(map(sql_text, recipes))}) AND own.tools && "
        f"{sql_text('{' + tools + '}')}{rows}"
        for rows, by_tools in found.items()
        for tools, recipes in by_tools.items()
    ]


def _rows(schema: str, table: str, kit: KitPlan, recipe: RecipePlan, tool: str) -> str:
    """Return the condition on the row that a tool writes in a table, empty for any row."""
    conditions: list[str] = []
    for rule in recipe.bound_arguments.get(f"{kit.key}:{tool}", {}).values():
        kind, reach = RULES[rule]
        if reach == ANY:
            continue
        condition = ROWS[table, rule].format(row=sql_name(table), schema=sql_name(schema))
        if recipe.targets.get(kind) == "optional":
            condition = f"({OWN[kind]} IS NULL OR {condition})"
        conditions.append(f" AND {condition}")
    return "".join(conditions)


def _statuses(policy: PolicyPlan, kit: KitPlan) -> dict[str, list[str]]:
    """Return the statuses that sessions may give a task, by recipe, where they are fewer."""
    values = {
        name: recipe.narrowed_values.get(f"{kit.key}:set_task_status", {}).get("status")
        for name, recipe in policy.recipes.items()
    }
    return {name: [*map(str, left)] for name, left in values.items() if left is not None}
