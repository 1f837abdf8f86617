"""Credentials of a session that expire: tokens of HTTP, and logins to PostgreSQL."""

import base64
import getpass
import hashlib
import hmac
import json
import os
import re
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError, Say, UsageError, suggestion
from ralphgen.kits.registry import HOSTS
from ralphgen.ledger.record import session_ids
from ralphgen.planning.access import LOGINS, role_prefix
from ralphgen.project.database import connected, first_line, module_of, no_database
from ralphgen.project.root import (
    ADMIN_DSN,
    DatabasePlace,
    database_location,
    database_name,
    has_database,
)
from ralphgen.runtime.engine.ledger import SESSION_ID
from ralphgen.runtime.errors import StartError, ToolError, one_line
from ralphgen.sessions.claims import claim_during_creation, hand_over, release_claim_of
from ralphgen.sessions.create import OWN_NAME, basis_of, claimed_subject, run_to_end
from ralphgen.sessions.decide import Request, Subject
from ralphgen.sessions.end import ENDED, close_row
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.server_command import no_http, server_command
from ralphgen.sessions.store import new_id
from ralphgen.spelling import sql_name, sql_text

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]


CHANCE = 8  # random bytes in an id: other machines create sessions too, unseen
LONGEST = 24 * 60 * 60  # seconds for which a token may be good


def session_token(
    root: Path, request: Request, seconds: int, *, say: Say, trust_edited: bool
) -> tuple[str, str, Subject]:
    """Return a new session's id, its token, which the project's server signs, and its subject.

    The key is in the variable that `[http]` names. Nothing is written except the claim of the task,
    if `claims_task` requires one; the token contains it, and no process of any machine owns the
    claim. Raises `UsageError` for impossible requests, `UntrustedError`, `ClaimedError`,
    `NothingReadyError`, and `ProjectError` if the project is not served over HTTP or the session
    would not open.
    """
    if request.kits:
        raise UsageError('"--token" does not support "--kit"', 'remove "--kit"')
    if not 0 < seconds <= LONGEST:
        raise UsageError("a token is valid for at most a day", "use 24h or less")
    basis = basis_of(root, request)
    if not basis.project.facts.http:
        raise no_http()
    subject, claim = claimed_subject(basis, request, takes=True, chance=CHANCE)
    with claim_during_creation(claim):
        if subject.base != subject.recipe:
            text = f'the recipe "{one_line(subject.recipe)}" is a row, which tokens do not support'
            raise UsageError(text, f'use "{subject.base}", or add .ralph/recipes/<name>.toml')
        session_id = new_id(root, subject.recipe, subject.subject, CHANCE)
        facts = _claims(session_id, subject)
        if claim is not None:
            facts |= {"jti": claim.session_id, "cla": claim.token, "lea": claim.lease}
            hand_over(claim)
        command = server_command(root, trust_edited=trust_edited, say=say)
        return str(facts["jti"]), signed_token(command, seconds, facts), subject


def revoke_session(root: Path, session_id: str) -> None:
    """End the session of a token on all workers immediately, whichever machine created it.

    Its task is released. Raises `UsageError` for an invalid id, and `ProjectError` if the
    revocation cannot be recorded.
    """
    if not re.fullmatch(SESSION_ID, session_id):
        hint = suggestion(session_id, session_ids(root), "the sessions", "ralphgen log")
        raise UsageError(f'invalid session id "{one_line(session_id)}"', hint)
    revoke_token(root, session_id)
    release_session(root, session_id)


def release_session(root: Path, session_id: str) -> None:
    """Record the end of a session, whichever machine created it, and release its task."""
    close_row(root, session_id)
    release_claim_of(root, session_id, ENDED)


def revoke_token(root: Path, token_id: str) -> None:
    """Record that the tokens of this id open nothing from now on.

    Raises `ProjectError` if that cannot be recorded.
    """
    if not has_database(root):
        raise no_database(database_name(root))
    place = database_location(root)
    try:
        module_of(root, "revocations").revoke(place, token_id)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(
            f'the list of ended sessions next to "{place}" cannot be written: {reason}',
            "check the permissions of its directory",
        ) from error
    except (StartError, ToolError) as error:
        raise ProjectError(f'the list of ended sessions in "{place}": {error}') from error


def _claims(session_id: str, subject: Subject) -> dict[str, object]:
    """Return the claims in a session's token."""
    return {
        "jti": session_id,
        "sub": user_name(),
        "rec": subject.recipe,
        "dis": subject.discipline,
        "fea": subject.feature,
        "tsk": subject.task,
        "tgt": subject.target,
    }


