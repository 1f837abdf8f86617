"""The context: the file that says what one session may see, read so that no doubt widens it.

A running server holds the lock beside it, which keeps the session's folder from being swept.
"""

from __future__ import annotations

from .encoding import JsonReader, sha256_hex
from .errors import StartError
from .system import os

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
    "brief": (dict,),
    "done": (dict,),
    "claim": (dict,),
    "user": (str,),
    "as_read": (dict,),
}
# What the file beside a server must hold, and one that a command line names.
REQUIRED = ("version", "session_id", "recipe", "enabled_tools")
# What only a context may hold that was fixed when it was made.
FIXED = ("brief", "done", "claim", "as_read")
NAMED = tuple(key for key in KEYS if key not in (*FIXED, "user"))
# What people say of the brief; only a context that was fixed when it was made may hold it, because
# agents follow these words, and whoever commits a file could write them.
BRIEF: dict[str, tuple[type, ...]] = {
    "max_characters": (int,),
    "features": (str,),
    "description": (str,),
    "prompt": (str,),
    "words": (list,),
}
CLAIM = {"task": int, "token": int, "lease": int, "kept": bool}
AS_READ = {"task": int, "feature": str, "discipline": str}  # kinds of rows, with their keys
WORDS = {"file", "text"}  # the keys of each of the words
PROJECT: dict[str, tuple[type, ...]] = {
    "root": (str,),
    "title": _NAME_OR_NONE,
    "created": _NAME_OR_NONE,
    "work_tree": (str,),
    "database": (str,),
}
IDENTITY = ("root", "title", "created")  # without which no project is named
# How the user takes part in a session: types each call as a command, uses a client, or talks with a
# launched agent in a terminal. A session without the key belongs to an agent alone.
BY_COMMAND, BY_CLIENT, BY_TERMINAL = "command", "client", "terminal"
LOCK = "lock"
_held: list[int] = []  # open for the life of the process


def read_context(path: str, sha256: str | None) -> dict[str, Any]:
    """Return the facts of a context; raises `StartError` for the first thing that is wrong.

    `sha256` is what the file must have, in hex, None for the file that lies beside a server.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
        if sha256 is not None and sha256_hex(data) != sha256:
            raise StartError("it was changed after the session was created")
        facts: dict[str, Any] = JsonReader(_without_repetition).read(data.decode())
    except OSError as error:
        raise StartError(f"{error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StartError(f"it is not valid JSON ({error})") from error
    problem = _shape_problem(facts, REQUIRED if sha256 is None else NAMED)
    if sha256 is None and not problem:
        fixed = next((key for key in FIXED if key in facts), None)
        problem = fixed and f'"{fixed}" is for sessions alone'
        if facts.get("user", BY_CLIENT) != BY_CLIENT:
            problem = f'"user" is {_shown(facts["user"])}, which is for sessions alone'
    if problem:
        raise StartError(problem)
    return facts


def is_same(value: object, recorded: object) -> bool:
    """Return whether two values are one, or the same moment as spelled in two time zones."""
    if value == recorded:
        return True
    from datetime import datetime

    try:
        one, two = (datetime.fromisoformat(str(side)) for side in (value, recorded))
    except ValueError:
        return False
    return one.tzinfo is not None is not two.tzinfo and one == two


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, where no key may stand twice: readers disagree on which one counts."""
    facts = dict(pairs)
    if len(facts) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in facts if keys.count(key) > 1)
        raise StartError(f'duplicate key "{twice}"')
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
    brief = _brief_problem(facts.get("brief", {}))
    problem = _project_problem(facts.get("project")) or _tables_problem(facts) or brief
    return problem or _user_problem(facts) or _claim_problem(facts) or _as_read_problem(facts)


def _project_problem(project: Mapping[str, Any] | None) -> str | None:
    if project is None:
        return None
    if not {*IDENTITY} <= project.keys() <= PROJECT.keys():
        return f'"project" holds {_shown(sorted(project))}, expected {_shown(sorted(PROJECT))}'
    wrong = [key for key, value in project.items() if not isinstance(value, PROJECT[key])]
    return f'"project" has a wrong "{wrong[0]}"' if wrong else None


def _user_problem(facts: Mapping[str, Any]) -> str | None:
    known = facts.get("user", BY_CLIENT) in (BY_COMMAND, BY_CLIENT, BY_TERMINAL)
    return None if known else f'"user" is {_shown(facts["user"])}, which is not known'


def _claim_problem(facts: Mapping[str, Any]) -> str | None:
    claim = facts.get("claim")
    if claim is None:
        return None
    whole = {name: type(value) for name, value in claim.items()} == CLAIM
    return None if whole and claim["task"] == facts.get("task_id") else '"claim" has a wrong value'


def _as_read_problem(facts: Mapping[str, Any]) -> str | None:
    read = facts.get("as_read")
    if read is None:
        return None
    whole = read.keys() == {"kind", "key", "columns"} and isinstance(read["columns"], dict)
    fits = whole and type(read["key"]) is AS_READ.get(str(read["kind"]))
    return None if fits else '"as_read" has a wrong value'


def _brief_problem(brief: Mapping[str, Any]) -> str | None:
    wrong = [key for key in brief if not isinstance(brief[key], BRIEF.get(key, ()))]
    if wrong:
        return f'"brief" has a wrong "{wrong[0]}"'
    for words in brief.get("words", ()):
        if not isinstance(words, dict) or words.keys() != WORDS or not _is_names([*words.values()]):
            return '"words" of "brief" is not a list of files with their text'
    return None


def _tables_problem(facts: Mapping[str, Any]) -> str | None:
    """Return what is wrong about the objects that are keyed by kit."""
    for key, whole, expected in (
        ("enabled_tools", _is_names, "a list of names"),
        ("disabled_tools", _is_names, "a list of names"),
        ("narrowed_arguments", _each(_is_names), "an object of lists of names"),
        ("bindings", _each(_each(_is_row)), "an object of objects of rows"),
    ):
        for kit, value in facts.get(key, {}).items():
            if not whole(value):
                return f'"{key}" of "{kit}" is not {expected}'
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


def hold(context: str) -> None:
    """Share the lock beside a context, where there is one, and note that the session is in use."""
    path = os.path.join(os.path.dirname(context), LOCK)
    try:
        file = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return  # a context that was written by hand has none, and is never swept
    _held.append(file)  # where there are no shared locks, an open file cannot be removed
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_SH)
        os.utime(path)
    except (ImportError, OSError):
        return  # no such lock on this machine or this file system: a session of a day may go
