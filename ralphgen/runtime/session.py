"""Which tools a session may use: its context file meets the policy that was generated.

A context is read so that no doubt widens it. A running server holds the lock next to it, which
keeps the session's folder from being swept.
"""

from __future__ import annotations

import time

from .encoding import JsonReader, sha256_hex
from .errors import StartError, ToolError, one_line
from .policy import (
    ANY,
    FULL,
    NOTHING,
    OPTIONAL,
    OWN,
    REQUIRED,
    USER,
    WHOLE,
    WORDS,
    BoundArgument,
    Grant,
    Grants,
)
from .system import is_below_launch, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

    from .kit import Tool
    from .policy import Policy


CONTEXT_VERSION = 1
SHOWN_VALUE = 60  # characters of a value in an error
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
    "sandbox": (dict,),
}
# Required keys of the file next to a server, and of a context named on the command line.
REQUIRED_KEYS = ("version", "session_id", "recipe", "enabled_tools")
# Keys that only a context fixed at its creation may hold.
FIXED_KEYS = ("brief", "done", "claim", "as_read", "sandbox")
NAMED_KEYS = tuple(key for key in KEYS if key not in (*FIXED_KEYS, "user"))
# The user's additions to the brief. Only a context fixed at its creation may hold them, because
# agents follow these words, and anyone who commits a file could write them.
BRIEF_KEYS: dict[str, tuple[type, ...]] = {
    "max_characters": (int,),
    "features": (str,),
    "description": (str,),
    "prompt": (str,),
    "words": (list,),
}
CLAIM_KEYS = {"task": int, "token": int, "lease": int, "kept": bool}
ROW_KEYS = {"task": int, "feature": str, "discipline": str}  # kinds of rows, with their keys
WORD_KEYS = {"file", "text"}  # the keys of each of the words
PROJECT_KEYS: dict[str, tuple[type, ...]] = {
    "root": (str,),
    "title": _NAME_OR_NONE,
    "created": _NAME_OR_NONE,
    "work_tree": (str,),
    "database": (str,),
}
IDENTITY_KEYS = ("root", "title", "created")  # without which no project is named
# How the user takes part in a session: types each call as a command, uses a client, or talks with a
# launched agent in a terminal. A session without the key belongs to an agent alone.
BY_COMMAND, BY_CLIENT, BY_TERMINAL = "command", "client", "terminal"
LOCK = "lock"
_held: list[int] = []  # open for the life of the process


