"""Obstacles to work in worktrees: a base that no merge could go into."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import socket

import pytest
from driving import query
from lifelines import until
from merging_projects import SETTLED, branch_of, merging_project, refuse_red, say, with_origin
from proved_projects import git

from ralphgen.emit.trust import git_items
from ralphgen.errors import ProjectError
from ralphgen.loop.merge import (
    refuse_missing_script,
    refuse_uncommittable,
    refuse_unmergeable,
)
from ralphgen.loop.trees import prepare
from ralphgen.project.approvals import add_to_record

pytestmark = pytest.mark.slow


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of git that gives its repositories and takes none."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--reuseaddr", "--export-all", "--listen=127.0.0.1", f"--port={port}"]
    command = [str(shutil.which("git")), "daemon", *options, f"--base-path={folder}", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert until(lambda: _answers(port))
        yield f"git://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _answers(port: int) -> bool:
    with socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


class TestBeforeItBegins:
    """Requirements before the first agent works."""

    def test_a_clean_base_that_passes_is_fine(self, root: Path) -> None:
        assert git(root, "branch", "--show-current").strip() == refuse_unmergeable(root, SETTLED)
        refuse_red(root, [1, 2])

    def test_changed_files_are_refused_except_for_the_projects_own(self, root: Path) -> None:
        git(root, "add", "--force", ".ralph/db/ralph.db")
        git(root, "commit", "--quiet", "--message", "the database too")
        query(root, "UPDATE tasks SET title = 'Other' WHERE id = 1")
        refuse_unmergeable(root, SETTLED)
        (root / "code.txt").write_text("1", encoding="utf-8")

        with pytest.raises(ProjectError, match=r'files were changed in .*: "code\.txt"'):
            refuse_unmergeable(root, SETTLED)

    def test_a_detached_head_is_refused(self, root: Path) -> None:
        git(root, "checkout", "--quiet", "--detach")

        with pytest.raises(ProjectError, match="no branch is checked out"):
            refuse_unmergeable(root, SETTLED)

    @pytest.mark.parametrize("name", ["ralph/task-1", "ralph/mine", "Ralph/Task-1"])
    def test_branch_with_a_name_of_the_loops_own_is_refused(self, root: Path, name: str) -> None:
        git(root, "switch", "--quiet", "--create", name)

        with pytest.raises(ProjectError, match=f'"{name}" is checked out, and branches in'):
            refuse_unmergeable(root, SETTLED)
        with pytest.raises(ProjectError, match=f'"{name}" is checked out'):
            prepare(root, 1, 1, SETTLED, say)
        assert name == branch_of(root)

    def test_a_missing_git_identity_is_refused(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(root.parent))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(root.parent))
        git(root, "config", "--unset", "user.name")
        git(root, "config", "--unset", "user.email")
        git(root, "config", "user.useConfigOnly", "true")

        with pytest.raises(ProjectError, match="git has no author for commits"):
            refuse_unmergeable(root, SETTLED)

    def test_no_repository_and_no_commit_are_refused(self, root: Path, tmp_path: Path) -> None:
        shutil.rmtree(root / ".git")
        with pytest.raises(ProjectError, match="is not in a git repository"):
            refuse_unmergeable(root, SETTLED)

        git(root, "init", "--quiet")
        with pytest.raises(ProjectError, match="has no commit"):
            refuse_unmergeable(root, SETTLED)
        assert tmp_path.is_dir()

    def test_script_of_the_agent_that_is_not_committed_is_refused(self, root: Path) -> None:
        for name in ("agent.sh", "own.sh"):
            (root / name).write_text("exit 0\n", encoding="utf-8")
        git(root, "add", "own.sh")
        git(root, "commit", "--quiet", "--message", "agent")
        refuse_red(root, [1])
        for name in ("own.sh", "--fast", "none.sh", str(root / "agent.sh"), "{config}", ""):
            refuse_missing_script(root, name)
        with pytest.raises(ProjectError, match=r'lack "agent\.sh"'):
            refuse_missing_script(root, "agent.sh")

    def test_remote_that_may_only_be_read_is_refused(self, root: Path) -> None:
        config = with_origin(root)
        with served(root.parent) as address:
            git(root, "remote", "set-url", "origin", f"{address}/origin")
            refuse_unmergeable(root, config)
            with pytest.raises(ProjectError, match="cannot be pushed to the remote") as raised:
                refuse_uncommittable(root, branch_of(root), config)

        assert "receive-pack" in str(raised.value) or "access denied" in str(raised.value)
        with pytest.raises(ProjectError, match='the remote "origin" cannot be reached'):
            refuse_uncommittable(root, branch_of(root), config)

    def test_remote_that_takes_pushes_and_a_key_are_fine(self, root: Path, tmp_path: Path) -> None:
        config = with_origin(root)
        words = ["-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")]
        subprocess.run([str(shutil.which("ssh-keygen")), *words], check=True)
        for key, value in (
            ("commit.gpgSign", "true"),
            ("gpg.format", "ssh"),
            ("user.signingKey", str(tmp_path / "key")),
        ):
            git(root, "config", key, value)
        add_to_record(root, [item.digest for item in git_items(root, remote=True)])
        before = git(root, "for-each-ref")
        refuse_uncommittable(root, branch_of(root), config)

        assert before == git(root, "for-each-ref")
        assert "" == git(tmp_path / "origin", "for-each-ref", "refs/remotes")

    def test_a_red_base_is_refused(self, root: Path) -> None:
        (root / "code.txt").write_text("1", encoding="utf-8")
        git(root, "commit", "--quiet", "--all", "--message", "red")

        with pytest.raises(ProjectError, match='check "tests" already fails on '):
            refuse_red(root, [1])
