"""Writes the PostgreSQL permissions of session logins: roles, grants and row-level security."""

import json
import re

from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS, USES
from ralphgen.planning import ServerPlan
from ralphgen.planning.access import (
    AGENTS,
    CLAIMS,
    COMMANDS,
    LONGEST,
    SERVICE,
    KitAccess,
    ledger_tables,
    moment_sql,
    role_prefix,
    status_queries,
    untied_queries,
    used,
)
from ralphgen.project.model import ProjectFacts
from ralphgen.project.root import CONFIG, DATABASE
from ralphgen.rendering import rendered
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.engine.postgresql.revocations import MADE
from ralphgen.runtime.policy import Policy
from ralphgen.runtime.tasks.claims import CLOSED, MOST
from ralphgen.spelling import sql_name, sql_text

# The ends of the blocks in the templates. A name that contains one would end its block early.
ENDS = re.compile(
    r"\$(emptied|ended|granted|guard|holder|journal|login|policies|role|roles|secured|service)\$"
)


def access_sql(project: ProjectFacts, plan: ServerPlan) -> str:
    """Return the SQL of the roles, grants and policies, which is safe to run repeatedly.

    Raises `ProjectError` for a project that is not on PostgreSQL or has no server with tools on
    rows, and for names that no role or function can have.
    """
    if project.place is None:
        raise ProjectError(
            "roles require PostgreSQL, but this project uses SQLite",
            f'set engine = "postgresql" below [database] in {CONFIG}, then run "ralphgen import '
            f'{project.database or DATABASE} --from sqlite"',
        )
    schema, policy = project.place.schema, plan.policy
    _refuse_names(schema, policy)
    hosts = {kit.key: kit for kit in KITS if kit.additions}
    server = next((one for one in plan.kits if one.key in hosts), None)
    if server is None:
        raise ProjectError("no enabled kit has tools on rows", "enable one")
    access = hosts[server.key].access
    own = access(project, server, policy) if access is not None else KitAccess()
    uses = (*own.uses, *(use for uses in USES for use in uses(project, server, policy)))
    others = {use.table for use in uses} - {*own.shown, CLAIMS}
    tables = [
        *(used(schema, name, uses, columns) for name, columns in own.shown.items()),
        *(used(schema, name, uses) for name in sorted(others)),
    ]
    if found := ENDS.search(repr((tables, own.statuses, own.first_statuses))):
        text = f'roles cannot be created: a name or a status in the database contains "{found[0]}"'
        raise ProjectError(text, "change it: it would end a block of the SQL")
    has_ledger = project.schema.table(MARKER) is not None
    return rendered(
        "sql/roles.sql.jinja",
        agents=sql_text(AGENTS),
        claims=has_ledger,
        closed=CLOSED,
        most=MOST,
        commands=COMMANDS,
        first_statuses=own.first_statuses,
        journaled=[table.name for table in tables if table.writes] if has_ledger else [],
        now=moment_sql,
        left_out=untied_queries(project, server, policy),
        places=[f"{table.text}::regclass" for table in tables],
        prefix=role_prefix(schema),
        proves=project.done is not None,
        revoked=MADE if project.http else "",
        recipes=[*policy.recipes],
        schema=sql_name(schema),
        schema_text=sql_text(schema),
        service=sql_text(SERVICE),
        status_tools=sql_text(f"{{{','.join(status_queries(project))}}}"),
        statuses=sql_text(json.dumps(dict(own.statuses))),
        tables=[*tables, *(ledger_tables(schema, uses) if has_ledger else [])],
    )


def _refuse_names(schema: str, policy: Policy) -> None:
    """Raise `ProjectError` for names that no role or function can have."""
    unfit = [
        name for name in policy.recipes if len(name.encode()) > LONGEST or name in (AGENTS, SERVICE)
    ]
    if unfit or "$" in schema:
        name = f'recipe "{unfit[0]}"' if unfit else f'schema "{schema}"'
        raise ProjectError(f"no role can be named after the {name}", "rename it")
