"""Done requires proof: attempts of a lying agent, and the refusals to close its task."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from driving import Driver, connected, query
from making_sessions import client_of, opened
from proved_projects import TESTS, check, git, proved_project, python, write_files
from specum_runs import lay_spec, ok

Lie = Callable[[Path, Driver], None]
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


def _never(_root: Path, _server: Driver) -> None:
    """Run nothing."""


def _red(root: Path, server: Driver) -> None:
    (root / "code.txt").write_text("1", encoding="utf-8")
    server.call("run_checks")


def _edit_afterwards(root: Path, server: Driver) -> None:
    passed(server)
    (root / "code.txt").write_text("1", encoding="utf-8")


def _edit_unseen_by_git(root: Path, server: Driver) -> None:
    passed(server)
    git(root, "update-index", "--assume-unchanged", "code.txt")
    (root / "code.txt").write_text("1", encoding="utf-8")


def _edit_in_a_nested_repository(root: Path, server: Driver) -> None:
    passed(server)
    (root / "nested/x.py").write_text("other", encoding="utf-8")


def _add_a_file(root: Path, server: Driver) -> None:
    passed(server)
    (root / "more.py").write_text("1", encoding="utf-8")


def _remove_a_file(root: Path, server: Driver) -> None:
    passed(server)
    (root / "tests/test_a.py").unlink()


def _ignore_and_edit(root: Path, server: Driver) -> None:
    (root / ".gitignore").write_text("*\n", encoding="utf-8")
    passed(server)
    (root / "code.txt").write_text("1", encoding="utf-8")


def _edit_the_config(root: Path, server: Driver) -> None:
    (root / ".ralph/ralphgen.toml").write_text("", encoding="utf-8")
    server.call("run_checks")


def _edit_the_rules(root: Path, server: Driver) -> None:
    path = root / ".ralph/mcp/ralph/done.py"
    path.write_text(path.read_text(encoding="utf-8").replace("golden", "nothing"), encoding="utf-8")
    server.call("run_checks")


def _add_a_recipe(root: Path, server: Driver) -> None:
    write_files(root, [(".ralph/recipes/own.toml", 'base = "manual"\n')])
    server.call("run_checks")


def _edit_what_is_protected(root: Path, server: Driver) -> None:
    (root / "golden/a.txt").write_text("b", encoding="utf-8")
    server.call("run_checks")


def _add_to_what_is_protected(root: Path, server: Driver) -> None:
    (root / "golden/b.txt").write_text("b", encoding="utf-8")
    server.call("run_checks")


def _edit_what_is_protected_for_the_run(root: Path, server: Driver) -> None:
    (root / "secret.log").write_text("loosened", encoding="utf-8")
    server.call("run_checks")
    (root / "secret.log").write_text("ignored", encoding="utf-8")


def _rewrite_the_snapshot(root: Path, server: Driver) -> None:
    (path,) = (root / ".ralph/mcp/sessions").glob("*/snapshot.json")
    snapshot = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**snapshot, "protected": {}}), encoding="utf-8")
    server.refusal("run_checks")


def _hide_what_is_protected(root: Path, server: Driver) -> None:
    write_files(root, [("src/helper.py", "1"), ("src/.gitignore", "helper.py\n.gitignore\n")])
    server.call("run_checks")


def _edit_what_a_new_rule_ignores(root: Path, server: Driver) -> None:
    write_files(root, [("new/i.py", "1"), ("new/.gitignore", "*\n")])
    passed(server)
    write_files(root, [("new/i.py", "2")])


def _edit_what_was_tracked(root: Path, server: Driver) -> None:
    write_files(root, [(".gitignore", "code.txt\n")])
    git(root, "rm", "--cached", "--quiet", "code.txt")
    passed(server)
    write_files(root, [("code.txt", "00")])


def _edit_beside_the_worktrees(root: Path, server: Driver) -> None:
    write_files(root, [(".ralph/worktrees/1/i.py", "1")])
    passed(server)
    write_files(root, [(".ralph/worktrees/1/i.py", "2")])


def _edit_beside_the_database(root: Path, server: Driver) -> None:
    passed(server)
    write_files(root, [(".ralph/db/i.py", "2")])


def _edit_in_place_of_a_spec(root: Path, server: Driver) -> None:
    write_files(root, [(".progress.md/i.py", "1")])
    passed(server)
    write_files(root, [(".progress.md/i.py", "2")])


def _tick_a_box(root: Path, server: Driver) -> None:
    write_files(root, [("golden/tasks.md", "- [x] accepted\n")])
    server.call("run_checks")


def _add_a_pipe(root: Path, server: Driver) -> None:
    passed(server)
    os.mkfifo(root / "tests/impl.py")


def _add_a_socket_that_a_new_rule_ignores(root: Path, server: Driver) -> None:
    passed(server)
    write_files(root, [("new/.gitignore", "*\n")])
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(root / "new/impl.py"))


def _add_a_folder_of_git(root: Path, server: Driver) -> None:
    passed(server)
    write_files(root, [("tests/.git/impl.py", "1")])


LIES: dict[Lie, str] = {
    _never: '"tests" has not passed on the current files: call run_checks',
    _red: '"tests" ended with exit code 1',
    _edit_afterwards: '"tests" has not passed on the current files',
    _edit_unseen_by_git: '"tests" has not passed on the current files',
    _edit_in_a_nested_repository: '"tests" has not passed on the current files',
    _add_a_file: '"tests" has not passed on the current files',
    _remove_a_file: '"tests" has not passed on the current files',
    _ignore_and_edit: '"tests" has not passed on the current files',
    _edit_the_config: 'put them back: ".ralph/ralphgen.toml"',
    _edit_the_rules: 'put them back: ".ralph/mcp/ralph/done.py"',
    _add_a_recipe: 'put them back: ".ralph/recipes/own.toml"',
    _edit_what_is_protected: 'put them back: "golden/a.txt"',
    _add_to_what_is_protected: 'put them back: "golden/b.txt"',
    _edit_what_is_protected_for_the_run: '"tests" has not passed on the current files',
    _hide_what_is_protected: 'with the next session ("src/.gitignore: helper.py"), and these files '
    'count until then: "src/helper.py"',
    _edit_what_a_new_rule_ignores: '("new/.gitignore: *"), and these files count until then: '
    '"new/.gitignore", "new/i.py"',
    _edit_what_was_tracked: '"tests" has not passed on the current files',
    _edit_beside_the_worktrees: '"tests" has not passed on the current files',
    _edit_beside_the_database: '"tests" has not passed on the current files',
    _edit_in_place_of_a_spec: '"tests" has not passed on the current files',
    _add_a_pipe: 'pipes, sockets, devices and .git folders: remove "tests/impl.py"',
    _add_a_socket_that_a_new_rule_ignores: '.git folders: remove "new/impl.py"',
    _add_a_folder_of_git: '.git folders: remove "tests/.git"',
    _tick_a_box: 'put them back: "golden/tasks.md"',
    _rewrite_the_snapshot: "record of the protected files was removed or changed",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__.strip("_"))
def test_the_word_of_an_agent_does_not_close_a_task(project: Path, lie: Lie) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
        lie(project, server)
        refusal = server.refusal("set_task_status", status="done", summary="It works.")

    assert LIES[lie] in refusal
    assert "pending" == status(project)


def test_a_task_is_done_if_its_checks_pass_on_the_current_files(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
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


def test_protected_files_may_be_restored(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
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


def test_an_agent_cannot_overrule(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
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


def test_a_removed_repository_proves_nothing(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    with client_of(session.mcp_config) as server:
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
