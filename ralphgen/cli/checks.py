"""`ralphgen task check`: the checks of a task, run from the shell, and what came of them."""

from pathlib import Path

import typer

from ralphgen.calls.rows import Record
from ralphgen.cli.row_commands import row_tools
from ralphgen.cli.tasks import Id, app, tasks
from ralphgen.errors import harmless, plain
from ralphgen.terminal.app import Json, Project, TrustEdited
from ralphgen.terminal.console import print_json

__all__ = ["app", "check"]
TOOL = "run_checks"
INDENT = "    "


@tasks.command(example="ralphgen task check 7")
def check(
    task: Id,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Run the checks of a task. Exits with 1 if one fails.

    Passed checks prove the task while the files stay unchanged.
    """
    from ralphgen.errors import ProjectError
    from ralphgen.project.root import project_root
    from ralphgen.trust.items import read_settings

    root = project_root(project)
    if not read_settings(root).done.checks:
        hint = 'enable [[done.checks]] in .ralph/ralphgen.toml, then run "ralphgen regen"'
        raise ProjectError("no checks are configured", hint)
    _require_trust(root)
    with row_tools(project, TOOL, trust_edited=trust_edited) as tools:
        answer = tools.ask(TOOL, task=task)
    if as_json:
        print_json(answer)
    else:
        _show(task, answer)
    raise typer.Exit(0 if answer["passed"] else 1)


def _require_trust(root: Path) -> None:
    """Ask for the checks of a clone, which run programs; raise `UntrustedError` for a no."""
    from ralphgen.cli.trust import asked
    from ralphgen.trust.decide import check_items, require_trust
    from ralphgen.trust.items import read_settings

    require_trust(root, check_items(read_settings(root).done), asked)


def _show(task: int, answer: Record) -> None:
    for one in answer["checks"]:
        code = one["exit_code"]
        end = "passed" if code == 0 else "was stopped" if code is None else "failed"
        exit_code = f" (exit code {code})" if code else ""
        print(f"{plain(one['name'])} {end} in {one['seconds']} s{exit_code}")
        if code != 0:
            for line in harmless(one["tail"]).splitlines():
                print(f"{INDENT}{line}")
    for key in ("not_proved", "watched", "note"):
        if key in answer:
            print(plain(answer[key]))
    if answer["passed"]:
        print(f"task {task} can be closed while the files stay unchanged")
    else:
        print(f"task {task} cannot be closed yet: not every check passed")
