"""Launches one agent in one session, and records the outcome."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from ralphgen.agents.agent import (
    BLOCKED,
    BROKEN,
    CLAIM_LOST,
    CLOSED,
    DONE,
    FAILED,
    NO_LIMIT,
    NOTHING_USED,
    RATE_LIMITED,
    STOPPED,
    UNAVAILABLE,
    Agent,
    AgentCall,
    AgentEnd,
    AgentLine,
    LaunchOptions,
    Limit,
    OnLine,
    Outcome,
    OutputReader,
    Usage,
    closes_task,
    outcome_of,
)
from ralphgen.agents.process import (
    AskedToStopError,
    ClaimLostError,
    Complain,
    OutOfTimeError,
    Running,
    session_servers,
    watched,
)
from ralphgen.agents.sandbox import Sandbox, current_sandbox, run_in_terminal
from ralphgen.errors import ProgramError, ProjectError, RalphgenError, Say, harmless, plain
from ralphgen.exchange.branch import keep_rows
from ralphgen.files import FULL, WRITE_HINT, refuse_full_disk
from ralphgen.ledger.tables import now, read_state
from ralphgen.project.database import open_database, opened_database
from ralphgen.project.git import ask_git, in_repository
from ralphgen.project.root import FOLDER, ProjectPlace, project_home
from ralphgen.project.schema import open_rows
from ralphgen.runtime.engine.ledger import (
    Evidence,
    charge_session,
    close_session,
    open_session,
    unproved_by,
)
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import write_new
from ralphgen.runtime.files.main_tree import is_agents_tree
from ralphgen.runtime.files.work_tree import differing_files, tree_digest, tree_files
from ralphgen.runtime.processes.secrets import Masker, passed_on
from ralphgen.runtime.session import BY_CLIENT
from ralphgen.runtime.system import SESSION_VARIABLE
from ralphgen.runtime.tasks.claims import PENDING, claim_of
from ralphgen.runtime.tasks.status import last_runs
from ralphgen.sessions.claims import ASKED, keep_claim
from ralphgen.sessions.create import create_session
from ralphgen.sessions.decide import Request, Subject
from ralphgen.sessions.end import end_session
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.questions import last_question
from ralphgen.sessions.snapshot import (
    begin_protection,
    current_tree,
    end_protection,
    read_snapshot,
    recorded_tree,
)
from ralphgen.sessions.store import CLIENT, OURS_ALONE, TRANSCRIPT, launched_in, remove_inner

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

TERMINAL = "/dev/tty"
SHOWN = 200  # characters of a line that is not an event
COMPLAINTS = 4  # error lines of a session that a loop reports, besides the last
LONGEST = 8_000  # bytes that are kept of a line
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

SandboxRules = Mapping[str, Any] | None
"""The rules of `runtime/processes/sandbox.py` for a contained agent."""
Asked = Callable[[], bool]
"""Returns whether somebody has asked that an agent ends."""
Handler = Callable[[int, FrameType | None], object]


class StoppedError(Exception):
    """A signal asks us to end; `number` is which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_printing(
    session: PreparedSession,
    agent: Agent,
    call: AgentCall,
    *,
    timeout: float | None,
    out: OnLine,
    say: Say,
    stop: threading.Event | None = None,
    lost: threading.Event | None = None,
    asked: Asked = lambda: False,
    sandbox: SandboxRules = None,
) -> AgentEnd:
    """Run an agent without a terminal; `out` gets each line of its output that is an event.

    `timeout` is in seconds. With `stop`, this may run on any thread: the caller handles signals,
    the agent is stopped once the event is set, and its error output is reported at the end. Without
    it, signals stop the agent, and each line of its error output is reported. It is also stopped
    once that is `asked`, and once `lost` is set: the session can no longer write, and its task may
    belong to another one. Raises `ProjectError` if its program is missing, and as soon as its
    output shows that a server or a tool of the session is missing. In every case all of its
    processes are ended.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    reader, mask, code, by_person = agent.reader(session), Masker(), 0, 0
    out_of_time = claim_lost = False
    handled = _handling(_stop_us, *_ENDINGS) if stop is None else nullcontext()
    complain = _line_reporter(mask, say) if stop is None else _error_reporter(agent, mask, say)
    running = None

    def ends() -> bool:
        return asked() or (stop is not None and stop.is_set())

    try:
        with handled, _started(session, agent, call, complain, ends, lost, sandbox) as running:
            for line in running.lines(deadline):
                _take(line, reader, running, agent, mask, out, say)
            code = running.wait()
            reader.close(code, running.complaint)
        if reader.refusal is not None:
            raise reader.refusal()
    except OutOfTimeError:
        out_of_time = True
        reader.close(None, running.complaint if running is not None else "")
        say(f"the session reached its time limit of {timeout:g} s: {agent.title} was stopped")
    except ClaimLostError:
        claim_lost = True
        say(f"the session lost the claim on its task: {agent.title} was stopped")
    except (AskedToStopError, KeyboardInterrupt):
        by_person = signal.SIGINT
    except StoppedError as stopped:
        by_person = stopped.number
    else:
        # Details that the output of an agent that ended by itself does not show.
        if code < 0:
            say(f"{agent.title} was ended by signal {-code}")
        elif code and not reader.ended:
            say(f"{agent.title} ended with exit code {code}")
        elif code == 0 and not reader.started:
            say(f"{agent.title} ended without listing its servers and tools")
            say('hint: options after "--" must not change its output format')
    end = reader.end(code, by_person=by_person, out_of_time=out_of_time)
    return replace(end, claim_lost=claim_lost)


def run_terminal(
    session: PreparedSession, agent: Agent, call: AgentCall, sandbox: SandboxRules = None
) -> AgentEnd:
    """Let the user talk with an agent in this terminal.

    Ctrl-C is for the agent alone, which shares our process group; other signals that would end us
    are passed to it instead. If our own standard input is a file or a pipe, as when the prompt came
    through it, the agent still reads from the terminal. Raises `ProjectError` if its program or a
    terminal is missing.
    """
    command = (find_program(agent), *call.argv[1:])
    with _handling(_ignore, signal.SIGINT), _handling(_stop_us, *_ENDINGS), watched() as marked:
        variables = {**_environment(session, agent, call.variables), **marked}
        folder = session.work_tree
        with _terminal() as given, _explained(call):
            if sandbox is not None:
                return run_in_terminal(command, str(folder), variables, sandbox, given)
            process = subprocess.Popen(command, cwd=folder, stdin=given, env=variables)
        try:
            code = process.wait()
        except StoppedError as stopped:
            process.send_signal(stopped.number)
            return AgentEnd(process.wait(), by_person=stopped.number)
    return AgentEnd(code, by_person=signal.SIGINT if code == -signal.SIGINT else 0)


def _take(
    line: str,
    reader: OutputReader,
    running: Running,
    agent: Agent,
    mask: Masker,
    out: OnLine,
    say: Say,
) -> None:
    """Process the next line; raise an error if the session cannot continue."""
    found = reader.parse_line(line)
    if reader.refusal is not None:
        running.stop()  # first, because asking a server for its problem takes a while
        raise reader.refusal()
    if found is not None:
        record = found.record
        if mask.text(record) != record:
            record = json.dumps(mask.value(json.loads(record)))
        out(replace(found, record=record, texts=tuple(map(mask.text, found.texts))))
    elif line.strip():
        say(f"{agent.name}: {harmless(mask.text(line)[:SHOWN])}")


def _error_lines(mask: Masker, take: Say) -> Complain:
    """Return what takes errors in pieces, and passes on each line without secrets."""
    kept = b""

    def complain(data: bytes) -> None:
        nonlocal kept
        *whole, kept = (kept + data).split(b"\n")
        kept = kept[-LONGEST:]  # an endless line
        if not data:  # nothing more comes
            whole, kept = [kept], b""
        for line in filter(None, (one.decode(errors="replace").rstrip() for one in whole)):
            take(mask.text(line))

    return complain


def _line_reporter(mask: Masker, say: Say) -> Complain:
    """Return a function that reports each error line of an agent, as long as anyone reads them."""

    def take(line: str) -> None:
        with suppress(OSError):
            say(line)

    return _error_lines(mask, take)


def _error_reporter(agent: Agent, mask: Masker, say: Say) -> Complain:
    """Return a function that reports an agent's first error lines, and at its end the last one."""
    said, last = 0, ""

    def take(line: str) -> None:
        nonlocal said, last
        if line.strip():
            said, last = said + 1, f"{agent.name}: {harmless(line.strip()[:SHOWN])}"
            if said <= COMPLAINTS:
                say(last)

    lines = _error_lines(mask, take)

    def complain(data: bytes) -> None:
        lines(data)
        if not data and said > COMPLAINTS:
            if said > COMPLAINTS + 1:
                say(f"{agent.name}: … {said - COMPLAINTS - 1:,} more lines …")
            say(last)

    return complain