def user_name() -> str:
    """Return the user who creates the token, or "unknown"."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have a user without a name
        return "unknown"


def signed_token(command: tuple[str, ...], seconds: int, claims: Mapping[str, object]) -> str:
    """Return a token of these claims, which the project's server signs.

    `command` starts the server. Raises `ProjectError` if it signs none.
    """
    try:
        done = run_to_end([*command, "--http", "--sign", str(seconds)], json.dumps({**claims}))
    except (OSError, subprocess.TimeoutExpired) as error:
        text = f'"{command[0]}" cannot be run: {error}'
        raise ProjectError(text, 'run "ralphgen doctor"') from error
    if done.returncode:
        said = (done.stderr.splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ProjectError(
            f"the server created no token: {said.removeprefix(OWN_NAME)}",
            "set the variable that [http] names to a key of at least 32 bytes: openssl rand "
            "-hex 32",
        )
    return done.stdout.strip()


CONNECTIONS = 20  # open at once for a login: its servers, and a user's own queries
ROUNDS = 4096  # of SCRAM-SHA-256, as PostgreSQL itself takes them
PERSONAL = ("passfile", "service", "servicefile", "sslcert", "sslkey", "sslpassword")
PATIENCE = 5000  # milliseconds for an ended connection to disappear


@dataclass(frozen=True, slots=True)
class SessionLogin:
    """A login created for a session; or `sql` that creates it, if nothing here may."""

    name: str
    dsn: str
    sql: str
    made: bool


def make_login(place: DatabasePlace, session: PreparedSession, seconds: int) -> SessionLogin:
    """Give a session its own login, valid for `seconds`; remove expired logins of others.

    Without `ADMIN_DSN` nothing is created. Raises `ProjectError` if the database has no roles, or
    none for this recipe, or if it refuses.
    """
    facts = json.loads(session.context.read_bytes())
    password = secrets.token_urlsafe(24)
    expires = datetime.now(UTC) + timedelta(seconds=seconds)
    is_admin = bool(os.environ.get(ADMIN_DSN))
    with connected(_admin(place)) as connection:
        prefix = _role_prefix(connection, place)
        recipe, name = f"{prefix}{facts['base']}", f"{prefix}s_{secrets.token_hex(8)}"
        statements = [
            _creation(name, password, expires, recipe),
            _row(place.schema, name, facts, expires),
        ]
        if is_admin:
            _refuse_without(connection, place, recipe)
            for expired in _expired(connection, place):
                _remove(connection, expired)
            _run(connection, statements)
    dsn = _dsn(place, name, password)
    return SessionLogin(name, dsn, ";\n".join((*statements, "")), made=is_admin)


def _creation(name: str, password: str, expires: datetime, recipe: str) -> str:
    """Return the statement that creates a login with the role of a recipe."""
    return (
        f"CREATE ROLE {sql_name(name)} LOGIN PASSWORD {sql_text(_verifier(password))} "
        f"VALID UNTIL {sql_text(expires.isoformat())} CONNECTION LIMIT {CONNECTIONS} "
        f"IN ROLE {sql_name(recipe)}"
    )


def revoke_login(place: DatabasePlace, session_id: str) -> bool | None:
    """End the login of a session: its later transactions can neither write nor read.

    If `ADMIN_DSN` permits it, its connections are closed and its role is dropped. Returns whether
    it has neither a connection nor a role left, or None if the session has no login; raises
    `ProjectError` if the database is unreachable or refuses.
    """
    table = f"{sql_name(place.schema)}.{LOGINS}"
    with connected(_admin(place)) as connection:
        import psycopg

        if connection.execute("SELECT to_regclass($1)", [table]).fetchone() == (None,):
            return None
        sql = f"UPDATE {table} SET revoked = true WHERE session = $1 RETURNING login"
        try:
            row = connection.execute(sql.encode(), [session_id]).fetchone()
        except psycopg.Error as error:
            raise ProjectError(
                f"the login could not be revoked: {one_line(first_line(error))}",
                f"set {ADMIN_DSN} to the DSN of the owner of {LOGINS}",
            ) from error
        return None if row is None else _remove(connection, row[0])


def _remove(connection: "Connection", login: str) -> bool:
    """Close the connections of a login, and drop it; return whether no connection or role is left.

    A login that owns something in another database cannot be dropped, but can open no connection.
    """
    import psycopg

    name = sql_name(login)
    shut = f"ALTER ROLE {name} NOLOGIN"
    roles = (
        "SELECT roleid::regrole::text FROM pg_catalog.pg_auth_members WHERE member = to_regrole($1)"
    )
    # The creator of the role may close its connections only as one of its members. A member of a
    # session role is subject to its rules, so the login no longer has that role by then.
    member = f"GRANT {name} TO CURRENT_USER"
    ended = "SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity WHERE usename = $1"
    left = (
        "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = $1) AND NOT EXISTS "
        "(SELECT FROM pg_catalog.pg_auth_members WHERE member = to_regrole($2))"
    )
    held = connection.execute(roles, [name]).fetchall()
    left_first = (f"REVOKE {role} FROM {name}" for (role,) in held)
    for statement in (shut, *left_first, member):
        with suppress(psycopg.Error):
            connection.execute(statement.encode())
    with suppress(psycopg.Error):
        connection.execute(ended, [login, PATIENCE])
    with suppress(psycopg.Error), connection.transaction():
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())
    with suppress(psycopg.Error):
        connection.execute(f"REVOKE {name} FROM CURRENT_USER".encode())
    return connection.execute(left, [login, name]).fetchone() == (True,)


def _refuse_without(connection: "Connection", place: DatabasePlace, wanted: str) -> None:
    """Raise `ProjectError` if the roles of sessions are missing, or older than a recipe."""
    sql = "SELECT to_regclass($1) IS NOT NULL, to_regrole($2) IS NOT NULL"
    table = f"{sql_name(place.schema)}.{LOGINS}"
    row = connection.execute(sql, [table, sql_name(wanted)]).fetchone()
    if row != (True, True):
        lacking = "roles for sessions" if row != (True, False) else f'role "{wanted}"'
        raise ProjectError(
            f"the database has no {lacking} yet",
            f'create them as the owner: ralphgen db roles | psql "${ADMIN_DSN}"',
        )


def _role_prefix(connection: "Connection", place: DatabasePlace) -> str:
    """Return the beginning of the names of a project's roles."""
    sql = f"SELECT {role_prefix(place.schema)}"
    ((prefix,),) = connection.execute(sql.encode()).fetchall()
    return str(prefix)


