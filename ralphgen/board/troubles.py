"""The faults of a project that stop its agents, each with its remedy."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.live import LOOPS, Board
from ralphgen.board.nights import DAY, LoopSpan, loop_spans
from ralphgen.board.text import line
from ralphgen.doctor import CheckResult
from ralphgen.emit import workflows
from ralphgen.errors import RalphgenError
from ralphgen.exchange.branch import rows_behind
from ralphgen.loop.git import Git
from ralphgen.loop.trees import changed_in, users_checkout

SETTINGS = "settings"  # the key of their trouble
EDITED = "files were changed in "  # why a merge waits
LONGEST = 500  # characters of a reason


class Trouble(NamedTuple):
    """A fault of the project that stops agents, with its remedy in words and a page for it."""

    key: str
    title: str
    why: str
    remedy: str
    command: str = ""
    address: str = "/project/health"


def troubles(board: Board, waits: Sequence[tuple[str, str]]) -> tuple[Trouble, ...]:
    """Return the faults that stop agents, the worst first; slow ones come when they are known.

    `waits` are the reasons of waiting merges, with their branches.
    """
    loops = board.cached(LOOPS, loop_spans)
    invalid = board.cached("matrix", unreadable)
    has_settings = not any(one.key == SETTINGS for one in invalid)
    failing = (one for one in board.findings or () if isinstance(one, CheckResult) and one.fix)
    server = next((one for one in failing if one.subject == "server"), None)
    found = [
        board.soon("drift", outdated, "attention") if has_settings else None,
        *invalid,
        _failed(server) if server else None,
        _waiting(board.root, waits, loops) if waits else None,
        silent_end(loops),
        board.soon("record", rows_lacking, "attention") if has_settings else None,
    ]
    return tuple(one for one in found if one is not None)


def _failed(server: CheckResult) -> Trouble:
    why = f"At the last diagnosis: {line(server.detail, LONGEST)}"
    return Trouble("start", "The server does not start", why, line(server.fix, LONGEST))


def outdated(root: Path) -> Trouble | None:
    """Return the trouble of a server that differs from a newly generated one."""
    title, command = "The server is out of date", "ralphgen regen"
    remedy = "Regenerate the server, or undo the change. Sessions that start now get the old one."
    try:
        report = workflows.checked(root, say=lambda _: None)
        why = report.summary() if report.drift else ""
    except RalphgenError as error:
        why, remedy = error.problems[0].text, line(error.problems[0].hint, LONGEST)
        title, command = "The server cannot be generated", ""
    except OSError as error:  # files that change meanwhile
        title, why = "The server cannot be compared", str(error)
    return Trouble("server", title, line(why, LONGEST), remedy, command) if why else None


def unreadable(root: Path) -> list[Trouble]:
    """Return the troubles of settings and disciplines that cannot be read."""
    try:
        found = read_disciplines(root)
        problems, rows = found.problems, found.rows
    except RalphgenError as error:
        problems, rows = tuple(error.problems), ()
    text = "; ".join(line(one.text) for one in problems)
    hint = next((line(one.hint) for one in problems if one.hint), "Correct the settings")
    wrong = [Trouble(SETTINGS, "The settings cannot be read", text, hint)] if problems else []
    for row in (one for one in rows if one.problems):
        title, first = f"The discipline {line(row.name)} cannot be read", row.problems[0]
        address = f"/project/disciplines/{quote(row.name, safe='')}"
        facts = (line(first.text), line(first.hint) or "Correct it on its page", "", address)
        wrong.append(Trouble(f"discipline-{line(row.name)}", title, *facts))
    return wrong


def _waiting(
    root: Path, waits: Sequence[tuple[str, str]], loops: Sequence[LoopSpan]
) -> Trouble | None:
    """Return the trouble of finished work that nothing merges."""
    (reason, target), number = waits[0], len(waits)
    waiting = "1 finished task waits" if number == 1 else f"{number} finished tasks wait"
    title, remedy = f"{waiting} to be merged", "Merge now."
    why = "" if any(one.is_running for one in loops) else reason or "No loop is running"
    with suppress(RalphgenError):
        tree = users_checkout(Git(root), target) if reason.startswith(EDITED) else None
        if files := changed_in(tree) if tree else []:
            title, why = f"Uncommitted changes hold up {target}", ", ".join(map(line, files[:3]))
            remedy = f"{waiting} to be merged. Commit or stash your changes; then merge them."
    command = "ralphgen merges run"
    return Trouble("merges", title, why, remedy, command, "/agents") if why else None


def silent_end(loops: Sequence[LoopSpan], now: datetime | None = None) -> Trouble | None:
    """Return the trouble of a newest loop that ended lately without a word."""
    last = loops[0] if loops else None
    if last is None or last.is_running or last.has_stopped:
        return None
    if (now or datetime.now(UTC)) - last.end > DAY:
        return None
    title, why = "The last loop ended without a word", "Its process is gone, and it wrote no reason"
    remedy = "Start agents again: they resume its tasks when the leases of its sessions end."
    return Trouble("loop", title, why, remedy, "ralphgen loop", "/agents")


def rows_lacking(root: Path) -> Trouble | None:
    """Return the trouble of a branch of rows that lacks some."""
    lacking: Sequence[str] = ()
    with suppress(RalphgenError, OSError):  # commands report it
        lacking = rows_behind(root) or ()
    title = f"{len(lacking)} row{'s are' if lacking[1:] else ' is'} not on their branch"
    remedy = "Write the rows to their branch, so that others get them."
    facts = (", ".join(lacking[:3]), remedy, "ralphgen sync")
    return Trouble("rows", title, *facts) if lacking else None
