"""Which tools this session may use: the context file meets the policy that was generated."""

from __future__ import annotations

import os

from .access.context import read_context
from .access.row_scope import OWN, BoundArgument, bound_arguments
from .errors import StartError, ToolError, one_line
from .policy import OPTIONAL, REQUIRED
from .values.arguments import check_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .policy import Policy
    from .tool import Tool

DEFAULT_FILE = "context.json"
DEFAULT_RECIPE = "interactive"
# What a session can be about, and the key of the context that names it.
ROWS = {"task": "task_id", "feature": "feature", "discipline": "target_discipline"}


class Session:
    """What one agent run may see of one kit.

    `recipe` is what it calls itself, `base` the recipe of the policy that rules it, `profile` the
    built-in kind of session that this comes from. `discipline` is the agent's, if there is one.
    `task` (an id), `feature` and `target` (a discipline) are the rows that it is about. `enabled`
    are names of tools. `context` is the path of the file that says so, None where there is none;
    `project` what it says of the project it was made for, None where it says nothing.
    """

    __slots__ = (
        "_bound",
        "_facts",
        "_kit",
        "_narrowed",
        "_policy",
        "_ungranted",
        "base",
        "context",
        "discipline",
        "enabled",
        "feature",
        "profile",
        "project",
        "recipe",
        "session_id",
        "target",
        "task",
    )

    def __init__(
        self, kit: str, facts: Mapping[str, Any], base: str, policy: Policy, context: str | None
    ) -> None:
        self.session_id: str = facts["session_id"]
        self.recipe: str = facts["recipe"]
        self.base = base
        self.profile = policy.profile(base)
        self.discipline: str | None = facts.get("discipline")
        self.task: int | None = facts.get(ROWS["task"])
        self.feature: str | None = facts.get(ROWS["feature"])
        self.target: str | None = facts.get(ROWS["discipline"])
        self.project: Mapping[str, str | None] | None = facts.get("project")
        self.context = context
        self._facts = facts
        self._kit = kit
        self._policy = policy
        self._narrowed: Mapping[str, Sequence[str]] = facts.get("narrowed_arguments", {}).get(
            kit, {}
        )
        self._bound = _bound_arguments(policy.bound(base, kit), facts, kit)
        self.enabled = policy.allowed(base, kit) - policy.removed(self.discipline, kit)
        self._ungranted = policy.ungranted(base, kit, _missing_rows(facts))
        self.enabled -= self._ungranted
        if context is not None:
            self.enabled &= frozenset(facts["enabled_tools"].get(kit, ()))
            self.enabled -= frozenset(facts.get("disabled_tools", {}).get(kit, ()))

    def tools(self, suite: Sequence[Tool]) -> dict[str, Tool]:
        """The tools of the suite that this session sees, by name, with the arguments it sees.

        Raises `StartError` where the context narrows or binds an argument that is none.
        """
        narrowed = self._policy.narrowed(self.base, self._kit)
        values = self._policy.values(self.base, self._kit)
        first = self._policy.loaded_first(self.base, self._kit)
        seen: dict[str, Tool] = {}
        for tool in suite:
            keep = self._kept(tool.name, narrowed.get(tool.name))
            self._refuse_useless_arguments(tool, narrowed.get(tool.name), keep)
            keep = self._granted(tool, keep)
            if tool.name in self.enabled:
                seen[tool.name] = tool.tailored(
                    keep=keep,
                    values=values.get(tool.name, {}),
                    bound_arguments=self.bound_arguments(tool.name),
                    loaded_first=tool.name in first,
                )
        return seen

    @property
    def kits(self) -> tuple[str, ...]:
        """The kits that the project has switched on."""
        return self._policy.kits

    def of(self, kit: str) -> Session:
        """Return what the same agent run may see of another kit that is switched on."""
        return Session(kit, self._facts, self.base, self._policy, self.context)

    def grants(self, kit: str, tool: str) -> bool:
        """Return whether the same agent run has a tool of another kit."""
        return kit in self.kits and tool in self.of(kit).enabled

    def leaves(self, tool: str, argument: str) -> bool:
        """Return whether neither the recipe nor the context takes an argument of a tool away."""
        narrowed = self._policy.narrowed(self.base, self._kit)
        keep = self._kept(tool, narrowed.get(tool))
        return keep is None or argument in keep

    def bound_arguments(self, tool: str) -> Mapping[str, BoundArgument]:
        """Return the rows that arguments of a tool stand for by themselves."""
        return self._bound.get(tool, {})

    def open_kinds(self) -> list[str]:
        """The kinds of rows that a session of this recipe can be about, and this one is not."""
        own = {"task": self.task, "feature": self.feature, "discipline": self.target}
        targets = self._policy.targets(self.base)
        return [kind for kind, row in own.items() if row is None and targets.get(kind) == OPTIONAL]

    def why_hidden(self, name: str) -> str:
        """Return one sentence on why a tool of this name cannot be called here."""
        if name in self._ungranted:
            return "it needs a session that is about one row, and this one is about none"
        reasons = self._policy.reasons(self._kit, one_line(self.recipe), self.base, self.discipline)
        return reasons.get(name, "this server has none of this name")

    def _granted(self, tool: Tool, keep: Sequence[str] | None) -> Sequence[str] | None:
        """The arguments that remain without those that need a tool which the run does not have."""
        lacking = [name for name, need in tool.needs.items() if not self.grants(*need.split(":"))]
        if not lacking:
            return keep
        return [name for name in (tool.properties if keep is None else keep) if name not in lacking]

    def _kept(self, tool: str, keep: Sequence[str] | None) -> Sequence[str] | None:
        """Return the arguments that both the recipe and the context leave of a tool."""
        further = self._narrowed.get(tool)
        if keep is None or further is None:
            return further if keep is None else keep
        return [name for name in keep if name in further]

    def _refuse_useless_arguments(
        self, tool: Tool, recipe: Sequence[str] | None, keep: Sequence[str] | None
    ) -> None:
        """Raise `StartError` where the context names an argument of a tool that could not work.

        `recipe` are the arguments that the recipe leaves, `keep` those that the context does too.
        """
        bound = self.bound_arguments(tool.name)
        problem = next(
            (
                f'"{tool.name}" has no argument "{one_line(name)}"'
                for name in (*self._narrowed.get(tool.name, ()), *bound)
                if name not in tool.properties
            ),
            "",
        )
        left = tool.required if recipe is None else [n for n in tool.required if n in recipe]
        lost = [] if keep is None else [n for n in left if n not in keep and n not in bound]
        if lost and not problem and tool.name in self.enabled:
            problem = f'"{tool.name}" cannot be called without "{one_line(lost[0])}"'
        if not problem:
            problem = _value_problem(tool, bound)
        if problem:
            raise StartError(
                f'the context "{self.context}" cannot be used: {problem}; make a new session'
            )


