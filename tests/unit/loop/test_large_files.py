"""Git LFS in the user's own configuration: pointers in commits, contents in worktrees."""

import shutil
from pathlib import Path

import pytest
from lanes import shortened
from merging_projects import RefusedPush, merged, merging_project, worked
from proved_projects import git, write_files

from ralphgen.emit.trust import git_items
from ralphgen.loop.merge import Merged
from ralphgen.loop.merges import Waits
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import LoopConfig

pytestmark = pytest.mark.slow

# A replacement for a missing git-lfs. Its pointers name no file: the rest is the file.
PROGRAM = """#!/bin/sh
case "$1" in
clean) echo pointer; cat;;
smudge) tail -n +2;;
pre-push) test -e "{refuses}" && exit 1; echo "$2 $(cat)" >> "{sent}";;
esac
"""
FILES = (("a.bin", "content"), (".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"))
WITH_REMOTE = LoopConfig(remote="origin")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a trusted remote, which is a folder; `HOME` is that of a user of Git LFS."""
    (tmp_path / "home").mkdir()
    root = merging_project(tmp_path / "a project")
    git(tmp_path, "clone", "--quiet", "--bare", str(root), "origin")
    git(root, "remote", "add", "origin", str(tmp_path / "origin"))
    add_to_record(root, [item.digest for item in git_items(root, remote=True)])
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return root


@pytest.fixture
def sent(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the requests to a replacement for git-lfs, which the user has."""
    programs, sent = root.parent / "programs", root.parent / "sent"
    text = PROGRAM.format(sent=sent, refuses=root.parent / "refuses")
    write_files(programs, [("git-lfs", text)])
    (programs / "git-lfs").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    for name in ("clean", "smudge"):
        git(root, "config", "--global", f"filter.lfs.{name}", f"git-lfs {name} -- %f")
    git(root, "config", "--global", "filter.lfs.required", "true")
    (root / ".git/lfs").mkdir()
    return sent


@pytest.mark.thorough
def test_a_merge_has_the_pointer_and_the_checkout_the_content(root: Path, sent: Path) -> None:
    outcome = merged(root, worked(root, 1, FILES), 1)

    assert isinstance(outcome, Merged)
    assert not sent.exists()
    assert "pointer\ncontent" == git(root, "show", "HEAD:a.bin")
    assert "content" == (root / "a.bin").read_text(encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize("storage", shortened(("", "~/kept", "other"), ""))
def test_a_push_sends_the_large_files_first(root: Path, sent: Path, storage: str) -> None:
    if storage:
        (root / ".git/lfs").rmdir()
        place = root.parent / "home/kept" if storage[0] == "~" else root / ".git/other"
        place.mkdir()
        git(root, "config", "--global", "lfs.storage", storage)
    outcome = merged(root, worked(root, 1, FILES), 1, WITH_REMOTE)
    remote = git(root.parent / "origin", "rev-parse", "HEAD").strip()
    branch = git(root, "symbolic-ref", "HEAD").strip()

    assert Merged(remote) == outcome
    assert f"origin {branch} {remote} {branch} {'0' * 40}\n" == sent.read_text(encoding="utf-8")


@pytest.mark.thorough
def test_nothing_is_pushed_whose_large_files_the_remote_does_not_take(
    root: Path, sent: Path
) -> None:
    (root.parent / "refuses").touch()
    before = git(root.parent / "origin", "rev-parse", "HEAD")
    outcome = merged(root, worked(root, 1, FILES), 1, WITH_REMOTE)

    assert isinstance(outcome, Waits)
    assert isinstance(outcome, RefusedPush)
    assert before == git(root.parent / "origin", "rev-parse", "HEAD")
    assert not sent.exists()


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="needs git-lfs")
def test_git_lfs_itself_brings_the_content_to_a_clone_of_the_remote(root: Path) -> None:
    git(root, "lfs", "install", "--skip-repo")
    outcome = merged(root, worked(root, 1, FILES), 1, WITH_REMOTE)
    git(root.parent, "clone", "--quiet", "origin", "clone")

    assert isinstance(outcome, Merged)
    assert git(root, "show", "HEAD:a.bin").startswith("version https://git-lfs.github.com/spec/")
    assert "content" == (root / "a.bin").read_text(encoding="utf-8")
    assert "content" == (root.parent / "clone/a.bin").read_text(encoding="utf-8")
