"""`ralphgen dela`: the user allows and denies agents to run tasks.

`allow` and `deny` ask at a terminal, and refuse below `ralphgen launch`, which keeps scripts and
the shells of agents from allowing themselves in passing. It is a gate, no wall: who runs as the
user and leaves the session's processes can make a terminal of its own, and who may write the file
can write it.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.errors import ProjectError, UsageError
from ralphgen.terminal.app import App, Json, Project
from ralphgen.terminal.console import print_json, say
from ralphgen.terminal.person import confirmed, refuse_agents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralphgen.kits.dela.allowing import Place
    from ralphgen.kits.dela.server.allowlist import Rule, Rules
    from ralphgen.kits.dela.server.task import Task

app = App()
dela = App(name="dela", help="Choose the project commands agents may run.")
app.add_typer(dela)
KIT = "dela"
SHOWN = 50  # tasks, where a person has to read them


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
    from ralphgen.kits.dela.allowing import all_tasks, named_tasks, task_entries

    _need_person("dela allow")
    places, path = _situation(project)
    tasks = named_tasks(places, names)
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
    from ralphgen.kits.dela.allowing import all_tasks, named_tasks, path_entries, task_entries

    _need_person("dela deny")
    places, path = _situation(project)
    wanted = path_entries(names) if files else task_entries(named_tasks(places, names), "Deny")
    _change(path, wanted, all_tasks(places), places[-1].folder)


def _need_person(command: str) -> None:
    """Refuse, with `UsageError`, where nobody reads what is asked, or only an agent can answer."""
    refuse_agents(command)
    if not all(os.isatty(stream) for stream in (0, 1, 2)):
        raise UsageError(
            "tasks can be allowed or denied only at a terminal",
            "ask the user to run this command",
        )


def _situation(project: Path) -> "tuple[tuple[Place, ...], str]":
    """Return where tasks are found, and the path of the allowlist; what cannot be used is said."""
    from ralphgen.kits.dela.allowing import find_places
    from ralphgen.kits.dela.server.allowlist import allowlist_path, lies_in
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


def _change(path: str, wanted: "Sequence[Rule]", tasks: "Sequence[Task]", top: str) -> "Rules":
    """Write entries, once a person has seen them and agreed; returns the rules as they were."""
    from ralphgen.kits.dela.allowing import plan_change, reached, write

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


def _tell_reach(entries: "Sequence[Rule]", tasks: "Sequence[Task]", top: str) -> None:
    """Say which tasks the entries are on, those that there are and those that may come."""
    from ralphgen.kits.dela.kit import below

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
    from ralphgen.kits.dela.allowing import standing
    from ralphgen.kits.dela.kit import below
    from ralphgen.kits.dela.server.allowlist import read_rules

    places, path = _situation(project)
    rules = read_rules(path)
    rows = {place.folder: standing(rules, place) for place in places}
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
    """Say a line for people, of which names from the project's files cannot make two."""
    from ralphgen.runtime.errors import one_line

    say(one_line(line))


def _print(line: str) -> None:
    """Print a line of a result, of which names from the project's files cannot make two."""
    from ralphgen.runtime.errors import one_line

    print(one_line(line))
