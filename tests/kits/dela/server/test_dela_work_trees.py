"""A task allowed in a project is allowed in its other worktrees, and runs there."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from dela_projects import allow, at_home, entry
from driving import create_project, made_here
from making_sessions import client_of
from proved_projects import git

from ralphgen.sessions.create import create_session
from ralphgen.sessions.decide import Request

MAKE = "where:\n\tpwd\nother:\n\techo no\n"
CONFIG = 'kits = ["ralph", "dela"]\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = create_project(tmp_path / "project", config=CONFIG)
    (root / "Makefile").write_text(MAKE, encoding="utf-8")
    git(root, "init", "--quiet")
    git(root, "add", "Makefile")
    git(root, "commit", "--quiet", "--message", "begin")
    git(root, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    return made_here(root)


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[Path]:
    """Yield the other worktree; the user has a separate home."""
    with at_home(tmp_path / "home"):
        yield tmp_path / "linked"


def config_of(root: Path, tree: Path) -> Path:
    asked = Request("manual")
    session = create_session(root, asked, say=print, ask=lambda _: True, work_tree=tree)
    return session.mcp_config


@pytest.mark.thorough
def test_entry_on_a_file_of_the_project_applies_in_a_worktree(
    root: Path, linked: Path, tmp_path: Path
) -> None:
    allow(tmp_path / "home", entry("Task", root / "Makefile", "where"))

    with client_of(config_of(root, linked), "dela", environment=home_of(tmp_path)) as client:
        listed = {
            one["unique_name"]: one["allowlisted"] for one in client.call("list_tasks")["tasks"]
        }
        ran = client.call("task_start", unique_name="where", wait_for_exit_seconds=20)

    assert {"where": True, "other": False} == listed
    assert str(linked) in json.dumps(ran)


@pytest.mark.thorough
def test_denial_applies_in_a_worktree(root: Path, linked: Path, tmp_path: Path) -> None:
    allow(
        tmp_path / "home", entry("Directory", tmp_path), entry("Deny", root / "Makefile", "other")
    )

    with client_of(config_of(root, linked), "dela", environment=home_of(tmp_path)) as client:
        listed = {
            one["unique_name"]: one["allowlisted"] for one in client.call("list_tasks")["tasks"]
        }

    assert {"where": True, "other": False} == listed


def home_of(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}
