"""The row of a session in the ledger: written when it begins, and when its agent has ended."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError, Say
from ralphgen.launch.outcome import Outcome, Usage
from ralphgen.ledger.tables import now, read_state
from ralphgen.project.database import opened_database
from ralphgen.project.git import ask_git
from ralphgen.project.root import project_home
from ralphgen.runtime.engine.ledger import Evidence, close_session, evidence_of, open_session
from ralphgen.sessions.decide import Subject
from ralphgen.sessions.model import PreparedSession

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database


def open_record(session: PreparedSession, say: Say, *, agent: str = "", model: str = "") -> None:
    """Put a session on record that begins now, as `record_begin`.

    `agent` is the program that works in it, empty where another than ralphgen starts one.
    """
    is_home = session.work_tree == project_home(session.root)
    facts = {
        "agent": agent or None,
        "model": model or None,
        "base_commit": _commit(session.work_tree),
        "worktree": None if is_home else str(session.work_tree),
    }
    record_begin(session.root, session.session_id, session, say, **facts)


def record_begin(
    root: Path, session_id: str, subject: Subject | PreparedSession, say: Say, **more: str | None
) -> None:
    """Record that a session begins; a project without a ledger keeps none.

    Warns if the row cannot be written; the session continues without it.
    """
    facts = {
        "recipe": subject.recipe,
        "discipline": subject.discipline,
        "task_id": subject.task,
        "feature": subject.feature,
        "started": now(),
        **more,
    }
    _write(root, lambda database: open_session(database, session_id, facts), say)


def close_record(
    session: PreparedSession, outcome: Outcome, usage: Usage, model: str, say: Say
) -> None:
    """Put on record how a session has ended."""
    facts: Mapping[str, Any] = {
        "ended": now(),
        "outcome": outcome.word,
        "turns": usage.turns,
        "input_tokens": usage.tokens_in,
        "output_tokens": usage.tokens_out,
        "cost_usd": usage.cost,
        **({"model": model} if model else {}),
    }
    _write(session.root, lambda database: close_session(database, session.session_id, facts), say)


def required_checks(session: PreparedSession) -> tuple[str, ...]:
    """Return the names of the checks that the session's task has to pass before it is done."""
    if session.task is None:
        return ()
    try:
        checks = json.loads(session.context.read_bytes())["done"]["checks"]
    except (OSError, ValueError, LookupError, TypeError):
        return ()  # it asks for none
    own = session.discipline
    return tuple(one["name"] for one in checks if own in one.get("disciplines", (own,)))


def read_evidence(session: PreparedSession) -> dict[str, Evidence]:
    """Return the last run of each check by the session, by name.

    Raises `ProjectError` where the database cannot be read.
    """
    if session.task is None or read_state(session.root).version is None:
        return {}
    with opened_database(session.root) as database:
        task = session.task
        found = database.reading(lambda: evidence_of(database, task))
    own = session.session_id
    return {one.check: one for one in reversed(found) if one.session == own}


def _write(root: Path, write: Callable[["Database"], None], say: Say) -> None:
    try:
        if read_state(root).version is None:
            return
        with opened_database(root) as database:
            database.writing(lambda: write(database))
    except ProjectError as error:
        say(f"warning: the session was not recorded: {error.problems[0].text}")


def _commit(root: Path) -> str | None:
    """Return the commit that the work tree comes from, None where there is none."""
    found = ask_git(root, ["rev-parse", "--verify", "--quiet", "HEAD"])
    return (found or b"").decode("ascii").strip() or None
