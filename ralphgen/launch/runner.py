"""Runs Claude Code in a session: watched line by line, or in the person's own terminal."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, TextIO

from ralphgen.errors import ProjectError, Say
from ralphgen.launch.check import lack_error, lacks
from ralphgen.launch.process import OutOfTimeError, Running
from ralphgen.launch.stream import Event, Transcript, harmless, is_start, read_event
from ralphgen.sessions.model import PreparedSession

OUT_OF_TIME = 124  # as the command `timeout` has it
BY_SIGNAL = 128  # plus its number, as a shell has it
TERMINAL = "/dev/tty"
SHOWN = 200  # characters of a line that is no event
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Handler = Callable[[int, FrameType | None], object]
Writer = Callable[[str, Event], None]


class StoppedError(Exception):
    """A signal asks us to end; `number` is which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run_printing(
    session: PreparedSession,
    argv: Sequence[str],
    prompt: str,
    *,
    timeout: float | None,
    raw: bool,
    out: TextIO,
    say: Say,
) -> int:
    """Run Claude Code without a terminal and write to `out` what it does, line by line.

    `raw` writes its events as they come, one JSON object a line. `timeout` is in seconds. Returns
    its exit code, 128 + n where signal n ended it or us, 124 where the time was up. Raises
    `ProjectError` where there is no Claude Code, and as soon as its first event shows that a
    server or a tool of the session is missing. In every case nothing that it started is left.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        with _handling(_stop_us, *_ENDINGS), _started(session, argv, prompt) as running:
            events = _events(running.lines(deadline), say)
            started = _follow(session, running, events, _writer(out, raw=raw))
            code = running.wait(deadline)
    except OutOfTimeError:
        say(f"the {timeout:g} s of this session are over: Claude Code was stopped")
        return OUT_OF_TIME
    except KeyboardInterrupt:
        return BY_SIGNAL + signal.SIGINT
    except StoppedError as stopped:
        return BY_SIGNAL + stopped.number
    if code < 0:
        say(f"Claude Code was ended by signal {-code}")
    elif code == 0 and not started:
        raise ProjectError(
            "Claude Code ended without a word on which servers and tools it had",
            'behind "--" there must be no option that changes what it prints',
        )
    return _exit_code(code)


def run_terminal(session: PreparedSession, argv: Sequence[str]) -> int:
    """Let a person talk with Claude Code in this terminal; returns its exit code.

    Ctrl-C is for Claude Code alone, which shares our process group; other signals that would end
    us end it instead. Where our own standard input is a file or a pipe, as when the prompt came
    through it, Claude Code reads from the terminal all the same. Raises `ProjectError` where there
    is no Claude Code or no terminal.
    """
    command = (_program(argv), *argv[1:])
    with _handling(_ignore, signal.SIGINT), _handling(_stop_us, *_ENDINGS):
        with _terminal() as given, _explained(argv):
            process = subprocess.Popen(command, cwd=session.root, stdin=given)
        try:
            code = process.wait()
        except StoppedError as stopped:
            process.send_signal(stopped.number)
            code = process.wait()
    return _exit_code(code)


def _follow(
    session: PreparedSession, running: Running, events: Iterator[tuple[str, Event]], write: Writer
) -> bool:
    """Write every event; returns whether one of them named the servers and tools."""
    started = False
    for line, event in events:
        if is_start(event) and not started:
            started = True
            if found := lacks(session, event):
                running.stop()  # at once: to ask a server what it lacks takes a while
                raise lack_error(found)
        write(line, event)
    return started


def _events(lines: Iterator[str], say: Say) -> Iterator[tuple[str, Event]]:
    """Yield each line that is an event, and the event; other lines are said."""
    for line in lines:
        event = read_event(line)
        if event is not None:
            yield line, event
        elif line.strip():
            say(f"claude: {harmless(line[:SHOWN])}")


def _writer(out: TextIO, *, raw: bool) -> Writer:
    """Return what writes an event to `out`, where it is seen at once."""
    transcript = Transcript()

    def write(line: str, event: Event) -> None:
        lines = [_encodable(line, event, out)] if raw else transcript.lines(event)
        out.writelines(f"{_printable(text, out)}\n" for text in lines)
        out.flush()

    return write


def _encodable(line: str, event: Event, out: TextIO) -> str:
    """Return the line, or where `out` cannot hold it, JSON that says the same in ASCII."""
    return line if _printable(line, out) == line else json.dumps(event)


def _printable(text: str, out: TextIO) -> str:
    encoding = out.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def _started(session: PreparedSession, argv: Sequence[str], prompt: str) -> Iterator[Running]:
    with _explained(argv):
        running = Running((_program(argv), *argv[1:]), prompt, session.root)
    with running:
        try:
            yield running
        except KeyboardInterrupt:
            running.interrupt()
            raise


def _program(argv: Sequence[str]) -> str:
    """Return where Claude Code is; raises `ProjectError` where PATH has none."""
    found = shutil.which(argv[0])
    if found is None:
        raise ProjectError(
            f'Claude Code is not there: no "{argv[0]}" on PATH',
            'install it, for example with "npm install -g @anthropic-ai/claude-code"',
        )
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
        raise ProjectError("there is no terminal to talk in", 'add "--print"') from error
    try:
        yield found
    finally:
        os.close(found)


@contextmanager
def _explained(argv: Sequence[str]) -> Iterator[None]:
    """Turn what the system says of a program into words."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f'"{argv[0]}" cannot be run: {reason}', "reinstall it") from error


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
    """Ctrl-C while Claude Code has the terminal."""


def _exit_code(code: int) -> int:
    return BY_SIGNAL - code if code < 0 else code
