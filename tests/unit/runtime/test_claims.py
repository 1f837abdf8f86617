"""Claims: one holder, by lease and by process, and a token that only ever grows."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ralphgen.ledger.tables import definition
from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import claims

LEASE = 900.0
TASKS = "CREATE TABLE tasks (id INTEGER PRIMARY KEY, status TEXT)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "ralph.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{definition()}\n{TASKS};")
        connection.execute("INSERT INTO tasks VALUES (7, 'pending')")
        connection.commit()
    opened = Database(str(path))
    yield opened
    opened.close()


def claim_task(database: Database, session: str = "one", lease: float = LEASE) -> int:
    return database.writing(lambda: claims.take(database, 7, session, lease))


def changed(database: Database, **values: object) -> None:
    """Change the row of task 7."""
    names = ", ".join(f"{name} = ?" for name in values)
    database.change(f"UPDATE ralphgen_claims SET {names} WHERE task_id = 7", [*values.values()])


def is_live(database: Database) -> bool:
    claim = claims.claim_of(database, 7)
    return claim is not None and claims.is_live(claim)


def refuse(database: Database, token: int, session: str = "one") -> None:
    database.writing(lambda: claims.require_claim(database, 7, session, token))


def test_one_session_claims_a_task_and_the_next_learns_holder_and_lease(database: Database) -> None:
    assert 1 == claim_task(database)
    with pytest.raises(
        claims.HeldError, match='task 7 is claimed by the session "one" until 2'
    ) as no:
        claim_task(database, "two")

    assert ("one", 1) == (no.value.claim.session, no.value.claim.token)
    assert {7: "one"} == {task: one.session for task, one in claims.claims(database).items()}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, True, id="as it is"),
        pytest.param({"expires": "2026-01-01T00:00:00.000Z"}, False, id="lease over"),
        pytest.param({"pid": 2**22 + 5}, False, id="process gone"),
        pytest.param({"pid": 2**62}, False, id="no number of a process"),
        pytest.param({"pid": 0}, False, id="the group's own number"),
        pytest.param({"started": "1"}, False, id="number of another process by now"),
        pytest.param({"pid": 2**22 + 5, "host": "elsewhere"}, True, id="gone, of another host"),
        pytest.param({"pid": 2**22 + 5, "boot": "before"}, True, id="gone, of another boot"),
        pytest.param({"pid": 2**22 + 5, "namespace": "pid:[1]"}, True, id="gone, of a container"),
        pytest.param({"pid": None}, True, id="held by no process yet"),
    ],
)
def test_it_is_live_until_its_lease_ends_or_its_process_is_gone(
    database: Database, change: dict[str, object], *, expected: bool
) -> None:
    """Processes are judged on their own machine alone: elsewhere a number means nothing."""
    claim_task(database)
    if change:
        changed(database, **change)

    assert expected == is_live(database)


@pytest.mark.slow
def test_a_process_that_waits_to_be_buried_is_gone(database: Database) -> None:
    claim_task(database)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    changed(database, pid=child)

    assert not is_live(database)
    os.waitpid(child, 0)


def test_the_token_only_grows_and_the_former_holder_is_refused(database: Database) -> None:
    first = claim_task(database)
    changed(database, pid=2**22 + 5)
    second = claim_task(database, "two")

    assert first < second
    refuse(database, second, "two")
    with pytest.raises(
        ToolError, match='lost its claim on task 7: it is claimed by the session "two"'
    ):
        refuse(database, first)

    assert database.writing(lambda: claims.release(database, 7, "two"))
    with pytest.raises(ToolError, match="lost its claim on task 7: it was ended"):
        refuse(database, second, "two")
    assert second + 1 < claim_task(database)


def test_an_expired_lease_is_lost_even_if_unclaimed(database: Database) -> None:
    """A process that was suspended cannot know what happened meanwhile."""
    token = claim_task(database)
    changed(database, expires="2026-01-01T00:00:00.000Z")

    assert not database.writing(lambda: claims.renew(database, 7, "one", token, LEASE))
    with pytest.raises(ToolError, match="its lease ended at 2026-01-01"):
        refuse(database, token)


def test_a_claim_that_no_process_has_held_yet_waits_for_its_first(database: Database) -> None:
    token = claim_task(database)
    database.writing(lambda: claims.hand_over(database, 7, "one"))
    changed(database, expires="2026-01-01T00:00:00.000Z")
    refuse(database, token)

    assert not is_live(database)
    assert database.writing(lambda: claims.renew(database, 7, "one", token, LEASE))
    claim = claims.claim_of(database, 7)
    assert claim is not None
    assert os.getpid() == claim.pid
    assert claims.is_live(claim)


@pytest.mark.parametrize("by", ["task", "session", "token"])
def test_only_the_holder_renews(database: Database, by: str) -> None:
    token = claim_task(database)
    given = {"task": 7, "session": "one", "token": token}
    given[by] = {"task": 8, "session": "two", "token": token + 1}[by]

    assert not database.writing(lambda: claims.renew(database, **given, lease=LEASE))  # type: ignore[arg-type]
    assert database.writing(lambda: claims.renew(database, 7, "one", token, LEASE))


def test_who_closed_its_task_may_write_on_until_another_has_it(database: Database) -> None:
    token = claim_task(database)
    database.writing(lambda: claims.release(database, 7, "one", fence=False))

    assert not is_live(database)
    refuse(database, token)
    database.writing(lambda: claims.take_again(database, 7, "one", token, LEASE))
    assert is_live(database)
    database.writing(lambda: claims.release(database, 7, "one", fence=False))
    claim_task(database, "two")
    database.writing(lambda: claims.take_again(database, 7, "one", token, LEASE))
    with pytest.raises(ToolError, match='claimed by the session "two"'):
        refuse(database, token)


def test_a_task_left_in_progress_by_its_session_is_stale(database: Database) -> None:
    """A task that anybody else set in_progress belongs to them."""

    def stale() -> list[int]:
        return [*claims.stale_tasks(database)]

    database.change("UPDATE tasks SET status = 'in_progress'")
    assert [] == stale()
    claim_task(database)
    changed(database, pid=2**22 + 5)
    assert [] == stale()
    claims.begin(database, 7, in_progress=True)
    assert [7] == stale()
    database.change("UPDATE tasks SET status = 'pending'")
    assert [] == stale()


def test_attempts_count_abandoned_and_counted_sessions(database: Database) -> None:
    def attempts() -> int:
        claim = claims.claim_of(database, 7)
        assert claim is not None
        return claim.attempts

    claim_task(database)
    database.writing(lambda: claims.release(database, 7))
    claim_task(database)
    assert 0 == attempts()
    changed(database, pid=2**22 + 5)
    claim_task(database)
    assert 1 == attempts()
    assert 2 == database.writing(lambda: claims.add_attempt(database, 7))
    database.writing(lambda: claims.forget_attempts(database, 7))
    assert 0 == attempts()


@pytest.mark.parametrize("work", [claims.claims, claims.live_claims, claims.stale_tasks])
def test_a_released_task_is_nobodys(
    database: Database, work: Callable[[Database], dict[int, object]]
) -> None:
    claim_task(database)
    database.writing(lambda: claims.release(database, 7))

    assert {} == work(database)


def test_moments_compare_as_they_follow() -> None:
    assert claims.moment() < claims.moment(0.01) < claims.moment(1) < claims.moment(1e9)
