"""Changes what the config says of a discipline: every other statement stays as it is written."""

import tomllib
from collections.abc import Iterator
from typing import Any

from ralphgen.project.config import DisciplineSettings, McpServer
from ralphgen.project.toml import KeyPath
from ralphgen.project.toml_edit import LOSS, edited

Values = dict[str, Any]
TOP = "disciplines"


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


def _server_steps(path: KeyPath, old: Values, new: McpServer) -> Iterator[tuple[KeyPath, Any]]:
    yield from _step((*path, "command"), old["command"], new.command)
    yield from _step((*path, "args"), old.get("args", []), new.args)
    if "env" not in old:
        yield from _step((*path, "env"), {}, new.env)
        return
    for variable in {**old["env"], **new.env}:
        value = new.env.get(variable)
        if old["env"].get(variable) != value:
            yield (*path, "env", variable), value


def _step(path: KeyPath, old: object, new: object) -> Iterator[tuple[KeyPath, Any]]:
    if old != new:
        yield path, new or None
