"""Many processes want tasks at once, and some are killed: one winner each, none forgotten."""

import os
import random
import re
import select
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Timer
from typing import TypeVar

import pytest
from driving import query
from engines import ENGINES
from held_tasks import held_on, held_project, leave
from held_tasks import row as claim_row

from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.project.database import LockedError
from ralphgen.project.root import DATABASE
from ralphgen.runtime.engine import PATIENCE as WAITS
from ralphgen.sessions.claims import (
    ClaimedError,
    NothingReadyError,
    claim_next,
    claim_task,
    nothing_ready,
    release_claim,
)
from ralphgen.sessions.decide import Request
from ralphgen.sessions.model import TaskClaim

pytestmark = pytest.mark.slow
Result = TypeVar("Result")
CHANCE = random.SystemRandom()
RACERS, TASKS = 64, 8
READY_TASK = (
    "INSERT INTO tasks (id, feature, discipline, title, status) "
    "VALUES (?, 'auth', 'backend', 'T', 'pending')"
)
ROUNDS = [pytest.param(2, id="2"), pytest.param(100, marks=pytest.mark.soak, id="100")]
CROWDS = [
    pytest.param(10, 30, id="10 over 30"),
    pytest.param(50, 200, marks=pytest.mark.soak, id="50 over 200"),
]
PATIENCE = 300


class Racer:
    """A forked process that waits for the start, runs, and answers with a line."""

    def __init__(self, start: int, work: Callable[[], str]) -> None:
        self._answer, told = os.pipe()
        self.stay, end = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(end)
            os.read(start, 1)
            try:
                os.write(told, work().encode())
                os.read(self.stay, 1)  # the holder of a task lives until all have tried
            finally:
                os._exit(0)
        os.close(told)
        os.close(self.stay)
        self._end = end

    def answer(self) -> str:
        """Return its answer, empty if it was killed before."""
        ready, _, _ = select.select([self._answer], [], [], PATIENCE)
        assert ready
        return os.read(self._answer, 1000).decode()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        os.close(self._end)
        os.close(self._answer)


