"""A project's own tools over HTTP, in a loop and in work trees: the main folder's files are run."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project, made_here, query, quiet
from http_servers import CONFIG as HTTP
from http_servers import http_client, serving, token
from loop_projects import LoopProject
from planned_agent import Steps
from proved_projects import LEDGER, MARKER, TESTS, git

from ralphgen.emit.workflows import regenerate

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

FILE = ".ralph/tools/a.py"
TOOLS = '''
import os
import time
from typing import Any

from ralphgen.tools import Project, reads, writes

SECRETS = ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "RALPH_TOKEN", "SHOP_DSN")


@reads
def where(project: Project) -> dict[str, Any]:
    """Say where it is."""
    session = project.session
    return {
        "file": __file__,
        "cwd": os.getcwd(),
        "root": project.root,
        "secrets": [name for name in SECRETS if name in os.environ],
        "session": [session.session_id, session.recipe, session.task],
    }


@reads
def nap(project: Project) -> int:
    """Sleep a while, and say in which process."""
    time.sleep(0.5)
    return os.getpid()


@writes
def rename(project: Project, title: str, status: str) -> dict[str, Any]:
    """Rename the first task."""
    sql = "UPDATE tasks SET title = :title, status = :status WHERE id = 1"
    return project.write(sql, title=title, status=status)
'''
CONFIG = """
[own_tools.where]
recipes = ["task_execution"]

[own_tools.rename]
recipes = ["task_execution"]
"""


def with_tools(root: Path) -> Path:
    """A project that has these tools now."""
    (root / FILE).parent.mkdir(exist_ok=True)
    (root / FILE).write_text(TOOLS, encoding="utf-8")
    settings = root / ".ralph/ralphgen.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + CONFIG, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    return made_here(root)


def own_processes(root: Path) -> list[str]:
    """The processes that run tools of a project."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if b"--own-tools" in words and str(root).encode() in words:
            found.append(entry.name)
    return found


def test_over_http_each_session_has_its_own_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_DSN", raising=False)  # set by other tests: here it must be undefined
    ledger = LEDGER.read_text(encoding="utf-8")
    more = f"{TESTS}\n{HTTP}workers = 1\nrate = 100000\n"
    root = with_tools(create_project(tmp_path / "p", ledger, MARKER, config=more))
    with serving(root) as server:
        one, two = (token(root, jti=f"session-{number}") for number in (1, 2))
        with http_client(server, one) as first, http_client(server, two) as second:
            told = first.call("where")
            again = second.call("where")
            with ThreadPoolExecutor(6) as pool:
                began = time.monotonic()
                naps = [*pool.map(lambda _: first.call("nap")["result"], range(6))]
            written = second.call("rename", title="Over HTTP", status="pending")
            refused = first.refusal("rename", title="x", status="done")
            late = second.call("nap")["result"]

        assert (str(root / FILE), str(root), []) == (told["file"], told["cwd"], told["secrets"])
        assert ["session-1", "manual", None] == told["session"]
        assert ["session-2", "manual", None] == again["session"]
        assert 4 == len({*naps})
        assert 0.5 * 2 <= time.monotonic() - began
        assert late not in naps
        assert {"changed": 1, "rows": []} == written
        assert "task 1 is not done: check" in refused
        sql = "SELECT session, tool FROM ralphgen_journal ORDER BY number DESC LIMIT 1"
        assert [("session-2", "rename")] == query(root, sql)
    deadline = time.monotonic() + 10
    while own_processes(root) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert [] == own_processes(root)


def looping(folder: Path, steps: Steps) -> LoopProject:
    """A project with these tools in a user's repository with a clean worktree."""
    project = LoopProject(folder, 1, {"*": [steps]}, config=TESTS, repository=True)
    with_tools(project.root)
    git(project.root, "config", "user.name", "n")
    git(project.root, "config", "user.email", "e@example.org")
    git(project.root, "add", "--all")
    git(project.root, "commit", "--quiet", "--message", "tools")
    assert 0 == ralphgen("trust", "-C", project.root, "--yes").returncode
    return project


def log_lines(project: LoopProject) -> list[str]:
    return [line["text"] for line in project.log("said")]


def test_in_a_loop_a_task_is_proved_however_it_is_closed(tmp_path: Path) -> None:
    closing = ["tool", "rename", {"title": "Looped", "status": "done"}]
    steps: Steps = ["begin", ["tool", "where", {}], closing, "check", closing]
    project = looping(tmp_path, steps)
    done = project.loop()
    where, refused, _, closed = log_lines(project)

    assert 0 == done.returncode, done.stderr
    assert str(project.root) == json.loads(where)["cwd"]
    assert "is not done: check" in refused
    assert {"changed": 1, "rows": []} == json.loads(closed)
    assert {1: "done"} == project.statuses()
    assert [] == project.held()


def test_in_a_work_tree_the_main_folders_tools_are_run_there(tmp_path: Path) -> None:
    """An agent's changes to its copy of them do not run, and prevent its task from being done."""
    evil = TOOLS.replace("Say where it is.", "Evil.").replace('"secrets":', '"evil": 1, "secrets":')
    steps: Steps = [
        "begin",
        ["write", FILE, evil],
        ["tool", "where", {}],
        ["write", "task-{task}.txt", "x"],
        "check",
        "done",
    ]
    project = looping(tmp_path, steps)
    done = project.loop("--worktrees")
    where = json.loads(log_lines(project)[0])

    assert 5 == done.returncode, done.stderr
    assert str(project.root / FILE) == where["file"]
    assert "evil" not in where
    assert f"{project.root}/.ralph/worktrees/" in f"{where['cwd']}/"
    assert where["cwd"] == where["root"]
    assert f'protected files were changed, put them back: "{FILE}"' in log_lines(project)[-1]
    assert TOOLS == (project.root / FILE).read_text(encoding="utf-8")
