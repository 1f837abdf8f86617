"""The commands of the pages on tasks and loops, typed one after the other in a project."""

import json
import os
import re
from pathlib import Path

from command_line import ralphgen, run_sql
from driving import create_project, query
from planned_agent import Steps, claude_program, write_plan
from proved_projects import git

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("tasks", "recovery", "loop", "review")
TASKS = 12
WORKS: Steps = ["begin", ["write", "task-{task}.txt", "done"], "done"]
SPENT, NOT_ALL = 7, 1
ENDS = {"loop": {0, SPENT}, "undo": {0, NOT_ALL}, "doctor": {0, 1}}
"""The exit codes with which a command may end here; all others with 0."""


def lines() -> list[str]:
    """The commands of the pages' examples."""
    text = "".join((DOCS / f"{page}.md").read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    typed = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in typed if line.startswith("ralphgen ")]


def test_each_command_does_as_the_text_next_to_it(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", *map(task_row, range(3, TASKS + 1)))
    (root / ".gitignore").write_text(".ralph/\n", encoding="utf-8")
    begin = "init -q", "config user.name a", "config user.email a@b", "add .", "commit -qm b"
    for command in begin:
        git(root, *command.split())
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    program = claude_program(tmp_path, write_plan(tmp_path / "plan.json", {"*": [WORKS]}))
    program.with_name("codex").symlink_to(program)
    assert 0 == ralphgen("db", "ledger", "on", "--yes", cwd=root).returncode
    said = {}
    for line in lines():
        if "--worktrees" in line:
            run_sql(root, task_row(101) + task_row(102))
        words = [word if word != "SESSION" else last_session(root) for word in line.split()[1:]]
        done = ralphgen(*words, cwd=root, more={"PATH": path})
        assert done.returncode in ENDS.get(words[0], {0}), f"{line}\n{done.stdout}{done.stderr}"
        said[line] = done

    config = Path(said["ralphgen task next --claim"].stdout.strip())
    assert config.is_file()
    assert "set_task_status" in said["ralphgen log --since 12h"].stdout
    assert SPENT == said["ralphgen loop --max-tasks 3"].returncode
    assert "no task is ready" in said["ralphgen loop --until 07:00 --max-cost 20"].stderr
    assert "done" == (root / "task-102.txt").read_text(encoding="utf-8")
    outcomes = json.loads(ralphgen("session", "list", "--json", cwd=root).stdout)
    assert config.parent.name in {one["session_id"] for one in outcomes if not one["outcome"]}
    merged = {one["task_id"] for one in outcomes if one["merged"]}
    assert {101, 102} == merged
    assert [("done",)] == query(root, "SELECT DISTINCT status FROM tasks WHERE id > 3")
    assert (root / "report.html").is_file()


def task_row(task: int) -> str:
    return (
        "INSERT INTO tasks (id, feature, discipline, title) "
        f"VALUES ({task}, 'auth', 'backend', 'Step {task}');"
    )


def last_session(root: Path) -> str:
    """The session that has changed something last."""
    found = json.loads(ralphgen("log", "--json", cwd=root).stdout)
    return str(found[-1]["session"])
