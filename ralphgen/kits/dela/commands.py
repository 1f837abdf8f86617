"""`ralphgen dela`: the user allows and denies agents to run tasks.

`allow` and `deny` require confirmation at a terminal, and refuse to run below `ralphgen launch`.
This keeps scripts and the shells of agents from allowing tasks in passing. It is a guardrail, not a
security boundary: a process of the same user outside the session can create a terminal, and any
process with write access can edit the file. The commands resolve the names to tasks and write
entries that cover them.
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ralphgen.errors import Problem, ProjectError, UsageError, suggestion
from ralphgen.files import put
from ralphgen.kits.dela.server.allowlist import Rule, Rules, allowlist_path, lies_in, read_rules
from ralphgen.kits.dela.server.formats import Discovered, discover
from ralphgen.kits.dela.server.task import Task, find_task
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import path_within
from ralphgen.terminal.app import App, Json, Project
from ralphgen.terminal.console import confirmed, print_json, refuse_agents, say

BY_HAND = "fix the file by hand: ralphgen does not overwrite invalid files"


@dataclass(frozen=True, slots=True)
class Place:
    """A searched directory and the tasks found in it."""

    folder: str
    found: Discovered


def find_places(root: Path, start: Path, settings: Mapping[str, Any]) -> tuple[Place, ...]:
    """Return the start directory, if the directory of the tasks contains it, and then the latter.

    A server searches the same two if a call names a directory. Raises `ProjectError` if the
    settings' `root` is not a directory in the project.
    """
    named = str(settings.get("root", ""))
    top, folder = path_within(os.path.realpath(root), named), os.path.realpath(start)
    if top is None or not Path(top).is_dir():
        problem = "is outside the project" if top is None else "does not exist"
        raise ProjectError(
            f'the task directory "{one_line(named)}" {problem}',
            'fix "root" in the settings of the kit',
        )
    inside = [folder] if Path(folder).is_relative_to(top) and Path(folder).is_dir() else []
    return tuple(Place(path, discover(top, path)) for path in dict.fromkeys([*inside, top]))


def tasks_by_name(places: Sequence[Place], names: Iterable[str]) -> list[Task]:
    """Return the tasks of these names, each once; raises `UsageError` with all unknown names."""
    problems: list[Problem] = []
    tasks: list[Task] = []
    for name in names:
        found = [find_task(place.found.tasks, name) for place in places]
        task = next((task for task, _ in found if task is not None), None)
        meant = next((candidates for _, candidates in found if candidates), [])
        if task is None:
            problems.append(_unknown(name, meant, all_tasks(places)))
        elif task not in tasks:
            tasks.append(task)
    if problems:
        raise UsageError.of(problems)
    return tasks


def all_tasks(places: Iterable[Place]) -> list[Task]:
    """Return the tasks of all places, without duplicates."""
    found: dict[tuple[str, str, tuple[str, ...]], Task] = {}
    for task in (task for place in places for task in place.found.tasks):
        found.setdefault((task.name, task.path, task.argv), task)
    return [*found.values()]


def task_entries(tasks: Iterable[Task], scope: str) -> list[Rule]:
    """Return the entries that reach these tasks: by name, or all of their files or folders."""
    names: dict[str, list[str]] = {}
    for task in tasks:
        path = str(Path(task.path).parent) if scope == "Directory" else task.path
        names.setdefault(path, []).append(task.name)
    by_name = scope in {"Task", "Deny"}
    return [
        Rule(0, path, scope, dict.fromkeys(found if by_name else ()))
        for path, found in names.items()
    ]


def path_entries(paths: Iterable[str]) -> list[Rule]:
    """Return the entries that deny all tasks of files or folders; raises `UsageError` if gone."""
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        hint = "use a task file, or a directory of task files"
        problems = [Problem(f'no file "{one_line(path)}"', hint) for path in missing]
        raise UsageError.of(problems)
    return [Rule(0, path, "Deny") for path in dict.fromkeys(map(os.path.realpath, paths))]


def reached(entries: Iterable[Rule], tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that these entries allow or deny."""
    rules = Rules("", [*entries])
    return [
        task
        for task in tasks
        if rules.grant(task.name, task.path) or rules.denial(task.name, task.unique_name, task.path)
    ]


