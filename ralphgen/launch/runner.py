"""Runs an agent in a session: watched line by line, or in the person's own terminal."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from types import FrameType
from typing import NoReturn, TextIO

from ralphgen.errors import ProgramError, ProjectError, Say, harmless
from ralphgen.launch.agent import Agent, AgentCall, AgentLine, OnLine, OutputReader
from ralphgen.launch.outcome import AgentEnd
from ralphgen.launch.process import (
    AskedToStopError,
    ClaimLostError,
    Complain,
    OutOfTimeError,
    Running,
    watched,
)
from ralphgen.project.root import FOLDER
from ralphgen.runtime.processes.inherited import passed_on
from ralphgen.runtime.processes.launched import SESSION_VARIABLE
from ralphgen.runtime.processes.secrets import Masker
from ralphgen.sessions.model import PreparedSession

TERMINAL = "/dev/tty"
SHOWN = 200  # characters of a line that is no event
COMPLAINTS = 4  # lines of a session's errors that a loop tells, beside the last
LONGEST = 8_000  # bytes that are kept of a line
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

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
) -> AgentEnd:
    """Run an agent without a terminal; `out` gets each line of its output that is an event.

    `timeout` is in seconds. With `stop`, this may run on any thread: signals are its caller's, the
    agent is ended once the event is set, and what it writes as errors is said; without, signals end
    the agent, and each line of its errors is said. It is ended too once that is `asked`, and once
    `lost` is set: the session can write no more, and its task may be another's. Raises
    `ProjectError` where its program is not there, and as soon as its output shows that a server or
    a tool of the session is missing. In every case nothing that it started is left.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    reader, mask, code, by_person = agent.reader(session), Masker(), 0, 0
    out_of_time = claim_lost = False
    handled = _handling(_stop_us, *_ENDINGS) if stop is None else nullcontext()
    complain = _written(mask, say) if stop is None else _said(agent, mask, say)
    running, ends = None, _either(asked, stop)
    try:
        with handled, _started(session, agent, call, complain, ends, lost) as running:
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
        _say_end(code, reader, agent, say)
    end = reader.end(code, by_person=by_person, out_of_time=out_of_time)
    return replace(end, claim_lost=claim_lost)


def run_terminal(session: PreparedSession, agent: Agent, call: AgentCall) -> AgentEnd:
    """Let a person talk with an agent in this terminal.

    Ctrl-C is for the agent alone, which shares our process group; other signals that would end
    us end it instead. Where our own standard input is a file or a pipe, as when the prompt came
    through it, the agent reads from the terminal all the same. Raises `ProjectError` where its
    program is not there or no terminal.
    """
    command = (find_program(agent), *call.argv[1:])
    with _handling(_ignore, signal.SIGINT), _handling(_stop_us, *_ENDINGS), watched() as marked:
        variables = {**_environment(session, agent, call), **marked}
        with _terminal() as given, _explained(call):
            folder = session.work_tree
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
    """Take the next line; raise the error of a session that cannot go on."""
    found = reader.taken(line)
    if reader.refusal is not None:
        running.stop()  # at once: to ask a server what it lacks takes a while
        raise reader.refusal()
    if found is not None:
        out(_masked(found, mask))
    elif line.strip():
        say(f"{agent.name}: {harmless(mask.text(line)[:SHOWN])}")


def _masked(line: AgentLine, mask: Masker) -> AgentLine:
    """Return a line without secrets; its record is still JSON."""
    record = line.record
    if mask.text(record) != record:
        record = json.dumps(mask.value(json.loads(record)))
    return replace(line, record=record, texts=tuple(map(mask.text, line.texts)))


def _say_end(code: int, reader: OutputReader, agent: Agent, say: Say) -> None:
    """Say what a person cannot see from the output of an agent that ended by itself."""
    if code < 0:
        say(f"{agent.title} was ended by signal {-code}")
    elif code and not reader.ended:
        say(f"{agent.title} ended with exit code {code}")
    elif code == 0 and not reader.started:
        say(f"{agent.title} ended without listing its servers and tools")
        say('hint: options after "--" must not change its output format')


def _error_lines(mask: Masker, take: Say) -> Complain:
    """Return what takes errors in pieces, and passes on each line without secrets."""
    kept = b""

    def complain(data: bytes) -> None:
        nonlocal kept
        *whole, kept = (kept + data).split(b"\n")
        kept = kept[-LONGEST:]  # of a line that never ends
        if not data:  # nothing more comes
            whole, kept = [kept], b""
        for line in filter(None, (one.decode(errors="replace").rstrip() for one in whole)):
            take(mask.text(line))

    return complain


def _written(mask: Masker, say: Say) -> Complain:
    """Return what says every line that an agent writes as errors, as far as anybody reads it."""

    def take(line: str) -> None:
        with suppress(OSError):
            say(line)

    return _error_lines(mask, take)


def _said(agent: Agent, mask: Masker, say: Say) -> Complain:
    """Return what says the first lines that an agent writes as errors, and at its end the last."""
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
    """Return what writes an agent's lines to `out`, where they are seen at once.

    `raw` writes its events, one JSON object a line, and otherwise lines for people.
    """

    def write(line: AgentLine) -> None:
        lines = [_encodable(line.record, out)] if raw else line.texts
        out.writelines(f"{_printable(text, out)}\n" for text in lines)
        out.flush()

    return write


def _encodable(record: str, out: TextIO) -> str:
    """Return the line, or where `out` cannot hold it, JSON that says the same in ASCII."""
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
) -> Iterator[Running]:
    command = (find_program(agent), *call.argv[1:])
    variables = _environment(session, agent, call)
    with _explained(call):
        running = Running(
            command,
            call.given,
            session.work_tree,
            variables,
            complain=complain,
            stop=stop,
            lost=lost,
        )
    with running:
        try:
            yield running
        except KeyboardInterrupt:
            running.interrupt()
            raise


def _either(asked: Asked, stop: threading.Event | None) -> Asked:
    return lambda: asked() or (stop is not None and stop.is_set())


def _environment(session: PreparedSession, agent: Agent, call: AgentCall) -> dict[str, str]:
    """Return the variables of an agent, with the mark by which commands tell one."""
    inherited = passed_on(str(session.root / FOLDER), to_agent=True, also=agent.variables)
    return {**inherited, **call.variables, SESSION_VARIABLE: session.session_id}


def find_program(agent: Agent) -> str:
    """Return where the agent's program is; raises `ProjectError` where PATH has none."""
    found = shutil.which(agent.program)
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
    """Turn what the system says of a program into words."""
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
