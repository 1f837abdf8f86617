"""What sessions may do: who may call a tool, and how servers differ."""

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from ralphgen.errors import MissingError, ProjectError, UsageError, plain, suggestion
from ralphgen.planning import EXAMPLES, KitPlan, ServerPlan, supposed_session
from ralphgen.planning.policy import BROUGHT
from ralphgen.planning.server import KitDefinition, full_catalog
from ralphgen.project.git import ask_git, read_files_of_git, work_tree_around
from ralphgen.project.inspect import loosened_facts
from ralphgen.project.root import FOLDER
from ralphgen.runtime import kit as runtime_kit
from ralphgen.runtime.errors import StartError
from ralphgen.runtime.kit import Tool
from ralphgen.runtime.policy import (
    ANY,
    FULL,
    GRANTS,
    OPTIONAL,
    REACHES,
    REQUIRED,
    RULES,
    WITHIN,
    Grant,
    Grants,
    Policy,
    Recipe,
)


@dataclass(frozen=True, slots=True)
class Authority:
    """The permissions that one emitted server grants, for each recipe and discipline.

    `suites` are the tools of each kit before a session restricts them. `runs` maps `"kit:tool"` to
    the definition of a query, function or table from the project. `done` are the rules for closing
    a task, or None. `settings` are the settings of each kit, and `shown` the columns, by table,
    that sessions can read. `rules` are, by recipe, the patterns of forbidden tools. `columns` are
    those of the table of a tool, by `"kit:tool"`, with the definition of each, and `hide` the
    hidden columns, each `"table.column"`.
    """

    policy: Policy
    suites: Mapping[str, Sequence[Tool]] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
    done: Mapping[str, Any] | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rules: Mapping[str, Sequence[str]] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hide: Collection[str] = ()


NOTHING = Authority(Policy(recipes={}, removed_tools={}, absent={}))
"""That of a project without a server."""


@dataclass(frozen=True, slots=True)
class AuthorityChange:
    """A permission that sessions gain or lose; `gain` tells which.

    `tool` is `"kit:tool"`, or empty if no single tool is affected. `recipes` and `disciplines` are
    the affected ones; if both are empty, all are affected.
    """

    gain: bool
    tool: str
    text: str
    recipes: tuple[str, ...] = ()
    disciplines: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "gain": self.gain,
            "tool": self.tool or None,
            "text": self.text,
            "recipes": list(self.recipes),
            "disciplines": list(self.disciplines),
        }


POLICY, FACTS = "policy.py", "project.json"
DONE, SETTINGS, TABLES = "done.py", "settings.py", "tables.py"
Names = dict[str, Any]


def read_authority(files: Mapping[str, str], where: str) -> Authority:
    """Return the permissions that a server grants; `files` are texts by path below `.ralph/mcp/`.

    `where` describes the files in the `ProjectError` for text that the generator does not write.
    """
    read = ""
    try:
        read = POLICY
        given = _keywords(_assigned(_parsed(files[POLICY])).get("POLICY"), "Policy", {})
        recipes = {name: Recipe(**given_one) for name, given_one in given["recipes"].items()}
        policy = Policy(**{**given, "recipes": recipes})
        suites: dict[str, tuple[Tool, ...]] = {}
        runs: dict[str, str] = {}
        columns: dict[str, dict[str, str]] = {}
        settings: dict[str, dict[str, Any]] = {}
        shown: dict[str, list[str]] = {}
        done = None
        for kit in recipes[FULL].tools:
            found: list[Tool] = []
            for read in sorted(path for path in files if _is_of(path, kit)):
                found += _tools(files[read], kit, runs, columns)
                if read == f"{kit}/{DONE}":
                    done = _value(_assigned(_parsed(files[read]))["DONE"], {})
                    loosened_facts(done, done)  # raises an error for invalid rules
                elif read == f"{kit}/{SETTINGS}":
                    settings[kit] = dict(_value(_assigned(_parsed(files[read]))["SETTINGS"], {}))
                elif read == f"{kit}/{TABLES}":
                    shown.update(_columns(_assigned(_parsed(files[read]))))
            suites[kit] = tuple(found)
        read = FACTS
        config = json.loads(files.get(FACTS, "{}")).get("config", {})
        rules = _rules(config)
        hide = [str(name) for name in config.get("hide", ())]
        policy.name_tools({kit: [tool.name for tool in suite] for kit, suite in suites.items()})
    except (ValueError, LookupError, TypeError, AttributeError, SyntaxError) as error:
        raise _unreadable(read, where, error) from error
    except (StartError, RecursionError, MemoryError) as error:
        raise _unreadable(read, where, error) from error
    return Authority(policy, suites, runs, done, settings, shown, rules, columns, hide)


