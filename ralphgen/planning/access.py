"""The demands of a plan on the database: permissions of the logins of sessions, and indexes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ralphgen.planning import KitPlan, Names
from ralphgen.project.model import ProjectFacts
from ralphgen.project.queries import PreparedQuery
from ralphgen.runtime.policy import ANY, OPTIONAL, RULES, Policy, Recipe
from ralphgen.spelling import sql_name, sql_text

AGENTS = "agents"  # the group of all recipes' roles
SERVICE = "service"  # for the login of a server that many sessions share, over HTTP
LOGINS = "ralphgen_logins"  # maps each login to its session
LONGEST = 63 - len("ralphgen_ffffffff_ffffffff_")  # bytes of a recipe with a role


def role_prefix(schema: str) -> str:
    """Return the SQL of the prefix of a project's roles, which contains two OIDs.

    All databases of a PostgreSQL server share their roles, so a role has the ids of its database
    and schema. The database itself has them: the same file creates the roles of several databases.
    """
    place = sql_text(sql_name(schema))
    database = "(SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"
    ids = (database, f"CAST(to_regnamespace({place}) AS oid)")
    parts = ", '_', ".join(f"to_hex(CAST({one} AS bigint))" for one in ids)
    return f"concat('ralphgen_', {parts}, '_')"


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

CLAIMS, QUESTIONS = "ralphgen_claims", "ralphgen_questions"
LOGIN = "ralphgen_login"  # the function that returns the login that runs it, if it is valid
HOLDER = "ralphgen_holder"  # the same, for a session that has lost its claim

Clauses = Sequence[tuple[str, Sequence[str]]]  # USING and WITH CHECK: one condition must hold
Policies = Mapping[Command, Clauses]
Grants = Sequence[tuple[str, Sequence[str]]]  # a privilege, and the recipes that have it
EVERY_ROW: Clauses = [("USING", ["true"])]  # for any valid login


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a table or view by a tool, in sessions of a recipe.

    `columns` are the columns that the command names; DELETE names none. `rows` is a further
    condition on the row, as SQL that begins with " AND "; empty for any row.
    """

    recipe: str
    tool: str
    command: Command
    table: str
    columns: Names = ()
    rows: str = ""


@dataclass(frozen=True, slots=True)
class KitAccess:
    """Permissions of a kit for the logins of sessions.

    `uses` are the uses of its tools, and `shown` the columns, by table, that every session reads.
    `statuses` are the statuses, by recipe, that a session may give a task, if they are restricted,
    and `first_statuses` the statuses of a new task. Both are empty if the kit has no tasks.
    """

    uses: tuple[Use, ...] = ()
    shown: Mapping[str, Names] = field(default_factory=dict)
    statuses: Mapping[str, Names] = field(default_factory=dict)
    first_statuses: Names = ()


@dataclass(frozen=True, slots=True)
class SecuredTable:
    """A table or view for the template of roles; a command without a policy is forbidden.

    `name` is the SQL identifier and `text` the same as an SQL string; `adding` are the recipes that
    number new rows, and `counting` the privileges they need for that. `writer` is the function that
    returns the login of a session if it may write there. `grants` has the beginning of each GRANT
    and its recipes, as SQL strings, and `writes` is whether one of them writes.
    """

    name: str
    text: str
    adding: str
    counting: str
    writer: str
    grants: Sequence[tuple[str, str]]
    policies: Sequence[tuple[str, Clauses]]
    writes: bool


def secured(
    schema: str, name: str, grants: Grants, policies: Policies, *, writer: str = HOLDER
) -> SecuredTable:
    """Return a table for the template; commands without a policy are forbidden."""
    place = f"{sql_name(schema)}.{sql_name(name)}"
    given: dict[Command, Clauses] = {command: [(CLAUSES[command], [])] for command in COMMANDS}
    adding = [one for granted, roles in grants if granted.startswith("INSERT") for one in roles]
    return SecuredTable(
        name=place,
        text=sql_text(place),
        adding=", ".join(map(sql_text, dict.fromkeys(adding))),
        counting="USAGE, UPDATE" if name == "tasks" else "USAGE",  # by `library.next_number`
        writer=writer,
        grants=[
            (sql_text(f"GRANT {granted} ON {place} TO "), ", ".join(map(sql_text, roles)))
            for granted, roles in grants
        ],
        policies=[*(given | dict(policies)).items()],
        writes=any(granted.startswith(COMMANDS[1:]) for granted, _ in grants),
    )


