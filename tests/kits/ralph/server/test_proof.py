"""Done requires proof: attempts of a lying agent, and the refusals to close its task."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driving import Driver, connected, query
from making_sessions import client_of, opened
from proved_projects import TESTS, check, git, proved_project, python, write_files
from specum_runs import lay_spec, ok

Step = Callable[[Path, Driver], object]
RECIPE = 'base = "manual"\n'
HIDING = "helper.py\n.gitignore\n"
PROTECTED = '[done]\nprotect = ["golden/**", "secret.log", "**/helper.py"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose tests pass, with protected files and a nested repository."""
    root = tmp_path / "p"
    files = [
        ("golden/a.txt", "a"),
        ("golden/tasks.md", "- [ ] accepted\n"),
        ("secret.log", "ignored"),
        ("nested/x.py", "x"),
    ]
    write_files(root, [*files, ("tests/test_a.py", "assert True")])
    git(root / "nested", "init", "--quiet")
    git(root / "nested", "add", "x.py")
    git(root / "nested", "commit", "--quiet", "--message", "begin")
    return proved_project(root, TESTS + PROTECTED)


def passed(server: Driver) -> None:
    """Run the checks, which pass."""
    assert server.call("run_checks")["passed"]


def status(root: Path, task: int = 1) -> str:
    ((found,),) = query(root, "SELECT status FROM tasks WHERE id = ?", task)
    return str(found)


def pass_checks(_root: Path, server: Driver) -> None:
    passed(server)


def run(_root: Path, server: Driver) -> None:
    """Run the checks, with any result."""
    server.call("run_checks")


def put(path: str, text: str) -> Step:
    return lambda root, _: write_files(root, [(path, text)])


def run_git(*words: str) -> Step:
    return lambda root, _: git(root, *words)


def _make_a_pipe(root: Path, _server: Driver) -> None:
    os.mkfifo(root / "tests/impl.py")


def _edit_the_rules(root: Path, _server: Driver) -> None:
    path = root / ".ralph/mcp/ralph/done.py"
    path.write_text(path.read_text(encoding="utf-8").replace("golden", "nothing"), encoding="utf-8")


def _rewrite_the_snapshot(root: Path, server: Driver) -> None:
    (path,) = (root / ".ralph/mcp/sessions").glob("*/snapshot.json")
    snapshot = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**snapshot, "protected": {}}), encoding="utf-8")
    server.refusal("run_checks")


def _bind_a_socket(root: Path, _server: Driver) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(root / "new/impl.py"))


WORKTREE = ".ralph/worktrees/1/i.py"
UNSEEN = ("update-index", "--assume-unchanged", "code.txt")
UNTRACKED = ("rm", "--cached", "--quiet", "code.txt")
HIDDEN = '("src/.gitignore: helper.py"), and these files count until then: "src/helper.py"'
BACK = "put them back: "
STALE = '"tests" has not passed on the current files'
NO_FILE = "pipes, sockets, devices and .git folders: make readable, ignore or remove "
LIES: dict[str, tuple[str, list[Step]]] = {
    "never": (f"{STALE}: call run_checks", []),
    "red": ('"tests" ended with exit code 1', [put("code.txt", "1"), run]),
    "edit": (STALE, [pass_checks, put("code.txt", "1")]),
    "edit unseen": (STALE, [pass_checks, run_git(*UNSEEN), put("code.txt", "1")]),
    "edit in a repository": (STALE, [pass_checks, put("nested/x.py", "other")]),
    "add a file": (STALE, [pass_checks, put("more.py", "1")]),
    "remove a file": (STALE, [pass_checks, lambda root, _: (root / "tests/test_a.py").unlink()]),
    "ignore and edit": (STALE, [put(".gitignore", "*\n"), pass_checks, put("code.txt", "1")]),
    "config": (f'{BACK}".ralph/ralphgen.toml"', [put(".ralph/ralphgen.toml", ""), run]),
    "rules": (f'{BACK}".ralph/mcp/ralph/done.py"', [_edit_the_rules, run]),
    "recipe": (f'{BACK}".ralph/recipes/own.toml"', [put(".ralph/recipes/own.toml", RECIPE), run]),
    "edit a protected file": (f'{BACK}"golden/a.txt"', [put("golden/a.txt", "b"), run]),
    "add a protected file": (f'{BACK}"golden/b.txt"', [put("golden/b.txt", "b"), run]),
    "protected for the run": (STALE, [put("secret.log", "b"), run, put("secret.log", "ignored")]),
    "hide": (HIDDEN, [put("src/helper.py", "1"), put("src/.gitignore", HIDING), run]),
    "new rule": (
        '("new/.gitignore: *"), and these files count until then: "new/.gitignore", "new/i.py"',
        [put("new/i.py", "1"), put("new/.gitignore", "*\n"), pass_checks, put("new/i.py", "2")],
    ),
    "once tracked": (
        STALE,
        [put(".gitignore", "code.txt\n"), run_git(*UNTRACKED), pass_checks, put("code.txt", "00")],
    ),
    "worktrees": (STALE, [put(WORKTREE, "1"), pass_checks, put(WORKTREE, "2")]),
    "database": (STALE, [pass_checks, put(".ralph/db/i.py", "2")]),
    "spec": (STALE, [put(".progress.md/i.py", "1"), pass_checks, put(".progress.md/i.py", "2")]),
    "pipe": (f'{NO_FILE}"tests/impl.py"', [pass_checks, _make_a_pipe]),
    "socket": (
        f'{NO_FILE}"new/impl.py"',
        [pass_checks, put("new/.gitignore", "*\n"), _bind_a_socket],
    ),
    "git": (f'{NO_FILE}"tests/.git"', [pass_checks, put("tests/.git/impl.py", "1")]),
    "tick": (f'{BACK}"golden/tasks.md"', [put("golden/tasks.md", "- [x] accepted\n"), run]),
    "snapshot": ("record of the protected files was removed or changed", [_rewrite_the_snapshot]),
}