def _rules(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return, by recipe, the patterns of tools that it never has, from the recorded settings."""
    rules = config.get("rules", {})
    return {str(recipe): [str(pattern) for pattern in never] for recipe, never in rules.items()}


def _unreadable(path: str, where: str, error: BaseException) -> ProjectError:
    return ProjectError(
        f'"{path}" of {where} differs from the files that ralphgen writes: {error}',
        'run "ralphgen check" there; files that were edited or written by another version '
        "cannot be compared",
    )


def _is_of(path: str, kit: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == kit and name.endswith(".py") and name != "__init__.py"


def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _assigned(module: ast.Module) -> dict[str, ast.expr]:
    """Return the value of each name assigned at the top of a module."""
    return {
        one.targets[0].id: one.value
        for one in module.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }


def _columns(assigned: Mapping[str, ast.expr]) -> Iterator[tuple[str, list[str]]]:
    """Yield each stored table of the kit, with its columns."""
    for node in assigned.values():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "StoredTable":
            name, columns = node.args[:2]
            if not isinstance(columns, ast.Dict):
                raise TypeError("the columns of a table are invalid")
            yield _value(name, {}), [_value(key, {}) for key in columns.keys]


def _tools(
    text: str, kit: str, runs: dict[str, str], columns: dict[str, dict[str, str]]
) -> list[Tool]:
    """Return the tools of a module.

    Adds the project's definitions that they run to `runs`, and the columns of their tables to
    `columns`.
    """
    assigned = _assigned(_parsed(text))
    if "TOOLS" not in assigned:
        return []
    names: Names = {}
    for name, node in assigned.items():
        if isinstance(node, ast.List | ast.Tuple) and name != "TOOLS":
            names[name] = _value(node, {})
    listed = assigned["TOOLS"]
    if not isinstance(listed, ast.Tuple):
        raise TypeError('"TOOLS" is not a tuple')
    found = []
    for node in listed.elts:
        tool, data = _tool(node, names)
        found.append(tool)
        if isinstance(data, ast.Name):
            entry, call = f"{kit}:{tool.name}", assigned[data.id]
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "RowTable":
                columns[entry] = _row_columns(call)
            runs[entry] = f"{tool.run} {_definition(call)}"
    return found


# Keywords that `columns` and `hide` compare, or that only name a tool; "hidden" and "hide" are of
# servers that older versions wrote.
_COMPARED = {
    "RowTable": {"arguments", "columns", "hidden", "listed", "noun", "search"},
    "OwnFunction": {"hide"},
}


def _definition(node: ast.expr) -> str:
    """Return a definition without the parts that are compared by themselves."""
    if isinstance(node, ast.Call):
        without = _COMPARED.get(ast.unparse(node.func), set())
        node = ast.Call(node.func, node.args, [o for o in node.keywords if o.arg not in without])
    return ast.dump(node)


def _row_columns(call: ast.Call) -> dict[str, str]:
    """Return the columns of a table with generated tools, each with its definition."""
    given = _keywords(call, "RowTable", {})
    arguments, search = given.get("arguments", {}), given.get("search", ())
    return {
        name: _json([kind, arguments.get(name, name), name in search])
        for name, kind in given["columns"].items()
    }


def _tool(node: ast.expr, names: Names) -> tuple[Tool, ast.expr | None]:
    """Return a tool as its module builds it but without its data, and the name of these."""
    reads_without: list[str] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr != "reading_without" or node.keywords:
            raise ValueError(f'it calls "{node.func.attr}" of a tool')
        reads_without = [_value(one, names) for one in node.args]
        node = node.func.value
    if not isinstance(node, ast.Call):
        raise TypeError('an item of "TOOLS" is not a tool')
    data = next((one.value for one in node.keywords if one.arg == "data"), None)
    told = ast.Call(node.func, [], [one for one in node.keywords if one.arg != "data"])
    given = _keywords(told, "Tool", names)
    name, description = (_value(one, names) for one in node.args)
    tool = Tool(name, description, **given)
    return (tool.reading_without(*reads_without) if reads_without else tool), data


def _keywords(node: ast.expr | None, called: str, names: Names) -> dict[str, Any]:
    """Return the keywords of a call, of `called` and nothing else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise TypeError(f'it has no "{called}(…)"')
    if node.func.id != called:
        raise ValueError(f'it calls "{node.func.id}"')
    return {str(one.arg): _value(one.value, names) for one in node.keywords if one.arg is not None}


def _value(node: ast.expr | None, names: Names) -> Any:
    """Return the value of an expression of constants, lists of them, and known names."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(one, names) for one in elements]
        case ast.Dict(keys=keys, values=values):
            return {
                _value(key, names): _value(one, names)
                for key, one in zip(keys, values, strict=True)
            }
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Name(id=name):
            return names[name] if name in names else vars(runtime_kit)[name]
        case ast.Call(func=ast.Name(id="Recipe")):
            return _keywords(node, "Recipe", names)
        case _:
            raise ValueError(f'it has "{ast.unparse(node)[:80] if node else ""}" as a value')


def committed_authority(root: Path, reference: str) -> Authority:
    """Return the permissions granted by the server of the project in `root` as of a commit.

    Returns `NOTHING` if the commit has no server. Raises `UsageError` if there is no such commit,
    and `ProjectError` outside a repository and for files that the generator does not write.
    """
    place = (root / FOLDER).resolve()
    top = work_tree_around(place)
    if top is None:
        raise ProjectError(f'"{root}" is not in a git repository', 'run "git init" in it')
    wanted = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}"]
    answer = ask_git(top, wanted)
    if answer is None:
        if not ask_git(top, ["rev-list", "--all", "--max-count=1"]):
            text = f'no commit "{reference}": the repository "{top}" has no commits'
            raise UsageError(text, "git add .ralph && git commit -m 'Add the generated server'")
        hint = 'check the name; in a shallow clone, run "git fetch" first'
        raise UsageError(f'no commit "{reference}" in the repository', hint)
    commit = answer.decode("ascii").strip()
    folder = place.relative_to(top).as_posix()
    listing = ask_git(top, ["ls-tree", "-r", "-z", "--name-only", commit, "--", f"{folder}/"])
    facts = f"{folder}/{FACTS}".encode()
    listed = (listing or b"").split(b"\0")
    names = [name for name in listed if name.endswith(b".py") or name == facts]
    read = read_files_of_git(top, [commit.encode() + b":" + name for name in names])
    if listing is None or read is None:
        raise ProjectError(
            f'git cannot read the files of "{reference}"', 'run "git fsck" for details'
        )
    prefix = f"{folder}/".encode()
    files = {
        _text(name.removeprefix(prefix)): _text(data)
        for name, data in zip(names, read, strict=True)
        if data is not None and name.removeprefix(prefix).count(b"/") <= 1
    }
    return read_authority(files, f'"{reference}"') if POLICY in files else NOTHING


def present_authority(root: Path) -> Authority:
    """Return the permissions granted by the server on disk; `ProjectError` if there is none."""
    folder = root / FOLDER
    try:
        paths = [*folder.glob("*.py"), *folder.glob("*/*.py"), *folder.glob(FACTS)]
        files = {path.relative_to(folder).as_posix(): _text(path.read_bytes()) for path in paths}
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f'"{error.filename}" cannot be read: {reason}') from error
    if POLICY not in files:
        raise ProjectError(f'there is no server in "{root}"', 'run "ralphgen regen"')
    return read_authority(files, "the worktree")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


MOST = 20  # names of a list, before the rest is counted


def literal(name: str) -> str:
    """Return a name as code in Markdown, fenced so that all of it is literal."""
    text = plain(name) or " "
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (ticks + 1)
    return f"{fence} {text} {fence}" if ticks else f"{fence}{text}{fence}"


def name_list(names: Iterable[str]) -> str:
    """Return the first `MOST` names as a list in a sentence, with the number of the others."""
    every = [*names]
    shown = ", ".join(map(literal, every[:MOST]))
    return f"{shown} and {len(every) - MOST} more" if len(every) > MOST else shown


def markdown(found: Sequence[AuthorityChange], reference: str) -> str:
    """Return the changes since a commit as a comment on a change: gains first, a line each."""
    lines = [f"## Permissions of agents, compared with {literal(reference)}", ""]
    if not found:
        return "\n".join([*lines, "No session can do more or less than before.", ""])
    for title, gain in (("More than before", True), ("Less than before", False)):
        of_kind = [one for one in found if one.gain is gain]
        if of_kind:
            lines += [f"### {title}", "", *map(_line, of_kind), ""]
    return "\n".join(lines)


def _line(change: AuthorityChange) -> str:
    who = [f"{name_list(change.recipes)}: "] if change.recipes else []
    who += [f"discipline {name_list(change.disciplines)}: "] if change.disciplines else []
    return f"- {''.join(who)}{change.text}"


NEEDS = {REQUIRED: 0, GRANTS: 1, OPTIONAL: 2}  # of rows; none at all is the loosest
# What bounds a value: whether more of it lets more through.
BOUNDS = {"maximum": True, "maxLength": True, "maxItems": True, "minimum": False}
NO_RULES: Mapping[str, Any] = {"checks": [], "protect": [], "watch": []}
OWN_TOOL = "runtime.own_tools.own_tool"
READING = ("runtime.rows.tools.listing", "runtime.rows.tools.getting")
Said = tuple[bool, str, str]
"""Whether it is a gain, the tool as `"kit:tool"`, and the sentence."""


def changes(before: Authority, after: Authority) -> list[AuthorityChange]:
    """Return the permissions that sessions gain, then those that they lose.

    A change that cannot be classified, such as a query with a new text, is a gain. The same
    sentence about several recipes or disciplines is one change.
    """
    by_recipe: dict[Said, list[str]] = {}
    every = (*after.policy.recipes, *before.policy.recipes, *before.rules, *after.rules)
    for recipe in dict.fromkeys(every):
        ruled = _of_rules(before.rules.get(recipe, ()), after.rules.get(recipe, ()))
        for said in (*_of_recipe(recipe, before, after), *ruled):
            by_recipe.setdefault(said, []).append(recipe)
    by_discipline: dict[Said, list[str]] = {}
    for discipline in sorted({*before.policy.removed_tools, *after.policy.removed_tools}):
        for said in _of_discipline(discipline, before, after):
            by_discipline.setdefault(said, []).append(discipline)
    found = [AuthorityChange(*said, recipes=tuple(who)) for said, who in by_recipe.items()]
    found += [AuthorityChange(*said, disciplines=tuple(who)) for said, who in by_discipline.items()]
    loose = loosened_facts(before.done or {}, after.done or NO_RULES)
    found += [
        AuthorityChange(gain=True, tool="", text=f"proof of done: {literal(one)}") for one in loose
    ]
    of_all = (*_settings(before, after), *_diff_words(before.shown, after.shown))
    of_all += tuple(
        (True, f"{literal(name)} is no longer hidden")
        for name in sorted({*before.hide} - {*after.hide})
    )
    found += [AuthorityChange(gain, "", text) for gain, text in of_all]
    weighed = {one.tool for one in found if one.gain}
    for tool in before.runs.keys() & after.runs.keys() - weighed:
        old, new = (one.columns.get(tool, {}) for one in (before, after))
        is_same = all(old[name] == new[name] for name in old.keys() & new.keys())
        if before.runs[tool] != after.runs[tool] or not is_same:
            text = f"the implementation of {literal(tool)} has changed"
            found.append(AuthorityChange(gain=True, tool=tool, text=text))
    return sorted(found, key=lambda one: (not one.gain, one.tool == "", one.tool, one.text))


def _settings(before: Authority, after: Authority) -> Iterator[tuple[bool, str]]:
    """Yield each changed setting of a kit as a gain, since it may grant more."""
    for kit in sorted(before.suites.keys() & after.suites.keys()):
        old, new = (one.settings.get(kit, {}) for one in (before, after))
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                was, now = (literal(_json(one.get(key))) for one in (old, new))
                text = f"setting {literal(key)} of kit {literal(kit)} is {now}, previously"
                yield True, f"{text} {was}"


def _diff_words(
    old: Mapping[str, Sequence[str]], new: Mapping[str, Sequence[str]]
) -> Iterator[tuple[bool, str]]:
    for table in sorted(old.keys() & new.keys()):
        more, fewer = {*new[table]} - {*old[table]}, {*old[table]} - {*new[table]}
        if more:
            yield True, f"rows of {literal(table)} include {name_list(sorted(more))}"
        if fewer:
            yield False, f"rows of {literal(table)} no longer include {name_list(sorted(fewer))}"


def _of_recipe(recipe: str, before: Authority, after: Authority) -> Iterator[Said]:
    """Yield the differences between the grants of two recipes, or that one of them is missing."""
    old, new = _granted(recipe, before), _granted(recipe, after)
    if old is None or new is None:
        there = new or old
        if there is not None:
            tools = f"with {name_list(there[0].tools)}" if there[0].tools else "without tools"
            yield old is None, "", f"{'new' if old is None else 'removed'} recipe, {tools}"
        return
    yield from _rows(before.policy.targets(recipe), after.policy.targets(recipe))
    (has, tools_after), (had, tools_before) = new, old
    for entry in dict.fromkeys((*has.tools, *had.tools)):
        if entry in had.tools and entry in has.tools:
            yield from _of_grant(entry, had.tools[entry], has.tools[entry])
            yield from _of_tool(entry, tools_before[entry], tools_after[entry])
            yield from _of_columns(entry, before, after)
        else:
            gain = entry in has.tools
            yield gain, entry, f"{literal(entry)} {'can' if gain else 'can no longer'} be called"


def _of_columns(entry: str, before: Authority, after: Authority) -> Iterator[Said]:
    """Yield the columns that a tool shows, or a custom tool can read, in one of two servers."""
    run = after.runs.get(entry, "").partition(" ")[0]
    old, new = (one.columns.get(entry, {}) for one in (before, after))
    if run == OWN_TOOL:
        more, fewer = {*before.hide} - {*after.hide}, {*after.hide} - {*before.hide}
    elif run in READING:
        more, fewer = new.keys() - old.keys(), old.keys() - new.keys()
    else:
        return
    verbs = ("can read", "can no longer read") if run == OWN_TOOL else ("shows", "no longer shows")
    for verb, names in zip(verbs, (more, fewer), strict=True):
        if names:
            yield names is more, entry, f"{literal(entry)} {verb} {name_list(sorted(names))}"


def _of_rules(old: Collection[str], new: Collection[str]) -> Iterator[Said]:
    """Yield each pattern of tools that a recipe may never have now and might, or the reverse."""
    for pattern in sorted({*old} ^ {*new}):
        if pattern in new:
            yield False, "", f"a rule forbids tools like {literal(pattern)}"
        else:
            yield True, "", f"no rule forbids tools like {literal(pattern)} any more"


def _granted(recipe: str, authority: Authority) -> tuple[Grants, dict[str, Tool]] | None:
    """Return a recipe's grants for all kinds of rows, and its tools, by `"kit:tool"`.

    The values of a grant include those of the schema. Returns None without such a recipe.
    """
    if recipe not in authority.policy.recipes:
        return None
    grants: dict[str, Grant] = {}
    tools: dict[str, Tool] = {}
    for kit, suite in authority.suites.items():
        try:
            session = supposed_session(authority.policy, recipe, kit, rows=EXAMPLES)
            schemas = Grants("", {tool.name: _values(tool) for tool in suite})
            granted = session.explained(suite) & schemas
            for tool in suite:
                if (grant := granted.tools.get(tool.name)) is not None:
                    grants[f"{kit}:{tool.name}"] = grant
                    tools[f"{kit}:{tool.name}"] = tool.tailored(grant, loaded_first=False)
        except (StartError, LookupError, TypeError, AttributeError, ValueError) as error:
            text = f'the recipe "{recipe}" of the server is invalid: {error}'
            raise ProjectError(text, 'run "ralphgen check" there') from error
    return Grants("", grants), tools


def _values(tool: Tool) -> Grant:
    rules = tool.properties.items()
    return Grant(values={name: rule["enum"] for name, rule in rules if "enum" in rule})


def _rows(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Said]:
    for kind in sorted({*old, *new}):
        was, now = (NEEDS.get(one.get(kind, ""), len(NEEDS)) for one in (old, new))
        if now > was:
            yield True, "", f"sessions are less restricted to their own {kind}"
        elif now < was:
            yield False, "", f"sessions are more restricted to their own {kind}"


def _of_grant(entry: str, old: Grant, new: Grant) -> Iterator[Said]:
    """Yield the arguments, values and rows that one of two grants allows and the other does not."""
    had, has = old.arguments or frozenset(), new.arguments or frozenset()
    for name in sorted(had ^ has):
        accepts = "accepts" if name in has else "no longer accepts"
        yield name in has, entry, f"{literal(entry)} {accepts} {literal(name)}"
    for name in sorted(had & has):
        where = f"{literal(name)} of {literal(entry)}"
        yield from _of_values(entry, where, old.values.get(name), new.values.get(name))
    for name in sorted({*old.rows, *new.rows}):
        was, now = old.rows.get(name), new.rows.get(name)
        if was is not None and now is not None and (was.kind, was.reach) == (now.kind, now.reach):
            continue
        far = [len(REACHES) if one is None else REACHES.index(one.reach) for one in (was, now)]
        rows = "any row, not only that of the session"
        if now is not None:
            rows = literal(next(rule for rule in RULES if RULES[rule] == (now.kind, now.reach)))
        yield far[1] >= far[0], entry, f"{literal(name)} of {literal(entry)} can name {rows}"


def _of_tool(entry: str, old: Tool, new: Tool) -> Iterator[Said]:
    """Yield the differences between two tools that are not in their grants."""
    if old.hints != new.hints:
        reads = bool(new.hints.get("readOnlyHint"))
        says = "only reads" if reads else f"declares {_json(new.hints)}"
        yield not reads, entry, f"{literal(entry)} {says}"
    for name in sorted(old.properties.keys() & new.properties.keys()):
        where = f"{literal(name)} of {literal(entry)}"
        yield from _of_schema(entry, where, old.properties[name], new.properties[name])
        is_bound = name in old.bound_arguments or name in new.bound_arguments
        if not is_bound and (name in old.required) != (name in new.required):
            gain = name in old.required
            yield gain, entry, f"{where} {'is optional' if gain else 'is required'}"


def _of_schema(
    entry: str, where: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Said]:
    """Yield the values that only one of two schemas allows, except those of lists."""
    for key, more in BOUNDS.items():
        was, now = old.get(key), new.get(key)
        if was != now:
            gain = now is None or (was is not None and (now > was) == more)
            yield gain, entry, f"{where}: {key} is {_json(now)}, previously {_json(was)}"
    was, now = old.get("items"), new.get("items")
    if isinstance(was, dict) and isinstance(now, dict):
        yield from _of_values(entry, where, was.get("enum"), now.get("enum"))
        yield from _of_schema(entry, where, was, now)
    weighed = {"enum", "items", "description", "default", *BOUNDS}
    rest = [{key: one[key] for key in sorted(one.keys() - weighed)} for one in (old, new)]
    if rest[0] != rest[1] or ("items" in old) != ("items" in new):
        yield True, entry, f"{where} accepts values of another type"


def _of_values(
    entry: str, where: str, old: Collection[Any] | None, new: Collection[Any] | None
) -> Iterator[Said]:
    if old is None or new is None:
        if old is not new:
            allowed = "any" if new is None else "only some"
            yield new is None, entry, f"{where} accepts {allowed} values"
        return
    if more := sorted(_json(one) for one in new if one not in old):
        yield True, entry, f"{where} accepts {name_list(more)}"
    if fewer := sorted(_json(one) for one in old if one not in new):
        yield False, entry, f"{where} no longer accepts {name_list(fewer)}"


def _of_discipline(discipline: str, before: Authority, after: Authority) -> Iterator[Said]:
    old, new = (
        {f"{kit}:{tool}" for kit, tools in removed.items() for tool in tools}
        for one in (before, after)
        for removed in [one.policy.removed_tools.get(discipline, {})]
    )
    had, has = (
        {f"{kit}:{tool.name}" for kit, suite in one.suites.items() for tool in suite}
        for one in (before, after)
    )
    for entry in sorted((old - new) & has):
        yield True, entry, f"{literal(entry)} is no longer removed"
    for entry in sorted((new - old) & had):
        yield False, entry, f"{literal(entry)} is removed"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


REACH_TEXTS = {WITHIN: "a {kind} of the same feature", ANY: "any {kind}"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool of a kit, and one of its arguments or ""."""

    kit: KitPlan
    tool: str
    argument: str = ""

    def __str__(self) -> str:
        argument = f' "{self.argument}"' if self.argument else ""
        return f"{self.kit.key}:{self.tool}{argument}"


def tools_by_name(
    plan: ServerPlan, kits: Sequence[KitDefinition], tool: str, argument: str = ""
) -> list[Asked]:
    """Return the tools of this name, or of `"kit:tool"`, in the enabled kits; `kits` are all.

    Raises `MissingError` for an unknown tool, `UsageError` for an unknown argument.
    """
    catalog = full_catalog(kits, plan.kits)
    enabled = {kit.key: kit for kit in plan.kits}
    pairs = catalog.resolved(tool)
    if not pairs:
        names = sorted({name for key in enabled for name in catalog.tools[key]})
        hint = suggestion(tool.rpartition(":")[2], names, "the tools", "ralphgen tools")
        raise MissingError(f'there is no tool "{plain(tool)}"', hint)
    found = [Asked(enabled[kit], name, argument) for kit, name in pairs if kit in enabled]
    if not found:
        kit = pairs[0][0]
        raise MissingError(
            f'the kit "{kit}" of the tool "{plain(tool)}" is not enabled',
            f'add "{kit}" to "kits" in .ralph/ralphgen.toml and run "ralphgen regen"',
        )
    known = {
        name
        for one in found
        for planned in one.kit.tools
        if planned.name == one.tool
        for name in planned.argument_names
    }
    if argument and argument not in known:
        raise UsageError(
            f'the tool "{plain(tool)}" has no argument "{plain(argument)}"',
            suggestion(argument, sorted(known), "its arguments"),
        )
    return found


class Reach:
    """The sessions that a plan allows, and the tools that each of them may call."""

    def __init__(self, plan: ServerPlan) -> None:
        self.policy = plan.policy

    def why(
        self,
        asked: Asked,
        recipe: str,
        *,
        discipline: str | None = None,
        rows: Mapping[str, int | str] | None = None,
    ) -> str:
        """Return the source that removed a tool or an argument, and the recipes that have it.

        `rows` are the session's rows, by kind; by default, the rows that the recipe requires.
        """
        grants = self._grants(asked, recipe, discipline, rows)
        tool, argument = ((asked.tool, name) for name in ("", asked.argument))
        reason = grants.removed.get(tool) or grants.removed.get(argument)
        words = reason or f'the recipe "{plain(recipe)}" has it'
        recipes = [plain(name) for name in self.policy.recipes if self._grant(asked, name)]
        return f"{asked}: {words} (recipes that have it: {', '.join(recipes) or 'none'})"

    def who(self, asked: Asked) -> Iterator[str]:
        """Yield a line for each recipe whose sessions may call a tool, with disciplines and rows.

        A recipe has several lines if its sessions differ by the rows that they work on.
        """
        for recipe in self.policy.recipes:
            lines: dict[str, list[str]] = {}
            choices = [*self._choices(recipe)]
            for kinds in choices:
                if (line := self._line(asked, recipe, kinds)) is not None:
                    lines.setdefault(line, []).append(" and a ".join(kinds))
            for line, about in lines.items():
                rows = " or ".join(
                    f"with a {kinds}" if kinds else "without a row" for kinds in about
                )
                is_any = len(about) == len(choices)
                yield f"{plain(recipe)}{'' if is_any else f' {rows}'}{line}"

    def _choices(self, recipe: str) -> Iterator[tuple[str, ...]]:
        """Yield each set of rows that sessions of a recipe can work on."""
        targets = self.policy.targets(recipe)
        needed = [kind for kind, need in targets.items() if need == REQUIRED]
        optional = [kind for kind in targets if kind not in needed]
        for count in range(len(optional) + 1):
            for chosen in combinations(optional, count):
                yield (*needed, *chosen)

    def _line(self, asked: Asked, recipe: str, kinds: Sequence[str]) -> str | None:
        """Return the disciplines and limits of sessions with a tool, or None if none has it."""
        brought = {*kinds, *(other for kind in kinds for other in BROUGHT.get(kind, ()))}
        rows = {kind: EXAMPLES[kind] for kind in brought}
        grant = self._grant(asked, recipe, None, rows)
        if grant is None:
            return None
        works_as = () if "discipline" in self.policy.targets(recipe) else self.policy.disciplines
        without = [
            f'"{plain(name)}"'
            for name in sorted(works_as)
            if not self._grant(asked, recipe, name, rows)
        ]
        words = f", not as {', '.join(without)}" if without else ""
        limits = [*_limits(grant, asked.argument)]
        return f"{words}: {'; '.join(limits)}" if limits else words

    def _grant(
        self,
        asked: Asked,
        recipe: str,
        discipline: str | None = None,
        rows: Mapping[str, int | str] | None = None,
    ) -> Grant | None:
        """Return the grant of a tool in a session, or None without the tool or the argument."""
        grant = self._grants(asked, recipe, discipline, rows).tools.get(asked.tool)
        has = grant is not None and (not asked.argument or grant.allows(asked.argument))
        return grant if has else None

    def _grants(
        self,
        asked: Asked,
        recipe: str,
        discipline: str | None,
        rows: Mapping[str, int | str] | None,
    ) -> Grants:
        kit = asked.kit
        session = supposed_session(self.policy, recipe, kit.key, discipline=discipline, rows=rows)
        return session.explained(kit.tools)


def _limits(grant: Grant, argument: str) -> Iterator[str]:
    """Yield the row and the values of an argument, or the rows of all arguments."""
    for name, bound in sorted(grant.rows.items()):
        if argument in ("", name):
            words = REACH_TEXTS.get(bound.reach, "the {kind} of the session").format(
                kind=bound.kind
            )
            yield f"{name} is {words}"
    if argument in grant.values:
        yield f"{argument} is one of {', '.join(sorted(grant.values[argument]))}"
