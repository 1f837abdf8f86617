"""The sessions that there are, as rows."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeGuard

from ralphgen.board.views.stored_text import line
from ralphgen.errors import RalphgenError
from ralphgen.planning.model import Names
from ralphgen.project.connection import open_database
from ralphgen.project.dialect import among
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.session import ROWS
from ralphgen.sessions.model import start_command
from ralphgen.sessions.store import MCP_CONFIG, StoredSession, age_words, stored_sessions

TITLES = "SELECT id, title FROM tasks WHERE "
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
    `started` then, in UTC. `launch` is what a person types to start Claude Code in it.
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


def read_sessions(root: Path) -> tuple[SessionRow, ...]:
    """Return the sessions of the project in `root`, newest first.

    Titles of tasks are read without a trace; without a database that can be read there are none.
    Raises `ProjectError` where the folder of sessions cannot be read.
    """
    kept = stored_sessions(root)
    tasks = [task for one in kept for task in [one.facts.get(ROWS["task"])] if _is_id(task)]
    titles = _titles(root, tasks) if tasks else {}
    return tuple(_row(one, titles) for one in kept)


def session_row(root: Path, kept: StoredSession) -> SessionRow:
    """Return the row of one session of the project in `root`."""
    task = kept.facts.get(ROWS["task"])
    return _row(kept, _titles(root, [task]) if _is_id(task) else {})


def _row(kept: StoredSession, titles: Mapping[int, str]) -> SessionRow:
    facts = kept.facts
    task = facts.get(ROWS["task"])
    config = kept.folder / MCP_CONFIG
    return SessionRow(
        session_id=one_line(kept.session_id),
        recipe=line(facts.get("recipe")),
        base=line(facts.get("base")),
        task=line(task),
        title=titles.get(task, "") if _is_id(task) else "",
        feature=line(facts.get(ROWS["feature"])),
        target=line(facts.get(ROWS["discipline"])),
        discipline=line(facts.get("discipline")),
        kits=tuple(_kits(facts.get("enabled_tools"))),
        age=kept.age,
        age_words=age_words(kept.age),
        started=f"{datetime.now(UTC) - timedelta(seconds=kept.age):%Y-%m-%dT%H:%MZ}",
        running=kept.running,
        launch=start_command(config) if config.is_file() and str(config).isprintable() else "",
    )


def _kits(enabled: object) -> Iterator[KitTools]:
    if isinstance(enabled, dict):
        for kit, names in enabled.items():
            tools = names if isinstance(names, list) else []
            yield KitTools(line(kit), tuple(map(line, tools)))


def _is_id(task: object) -> TypeGuard[int]:
    return type(task) is int and abs(task) <= LARGEST_ID


def _titles(root: Path, tasks: Sequence[int]) -> dict[int, str]:
    """Return the titles of the tasks that exist, by id."""
    with (
        suppress(RalphgenError, sqlite3.Error),
        open_database(root) as connection,
    ):
        rows = connection.execute(TITLES + among(connection, "id"), (str(list(tasks)),))
        return {task: line(title) for task, title in rows}
    return {}
