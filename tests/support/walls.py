"""A project on PostgreSQL with the roles of sessions, and logins of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from postgresql import PASSWORD, database
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ralphgen.kits.access import access_sql
from ralphgen.kits.project import Project
from ralphgen.runtime.policy import Recipe


@dataclass
class Walled:
    """A project on PostgreSQL with roles; `dsn` is of the owner of its tables."""

    root: Path
    dsn: str
    made: Project

    def sql(self, **recipes: Recipe) -> str:
        """Return the SQL of the roles, with further recipes."""
        policy = copy(self.made.plan.policy)
        policy.recipes = {**policy.recipes, **recipes}
        return access_sql(self.made.facts, replace(self.made.plan, policy=policy))

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement as the owner, and return its rows."""
        return run(self.dsn, sql)

    def role(self, recipe: str) -> str:
        """Return the quoted name of the role of a recipe."""
        return str(self.run(f"SELECT ralphgen_role('{recipe}')")[0][0])

    @contextmanager
    def login(
        self,
        recipe: str,
        *,
        task: int | None = None,
        feature: str = "",
        target: str = "",
        token: int | None = None,
    ) -> Iterator[str]:
        """The DSN of a login for a session, as `ralphgen session create --login` makes it."""
        rows = {"task_id": task, "feature": feature or None, "target_discipline": target or None}
        rows |= {"token": token}
        tools = [*next(iter(self.made.plan.policy.recipes[recipe].tools.values()))]
        name = f"ralphgen_s_{uuid4().hex[:16]}"
        role = self.role(recipe)
        self.run(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' IN ROLE {role}")
        try:
            with psycopg.connect(self.dsn, autocommit=True) as owner:
                owner.execute(
                    "INSERT INTO ralphgen_logins (login, session, recipe, tools, task_id, feature, "
                    "discipline, token, expires) VALUES (%s, 'test', %s, %s, %s, %s, %s, %s, "
                    "now() + interval '1 hour')",
                    [name, recipe, tools, *rows.values()],
                )
            yield make_conninfo(self.dsn, user=name)
        finally:
            self.run(f"DELETE FROM ralphgen_logins WHERE login = '{name}'; DROP ROLE {name}")


ROLES = """
SELECT rolname::regrole::text FROM pg_roles
WHERE NOT rolcanlogin AND starts_with(rolname, ralphgen_role(''))
"""


@contextmanager
def copied(walled: Walled, sql: str = "") -> Iterator[str]:
    """The DSN of a copy of the database, with its own roles; `sql` is run there before."""
    with database(str(conninfo_to_dict(walled.dsn)["dbname"])) as dsn:
        if sql:
            run(dsn, sql)
        run(dsn, walled.sql())
        try:
            yield dsn
        finally:
            for (role,) in run(dsn, ROLES):
                run(dsn, f"DROP OWNED BY {role}; DROP ROLE {role}")


def run(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


def refused(dsn: str, sql: str) -> str:
    """Return PostgreSQL's message for a refusal; empty if a statement changed no row."""
    with psycopg.connect(dsn) as connection:
        try:
            changed = connection.execute(sql.encode()).rowcount
        except psycopg.Error as error:
            return str(error)
        connection.rollback()
    assert changed == 0, f"{sql}: {changed} rows"
    return ""