def read_context(path: str, sha256: str | None) -> dict[str, Any]:
    """Return the facts of a context; raises `StartError` for its first problem.

    `sha256` is the expected digest in hex, None for the file next to a server.
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
    problem = _shape_problem(facts, REQUIRED_KEYS if sha256 is None else NAMED_KEYS)
    if sha256 is None and not problem:
        fixed = next((key for key in FIXED_KEYS if key in facts), None)
        problem = fixed and f'"{fixed}" is for sessions alone'
        if facts.get("user", BY_CLIENT) != BY_CLIENT:
            problem = f'"user" is {_preview(facts["user"])}, which is for sessions alone'
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
    """Return a JSON object.

    Raises `StartError` for a duplicate key, because JSON readers disagree about its value.
    """
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
    if facts.get("version") != CONTEXT_VERSION:
        return f'"version" is {_preview(facts.get("version"))}, expected {CONTEXT_VERSION}'
    missing = [key for key in required if key not in facts]
    if missing:
        return f'"{missing[0]}" is missing'
    for key, value in facts.items():
        if key not in KEYS:
            return f'unknown key "{key}"'
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            return f'"{key}" is {_preview(value)}, which has the wrong type'
    brief = brief_problem(facts.get("brief", {}))
    problem = _project_problem(facts.get("project")) or _tables_problem(facts) or brief
    return problem or _user_problem(facts) or _claim_problem(facts) or _as_read_problem(facts)


def _project_problem(project: Mapping[str, Any] | None) -> str | None:
    if project is None:
        return None
    if not {*IDENTITY_KEYS} <= project.keys() <= PROJECT_KEYS.keys():
        expected = _preview(sorted(PROJECT_KEYS))
        return f'"project" holds {_preview(sorted(project))}, expected {expected}'
    wrong = [key for key, value in project.items() if not isinstance(value, PROJECT_KEYS[key])]
    return f'"project" has a wrong "{wrong[0]}"' if wrong else None


def _user_problem(facts: Mapping[str, Any]) -> str | None:
    known = facts.get("user", BY_CLIENT) in (BY_COMMAND, BY_CLIENT, BY_TERMINAL)
    return None if known else f'"user" is {_preview(facts["user"])}, which is not known'


def _claim_problem(facts: Mapping[str, Any]) -> str | None:
    claim = facts.get("claim")
    if claim is None:
        return None
    whole = {name: type(value) for name, value in claim.items()} == CLAIM_KEYS
    return None if whole and claim["task"] == facts.get("task_id") else '"claim" has a wrong value'


def _as_read_problem(facts: Mapping[str, Any]) -> str | None:
    read = facts.get("as_read")
    if read is None:
        return None
    whole = read.keys() == {"kind", "key", "columns"} and isinstance(read["columns"], dict)
    fits = whole and type(read["key"]) is ROW_KEYS.get(str(read["kind"]))
    return None if fits else '"as_read" has a wrong value'


def brief_problem(brief: Mapping[str, Any]) -> str | None:
    """Return the problem with the user's additions to a brief, or None."""
    wrong = [key for key in brief if not isinstance(brief[key], BRIEF_KEYS.get(key, ()))]
    if wrong:
        return f'"brief" has a wrong "{wrong[0]}"'
    for words in brief.get("words", ()):
        if (
            not isinstance(words, dict)
            or words.keys() != WORD_KEYS
            or not _is_names([*words.values()])
        ):
            return '"words" of "brief" is not a list of files with their text'
    return None


def _tables_problem(facts: Mapping[str, Any]) -> str | None:
    """Return the problem with the objects that are keyed by kit, or None."""
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
    """Return a test for objects with values that all pass `whole`."""
    return lambda value: isinstance(value, dict) and all(map(whole, value.values()))


def _preview(value: object) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}…"


def hold(context: str) -> None:
    """Share the lock next to a context, if there is one, and mark the session as in use."""
    path = os.path.join(os.path.dirname(context), LOCK)
    try:
        file = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return  # a context that was written by hand has none, and is never swept
    _held.append(file)  # on systems without shared locks, an open file cannot be removed
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_SH)
        os.utime(path)
    except (ImportError, OSError):
        return  # no such lock on this machine or this file system: a session of a day may go


PLAIN = {int: {"type": "integer"}, str: {"type": "string"}}  # schemas of any value of a type
DEFAULT_FILE = "context.json"
DEFAULT_RECIPE = "interactive"
FOLDERS = "sessions"  # parent of the folders of prepared sessions
# Kinds of rows that a session can work on, and the key of the context that names the row.
ROWS = {"task": "task_id", "feature": "feature", "discipline": "target_discipline"}


