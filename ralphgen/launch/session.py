"""Runs an agent in a session from its start to what came of it, on the record."""

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ralphgen.errors import ProgramError, ProjectError, Say
from ralphgen.files import FULL, WRITE_HINT, refuse_full_disk
from ralphgen.launch.agent import Agent, AgentCall, AgentLine, LaunchOptions, OnLine
from ralphgen.launch.outcome import (
    BROKEN,
    CLAIM_LOST,
    CLOSED,
    DONE,
    FAILED,
    NOTHING_USED,
    RATE_LIMITED,
    STOPPED,
    AgentEnd,
    Outcome,
    Usage,
    closes_task,
    outcome_of,
)
from ralphgen.launch.record import (
    close_record,
    open_record,
    read_evidence,
    required_checks,
)
from ralphgen.launch.runner import run_printing, run_terminal
from ralphgen.project.database import opened_database
from ralphgen.project.root import FOLDER, project_home
from ralphgen.project.rows import open_rows
from ralphgen.runtime.engine.ledger import Evidence, unproved_by
from ralphgen.runtime.files.main_tree import is_agents_tree
from ralphgen.runtime.files.work_tree import differing_files, tree_digest, tree_files
from ralphgen.runtime.tasks.claims import claim_of
from ralphgen.sessions.launched import launched_in
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.snapshot import begin_protection, end_protection, read_snapshot
from ralphgen.sessions.store import TRANSCRIPT, remove_inner
from ralphgen.trust.committed import in_repository
from ralphgen.worktrees.record import recorded_tree
from ralphgen.worktrees.trees import current_tree

Limits = tuple[float | None, threading.Event | None, threading.Event | None]
"""How long an agent may run, what ends it, and what does so because its claim is lost."""
CheckEvidence = tuple[str, Evidence | None, str]
"""The name of a check, its last run by a session, and the digest of the files as they are now."""
NO_FAULT = (DONE, STOPPED, CLAIM_LOST, RATE_LIMITED.word)  # outcomes that need no other reason
NOT_RUN = (126, 127)  # exit codes of shells for a program that cannot be run, or is not there
UNPROVED = "It was set to done without the server, so nothing proves that its checks pass."


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """What came of a session: `status` is its task's now, None without a task.

    `changed` are the files of the work tree that differ from what they were, None where no git says
    which belong to it. `checks` says of each check that the task has to pass what came of it.
    `comment` is why a task is pending again that was set done, empty where it is not. `fault` is
    what every other session would fail by too, None if nothing of that kind happened.
    """

    outcome: Outcome
    status: str | None
    usage: Usage
    changed: tuple[str, ...] | None = None
    checks: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    fault: ProgramError | None = None


def launch_session(
    session: PreparedSession,
    agent: Agent,
    options: LaunchOptions,
    *,
    timeout: float | None,
    out: OnLine,
    say: Say,
    stop: threading.Event | None = None,
    lost: threading.Event | None = None,
) -> SessionEnd:
    """Run an agent in the session to its end, and return what came of it; both go on record.

    `out` gets each line of its output where it has no terminal, as it comes. With `stop` this may
    run on any thread: no signal is handled, the agent is ended once the event is set, and `say` is
    called from other threads too. One without a terminal is ended too when the claim is `lost`.
    Raises `UsageError` for options that go with no such session or agent, `ProgramError` if the
    agent cannot be started, and `ProjectError` if it is not with all servers of the session.
    """
    call = agent.call(session, options)
    files = _files(session)
    open_record(session, say, agent=agent.name, model=options.model or session.model)
    _record(lambda: begin_protection(session), say)
    try:
        if options.printing:
            end = _watched(session, agent, call, (timeout, stop, lost), out, say)
        else:
            end = run_terminal(session, agent, call)
    except BaseException:
        close_record(session, FAILED, NOTHING_USED, "", say)
        raise
    finally:
        for name in agent.leftovers:
            remove_inner(session.folder, name)
        where = session.root, session.work_tree
        # Another session that began meanwhile may have taken this one for killed.
        _record(lambda: begin_protection(session), say)
        _record(lambda: end_protection(*where, session.session_id), say)
    status = _status(session, say)
    unproved = status == DONE and _is_unproved(session, say)
    outcome = outcome_of(end, None if unproved else status, closes=closes_task(session))
    changed, evidence = _work(session, files, say)
    fault = None if outcome.word in NO_FAULT else _fault(session, agent, end, evidence)
    if fault is not None and outcome.word not in CLOSED:
        outcome = BROKEN
    close_record(session, outcome, end.usage, end.model, say)
    checks = tuple((name, _proof(run, tree)) for name, run, tree in evidence)
    return SessionEnd(outcome, status, end.usage, changed, checks, UNPROVED * unproved, fault)


def _fault(
    session: PreparedSession, agent: Agent, end: AgentEnd, evidence: Iterable[CheckEvidence]
) -> ProgramError | None:
    """Return why no other session could do its task either, None if none of that is known.

    A program may be missing, a disk full, or a check change the files that it has to prove.
    """
    if end.code in NOT_RUN:
        text = f"{agent.title} ended with exit code {end.code}: a program that it needs is missing"
        return ProgramError(text, agent.install)
    for name, run, _ in evidence:
        if run is not None and (reason := unproved_by(run)):
            return ProgramError(f'check "{name}" gives no proof: {reason}')
        if run is not None and run.exit_code and FULL.search(run.tail):
            text = f'check "{name}" ended with exit code {run.exit_code}: the disk is full'
            return ProgramError(text, WRITE_HINT, run.tail)
    try:
        refuse_full_disk((project_home(session.root) / FOLDER, session.work_tree))
    except ProgramError as error:
        return error
    return None


