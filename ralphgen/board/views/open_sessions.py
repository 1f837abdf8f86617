"""The sessions that there are, as rows; and ending one, with the servers that run in it."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from ralphgen.board.views.stored_text import line
from ralphgen.errors import ProjectError, RalphgenError, UsageError
from ralphgen.planning.model import Names
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import DATABASE
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.session import ROWS
from ralphgen.sessions.model import start_command
from ralphgen.sessions.processes import Lock
from ralphgen.sessions.store import (
    CONTEXT,
    MCP_CONFIG,
    SESSIONS,
    StoredSession,
    age_words,
    remove,
    stored_sessions,
)

TITLES = "SELECT id, CAST(title AS BLOB) FROM tasks WHERE id IN (SELECT value FROM json_each(?))"
LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KitTools:
    """The tools that a session has of a kit."""

    kit: str
    tools: Names

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.tools)


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session; a text is empty where there is nothing of it, or nothing that can be read.

    `task`, `feature` and `target` (a discipline) are what it is about, `persona` is the discipline
    that it works as. `age` counts seconds from the last start of one of its servers. `launch` is
    what a person types to start Claude Code in it.
    """

    session_id: str
    recipe: str
    base: str
    task: str
    title: str
    feature: str
    target: str
    persona: str
    kits: tuple[KitTools, ...]
    age: float
    age_words: str
    running: bool
    launch: str


@dataclass(frozen=True, slots=True)
class Ended:
    """What ending a session did, and `sentence` says so.

    `stopped` servers have ended, and `left` ones go on. `pruned` is whether its folder is gone.
    """

    session_id: str
    pruned: bool
    stopped: int
    left: bool
    sentence: str


def open_sessions(
    root: Path, connection: sqlite3.Connection | None = None
) -> tuple[SessionRow, ...]:
    """The sessions of the project in `root`, newest first.

    Titles of tasks come from `connection`, or are read without a trace; without a database that
    can be read there are none. Raises `ProjectError` where the folder of sessions cannot be read.
    """
    kept = stored_sessions(root)
    tasks = [task for one in kept for task in [one.facts.get(ROWS["task"])] if _is_id(task)]
    titles = _titles(root, connection, tasks) if tasks else {}
    return tuple(_row(one, titles) for one in kept)


def end(root: Path, session_id: str) -> Ended:
    """End a session: no server can start in it any more, and those that run are ended.

    Its files go first, so that a server which starts meanwhile either is seen or refuses. A server
    ends as its client would end it; the agent goes on without its tools. Raises `UsageError` where
    there is no session of this name, `ProjectError` where it cannot be ended.
    """
    folder = _folder(root, session_id)
    with Lock(folder) as lock:
        pruned = remove(folder)
        if (folder / CONTEXT).exists():
            raise ProjectError(
                f'the session "{session_id}" cannot be ended: its files cannot be removed',
                f'see who may write to "{folder.parent}"',
            )
        stopped = lock.end_holders(folder / CONTEXT)
        left = lock.is_held()
    return Ended(session_id, pruned, stopped, left, _sentence(session_id, pruned, stopped, left))


def _folder(root: Path, session_id: str) -> Path:
    """The folder of a session that is listed: no other name, and no link, leads anywhere."""
    if (root / SESSIONS).is_symlink():
        text = f'"{SESSIONS}" is a link, and what it leads to is not this project\'s to remove'
        raise ProjectError(text, "remove the link")
    named = [kept for kept in stored_sessions(root) if one_line(kept.session_id) == session_id]
    if len(named) == 1:
        return named[0].folder
    text = f'there is no session "{one_line(session_id[:100])}"'
    raise UsageError(text, 'see those that there are with "ralphgen session list"')


def _sentence(session_id: str, pruned: bool, stopped: int, left: bool) -> str:
    """What a person should know of a session that was ended."""
    parts = [f'the session "{session_id}" is ended: no server can start in it']
    if stopped:
        servers = "1 server has" if stopped == 1 else f"{stopped} servers have"
        parts.append(f"{servers} ended, and an agent in it goes on without their tools")
    if left:
        parts.append("a server that runs goes on until its client leaves")
    if not pruned:
        parts.append("its folder stays, for it holds files that are none of a session")
    return "; ".join(parts)


def _row(kept: StoredSession, titles: Mapping[int, str]) -> SessionRow:
    facts = kept.facts
    task = facts.get(ROWS["task"])
    config = kept.folder / MCP_CONFIG
    return SessionRow(
        session_id=one_line(kept.session_id),
        recipe=_text(facts.get("recipe")),
        base=_text(facts.get("base")),
        task=_text(task),
        title=titles.get(task, "") if _is_id(task) else "",
        feature=_text(facts.get(ROWS["feature"])),
        target=_text(facts.get(ROWS["discipline"])),
        persona=_text(facts.get("discipline")),
        kits=tuple(_kits(facts.get("enabled_tools"))),
        age=kept.age,
        age_words=age_words(kept.age),
        running=kept.running,
        launch=start_command(config) if config.is_file() and str(config).isprintable() else "",
    )


def _kits(enabled: object) -> Iterator[KitTools]:
    if isinstance(enabled, dict):
        for kit, names in enabled.items():
            tools = names if isinstance(names, list) else []
            yield KitTools(_text(kit), tuple(map(_text, tools)))


def _text(value: object) -> str:
    """A value of a context that may have been written by hand."""
    return line(value)


def _is_id(task: object) -> TypeGuard[int]:
    return type(task) is int and abs(task) <= LARGEST_ID


def _titles(
    root: Path, connection: sqlite3.Connection | None, tasks: Sequence[int]
) -> dict[int, str]:
    """By id, the titles of the tasks that there are."""
    with suppress(RalphgenError, sqlite3.Error):
        if connection is not None:
            return _read_titles(connection, tasks)
        with open_without_trace(root / DATABASE) as own:
            return _read_titles(own, tasks)
    return {}


def _read_titles(connection: sqlite3.Connection, tasks: Sequence[int]) -> dict[int, str]:
    rows = connection.execute(TITLES, (str(list(tasks)),))
    return {task: line(bytes(title or b"").decode(errors="replace")) for task, title in rows}
