"""Checks refuse a repository within the tree that git does not ignore."""

from pathlib import Path

import pytest
from driving import connected
from proved_projects import git, proved_project, write_files

pytestmark = pytest.mark.slow


@pytest.mark.thorough
@pytest.mark.parametrize("ignored", [False, True])
def test_checks_refuse_a_repository_within_unless_ignored(tmp_path: Path, ignored: bool) -> None:
    root = proved_project(tmp_path / "p")
    write_files(root, [("own/a.txt", "x")])
    git(root / "own", "init", "--quiet")
    if ignored:
        write_files(root, [(".gitignore", "*.log\n/own/\n")])
    with connected(root) as server:
        if ignored:
            assert server.call("run_checks", task=1)["passed"]
        else:
            failed, text = server.ask("run_checks", {"task": 1})
            assert failed
            assert '"own"' in text
