"""Decides what an edit writes: values of columns, and the text of the config."""

import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from ralphgen.board.edit.forms import Edit, Server
from ralphgen.board.views.disciplines import COLUMNS, RESERVED, Facts, Row, discipline_of
from ralphgen.board.views.prose import stored_as
from ralphgen.emit.scaffold import CONFIG_TEXT
from ralphgen.emit.workflows import Generated, tools_on_disk
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.kits.registry import KITS
from ralphgen.planning.policy import Catalog
from ralphgen.planning.server import full_catalog
from ralphgen.project import disciplines
from ralphgen.project.config import (
    FILE,
    DisciplineSettings,
    McpServer,
    NamedMcpServer,
    NamedRemoteServer,
    NamedServer,
    RemoteServer,
    without_name,
)
from ralphgen.project.toml import KeyPath
from ralphgen.project.toml_edit import LOSS, edited
from ralphgen.runtime.processes.secrets import MASK, masked_arguments, masked_text

MARK = "\ufeff"
Values = dict[str, Any]
TOP = "disciplines"


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """What to write: `values` by column, and the text of the config, None where it stays.

    Only where all is as it was when this was decided: `expected` are the type and the bytes of
    columns, in hex, and `before` is the text of the config, None where there was no file.
    """

    root: Path
    discipline: str
    expected: Mapping[str, tuple[str, str]] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    config: str
    before: str | None = field(repr=False)
    after: str | None = field(repr=False)


def catalog_of(root: Path, generated: Callable[[], Generated]) -> Catalog:
    """Return every tool that there can be, those that the project adds among them.

    Where it cannot be generated, these are those of the server on disk.
    """
    try:
        return full_catalog(KITS, generated().plan.kits)
    except RalphgenError:
        added = tools_on_disk(root, absent=True)
        names = {kit.key: (*kit.catalog, *added.get(kit.key, ())) for kit in KITS}
        return Catalog({kit: tuple(dict.fromkeys(found)) for kit, found in names.items()})


def plan_write(root: Path, facts: Facts, edit: Edit) -> PlannedWrite:
    """Return what an edit without problems writes; nothing where it changes nothing.

    Raises `ProjectError` where sessions could not read it, or the config cannot be changed.
    """
    row = facts.rows[edit.discipline]
    values: dict[str, str] = {}
    settings = facts.settings(edit.discipline)
    listed = {"database": row.listed()[0], "config": facts.configured(edit.discipline)}
    if edit.servers is not None:
        home = facts.homes[disciplines.SERVERS_COLUMN]
        old = listed[home].servers
        wanted = tuple(_with_values(edit.servers, old or ()))
        if home == "config":
            by_name = {one.name: without_name(one) for one in wanted}
            settings = settings.model_copy(update={"mcp_servers": by_name})
        elif wanted != old:
            values[disciplines.SERVERS_COLUMN] = _json([one.model_dump() for one in wanted])
        # What would stop a session is refused here, whatever the checks before have said.
        column = row.columns.get(disciplines.SERVERS_COLUMN)
        known = column.value if column is not None else None
        stored = values.get(disciplines.SERVERS_COLUMN, known)
        disciplines.discipline_servers(row.name, stored, settings.mcp_servers, RESERVED)
    if edit.disabled is not None:
        home = facts.homes[disciplines.REMOVALS_COLUMN]
        before = listed[home].disabled
        if before is not None and set(before) == set(edit.disabled):
            pass
        elif home == "config":
            settings = settings.model_copy(update={"disable": list(edit.disabled)})
        else:
            values[disciplines.REMOVALS_COLUMN] = _json({disciplines.KEY: list(edit.disabled)})
    shown = {one.column: one.text for one in discipline_of(facts, row).prose}
    values |= {
        column: stored_as(column, text)
        for column, text in edit.prose.items()
        if text != shown[column]
    }
    return _planned(root, facts, row, values, settings)


def secrets_of(facts: Facts, edit: Edit) -> Iterator[str]:
    """Yield every variable's value and credential of the discipline's servers, old and new."""
    stored = facts.rows[edit.discipline].listed()[0]
    for listed in (stored, facts.configured(edit.discipline)):
        for one in listed.servers or ():
            yield from one.secrets.values()
            if isinstance(one, NamedMcpServer):
                shown = zip(one.args, masked_arguments(one.args), strict=True)
                yield from (argument for argument, masked in shown if argument != masked)
    for server in edit.servers or ():
        yield from (variable.value for variable in server.env if variable.value is not None)
        shown = zip(server.args, masked_arguments(server.args), strict=True)
        yield from (argument for argument, masked in shown if argument != masked)