def line_writer(out: TextIO, *, raw: bool) -> OnLine:
    """Return a function that writes an agent's lines to `out` without delay.

    `raw` writes its events, one JSON object per line; otherwise it writes lines for users.
    """

    def write(line: AgentLine) -> None:
        lines = [_encodable(line.record, out)] if raw else line.texts
        out.writelines(f"{_printable(text, out)}\n" for text in lines)
        out.flush()

    return write


def _encodable(record: str, out: TextIO) -> str:
    """Return the line, or equivalent ASCII JSON if `out` cannot encode it."""
    return record if _printable(record, out) == record else json.dumps(json.loads(record))


def _printable(text: str, out: TextIO) -> str:
    encoding = out.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def _started(
    session: PreparedSession,
    agent: Agent,
    call: AgentCall,
    complain: Complain,
    stop: Asked,
    lost: threading.Event | None,
    sandbox: SandboxRules,
) -> Iterator[Running]:
    command = (find_program(agent), *call.argv[1:])
    variables = _environment(session, agent, call.variables)
    with _explained(call):
        running = Running(
            command,
            call.given,
            session.work_tree,
            variables,
            complain=complain,
            stop=stop,
            lost=lost,
            sandbox=sandbox,
        )
    with running:
        try:
            yield running
        except KeyboardInterrupt:
            running.interrupt()
            raise