def used(schema: str, name: str, uses: Iterable[Use], shown: Names | None = None) -> SecuredTable:
    """Return a table of the app, or a view, with the permissions for its uses.

    `shown` are its columns that every session reads, or None if only those uses do.
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
    recipe: Recipe, rules: Mapping[str, str], conditions: Mapping[str, str]
) -> str | None:
    """Return the condition for the rows that a recipe's sessions may name; "" for any row.

    `rules` are the rules of a tool, by argument, and `conditions` the condition of each argument on
    the row. Returns None if a bound argument has no condition.
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
    """Return the privileges on columns, each with the recipes that need just those."""
    grants: list[tuple[str, Sequence[str]]] = []
    for command in COMMANDS:
        columns: dict[str, set[str]] = {}
        for use in uses:
            if use.command == command:
                columns.setdefault(use.recipe, set()).update(use.columns)
        roles: dict[Names, list[str]] = {}
        for recipe, needed in columns.items():
            roles.setdefault(tuple(sorted(needed)), []).append(recipe)
        for names, found in roles.items():
            if command == "DELETE":
                grants.append((command, found))
            elif names:
                grants.append((privilege(command, names), found))
    return grants


def moment_sql(ahead: str = "0") -> str:
    """Return the SQL of the time so many seconds ahead, as claims have it."""
    time = f"(clock_timestamp() + make_interval(secs => {ahead}))"
    return f"to_char({time} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"


ENDING = "UPDATE (ended, outcome)"
CLAIMING = (
    "UPDATE (session, token, taken, expires, host, boot, namespace, pid, started, began, attempts)"
)
PRIVATE = (
    "ralphgen_journal",
    "ralphgen_unfinished",
    "ralphgen_workers",
    "ralphgen_runs",
    "ralphgen_runner",
)


def ledger_tables(schema: str, uses: Sequence[Use]) -> list[SecuredTable]:
    """Return ralphgen's own tables, which every session may read; evidence is read-only.

    Only triggers read or write the journal. `uses` are the uses of all tools.
    """
    read = (
        *("ralphgen_ledger", "ralphgen_evidence", "ralphgen_merges"),
        *("ralphgen_reviews", "ralphgen_order"),
    )
    own_session = "ralphgen_sessions.id = own.session"
    ended: Policies = {
        "SELECT": EVERY_ROW,
        "UPDATE": [
            ("USING", [own_session]),
            ("WITH CHECK", [f"{own_session} AND ralphgen_sessions.outcome = 'ended'"]),
        ],
    }
    ours = "ralphgen_claims.session = own.session AND ralphgen_claims.task_id = own.task_id"
    free = f"(ralphgen_claims.session IS NULL OR ralphgen_claims.expires < {moment_sql()})"
    rows = conditions([use for use in uses if use.table == CLAIMS], "UPDATE")
    released = [f"{condition} AND ralphgen_claims.session IS NULL" for condition in rows]
    claims: Policies = {
        "SELECT": EVERY_ROW,
        "UPDATE": [
            ("USING", [ours, *(f"{condition} AND {free}" for condition in rows)]),
            ("WITH CHECK", [ours, *released]),
        ],
    }
    own_question = [f"{QUESTIONS}.session = own.session"]
    asking = conditions([use for use in uses if use.table == QUESTIONS], "INSERT")
    questions: Policies = {
        "SELECT": EVERY_ROW,
        "INSERT": [("WITH CHECK", [f"{condition} AND {own_question[0]}" for condition in asking])],
        "UPDATE": [("USING", own_question), ("WITH CHECK", own_question)],
    }
    # No session writes an answer.
    may_ask = [
        "SELECT",
        privilege("INSERT", ("task_id", "session", "asked", "question", "options")),
        privilege("UPDATE", ("task_id", "answered", "by")),
    ]
    return [
        *(secured(schema, name, [("SELECT", [AGENTS])], {"SELECT": EVERY_ROW}) for name in read),
        secured(schema, QUESTIONS, [(one, [AGENTS]) for one in may_ask], questions),
        secured(
            schema, "ralphgen_sessions", [(f"SELECT, {ENDING}", [AGENTS])], ended, writer=LOGIN
        ),
        secured(schema, CLAIMS, [(f"SELECT, {CLAIMING}", [AGENTS])], claims, writer=LOGIN),
        *(secured(schema, name, [], {}) for name in PRIVATE),
    ]