def task_permissions(rules: Rules, place: Place) -> list[dict[str, Any]]:
    """Return each task of a place: whether it may be started, and the entry that decides that."""
    rows: list[dict[str, Any]] = []
    for task in place.found.tasks:
        denial = rules.denial(task.name, task.unique_name, task.path)
        entry = denial or rules.grant(task.name, task.path)
        told = entry and {"number": entry.number, "scope": entry.scope, "path": entry.path}
        facts = {"unique_name": task.unique_name, "command": task.command, "file_path": task.path}
        rows.append({**facts, "allowlisted": bool(entry) and denial is None, "entry": told})
    return rows


def _unknown(name: str, meant: Sequence[str], tasks: Iterable[Task]) -> Problem:
    shown = one_line(name)
    if meant:
        text = f'ambiguous task name "{shown}": {len(meant)} tasks match'
        return Problem(text, f"use one of {one_line(', '.join(meant))}")
    known = [task.unique_name for task in tasks]
    return Problem(
        f'no task "{shown}"', suggestion(name, known, "the tasks", "ralphgen call dela:list_tasks")
    )


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change: `entries` are the new ones; `after` equals `before` if there are none.

    `rules` are the rules in the current file.
    """

    rules: Rules
    entries: tuple[Rule, ...]
    before: str
    after: str

    def diff(self) -> list[str]:
        """Return the removed and added lines, each as one printable line."""
        before, after = self.before.splitlines(), self.after.splitlines()
        lines = list(difflib.unified_diff(before, after, n=2, lineterm=""))[2:]
        return [one_line(line) for line in lines if not line.startswith("@@")]


def plan_change(path: str, wanted: Iterable[Rule]) -> Change:
    """Return the change that adds missing entries to an allowlist.

    Raises `ProjectError` if the file is invalid or cannot be changed without losing content.
    """
    before, rules = _text(path), read_rules(path)
    shown = f'the allowlist "{one_line(path)}"'
    if rules.problem:
        raise ProjectError(f"{shown} {rules.problem}", BY_HAND)
    missing = [
        rest for rule in wanted if (rest := _uncovered_rule(rule, rules.entries)) is not None
    ]
    try:
        after = _with_entries(before, missing, rules.entries) if missing else before
    except ValueError as error:
        raise ProjectError(f"cannot change {shown}: {one_line(str(error))}", BY_HAND) from error
    return Change(rules, tuple(missing), before, after)


def write(change: Change) -> None:
    """Write a planned change as a whole; a new file is readable only by its owner.

    Raises `ProjectError` if the file has changed since the plan, or cannot be written.
    """
    path = change.rules.path
    if _text(path) != change.before:
        text = f'the allowlist "{one_line(path)}" changed in the meantime'
        raise ProjectError(text, "run the command again")
    before = os.umask(0o077)
    try:
        put(Path(path), change.after)
    finally:
        os.umask(before)


def _uncovered_rule(wanted: Rule, there: Sequence[Rule]) -> Rule | None:
    """Return the part of a requested entry that the existing entries do not cover, or None."""
    if not wanted.tasks:
        return None if any(_says(rule, wanted, "") for rule in there) else wanted
    names = [name for name in wanted.tasks if not any(_says(rule, wanted, name) for rule in there)]
    return Rule(0, wanted.path, wanted.scope, names) if names else None


def _says(rule: Rule, wanted: Rule, name: str) -> bool:
    """Return whether an entry covers a requested entry, for the named task or for all tasks."""
    if wanted.scope == "Deny":
        return rule.denies([name], wanted.real)
    if wanted.scope == "Directory":
        return rule.scope == "Directory" and rule.is_around(wanted.real)
    return rule.grants(name, wanted.real)


def _with_entries(text: str, wanted: Sequence[Rule], there: Sequence[Rule]) -> str:
    """Return the text with more entries and no other changes.

    Names are added to an existing entry of the same path and scope. A Deny qualifies only if it
    lists names, because a Deny without names covers all tasks. Raises `ValueError` if the change
    would lose content.
    """
    names: dict[int, list[str]] = {}
    new: list[dict[str, Any]] = []
    for rule in wanted:
        same = (one for one in there if (one.path, one.scope) == (rule.path, rule.scope))
        home = next(same, None) if rule.tasks else None
        if home is not None:
            names.setdefault(home.number - 1, [*home.tasks]).extend(rule.tasks)
        else:
            tasks = {"tasks": [*rule.tasks]} if rule.tasks else {}
            new.append({"path": rule.path, "scope": rule.scope, **tasks})
    from ralphgen.project.toml_edit import edited

    count = len(tomllib.loads(text).get("entries", []))
    changes: list[tuple[tuple[str | int, ...], Any]] = [
        *((("entries", at, "tasks"), tasks) for at, tasks in names.items()),
        *((("entries", at), entry) for at, entry in enumerate(new, count)),
    ]
    return edited(text, changes)


def _text(path: str) -> str:
    """Return the text of an allowlist, or "" if it cannot be read; its rules report the reason."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, ValueError):
        return ""