def _environment(session: PreparedSession, agent: Agent, more: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an agent, with the mark that identifies it to commands."""
    inherited = passed_on(str(session.root / FOLDER), to_agent=True, also=agent.variables)
    return {**inherited, **more, SESSION_VARIABLE: session.session_id}


def find_program(agent: Agent) -> str:
    """Return the path of the agent's program; raises `ProjectError` if it is not on PATH."""
    around = current_sandbox()
    found = around.search(agent.program) if around else shutil.which(agent.program)
    if found is None:
        text = f'{agent.title} is not installed ("{harmless(agent.program)}" is not on PATH)'
        raise ProgramError(text, f"{agent.install}, or choose another agent with --agent")
    return found


@contextmanager
def _terminal() -> Iterator[int]:
    """Return the terminal to read from."""
    if os.isatty(0):
        yield 0
        return
    try:
        found = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise ProjectError("there is no terminal for a conversation", 'add "--print"') from error
    try:
        yield found
    finally:
        os.close(found)


@contextmanager
def _explained(call: AgentCall) -> Iterator[None]:
    """Turn a system error about a program into a message."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProgramError(
            f'"{harmless(call.argv[0])}" cannot be run: {reason}',
            "check that it runs in your shell",
        ) from error


@contextmanager
def _handling(handler: Handler, *signals: signal.Signals) -> Iterator[None]:
    """Let `handler` take the signals in the block; a program that is started gets none of it."""
    kept = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, former in kept.items():
            signal.signal(number, former)


def _stop_us(number: int, _frame: FrameType | None) -> NoReturn:
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)  # a second one must not break off the clean-up
    raise StoppedError(number)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ctrl-C while an agent has the terminal."""


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


def record_estimate(session: PreparedSession, estimate: float, say: Say) -> None:
    """Record the estimated cost of a session in US dollars, whose agent has reported none."""
    _write(
        session.root,
        lambda database: charge_session(database, session.session_id, estimate),
        say,
    )


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

    Raises `ProjectError` if the database cannot be read.
    """
    if session.task is None or read_state(session.root).version is None:
        return {}
    with open_database(session.root) as database:
        return last_runs(database, session.session_id, session.task)


def _write(root: Path, write: Callable[["Database"], None], say: Say) -> None:
    try:
        if read_state(root).version is None:
            return
        with opened_database(root) as database:
            database.writing(lambda: write(database))
    except ProjectError as error:
        say(f"warning: the session was not recorded: {error.problems[0].text}")


def _commit(root: Path) -> str | None:
    """Return the commit that is checked out in the worktree, or None."""
    found = ask_git(root, ["rev-parse", "--verify", "--quiet", "HEAD"])
    return (found or b"").decode("ascii").strip() or None


Endings = tuple[float | None, threading.Event | None, threading.Event | None]
"""How long an agent may run, what ends it, and what does so because its claim is lost."""
CheckEvidence = tuple[str, Evidence | None, str]
"""The name of a check, its last run by a session, and the digest of the files as they are now."""
# Outcomes that need no other reason.
NO_FAULT = (DONE, STOPPED, CLAIM_LOST, RATE_LIMITED.word, UNAVAILABLE.word)
NOT_RUN = (126, 127)  # exit codes of shells for a program that cannot be run, or is not there
UNPROVED = "It was set to done without the server, so nothing proves that its checks pass."


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The result of a session: `status` is its task's current status, None without a task.

    `changed` are the files of the worktree that have changed, or None if git does not track it.
    `checks` are the checks that the task requires, with their results. `comment` is why a closed
    task is pending again, or empty. `fault` is an error that would affect every other session too,
    or None. `limit` is that of a rate limited agent, and `unavailable` why an agent accepts no
    sessions at all. `question` is the number of the session's question to the user, or None.
    """

    outcome: Outcome
    status: str | None
    usage: Usage
    changed: tuple[str, ...] | None = None
    checks: tuple[tuple[str, str], ...] = ()
    comment: str = ""
    fault: ProgramError | None = None
    limit: Limit = NO_LIMIT
    unavailable: str = ""
    question: int | None = None


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
    sandbox: Sandbox | None = None,
) -> SessionEnd:
    """Run an agent in the session to its end, and return the result; both are recorded.

    Without a terminal, `out` gets each line of its output as it comes. With `stop` this may run on
    any thread: no signal is handled, the agent is stopped once the event is set, and `say` is
    called from other threads too. An agent without a terminal is also stopped when the claim is
    `lost`. Raises `UsageError` for options that do not fit the session or agent, `ProgramError` if
    the agent cannot be started, and `ProjectError` if it lacks a server of the session.
    """
    with _inside(session, agent, sandbox) as (view, rules):
        call = agent.call(view, options)
        return _launched(session, agent, options, call, (timeout, stop, lost), out, say, rules)


