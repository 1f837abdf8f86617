"""The diff of a worktree whose repository names programs that git would start for it."""

from pathlib import Path
from threading import Event, Thread

import pytest
from proved_projects import git

from ralphgen.board.sessions import tree_diff

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one file that has changed since its commit."""
    root = tmp_path / "p"
    root.mkdir()
    git(root, "init", "-q")
    (root / "a.txt").write_text("one\n", encoding="utf-8")
    git(root, "add", ".")
    git(root, "commit", "-qm", "begin")
    (root / "a.txt").write_text("two\n", encoding="utf-8")
    return root


@pytest.mark.parametrize("kind", ["clean", "process"])
def test_no_filter_of_a_repository_is_started(root: Path, tmp_path: Path, kind: str) -> None:
    """An author of a repository's settings must not get a user's board to run programs."""
    (root / ".gitattributes").write_text("*.txt filter=a.b=c\n", encoding="utf-8")
    git(root, "config", f"filter.a.b=c.{kind}", f"touch {tmp_path}/started; cat")
    git(root, "config", "filter.a.b=c.required", "true")

    found = tree_diff(root, None, None)

    assert not (tmp_path / "started").exists()
    assert {"a.txt": "@@ -1 +1 @@\n-one\n+two"} == {
        one.path: one.text for one in found.files if one.path == "a.txt"
    }


def test_no_filter_is_started_that_is_named_meanwhile(root: Path, tmp_path: Path) -> None:
    """A running agent can rewrite the settings between any two reads."""
    (root / ".gitattributes").write_text("*.txt filter=a\n", encoding="utf-8")
    settings, over = root / ".git/config", Event()
    plain = settings.read_text(encoding="utf-8")
    named = f'{plain}[filter "a"]\n\tclean = touch {tmp_path}/started; cat\n'

    def write() -> None:
        while not over.wait(0.001):
            settings.write_text(plain, encoding="utf-8")
            over.wait(0.001)
            settings.write_text(named, encoding="utf-8")

    writer = Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            tree_diff(root, None, None)
    finally:
        over.set()
        writer.join()

    assert not (tmp_path / "started").exists()


def test_a_linked_work_tree_differs_as_it_stands(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "-q", str(tmp_path / "w"))
    (tmp_path / "w/a.txt").write_text("three\n", encoding="utf-8")
    git(tmp_path / "w", "add", ".")
    (root / ".git/info/exclude").write_text("secret\n", encoding="utf-8")
    (tmp_path / "w/secret").touch()

    found = tree_diff(root, str(tmp_path / "w"), git(root, "rev-parse", "HEAD").strip())

    assert ["@@ -1 +1 @@\n-one\n+three"] == [one.text for one in found.files]


def test_no_filter_of_a_repository_within_is_started(root: Path, tmp_path: Path) -> None:
    inner = root / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "b.txt").write_text("one\n", encoding="utf-8")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "begin")
    git(root, "add", "inner")
    git(root, "commit", "-qm", "with another repository")
    (inner / ".gitattributes").write_text("*.txt filter=a\n", encoding="utf-8")
    git(inner, "config", "filter.a.clean", f"touch {tmp_path}/started; cat")
    (inner / "b.txt").write_text("two\n", encoding="utf-8")

    found = tree_diff(root, None, None)

    assert not (tmp_path / "started").exists()
    assert ["a.txt"] == [one.path for one in found.files]