app = App()
dela = App(name="dela", help="Choose the project commands agents may run.")
app.add_typer(dela)
KIT = "dela"
SHOWN = 50  # tasks in a list on the terminal


@dela.command(example="ralphgen dela allow build test")
def allow(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help='Task names, as printed by "ralphgen dela list".'),
    ],
    whole_file: Annotated[
        bool, typer.Option("--file", help="Allow every task in the files of these tasks.")
    ] = False,
    directory: Annotated[
        bool, typer.Option("--directory", help="Allow every task in and below their directories.")
    ] = False,
    project: Project = Path(),
) -> None:
    """Let agents run tasks; shows the change and asks.

    Only you can confirm it, at a terminal.
    """
    if whole_file and directory:
        raise UsageError("cannot combine --file and --directory", "omit one of them")

    _need_person("dela allow")
    places, path = _situation(project)
    tasks = tasks_by_name(places, names)
    scope = "File" if whole_file else "Directory" if directory else "Task"
    rules = _change(path, task_entries(tasks, scope), all_tasks(places), places[-1].folder)
    for task in tasks:
        denial = rules.denial(task.name, task.unique_name, task.path)
        if denial is not None:
            where = f'entry {denial.number} of "{path}", a Deny on "{denial.path}"'
            _tell(f'note: "{task.unique_name}" is still denied by {where}')


@dela.command(example="ralphgen dela deny deploy")
def deny(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help='Task names, as printed by "ralphgen dela list".'),
    ],
    files: Annotated[
        bool,
        typer.Option(
            "--file", help="Treat the names as files or directories and deny all their tasks."
        ),
    ] = False,
    project: Project = Path(),
) -> None:
    """Keep agents from running tasks; shows the change and asks.

    Denials override allow rules. Only you can confirm it, at a terminal.
    """
    _need_person("dela deny")
    places, path = _situation(project)
    wanted = path_entries(names) if files else task_entries(tasks_by_name(places, names), "Deny")
    _change(path, wanted, all_tasks(places), places[-1].folder)


def _need_person(command: str) -> None:
    """Raise `UsageError` if no user can answer: without a terminal, or below an agent."""
    refuse_agents(command)
    if not all(os.isatty(stream) for stream in (0, 1, 2)):
        raise UsageError(
            "tasks can be allowed or denied only at a terminal", "ask the user to run this command"
        )


