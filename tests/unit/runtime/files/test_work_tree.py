"""The content of a worktree: which files count, and that settings of git have no effect."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from proved_projects import git, write_files
from unprivileged import without_rights

from ralphgen.runtime.files.main_tree import pattern_of
from ralphgen.runtime.files.work_tree import (
    STATES,
    changed_files,
    differing_files,
    mark_of,
    nested_repositories,
    newly_ignored,
    protected_files,
    session_rules,
    tree_digest,
    tree_files,
    watched_files,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a file, a nested repository, and something that is ignored."""
    root = tmp_path_factory.mktemp("model") / "tree"
    write_files(
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


@pytest.fixture
def tree(model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model, tmp_path / "tree", symlinks=True)


def differing(tree: Path, paths: list[str], *texts: str) -> list[str]:
    """Return the files that differ after these paths had one text, then the other."""
    before, after = texts
    write_files(tree, [(path, before) for path in paths])
    found = tree_files(str(tree))
    write_files(tree, [(path, after) for path in paths])
    return differing_files(found, tree_files(str(tree)))


def test_tracked_and_untracked_files_count_and_ignored_ones_do_not(tree: Path) -> None:
    found = tree_files(str(tree))

    assert [".gitignore", "nested/.gitignore", "nested/x.py", "src/a.py", "src/b c.py"] == [*found]


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
def test_an_edit_is_seen_despite_flags_of_git(tree: Path, change: Callable[[Path], None]) -> None:
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
    write_files(tree, [("src/new.py", "n")])
    before = tree_digest(tree_files(str(tree)))
    git(tree, "add", "src")
    git(tree, "commit", "--quiet", "--message", "more")

    assert before == tree_digest(tree_files(str(tree)))


SPECUM = json.dumps({"config": {"settings": {"specum": {"root": ""}}}})
SESSION = ".ralph/mcp/sessions/opus_review-7-20260211T080000Z-abcd"
SQLITE = "SQLite format 3\0 and pages"
OWN = {
    ".ralph/db/ralph.db": SQLITE,
    ".ralph/backups/ralph-20260211T080000Z.db": SQLITE,
    ".ralph/progress.txt": "a\n",
    ".ralph/learnings.txt": "a\n",
    ".ralph/trust/mark": "0a1b\n",
    ".ralph/sessions/.settings": "a 1\nb 2",
    ".ralph/mcp/context.json": "{}",
    ".ralph/worktrees/1.lock": "",
    f"{SESSION}/context.json": "{}\n",
    f"{SESSION}/calls.jsonl": '{"a": 1}\n{}\n',
    f"{SESSION}/transcript.jsonl": "a\n",
    f"{SESSION}/launched": "12\nstop\n",
    f"{SESSION}/lock": "",
    f"{SESSION}/gemini/.gemini/tmp/a/logs.json": "a\n",
    ".ralph/mcp/sessions/loop-20260211T080000Z-abcd.jsonl": "{}\n",
    ".ralph/mcp/sessions/loop-20260211T080000Z-abcd.asks": "pause\n",
    "specs/a/.progress.md": "a\n",
    "specs/a/.ralph-state.json": "{}",
    "specs/.current-spec": "a\n",
}


def _spec(tree: Path) -> None:
    """Let specum work on one spec."""
    write_files(tree, [(".ralph/mcp/project.json", SPECUM), ("specs/.current-spec", "a\n")])


def test_files_that_ralphgen_writes_while_work_is_done_do_not_count(tree: Path) -> None:
    _spec(tree)
    before = tree_digest(tree_files(str(tree)))
    write_files(tree, [*OWN.items()])
    git(tree, "add", "--force", *OWN)

    assert before == tree_digest(tree_files(str(tree)))


TEXTS = (
    *(".ralph/progress.txt", ".ralph/learnings.txt", "specs/a/.progress.md"),
    *(f"{SESSION}/transcript.jsonl", f"{SESSION}/gemini/.gemini/tmp/a/logs.json"),
)


CURRENT = "specs/.current-spec"
FORGED = [
    *(path for path in OWN if path not in (*TEXTS, CURRENT)),
    *(".ralph/db/ralph.db-wal", ".ralph/db/ralph.db-shm", ".ralph/db/ralph.db-journal"),
    *(".ralph/worktrees/7.lock", ".ralph/worktrees/7-checks.held", ".ralph/mcp/.lock"),
    *(".ralph/db/.ralph.db.12-0a0b0c0d.tmp", ".ralph/.learnings.txt.12-0a0b0c0d.tmp"),
    *(f"{SESSION}/dry-run", f"{SESSION}.new/mcp.json", ".ralph/last-export.jsonl"),
]


@pytest.mark.parametrize("paths", [FORGED, [CURRENT]], ids=["own", "current spec"])
def test_code_by_the_name_of_an_own_file_counts(tree: Path, paths: list[str]) -> None:
    _spec(tree)

    assert sorted(paths) == differing(tree, paths, "import os\n", "import os; os._exit(0)\n")


def test_text_of_a_session_that_is_made_up_counts(tree: Path) -> None:
    rules = session_rules(str(tree), str(tree))
    found = []
    for known in ([], ["opus_review-7-20260211T080000Z-abcd"]):
        for name in ("prompt.md", "transcript.jsonl", "gemini/.gemini/a.md"):
            write_files(tree, [(f"{SESSION}/{name}", "echo\n")])
        found.append(len(tree_files(str(tree), {**rules, "sessions": known})))

    assert found[0] == found[1] + 3


def test_link_by_the_name_of_an_own_file_counts(tree: Path) -> None:
    write_files(tree, [(".ralph/worktrees/a", "")])
    (tree / ".ralph/worktrees/1.lock").symlink_to("../../build/out")

    assert ".ralph/worktrees/1.lock" in tree_files(str(tree))


def test_project_without_a_file_of_sqlite_leaves_none_out(tree: Path) -> None:
    write_files(tree, [(".ralph/db/ralph.db", SQLITE)])
    rules = session_rules(str(tree), str(tree), database="")

    assert ".ralph/db/ralph.db" in tree_files(str(tree), rules)


OTHER_FILES = [
    *(".ralph/db/i.py", ".ralph/db/ralph.db.py", ".ralph/sessions/i.py", ".ralph/backups/i.py"),
    *(".ralph/worktrees/i.py", ".ralph/worktrees/1/i.py", ".ralph/trust/i.py"),
    *(".ralph/mcp/sessions/i.py", ".ralph/mcp/sessions/written-files.json/i.py"),
    *(f"{SESSION}/i.py", f"{SESSION}/gemini/.gemini/i.py", f"{SESSION}/lock/i.py"),
    *(".ralph/.git/i.py", ".ralph/db/.git/i.py", ".ralph/ralph.db", "db/ralph.db"),
    *("specs/b/.progress.md", "specs/b/.ralph-state.json", "a/.current-spec", ".progress.md"),
]


def test_any_other_file_below_ralph_counts_though_it_is_ignored(tree: Path) -> None:
    _spec(tree)
    write_files(tree, [(".gitignore", "/.ralph/\n"), (".ralph/.gitignore", "*\n")])

    assert sorted(OTHER_FILES) == differing(tree, OTHER_FILES, "1", "2")


def test_a_repository_in_place_of_a_file_of_specum_is_a_repository(tree: Path) -> None:
    inner = [f"{name}/{file}" for name in STATES for file in ("i.py", ".git/HEAD", ".git/refs/x")]
    write_files(
        tree, [(path, "ref: refs/heads/x") for path in [*inner, ".progress.md/.git/objects/x"]]
    )

    assert ".progress.md/i.py" in tree_files(str(tree))
    assert ".progress.md" in nested_repositories(str(tree), [])


@pytest.mark.parametrize(
    ("path", "protect", "differing"),
    [
        ("specs/a/tasks.md", [], []),
        ("specs/a/tasks.md", ["specs/**"], ["specs/a/tasks.md"]),
        ("specs/b/tasks.md", [], ["specs/b/tasks.md"]),
        ("tasks.md", [], ["tasks.md"]),
    ],
)
def test_only_ticks_of_the_current_spec_do_not_count(
    tree: Path, path: str, protect: list[str], differing: list[str]
) -> None:
    _spec(tree)
    write_files(tree, [(path, "- [ ] one\n- [ ] two\n")])
    before = tree_files(str(tree), None, protect)
    write_files(tree, [(path, "- [x] one\n- [ ] two\n")])

    assert differing == differing_files(before, tree_files(str(tree), None, protect))

    write_files(tree, [(path, "- [x] other\n- [ ] two\n")])

    assert [path] == differing_files(before, tree_files(str(tree), None, protect))


def test_ticks_count_without_specum(tree: Path) -> None:
    write_files(tree, [("specs/.current-spec", "a"), ("specs/a/tasks.md", "- [ ] one\n")])
    before = tree_files(str(tree))
    write_files(tree, [("specs/a/tasks.md", "- [x] one\n")])

    assert ["specs/a/tasks.md"] == differing_files(before, tree_files(str(tree)))


RULES = [
    (".gitignore", "*.log\nbuild/\n!keep.log\n/top.txt\nx y \n\\#hash\na/**/deep.txt\n"),
    ("a/.gitignore", "\ufeff# no rule\n/only.txt\n*.tmp\r\nsub/one.txt\n!b.log\nin/\n/\n"),
    ("a/[b]*/.gitignore", "*\n!*.py\n"),
    ("venv/.gitignore", "*\n"),
    ("part/.gitignore", "/part.txt\n.gitignore\n"),
]
SEEN = [
    *("a.log", "a/b.log", "keep.log", "a/keep.log", "top.txt", "a/top.txt", "x y", "#hash"),
    *("a/q/r/deep.txt", "a/deep.txt", "deep.txt", "a/only.txt", "a/q/only.txt", "only.txt"),
    *("a/t.tmp", "a/q/t.tmp", "t.tmp", "a/sub/one.txt", "a/q/sub/one.txt", "a/in/z", "a/q/in/z"),
    *("a/[b]*/m.py", "a/[b]*/m.txt", "a/xb/m.txt", "build/o", "a/build/o", "venv/lib/m.py"),
    *("part/part.txt", "part/a/part.txt", "part/a.log"),
]


@pytest.mark.parametrize("folder", ["", "part"])
def test_the_rules_of_a_sessions_start_leave_out_what_git_ignores(tree: Path, folder: str) -> None:
    write_files(tree, [*RULES, *((path, "") for path in SEEN)])
    root = str(tree / folder) if folder else str(tree)
    rules = json.loads(json.dumps(session_rules(root, root)))

    assert [*tree_files(root)] == [*tree_files(root, rules)]


def test_rules_that_are_newer_than_a_session_hide_nothing_from_it(tree: Path) -> None:
    git(tree, "add", "--force", "run.log")
    root = str(tree)
    rules = session_rules(root, root)
    before = tree_files(root, rules)
    write_files(tree, [("new/i.py", "1"), ("new/.gitignore", "*\n"), (".gitignore", "*\n")])
    write_files(tree, [("nested/.gitignore", "*\n"), (".git/info/exclude", "*\n"), ("a.log", "")])
    git(tree, "rm", "--cached", "--quiet", "--force", "run.log", "src/a.py")
    found = tree_files(root, rules)

    assert {*before, "new/i.py", "new/.gitignore"} == {*found}
    assert {"new/i.py": ".gitignore: *"} == newly_ignored(root, ["new/i.py", "run.log"], rules)


def test_a_planted_repository_is_named_and_every_file_counts(tree: Path) -> None:
    root = tree / "part"
    write_files(root, [("a.py", "1"), ("b.log", "1")])
    rules = session_rules(str(root), str(root))
    before = tree_files(str(root), rules)
    write_files(
        root, [(f".git/{name}", "ref: refs/heads/x") for name in ("HEAD", "refs/x", "objects/x")]
    )
    write_files(root, [(".gitignore", "*\n")])

    assert ["a.py"] == [*before]
    assert [".gitignore", "a.py", "b.log"] == [*tree_files(str(root), rules)]
    assert [".git"] == nested_repositories(str(root), [], rules)


HELPERS = [
    *(".ralph/db/helper.py", ".ralph/worktrees/1/helper.py", "build/helper.py", "helper.py"),
    *("nested/helper.py", "node_modules/a/b/helper.py", "src/.git/helper.py"),
]


def test_protected_files_count_wherever_they_are(tree: Path) -> None:
    write_files(tree, [(".gitignore", "helper.py\nbuild/\nnode_modules/\n")])
    globs = ["**/helper.py"]
    before = tree_files(str(tree), None, globs)
    write_files(tree, [(path, "1") for path in HELPERS])
    after = tree_files(str(tree), None, globs)

    assert HELPERS == differing_files(before, after)
    assert {*HELPERS} <= {*protected_files(str(tree), globs, after)}


def test_ignored_files_that_are_protected_count_in_any_unicode_form(tree: Path) -> None:
    write_files(tree, [("te\u0301st/run.log", "")])

    assert "te\u0301st/run.log" in tree_files(str(tree), None, ["t\xe9st/**"])


def test_without_a_repository_all_files_count(tmp_path: Path) -> None:
    write_files(tmp_path, [(".gitignore", "*.log\n"), ("a.log", "1"), ("b/c", "2")])

    assert [".gitignore", "a.log", "b/c"] == [*tree_files(str(tmp_path))]


def test_all_files_count_without_a_readable_index(tree: Path) -> None:
    """Otherwise tracked files that a new rule ignores would be left out."""
    write_files(tree, [(".git/index", "junk"), (".gitignore", "src/a.py\n")])

    assert "src/a.py" in tree_files(str(tree))


def test_without_git_all_files_count(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    found = tree_files(str(tree))

    assert {"build/out", "nested/y.tmp", "run.log"} <= {*found}
    assert not [path for path in found if ".git/" in path]


def test_a_project_in_a_larger_repository_heeds_the_rules_above_it(tree: Path) -> None:
    write_files(tree, [("part/a.py", "1"), ("part/b.log", "1")])

    assert ["a.py"] == [*tree_files(str(tree / "part"))]


def test_names_of_invalid_text_have_a_digest(tree: Path) -> None:
    (tree / os.fsdecode(b"\xff\n.py")).write_bytes(b"1")
    found = tree_files(str(tree))

    assert os.fsdecode(b"\xff\n.py") in found
    assert 64 == len(tree_digest(found))


def test_new_files_are_distinguished_from_changed_and_removed_ones() -> None:
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

    (tmp_path / ".RALPH").symlink_to(".ralph")  # as on such a file system
    assert pattern_of("Tests/**", str(tmp_path)).match("tests/RUN.sh")


def test_protected_are_the_globs_and_the_settings_of_ralphgen(tree: Path) -> None:
    write_files(
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
    globs = ["src/*", "run.log"]
    found = protected_files(str(tree), globs, tree_files(str(tree), None, globs))

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


UNREAD = """
import json, sys
from ralphgen.runtime.files.work_tree import tree_files, unlisted_files
files = tree_files(sys.argv[1], None, ["build/**"])
print(json.dumps(unlisted_files(sys.argv[1], None, files)))
"""


def test_content_that_cannot_be_read_is_unlisted_unless_it_is_ignored(tree: Path) -> None:
    hidden = ["hid", "src/hid", "build/hid", "nested/hid", "a.log", "b.log/c"]
    write_files(tree, [*((f"{path}/x", "x") for path in hidden), ("tool", "x"), ("b.log/d", "x")])
    closed = [*(tree / path for path in hidden), tree / "tool", tree / "b.log/d"]
    try:
        for path in closed:
            path.chmod(0o311 if path.is_dir() else 0o111)
        words = [*without_rights(), sys.executable, "-c", UNREAD, str(tree)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
    finally:
        for path in closed:
            path.chmod(0o755)

    assert ["build/hid", "hid/", "nested/hid/", "src/hid/", "tool"] == json.loads(done.stdout)


MAPPING = """
import ctypes, mmap, sys
if "unreadable" in sys.argv:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
with open(sys.argv[1], "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)
place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if "protected" in sys.argv:
    assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(place), 4096, 1)
print("ready", flush=True)
sys.stdin.read()
"""
MAPPED = """
import json, sys
from ralphgen.runtime.files.work_tree import mapped_files, stamps
print(json.dumps(mapped_files(sys.argv[1], stamps(sys.argv[1], ["src/a.py", "src/b c.py"]))))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("way", ["plain", "unreadable", "protected"])
def test_files_in_the_memory_of_another_process_are_found(tree: Path, way: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAPPING, str(tree / "src/a.py"), way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        words = [*without_rights(), sys.executable, "-c", MAPPED, str(tree)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        process.communicate("")

    assert ["src/a.py"] == json.loads(done.stdout)


OTHER = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_look_at_the_files_leaves_the_locks_of_a_connection_alone(
    tmp_path: Path, mode: str
) -> None:
    path = tmp_path / ".ralph/db/ralph.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE a (b)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO a VALUES (1)")
        assert {} == tree_files(str(tmp_path))
        other = subprocess.run(
            [sys.executable, "-c", OTHER, str(path)], check=False, capture_output=True, text=True
        )

    assert "database is locked" in other.stderr
