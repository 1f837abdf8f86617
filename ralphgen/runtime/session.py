"""Which tools this session may use: the context file meets the policy that was generated."""

from __future__ import annotations

import json
import os

from .errors import StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .policy import Policy
    from .tool import Tool

VERSION = 1
DEFAULT_FILE = "context.json"
DEFAULT_RECIPE = "interactive"
MEND = 'write a new one with "ralphgen init"'
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
    `discipline` the persona, if there is one. `enabled` are names of tools.
    """

    __slots__ = ("_reasons", "base", "discipline", "enabled", "narrowed", "recipe", "session_id")

    def __init__(
        self,
        facts: Mapping[str, Any],
        base: str,
        enabled: frozenset[str],
        *,
        narrowed: Mapping[str, Sequence[str]],
        reasons: Mapping[str, str],
    ) -> None:
        self.session_id: str = facts["session_id"]
        self.recipe: str = facts["recipe"]
        self.base = base
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
        return self._reasons.get(name, "no such tool")


def open_session(kit: str, folder: str, context: str | None, policy: Policy) -> Session:
    """The session of a kit: from `context`, else from the file beside the server, else read-only.

    Raises `StartError` for a context that is missing, unreadable, of another version or that
    names what the policy does not know: a bad context never widens into a default.
    """
    path = context or os.path.join(folder, DEFAULT_FILE)
    if context is None and not os.path.exists(path):
        return _read_only(kit, policy)
    facts = _read(path)
    base = _base(facts, policy, path)
    return _carve(kit, facts, base, policy, path)


def _read_only(kit: str, policy: Policy) -> Session:
    facts = {"session_id": DEFAULT_RECIPE, "recipe": DEFAULT_RECIPE}
    enabled = policy.allowed(DEFAULT_RECIPE, kit)
    return _session(kit, facts, DEFAULT_RECIPE, enabled, policy)


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
    except OSError as error:
        raise StartError(f'cannot read the context "{path}": {error.strerror}; {MEND}') from error
    except (ValueError, RecursionError) as error:
        raise StartError(f'the context "{path}" is not JSON: {error}; {MEND}') from error
    problem = _shape_problem(facts)
    if problem:
        raise StartError(f'the context "{path}" cannot be used: {problem}; {MEND}')
    checked: dict[str, Any] = facts
    return checked


def _shape_problem(facts: object) -> str | None:
    """The first thing about a context's shape that is wrong."""
    if not isinstance(facts, dict):
        return "expected a JSON object"
    if facts.get("version") != VERSION:
        return f'"version" is {json.dumps(facts.get("version"))}, expected {VERSION}'
    missing = [key for key in REQUIRED if key not in facts]
    if missing:
        return f'"{missing[0]}" is missing'
    for key, value in facts.items():
        if key not in KEYS:
            return f'unknown key "{key}"'
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            return f'"{key}" has the wrong type'
    return _names_problem(facts["enabled_tools"])


def _names_problem(enabled: dict[str, Any]) -> str | None:
    for kit, names in enabled.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return f'"enabled_tools" of "{kit}" is no list of names'
    return None


def _base(facts: Mapping[str, Any], policy: Policy, path: str) -> str:
    """The profile that rules the session: its recipe, or the base of a recipe that is a row."""
    for key in ("recipe", "base"):
        if facts.get(key) in policy.recipes:
            return str(facts[key])
    known = ", ".join(f'"{name}"' for name in policy.recipes)
    text = f'the context "{path}" names the recipe "{facts["recipe"]}", which is none of {known}'
    raise StartError(f"{text}; {MEND}")


def _carve(kit: str, facts: Mapping[str, Any], base: str, policy: Policy, path: str) -> Session:
    listed = facts["enabled_tools"].get(kit, [])
    for name in listed:
        if not policy.knows(kit, name):
            text = f'the context "{path}" enables "{name}", which the kit "{kit}" does not have'
            raise StartError(f"{text}; {MEND}")
    enabled = policy.allowed(base, kit) & frozenset(listed)
    return _session(kit, facts, base, enabled, policy)


def _session(
    kit: str, facts: Mapping[str, Any], base: str, enabled: frozenset[str], policy: Policy
) -> Session:
    discipline = facts.get("discipline")
    left = enabled - policy.removed(discipline, kit)
    return Session(
        facts,
        base,
        left,
        narrowed=policy.narrowed(base, kit),
        reasons=policy.reasons(kit, facts["recipe"], base, discipline),
    )