@contextmanager
def _inside(
    session: PreparedSession, agent: Agent, sandbox: Sandbox | None
) -> Iterator[tuple[PreparedSession, SandboxRules]]:
    """Yield the session as its agent sees it, and the rules of its sandbox, None without one."""
    if sandbox is None:
        yield session, None
        return
    with sandbox.entered(session, agent, _environment(session, agent, {})) as found:
        yield found


def _launched(
    session: PreparedSession,
    agent: Agent,
    options: LaunchOptions,
    call: AgentCall,
    limits: Endings,
    out: OnLine,
    say: Say,
    sandbox: SandboxRules,
) -> SessionEnd:
    is_known = shutil.which("git") and in_repository(session.work_tree)
    files = _current_files(session) if is_known else None
    open_record(session, say, agent=agent.name, model=options.model or session.model)
    _record(lambda: begin_protection(session), say)
    try:
        if options.printing:
            end = run_watched(session, agent, call, limits, out, say, sandbox)
        else:
            end = run_terminal(session, agent, call, sandbox)
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
    is_open = session.claim is not None and status in (BLOCKED, PENDING)
    question = last_question(session.root, session.session_id) if is_open else None
    reached = None if unproved else status if question is None else ASKED
    outcome = outcome_of(end, reached, closes=closes_task(session))
    changed, evidence = _work(session, files, say)
    fault = None if outcome.word in NO_FAULT else _fault(session, agent, end, evidence)
    if fault is not None and outcome.word not in CLOSED:
        outcome = BROKEN
    close_record(session, outcome, end.usage, end.model, say)
    checks = tuple((name, _proof(run, tree)) for name, run, tree in evidence)
    comment = UNPROVED * unproved
    more = end.limit, end.unavailable, question
    return SessionEnd(outcome, status, end.usage, changed, checks, comment, fault, *more)


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


