"""The user accepts work, sends it back, and orders the tasks that agents take; on both engines."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen, ran, refused
from driving import connected, query
from engines import ENGINES, VARIABLE
from held_tasks import READY, claim_task, comments, held_on, held_project, status
from proved_projects import proved_project

from ralphgen.errors import ProjectError
from ralphgen.ledger.undo import undo_session
from ralphgen.sessions.claims import end_claim
from ralphgen.sessions.reviews import accept, move_task, send_back

pytestmark = pytest.mark.slow
ORDER = "SELECT task_id FROM ralphgen_order ORDER BY position"
MERGE = (
    "INSERT INTO ralphgen_merges (task_id, work, target, entered) "
    "VALUES (1, 'abc', 'main', '2026-01-01T00:00:00.000Z')"
)
VERDICTS = "SELECT task_id, verdict, note FROM ralphgen_reviews ORDER BY number"


@pytest.fixture(params=ENGINES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Yield a project with three ready tasks."""
    with held_on(request.param, tmp_path / "p") as project:
        yield project


def env() -> dict[str, str]:
    return {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}


def close(root: Path, *tasks: int) -> None:
    with connected(root, env=env()) as server:
        for task in tasks:
            server.call("set_task_status", id=task, status="done")


def sent_back(root: Path) -> Path:
    """Return a project whose first task was proved, closed and sent back."""
    proved_project(root)
    query(root, READY)
    for words in (("check", "1"), ("status", "1", "done"), ("send-back", "1", "Again")):
        ran("task", *words, cwd=root)
    return root


def notes(root: Path) -> list[str]:
    """Return the notes on the task that was sent back."""
    return [one for one in comments(root, 1) if one == "Again"]


def last_session(root: Path) -> str:
    sql = "SELECT session FROM ralphgen_journal ORDER BY number DESC LIMIT 1"
    ((session,),) = query(root, sql)
    return str(session)


def test_a_task_moves_among_the_ready_ones_and_back_to_its_priority(root: Path) -> None:
    assert [3, 1, 2] == move_task(root, 3, 1)
    assert [3, 2, 1] == move_task(root, 2, 2)
    assert [2, 1, 3] == move_task(root, 3, 99)
    assert [2, 3, 1] == move_task(root, 1, None)
    session = claim_task(root)
    assert 2 == session.task
    end_claim(session, "open")


def test_an_open_task_keeps_its_place_also_while_it_waits(root: Path) -> None:
    with connected(root, env=env()) as server:
        server.call("update_task", id=3, depends_on=[1])
        assert [1, 2] == move_task(root, 3, 1)
        assert [2, 1] == move_task(root, 2, 1)
        server.call("set_task_status", id=1, status="done")
        page = server.call("list_tasks", filter_ready=True, limit=1)
        rest = server.call("list_tasks", filter_ready=True, cursor=page["next_cursor"])
        assert [2, 3] == [task["id"] for task in page["tasks"] + rest["tasks"]]
        server.call("delete_task", id=3)
        assert [(2,)] == query(root, ORDER)
        server.call("set_task_status", id=2, status="done")
        server.call("set_task_status", id=1, status="pending")
    assert [1] == move_task(root, 1, 1)
    assert [(1,)] == query(root, ORDER)
    with pytest.raises(ProjectError, match="task 2 is done: only open tasks have a place"):
        move_task(root, 2, 1)


def test_finished_work_is_accepted_once_and_all_or_none(root: Path) -> None:
    close(root, 1, 3)
    query(root, MERGE)
    with pytest.raises(ProjectError, match="the work on task 1 is not merged yet"):
        accept(root, [1])
    query(root, "DELETE FROM ralphgen_merges")
    with pytest.raises(ProjectError, match="task 2 is pending: only finished work can be accepted"):
        accept(root, [1, 2])
    assert [] == query(root, VERDICTS)

    session, new = accept(root, [1, 3])
    assert [1, 3] == new
    assert [] == accept(root, [3])[1]
    assert [(1, "accepted", None), (3, "accepted", None)] == query(root, VERDICTS)
    undo_session(root, session)
    assert [] == query(root, VERDICTS)


def test_work_that_is_sent_back_is_next_and_its_brief_starts_with_the_note(root: Path) -> None:
    close(root, 3)
    session = send_back(root, 3, "Keep the old API.")

    assert ("pending", ["Keep the old API."]) == (status(root, 3), comments(root, 3))
    assert [(3, "sent back", "Keep the old API.")] == query(root, VERDICTS)
    again = claim_task(root)
    end_claim(again, "open")
    assert 3 == again.task
    text = again.prompt
    assert 0 < text.index("## Sent back by ") < text.index("Keep the old API.") < text.index("## T")
    undo_session(root, session)
    assert ("done", []) == (status(root, 3), query(root, VERDICTS))


