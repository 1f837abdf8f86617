"""What logins of sessions may do in the database: the uses of tools, as grants and policies."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ralphgen.planning.model import Names, RecipePlan
from ralphgen.planning.roles import AGENTS, role
from ralphgen.runtime.policy import ANY, OPTIONAL, RULES
from ralphgen.spelling import sql_name, sql_text

Command = Literal["SELECT", "INSERT", "UPDATE", "DELETE"]
COMMANDS: tuple[Command, ...] = ("SELECT", "INSERT", "UPDATE", "DELETE")
CLAUSES: Mapping[Command, str] = {
    "SELECT": "USING",
    "INSERT": "WITH CHECK",
    "UPDATE": "USING",
    "DELETE": "USING",
}
OWN = {"task": "own.task_id", "feature": "own.feature", "discipline": "own.discipline"}
"""The row that a session is about, by its kind; `own` is its login."""

CLAIMS = "ralphgen_claims"
LOGIN = "ralphgen_login"  # the function that returns the login that runs it, as long as it is good
HOLDER = "ralphgen_holder"  # the same, but for a session that has lost its claim

Clauses = Sequence[tuple[str, Sequence[str]]]  # USING and WITH CHECK: one condition must hold
Policies = Mapping[Command, Clauses]
Grants = Sequence[tuple[str, Sequence[str]]]  # a privilege, and the roles that have it
EVERY_ROW: Clauses = [("USING", ["true"])]  # as long as the login is good


@dataclass(frozen=True, slots=True)
class Use:
    """What a tool does with rows of a table or view, in sessions of a recipe.

    `columns` are those that the command names, none for DELETE. `rows` is what has to hold of the
    row besides, as SQL that begins with " AND "; empty where it may be any.
    """

    recipe: str
    tool: str
    command: Command
    table: str
    columns: Names = ()
    rows: str = ""


@dataclass(frozen=True, slots=True)
class KitAccess:
    """What a kit leaves to the logins of sessions.

    `uses` are those of its own tools, and `shown` the columns, by table, that every session reads.
    `statuses` are those that a task may be given, by recipe, where they are fewer than all, and
    `first_statuses` those of a new one; none where the kit has no tasks.
    """

    uses: tuple[Use, ...] = ()
    shown: Mapping[str, Names] = field(default_factory=dict)
    statuses: Mapping[str, Names] = field(default_factory=dict)
    first_statuses: Names = ()


@dataclass(frozen=True, slots=True)
class SecuredTable:
    """A table or view as the template of roles takes it; a command without a policy is forbidden.

    `name` is spelled in SQL and `text` is that as a text of SQL; `adding` are the roles that number
    new rows, and `counting` what they need for that. `writer` is the function that returns the
    login of a session as long as it may write there.
    """

    name: str
    text: str
    adding: str
    counting: str
    writer: str
    grants: Sequence[tuple[str, str]]
    policies: Sequence[tuple[str, Clauses]]


def secured(
    schema: str, name: str, grants: Grants, policies: Policies, *, writer: str = HOLDER
) -> SecuredTable:
    """Return a table for the template; what no policy is given for is left to nobody."""
    place = f"{sql_name(schema)}.{sql_name(name)}"
    given: dict[Command, Clauses] = {command: [(CLAUSES[command], [])] for command in COMMANDS}
    adding = [one for granted, roles in grants if granted.startswith("INSERT") for one in roles]
    return SecuredTable(
        name=place,
        text=sql_text(place),
        adding=", ".join(map(sql_name, dict.fromkeys(adding))),
        counting="USAGE, UPDATE" if name == "tasks" else "USAGE",  # by `library.next_number`
        writer=writer,
        grants=[(granted, ", ".join(map(sql_name, roles))) for granted, roles in grants],
        policies=[*(given | dict(policies)).items()],
    )


def used(schema: str, name: str, uses: Iterable[Use], shown: Names | None = None) -> SecuredTable:
    """Return a table of the app, or a view, with what its uses need.

    `shown` are the columns that every session reads of it, None where only those uses do.
    """
    own = [use for use in uses if use.table == name]
    policies: dict[Command, Clauses] = {
        command: [(CLAUSES[command], conditions(own, command))] for command in COMMANDS
    }
    if shown is not None:
        policies["SELECT"] = EVERY_ROW
    read = [(privilege("SELECT", shown), [AGENTS])] if shown else []
    return secured(schema, name, [*read, *_granted(own)], policies)


def privilege(command: str, columns: Iterable[str]) -> str:
    """Return a privilege on columns."""
    return f"{command} ({', '.join(map(sql_name, columns))})"


def conditions(uses: Iterable[Use], command: Command) -> list[str]:
    """Return when a session may run a command on a row: one of these holds of its login."""
    tools: dict[tuple[str, str], list[str]] = {}  # by the condition on the row, and recipe
    for use in uses:
        if use.command == command:
            tools.setdefault((use.rows, use.recipe), []).append(use.tool)
    recipes: dict[tuple[str, str], list[str]] = {}  # by the condition on the row, and tools
    for (rows, recipe), names in tools.items():
        recipes.setdefault((rows, ",".join(dict.fromkeys(names))), []).append(recipe)
    return [
        f"own.recipe IN ({', '.join(map(sql_text, found))}) AND own.tools && "
        f"{sql_text('{' + names + '}')}{rows}"
        for (rows, names), found in recipes.items()
    ]


def of_own_rows(
    recipe: RecipePlan, rules: Mapping[str, str], conditions: Mapping[str, str]
) -> str | None:
    """Return the condition that a row is one that a recipe's sessions may name; "" for any row.

    `rules` are those of a tool, by argument, and `conditions` what each argument means for the row;
    None where one is bound and nothing tells what it means.
    """
    found: list[str] = []
    for argument, rule in rules.items():
        kind, reach = RULES[rule]
        if reach == ANY:
            continue
        if argument not in conditions:
            return None
        condition = conditions[argument]
        if recipe.targets.get(kind) == OPTIONAL:
            condition = f"({OWN[kind]} IS NULL OR {condition})"
        found.append(f" AND {condition}")
    return "".join(found)


def _granted(uses: Sequence[Use]) -> Grants:
    """Return the privileges on columns, each with the roles of the recipes that need just those."""
    grants: list[tuple[str, Sequence[str]]] = []
    for command in COMMANDS:
        columns: dict[str, set[str]] = {}
        for use in uses:
            if use.command == command:
                columns.setdefault(use.recipe, set()).update(use.columns)
        roles: dict[Names, list[str]] = {}
        for recipe, needed in columns.items():
            roles.setdefault(tuple(sorted(needed)), []).append(role(recipe))
        for names, found in roles.items():
            if command == "DELETE":
                grants.append((command, found))
            elif names:
                grants.append((privilege(command, names), found))
    return grants
