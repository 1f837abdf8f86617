"""The workers of a project: machines that take tasks over HTTP, each by a token."""

import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ralphgen.errors import MissingError, Say, UsageError, suggestion
from ralphgen.kits.project import Project
from ralphgen.ledger.tables import now, read_state
from ralphgen.project.database import open_database, opened_database
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.tasks.merges import drop_worker
from ralphgen.sessions.claims import INTERRUPTED, refuse_without_ledger, release_claim
from ralphgen.sessions.credentials import LONGEST, revoke_token, signed_token, user_name
from ralphgen.sessions.end import close_row
from ralphgen.sessions.model import TaskClaim
from ralphgen.sessions.server_command import no_http, server_command

if TYPE_CHECKING:
    from ralphgen.project.database import Snapshot

NAME = re.compile("[a-z0-9][a-z0-9-]{0,39}")
CHANCE = 8  # random bytes in the id of a token
_ALL = "SELECT name, merge, expires, seen, host, revoked FROM ralphgen_workers ORDER BY name"


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker; `merge` lets it run the merge queue. Times are ISO 8601 in UTC, None if unknown.

    `seen` is when it last called, from the machine `host`.
    """

    name: str
    merge: bool
    expires: str
    seen: str | None
    host: str | None
    revoked: str | None

    @property
    def state(self) -> str:
        """Whether its token works: active, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires <= now() else "active"

    def as_json(self) -> dict[str, object]:
        """Return the worker as values of JSON."""
        return asdict(self) | {"state": self.state}


def add_worker(
    root: Path, name: str, seconds: int, *, merge: bool, say: Say, trust_edited: bool
) -> str:
    """Return the token of a new worker, valid for so many seconds; it is stored nowhere.

    Replaces a worker of this name that was revoked or has expired. Raises `UsageError` for an
    invalid name or time and for an active worker, and `ProjectError` if the project is not served
    over HTTP or has no ledger.
    """
    if not NAME.fullmatch(name):
        text = f'invalid name "{one_line(name[:100])}"'
        raise UsageError(text, "use at most 40 lower-case letters, digits and hyphens")
    if not 0 < seconds <= LONGEST:
        raise UsageError("a token is valid for at most a day", "use 24h or less")
    project = Project(root, as_served=True)
    if not project.facts.http:
        raise no_http()
    refuse_without_ledger(project.schema)
    token_id = f"worker-{name}-{secrets.token_hex(CHANCE)}"
    command = server_command(root, trust_edited=trust_edited, say=say)
    facts = {"jti": token_id, "sub": user_name(), "wrk": name}
    token = signed_token(command, seconds, facts)
    expires = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with opened_database(root) as database:

        def add() -> None:
            known = next(_workers(database, name), None)
            if known is not None and known.state == "active":
                text = f'there is a worker "{name}"'
                raise UsageError(text, f'revoke it with "ralphgen worker revoke {name}"')
            database.change("DELETE FROM ralphgen_workers WHERE name = ?", [name])
            sql = "INSERT INTO ralphgen_workers (name, token, merge, expires) VALUES (?, ?, ?, ?)"
            database.change(sql, [name, token_id, int(merge), expires])

        database.writing(add)
    return token


def list_workers(root: Path) -> list[WorkerRecord]:
    """Return the workers by name, none without a ledger."""
    if read_state(root).version is None:
        return []
    with open_database(root) as database:
        return [*_workers(database)]


def revoke_worker(root: Path, name: str) -> list[str]:
    """Revoke the token of a worker, end its sessions and release their tasks; return the sessions.

    Its waiting entries in the merge queue are dropped; their branches remain.
    A task that is done and not entered for its merge is pending again. A further call completes an
    interrupted one. Raises `MissingError` if there is no such worker.
    """
    refuse_without_ledger(Project(root).schema)
    with opened_database(root) as database:

        def revoke() -> str:
            row = database.row("SELECT token FROM ralphgen_workers WHERE name = ?", [name])
            if row is None:
                names = [one.name for one in _workers(database)]
                hint = suggestion(name, names, "the workers", "ralphgen worker list")
                raise MissingError(f'there is no worker "{one_line(name[:100])}"', hint)
            sql = "UPDATE ralphgen_workers SET revoked = coalesce(revoked, ?) WHERE name = ?"
            database.change(sql, [now(), name])
            drop_worker(database, name)
            return str(row[0])

        token_id = database.writing(revoke)
        sql = "SELECT id, task_id FROM ralphgen_sessions WHERE worker = ? AND ended IS NULL"
        sessions = database.reading(lambda: database.rows(sql, [name]))
    revoke_token(root, token_id)
    project = Project(root)
    for session, task in sessions:
        revoke_token(root, session)
        text = "Its worker was revoked."
        release_claim(TaskClaim(project, session, task, 0), INTERRUPTED, text, reopens=True)
        close_row(root, session)
    return [session for session, _ in sessions]


def _workers(database: "Snapshot", name: str = "") -> Iterator[WorkerRecord]:
    for row in database.rows(_ALL):
        if name in ("", row[0]):
            yield WorkerRecord(row[0], bool(row[1]), *row[2:])
