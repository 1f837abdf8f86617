"""Changes what the config says of a discipline: every other statement stays as it is written."""

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ralphgen.board.edit.toml_statements import Keys, ways_to_remove, ways_to_set
from ralphgen.project.config import DisciplineSettings, McpServer

Values = dict[str, Any]
TOP = "disciplines"
LOSS = "it is laid out in a way that cannot be changed without loss"


def with_settings(text: str, discipline: str, wanted: DisciplineSettings) -> str:
    """The text of a valid config, with what is wanted for a discipline.

    It is read back, to be sure that all else is as it was. Raises ValueError where it is laid out
    in a way that cannot be changed; its message holds no value.
    """
    whole = text if text.endswith("\n") or not text else f"{text}\n"
    wanted = _in_order(wanted, tomllib.loads(whole).get(TOP, {}).get(discipline, {}))
    for path, value in _steps(tomllib.loads(whole), discipline, wanted):
        whole = _applied(whole, path, value)
    if 0 < text.count("\n") == text.count("\r\n"):
        whole = re.sub(r"(?<!\r)\n", "\r\n", whole)
    if text and not text.endswith("\n"):
        whole = whole.removesuffix("\n").removesuffix("\r")
    found = tomllib.loads(whole).get(TOP, {}).get(discipline, {})
    if DisciplineSettings.model_validate(found) != wanted:
        raise ValueError(LOSS)
    return whole


def _in_order(wanted: DisciplineSettings, old: Values) -> DisciplineSettings:
    """The same, with disabled tools in the order in which they stand there, which says nothing."""
    there = [entry for entry in old.get("disable", []) if entry in wanted.disable]
    new = [entry for entry in wanted.disable if entry not in there]
    return wanted.model_copy(update={"disable": there + new})


def _steps(
    values: Values, discipline: str, wanted: DisciplineSettings
) -> Iterator[tuple[Keys, Any]]:
    """Each path that changes, with its new value, or None for one that goes."""
    own: Values = values.get(TOP, {}).get(discipline, {})
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


def _server_steps(path: Keys, old: Values, new: McpServer) -> Iterator[tuple[Keys, Any]]:
    yield from _step((*path, "command"), old["command"], new.command)
    yield from _step((*path, "args"), old.get("args", []), new.args)
    if "env" not in old:
        yield from _step((*path, "env"), {}, new.env)
        return
    for variable in {**old["env"], **new.env}:
        value = new.env.get(variable)
        if old["env"].get(variable) != value:
            yield (*path, "env", variable), value


def _step(path: Keys, old: object, new: object) -> Iterator[tuple[Keys, Any]]:
    if old != new:
        yield path, new or None


def _applied(text: str, path: Keys, value: Any) -> str:
    """The text after one step: the first way of writing it that changes nothing else."""
    expected = tomllib.loads(text)
    _set(expected, path, value)
    ways = ways_to_remove(text, path) if value is None else ways_to_set(text, path, value)
    for way in ways:
        with suppress(tomllib.TOMLDecodeError):
            if _pruned(tomllib.loads(way)) == _pruned(expected):
                return way
    raise ValueError(LOSS)


def _set(values: Values, path: Keys, value: Any) -> None:
    *above, last = path
    for key in above:
        values = values.setdefault(str(key), {})
    if value is None:
        del values[str(last)]
    else:
        values[str(last)] = value


def _pruned(values: Values) -> Values:
    """The values without what is empty among those of disciplines: it says nothing."""
    return {**values, TOP: _filled(values.get(TOP, {}))}


def _filled(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: _filled(one) for key, one in value.items()}
    return {key: one for key, one in inner.items() if one not in ({}, [])}