class Session:
    """One agent run and its permissions on one `kit`.

    `recipe` is the name of its recipe, `base` the recipe of the policy that rules it, `profile` the
    built-in recipe that this is based on. `discipline` is the agent's, if it has one. `task` (an
    id), `feature` and `target` (a discipline) are the rows that it works on. `grants` are its
    tools, and the reason for each tool that it lacks. `context` is the path of its context file,
    and `project` the project in that file, None without one. `brief` is the user's addition to the
    brief (see `context.py`). `done` are the rules for closing a task, if the context fixes them.
    `folder` is that of a prepared session, None for a session of this server or of one command.
    `claim` has the `token` of the session's claim, its `lease` in seconds, and whether it is `kept`
    when the task is closed because a merge follows; None without a claim. `user` is how the user
    takes part (see `context.py`), None if an agent works alone: the server then asks no questions.
    `sandbox` has the rules of `runtime/processes/sandbox.py` for the commands of a contained agent.
    `as_read` has the values that the user has read in `columns` of the row with this `kind` and
    `key`: if the row has other values by now, a change of it is refused. `structured` reports a
    client that uses structured content. `token_ids` are the ids by which its token can be revoked,
    none without a token. `worker` is the worker that the session runs on, whose
    files and checks this server cannot see; None for a session whose files are here.
    """

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
        self.sandbox: Mapping[str, Any] | None = facts.get("sandbox")
        self.structured: bool = facts.get("structured", False)
        self.token_ids: Sequence[str] = facts.get("token_ids", ())
        self.worker: str | None = facts.get("worker")
        self.context = context
        self.folder = _folder(context)
        self._facts = facts
        self.kit = kit
        self._policy = policy
        self.grants: Grants = _meet(*self._sources())

    def _sources(self) -> Iterator[Grants]:
        """Yield the grants of the schema, the recipe and each further source."""
        rows = {kind: self._facts.get(key) for kind, key in ROWS.items()}
        name = one_line(self.recipe)
        yield from self._policy.sources(
            self.base, self.kit, discipline=self.discipline, rows=rows, name=name
        )
        if self.context is not None:
            recipe = self._policy.recipes[self.base].grants(self.kit, rows, "")
            yield _of_context(self._facts, self.kit, recipe)

    def explained(self, suite: Sequence[Tool]) -> Grants:
        """Return the grants of these tools, with the reason for each removed tool and argument."""
        schema, *sources = self._sources()
        whole = {tool.name: Grant(tool.properties) for tool in suite}
        return _meet(Grants("", whole, schema.removed), *sources, self._needed(suite))

    def tools(
        self,
        suite: Sequence[Tool],
        withheld: Mapping[str, Mapping[str, Sequence[str]]] = NOTHING,
    ) -> dict[str, Tool]:
        """Return the session's tools by name, each with the session's arguments.

        `withheld` are further values, by tool and argument, that the session may not give. Raises
        `StartError` if the context narrows or binds an unknown argument.
        """
        self._refuse_useless_arguments(suite)
        granted = self.grants & self._needed(suite)
        if withheld:
            granted &= _without_values(suite, withheld)
        first = self._policy.loaded_first(self.base, self.kit)
        return {
            tool.name: tool.tailored(granted.tools[tool.name], loaded_first=tool.name in first)
            for tool in suite
            if tool.name in granted.tools
        }

    def described(self) -> dict[str, Any]:
        """Return plain values for making the same session in another process."""
        return {"facts": {**self._facts}, "base": self.base, "context": self.context}

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
        """Provenance of the rows that the session creates."""
        return "human" if self.is_typed else "agent"

    @property
    def kits(self) -> tuple[str, ...]:
        """The kits that the project has switched on."""
        return self._policy.kits

    def of(self, kit: str) -> Session:
        """Return the session of the same agent run on another enabled kit."""
        return Session(kit, self._facts, self.base, self._policy, self.context)

    def at(self, work_tree: str) -> Session:
        """Return the same session in another worktree."""
        facts = {**self._facts, "project": {**(self.project or {}), "work_tree": work_tree}}
        return Session(self.kit, facts, self.base, self._policy, self.context)

    def has(self, kit: str, tool: str) -> bool:
        """Return whether the same agent run has a tool of another kit."""
        return kit in self.kits and tool in self.of(kit).grants.tools

    @property
    def enabled(self) -> AbstractSet[str]:
        """The names of the tools that the session may call."""
        return self.grants.tools.keys()

    def leaves(self, tool: str, argument: str) -> bool:
        """Return whether no source removes an argument of a tool; see `Tool.needs` for others."""
        grant = self.grants.tools.get(tool)
        return grant is not None and grant.allows(argument)

    def filled_arguments(self, tool: str) -> Mapping[str, BoundArgument]:
        """Return the arguments of a tool that the session's rows fill."""
        grant = self.grants.tools.get(tool)
        return NOTHING if grant is None else grant.rows

    def open_kinds(self) -> list[str]:
        """Return the kinds of rows that a session of this recipe can be about, and this is not."""
        own = {"task": self.task, "feature": self.feature, "discipline": self.target}
        targets = self._policy.targets(self.base)
        return [kind for kind, row in own.items() if row is None and targets.get(kind) == OPTIONAL]

    def why_hidden(self, name: str) -> str:
        """Return one sentence on why a tool of this name cannot be called here."""
        removed = {
            tool: why for (tool, argument), why in self.grants.removed.items() if not argument
        }
        if name in removed:
            return removed[name]
        text = "this server has none of this name"
        from .values import nearest

        near = nearest(name, [*removed, *self.enabled])
        if near is None:
            return text
        if near in self.enabled:
            return f'{text}; did you mean "{near}"?'
        return f'{text}; "{near}" is similar, but {removed[near]}'

    def _needed(self, suite: Sequence[Tool]) -> Grants:
        """Return the tools without arguments that need the user, or a tool that the run lacks."""
        of_user = {USER: self.is_users, WORDS: self.is_typed}
        tools, reasons = {}, {}
        for tool in suite:
            lacking = [
                name
                for name, need in tool.needs.items()
                if not (of_user[need] if need in of_user else self.has(*need.split(":")))
            ]
            tools[tool.name] = Grant(tool.properties.keys() - lacking) if lacking else WHOLE
            for name in lacking:
                need = tool.needs[name]
                reason = "it is for the user" if need in of_user else f'it needs the tool "{need}"'
                reasons[tool.name, name] = reason
        return Grants("", tools, reasons)

    def _refuse_useless_arguments(self, suite: Sequence[Tool]) -> None:
        """Raise `StartError` if the context names an argument of a tool that could not work."""
        narrowed, bindings = (
            self._facts.get(key, NOTHING).get(self.kit, NOTHING)
            for key in ("narrowed_arguments", "bindings")
        )
        recipe = self._policy.recipes[self.base]
        for tool in suite:
            bound = {**self.filled_arguments(tool.name), **bindings.get(tool.name, NOTHING)}
            context = narrowed.get(tool.name)
            if context is None and not bound:
                continue
            unknown = {*(context or ()), *bound} - tool.properties.keys()
            problem = f'"{tool.name}" has no argument "{one_line(min(unknown))}"' if unknown else ""
            if context is not None and tool.name in self.enabled and not problem:
                left = recipe.narrowed_arguments.get(f"{self.kit}:{tool.name}", tool.required)
                lost = [
                    name
                    for name in tool.required
                    if name in left and name not in context and name not in bound
                ]
                if lost:
                    problem = f'"{tool.name}" cannot be called without "{one_line(lost[0])}"'
            problem = problem or _value_problem(tool, bound)
            if problem:
                raise StartError(
                    f'the context "{self.context}" cannot be used: {problem}; create a new session'
                )


