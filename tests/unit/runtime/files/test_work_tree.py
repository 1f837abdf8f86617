"""The content of a work tree: what counts, what does not, and that git's own tricks do not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from proved_projects import git, written

from ralphgen.runtime.files.protection import pattern_of
from ralphgen.runtime.files.work_tree import (
    changed_files,
    differing_files,
    mark_of,
    protected_files,
    tree_digest,
    tree_files,
    watched_files,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a file, a nested repository, and something that is ignored."""
    root = tmp_path / "tree"
    written(
        root,
        [
            (".gitignore", "*.log\nbuild/\n"),
            ("src/a.py", "a"),
            ("src/b c.py", "b"),
            ("run.log", "1"),
            ("build/out", "1"),
            ("nested/x.py", "x"),
            ("nested/.gitignore", "*.tmp\n"),
            ("nested/y.tmp", "y"),
        ],
    )
    git(root, "init", "--quiet")
    git(root / "nested", "init", "--quiet")
    git(root, "add", "src", ".gitignore")
    git(root, "commit", "--quiet", "--message", "begin")
    return root


def test_tracked_and_untracked_files_count_and_ignored_ones_do_not(tree: Path) -> None:
    found = tree_files(str(tree))

    assert [
        ".gitignore",
        "nested/.gitignore",
        "nested/x.py",
        "src/a.py",
        "src/b c.py",
    ] == [*found]


def test_a_tracked_file_counts_though_it_is_ignored(tree: Path) -> None:
    git(tree, "add", "--force", "run.log")
    before = tree_files(str(tree))
    (tree / "run.log").write_text("2", encoding="utf-8")

    assert ["run.log"] == differing_files(before, tree_files(str(tree)))


def _edit(root: Path) -> None:
    (root / "src/a.py").write_text("other", encoding="utf-8")


def _edit_as_unchanged(root: Path) -> None:
    git(root, "update-index", "--assume-unchanged", "src/a.py")
    _edit(root)


def _edit_as_skipped(root: Path) -> None:
    git(root, "update-index", "--skip-worktree", "src/a.py")
    _edit(root)


def _edit_beside_an_exclude(root: Path) -> None:
    (root / ".git/info/exclude").write_text("src/\n", encoding="utf-8")
    git(root, "rm", "--cached", "--quiet", "src/a.py")
    _edit(root)


def _edit_with_another_work_tree(root: Path) -> None:
    git(root, "config", "core.worktree", "/nowhere")
    _edit(root)


def _edit_with_a_filter(root: Path) -> None:
    (root / ".git/info/attributes").write_text("*.py filter=same\n", encoding="utf-8")
    git(root, "config", "filter.same.clean", "echo a; touch was-run")
    _edit(root)


def _edit_with_a_monitor(root: Path) -> None:
    git(root, "config", "core.fsmonitor", "touch was-run; true")
    _edit(root)


@pytest.mark.parametrize(
    "change",
    [
        _edit,
        _edit_as_unchanged,
        _edit_as_skipped,
        _edit_beside_an_exclude,
        _edit_with_another_work_tree,
        _edit_with_a_filter,
        _edit_with_a_monitor,
    ],
)
def test_an_edit_is_seen_whatever_git_was_told_of_the_file(
    tree: Path, change: Callable[[Path], None]
) -> None:
    before = tree_files(str(tree))
    change(tree)

    assert ["src/a.py"] == differing_files(before, tree_files(str(tree)))


def test_files_of_nested_repositories_count(tree: Path) -> None:
    before = tree_digest(tree_files(str(tree)))
    (tree / "nested/x.py").write_text("other", encoding="utf-8")

    assert before != tree_digest(tree_files(str(tree)))


def test_modes_and_targets_of_links_count_and_links_are_not_followed(tree: Path) -> None:
    (tree / "link").symlink_to("src")
    before = tree_files(str(tree))
    (tree / "src/a.py").chmod(0o755)
    (tree / "link").unlink()
    (tree / "link").symlink_to("nested")
    after = tree_files(str(tree))

    assert ["link", "src/a.py"] == differing_files(before, after)
    assert "link/x.py" not in after


def test_a_commit_changes_nothing(tree: Path) -> None:
    written(tree, [("src/new.py", "n")])
    before = tree_digest(tree_files(str(tree)))
    git(tree, "add", "src")
    git(tree, "commit", "--quiet", "--message", "more")

    assert before == tree_digest(tree_files(str(tree)))


def test_what_is_written_while_work_is_done_is_no_part_of_it(tree: Path) -> None:
    written(tree, [("specs/a/tasks.md", "- [ ] one\n- [ ] two\n")])
    git(tree, "add", "specs")
    before = tree_digest(tree_files(str(tree)))
    written(
        tree,
        [
            (".ralph/db/ralph.db", "1"),
            (".ralph/db/ralph.db-wal", "1"),
            (".ralph/progress.txt", "1"),
            (".ralph/learnings.txt", "1"),
            (".ralph/mcp/sessions/a/context.json", "1"),
            (".ralph/worktrees/1/src/a.py", "1"),
            ("specs/a/.progress.md", "1"),
            ("specs/a/.ralph-state.json", "1"),
            ("specs/.current-spec", "a"),
            ("specs/a/tasks.md", "- [x] one\n- [ ] two\n"),
        ],
    )
    git(tree, "add", "--force", ".ralph", "specs")

    assert before == tree_digest(tree_files(str(tree)))


