"""Looks over a project's database in PostgreSQL: whether it answers, and what stands between."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError
from ralphgen.planning.access import LOGINS
from ralphgen.project.database import connected
from ralphgen.project.root import DatabasePlace, place_name
from ralphgen.spelling import sql_name

if TYPE_CHECKING:
    import psycopg

_VERSION = "SELECT pg_catalog.current_setting('server_version')"
_BACKEND = "SELECT pg_catalog.pg_backend_pid()"
POOLED = (
    "a pooler assigns each transaction another connection: servers are not notified of "
    "changes and poll instead"
)


def look_at(place: DatabasePlace) -> Iterator[tuple[str, str]]:
    """Yield what is found, each with what to do about it, which is empty where all is well."""
    try:
        with connected(place) as first, connected(place) as second:
            (version,) = first.execute(_VERSION).fetchone() or ("",)
            yield f"{place_name(place)}: PostgreSQL {version} responds", ""
            if _is_pooled(first, second):
                yield POOLED, f"set {place.dsn_env} to the database itself, or use session pooling"
    except ProjectError as error:
        yield error.problems[0].text, error.problems[0].hint


def proof_is_walled(place: DatabasePlace) -> str:
    """Return whether a session's own login keeps it from writing the proof that a task is done.

    Raises `ProjectError` where the database cannot be read.
    """
    with connected(place) as connection:
        table = f"{sql_name(place.schema)}.{LOGINS}"
        row = connection.execute("SELECT to_regclass($1) IS NOT NULL", [table]).fetchone()
    if row == (True,):
        return "protected: sessions with their own login cannot write proof"
    return f"not protected: everyone with {place.dsn_env} can write proof; see docs/roles.md"


def _is_pooled(first: "psycopg.Connection[Any]", second: "psycopg.Connection[Any]") -> bool:
    """Return whether two connections that are open at once are seen to be served by one process.

    While the second is in a transaction, a pooler that goes by transactions gives the first
    another process than before.
    """
    before = first.execute(_BACKEND).fetchone()
    with second.transaction():
        other = second.execute(_BACKEND).fetchone()
        after = first.execute(_BACKEND).fetchone()
    return other == before or after != before
