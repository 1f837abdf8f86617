"""The faults of a project that stop its agents, each with its remedy."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
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
REGEN, MERGE, LOOP, SYNC = (
    "ralphgen regen",
    "ralphgen merges run",
    "ralphgen loop",
    "ralphgen sync",
)


@dataclass(frozen=True, slots=True)
class Trouble:
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
    loops = board.kept(LOOPS, loop_spans)
    invalid = board.kept("matrix", unreadable)
    has_settings = not any(one.key == SETTINGS for one in invalid)
    found = [
        board.soon("drift", outdated, "attention") if has_settings else None,
        *invalid,
        *_failing(board.findings or ()),
        *_waiting(board.root, waits, loops),
        gone(loops),
        board.soon("record", rows_lacking, "attention") if has_settings else None,
    ]
    return tuple(one for one in found if one is not None)


def _failing(findings: Iterable[object]) -> Iterable[Trouble]:
    """Yield the trouble of a server that did not start at the last diagnosis."""
    for one in findings:
        if isinstance(one, CheckResult) and one.subject == "server" and one.fix:
            why = f"At the last diagnosis: {line(one.detail, 500)}"
            yield Trouble("start", "The server does not start", why, line(one.fix, 500))
            return


def outdated(root: Path) -> Trouble | None:
    """Return the trouble of a server that differs from a newly generated one."""
    remedy = "Regenerate the server, or undo the change. Sessions that start now get the old one."
    try:
        report = workflows.checked(root, say=lambda _: None)
    except RalphgenError as error:
        text, hint = (
            line(words, 500) for words in (error.problems[0].text, error.problems[0].hint)
        )
        return Trouble("server", "The server cannot be generated", text, hint)
    except OSError as error:  # files that change meanwhile
        return Trouble("server", "The server cannot be compared", line(error), remedy, REGEN)
    if not report.drift:
        return None
    return Trouble(
        "server", "The server is out of date", line(report.summary(), 500), remedy, REGEN
    )


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
    for row in rows:
        if row.problems:
            name, first = line(row.name), row.problems[0]
            address = f"/project/disciplines/{quote(row.name, safe='')}"
            title, why = f"The discipline {name} cannot be read", line(first.text)
            remedy = line(first.hint) or "Correct it on its page"
            wrong.append(Trouble(f"discipline-{name}", title, why, remedy, "", address))
    return wrong


def _waiting(
    root: Path, waits: Sequence[tuple[str, str]], loops: Sequence[LoopSpan]
) -> Iterable[Trouble]:
    """Yield the trouble of finished work that nothing merges."""
    if not waits:
        return
    (reason, target), number = waits[0], len(waits)
    subject = "1 finished task waits" if number == 1 else f"{number} finished tasks wait"
    if reason.startswith(EDITED):
        with suppress(RalphgenError):
            tree = users_checkout(Git(root), target)
            files = changed_in(tree) if tree is not None else []
            if files:
                title, why = (
                    f"Uncommitted changes hold up {target}",
                    ", ".join(map(line, files[:3])),
                )
                remedy = f"{subject} to be merged. Commit or stash your changes; then merge them."
                yield Trouble("merges", title, why, remedy, MERGE, "/agents")
                return
    if not any(one.is_running for one in loops):
        why = reason or "No loop is running"
        yield Trouble("merges", f"{subject} to be merged", why, "Merge now.", MERGE, "/agents")


def gone(spans: Sequence[LoopSpan], now: datetime | None = None) -> Trouble | None:
    """Return the trouble of a newest loop that ended lately without a word."""
    last = spans[0] if spans else None
    if last is None or last.is_running or last.has_stopped:
        return None
    if (now or datetime.now(UTC)) - last.end > DAY:
        return None
    why = "Its process is gone, and it wrote no reason"
    remedy = "Start agents again: they resume its tasks when the leases of its sessions end."
    return Trouble(
        "loop", "The last loop ended without a word", why, remedy, "ralphgen loop", "/agents"
    )


def rows_lacking(root: Path) -> Trouble | None:
    """Return the trouble of a branch of rows that lacks some."""
    try:
        lacking = rows_behind(root)
    except (RalphgenError, OSError):  # commands report it
        return None
    if not lacking:
        return None
    rows = "1 row is" if len(lacking) == 1 else f"{len(lacking)} rows are"
    remedy = "Write the rows to their branch, so that others get them."
    return Trouble(
        "rows", f"{rows} not on their branch", ", ".join(lacking[:3]), remedy, "ralphgen sync"
    )