def test_a_note_is_in_no_brief_after_the_work_is_finished_again(root: Path) -> None:
    def brief() -> str:
        again = claim_task(root, 3)
        end_claim(again, "open")
        return again.prompt

    close(root, 3)
    send_back(root, 3, "Keep the old API.")
    ran("task", "status", "3", "done", cwd=root)
    undo_session(root, last_session(root))
    assert "## Sent back by " in brief()
    ran("task", "status", "3", "done", cwd=root)
    finished = last_session(root)
    ran("task", "status", "3", "pending", cwd=root)
    assert "## Sent back by " not in brief()

    place = "/p/.ralph/worktrees/1"
    query(root, "UPDATE ralphgen_sessions SET worktree = ? WHERE id = ?", place, finished)
    assert "## Sent back by " in brief()  # the work was not merged
    query(root, "UPDATE ralphgen_sessions SET merged = 'abc' WHERE id = ?", finished)
    assert "## Sent back by " not in brief()


def test_undo_of_a_verdict_restores_done_without_a_proof_on_the_current_files(
    tmp_path: Path,
) -> None:
    root = sent_back(tmp_path / "p")
    session = last_session(root)
    (root / "code.txt").write_text("1", encoding="utf-8")  # no check passes on these files
    done = ralphgen("undo", session, "--yes", cwd=root)

    assert 0 == done.returncode, done.stdout
    assert ("done", [], []) == (status(root, 1), query(root, VERDICTS), notes(root))


@pytest.mark.parametrize("cause", ["claim", "revert"])
def test_undo_of_a_verdict_is_all_or_nothing_and_gives_the_whole_reason(
    tmp_path: Path, cause: str
) -> None:
    root = sent_back(tmp_path / "p")
    session = last_session(root)
    reason = "task 1 left: it is claimed by the session"
    if cause == "claim":
        claim_task(root, 1)
    else:
        query(root, "UPDATE ralphgen_reviews SET reverts = 'abc'")
        (root / "code.txt").write_text("1", encoding="utf-8")
        reason = 'run "ralphgen task check 1", then "ralphgen task status 1 done"'
    done = ralphgen("undo", session, "--yes", cwd=root, more={"COLUMNS": "80"})

    assert 1 == done.returncode
    assert reason in " ".join(done.stdout.split())
    assert "deleted" not in done.stdout
    assert ("pending", ["Again"]) == (status(root, 1), notes(root))
    assert 1 == len(query(root, VERDICTS))


def test_accepted_work_is_named_by_every_command_until_it_is_undone(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    close(root, 1, 2)
    query(
        root,
        "INSERT INTO ralphgen_sessions (id, task_id, recipe, started, outcome) "
        "VALUES ('s1', 1, 'task_execution', '2026-01-01', 'done')",
    )

    def said(*words: str) -> str:
        return ran(*words, cwd=root)

    assert "accepted" not in said("status") + said("task", "show", "1")
    session = json.loads(said("task", "accept", "1", "--json"))["session"]

    ((author, time),) = query(root, "SELECT author, time FROM ralphgen_reviews")
    assert f"accepted: {author}, {time}" in said("task", "show", "1")
    assert f"{author}, {time}" == json.loads(said("task", "show", "1", "--json"))["accepted"]
    assert "accepted" not in said("task", "show", "2")
    assert "\n    accepted  1 of 2\n" in said("status")
    assert [1] == json.loads(said("status", "--json"))["accepted"]
    assert f"  in {session}\n  tasks 1: accepted null → " in said("log", "--task", "1")
    assert [session] == [
        one["session"] for one in json.loads(said("log", "--session", session, "--json"))
    ]
    assert f"{session}  accept  " in said("undo").splitlines()[0]
    assert "would remove the acceptance of task 1" in said("undo", session, "--dry-run")
    assert "removed the acceptance of task 1" in said("undo", session, "--yes")
    assert "accepted" not in said("status") + said("task", "show", "1") + said("log")


def test_an_acceptance_ends_when_another_session_finishes_the_task(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    close(root, 1)
    ran("task", "accept", "1", cwd=root)
    query(
        root,
        "INSERT INTO ralphgen_sessions (id, task_id, recipe, started, outcome) "
        "VALUES ('s2', 1, 'task_execution', '2099-01-01', 'done')",
    )

    assert "accepted" not in ran("task", "show", "1", cwd=root) + ran("status", cwd=root)


def test_the_commands_tell_the_user_what_they_did_and_refuse_agents(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")

    def said(*words: str) -> str:
        return ralphgen("task", *words, cwd=root).stdout

    close(root, 1)
    for words in (("accept", "1"), ("send-back", "1", "No"), ("move", "2", "1")):
        done = ralphgen("task", *words, cwd=root, more={"RALPHGEN_SESSION": "task_execution-1"})
        assert (2, "") == (done.returncode, done.stdout)
        assert f'"ralphgen task {words[0]}" is not for agents' in done.stderr
    assert [] == query(root, VERDICTS)
    assert "accepted task 1\n" == said("accept", "1")
    assert "sent back task 1: done → pending\n" == said("send-back", "1", "Again")
    assert "moved task 3; now ready: 3, 1, 2\n" == said("move", "3", "1")
    assert "moved task 3; now ready: 1, 2, 3\n" == said("move", "3", "--by-priority")
    assert "give either a place or --by-priority" in refused("task", "move", "3", code=2, cwd=root)
    assert "the note must not be blank" in refused("task", "send-back", "1", " ", code=2, cwd=root)