def _with_values(wanted: Sequence[Server], old: Sequence[NamedServer]) -> Iterator[NamedServer]:
    """Yield the servers, where variables without a value have the one of the server that it was.

    Raises `ProjectError` where the address of one is changed, of which a person sees a part only.
    """
    for server in wanted:
        was = old[server.was] if server.was is not None else None
        known = was.secrets if was is not None else {}
        env = {one.name: known[one.name] if one.value is None else one.value for one in server.env}
        if isinstance(was, NamedRemoteServer):
            if server.command != was.address or server.args:
                text = f'the board cannot change the address of the MCP server "{server.name}"'
                raise ProjectError(text, f"change it in {FILE} or in the column by hand")
            yield was.model_copy(update={"name": server.name, "headers": env})
            continue
        command, *args = _unmasked(server, was)
        yield NamedMcpServer(name=server.name, command=command, args=args, env=env)


def _unmasked(server: Server, was: NamedMcpServer | None) -> list[str]:
    """Return a server's command and arguments with the stored values of those that are masked.

    Raises `ProjectError` for a masked one that is not where it was.
    """
    wanted = [server.command, *server.args]
    known = [was.command, *was.args] if was is not None else []
    seen = [*map(masked_text, known[:1]), *masked_arguments(known[1:])]
    found = list(wanted)
    matcher = SequenceMatcher(None, seen, wanted, autojunk=False)
    blocks = [one for one in matcher.get_matching_blocks() if one.size]
    for block in blocks:
        found[block.b : block.b + block.size] = known[block.a : block.a + block.size]
    matched = {at for block in blocks for at in range(block.b, block.b + block.size)}
    if any(MASK in text for at, text in enumerate(wanted) if at not in matched):
        text = f'the MCP server "{server.name}" has a masked argument without a stored value'
        raise ProjectError(text, f"replace {MASK} with the value, or load the page again")
    return found


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
                f"{FILE} has a layout that the board cannot change without loss",
                'edit it by hand, then run "ralphgen regen"',
            ) from None  # its message may hold values
        after = before.removesuffix(text) + changed if before is not None else changed
    return PlannedWrite(
        root=root,
        discipline=row.name,
        expected={
            column: (known.type, known.data.hex().upper())
            for column in (*COLUMNS, *facts.prose)
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


def with_settings(text: str, discipline: str, wanted: DisciplineSettings) -> str:
    """Return the text of a valid config, with what is wanted for a discipline.

    Raises ValueError where it is laid out in a way that cannot be changed; its message holds no
    value.
    """
    old = tomllib.loads(text).get(TOP, {}).get(discipline, {})
    wanted = _in_order(wanted, old)
    changed = edited(text, _steps(old, discipline, wanted))
    found = tomllib.loads(changed).get(TOP, {}).get(discipline, {})
    if DisciplineSettings.model_validate(found) != wanted:
        raise ValueError(LOSS)
    return changed


def _in_order(wanted: DisciplineSettings, old: Values) -> DisciplineSettings:
    """Return the same, with disabled tools in the order of the config, which says nothing."""
    there = [entry for entry in old.get("disable", []) if entry in wanted.disable]
    new = [entry for entry in wanted.disable if entry not in there]
    return wanted.model_copy(update={"disable": there + new})


def _steps(
    own: Values, discipline: str, wanted: DisciplineSettings
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each path that changes, with its new value, or None for one that goes."""
    yield from _step((TOP, discipline, "disable"), own.get("disable", []), wanted.disable)
    old: Values = own.get("mcp_servers", {})
    place = (TOP, discipline, "mcp_servers")
    for name in old:
        if name not in wanted.mcp_servers:
            yield (*place, name), None
    for name, server in wanted.mcp_servers.items():
        if name in old:
            yield from _server_steps((*place, name), old[name], server)
        else:
            yield (
                (*place, name),
                {key: value for key, value in server.model_dump().items() if value},
            )


def _server_steps(
    path: KeyPath, old: Values, new: McpServer | RemoteServer
) -> Iterator[tuple[KeyPath, Any]]:
    for key, value in new.model_dump().items():
        if isinstance(value, dict) and key in old:
            for name in {**old[key], **value}:
                if old[key].get(name) != value.get(name):
                    yield (*path, key, name), value.get(name)
        else:
            yield from _step((*path, key), old.get(key, type(value)()), value)


def _step(path: KeyPath, old: object, new: object) -> Iterator[tuple[KeyPath, Any]]:
    if old != new:
        yield path, new or None