def _expired(connection: "Connection", place: DatabasePlace) -> list[str]:
    """Return the logins that are good no more, and whose roles are there."""
    sql = (
        f"SELECT login FROM {sql_name(place.schema)}.{LOGINS} AS one "
        "JOIN pg_catalog.pg_roles ON rolname = one.login WHERE revoked OR expires < now()"
    )
    return [name for (name,) in connection.execute(sql.encode()).fetchall()]


def _run(connection: "Connection", statements: Sequence[str]) -> None:
    import psycopg

    try:
        with connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())
    except psycopg.Error as error:
        raise ProjectError(
            f"the login could not be created: {one_line(first_line(error))}",
            f"set {ADMIN_DSN} to the DSN of the owner of {LOGINS}, who can grant recipe roles",
        ) from error


def _admin(place: DatabasePlace) -> DatabasePlace:
    return DatabasePlace(ADMIN_DSN, place.schema) if os.environ.get(ADMIN_DSN) else place


def _row(schema: str, name: str, facts: Mapping[str, Any], expires: datetime) -> str:
    """Return the statement that records the session of the login."""
    tools = [tool for key in HOSTS for tool in facts["enabled_tools"].get(key, ())]
    values = {
        "login": sql_text(name),
        "session": sql_text(facts["session_id"]),
        "recipe": sql_text(facts["base"]),
        "tools": f"ARRAY[{', '.join(map(sql_text, tools))}]::text[]",
        "task_id": "NULL" if facts["task_id"] is None else str(int(facts["task_id"])),
        "feature": _text(facts["feature"]),
        "discipline": _text(facts["target_discipline"]),
        "expires": sql_text(expires.isoformat()),
    }
    if "claim" in facts:
        values |= {key: str(int(facts["claim"][key])) for key in ("token", "lease")}
    return (
        f"INSERT INTO {sql_name(schema)}.{LOGINS} ({', '.join(values)}) "
        f"VALUES ({', '.join(values.values())})"
    )


def _text(value: str | None) -> str:
    return "NULL" if value is None else sql_text(value)


def _dsn(place: DatabasePlace, name: str, password: str) -> str:
    """Return the DSN of the session: that of the project, or of the admin, with its login.

    The values of a service in the user's own file are included.
    """
    from psycopg.conninfo import make_conninfo

    from ralphgen.runtime.engine.postgresql.driver import LIMITS, dsn_parameters

    own = place if os.environ.get(place.dsn_env) else _admin(place)
    kept = dsn_parameters(os.environ[own.dsn_env])
    if "service" in kept or os.environ.get("PGSERVICE"):
        with connected(own) as connection:
            known = connection.info.get_parameters()
        kept = {**{key: value for key, value in known.items() if key not in LIMITS}, **kept}
    for personal in PERSONAL:
        kept.pop(personal, None)
    return make_conninfo("", **{**kept, "user": name, "password": password})


def _verifier(password: str) -> str:
    """Return what PostgreSQL stores of a password (RFC 5803), so that its log never shows it."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = (salt, hashlib.sha256(client).digest(), server)
    encoded = [base64.b64encode(part).decode() for part in parts]
    return f"SCRAM-SHA-256${ROUNDS}:{encoded[0]}${encoded[1]}:{encoded[2]}"