def _value_problem(tool: Tool, bound: Mapping[str, BoundArgument]) -> str:
    """Return why a row that a tool is bound to could never be one; empty where it could."""
    schemas = {name: tool.properties[name] for name in bound}
    try:
        check_arguments({"properties": schemas}, {name: own.value for name, own in bound.items()})
    except ToolError as error:
        return f'"{tool.name}": {one_line(str(error))}'
    return ""


def read_session(
    kit: str, folder: str, context: str | None, sha256: str | None, policy: Policy
) -> Session:
    """The session of a kit: from `context`, else from the file beside the server, else read-only.

    `context` must have the digest `sha256`. Raises `StartError` for a context that is missing,
    unreadable, of another version or another project, or that names what the policy does not
    know: a bad context never widens into a default.
    """
    path = os.path.join(folder, DEFAULT_FILE) if context is None else context
    if context is None and not os.path.lexists(path):  # a dangling link is a bad context
        unnamed = {"session_id": DEFAULT_RECIPE, "recipe": DEFAULT_RECIPE}
        return Session(kit, unnamed, DEFAULT_RECIPE, policy, None)
    try:
        facts = read_context(path, sha256)
        _refuse_another_folder(facts.get("project"), folder)
        for key in ("enabled_tools", "disabled_tools", "narrowed_arguments", "bindings"):
            _refuse_unknown_tools(key, facts.get(key, {}), policy)
        base = _base(facts, policy)
        _refuse_missing_rows(facts, base, policy)
        return Session(kit, facts, base, policy, path)
    except StartError as error:
        fix = 'remove it and run "ralphgen init"' if context is None else "make a new session"
        raise StartError(f'the context "{path}" cannot be used: {error}; {fix}') from error


def _refuse_another_folder(project: Mapping[str, Any] | None, folder: str) -> None:
    """Raise `StartError` for a context that was made for a project in another place."""
    here = os.path.realpath(os.path.dirname(os.path.dirname(folder)))
    if project is not None and project["root"] != here:
        raise StartError(f'it was made for the project in "{project["root"]}", not in "{here}"')


def _base(facts: Mapping[str, Any], policy: Policy) -> str:
    """Return the recipe that rules the session: its own, or the base of a recipe that is a row."""
    named = [facts[key] for key in ("recipe", "base") if key in facts]
    known = [name for name in named if name in policy.recipes]
    if named[-1] not in known:
        recipes = ", ".join(f'"{name}"' for name in policy.recipes)
        raise StartError(
            f'there is no recipe "{named[-1]}", only {recipes} (a new one needs "ralphgen regen")'
        )
    return str(known[0])


def _refuse_unknown_tools(
    key: str, by_kit: Mapping[str, Mapping[str, Any] | Sequence[str]], policy: Policy
) -> None:
    """Raise `StartError` for a name that means nothing: it may be a typo for something smaller."""
    for kit, names in by_kit.items():
        if kit not in policy.kits:
            kits = ", ".join(f'"{known}"' for known in policy.kits)
            raise StartError(f'"{key}" names the kit "{kit}", but the kits are {kits}')
        for name in names:
            if not policy.knows(kit, name):
                raise StartError(f'"{key}" names "{name}", which the kit "{kit}" does not have')


def _missing_rows(facts: Mapping[str, Any]) -> list[str]:
    """Return the kinds of rows of which the session has none."""
    return [kind for kind, key in ROWS.items() if facts.get(key) is None]


def _refuse_missing_rows(facts: Mapping[str, Any], base: str, policy: Policy) -> None:
    targets = policy.targets(base)
    for kind in _missing_rows(facts):
        if targets.get(kind) == REQUIRED:
            raise StartError(f'the recipe "{one_line(facts["recipe"])}" needs a {kind}')


def _bound_arguments(
    rules: Mapping[str, Mapping[str, str]], facts: Mapping[str, Any], kit: str
) -> dict[str, dict[str, BoundArgument]]:
    """Return the policy's ties to the session's rows, and those that the context adds to them.

    Raises `StartError` for a context that binds an argument to another row than the session's.
    """
    found = bound_arguments(rules, {kind: facts.get(key) for kind, key in ROWS.items()})
    for tool, arguments in facts.get("bindings", {}).get(kit, {}).items():
        for argument, value in arguments.items():
            own = found.setdefault(tool, {}).get(argument)
            if own is not None and own.reach == OWN and own.value != value:
                raise StartError(f'"bindings" ties "{argument}" of "{tool}" to another row')
            found[tool][argument] = BoundArgument(own.kind if own else "row", OWN, value)
    return found
