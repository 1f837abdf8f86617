"""What keeps work in work trees from beginning: a base that no merge could go into."""

import shutil
from pathlib import Path

import pytest
from driving import query
from merging_projects import SETTLED, merging_project, say
from proved_projects import git

from ralphgen.errors import ProjectError
from ralphgen.worktrees.begin import refuse_red_base, refuse_unmergeable

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


class TestBeforeItBegins:
    """What has to be so before the first agent works."""

    def test_a_clean_base_that_passes_is_fine(self, root: Path) -> None:
        assert git(root, "branch", "--show-current").strip() == refuse_unmergeable(root, SETTLED)
        refuse_red_base(root, [1, 2], SETTLED, say)

    def test_changed_files_are_refused_but_for_the_projects_own(self, root: Path) -> None:
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

    def test_nobody_to_commit_as_is_refused(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(root.parent))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(root.parent))
        git(root, "config", "--unset", "user.name")
        git(root, "config", "--unset", "user.email")
        git(root, "config", "user.useConfigOnly", "true")

        with pytest.raises(ProjectError, match="git does not know who commits"):
            refuse_unmergeable(root, SETTLED)

    def test_no_repository_and_no_commit_are_refused(self, root: Path, tmp_path: Path) -> None:
        shutil.rmtree(root / ".git")
        with pytest.raises(ProjectError, match="is in no repository"):
            refuse_unmergeable(root, SETTLED)

        git(root, "init", "--quiet")
        with pytest.raises(ProjectError, match="has no commit"):
            refuse_unmergeable(root, SETTLED)
        assert tmp_path.is_dir()

    def test_a_red_base_is_refused(self, root: Path) -> None:
        (root / "code.txt").write_text("1", encoding="utf-8")
        git(root, "commit", "--quiet", "--all", "--message", "red")

        with pytest.raises(ProjectError, match='"tests" is red before anybody has worked'):
            refuse_red_base(root, [1], SETTLED, say)