@pytest.fixture
def server(project: Path) -> Iterator[Driver]:
    """Yield the client of an agent's session on task 1."""
    with client_of(opened(project, "task_execution", task=1).mcp_config) as server:
        yield server


@pytest.mark.parametrize("lie", LIES)
def test_the_word_of_an_agent_does_not_close_a_task(
    project: Path, server: Driver, lie: str
) -> None:
    expected, steps = LIES[lie]
    for step in steps:
        step(project, server)
    refusal = server.refusal("set_task_status", status="done", summary="It works.")

    assert expected in refusal
    assert "pending" == status(project)


def test_a_task_is_done_if_its_checks_pass_on_the_current_files(
    project: Path, server: Driver
) -> None:
    (project / "code.txt").write_text("1", encoding="utf-8")
    assert not server.call("run_checks")["passed"]
    (project / "code.txt").write_text("0", encoding="utf-8")
    passed(server)
    answer = server.call("set_task_status", status="done")

    assert {"id": 1, "old": "pending", "new": "done", "unblocked": [2]} == answer


def test_an_ignored_pipe_is_no_reason_to_refuse(project: Path) -> None:
    os.mkfifo(project / "run.log")
    write_files(project, [("src/.gitignore", "/cache/\n")])
    (project / "src/cache").mkdir()
    os.mkfifo(project / "src/cache/pipe")
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        passed(server)
        server.call("set_task_status", status="done")

    assert "done" == status(project)


def test_protected_files_may_be_restored(project: Path, server: Driver) -> None:
    (project / "golden/a.txt").write_text("b", encoding="utf-8")
    (project / "golden/a.txt").write_text("a", encoding="utf-8")
    passed(server)
    server.call("set_task_status", status="done")

    assert "done" == status(project)


