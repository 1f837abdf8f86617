"""`ralphgen gate` judges files as `done` does, for any loop."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Result, ralphgen, ran
from driving import query
from lanes import shortened
from making_sessions import client_of
from proved_projects import check, git, proved_project, python, write_files

from ralphgen.loop.trees import prepare
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import LoopConfig
from ralphgen.sessions.create import create_session, project_items
from ralphgen.sessions.decide import Request

pytestmark = pytest.mark.slow

PASSES = "import sys, pathlib; sys.exit(int(pathlib.Path('code.txt').read_text()))"
CONFIG = (
    f"{check('tests', *python(PASSES))}{check('web', *python('pass'), disciplines=['frontend'])}"
    '[done]\nprotect = ["tests/**", "**/conftest.py"]\n'
)
Edit = Callable[[Path], None]


def project(folder: Path, config: str = CONFIG) -> Path:
    """A trusted project with a protected test, all committed."""
    root = proved_project(folder / "p", config)
    write_files(
        root, [("tests/a.txt", "a\n"), ("lib/x.py", "x = 1\n"), (".ralph/.gitignore", "/db/\n")]
    )
    git(root, "rm", "--quiet", "-r", "--cached", ".ralph/db")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "files")
    add_to_record(root, [item.digest for item in project_items(root)])
    query(root, "DELETE FROM tasks")
    add_task(root, 1)
    return root


def add_task(root: Path, task: int, *, depends_on: str = "[]", status: str = "pending") -> None:
    query(
        root,
        "INSERT INTO tasks (id, feature, discipline, title, status, depends_on) "
        "VALUES (?, 'auth', 'backend', 'Do it', ?, ?)",
        *(task, status, depends_on),
    )


def gate(root: Path, *words: str, session: str = "", event: str = "") -> Result:
    more = {"RALPHGEN_SESSION": session} if session else {}
    return ralphgen("gate", *words, cwd=root, more=more, stdin=event)


def verdict(root: Path, *words: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(gate(root, *words, "--json").stdout)
    return found


def write(path: str, text: str) -> Edit:
    return lambda root: write_files(root, [(path, text)])


def remove(path: str) -> Edit:
    return lambda root: (root / path).unlink()


def both(*edits: Edit) -> Edit:
    def edit(root: Path) -> None:
        for one in edits:
            one(root)

    return edit


def move(path: str, target: str) -> Edit:
    def edit(root: Path) -> None:
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        (root / path).rename(root / target)

    return edit


def exclude(text: str) -> Edit:
    return write(".git/info/exclude", text)


def hidden_from_git(option: str) -> Edit:
    def edit(root: Path) -> None:
        git(root, "update-index", option, "tests/a.txt")

    return edit


def committed(root: Path) -> None:
    git(root, "commit", "--quiet", "--all", "--message", "work")


def link(path: str, target: str) -> Edit:
    def edit(root: Path) -> None:
        (root / path).unlink(missing_ok=True)
        (root / path).symlink_to(target)

    return edit


# By name: whether the task can be done, and the edit.
TREES: dict[str, tuple[bool, Edit]] = {
    "unchanged": (True, lambda _root: None),
    "work": (True, write("lib/x.py", "x = 2\n")),
    "new file": (True, write("lib/new.py", "")),
    "deleted file": (True, remove("lib/x.py")),
    "moved file": (True, move("lib/x.py", "src/x.py")),
    "link": (True, link("lib/x.py", "../code.txt")),
    "ignored file": (True, write("lib/x.log", "")),
    "name that is not ASCII": (True, write("lib/ä ß.py", "")),
    "executable file": (True, lambda root: (root / "lib/x.py").chmod(0o755)),
    "rule for an ignored file": (True, write("lib/.gitignore", "*.tmp\n")),
    "failing check": (False, write("code.txt", "1")),
    "check that crashes": (False, write("code.txt", "x")),
    "check that cannot run": (False, remove("code.txt")),
    "changed test": (False, write("tests/a.txt", "b\n")),
    "deleted test": (False, remove("tests/a.txt")),
    "new test": (False, write("tests/b.txt", "")),
    "new test in a new directory": (False, write("tests/sub/b.txt", "")),
    "moved test": (False, move("tests/a.txt", "lib/a.txt")),
    "link in place of a test": (False, link("tests/a.txt", "../code.txt")),
    "executable test": (False, lambda root: (root / "tests/a.txt").chmod(0o755)),
    "new conftest": (False, write("lib/conftest.py", "")),
    "test with other work": (
        False,
        both(write("lib/x.py", "x = 2\n"), write("tests/a.txt", "b\n")),
    ),
    "ignored test": (
        False,
        both(write("lib/.gitignore", "conftest.py\n"), write("lib/conftest.py", "")),
    ),
    "ignored ignore rule": (
        False,
        both(write("lib/.gitignore", "*\n"), write("lib/conftest.py", "")),
    ),
    "excluded test": (False, both(exclude("conftest.py\n"), write("lib/conftest.py", ""))),
    "excluded directory": (False, both(exclude("lib\n"), write("lib/conftest.py", ""))),
    "assumed unchanged": (
        False,
        both(write("tests/a.txt", "b\n"), hidden_from_git("--assume-unchanged")),
    ),
    "skipped in the worktree": (
        False,
        both(write("tests/a.txt", "b\n"), hidden_from_git("--skip-worktree")),
    ),
    "changed settings": (False, write(".ralph/ralphgen.toml", "")),
    "repository in the tree": (False, write("lib/inner/.git/HEAD", "ref: refs/heads/x\n")),
    "pipe": (False, lambda root: os.mkfifo(root / "lib/pipe")),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("gate"))


@pytest.mark.thorough
@pytest.mark.parametrize("name", shortened(TREES, "deleted file", "failing check", "ignored test"))
def test_gate_agrees_with_done(shared: Path, name: str) -> None:
    query(shared, "DELETE FROM tasks")
    query(shared, "DELETE FROM ralphgen_claims")
    add_task(shared, 1)
    made = create_session(
        shared, Request("task_execution", task=1), say=lambda _: None, ask=lambda _: False
    )
    with client_of(made.mcp_config) as client:
        try:
            TREES[name][1](shared)
            inside = gate(shared, session=made.session_id)
            outside = gate(shared)
            client.ask("run_checks")
            _, text = client.ask("set_task_status", {"status": "done", "summary": "Done."})
        finally:
            (shared / ".git/info/exclude").write_text("", encoding="utf-8")
            (shared / "lib/inner/.git/HEAD").unlink(missing_ok=True)
            git(shared, "update-index", "--no-assume-unchanged", "tests/a.txt")
            git(shared, "update-index", "--no-skip-worktree", "tests/a.txt")
            git(shared, "reset", "--quiet", "--hard")
            git(shared, "clean", "--quiet", "-ffdx", "-e", ".ralph")
    is_done = '"done"' in text and "not done" not in text

    assert (0 if is_done else 1) == inside.returncode, (inside.stdout, inside.stderr, text)
    assert inside.returncode == outside.returncode, outside.stdout + outside.stderr
    assert TREES[name][0] == is_done, text


def test_evidence_of_the_gate_closes_the_task(tmp_path: Path) -> None:
    root = project(tmp_path)

    assert 0 == gate(root, "--task", "1").returncode
    assert "task 1: pending → done\n" == ran("task", "status", "1", "done", cwd=root)


def test_an_open_dependency_is_named(tmp_path: Path) -> None:
    root = project(tmp_path)
    add_task(root, 2, depends_on="[1]")
    found = verdict(root, "--task", "2")

    assert [1] == found["depends_on"]
    assert ["it depends on tasks that are not done: 1"] == found["lacking"]


def test_exit_codes_and_verdicts(tmp_path: Path) -> None:
    root = project(tmp_path)
    proved = gate(root, "--task", "1")
    (root / "code.txt").write_text("3", encoding="utf-8")
    failed = gate(root, "--task", "1")

    assert 0 == proved.returncode
    assert "proved: task 1" == proved.stdout.splitlines()[-1]
    assert 1 == failed.returncode
    assert (
        'not proved: task 1: the check "tests" ended with exit code 3'
        == failed.stdout.splitlines()[-1]
    )
    assert 1 == gate(root, "--task", "9").returncode
    assert 2 == gate(root, "--base", "nowhere").returncode
    assert 2 == gate(root, "--base", "--output=x").returncode


def test_nothing_to_prove_is_exit_code_3(tmp_path: Path) -> None:
    config = check("web", *python("pass"), disciplines=["frontend"])
    done = gate(project(tmp_path, config))

    assert (3, "nothing to prove\n") == (done.returncode, done.stdout)


def test_base_decides_the_rules_and_needs_no_database(tmp_path: Path) -> None:
    root = project(tmp_path)
    git(root, "switch", "--quiet", "--create", "work")
    (root / ".ralph/ralphgen.toml").write_text("", encoding="utf-8")
    write_files(root, [("tests/a.txt", "b\n"), ("code.txt", "1")])
    git(root, "commit", "--quiet", "--all", "--message", "loosen")
    (root / ".ralph/db/ralph.db").unlink()
    found = verdict(root, "--base", "HEAD~1")

    assert git(root, "rev-parse", "HEAD~1").strip() == found["base"]
    assert ["tests/a.txt"] == found["protected"]
    assert [
        'the check "tests" ended with exit code 1',
        'protected files were changed: "tests/a.txt"',
    ] == found["lacking"]


def test_base_runs_no_untrusted_command(tmp_path: Path) -> None:
    root = project(tmp_path)
    ran_at = tmp_path / "ran"
    touch = check("evil", "touch", str(ran_at))
    (root / ".ralph/ralphgen.toml").write_text(touch, encoding="utf-8")
    git(root, "commit", "--quiet", "--all", "--message", "evil")
    done = gate(root, "--base", "HEAD")

    assert 2 == done.returncode
    assert "ralphgen trust" in done.stderr
    assert not ran_at.exists()


def test_allowed_protected_files_are_reported_and_pass(tmp_path: Path) -> None:
    root = project(tmp_path)
    write_files(root, [("tests/b.txt", "")])
    found = verdict(root, "--allow-protected", "tests/b.txt")

    assert (True, ["tests/b.txt"]) == (found["passed"], found["protected"])
    assert not verdict(root, "--allow-protected", "tests/a.txt")["passed"]


def test_an_agents_session_cannot_allow_or_judge_another_task(tmp_path: Path) -> None:
    root = project(tmp_path)
    add_task(root, 2)
    made = create_session(
        root, Request("task_execution", task=1), say=lambda _: None, ask=lambda _: False
    )

    assert 2 == gate(root, "--allow-protected", "**", session=made.session_id).returncode
    assert 2 == gate(root, "--task", "2", session=made.session_id).returncode
    assert 2 == gate(root, session="task_execution-9-x").returncode


def test_an_agent_of_a_loop_with_worktrees_cannot_enter_its_work(tmp_path: Path) -> None:
    root = project(tmp_path)
    tree = prepare(root, 1, 1, LoopConfig(), lambda _: None)
    made = create_session(
        root,
        Request("task_execution", task=1),
        say=lambda _: None,
        ask=lambda _: False,
        work_tree=tree.root,
    )
    query(root, "UPDATE tasks SET status = 'done'")
    for place in (tree.root, root):
        words = ("--base", tree.base, "--enqueue")
        done = gate(place, *words, session=made.session_id)
        assert (2, "") == (done.returncode, done.stdout)
        assert "the loop enters the work of this session itself" in done.stderr

    assert [] == query(root, "SELECT number FROM ralphgen_merges")


def test_a_receipt_is_a_statement_on_a_clean_commit(tmp_path: Path) -> None:
    root, path = project(tmp_path), tmp_path / "receipt.json"
    assert 0 == gate(root, "--receipt", str(path)).returncode
    receipt = json.loads(path.read_text(encoding="utf-8"))
    (root / "code.txt").write_text("1", encoding="utf-8")

    assert {"gitCommit": git(root, "rev-parse", "HEAD").strip()} == receipt["subject"][0]["digest"]
    assert ("PASSED", ["tests"], []) == tuple(
        receipt["predicate"][key] for key in ("result", "passedTests", "failedTests")
    )
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert 2 == gate(root, "--receipt", str(path)).returncode


def hook(root: Path, conversation: str = "c", *words: str) -> dict[str, str]:
    done = gate(root, "--hook", *words, event=json.dumps({"session_id": conversation}))
    assert 0 == done.returncode, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


@pytest.mark.thorough
def test_a_hook_blocks_at_most_its_tries_and_once_for_a_tree(tmp_path: Path) -> None:
    root = project(tmp_path)
    assert {} == hook(root)
    answers = []
    for code in "123":
        (root / "code.txt").write_text(code, encoding="utf-8")
        answers += [hook(root, "c", "--tries", "2"), hook(root, "c", "--tries", "2")]

    assert ["decision", "systemMessage"] * 2 + ["systemMessage"] * 2 == [
        next(iter(answer)) for answer in answers
    ]
    assert answers[4]["systemMessage"].startswith("not proved after 2 tries: ")
    assert "decision" in hook(root, "another")


def test_a_hook_runs_no_check_for_a_closed_task(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "code.txt").write_text("1", encoding="utf-8")
    for status in ("done", "blocked", "skipped"):
        query(root, "UPDATE tasks SET status = ?", status)
        assert {} == hook(root, "c", "--task", "1"), status


def test_a_hook_that_cannot_run_never_blocks(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / ".ralph/ralphgen.toml").write_text(check("new", "true"), encoding="utf-8")

    assert ["systemMessage"] == [*hook(root)]
    assert ["systemMessage"] == [*json.loads(gate(root, "--hook", event="{").stdout)]
    assert ["systemMessage"] == [*hook(tmp_path)]
