"""The merge queue keeps a task from being claimed until its work is merged or returned."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from driving import query
from engines import ENGINES
from held_tasks import held_on

from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import stored_tables
from ralphgen.ledger.undo import undo_session
from ralphgen.project.database import Database, open_database, opened_database
from ralphgen.runtime.tasks import assignment, claims, merges
from ralphgen.sessions.claims import ClaimedError, claim_next, claim_task, next_tasks
from ralphgen.sessions.decide import Request
from ralphgen.sessions.questions import answer_question
from ralphgen.sessions.reviews import send_back, set_statuses
from ralphgen.sessions.workers import revoke_worker

pytestmark = pytest.mark.slow
Result = TypeVar("Result")
WORK = "0" * 40


@pytest.fixture(params=ENGINES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with held_on(request.param, tmp_path / "p") as found:
        yield found


def write(root: Path, work: Callable[[Database], Result]) -> Result:
    with opened_database(root) as database:
        return database.writing(lambda: work(database))


def enter(root: Path, task: int | None = 1, **facts: str) -> int:
    values = {"work": WORK, "target": "main", **facts}
    return write(root, lambda database: merges.enter(database, task=task, **values))


def waiting(root: Path) -> list[int]:
    with open_database(root) as database:
        return [one.number for one in merges.waiting(database, "main")]


def ready(root: Path) -> list[int]:
    return next_tasks(root, Project(root).schema)


def test_a_queued_task_cannot_be_claimed_and_its_dependents_wait(root: Path) -> None:
    write(root, lambda one: one.change("UPDATE tasks SET depends_on = '[1]' WHERE id = 2"))
    number = enter(root)

    assert [3] == ready(root)
    with pytest.raises(ClaimedError, match=f"waits to be merged, as merge {number}"):
        claim_task(Project(root), "s", 1)
    assert 3 == claim_next(Project(root), Request("task_execution", next=True)).task


def test_entering_releases_the_claim_and_a_repeated_entry_keeps_its_number(root: Path) -> None:
    claim = claim_task(Project(root), "s", 1)
    assert claim is not None
    number = enter(root, session="s", tree="t")

    with open_database(root) as database:
        held = claims.claim_of(database, 1)
    assert held is not None
    assert held.session is None
    assert number == enter(root, session="s", tree="t")
    with pytest.raises(ProjectError, match="waits to be merged already"):
        enter(root, session="other", work="1" * 40)
    assert enter(root, None) != enter(root, None, work="1" * 40)


def test_a_merged_entry_records_the_commit_of_its_session(root: Path) -> None:
    sql = "INSERT INTO ralphgen_sessions (id, recipe, started) VALUES ('s', 'task_execution', 'x')"
    write(root, lambda one: one.change(sql))
    number = enter(root, session="s")
    with open_database(root) as database:
        entry = merges.merge_of(database, number)
    assert entry is not None

    assert write(root, lambda one: merges.finish(one, entry, "c", 3, "me"))
    assert not write(root, lambda one: merges.finish(one, entry, "d", 4, "me"))
    with open_database(root) as database:
        assert [("c",)] == database.rows("SELECT merged FROM ralphgen_sessions WHERE id = 's'")
        ended = merges.merge_of(database, number)
        assert {"s"} == merges.entered_sessions(database)
    assert ended is not None
    assert ("merged", 3, "me", "c") == (ended.state, ended.batch, ended.runner, ended.merged)
    assert [] == waiting(root)


def test_entries_are_claimed_for_landing_together_and_not_dropped_then(root: Path) -> None:
    first, second = enter(root), enter(root, 2, work="1" * 40)
    commits = {first: "c", second: ""}
    sql = "SELECT landing, batch FROM ralphgen_merges ORDER BY number"

    def claim() -> bool:
        return write(root, lambda one: merges.claim_landing(one, commits, 3))

    assert claim()
    assert not write(root, lambda one: claims.drop_merge(one, first, "why"))
    with pytest.raises(ProjectError, match=f"have been merged already, as merge {second}"):
        write(root, lambda one: claims.drop_merge_of(one, 2, "why"))
    with open_database(root) as database:
        assert [("c", 3), ("", 3)] == database.rows(sql)
    write(root, lambda one: merges.release_landing(one, commits))
    write(root, lambda one: claims.drop_merge_of(one, 2, "why"))
    assert not claim()
    with open_database(root) as database:
        assert [(None, None), (None, None)] == database.rows(sql)
    assert [first] == waiting(root)


def test_an_entry_of_a_revoked_worker_does_not_wait_again(root: Path) -> None:
    sql = (
        "INSERT INTO ralphgen_workers (name, token, expires) VALUES ('a', 't', ''), ('b', 't', '')"
    )
    write(root, lambda one: one.change(sql))
    first, second = enter(root, worker="a"), enter(root, 2, work="1" * 40, worker="b")
    write(root, lambda one: merges.claim_landing(one, {first: "c", second: "d"}, 3))
    revoke_worker(root, "a")
    assert [first, second] == waiting(root)

    write(root, lambda one: merges.release_landing(one, [first, second]))
    assert [second] == waiting(root)


def test_a_returned_entry_makes_its_task_pending_and_comments_on_it(root: Path) -> None:
    number = enter(root)
    schema = Project(root).schema
    with opened_database(root) as database:
        database.writing(
            lambda: database.closing(
                lambda _: True,
                lambda: database.change("UPDATE tasks SET status = 'done' WHERE id = 1"),
            )
        )
        entry = database.reading(lambda: merges.merge_of(database, number))
        assert entry is not None
        tables = stored_tables(schema)
        for expected in (True, False):
            assert expected == database.writing(
                lambda: assignment.return_merge(
                    database, tables, entry, "it failed", batch=None, runner="me", tail="no"
                )
            )
    assert 1 in ready(root)
    with open_database(root) as database:
        texts = database.rows("SELECT body FROM task_comments WHERE task_id = 1")
    assert ("It was not merged: it failed.\n\nno",) in texts


def test_one_runner_has_the_queue_of_a_branch_until_its_lease_ends(root: Path) -> None:
    def lease(owner: str, target: str = "main", seconds: float = 60) -> bool:
        return write(root, lambda one: merges.lease_runner(one, target, owner, seconds))

    assert (True, True, False, True) == (lease("a"), lease("a"), lease("b"), lease("b", "dev"))
    write(root, lambda one: merges.end_lease(one, "main", "b"))
    assert not lease("b")
    assert lease("a", seconds=-1)
    assert lease("b")


def test_batches_of_all_branches_have_different_numbers_for_ever(root: Path) -> None:
    def batch(target: str) -> int:
        return write(root, lambda one: merges.next_batch(one, target))

    assert (1, 2, 3) == (batch("main"), batch("dev"), batch("main"))
    assert write(root, lambda one: merges.lease_runner(one, "main", "a"))
    write(root, lambda one: merges.end_lease(one, "main", "a"))
    write(root, lambda one: one.change("DELETE FROM ralphgen_runs"))
    assert 4 == batch("dev")


def test_runs_are_numbered_and_read_with_their_members(root: Path) -> None:
    facts = {"target": "main", "base": "a", "head": "b", "tree": "c", "worker": "here"}

    def run(database: Database, target: str) -> int:
        batch = merges.next_batch(database, target)
        number, again = (
            merges.open_run(database, batch=batch, members=[1, 2], **{**facts, "target": target})
            for _ in range(2)
        )
        assert number == again
        assert merges.close_run(database, number, passed=False)
        assert not merges.close_run(database, number, passed=True)
        return batch

    assert 1 == write(root, lambda one: run(one, "dev"))
    assert 2 == write(root, lambda one: run(one, "main"))
    with open_database(root) as database:
        newest, _ = merges.runs(database, 9)
    assert (2, [1, 2], False, "here") == (
        newest.batch,
        newest.members,
        newest.passed,
        newest.worker,
    )


@pytest.mark.parametrize("decide", [send_back, answer_question])
def test_a_decision_on_a_task_that_lands_is_refused_with_the_next_step(
    root: Path, decide: Callable[[Path, int, str], object]
) -> None:
    status = "done" if decide is send_back else "blocked"
    set_statuses(root, [1], "test", ("pending draft", status))
    number = enter(root)
    asked = (
        "INSERT INTO ralphgen_questions (task_id, session, question, asked) "
        "VALUES (1, 's', 'Which?', '2026-01-01T00:00:00Z')"
    )
    write(root, lambda one: one.change(asked))
    write(root, lambda one: merges.claim_landing(one, {number: "c"}, 1))

    with pytest.raises(ProjectError, match="may have been merged already") as caught:
        decide(root, 1, "text")
    assert [f"ralphgen merges drop {number}"] == [one.hint for one in caught.value.problems]


def test_undo_drops_the_entry_of_a_task_whose_status_it_reverts(tmp_path: Path) -> None:
    with held_on("sqlite", tmp_path / "p") as root:
        number = enter(root)
        query(
            root,
            "INSERT INTO ralphgen_journal (time, session, table_name, row_key, before, after) "
            """VALUES ('x', 's', 'tasks', '1', '{"status":"draft"}', '{"status":"pending"}')""",
        )
        write(root, lambda one: merges.claim_landing(one, {number: "c"}, 1))
        with pytest.raises(ProjectError, match="may have been merged already"):
            undo_session(root, "s")
        write(root, lambda one: merges.release_landing(one, [number]))
        undo_session(root, "s")
        assert [("dropped", 'session "s" was undone')] == query(
            root, "SELECT state, reason FROM ralphgen_merges WHERE number = ?", number
        )