def test_evidence_of_another_session_proves_nothing(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        passed(server)
    query(project, "DELETE FROM ralphgen_claims")
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as second:
        refusal = second.refusal("set_task_status", status="done")

        assert "has not passed on the current files in this session" in refusal


def test_a_session_keeps_the_checks_that_it_began_with(project: Path) -> None:
    """A server that was regenerated meanwhile requires neither less nor more."""
    session = opened(project, "task_execution", task=1)
    path = project / ".ralph/mcp/ralph/done.py"
    with client_of(session.mcp_config) as server:
        path.unlink()  # the server is still running
        answer = server.call("run_checks")

    assert ["tests"] == [one["name"] for one in answer["checks"]]
    assert not answer["passed"]


def test_a_task_waits_for_its_dependencies(project: Path) -> None:
    session = opened(project, "task_execution", task=2)
    with client_of(session.mcp_config) as server:
        passed(server)
        refusal = server.refusal("set_task_status", status="done")
        query(project, "UPDATE tasks SET status = 'skipped' WHERE id = 1")
        server.call("set_task_status", status="done")

    assert 'depends on tasks that are not done: 1 ("pending")' in refusal


def test_checks_are_for_the_disciplines_that_they_name(tmp_path: Path) -> None:
    config = TESTS + check("looks", *python("raise SystemExit(1)"), disciplines=["frontend"])
    root = proved_project(tmp_path / "p", config)
    with connected(root) as server:
        names = [
            [one["name"] for one in server.call("run_checks", task=task)["checks"]]
            for task in (1, 2)
        ]

    assert [["tests"], ["tests", "looks"]] == names


def test_changed_tests_are_reported_and_not_refused(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        (project / "tests/test_a.py").write_text("assert 1", encoding="utf-8")
        told = server.call("run_checks")["watched"]
        answer = server.call("set_task_status", status="done", summary="All of it.")

    assert 'changed in this session: "tests/test_a.py"' == told
    assert ['Changed in this session: "tests/test_a.py"'] == answer["told"]
    ((body,),) = query(project, "SELECT body FROM task_comments")
    assert 'All of it.\n\nChanged in this session: "tests/test_a.py"' == body
    kept = query(project, "SELECT protected, watched FROM ralphgen_evidence")
    assert [("[]", '["tests/test_a.py"]')] == kept


def test_a_session_that_cannot_run_checks_names_the_recipe_that_can(project: Path) -> None:
    with connected(project, "yap") as server:
        refusal = server.refusal("set_task_status", id=1, status="done")

    assert (
        'ask the user to run "ralphgen task check 1", then "ralphgen task status 1 done"' in refusal
    )


def test_the_user_may_use_any_evidence_on_the_current_files(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        passed(server)
    query(project, "DELETE FROM ralphgen_claims")
    with connected(project) as person:
        (project / "code.txt").write_text("1", encoding="utf-8")
        refusal = person.refusal("set_task_status", id=1, status="done")
        (project / "code.txt").write_text("0", encoding="utf-8")
        person.call("set_task_status", id=1, status="done")

    assert "call run_checks with task 1" in refusal


def test_the_user_may_overrule_on_the_record(project: Path) -> None:
    with connected(project) as person:
        answer = person.call(
            "set_task_status", id=1, status="done", because="Tried by hand.", summary="Done."
        )

    assert ["Done without proof: Tried by hand."] == answer["told"]
    ((record,),) = query(project, "SELECT tail FROM ralphgen_evidence")
    ((body,),) = query(project, "SELECT body FROM task_comments")
    assert ("Tried by hand.", "Done.\n\nDone without proof: Tried by hand.") == (record, body)


def test_an_agent_cannot_overrule(server: Driver) -> None:
    refusal = server.refusal("set_task_status", status="done", because="I say so.")

    assert 'unknown argument "because"' in refusal


@pytest.mark.parametrize("status_", ["blocked", "skipped", "in_progress"])
def test_only_done_has_to_be_proved(project: Path, status_: str) -> None:
    with connected(project) as server:
        reason = {"reason": "no key"} if status_ == "blocked" else {}
        server.call("set_task_status", id=1, status=status_, **reason)

    assert status_ == status(project)


def test_a_project_without_git_is_proved_as_well(tmp_path: Path) -> None:
    root = proved_project(tmp_path / "p", repository=False)
    session = opened(root, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        passed(server)
        (root / "code.txt").write_text("1", encoding="utf-8")
        refusal = server.refusal("set_task_status", status="done")
        (root / "code.txt").write_text("0", encoding="utf-8")
        server.call("set_task_status", status="done")

    assert "has not passed on the current files" in refusal


def test_a_removed_repository_proves_nothing(project: Path, server: Driver) -> None:
    passed(server)
    shutil.rmtree(project / ".git")
    refusal = server.refusal("set_task_status", status="done")

    assert 'the session did not start in this repository: remove or restore ".git"' in refusal


def test_tasks_marked_done_in_a_spec_start_as_pending(tmp_path: Path) -> None:
    config = 'kits = ["ralph", "specum"]\n' + TESTS
    root = proved_project(tmp_path / "p", config)
    lay_spec(root, "a", state={"phase": "tasks"}, tasks="- [x] 1.1 One\n- [ ] 1.2 Two\n")
    with connected(root, kit="specum") as server:
        answer = ok(
            server,
            "ralph_complete_phase",
            phase="tasks",
            summary="cut",
            import_tasks=True,
            feature="auth",
            discipline="backend",
        )

    assert "not proved in the project, so they are pending there: 1.1 as task 3" in answer
    assert [("pending",)] == query(root, "SELECT DISTINCT status FROM tasks")
