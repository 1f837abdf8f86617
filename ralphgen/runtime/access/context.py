"""The context: the file that says what one session may see, read so that no doubt widens it."""

from __future__ import annotations

from ..errors import StartError
from ..values.digest import sha256_hex
from ..values.json_text import JsonReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

VERSION = 1
SHOWN = 60  # characters of a value in an error
_NAME_OR_NONE = (str, type(None))
KEYS: dict[str, tuple[type, ...]] = {
    "version": (int,),
    "session_id": (str,),
    "project": (dict,),
    "recipe": (str,),
    "base": (str,),
    "discipline": _NAME_OR_NONE,
    "target_discipline": _NAME_OR_NONE,
    "feature": _NAME_OR_NONE,
    "task_id": (int, type(None)),
    "enabled_tools": (dict,),
    "disabled_tools": (dict,),
    "narrowed_arguments": (dict,),
    "bindings": (dict,),
}
# What the file beside a server must hold; one that a command line names holds every key.
REQUIRED = ("version", "session_id", "recipe", "enabled_tools")
PROJECT: dict[str, tuple[type, ...]] = {
    "root": (str,),
    "title": _NAME_OR_NONE,
    "created": _NAME_OR_NONE,
}


def read_context(path: str, sha256: str | None) -> dict[str, Any]:
    """Return the facts of a context; raises `StartError` for the first thing that is wrong.

    `sha256` is what the file must have, in hex, None for the file that lies beside a server.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        if sha256 is not None and sha256_hex(data) != sha256:
            raise StartError("it was changed since the session was made")
        facts: dict[str, Any] = JsonReader(_without_repetition).read(data.decode())
    except OSError as error:
        raise StartError(f"{error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StartError(f"it is not JSON ({error})") from error
    problem = _shape_problem(facts, tuple(KEYS) if sha256 is not None else REQUIRED)
    if problem:
        raise StartError(problem)
    return facts


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, where no key may stand twice: readers disagree on which one counts."""
    facts = dict(pairs)
    if len(facts) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in facts if keys.count(key) > 1)
        raise StartError(f'the key "{twice}" stands twice')
    return facts


def _shape_problem(facts: object, required: tuple[str, ...]) -> str | None:
    """Return the first thing about a context's shape that is wrong."""
    if not isinstance(facts, dict):
        return "expected a JSON object"
    if facts.get("version") != VERSION:
        return f'"version" is {_shown(facts.get("version"))}, expected {VERSION}'
    missing = [key for key in required if key not in facts]
    if missing:
        return f'"{missing[0]}" is missing'
    for key, value in facts.items():
        if key not in KEYS:
            return f'unknown key "{key}"'
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            return f'"{key}" is {_shown(value)}, which has the wrong type'
    return _project_problem(facts.get("project")) or _tables_problem(facts)


def _project_problem(project: Mapping[str, Any] | None) -> str | None:
    if project is None:
        return None
    if project.keys() != PROJECT.keys():
        return f'"project" holds {_shown(sorted(project))}, expected {_shown(sorted(PROJECT))}'
    wrong = [key for key, types in PROJECT.items() if not isinstance(project[key], types)]
    return f'"project" has a wrong "{wrong[0]}"' if wrong else None


def _tables_problem(facts: Mapping[str, Any]) -> str | None:
    """Return what is wrong about the objects that are keyed by kit."""
    for key, whole, expected in (
        ("enabled_tools", _is_names, "list of names"),
        ("disabled_tools", _is_names, "list of names"),
        ("narrowed_arguments", _each(_is_names), "object of lists of names"),
        ("bindings", _each(_each(_is_row)), "object of objects of rows"),
    ):
        for kit, value in facts.get(key, {}).items():
            if not whole(value):
                return f'"{key}" of "{kit}" is no {expected}'
    return None


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_row(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _each(whole: Callable[[object], bool]) -> Callable[[object], bool]:
    """Return whether something is an object of which every value is whole."""
    return lambda value: isinstance(value, dict) and all(map(whole, value.values()))


def _shown(value: object) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