def _meet(first: Grants, *further: Grants) -> Grants:
    """Return the grants that all sources share."""
    for source in further:
        first &= source
    return first


def _of_context(facts: Mapping[str, Any], kit: str, recipe: Grants) -> Grants:
    """Return the tools of a kit that a context enables; `recipe` has the grants of its recipe.

    Raises `StartError` for a context that binds an argument to another row than the session's.
    """
    narrowed, bindings = (
        facts.get(key, NOTHING).get(kit, NOTHING) for key in ("narrowed_arguments", "bindings")
    )
    disabled = facts.get("disabled_tools", NOTHING).get(kit, ())
    rows: dict[str, dict[str, BoundArgument]] = {}
    for tool, arguments in bindings.items():
        of_recipe = recipe.tools.get(tool, WHOLE).rows
        rows[tool] = {}
        for argument, value in arguments.items():
            own = of_recipe.get(argument)
            if own is not None and own.reach != ANY and own.value != value:
                raise StartError(f'"bindings" binds "{argument}" of "{tool}" to another row')
            rows[tool][argument] = BoundArgument("row", OWN, value)
    tools = {
        name: Grant(narrowed.get(name), rows=rows.get(name, NOTHING))
        if name in narrowed or name in rows
        else WHOLE
        for name in facts["enabled_tools"].get(kit, ())
        if name not in disabled
    }
    return Grants("this session's context does not enable it", tools)


