"""What named queries do with tables and views, for the logins of sessions."""

from collections.abc import Iterator

from ralphgen.planning.access import OWN, Command, Use, of_own_rows
from ralphgen.planning.model import KitPlan, Names, PolicyPlan, RecipePlan
from ralphgen.project.model import Project
from ralphgen.project.queries.model import PreparedQuery
from ralphgen.runtime.policy import RULES
from ralphgen.spelling import sql_name

STATUS = "status"
REPLACING: tuple[Command, ...] = ("INSERT", "UPDATE")


def query_uses(project: Project, kit: KitPlan, policy: PolicyPlan) -> Iterator[Use]:
    """Yield what named queries do in the sessions of each recipe that has them.

    Those that no login may run, as `untied_queries` names them, do nothing.
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


def untied_queries(project: Project, kit: KitPlan, policy: PolicyPlan) -> list[tuple[str, str]]:
    """Return the queries that the login of a recipe may not run, as (query, recipe).

    Its sessions are bound to a row, and nothing tells that the query writes no other.
    """
    return [
        (query.name, recipe)
        for query, recipe, plan in _offered(project, kit, policy)
        if _own_rows(query, plan, kit) is None
    ]


def status_queries(project: Project) -> Names:
    """Return the queries that give tasks a status."""
    return tuple(
        query.name
        for query in (project.queries.prepared if project.queries is not None else ())
        if query.writes == "tasks" and (STATUS in query.sets or "INSERT" in _commands(query))
    )


def _offered(
    project: Project, kit: KitPlan, policy: PolicyPlan
) -> Iterator[tuple[PreparedQuery, str, RecipePlan]]:
    for query in project.queries.prepared if project.queries is not None else ():
        for recipe, plan in policy.recipes.items():
            if query.name in plan.tools.get(kit.key, ()):
                yield query, recipe, plan


def _commands(query: PreparedQuery) -> Iterator[Command]:
    commands: tuple[Command, ...] = ("INSERT", "UPDATE", "DELETE")
    for command in commands:
        if query.verb == command or (query.verb == "REPLACE" and command in REPLACING):
            yield command


def _own_rows(query: PreparedQuery, plan: RecipePlan, kit: KitPlan) -> str | None:
    """Return the condition that a row is the session's, None where it is not known."""
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
