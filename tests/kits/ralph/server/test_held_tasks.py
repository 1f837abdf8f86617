"""Servers of sessions with claims: writes are fenced, leases renewed, closing releases."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen, ran, run_sql
from driving import Driver, connected, query, quiet
from engines import ENGINES
from held_tasks import claim_task, comments, held_on, held_project, leave, row, status
from making_sessions import client_of, opened

from ralphgen.sessions.claims import end_claim, hand_over
from ralphgen.sessions.create import create_session
from ralphgen.sessions.decide import Request
from ralphgen.sessions.end import end_session
from ralphgen.sessions.model import PreparedSession


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return held_project(tmp_path / "p")


def claim(root: Path, column: str, task: int = 2) -> Any:
    ((found,),) = query(root, f"SELECT {column} FROM ralphgen_claims WHERE task_id = {task}")
    return found


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def by_hand(root: Path, task: int = 2) -> PreparedSession:
    """Return a session that the user starts from its config."""
    made = claim_task(root, task)
    assert made.claim is not None
    hand_over(made.claim)
    return made


def force(root: Path, new: str = "pending") -> None:
    ran("task", "status", "2", new, "--force", "--project", root)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("set_task_status", {"status": "done"}),
        ("add_task_comment", {"body": "Half of it is done."}),
        ("add_feature_context_file", {"file_path": "README.md"}),
    ],
)
def test_a_session_that_lost_its_claim_cannot_write_and_learns_why(
    root: Path, tool: str, arguments: dict[str, str]
) -> None:
    made = claim_task(root, 2)
    with client_of(made.mcp_config) as server:
        server.call("set_task_status", status="in_progress")
        force(root)
        before = query(root, "SELECT * FROM tasks"), query(root, "SELECT * FROM task_comments")
        said = server.refusal(tool, **arguments)

        assert "this session has lost its claim on task 2: it was ended" in said
        assert before == (query(root, "SELECT * FROM tasks"), comments_of(root))
        assert "pending" == server.call("get_task")["status"]


def comments_of(root: Path) -> list[tuple[Any, ...]]:
    return query(root, "SELECT * FROM task_comments")


def test_a_closed_task_is_let_go_and_its_session_may_write_on(root: Path) -> None:
    made = claim_task(root, 2)
    with client_of(made.mcp_config) as server:
        server.call("set_task_status", status="in_progress")
        server.call("set_task_status", status="done", summary="It works.")
        assert claim(root, "session") is None
        server.call("add_task_comment", body="One more thing.")
        server.call("set_task_status", status="in_progress")
        assert made.session_id == claim(root, "session")
        server.call("set_task_status", status="blocked", reason="No key.")
        assert claim(root, "session") is None
        other = claim_task(root, 2)
        said = server.refusal("add_task_comment", body="Me too.")

    assert f'it is claimed by the session "{other.session_id}"' in said
    assert 0 == row(root, 2)[2]
    assert "blocked" == end_claim(other, "open")


def test_a_claim_that_waits_for_a_merge_is_kept_when_its_task_is_closed(
    root: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    made = create_session(
        root, Request("task_execution", 2), say=quiet, ask=lambda _: False, work_tree=tree
    )
    with client_of(made.mcp_config) as server:
        server.call("set_task_status", status="done")

    assert made.session_id == claim(root, "session")
    assert "done" == end_claim(made, "done")
    assert claim(root, "session") is None


def test_the_user_needs_force_for_a_held_task_and_agents_have_none(root: Path) -> None:
    made = claim_task(root, 2)
    refused = ralphgen("task", "status", "2", "blocked", "--reason", "No.", "--project", root)
    assert 1 == refused.returncode
    assert f'task 2 is claimed by the session "{made.session_id}"' in refused.stderr
    with connected(root, "yap") as server:
        assert "is claimed by" in server.refusal("set_task_status", id=2, status="done")
    with connected(root) as server:
        assert "is claimed by" in server.refusal("delete_task", id=2)

    force(root, "skipped")
    assert ("skipped", None) == (status(root, 2), claim(root, "session"))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_largest_token_is_repaired_by_force(engine: str, tmp_path: Path) -> None:
    most = "UPDATE ralphgen_claims SET token = 9223372036854775807, attempts = 9223372036854775807"
    with held_on(engine, tmp_path / "p") as root:
        claim_task(root, 2)
        run_sql(root, most)
        force(root)
        assert (None, 1, 0) == row(root, 2)
        run_sql(root, f"{most}, session = NULL")
        again = claim_task(root, 2)
        assert (again.session_id, 1, 2**63 - 1) == row(root, 2)
        assert "blocked" == end_claim(again, "open")
        assert (None, 2, 2**63 - 1) == row(root, 2)


def test_the_user_resets_attempts_by_setting_a_task_pending(root: Path) -> None:
    assert "pending" == end_claim(claim_task(root, 2), "open")
    assert 1 == row(root, 2)[2]
    done = ralphgen("task", "status", "2", "pending", "--project", root)

    assert 0 == done.returncode
    assert 0 == row(root, 2)[2]


def test_lists_name_the_holders_of_tasks_and_the_stale_ones(root: Path) -> None:
    held, left = claim_task(root, 1), claim_task(root, 2)
    leave(root, 2)
    with connected(root) as server:
        tasks = {task["id"]: task for task in server.call("list_tasks")["tasks"]}
        ready = [task["id"] for task in server.call("list_tasks", filter_ready=True)["tasks"]]
        shown = server.call("get_task", id=2)

    assert ("held", held.session_id) == (tasks[1]["inferred"], tasks[1]["held_by"])
    assert ("stale", left.session_id) == (tasks[2]["inferred"], tasks[2]["held_by"])
    assert ("ready", False) == (tasks[3]["inferred"], "held_by" in tasks[3])
    assert [2, 3] == ready
    assert "stale" == shown["inferred"]
    assert "2  stale" in ralphgen("task", "list", "--project", root).stdout
    assert left.session_id in ralphgen("task", "show", "2", "--project", root).stdout
    assert "stale, because their sessions have ended: 2" in ralphgen("doctor", root).stdout


def test_a_new_task_inherits_nothing_from_one_of_its_number(root: Path) -> None:
    """The app may have deleted the former; ids come back."""
    first = claim_task(root, 3)
    leave(root, 3)
    claim_task(root, 3)
    run_sql(root, "DELETE FROM tasks WHERE id = 3")
    with connected(root) as server:
        task = server.call("create_task", feature="auth", discipline="backend", title="New")["id"]

    assert 3 == task
    session, token, attempts = row(root, 3)
    assert (None, 0) == (session, attempts)
    assert first.claim is not None
    assert isinstance(token, int)
    assert first.claim.token + 1 < token


def test_a_server_takes_the_claim_into_its_hands_and_renews_the_lease(tmp_path: Path) -> None:
    """Also while its client makes no call, as during a long build."""
    root = held_project(tmp_path / "p", "[claims]\nlease = 2\n")
    made = by_hand(root)
    with client_of(made.mcp_config):
        until(lambda: claim(root, "pid") is not None)
        ends = claim(root, "expires")
        until(lambda: bool(claim(root, "expires") > ends))
        again = claim(root, "expires")
        until(lambda: bool(claim(root, "expires") > again))

    assert made.session_id == claim(root, "session")


def test_who_was_stopped_past_its_lease_and_woken_cannot_write(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p", "[claims]\nlease = 1\n")
    made = by_hand(root)
    with client_of(made.mcp_config) as server:
        server.call("set_task_status", status="in_progress")
        until(lambda: claim(root, "pid") is not None)
        process = int(claim(root, "pid"))
        os.kill(process, signal.SIGSTOP)
        try:
            until(lambda: opened_stale(root) == [2])
        finally:
            os.kill(process, signal.SIGCONT)
        said = server.refusal("set_task_status", status="done")
        over = claim_task(root, 2)
        later = server.refusal("add_task_comment", body="Done!")

    assert "this session has lost its claim on task 2: its lease ended at" in said
    assert f'claimed by the session "{over.session_id}"' in later
    assert "in_progress" == status(root, 2)


def opened_stale(root: Path) -> list[int]:
    """Return the stale tasks in the user's list."""
    with connected(root) as server:
        tasks = server.call("list_tasks")["tasks"]
    return [task["id"] for task in tasks if task["inferred"] == "stale"]


