"""The state of a spec: which phase it is in, and what has been counted in it."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files import reason

from .store import FOLDER, ReadDeniedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .store import Specs

FILE = ".ralph-state.json"
BACKUP = ".ralph-state.json.bak"
PHASES = ("research", "requirements", "design", "tasks", "execution")
SOURCES = ("spec", "plan", "direct")
LAST_SERVED = "lastServedTask"  # a key of our own, which other tools carry along

# The least value and the one of a new spec.
COUNTERS = {
    "taskIndex": (0, 0),  # the position of the current task
    "totalTasks": (0, 0),  # how many there were when they were last counted
    "taskIteration": (1, 1),  # which attempt at the current task this is
    "maxTaskIterations": (1, 5),
    "globalIteration": (1, 1),  # which attempt at any task
    "maxGlobalIterations": (1, 100),
}
_INFINITE = float("inf")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _UnfitError(Exception):
    """What a state file lacks, as the end of a sentence that begins with its name."""


class Corrupt:
    """A state file that cannot be used, and one sentence on why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class State:
    """A state that can be relied on: every field of SPEC-002 is there and in its range.

    `fields` is the object of the file, in its order and with all keys that other tools put there.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    @property
    def phase(self) -> str:
        """One of `PHASES`."""
        return str(self.fields["phase"])

    def count(self, field: str) -> int:
        """Return what is counted under a name of `COUNTERS`."""
        return int(self.fields[field])

    @property
    def last_served(self) -> str | None:
        """The key of the task that was last served."""
        key = self.fields.get(LAST_SERVED)
        return key if isinstance(key, str) else None

    def changed(self, **fields: Any) -> State:
        """Return the same state with other values, under the names that they have in the file."""
        return State({**self.fields, **fields})


def new_state(name: str, *, quick: bool = False) -> State:
    """Return the state of a spec that starts: in `research`, or where it is quick, in `tasks`."""
    return State(
        {
            "source": "plan" if quick else "spec",
            "name": name,
            "basePath": f"./{FOLDER}/{name}",
            "phase": "tasks" if quick else "research",
            **{key: first for key, (_, first) in COUNTERS.items()},
            "commitSpec": not quick,
            "awaitingApproval": False,
            "relatedSpecs": [],
        }
    )


def read_state(specs: Specs, name: str) -> State | Corrupt | None:
    """Return the state of a spec, `None` where it has none; nothing is moved or written.

    Missing fields have their defaults, as in a file of the plugin, which writes five of them.
    Raises `ToolError` for a name that does not fit, and where the system lets nobody read the
    file: it may well be in order.
    """
    specs.path(name)
    try:
        data = specs.read_bytes(name, FILE)
        return None if data is None else State(_checked(_parsed(data), name))
    except ReadDeniedError:
        raise
    except ToolError as error:
        return Corrupt(str(error))
    except _UnfitError as error:
        return Corrupt(f'"{FILE}" {error}')


def write_state(specs: Specs, name: str, state: State) -> None:
    """Write the state of a spec, whole or not at all; the folder is made where there is none."""
    specs.create(name)
    specs.write(name, FILE, spelled(state))


def spelled(state: State) -> str:
    """Return the text of a state file."""
    text = json.dumps(state.fields, ensure_ascii=False, allow_nan=False, indent=2)
    # No file can hold half a surrogate pair but as JSON spells it.
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def set_aside(specs: Specs, name: str) -> str:
    """Rename a state file that cannot be used, and return the name that it has now.

    The newest backup is `.bak`; an older one becomes `.bak.1`, the one before `.bak.2`. Raises
    `ToolError` where there is no state file, or it cannot be renamed.
    """
    if not os.path.lexists(specs.path(name, FILE)):
        raise ToolError(f'cannot rename "{FOLDER}/{name}/{FILE}": the file does not exist')
    backups = [BACKUP]
    while os.path.lexists(specs.path(name, backups[-1])):
        backups.append(f"{BACKUP}.{len(backups)}")
    chain = [FILE, *backups]
    try:
        for older, newer in zip(reversed(chain[1:]), reversed(chain[:-1]), strict=True):
            os.rename(specs.path(name, newer), specs.path(name, older))
    except OSError as error:
        raise ToolError(
            f'cannot rename "{FOLDER}/{name}/{FILE}": {reason(error)}; delete it by hand'
        ) from error
    return BACKUP


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the object in a state file; raises `_UnfitError` with what is wrong with the file."""
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_finite, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise _UnfitError("is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise _UnfitError(
            f"is not valid JSON: {error.msg.lower()} (line {error.lineno})"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _UnfitError("contains a number that is too large or is nested too deeply") from error
    if not isinstance(found, dict):
        raise _UnfitError("must be a JSON object")
    return found


def _checked(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the fields, with defaults for missing and null ones; raises `_UnfitError`."""
    _check(fields.get("phase") in PHASES, "phase", _one_of(PHASES))
    defaults = new_state(name, quick=fields.get("source") == "plan").fields
    found = {**fields, **{key: defaults[key] for key in defaults if fields.get(key) is None}}
    _check(found["source"] in SOURCES, "source", _one_of(SOURCES))
    for key in ("name", "basePath"):
        _check(isinstance(found[key], str), key, "a string")
    for key, (least, _) in COUNTERS.items():
        found[key] = _whole(found[key], least)
        _check(found[key] is not None, key, f"an integer of {least} or more")
    for key in ("commitSpec", "awaitingApproval"):
        _check(isinstance(found[key], bool), key, "true or false")
    _check(_are_related(found["relatedSpecs"]), "relatedSpecs", 'a list of objects with a "name"')
    return found


def _check(fits: bool, key: str, expected: str) -> None:
    if not fits:
        raise _UnfitError(f'must set "{key}" to {expected}')


def _one_of(words: tuple[str, ...]) -> str:
    return "one of " + ", ".join(f'"{word}"' for word in words)


def _whole(value: object, least: int) -> int | None:
    """Return the value as an integer in its range, else `None`; 2.0 is 2, `true` is no number."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int):
        return None
    return whole if whole >= least else None


def _are_related(value: object) -> bool:
    """Return whether this lists specs: objects that have a name, and whatever else a tool notes."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in value
    )


def _finite(spelled: str) -> float:
    value = float(spelled)
    if not abs(value) < _INFINITE:
        raise ValueError(spelled)
    return value