def run_watched(
    session: PreparedSession,
    agent: Agent,
    call: AgentCall,
    limits: Endings,
    out: OnLine,
    say: Say,
    sandbox: SandboxRules = None,
) -> AgentEnd:
    """Run an agent as `run_printing`, in a session marked as launched, and keep its output.

    Nothing is recorded in the database.
    """
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
            sandbox=sandbox,
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
    """Return the status of the session's task, or None without a task or if it is unknown."""
    if session.task is None:
        return None
    try:
        with open_rows(session.root) as rows:
            return rows.status(session.task)
    except ProjectError as error:
        say(f"warning: {error}")
        return None


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
    """Return the result of a check in words; `tree` is the digest of the current files."""
    if evidence is None:
        return "not run"
    code = evidence.exit_code
    result = "stopped" if code is None else f"ended with exit code {code}" if code else "passed"
    if unproved_by(evidence):
        result = "changed files, so it gives no proof"
    return result if evidence.tree.split()[0] == tree else f"{result}, and files were changed since"


@contextmanager
def _transcript(session: PreparedSession, shown: OnLine, say: Say) -> Iterator[OnLine]:
    """Yield a function that passes lines on to `shown`, and keeps a transcript if requested."""
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


CONVERSATION = (
    "CLAUDE_CODE_SESSION_ID"  # its id, which Claude Code gives the servers that it starts
)
ENDING = ("SIGTERM", "SIGINT", "SIGHUP")  # signals with which a client ends a server, if they exist


def serve_session(
    place: ProjectPlace,
    request: Request,
    *,
    say: Say,
    trust_edited: bool,
    options: Sequence[str] = (),
) -> int:
    """Run the server of the requested kit in a new session, to its end.

    Standard input and output are the server's. The session works in the place's worktree, claims
    its task as long as this process lives, and ends with it: a task that is still in_progress then
    becomes pending. Untrusted items are refused, since the user cannot be asked. The server also
    gets `options`. Returns its exit code; raises the errors of `create_session`.
    """
    session = create_session(
        place.root,
        request,
        say=say,
        ask=lambda _shown: False,
        work_tree=place.work_tree,
        trust_edited=trust_edited,
        user=BY_CLIENT,
    )
    try:
        if conversation := os.environ.get(CONVERSATION):  # for the hooks of the plugin
            write_new(str(session.folder / CLIENT), conversation.encode(), mode=OURS_ALONE)
        open_record(session, say)
        (entry,) = [session_servers(session)[kit] for kit in request.kits]
        with keep_claim(session.claim):
            return _run([entry["command"], *entry["args"], *options])
    finally:
        with suppress(RalphgenError):  # claims of a running server expire
            end_session(place.root, session.session_id)
        keep_rows(place.root, say)


def _run(command: list[str]) -> int:
    """Return the exit code of a server, which is ended when this process is."""
    with subprocess.Popen(command) as server:

        def end(_number: int, _frame: FrameType | None) -> None:
            server.terminate()

        for name in ENDING:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), end)
        return server.wait()


HELD = "in_progress"
SAID = {"open": "left open"}  # words for outcomes with another display name
NAMED = 10  # files that are named


def last_lines(session: PreparedSession, end: SessionEnd) -> Iterator[str]:
    """Yield the result of the session, its usage, and the location of its record."""
    word = SAID.get(end.outcome.word, end.outcome.word)
    yield f"{_task(session, end)}: {', '.join([word, *_used(end.usage)])}"
    if end.status == HELD:
        again = f"ralphgen task status {session.task} pending"
        yield f"task {session.task} is still {HELD}, but no session works on it:"
        yield f'review the changes, then launch it again or release it with "{again}"'
    if end.changed is not None:
        yield f"changed: {_names(end.changed)}"
    for name, result in end.checks:
        yield f"check {one_line(name)}: {result}"
    if (session.folder / TRANSCRIPT).exists():
        yield f"transcript: {session.folder / TRANSCRIPT}"


def _task(session: PreparedSession, end: SessionEnd) -> str:
    if session.task is None:
        return f"session {session.session_id}"
    status = "does not exist any more" if end.status is None else f"is {one_line(end.status)}"
    return f"task {session.task} {status}"


def _used(usage: Usage) -> Iterator[str]:
    if usage.turns is not None:
        yield f"{usage.turns} turn" if usage.turns == 1 else f"{usage.turns} turns"
    if usage.cost is not None:
        yield f"${usage.cost:.4f}"
    if usage.tokens_in is not None and usage.tokens_out is not None:
        yield f"{usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"


def _names(files: tuple[str, ...]) -> str:
    if not files:
        return "no file"
    more = f" and {len(files) - NAMED:,} more" if len(files) > NAMED else ""
    return plain(", ".join(files[:NAMED])) + more
