"""Adds servers to the text of a client's file; every other character is unchanged."""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ralphgen.project.toml_edit import edited

_JSON = json.JSONDecoder()
_BETWEEN = re.compile(r"[ \t\r\n]*[:,]?[ \t\r\n]*")
_FIRST_INDENT = re.compile(r"\n([ \t]+)\S")


def merged(
    text: str,
    keys: Sequence[str],
    entries: Mapping[str, Any],
    *,
    toml: bool,
    refuse: Callable[[Mapping[str, Any]], None],
) -> str:
    """Return the text with the entries below nested keys; everything else is unchanged.

    `refuse` takes the current entries. Raises ValueError or RecursionError, which `reason` puts
    into words, if something would be lost.
    """
    parsed: Callable[[str], Any] = tomllib.loads if toml else json.loads
    there = parsed(text)
    expected = _overlaid(there, nested(keys, entries))
    for key in keys:
        there = there.get(key, {})
    refuse(there)
    if toml:
        return _merged_toml(text, keys[-1], entries)
    new = _spliced(text, 0, nested(keys, entries))
    if 0 < text.count("\n") == text.count("\r\n"):
        new = re.sub(r"(?<!\r)\n", "\r\n", new)
    if json.loads(new) != expected:
        raise ValueError("other values would change")
    return new


def nested(keys: Sequence[str], value: Any) -> Any:
    """Return objects inside each other, with one key each and the value innermost."""
    for key in reversed(keys):
        value = {key: value}
    return value


def _overlaid(old: Any, wanted: Any) -> Any:
    """Return the values of the new file: `wanted` over the old ones."""
    if not isinstance(wanted, dict):
        return wanted
    if isinstance(old, dict):
        return old | {key: _overlaid(old.get(key, {}), value) for key, value in wanted.items()}
    raise ValueError(f"expected an object around {', '.join(map(json.dumps, wanted))}")


def reason(error: Exception) -> str:
    """Return in words why an entry cannot be added to a text."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno} is not plain JSON, which has no comments or trailing commas"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _merged_toml(text: str, key: str, entries: Mapping[str, Mapping[str, Any]]) -> str:
    """Return TOML with changed values in existing tables and new tables at its end."""
    there = tomllib.loads(text).get(key, {})
    changes: list[tuple[tuple[str, ...], Any]] = []
    for kit, entry in entries.items():
        if kit not in there:
            changes.append(((key, kit), entry))
            continue
        for name, value in entry.items():
            inner = there[kit].get(name)
            if isinstance(value, dict) and isinstance(inner, dict):
                changes += [((key, kit, name, each), value[each]) for each in value]
            elif inner != value:
                changes.append(((key, kit, name), value))
    return edited(text, changes)


def _spliced(text: str, at: int, wanted: Mapping[str, Any]) -> str:
    """Return JSON with `wanted` in the object at `at`; every other character is unchanged."""
    at = _after(text, at)
    for key, value in wanted.items():
        members = _members(text, at)
        start, end = members.get(key, (at, at))
        if key not in members:
            text = _inserted(text, at, members, key, value)
        elif isinstance(value, dict):
            text = _spliced(text, start, value)
        elif json.loads(text[start:end]) != value:
            text = text[:start] + json.dumps(value, ensure_ascii=False) + text[end:]
    return text


def _members(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Return the range of each value of an object; raises ValueError for a duplicate key."""
    members: dict[str, tuple[int, int]] = {}
    at = _after(text, at + 1)
    while text[at] != "}":
        key, end = _JSON.raw_decode(text, at)
        start = _after(text, end)
        _, end = _JSON.raw_decode(text, start)
        if key in members:
            raise ValueError(f'duplicate key "{key}"')
        members[key] = (start, end)
        at = _after(text, end)
    return members


def _after(text: str, at: int) -> int:
    """Return the position of the next key or value, or of the end of the object."""
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


def _inserted(
    text: str, at: int, members: Mapping[str, tuple[int, int]], key: str, value: Any
) -> str:
    """Return JSON with a new last member of an object, in the layout of its neighbours."""
    first = _after(text, at + 1)
    gap = text[at + 1 : first]
    member = json.dumps(key, ensure_ascii=False) + ": "
    if members and "\n" not in gap:
        end = max(end for _, end in members.values())
        compact = json.dumps(value, ensure_ascii=False)
        return f"{text[:end]}, {member}{compact}{text[end:]}"
    found = _FIRST_INDENT.search(text)
    unit = found[1] if found else "  "
    line = text[text.rfind("\n", 0, at) + 1 : at]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    inner = gap.rpartition("\n")[2] if members else outer + unit
    member += json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + inner)
    if not members:
        return f"{text[: at + 1]}\n{inner}{member}\n{outer}{text[first:]}"
    end = max(end for _, end in members.values())
    return f"{text[:end]},\n{inner}{member}{text[end:]}"
