"""Calls renew a token's claim, without a process, and only while it is its own."""

from pathlib import Path
from threading import Event
from typing import Any

from driving import query
from held_tasks import held_project
from lifelines import PATIENCE, until

from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.http.sessions import Lease
from ralphgen.runtime.tasks import claims

PAST = "2020-02-10T00:00:00.000Z"


def claim(root: Path) -> tuple[Any, ...]:
    (found,) = query(root, "SELECT session, token, pid, expires FROM ralphgen_claims")
    return found


def test_a_call_renews_a_claim_that_no_process_holds_and_none_that_was_lost(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    path = str(root / ".ralph/db/ralph.db")
    database = Database(path)
    token = database.writing(lambda: claims.take(database, 2, "mine", 60))
    database.writing(lambda: claims.hand_over(database, 2, "mine"))
    told = {"tsk": 2, "jti": "mine", "cla": token, "lea": 60}
    query(root, f"UPDATE ralphgen_claims SET expires = '{PAST}'")
    lease = Lease(lambda: Database(path), told)
    lease.used()

    assert until(lambda: claim(root)[:3] == ("mine", token, None) and claim(root)[3] > PAST)

    query(root, f"UPDATE ralphgen_claims SET expires = '{PAST}'")
    lease.used()  # before a third of it is over
    database.writing(lambda: claims.take(database, 2, "other", 60))
    before = claim(root)
    closed = Event()

    class Watched(Database):
        def close(self) -> None:
            super().close()
            closed.set()

    Lease(lambda: Watched(path), told).used()

    assert closed.wait(PATIENCE)
    assert before == claim(root)
    database.close()
