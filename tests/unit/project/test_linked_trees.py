"""From any worktree of a repository, the project and its database are the main one's."""

import json
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query, server_command
from making_sessions import client_of
from proved_projects import git, proved_project

from ralphgen.project.root import ProjectPlace, project_place
from ralphgen.runtime.files.main_tree import counterpart
from ralphgen.sessions.create import create_session
from ralphgen.sessions.decide import Request

pytestmark = pytest.mark.slow


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A project with checks in its own repository; ralphgen's state is not committed."""
    root = tmp_path / "the main one"
    (root / ".git" / "info").mkdir(parents=True)
    (root / ".git" / "info" / "exclude").write_text(".ralph\n", encoding="utf-8")
    return proved_project(root)


@pytest.fixture
def linked(main: Path, tmp_path: Path) -> Path:
    """Another work tree of it, which has no `.ralph`."""
    tree = tmp_path / "beside it"
    git(main, "worktree", "add", "--quiet", "--detach", str(tree))
    return tree


def test_a_linked_work_tree_belongs_to_the_project_of_the_main_one(
    main: Path, linked: Path
) -> None:
    (linked / "a").mkdir()

    assert not (linked / ".ralph").exists()
    assert ProjectPlace(main, linked, main / "a") == project_place(linked / "a")
    assert ProjectPlace(main, main, main) == project_place(main)


def test_a_repository_that_does_not_list_a_worktree_is_ignored(main: Path, tmp_path: Path) -> None:
    borrowed = tmp_path / "clone"
    (borrowed / ".ralph").mkdir(parents=True)
    (borrowed / ".git").write_text(f"gitdir: {main}/.git/worktrees/x\n", encoding="utf-8")

    assert counterpart(str(borrowed)) is None
    assert borrowed == project_place(borrowed).root


def test_the_user_in_a_linked_worktree_sees_the_tasks_of_the_project(linked: Path) -> None:
    done = ralphgen("task", "list", "--json", cwd=linked)

    assert (0, "") == (done.returncode, done.stderr)
    assert ["Log in", "Show the form"] == [
        task["title"] for task in json.loads(done.stdout)["tasks"]
    ]


def test_checks_run_on_the_worktree_of_the_user(main: Path, linked: Path) -> None:
    (linked / "code.txt").write_text("1", encoding="utf-8")

    assert 0 == ralphgen("task", "check", "1", cwd=main).returncode
    assert 1 == ralphgen("task", "check", "1", cwd=linked).returncode


def test_a_session_proves_the_files_of_its_worktree(main: Path, linked: Path) -> None:
    (main / "code.txt").write_text("1", encoding="utf-8")  # irrelevant there
    asked = Request("task_execution", task=1)
    session = create_session(main, asked, say=print, ask=lambda _: False, work_tree=linked)

    with client_of(session.mcp_config) as client:
        proved = client.call("run_checks")
        (main / "more.txt").write_text("x", encoding="utf-8")
        client.call("set_task_status", status="done", summary="Done.")

    assert proved["passed"]
    assert [("done",)] == query(main, "SELECT status FROM tasks WHERE id = 1")


def test_a_work_tree_that_is_gone_stops_the_server(main: Path, linked: Path) -> None:
    asked = Request("task_execution", task=1)
    session = create_session(main, asked, say=print, ask=lambda _: False, work_tree=linked)
    git(main, "worktree", "remove", "--force", str(linked))

    done = ralphgen(
        "serve", "ralph", "--context", str(session.context), "--sha256", session.sha256, cwd=main
    )

    assert 2 == done.returncode
    assert "no longer exists: create a new session" in done.stderr


def test_a_server_of_the_tree_itself_has_the_main_ones_database(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "main")  # which commits its server, and its database too
    tree = tmp_path / "linked"
    git(root, "worktree", "add", "--quiet", "--detach", str(tree))
    query(root, "UPDATE tasks SET title = 'Only in the main one' WHERE id = 1")

    with client_of(_config(tree)) as client:
        task = client.call("get_task", id=1)

    assert "Only in the main one" == task["title"]


def _config(tree: Path) -> Path:
    program, *words = server_command(tree, "ralph")
    path = tree.parent / "mcp.json"
    path.write_text(
        json.dumps({"mcpServers": {"ralph": {"command": program, "args": words}}}), encoding="utf-8"
    )
    return path


def test_the_config_sets_the_place_of_the_database(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".ralph").mkdir()
    (root / ".ralph/ralphgen.toml").write_text(
        '[database]\npath = "../shop.db"\n', encoding="utf-8"
    )

    refused = ralphgen("init", str(root), "--no-install")
    is_made = (tmp_path / "shop.db").exists()
    allowed = ralphgen("trust", "-C", str(root), "--yes")
    made = ralphgen("init", str(root), "--no-install")
    trusted = ralphgen("trust", "-C", str(root), "--yes")
    added = ralphgen("feature", "add", "cart", "--project", str(root))
    shown = ralphgen("inspect", "-C", str(root))

    assert (2, False) == (refused.returncode, is_made)
    assert f"outside the project: {tmp_path / 'shop.db'}" in refused.stderr
    assert 0 == allowed.returncode, allowed.stderr
    assert 0 == made.returncode, made.stderr
    assert 0 == trusted.returncode, trusted.stderr
    assert 0 == added.returncode, added.stderr
    assert not (root / ".ralph/db").exists()
    assert (tmp_path / "shop.db").is_file()
    assert f"database: {tmp_path / 'shop.db'}" in shown.stdout.replace("\n", "")
    assert 'database="../shop.db"' in (root / ".ralph/mcp/ralph/tables.py").read_text(
        encoding="utf-8"
    )


def test_doctor_names_the_database(main: Path, linked: Path) -> None:
    assert f"{main}/.ralph/db/ralph.db passes quick_check" in ralphgen("doctor", cwd=linked).stdout