def test_the_end_of_a_session_by_hand_lets_its_task_go(root: Path) -> None:
    made = by_hand(root)
    with client_of(made.mcp_config) as server:
        server.call("set_task_status", status="in_progress")
    end_session(root, made.session_id)

    assert ("pending", None) == (status(root, 2), claim(root, "session"))
    assert [f'The session "{made.session_id}" ended: ended.'] == comments(root, 2)


def test_without_a_claim_nothing_is_fenced(root: Path) -> None:
    claim_task(root, 2)
    made = opened(root, "enrichment", task=2)
    with client_of(made.mcp_config) as server:
        server.call("update_task", priority="high")

    assert "force" not in tool_arguments(made, "set_task_status")


def tool_arguments(made: PreparedSession, tool: str) -> list[str]:
    listed = {one["name"]: one["inputSchema"]["properties"] for one in made.served[0].tools}
    return [*listed.get(tool, {})]


def test_agents_have_no_force(root: Path) -> None:
    assert ["status", "reason", "summary", "question", "options"] == [
        name for name in tool_arguments(claim_task(root, 2), "set_task_status") if name != "id"
    ]
    with connected(root) as server:
        assert "force" in arguments_of(server, "set_task_status")


def arguments_of(server: Driver, tool: str) -> list[str]:
    listed = {one["name"]: one["inputSchema"]["properties"] for one in server.tools()}
    return [*listed[tool]]
