"""Which tools this session may use: the context file meets the policy that was generated."""

from __future__ import annotations

import json
import os

from .errors import StartError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .policy import Policy
    from .tool import Tool

VERSION = 1
DEFAULT_FILE = "context.json"
DEFAULT_RECIPE = "interactive"
SHOWN = 60  # characters of a value in an error
KEYS: dict[str, tuple[type, ...]] = {
    "version": (int,),
    "session_id": (str,),
    "recipe": (str,),
    "base": (str,),
    "discipline": (str, type(None)),
    "enabled_tools": (dict,),
    "disabled_tools": (dict,),
}
REQUIRED = ("version", "session_id", "recipe", "enabled_tools")


class Session:
    """What one agent run may see of one kit.

    `recipe` names the kind of session, `base` the profile of the policy that rules it,
    `discipline` the persona, if there is one. `enabled` are names of tools. `context` is the path
    of the file that says so, None where there is none.
    """

    __slots__ = (
        "_reasons",
        "base",
        "context",
        "discipline",
        "enabled",
        "narrowed",
        "recipe",
        "session_id",
    )

    def __init__(
        self,
        facts: Mapping[str, Any],
        base: str,
        enabled: frozenset[str],
        *,
        context: str | None,
        narrowed: Mapping[str, Sequence[str]],
        reasons: Mapping[str, str],
    ) -> None:
        self.session_id: str = facts["session_id"]
        self.recipe: str = facts["recipe"]
        self.base = base
        self.context = context
        self.discipline: str | None = facts.get("discipline")
        self.enabled = enabled
        self.narrowed = narrowed
        self._reasons = reasons

    def tools(self, suite: Sequence[Tool]) -> dict[str, Tool]:
        """The tools of the suite that this session sees, by name, with the arguments it sees."""
        return {
            tool.name: tool.narrowed(self.narrowed[tool.name])
            if tool.name in self.narrowed
            else tool
            for tool in suite
            if tool.name in self.enabled
        }

    def why_hidden(self, name: str) -> str:
        """One sentence on why a tool of this name cannot be called here."""
        return self._reasons.get(name, "this server has none of this name")


def open_session(kit: str, folder: str, context: str | None, policy: Policy) -> Session:
    """The session of a kit: from `context`, else from the file beside the server, else read-only.

    Raises `StartError` for a context that is missing, unreadable, of another version or that
    names what the policy does not know: a bad context never widens into a default.
    """
    path = os.path.join(folder, DEFAULT_FILE) if context is None else context
    if context is None and not os.path.lexists(path):  # a dangling link is a bad context
        unnamed = {"session_id": DEFAULT_RECIPE, "recipe": DEFAULT_RECIPE}
        return _session(kit, unnamed, DEFAULT_RECIPE, policy, None)
    try:
        facts = _read(path)
        _refuse_unknown_tools(facts["enabled_tools"], policy)
        return _session(kit, facts, _base(facts, policy), policy, path)
    except StartError as error:
        mend = 'remove it and run "ralphgen init"' if context is None else "mend the file"
        raise StartError(f'the context "{path}" cannot be used: {error}; {mend}') from error


def _read(path: str) -> dict[str, Any]:
    """The facts of a context; raises `StartError` for the first thing that is wrong."""
    try:
        with open(path, encoding="utf-8") as file:
            facts: dict[str, Any] = json.load(file, object_pairs_hook=_without_repetition)
    except OSError as error:
        raise StartError(f"{error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StartError(f"it is not JSON ({error})") from error
    problem = _shape_problem(facts)
    if problem:
        raise StartError(problem)
    return facts


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, where no key may stand twice: readers disagree on which one counts."""
    facts = dict(pairs)
    if len(facts) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in facts if keys.count(key) > 1)
        raise StartError(f'the key "{twice}" stands twice')
    return facts


def _shape_problem(facts: object) -> str | None:
    """The first thing about a context's shape that is wrong."""
    if not isinstance(facts, dict):
        return "expected a JSON object"
    if facts.get("version") != VERSION:
        return f'"version" is {_shown(facts.get("version"))}, expected {VERSION}'
    missing = [key for key in REQUIRED if key not in facts]
    if missing:
        return f'"{missing[0]}" is missing'
    for key, value in facts.items():
        if key not in KEYS:
            return f'unknown key "{key}"'
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            return f'"{key}" is {_shown(value)}, which has the wrong type'
    return _names_problem(facts, "enabled_tools") or _names_problem(facts, "disabled_tools")


def _names_problem(facts: dict[str, Any], key: str) -> str | None:
    for kit, names in facts.get(key, {}).items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return f'"{key}" of "{kit}" is no list of names'
    return None


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _base(facts: Mapping[str, Any], policy: Policy) -> str:
    """The profile that rules the session: its recipe, or the base of a recipe that is a row."""
    named = [facts[key] for key in ("recipe", "base") if key in facts]
    known = [name for name in named if name in policy.recipes]
    if named[-1] not in known:
        recipes = ", ".join(f'"{name}"' for name in policy.recipes)
        raise StartError(f'there is no recipe "{named[-1]}", only {recipes}')
    return str(known[0])


def _refuse_unknown_tools(enabled: Mapping[str, Sequence[str]], policy: Policy) -> None:
    """Raise `StartError` for a name that means nothing: it may be a typo for something smaller."""
    for kit, names in enabled.items():
        if kit not in policy.kits:
            kits = ", ".join(f'"{key}"' for key in policy.kits)
            raise StartError(f'it enables tools of the kit "{kit}", but the kits are {kits}')
        for name in names:
            if not policy.knows(kit, name):
                raise StartError(f'it enables "{name}", which the kit "{kit}" does not have')


def _session(
    kit: str, facts: Mapping[str, Any], base: str, policy: Policy, context: str | None
) -> Session:
    """The policy's set for the profile, less what the context leaves out or a discipline takes."""
    discipline = facts.get("discipline")
    enabled = policy.allowed(base, kit) - policy.removed(discipline, kit)
    if context is not None:
        enabled &= frozenset(facts["enabled_tools"].get(kit, ()))
        enabled -= frozenset(facts.get("disabled_tools", {}).get(kit, ()))
    return Session(
        facts,
        base,
        enabled,
        context=context,
        narrowed=policy.narrowed(base, kit),
        reasons=policy.reasons(kit, one_line(facts["recipe"]), base, one_line(discipline or "")),
    )
