"""Reads what an emitted server lets sessions do from the text of its modules; runs none of them."""

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.authority import NOTHING, Authority
from ralphgen.errors import ProjectError, UsageError
from ralphgen.project.git import ask_git, read_files_of_git, work_tree_around
from ralphgen.project.inspect import loosened_facts
from ralphgen.project.root import FOLDER
from ralphgen.runtime import tool as runtime_tool
from ralphgen.runtime.errors import StartError
from ralphgen.runtime.policy import FULL, Policy, Recipe
from ralphgen.runtime.tool import Tool

POLICY, FACTS = "policy.py", "project.json"
DONE, SETTINGS, TABLES = "done.py", "settings.py", "tables.py"
Names = dict[str, Any]


def read_authority(files: Mapping[str, str], where: str) -> Authority:
    """Return what the server of these files, text by path below `.ralph/mcp/`, lets sessions do.

    `where` names them in the `ProjectError` for text that is not as the generator writes it.
    """
    read = ""
    try:
        read = POLICY
        given = _keywords(_assigned(_parsed(files[POLICY])).get("POLICY"), "Policy", {})
        recipes = {name: Recipe(**given_one) for name, given_one in given["recipes"].items()}
        policy = Policy(**{**given, "recipes": recipes})
        suites: dict[str, tuple[Tool, ...]] = {}
        runs: dict[str, str] = {}
        settings: dict[str, dict[str, Any]] = {}
        shown: dict[str, list[str]] = {}
        done = None
        for kit in recipes[FULL].tools:
            found: list[Tool] = []
            for read in sorted(path for path in files if _is_of(path, kit)):
                found += _tools(files[read], kit, runs)
                if read == f"{kit}/{DONE}":
                    done = _value(_assigned(_parsed(files[read]))["DONE"], {})
                    loosened_facts(done, done)  # which fails where it is none
                elif read == f"{kit}/{SETTINGS}":
                    settings[kit] = dict(_value(_assigned(_parsed(files[read]))["SETTINGS"], {}))
                elif read == f"{kit}/{TABLES}":
                    shown.update(_columns(_assigned(_parsed(files[read]))))
            suites[kit] = tuple(found)
        read = FACTS
        rules = _rules(files.get(FACTS, "{}"))
        policy.name_tools({kit: [tool.name for tool in suite] for kit, suite in suites.items()})
    except (ValueError, LookupError, TypeError, AttributeError, SyntaxError) as error:
        raise _unreadable(read, where, error) from error
    except (StartError, RecursionError, MemoryError) as error:
        raise _unreadable(read, where, error) from error
    return Authority(policy, suites, runs, done, settings, shown, rules)


def _rules(facts: str) -> dict[str, list[str]]:
    """Return, by recipe, the patterns of tools that it never has, from the facts of the project."""
    rules = json.loads(facts).get("config", {}).get("rules", {})
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
    """Return what stands behind each name at the top of a module."""
    return {
        one.targets[0].id: one.value
        for one in module.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }


def _columns(assigned: Mapping[str, ast.expr]) -> Iterator[tuple[str, list[str]]]:
    """Yield each table of the kit's own tools, with its columns."""
    for node in assigned.values():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "StoredTable":
            name, columns = node.args[:2]
            if not isinstance(columns, ast.Dict):
                raise TypeError("the columns of a table are invalid")
            yield _value(name, {}), [_value(key, {}) for key in columns.keys]


def _tools(text: str, kit: str, runs: dict[str, str]) -> list[Tool]:
    """Return the tools of a module, and add to `runs` what those run that the project defines."""
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
            runs[f"{kit}:{tool.name}"] = f"{tool.run} {ast.dump(assigned[data.id])}"
    return found


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
    """Return what an expression stands for: constants, lists of them, and names that are known."""
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
            return names[name] if name in names else vars(runtime_tool)[name]
        case ast.Call(func=ast.Name(id="Recipe")):
            return _keywords(node, "Recipe", names)
        case _:
            raise ValueError(f'it has "{ast.unparse(node)[:80] if node else ""}" as a value')


def committed_authority(root: Path, reference: str) -> Authority:
    """Return what the server of the project in `root` let sessions do as a commit has it.

    `NOTHING` where the commit has no server. Raises `UsageError` where there is no such commit,
    `ProjectError` outside of a repository and for files that are not as the generator writes them.
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
    """Return what the server on the disk lets sessions do; `ProjectError` where there is none."""
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