def _situation(project: Path) -> tuple[tuple[Place, ...], str]:
    """Return the searched places and the path of the allowlist; warn about unusable files."""
    from ralphgen.kits.registry import project_config
    from ralphgen.project.config import kit_settings
    from ralphgen.project.root import project_place

    place = project_place(project)
    root = place.root
    config = project_config(root)
    settings = kit_settings(config.values, KIT)
    places = find_places(root, place.start, settings)
    for path, why in dict.fromkeys(problem for place in places for problem in place.found.problems):
        _tell(f'warning: "{path}" {why}')
    path = allowlist_path()
    if lies_in(path, [os.path.realpath(root)]):
        raise ProjectError(
            f'the allowlist "{path}" is inside the project, which could bring its own',
            "move the project out of your home directory",
        )
    return places, path


def _change(path: str, wanted: Sequence[Rule], tasks: Sequence[Task], top: str) -> Rules:
    """Show the new entries, write them once confirmed, and return the previous rules."""
    change = plan_change(path, wanted)
    for sentence in change.rules.ignored:
        _tell(f"warning: {sentence}")
    if not change.entries:
        _tell(f'nothing to write: "{path}" already has these entries')
        return change.rules
    _tell(f'the allowlist "{path}" {"is created" if change.rules.missing else "changes"}:')
    for line in change.diff():
        _tell(f"  {line}")
    _tell_reach(change.entries, reached(change.entries, tasks), top)
    if not confirmed("write it?"):
        say("nothing was written")
        raise typer.Exit(1)
    write(change)
    _tell(f'wrote "{path}"')
    return change.rules


def _tell_reach(entries: Sequence[Rule], tasks: Sequence[Task], top: str) -> None:
    """Print the existing tasks that the entries cover, and mention future ones."""
    from ralphgen.kits.dela import below

    verb = "denies" if entries[0].scope == "Deny" else "allows"
    _tell(f"this {verb}:")
    for task in tasks[:SHOWN]:
        _tell(f"  {task.unique_name}: {task.command} ({below(Path(top), task.path)})")
    if len(tasks) > SHOWN:
        _tell(f"  and {len(tasks) - SHOWN:,} more")
    for entry in entries:
        if not entry.tasks:
            among = "below" if Path(entry.real).is_dir() else "of"
            _tell(f'  and every other task {among} "{entry.path}", now and in future')


@dela.command(name="list", example="ralphgen dela list")
def list_(project: Project = Path(), as_json: Json = False) -> None:
    """List the tasks, and which of them agents may run."""
    from ralphgen.kits.dela import below

    places, path = _situation(project)
    rules = read_rules(path)
    rows = {place.folder: task_permissions(rules, place) for place in places}
    problems = [sentence for _, sentence in rules.problems()]
    if as_json:
        listed = [{"folder": folder, "tasks": tasks} for folder, tasks in rows.items()]
        facts = {"path": path, "exists": not rules.missing, "problems": problems}
        print_json({"allowlist": facts, "folders": listed})
        return
    for sentence in problems:
        _tell(f'warning: the allowlist "{path}": {sentence}')
    if rules.missing:
        _tell(f'no allowlist yet: create "{path}" with "ralphgen dela allow NAME"')
    for folder, tasks in rows.items():
        if len(rows) > 1:
            _print(f"{folder}:")
        width = max((len(task["unique_name"]) for task in tasks), default=0)
        for task in tasks:
            word = "denied" if task["entry"] else "not allowed"
            _print(
                f"{'allowed' if task['allowlisted'] else word:<11}  "
                f"{task['unique_name']:<{width}}  {task['command']}"
                f"  ({below(Path(folder), task['file_path'])})"
            )


def _tell(line: str) -> None:
    """Print a message on one line, even if names from the project's files contain line breaks."""
    say(one_line(line))


def _print(line: str) -> None:
    """Print a line of a result, even if names from the project's files contain line breaks."""
    print(one_line(line))