def test_words_of_a_list_of_tasks_count(tree: Path) -> None:
    written(tree, [("specs/a/tasks.md", "- [ ] one\n")])
    before = tree_files(str(tree))
    written(tree, [("specs/a/tasks.md", "- [x] other\n")])

    assert ["specs/a/tasks.md"] == differing_files(before, tree_files(str(tree)))


def test_without_a_repository_all_files_count(tmp_path: Path) -> None:
    written(tmp_path, [(".gitignore", "*.log\n"), ("a.log", "1"), ("b/c", "2")])

    assert [".gitignore", "a.log", "b/c"] == [*tree_files(str(tmp_path))]


def test_where_git_cannot_read_its_index_all_files_count(tree: Path) -> None:
    """What is tracked was left out then, where a new rule ignores it."""
    written(tree, [(".git/index", "junk"), (".gitignore", "src/a.py\n")])

    assert "src/a.py" in tree_files(str(tree))


def test_without_git_all_files_count(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    found = tree_files(str(tree))

    assert {"build/out", "nested/y.tmp", "run.log"} <= {*found}
    assert not [path for path in found if ".git/" in path]


def test_a_project_in_a_larger_repository_heeds_the_rules_above_it(tree: Path) -> None:
    written(tree, [("part/a.py", "1"), ("part/b.log", "1")])

    assert ["a.py"] == [*tree_files(str(tree / "part"))]


def test_names_that_are_no_text_have_a_digest(tree: Path) -> None:
    (tree / os.fsdecode(b"\xff\n.py")).write_bytes(b"1")
    found = tree_files(str(tree))

    assert os.fsdecode(b"\xff\n.py") in found
    assert 64 == len(tree_digest(found))


def test_new_files_are_told_apart_from_changed_and_removed_ones() -> None:
    before, after = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}

    assert ["b", "c"] == changed_files(before, after)
    assert ["b", "c", "d"] == differing_files(before, after)


@pytest.mark.parametrize(
    ("glob", "fitting", "others"),
    [
        ("tests/golden/**", ["tests/golden/a", "tests/golden/b/c"], ["tests/goldens/a", "golden"]),
        ("tests/golden", ["tests/golden", "tests/golden/a"], ["tests/golden.py"]),
        ("**/conftest.py", ["conftest.py", "a/b/conftest.py"], ["a/conftest.pyc"]),
        ("src/*.py", ["src/a.py"], ["src/a/b.py", "a.py"]),
        ("**/*.test.*", ["a.test.ts", "x/a.test.js"], ["test.ts"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("a.b", ["a.b"], ["axb"]),
        ("tests/[qr]*", ["tests/run.sh", "tests/q/a", "tests/[qr]x"], ["tests/all.sh", "tests/"]),
        ("a[!0-9]c", ["abc", "a[!0-9]c"], ["a1c", "a/c"]),
        ("a[+-9]c", ["a-c", "a5c"], ["a/c", "abc"]),
        ("[]^]x", ["]x", "^x"], ["x", "ax"]),
        ("app/[id]/**", ["app/[id]/a.ts", "app/i/a.ts"], ["app/id/a.ts", "app/[ix]/a"]),
        ("[{]a,b[}]", ["{a,b}"], ["a", "b"]),
        ("e\u0301/*", ["\u00e9/a", "e\u0301/a"], ["e/a"]),
        ("a/*", ["a/b\nc", "a/\n"], ["b\na/c"]),
    ],
)
def test_globs_mean_files_and_all_below_a_folder(
    glob: str, fitting: list[str], others: list[str]
) -> None:
    pattern = pattern_of(glob)

    assert [*fitting] == [path for path in fitting + others if pattern.match(path)]


def test_globs_ignore_case_if_the_file_system_does(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    assert not pattern_of("Tests/**", str(tmp_path)).match("tests/RUN.sh")

    (tmp_path / ".RALPH").symlink_to(".ralph")  # as such a file system finds it
    assert pattern_of("Tests/**", str(tmp_path)).match("tests/RUN.sh")


def test_protected_are_the_globs_and_the_settings_of_ralphgen(tree: Path) -> None:
    written(
        tree,
        [
            (".ralph/ralphgen.toml", ""),
            (".ralph/mcp/server.py", ""),
            (".ralph/mcp/context.json", ""),
            (".ralph/mcp/sessions/a/context.json", ""),
            (".ralph/recipes/own.toml", ""),
            (".ralph/prompts/all.md", ""),
            (".ralph/progress.txt", ""),
            (".gitignore", ".ralph/\n*.log\n"),
        ],
    )
    found = protected_files(str(tree), ["src/*", "run.log"], tree_files(str(tree)))

    assert [
        ".ralph/mcp/server.py",
        ".ralph/prompts/all.md",
        ".ralph/ralphgen.toml",
        ".ralph/recipes/own.toml",
        "run.log",
        "src/a.py",
        "src/b c.py",
    ] == [*found]


def test_watched_are_files_of_the_tree_and_what_commands_name(tree: Path) -> None:
    found = watched_files(
        ["**/a.py", "*.log"], [["sh", "./src/b c.py", "-x"]], tree_files(str(tree))
    )

    assert ["src/a.py", "src/b c.py"] == [*found]


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tree: Path) -> None:
    os.mkfifo(tree / "pipe")

    assert "" == mark_of(str(tree / "pipe"))
