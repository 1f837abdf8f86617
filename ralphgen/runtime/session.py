"""Which tools this session may use: the context file meets the policy that was generated."""

from __future__ import annotations

import time

from .context import BY_CLIENT, BY_COMMAND, read_context
from .errors import StartError, ToolError, one_line
from .policy import (
    FULL,
    NOTHING,
    OPTIONAL,
    OWN,
    REQUIRED,
    USER,
    WORDS,
    BoundArgument,
    bound_arguments,
)
from .system import os
from .values.arguments import nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .policy import Policy
    from .tool import Tool

DEFAULT_FILE = "context.json"
DEFAULT_RECIPE = "interactive"
FOLDERS = "sessions"  # the folder of those of sessions that were made
# What a session can be about, and the key of the context that names it.
ROWS = {"task": "task_id", "feature": "feature", "discipline": "target_discipline"}


class Session:
    """What one agent run may see of one `kit`.

    `recipe` is what it calls itself, `base` the recipe of the policy that rules it, `profile` the
    built-in kind of session that this comes from. `discipline` is the agent's, if there is one.
    `task` (an id), `feature` and `target` (a discipline) are the rows that it is about. `enabled`
    are names of tools. `context` is the path of the file that says so, None where there is none;
    `project` what it says of the project it was made for, None where it says nothing; `brief` what
    people say of the brief of such a session (see `access/context.py`). `done` are the rules by
    which a task is done, as the context fixes them, None where it does not. `folder` is that of a
    session that was made, and None where it is that of this one server, or of one command. `claim`
    says by which `token` it holds its task, with which `lease` in seconds, and whether that is
    `kept` when the task is closed, as a merge is still to come; None where it does not hold it.
    `user` is how the user takes part (see `context.py`), None in a session of an agent alone, in
    which the server asks no questions. `as_read` holds what a person has read in
    `columns` of the row that its `kind` and `key` name, on which alone what they change of it is
    based: where something else is there by now, nothing is written. None where nothing was read.
    """

    __slots__ = (
        "_bound",
        "_facts",
        "_narrowed",
        "_policy",
        "_ungranted",
        "as_read",
        "base",
        "brief",
        "claim",
        "context",
        "discipline",
        "done",
        "enabled",
        "feature",
        "folder",
        "kit",
        "profile",
        "project",
        "recipe",
        "session_id",
        "target",
        "task",
        "user",
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
        self.brief: Mapping[str, Any] = facts.get("brief", {})
        self.done: Mapping[str, Any] | None = facts.get("done")
        self.claim: Mapping[str, int] | None = facts.get("claim")
        self.user: str | None = facts.get("user")
        self.as_read: Mapping[str, Any] | None = facts.get("as_read")
        self.context = context
        self.folder = _folder(context)
        self._facts = facts
        self.kit = kit
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

    def tools(
        self,
        suite: Sequence[Tool],
        withheld: Mapping[str, Mapping[str, Sequence[str]]] = NOTHING,
    ) -> dict[str, Tool]:
        """Return the tools that this session sees, by name, with the arguments that it sees.

        `withheld` are values, by tool and argument, that it may not give besides; a tool goes where
        the values of the argument are not known. Raises `StartError` where the context narrows or
        binds an argument that is none.
        """
        narrowed = self._policy.narrowed(self.base, self.kit)
        values = self._policy.values(self.base, self.kit)
        first = self._policy.loaded_first(self.base, self.kit)
        seen: dict[str, Tool] = {}
        for tool in suite:
            keep = self._kept(tool.name, narrowed.get(tool.name))
            self._refuse_useless_arguments(tool, narrowed.get(tool.name), keep)
            keep = self._granted(tool, keep)
            left = _left(tool, values.get(tool.name, NOTHING), withheld.get(tool.name, NOTHING))
            if tool.name in self.enabled and left is not None:
                seen[tool.name] = tool.tailored(
                    keep=keep,
                    values=left,
                    bound_arguments=self.bound_arguments(tool.name),
                    loaded_first=tool.name in first,
                )
        return seen

    def described(self) -> dict[str, Any]:
        """Return plain values of which `Session` makes the same session in another process."""
        return {"facts": {**self._facts}, "base": self.base, "context": self.context}

    def view(self) -> str | None:
        """Return what decides over all that it sees; None where no other session is like it."""
        return None if self.folder else repr({**self._facts, "session_id": "", "as_read": ""})

    @property
    def is_users(self) -> bool:
        """Whether it is the user's own, with every tool."""
        return self.profile == FULL and self.user in (BY_COMMAND, BY_CLIENT)

    @property
    def is_typed(self) -> bool:
        """Whether its words are the user's: a command or the board, not a client, wrote them."""
        return self.is_users and self.user == BY_COMMAND

    @property
    def provenance(self) -> str:
        """Who makes the rows that it creates."""
        return "human" if self.is_typed else "agent"

    @property
    def kits(self) -> tuple[str, ...]:
        """The kits that the project has switched on."""
        return self._policy.kits

    def of(self, kit: str) -> Session:
        """Return what the same agent run may see of another kit that is switched on."""
        return Session(kit, self._facts, self.base, self._policy, self.context)

    def at(self, work_tree: str) -> Session:
        """Return the same session in another worktree."""
        facts = {**self._facts, "project": {**(self.project or {}), "work_tree": work_tree}}
        return Session(self.kit, facts, self.base, self._policy, self.context)

    def grants(self, kit: str, tool: str) -> bool:
        """Return whether the same agent run has a tool of another kit."""
        return kit in self.kits and tool in self.of(kit).enabled

    def leaves(self, tool: str, argument: str) -> bool:
        """Return whether neither the recipe nor the context takes an argument of a tool away."""
        keep = self._kept(tool, self._policy.narrowed(self.base, self.kit).get(tool))
        return keep is None or argument in keep

    def bound_arguments(self, tool: str) -> Mapping[str, BoundArgument]:
        """Return the rows that arguments of a tool stand for by themselves."""
        return self._bound.get(tool, {})

    def open_kinds(self) -> list[str]:
        """Return the kinds of rows that a session of this recipe can be about, and this is not."""
        own = {"task": self.task, "feature": self.feature, "discipline": self.target}
        targets = self._policy.targets(self.base)
        return [kind for kind, row in own.items() if row is None and targets.get(kind) == OPTIONAL]

    def why_hidden(self, name: str) -> str:
        """Return one sentence on why a tool of this name cannot be called here."""
        granting = self._policy.granting(self.base, self.kit, name)
        if name in self._ungranted and granting:
            return f"it needs a session that is about a {granting}, and this one is about none"
        if name in self._ungranted:
            return "it needs a session that is about one row, and this one is about none"
        reasons = self._policy.reasons(self.kit, one_line(self.recipe), self.base, self.discipline)
        if name in reasons:
            return reasons[name]
        text = "this server has none of this name"
        near = nearest(name, reasons)
        if near is None:
            return text
        if near in self.enabled:
            return f'{text}; did you mean "{near}"?'
        return f'{text}; "{near}" is similar, but {reasons[near]}'

    def _granted(self, tool: Tool, keep: Sequence[str] | None) -> Sequence[str] | None:
        """Return the arguments without those that need the user, or a tool that the run lacks."""
        of_user = {USER: self.is_users, WORDS: self.is_typed}
        lacking = [
            name
            for name, need in tool.needs.items()
            if not (of_user[need] if need in of_user else self.grants(*need.split(":")))
        ]
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
        if bound and not problem:
            problem = _value_problem(tool, bound)
        if problem:
            raise StartError(
                f'the context "{self.context}" cannot be used: {problem}; create a new session'
            )


def _left(
    tool: Tool, values: Mapping[str, Sequence[str]], withheld: Mapping[str, Sequence[str]]
) -> Mapping[str, Sequence[str]] | None:
    """Return the values that are left of each argument, None where they are not known."""
    if not withheld:
        return values
    left = dict(values)
    for argument, taken in withheld.items():
        known = values.get(argument) or tool.properties.get(argument, NOTHING).get("enum")
        if known is None:
            return None
        left[argument] = [value for value in known if value not in taken]
    return left


def _value_problem(tool: Tool, bound: Mapping[str, BoundArgument]) -> str:
    """Return why a row that a tool is bound to could never be one; empty where it could."""
    from .values.arguments import check_arguments

    try:
        schema = {"properties": {name: tool.properties[name] for name in bound}}
        check_arguments(schema, {name: own.value for name, own in bound.items()})
    except ToolError as error:
        return f'"{tool.name}": {one_line(str(error))}'
    return ""


def read_session(
    kit: str, folder: str, context: str | None, sha256: str | None, policy: Policy
) -> Session:
    """Return a kit's session: from `context`, else the file beside the server, else read-only.

    `context` must have the digest `sha256`. Raises `StartError` for a context that is missing,
    unreadable, of another version or another project, or that names what the policy does not
    know: a bad context never widens into a default.
    """
    path = os.path.join(folder, DEFAULT_FILE) if context is None else context
    if context is None and not os.path.lexists(path):  # a dangling link is a bad context
        unnamed = {
            "session_id": _own_id(DEFAULT_RECIPE),
            "recipe": DEFAULT_RECIPE,
            "user": BY_CLIENT,
        }
        return Session(kit, _without_forger(unnamed), DEFAULT_RECIPE, policy, None)
    try:
        facts = read_context(path, sha256)
        _refuse_another_folder(facts.get("project"), folder)
        if context is None:  # many a client starts servers on this file
            facts["session_id"] = _own_id(str(facts["recipe"]))
            if policy.profile(_base(facts, policy)) in (FULL, DEFAULT_RECIPE):
                facts["user"] = BY_CLIENT
        return session_of(kit, _without_forger(facts), policy, path)
    except StartError as error:
        fix = 'remove it and run "ralphgen init"' if context is None else "create a new session"
        raise StartError(f'the context "{path}" cannot be used: {error}; {fix}') from error


def _without_forger(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts without a user if an agent of `ralphgen launch` runs the server.

    Its client can start the server that is meant for the user's own. Only a session in the terminal
    of the user is launched and has one all the same.
    """
    if facts.get("user") in (BY_CLIENT, BY_COMMAND):
        from .processes.launched import is_below_launch

        if is_below_launch():
            return {key: value for key, value in facts.items() if key != "user"}
    return facts


def session_of(kit: str, facts: Mapping[str, Any], policy: Policy, origin: str) -> Session:
    """Return a kit's session of the facts of a context; `origin` says where they come from.

    Raises `StartError` for a recipe, a kit or a tool that the policy does not know, and where the
    recipe needs a row that is not named.
    """
    for key in ("enabled_tools", "disabled_tools", "narrowed_arguments", "bindings"):
        _refuse_unknown_tools(key, facts.get(key, {}), policy)
    base = _base(facts, policy)
    _refuse_missing_rows(facts, base, policy)
    return Session(kit, facts, base, policy, origin)


def _own_id(recipe: str) -> str:
    """Return the id of a session that ends with this server."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{one_line(recipe)}-{moment}-{os.urandom(4).hex()}"


def _folder(context: str | None) -> str | None:
    """Return the folder of the session that a context lies in, None where it is in none."""
    folder = os.path.dirname(context or "")
    return folder if os.path.basename(os.path.dirname(folder)) == FOLDERS else None


def _refuse_another_folder(project: Mapping[str, Any] | None, folder: str) -> None:
    """Raise `StartError` for a context that was made for a project in another place."""
    here = os.path.realpath(os.path.dirname(os.path.dirname(folder)))
    if project is not None and project["root"] != here:
        raise StartError(f'it belongs to the project in "{project["root"]}", not in "{here}"')


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
            raise StartError(f'"{key}" names the kit "{kit}" (kits: {kits})')
        for name in names:
            if not policy.knows(kit, name):
                raise StartError(f'"{key}" names "{name}", which the kit "{kit}" does not have')


def _missing_rows(facts: Mapping[str, Any]) -> list[str]:
    """Return the kinds of rows of which the session has none."""
    return [kind for kind, key in ROWS.items() if facts.get(key) is None]


def _refuse_missing_rows(facts: Mapping[str, Any], base: str, policy: Policy) -> None:
    for kind in _missing_rows(facts):
        if policy.targets(base).get(kind) == REQUIRED:
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
                raise StartError(f'"bindings" binds "{argument}" of "{tool}" to another row')
            found[tool][argument] = BoundArgument(own.kind if own else "row", OWN, value)
    return found