STATUS = "status"
REPLACING: tuple[Command, ...] = ("INSERT", "UPDATE")


def query_uses(project: ProjectFacts, kit: KitPlan, policy: Policy) -> Iterator[Use]:
    """Yield the uses of named queries in the sessions of each recipe that has them.

    Queries from `untied_queries` are omitted, because no login may run them.
    """
    for query, recipe, plan in _offered(project, kit, policy):
        rows = _own_rows(query, plan, kit)
        if rows is None:
            continue
        for table, columns in query.names.items():
            yield Use(recipe, query.name, "SELECT", table, columns)
        for command in _commands(query):
            columns = () if command == "DELETE" else query.sets
            yield Use(recipe, query.name, command, query.writes, columns, rows)


def untied_queries(project: ProjectFacts, kit: KitPlan, policy: Policy) -> list[tuple[str, str]]:
    """Return the queries that the login of a recipe may not run, as (query, recipe).

    Its sessions are bound to a row, and the query might write other rows.
    """
    return [
        (query.name, recipe)
        for query, recipe, plan in _offered(project, kit, policy)
        if _own_rows(query, plan, kit) is None
    ]


def status_queries(project: ProjectFacts) -> Names:
    """Return the queries that give tasks a status."""
    return tuple(
        query.name
        for query in (project.queries.prepared if project.queries is not None else ())
        if query.writes == "tasks" and (STATUS in query.sets or "INSERT" in _commands(query))
    )


def _offered(
    project: ProjectFacts, kit: KitPlan, policy: Policy
) -> Iterator[tuple[PreparedQuery, str, Recipe]]:
    for query in project.queries.prepared if project.queries is not None else ():
        for recipe, plan in policy.recipes.items():
            if query.name in plan.tools.get(kit.key, ()):
                yield query, recipe, plan


def _commands(query: PreparedQuery) -> Iterator[Command]:
    commands: tuple[Command, ...] = ("INSERT", "UPDATE", "DELETE")
    for command in commands:
        if query.verb == command or (query.verb == "REPLACE" and command in REPLACING):
            yield command


def _own_rows(query: PreparedQuery, plan: Recipe, kit: KitPlan) -> str | None:
    """Return the condition that a row is the session's, or None if it is unknown."""
    if not query.verb:
        return ""
    rules = plan.bound_arguments.get(f"{kit.key}:{query.name}", {})
    table = sql_name(query.writes)
    conditions = {
        name: f"{table}.{sql_name(query.tied[name])}::text = {OWN[RULES[rule][0]]}::text"
        for name, rule in rules.items()
        if name in query.tied
    }
    return of_own_rows(plan, rules, conditions)


MANY = 10_000
"""Number of tasks above which a missing index matters."""


@dataclass(frozen=True, slots=True)
class TaskIndex:
    """An index on tasks: its keys as SQL, and its purpose."""

    name: str
    keys: Names
    purpose: str
    method: str = ""

    def statement(self, schema: str = "") -> str:
        """Return the SQL that creates the index if its name is free, in a database schema."""
        table = f"{sql_name(schema)}.tasks" if schema else "tasks"
        using = f" USING {self.method}" if self.method else ""
        return f"CREATE INDEX IF NOT EXISTS {self.name} ON {table}{using} ({', '.join(self.keys)});"


def absent_indexes(project: ProjectFacts, found: Collection[Names] = ()) -> tuple[TaskIndex, ...]:
    """Return the missing indexes that the server's queries on tasks can use.

    `found` holds the keys of existing indexes; an index that begins with the keys of another
    replaces it.
    """
    on_sqlite = project.place is None
    title = "title COLLATE NOCASE" if on_sqlite else 'lower(title COLLATE "C")'
    wanted = [
        TaskIndex(
            "tasks_listed", ("feature", "status", "id"), "lists of tasks by feature and status"
        ),
        TaskIndex("tasks_titled", ("feature", title), "title checks of new tasks"),
    ]
    tasks = project.schema.table("tasks")
    for column in tasks.columns if tasks is not None else ():
        if (column.name, column.type) == ("depends_on", "JSON"):
            purpose = "tasks that wait for a task (jsonb)"
            wanted.append(TaskIndex("tasks_needed", (column.name,), purpose, "gin"))
    there = {keys[:length] for keys in found for length in range(1, len(keys) + 1)}
    return tuple(index for index in wanted if index.keys not in there)
