"""The disciplines' MCP servers and disabled tools as people see them: no secret is among it."""

import hashlib
import json
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ralphgen.board.views.discipline_facts import OTHER, Facts, Home, Row, read_facts
from ralphgen.board.views.stored_text import line
from ralphgen.errors import Problem
from ralphgen.project import disciplines
from ralphgen.project.config import NamedMcpServer
from ralphgen.project.model import Names
from ralphgen.runtime.errors import one_line
from ralphgen.sessions import discipline_servers

COLOR = re.compile(r"#[0-9A-Fa-f]{6}")
_KEY = secrets.token_bytes(32)
"""Without it nobody can try out which secrets lead to a fingerprint. It ends with the process."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One MCP server; `env` are the names of its variables, whose values are secrets.

    `place` says where it stands, for people.
    """

    name: str
    command: str
    args: Names
    env: Names
    place: str


@dataclass(frozen=True, slots=True)
class DisabledRow:
    """One entry that takes a tool away, `"tool"` or `"kit:tool"`, and where it stands."""

    entry: str
    place: str


@dataclass(frozen=True, slots=True)
class Discipline:
    """A discipline: `name` as it is, `shown` and `display_name` on one line, `color` for CSS or "".

    `servers` and `disabled` are what an edit replaces, None where that cannot be read; an edit of
    them goes where `servers_home` and `disabled_home` say. The `other_` ones hold as well, and
    stand in the other place. `problems` are those of its columns. `fingerprint` moves with each.
    """

    name: str
    shown: str
    display_name: str
    color: str
    servers_home: Home
    servers: tuple[ServerRow, ...] | None
    other_servers: tuple[ServerRow, ...]
    disabled_home: Home
    disabled: tuple[DisabledRow, ...] | None
    other_disabled: tuple[DisabledRow, ...]
    problems: tuple[Problem, ...]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Disciplines:
    """All of them, by name; nothing can be edited where `problems` say what the config lacks."""

    rows: tuple[Discipline, ...]
    problems: tuple[Problem, ...] = ()

    def named(self, name: str) -> Discipline | None:
        """Return the discipline of a name."""
        return next((row for row in self.rows if row.name == name), None)


def read_disciplines(root: Path, connection: sqlite3.Connection | None = None) -> Disciplines:
    """Return the disciplines of the project in `root`, read by `connection` or without a trace.

    Raises `ProjectError` where the database cannot be read.
    """
    facts = read_facts(root, connection)
    rows = tuple(discipline_of(facts, row) for row in facts.rows.values())
    return Disciplines(rows, facts.problems)


def discipline_of(facts: Facts, row: Row) -> Discipline:
    """Return one discipline."""
    stored, problems = row.listed()
    configured = facts.configured(row.name)
    shown = one_line(row.name)
    server_rows = {
        "database": _servers(stored.servers, lambda _: _column(discipline_servers.COLUMN, shown)),
        "config": _servers(
            configured.servers,
            lambda name: facts.config.place("disciplines", row.name, "mcp_servers", name),
        ),
    }
    disable = facts.config.place("disciplines", row.name, "disable")
    disabled_rows = {
        "database": _disabled(stored.disabled, _column(disciplines.COLUMN, shown)),
        "config": _disabled(configured.disabled, disable),
    }
    servers_home, disabled_home = (
        facts.homes[discipline_servers.COLUMN],
        facts.homes[disciplines.COLUMN],
    )
    color = _text(row, "color")
    return Discipline(
        name=row.name,
        shown=shown,
        display_name=line(_text(row, "display_name")) or shown,
        color=color if COLOR.fullmatch(color) else "",
        servers_home=servers_home,
        servers=server_rows[servers_home],
        other_servers=server_rows[OTHER[servers_home]] or (),
        disabled_home=disabled_home,
        disabled=disabled_rows[disabled_home],
        other_disabled=disabled_rows[OTHER[disabled_home]] or (),
        problems=problems,
        fingerprint=_fingerprint(facts, row),
    )


def _servers(
    listed: Iterable[NamedMcpServer] | None, place: Callable[[str], str]
) -> tuple[ServerRow, ...] | None:
    if listed is None:
        return None
    return tuple(
        ServerRow(one.name, one.command, tuple(one.args), tuple(one.env), place(one.name))
        for one in listed
    )


def _disabled(entries: Names | None, place: str) -> tuple[DisabledRow, ...] | None:
    return None if entries is None else tuple(DisabledRow(entry, place) for entry in entries)


def _column(column: str, discipline: str) -> str:
    return f'{column} of the discipline "{discipline}"'


def _text(row: Row, column: str) -> str:
    """Return a column's text; empty where it is missing or holds something else."""
    stored = row.columns.get(column)
    value = stored.value if stored is not None else None
    return value if isinstance(value, str) else ""


def _fingerprint(facts: Facts, row: Row) -> str:
    """Return a digest of all that an edit replaces or is checked by."""
    stored = [
        (home, known.type, known.data.hex()) if known is not None else (home,)
        for column, home in facts.homes.items()
        for known in [row.columns.get(column)]
    ]
    settings = facts.settings(row.name).model_dump(mode="json")
    text = json.dumps([row.name, stored, settings])
    return hashlib.blake2b(text.encode(), key=_KEY, digest_size=16).hexdigest()
