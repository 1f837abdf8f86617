"""Makes and ends the sessions that exist as a token alone: they are served over HTTP."""

import getpass
import json
import re
import subprocess
from pathlib import Path

from ralphgen.errors import ProjectError, Say, UsageError
from ralphgen.project.database import module_of, no_database
from ralphgen.project.root import database_name, database_named, has_database
from ralphgen.runtime.engine.ledger import SESSION_ID
from ralphgen.runtime.errors import StartError, ToolError, one_line
from ralphgen.sessions.claims import hand_over, held_while_made, release_held
from ralphgen.sessions.create import OWN_NAME, basis_of, claimed_subject, run_to_end
from ralphgen.sessions.decide import Request, Subject
from ralphgen.sessions.end import ENDED
from ralphgen.sessions.server_command import no_http, server_command
from ralphgen.sessions.store import new_id

CHANCE = 8  # bytes of it in an id: other machines make sessions too, unseen
LONGEST = 24 * 60 * 60  # seconds for which a token may be good


def session_token(
    root: Path, request: Request, seconds: int, *, say: Say, trust_edited: bool
) -> tuple[str, str, Subject]:
    """Return a new session's id, its token, which the project's server signs, and its subject.

    The key is in the variable that `[http]` names. Nothing is written but that the session holds
    its task, as `claims_task` decides; it is whatever the token says, and no process of any machine
    holds the claim. Raises `UsageError` for what cannot be met, `UntrustedError`, `ClaimedError`,
    `NothingReadyError`, and `ProjectError` where the project is not served over HTTP or the session
    would not open.
    """
    if request.kits:
        raise UsageError('"--token" does not support "--kit"', 'remove "--kit"')
    if not 0 < seconds <= LONGEST:
        raise UsageError("a token is valid for at most a day", "use 24h or less")
    basis = basis_of(root, request)
    if not basis.project.http:
        raise no_http()
    subject, claim = claimed_subject(basis, request, takes=True, chance=CHANCE)
    with held_while_made(claim):
        if subject.base != subject.recipe:
            text = f'the recipe "{one_line(subject.recipe)}" is a row, which tokens do not support'
            raise UsageError(text, f'use "{subject.base}", or add .ralph/recipes/<name>.toml')
        session_id = new_id(root, subject.recipe, subject.shown, CHANCE)
        facts = _claims(session_id, subject)
        if claim is not None:
            facts |= {"jti": claim.session_id, "cla": claim.token, "lea": claim.lease}
            hand_over(claim)
        command = server_command(root, trust_edited=trust_edited, say=say)
        return str(facts["jti"]), _signed(command, seconds, facts), subject


def revoke_session(root: Path, session_id: str) -> None:
    """End the session of a token, whichever machine has made it, on all workers at once.

    The task that it holds is let go.
    Raises `UsageError` for what can be no id, and `ProjectError` where it cannot be written down.
    """
    if not re.fullmatch(SESSION_ID, session_id):
        hint = "find the id in the server's log"
        raise UsageError(f'invalid session id "{one_line(session_id)}"', hint)
    if not has_database(root):
        raise no_database(database_name(root))
    place = database_named(root)
    try:
        module_of(root, "revocations").revoke(place, session_id)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(
            f'the list of ended sessions next to "{place}" cannot be written: {reason}',
            "check the permissions of its directory",
        ) from error
    except (StartError, ToolError) as error:
        raise ProjectError(f'the list of ended sessions in "{place}": {error}') from error
    release_held(root, session_id, ENDED)


def _claims(session_id: str, subject: Subject) -> dict[str, object]:
    """Return what the maker of a token says of its session."""
    return {
        "jti": session_id,
        "sub": _user(),
        "rec": subject.recipe,
        "dis": subject.discipline,
        "fea": subject.feature,
        "tsk": subject.task,
        "tgt": subject.target,
    }


def _user() -> str:
    """Return who makes the token, as far as the machine knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have a user without a name
        return "unknown"


def _signed(command: tuple[str, ...], seconds: int, claims: dict[str, object]) -> str:
    try:
        done = run_to_end([*command, "--http", "--sign", str(seconds)], json.dumps(claims))
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