@contextmanager
def racing(works: Sequence[Callable[[], str]]) -> Iterator[list[Racer]]:
    """Racers that have been started all at once."""
    start, go = os.pipe()
    racers = [Racer(start, work) for work in works]
    os.write(go, b"x" * len(works))
    try:
        yield racers
    finally:
        os.close(go)
        os.close(start)
        for racer in racers:  # all, before one is waited for: later ones have the former's pipes
            racer.close()
        for racer in racers:
            os.waitpid(racer.pid, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return held_project(tmp_path / "p", "[loop]\nattempts = 1000\n")


def inspected(root: Path) -> Project:
    """A project that reads nothing more in a race."""
    project = Project(root)
    assert project.schema
    assert project.settings
    return project


@pytest.fixture
def project(root: Path) -> Project:
    return inspected(root)


def race_for(project: Project, number: int) -> str:
    """Try to claim task 2; return the token, or "held" if another session has it."""
    try:
        claim = claim_task(project, f"s{number}-{os.getpid()}", 2)
    except ClaimedError:
        return "held"
    assert claim is not None
    return str(claim.token)


def row(root: Path) -> tuple[str, int]:
    (found,) = query(root, "SELECT session, token FROM ralphgen_claims WHERE task_id = 2")
    return found


@pytest.mark.parametrize("kills", [False, True], ids=["all live", "some are killed"])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_one_of_many_takes_a_task_and_the_next_once_it_is_gone(
    root: Path, project: Project, rounds: int, *, kills: bool
) -> None:
    seen: set[str] = set()
    for _ in range(rounds):
        works = [(lambda number=number: race_for(project, number)) for number in range(RACERS)]
        with racing(works) as racers:
            dead = CHANCE.sample(racers, RACERS // 3) if kills else []
            for racer in dead:
                time.sleep(CHANCE.random() / 100)
                racer.kill()
            answers = {racer: racer.answer() for racer in racers}
            tokens = [answer for answer in answers.values() if answer not in ("held", "")]
            living = [
                racer for racer, answer in answers.items() if racer not in dead and answer in tokens
            ]
            assert len(set(tokens)) == len(tokens)
            assert not seen & set(tokens)
            assert len(living) <= 1
            assert kills or 1 == len(living)
            session, token = row(root)
            if living:
                assert answers[living[0]] == str(token)
                assert session.endswith(f"-{living[0].pid}")
                assert "held" == race_for(project, 99)
            seen |= set(tokens)
        again = claim_task(project, "parent", 2)  # all of them are gone
        assert again is not None
        assert again.token > token
        seen.add(str(again.token))
        release_claim(again, "rate limited")


def race_on(end: socket.socket, project: Project) -> None:
    """Take one of the tasks in each round that is announced, and let it go when the round ends."""
    while end.recv(1):
        claim = patient(lambda: any_claim(project))
        end.sendall(f"{claim.task} {claim.token}".encode() if claim else b"none")
        end.recv(1)
        if claim is not None:
            patient(partial(release_claim, claim, "rate limited"))
        end.sendall(b"!")


def any_claim(project: Project) -> TaskClaim | None:
    try:
        return claim_next(project, Request("task_execution", next=True))
    except NothingReadyError:
        return None


def patient(work: Callable[[], Result]) -> Result:
    """Do a thing again if the database is locked for long: all racers want it on few cores."""
    while True:
        try:
            return work()
        except ProjectError as error:
            if "database is busy" not in str(error):
                raise


@contextmanager
def racers_on(project: Project) -> Iterator[list[socket.socket]]:
    """Processes that start once and race in many rounds."""
    ends: list[socket.socket] = []
    pids = []
    for _ in range(RACERS):
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE)
        pid = os.fork()
        if not pid:
            try:
                for end in (*ends, ours):  # else none would see that we are gone
                    end.close()
                race_on(theirs, project)
            except BaseException as error:  # noqa: BLE001 - the test shows it as the answer
                theirs.sendall(repr(error).encode())
            finally:
                os._exit(0)
        theirs.close()
        pids.append(pid)
        ends.append(ours)
    try:
        yield ends
    finally:
        for end in ends:
            end.close()
        for pid in pids:
            os.waitpid(pid, 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_each_of_eight_tasks_has_one_winner_in_each_round(
    tmp_path: Path, engine: str, rounds: int
) -> None:
    with held_on(engine, tmp_path / "p", "[loop]\nattempts = 1000\n") as root:
        if engine == "sqlite":
            query(root, "PRAGMA journal_mode = wal")  # like init
        query(root, "DELETE FROM tasks")
        for task in range(1, TASKS + 1):
            query(root, READY_TASK, task)
        project, before = inspected(root), 0
        with racers_on(project) as racers:
            for _ in range(rounds):
                for end in racers:
                    end.sendall(b"!")
                answers = [end.recv(1000).decode() for end in racers]
                assert [] == [one for one in answers if not re.fullmatch(r"none|\d+ \d+", one)]
                won = [tuple(map(int, one.split())) for one in answers if one != "none"]
                held = query(
                    root,
                    "SELECT task_id, token FROM ralphgen_claims WHERE session IS NOT NULL "
                    "ORDER BY task_id",
                )
                for end in racers:
                    end.sendall(b"!")
                assert [b"!"] * RACERS == [end.recv(1) for end in racers]

                assert [*range(1, TASKS + 1)] == [task for task, _ in sorted(won)]
                assert held == sorted(won)
                assert before < min(token for _, token in won)
                before += 1
        assert [("pending", TASKS)] == query(
            root, "SELECT status, count(*) FROM tasks GROUP BY status"
        )


def lock(root: Path, kept: list[sqlite3.Connection]) -> str:
    """Lock the database for as long as the process lives."""
    kept.append(sqlite3.connect(root / DATABASE, isolation_level=None))
    kept[0].execute("BEGIN EXCLUSIVE")
    return "locked"


def test_nothing_is_ready_while_a_writer_hides_the_reason(root: Path) -> None:
    with racing([partial(lock, root, [])]) as (writer,):
        assert "locked" == writer.answer()
        error = nothing_ready(Project(root), Request("task_execution", next=True))

    assert ("no task is ready", 8) == (error.problems[0].text, error.exit_code)


def work_on_all(project: Project) -> str:
    """Take one task after the other and close it, until nothing is ready; return how many."""
    count = 0
    while True:
        try:
            claim = claim_next(project, Request("task_execution", next=True))
        except NothingReadyError:
            return str(count)
        count += close(claim)


def close(claim: TaskClaim) -> int:
    """Close a task as its server would: fenced, and on record."""
    with closing(
        sqlite3.connect(claim.root / DATABASE, timeout=60, isolation_level=None)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        held = connection.execute(
            "SELECT 1 FROM ralphgen_claims WHERE task_id = ? AND session = ? AND token = ?",
            [claim.task, claim.session_id, claim.token],
        ).fetchone()
        assert held
        connection.execute("UPDATE tasks SET status = 'done' WHERE id = ?", [claim.task])
        connection.execute("INSERT INTO worked VALUES (?, ?)", [claim.task, claim.session_id])
        connection.execute(
            "UPDATE ralphgen_claims SET session = NULL WHERE task_id = ?", [claim.task]
        )
        connection.execute("COMMIT")
    return 1


def many_tasks(root: Path, count: int) -> None:
    with closing(sqlite3.connect(root / DATABASE)) as connection, connection:
        connection.execute("DELETE FROM tasks")
        connection.execute("CREATE TABLE worked (task, session)")
        connection.executemany(
            "INSERT INTO tasks (id, feature, discipline, title, status) "
            "VALUES (?, 'auth', 'backend', 'T', 'pending')",
            [(number,) for number in range(1, count + 1)],
        )


@pytest.mark.parametrize("kills", [False, True], ids=["all live", "some are killed"])
@pytest.mark.parametrize(("workers", "tasks"), CROWDS)
def test_a_crowd_does_each_task_once(root: Path, workers: int, tasks: int, *, kills: bool) -> None:
    many_tasks(root, tasks)
    project = inspected(root)
    with racing([lambda: work_on_all(project)] * workers) as racers:
        for racer in CHANCE.sample(racers, workers // 3) if kills else []:
            time.sleep(CHANCE.random() / 10)
            racer.kill()
        for racer in racers:
            racer.answer()
    work_on_all(project)  # tasks of killed workers are free immediately

    assert [(task,) for task in range(1, tasks + 1)] == query(
        root, "SELECT task FROM worked ORDER BY task"
    )
    assert [(tasks,)] == query(root, "SELECT count(*) FROM tasks WHERE status = 'done'")


def test_a_clock_that_goes_ahead_takes_a_task_early_and_the_former_holder_is_fenced(
    root: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host may think that a lease has ended: two sessions never write, with any clocks."""
    first = claim_task(project, "here", 2)
    query(root, "UPDATE ralphgen_claims SET host = 'elsewhere'")
    ahead = time.time() + 3600
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: ahead)
        second = claim_task(project, "there", 2)
    assert first is not None
    assert second is not None

    assert first.token < second.token
    assert release_claim(first, "open") == "pending"
    assert ("there", second.token) == row(root)


@pytest.mark.thorough
def test_a_task_whose_release_meets_a_locked_database_is_taken_over_later(tmp_path: Path) -> None:
    """Otherwise, it would stay in progress without a claim, and no session would ever take it."""
    root = held_project(tmp_path / "p")
    claim = claim_next(Project(root), Request("task_execution", next=True))
    query(root, "UPDATE tasks SET status = 'in_progress' WHERE id = ?", claim.task)
    query(root, "UPDATE ralphgen_claims SET began = taken WHERE task_id = ?", claim.task)
    writer = sqlite3.connect(root / DATABASE, isolation_level=None, check_same_thread=False)
    with closing(writer):
        writer.execute("BEGIN IMMEDIATE")
        longer = Timer(WAITS + 1, writer.rollback)  # free again for a second attempt
        longer.start()
        with pytest.raises(LockedError, match="the database is busy"):
            release_claim(claim, "failed")
        longer.join()
    assert claim.session_id == claim_row(root, claim.task)[0]
    leave(root, claim.task)
    again = claim_next(Project(root), Request("task_execution", next=True))
    assert claim.task == again.task
