"""The record of trust: for one project, private, and only if it can be stored."""

import shutil
from pathlib import Path

import pytest
from command_line import ralphgen
from proved_projects import git
from trusting import MODE, add, commit, configure, task_session

from ralphgen.errors import ProjectError
from ralphgen.project.approvals import add_to_record, read_record

pytestmark = pytest.mark.slow


def test_no_other_work_tree_asks_again(own: Path, tmp_path: Path) -> None:
    configure(own, MODE)
    commit(own)
    assert 0 == ralphgen("trust", "-C", own, "--yes").returncode
    beside = tmp_path / "beside"
    git(own, "worktree", "add", "-q", str(beside))
    shutil.copytree(own / ".ralph", beside / ".ralph", dirs_exist_ok=True)

    assert 0 == ralphgen("session", "create", "braindump", "--project", beside).returncode


def test_a_record_writable_by_others_is_ignored(clone: Path, configuration: Path) -> None:
    configure(clone, MODE)
    assert 0 == ralphgen("trust", "-C", clone, "--yes").returncode
    (record,) = (configuration / "ralphgen/trust").iterdir()
    assert 0o600 == record.stat().st_mode & 0o777
    record.chmod(0o666)

    assert 2 == task_session(clone).returncode


def test_no_archive_borrows_the_record_of_another_project(own: Path, clone: Path) -> None:
    """A `.git` file names the repository of its worktree: that repository has to agree."""
    git(own, "init", "-q")
    borrowed = clone / "b/worktrees/c"
    borrowed.mkdir(parents=True)
    (clone / ".git").write_text("gitdir: b/worktrees/c\n", encoding="utf-8")
    (borrowed / "commondir").write_text(f"{own}/.git\n", encoding="utf-8")
    (borrowed / "gitdir").write_text(f"{clone}/.git\n", encoding="utf-8")
    configure(clone, MODE)

    assert 2 == task_session(clone).returncode


def test_work_trees_of_two_bare_repositories_next_to_each_other_share_nothing(
    clone: Path, tmp_path: Path
) -> None:
    configure(clone, MODE + '[database]\npath = "../clone/.ralph/db/ralph.db"\n')
    commit(clone)
    trees = []
    for name in ("a", "b"):
        git(tmp_path, "clone", "-q", "--bare", str(clone), f"{name}.git")
        git(tmp_path / f"{name}.git", "worktree", "add", "-q", str(tmp_path / name))
        trees.append(
            shutil.copytree(clone / ".ralph", tmp_path / name / ".ralph", dirs_exist_ok=True)
        )
    assert 0 == ralphgen("trust", "-C", trees[0].parent, "--yes").returncode

    assert 0 == task_session(trees[0].parent).returncode
    add(clone, "DELETE FROM ralphgen_claims")
    assert 2 == task_session(trees[1].parent).returncode


def test_commands_without_a_record_work_if_none_can_be_written(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/there-is-no-such-folder")

    assert 0 == task_session(clone).returncode
    assert 0 == ralphgen("doctor", clone).returncode
    made = ralphgen("init", tmp_path / "new")
    assert 0 == made.returncode
    assert "warning: the approval was not recorded" in made.stderr

    configure(clone, MODE)
    refused = ralphgen("trust", "-C", clone, "--yes")
    assert 1 == refused.returncode
    assert "cannot be written" in refused.stderr


def test_trust_does_not_report_a_record_that_will_be_ignored(
    clone: Path, configuration: Path
) -> None:
    configure(clone, MODE)
    folder = configuration / "ralphgen/trust"
    folder.mkdir(parents=True)
    folder.chmod(0o775)
    refused = ralphgen("trust", "-C", clone, "--yes")

    assert 1 == refused.returncode
    assert f'run "chmod go-w {folder}"' in refused.stderr


def test_without_a_home_there_is_no_record(
    clone: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of a relative name could come with the clone."""
    monkeypatch.chdir(clone)
    add_to_record(clone, ["0"])
    shutil.copytree(configuration, clone / "config")
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")

    assert frozenset() == read_record(clone).digests
    with pytest.raises(ProjectError, match=r"no directory for approvals: .* not an absolute path"):
        add_to_record(clone, ["1"])
