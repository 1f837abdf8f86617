"""The sessions that there are, as rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeGuard

from ralphgen.board.stored_text import line
from ralphgen.errors import RalphgenError
from ralphgen.ledger.record import recorded_sessions
from ralphgen.planning.model import Names
from ralphgen.project.database import open_database
from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.session import ROWS
from ralphgen.sessions.model import start_command
from ralphgen.sessions.store import MCP_CONFIG, StoredSession, age_words, stored_sessions

TASKS = "SELECT id, title, status FROM tasks WHERE "
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KitTools:
    """The tools that a session has of a kit."""

    kit: str
    tools: Names

    @property
    def count(self) -> int:
        """Return their number."""
        return len(self.tools)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session; a text is empty where there is nothing of it, or nothing that can be read.

    `task`, `feature` and `target` (a discipline) are what it is about, `discipline` is the one that
    it works as. `age` counts seconds from the last start of one of its servers, which was
    `started` then, in UTC. `launch` is what a person types to start Claude Code in it; that is
    nothing where it works already, has ended, or has nothing to do any more.
    """

    session_id: str
    recipe: str
    base: str
    task: str
    title: str
    feature: str
    target: str
    discipline: str
    kits: tuple[KitTools, ...]
    age: float
    age_words: str
    started: str
    running: bool
    launch: str


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database has of sessions: titles of tasks by id, and the sessions that are over."""

    titles: Mapping[int, str]
    over: Collection[str]


def read_sessions(root: Path) -> tuple[SessionRow, ...]:
    """Return the sessions of the project in `root`, newest first.

    Titles of tasks are read without a trace; without a database that can be read there are none.
    Raises `ProjectError` where the folder of sessions cannot be read.
    """
    kept = stored_sessions(root)
    known = _known(root, kept)
    return tuple(_row(one, known) for one in kept)


def session_row(root: Path, kept: StoredSession) -> SessionRow:
    """Return the row of one session of the project in `root`."""
    return _row(kept, _known(root, [kept]))


def _row(kept: StoredSession, known: _Known) -> SessionRow:
    facts = kept.facts
    task = facts.get(ROWS["task"])
    config = kept.folder / MCP_CONFIG
    starts = kept.session_id not in known.over and not kept.running
    starts = starts and config.is_file() and str(config).isprintable()
    return SessionRow(
        session_id=one_line(kept.session_id),
        recipe=line(facts.get("recipe")),
        base=line(facts.get("base")),
        task=line(task),
        title=known.titles.get(task, "") if _is_id(task) else "",
        feature=line(facts.get(ROWS["feature"])),
        target=line(facts.get(ROWS["discipline"])),
        discipline=line(facts.get("discipline")),
        kits=tuple(_kits(facts.get("enabled_tools"))),
        age=kept.age,
        age_words=age_words(kept.age),
        started=f"{datetime.now(UTC) - timedelta(seconds=kept.age):%Y-%m-%dT%H:%MZ}",
        running=kept.running,
        launch=start_command(config) if starts else "",
    )


def _kits(enabled: object) -> Iterator[KitTools]:
    if isinstance(enabled, dict):
        for kit, names in enabled.items():
            tools = names if isinstance(names, list) else []
            yield KitTools(line(kit), tuple(map(line, tools)))


def _is_id(task: object) -> TypeGuard[int]:
    return type(task) is int and abs(task) <= LARGEST_ID


def _known(root: Path, kept: Sequence[StoredSession]) -> _Known:
    """Return what there is of these sessions: over is one that has ended, or whose task is closed.

    Where the database cannot be read nothing is known.
    """
    about = {one.session_id: one.facts.get(ROWS["task"]) for one in kept}
    tasks = _tasks(root, [task for task in about.values() if _is_id(task)])
    closed = {task for task, (_, status) in tasks.items() if status in MET}
    recorded = recorded_sessions(root, [*about])
    over = {one.session_id for one in recorded.values() if one.ended is not None}
    over |= {name for name, task in about.items() if _is_id(task) and task in closed}
    return _Known({task: title for task, (title, _) in tasks.items()}, over)


def _tasks(root: Path, tasks: Sequence[int]) -> dict[int, tuple[str, object]]:
    """Return title and status of the tasks that exist, by id."""
    if not tasks:
        return {}
    with suppress(RalphgenError), open_database(root) as connection:
        rows = connection.rows(TASKS + connection.sql.among("id"), (str(list(tasks)),))
        return {task: (line(title), status) for task, title, status in rows}
    return {}