def _without_values(
    suite: Sequence[Tool], withheld: Mapping[str, Mapping[str, Sequence[str]]]
) -> Grants:
    """Return the tools without some values; a tool is removed if its values are not listed."""
    tools = {}
    for tool in suite:
        lost = withheld.get(tool.name, NOTHING)
        known = {name: tool.properties.get(name, NOTHING).get("enum", ()) for name in lost}
        if all(known.values()):
            values = {name: {*known[name]} - {*lost[name]} for name in lost}
            tools[tool.name] = Grant(values=values) if lost else WHOLE
    return Grants("it is not served over HTTP", tools)


def _value_problem(tool: Tool, bound: Mapping[str, BoundArgument | int | str]) -> str:
    """Return why a tool cannot be bound to these rows, empty if it can."""
    values = {
        name: own.value if isinstance(own, BoundArgument) else own for name, own in bound.items()
    }
    if all(tool.properties[name] == PLAIN.get(type(value)) for name, value in values.items()):
        return ""
    from .values import check_arguments

    try:
        check_arguments({"properties": {name: tool.properties[name] for name in bound}}, values)
    except ToolError as error:
        return f'"{tool.name}": {one_line(str(error))}'
    return ""


def read_session(
    kit: str,
    folder: str,
    context: str | None,
    sha256: str | None,
    policy: Policy,
    *,
    structured: bool = False,
) -> Session:
    """Return a kit's session: from `context`, else the file next to the server, else read-only.

    `context` must have the digest `sha256`, and `structured` reports a client that uses structured
    content. Raises `StartError` for a context that is missing, unreadable, of another version or
    another project, or that uses names unknown to the policy: a bad context never widens into a
    default.
    """
    path = os.path.join(folder, DEFAULT_FILE) if context is None else context
    if context is None and not os.path.lexists(path):  # a dangling link is a bad context
        unnamed = {
            "session_id": _own_id(DEFAULT_RECIPE),
            "recipe": DEFAULT_RECIPE,
            "user": BY_CLIENT,
            "structured": structured,
        }
        return Session(kit, _without_forger(unnamed), DEFAULT_RECIPE, policy, None)
    try:
        facts = {**read_context(path, sha256), "structured": structured}
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
    if facts.get("user") in (BY_CLIENT, BY_COMMAND) and is_below_launch():
        return {key: value for key, value in facts.items() if key != "user"}
    return facts


def session_of(kit: str, facts: Mapping[str, Any], policy: Policy, origin: str) -> Session:
    """Return a kit's session from the facts of a context; `origin` is the path of the context.

    Raises `StartError` for a recipe, a kit or a tool unknown to the policy, or for a missing row
    that the recipe requires.
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
    """Return the session folder that contains a context, or None if it is not in one."""
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
    """Return the kinds of rows that the session does not have."""
    return [kind for kind, key in ROWS.items() if facts.get(key) is None]


def _refuse_missing_rows(facts: Mapping[str, Any], base: str, policy: Policy) -> None:
    for kind in _missing_rows(facts):
        if policy.targets(base).get(kind) == REQUIRED:
            raise StartError(f'the recipe "{one_line(facts["recipe"])}" needs a {kind}')
