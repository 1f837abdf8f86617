"""The last lines of `launch`: what a session came to, for a person."""

from collections.abc import Iterator

from ralphgen.errors import plain
from ralphgen.launch.outcome import Usage
from ralphgen.launch.session import SessionEnd
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.store import TRANSCRIPT

HELD = "in_progress"
SAID = {"open": "left open"}  # what is said of an outcome other than its own word
NAMED = 10  # files that are named


def last_lines(session: PreparedSession, end: SessionEnd) -> Iterator[str]:
    """Yield what came of the session, what it has used, and where its record is."""
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
