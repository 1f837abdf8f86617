"""Decides what an edit writes: values of columns, and the text of the config."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ralphgen.board.edit.settings_text import with_settings
from ralphgen.board.edit.validate import Edit, Server
from ralphgen.board.views.discipline_facts import COLUMNS, RESERVED, Facts, Row
from ralphgen.errors import ProjectError
from ralphgen.init.scaffold import CONFIG_TEXT
from ralphgen.project import disciplines
from ralphgen.project.config import FILE, DisciplineSettings, McpServer, NamedMcpServer
from ralphgen.project.inspect import DATABASE
from ralphgen.sessions import discipline_servers

MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """What to write: `values` by column, and the text of the config, None where it stays.

    Only where all is as it was when this was decided: `expected` are the SQLite type and the bytes,
    in hex, of columns, and `before` is the text of the config, None where there was no file.
    """

    database: str
    discipline: str
    expected: Mapping[str, tuple[str, str]] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    config: str
    before: str | None = field(repr=False)
    after: str | None = field(repr=False)


def plan_write(root: Path, facts: Facts, edit: Edit) -> PlannedWrite:
    """Return what an edit without problems writes; nothing where it changes nothing.

    Raises `ProjectError` where sessions could not read it, or the config cannot be changed.
    """
    row = facts.rows[edit.discipline]
    values: dict[str, str] = {}
    settings = facts.settings(edit.discipline)
    listed = {"database": row.listed()[0], "config": facts.configured(edit.discipline)}
    if edit.servers is not None:
        home = facts.homes[discipline_servers.COLUMN]
        old = listed[home].servers
        wanted = tuple(_with_values(edit.servers, old or ()))
        if home == "config":
            by_name = {
                one.name: McpServer(command=one.command, args=one.args, env=one.env)
                for one in wanted
            }
            settings = settings.model_copy(update={"mcp_servers": by_name})
        elif wanted != old:
            values[discipline_servers.COLUMN] = _json([one.model_dump() for one in wanted])
        _refuse_unreadable(row, values, settings)
    if edit.disabled is not None:
        home = facts.homes[disciplines.COLUMN]
        before = listed[home].disabled
        if before is not None and set(before) == set(edit.disabled):
            pass
        elif home == "config":
            settings = settings.model_copy(update={"disable": list(edit.disabled)})
        else:
            values[disciplines.COLUMN] = _json({disciplines.KEY: list(edit.disabled)})
    return _planned(root, facts, row, values, settings)


def secrets_of(facts: Facts, edit: Edit) -> Iterator[str]:
    """Yield every value that a variable of one of the discipline's servers has, or shall have."""
    stored = facts.rows[edit.discipline].listed()[0]
    for listed in (stored, facts.configured(edit.discipline)):
        for one in listed.servers or ():
            yield from one.env.values()
    for server in edit.servers or ():
        yield from (variable.value for variable in server.env if variable.value is not None)


def _with_values(
    wanted: Sequence[Server], old: Sequence[NamedMcpServer]
) -> Iterator[NamedMcpServer]:
    """Yield the servers, where variables without a value have the one of the server that it was."""
    for server in wanted:
        known = old[server.was].env if server.was is not None else {}
        env = {one.name: known[one.name] if one.value is None else one.value for one in server.env}
        yield NamedMcpServer(
            name=server.name, command=server.command, args=list(server.args), env=env
        )


def _refuse_unreadable(row: Row, values: dict[str, str], settings: DisciplineSettings) -> None:
    """Raise `ProjectError` for what would stop a session, whatever the checks before have said."""
    column = row.columns.get(discipline_servers.COLUMN)
    stored = values.get(discipline_servers.COLUMN, column.value if column is not None else None)
    discipline_servers.discipline_servers(row.name, stored, settings.mcp_servers, RESERVED)


def _planned(
    root: Path, facts: Facts, row: Row, values: dict[str, str], settings: DisciplineSettings
) -> PlannedWrite:
    path, text = root / FILE, facts.config.text
    before = after = None
    if os.path.lexists(path):
        marked = path.read_bytes().startswith(MARK.encode())
        before = f"{MARK if marked else ''}{text}"
    if settings != facts.settings(row.name):
        try:
            changed = with_settings(text if before is not None else CONFIG_TEXT, row.name, settings)
        except ValueError:
            raise ProjectError(
                f"{FILE} is laid out in a way that cannot be changed without loss",
                'edit it by hand, then run "ralphgen regen"',
            ) from None  # its message may hold values
        after = before.removesuffix(text) + changed if before is not None else changed
    return PlannedWrite(
        database=str(root / DATABASE),
        discipline=row.name,
        expected={
            column: (known.type, known.data.hex().upper())
            for column in COLUMNS
            for known in [row.columns.get(column)]
            if known is not None
        },
        values=values,
        config=str(path),
        before=before,
        after=after,
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