def _watched(
    session: PreparedSession, agent: Agent, call: AgentCall, limits: Limits, out: OnLine, say: Say
) -> AgentEnd:
    """Run an agent without a terminal, in a session that says so and keeps what it writes."""
    timeout, stop, lost = limits
    with launched_in(session.folder) as asked, _transcript(session, out, say) as write:
        return run_printing(
            session,
            agent,
            call,
            timeout=timeout,
            out=write,
            say=say,
            stop=stop,
            lost=lost,
            asked=asked,
        )


def _is_unproved(session: PreparedSession, say: Say) -> bool:
    """Return whether a task with checks that is done was set so past its server.

    The server lets the task go as it sets it done. If a merge has to follow, it records the tree.
    """
    claim = session.claim
    if claim is not None and is_agents_tree(str(session.work_tree)):
        try:
            return recorded_tree(session.root, session.session_id, claim.task) is None
        except ProjectError as error:
            say(f"warning: {error.problems[0].text}")
            return False
    if claim is None or session.work_tree != session.root or not required_checks(session):
        return False
    try:
        with opened_database(session.root) as database:
            held = database.reading(lambda: claim_of(database, claim.task))
    except ProjectError as error:
        say(f"warning: {error.problems[0].text}")
        return False
    return held is not None and held.session == session.session_id


def _record(record: Callable[[], None], say: Say) -> None:
    """Record the protected files; if that fails, the next session finds out what changed."""
    try:
        record()
    except ProjectError as error:
        say(f"warning: the protected files were not recorded: {error.problems[0].text}")


def _status(session: PreparedSession, say: Say) -> str | None:
    """Return the status of the session's task; None where there is none or nobody can say."""
    if session.task is None:
        return None
    try:
        with open_rows(session.root) as rows:
            return rows.status(session.task)
    except ProjectError as error:
        say(f"warning: {error}")
        return None


def _files(session: PreparedSession) -> dict[str, str] | None:
    """Return what stands for each file of the work tree, None without git."""
    is_known = shutil.which("git") and in_repository(session.work_tree)
    return _current_files(session) if is_known else None


def _current_files(session: PreparedSession) -> dict[str, str]:
    """Return a mark for each file of the work tree, as the session's server would."""
    snapshot = read_snapshot(session.folder)
    return tree_files(str(session.work_tree), snapshot.get("rules"), snapshot.get("protect", ()))


def _work(
    session: PreparedSession, before: dict[str, str] | None, say: Say
) -> tuple[tuple[str, ...] | None, tuple[CheckEvidence, ...]]:
    """Return which files differ from what they were, and the last run of each required check."""
    names = required_checks(session)
    if before is None and not names:
        return None, ()
    files = _current_files(session)
    changed = None if before is None else tuple(differing_files(before, files))
    try:
        evidence = read_evidence(session) if names else {}
        tree = _tree(session, files) if evidence else ""
    except ProjectError as error:
        say(f"warning: {error}")
        return changed, ()
    return changed, tuple((name, evidence.get(name), tree) for name in names)


def _tree(session: PreparedSession, files: dict[str, str]) -> str:
    """Return what evidence has as the tree if it is of the current files.

    In a worktree of ours that is the tree that a merge takes, if the task was closed.
    """
    if not is_agents_tree(str(session.work_tree)):
        return tree_digest(files)
    recorded = None
    if session.task is not None:
        recorded = recorded_tree(session.root, session.session_id, session.task)
    return current_tree(session.root, session.work_tree) if recorded is None else recorded.tree


def _proof(evidence: Evidence | None, tree: str) -> str:
    """Return what came of a check, in words, where the files are now those of this digest."""
    if evidence is None:
        return "not run"
    code = evidence.exit_code
    result = "stopped" if code is None else f"ended with exit code {code}" if code else "passed"
    if unproved_by(evidence):
        result = "changed files, so it gives no proof"
    return result if evidence.tree.split()[0] == tree else f"{result}, and files were changed since"


@contextmanager
def _transcript(session: PreparedSession, shown: OnLine, say: Say) -> Iterator[OnLine]:
    """What takes lines: it keeps them where that is wanted, then passes them on to `shown`."""
    if not session.transcripts:
        yield shown
        return
    path = session.folder / TRANSCRIPT
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        opened = os.open(path, flags, 0o600)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProgramError(f'"{path}" cannot be written: {reason}', WRITE_HINT) from error
    with os.fdopen(opened, "w", encoding="utf-8", errors="replace") as file:
        broken = False

        def write(line: AgentLine) -> None:
            nonlocal broken
            try:
                if not broken:
                    file.write(f"{line.record}\n")
                    file.flush()
            except OSError as error:
                broken = True  # a full disk is no reason to stop the agent
                say(f'warning: "{path}" is not complete: {(error.strerror or "").lower()}')
            shown(line)

        yield write
