"""The rows of one merge queue, as its runner reads and writes them; here those of the ledger."""

import os
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ralphgen.errors import plain
from ralphgen.kits.project import Project
from ralphgen.loop.git import Git
from ralphgen.project.database import open_database, opened_database
from ralphgen.runtime.engine.ledger import Evidence, add_evidence, passing_checks
from ralphgen.runtime.tasks import claims, merges
from ralphgen.runtime.tasks.merges import QueuedMerge
from ralphgen.runtime.tasks.status import definition_of
from ralphgen.sessions.claims import may_block, return_work

Check = Mapping[str, Any]
_TASKS = "SELECT id, title, discipline FROM tasks WHERE id IN ({marks})"


class QueuedTask(NamedTuple):
    """What a queue needs of a task."""

    title: str
    discipline: object


class Checked(NamedTuple):
    """The commit that a run checks: its tree, and the commit of the branch that it descends from.

    `members` are the numbers of the entries in it.
    """

    batch: int
    base: str
    head: str
    tree: str
    members: Sequence[int]


class QueueRows(Protocol):
    """The entries, runs and results of the queue of one branch, and the lease of its runner.

    Only the runner with the lease may write. Raises `ProjectError` if the rows cannot be used now.
    """

    is_remote: bool
    """Whether the queue is run on another machine than that of the rows."""

    def waiting(self) -> list[QueuedMerge]:
        """Return the waiting entries, in order."""

    def find(self, numbers: Collection[int], /) -> list[tuple[QueuedMerge, str | None]]:
        """Return entries of any state with the status of their tasks, None without a task."""

    def tasks(self, wanted: Collection[int], /) -> dict[int, QueuedTask]:
        """Return tasks of waiting entries by number."""

    def lead(self) -> bool:
        """Take the lease and end the runs of a killed runner; return False if another has it."""

    def keep(self) -> bool:
        """Renew the lease; return False if another runner has it."""

    def leave(self) -> None:
        """End the lease."""

    def next_batch(self) -> int:
        """Return the number of a new batch, which no other batch has."""

    def proved(self, tree: str, task: int | None, /) -> set[tuple[str, str]]:
        """Return name and definition of the checks that have passed on a tree."""

    def open_run(self, checked: Checked, /) -> int:
        """Record the start of a run; return its number."""

    def close_run(
        self, number: int, checks: Sequence[Check], results: Sequence[Check], *, passed: bool
    ) -> None:
        """Record the end of a run of `checks`; its `results` become evidence."""

    def claim_landing(self, commits: Mapping[int, str], batch: int, /) -> bool:
        """Record by number the merge commits of entries before the branch moves to the last one.

        The entries cannot be dropped then. Returns False if one was dropped already.
        """

    def release_landing(self, numbers: Collection[int], /) -> None:
        """Let entries wait again whose merge commits are not in the branch."""

    def land(self, commits: Mapping[int, str], batch: int | None, /, *, flaky: str = "") -> None:
        """Record by number the commits that merged entries, of a batch if it is known."""

    def send_back(
        self, entry: QueuedMerge, batch: int, why: str, tail: str, *, refused: bool, repeats: bool
    ) -> bool:
        """Return an entry to its task; return False if it waits for the user.

        The task is blocked for work that is `refused`, and at its second failure, which the caller
        may know of: `repeats`. Without blocked tasks, the entry of a second failure waits.
        """

    def note(self, numbers: Collection[int], why: str, /) -> None:
        """Record why entries still wait."""


class LedgerRows:
    """The rows of a queue in the ledger of a project."""

    is_remote = False

    def __init__(self, root: Path, target: str) -> None:
        self._root, self._target = root, target
        self._runner = f"{socket.gethostname()}-{os.getpid()}"
        # A lock of files keeps the other processes of this repository away.
        place = "-".join(filter(None, claims.this_machine())) or socket.gethostname()
        self._owner = f"{place} {Git(root).repository.common}"

    def waiting(self) -> list[QueuedMerge]:
        """Return the waiting entries, in order."""
        with open_database(self._root) as database:
            return merges.waiting(database, self._target)

    def find(self, numbers: Collection[int], /) -> list[tuple[QueuedMerge, str | None]]:
        """Return entries of any state with the status of their tasks, None without a task."""
        with open_database(self._root) as database:
            found = [merges.merge_of(database, number) for number in numbers]
            sql = "SELECT status FROM tasks WHERE id = ?"
            rows = [(one, database.row(sql, [one.task])) for one in found if one is not None]
        return [(one, None if row is None else str(row[0])) for one, row in rows]

    def tasks(self, wanted: Collection[int], /) -> dict[int, QueuedTask]:
        """Return tasks by number."""
        if not wanted:
            return {}
        sql = _TASKS.format(marks=", ".join("?" * len(wanted)))
        with open_database(self._root) as database:
            rows = database.rows(sql, [*wanted])
        return {task: QueuedTask(str(title), discipline) for task, title, discipline in rows}

    def lead(self) -> bool:
        """Take the lease and end the runs of a killed runner; return False if another has it."""

        def work(database: Any) -> bool:
            is_ours = merges.lease_runner(database, self._target, self._owner)
            if is_ours:
                merges.end_stale_runs(database, self._target)
            return is_ours

        return bool(self._write(work))

    def keep(self) -> bool:
        """Renew the lease; return False if another runner has it."""
        return bool(self._write(merges.lease_runner, self._target, self._owner))

    def leave(self) -> None:
        """End the lease."""
        self._write(merges.end_lease, self._target, self._owner)

    def next_batch(self) -> int:
        """Return the number of a new batch, which no other batch has."""
        return int(self._write(merges.next_batch, self._target))

    def proved(self, tree: str, task: int | None, /) -> set[tuple[str, str]]:
        """Return name and definition of the checks that have passed on a tree."""
        with open_database(self._root) as database:
            return passing_checks(database, tree, task)

    def open_run(self, checked: Checked, /) -> int:
        """Record the start of a run; return its number."""
        facts = {**checked._asdict(), "target": self._target, "worker": self._runner}
        return int(self._write(merges.open_run, **facts))

    def close_run(
        self, number: int, checks: Sequence[Check], results: Sequence[Check], *, passed: bool
    ) -> None:
        """Record the end of a run of `checks`; its `results` become evidence."""
        definitions = {one["name"]: definition_of(one) for one in checks}

        def work(database: Any) -> None:
            run = merges.run_of(database, number)
            if run is None or not merges.close_run(database, number, passed=passed):
                return
            for one in results:
                evidence = Evidence(
                    task=None,
                    session=None,
                    check=one["name"],
                    definition=definitions[one["name"]],
                    exit_code=one["exit_code"],
                    started=claims.moment(),
                    seconds=one.get("seconds", 0.0),
                    tree=run.tree,
                    tail=one.get("tail", ""),
                    run=number,
                )
                add_evidence(database, evidence)

        self._write(work)

    def claim_landing(self, commits: Mapping[int, str], batch: int, /) -> bool:
        """Record the merge commits of entries; return False if one was dropped already."""
        return bool(self._write(merges.claim_landing, commits, batch))

    def release_landing(self, numbers: Collection[int], /) -> None:
        """Let entries wait again whose merge commits are not in the branch."""
        self._write(merges.release_landing, numbers)

    def land(self, commits: Mapping[int, str], batch: int | None, /, *, flaky: str = "") -> None:
        """Record by number the commits that merged entries, of a batch if it is known."""

        def work(database: Any) -> None:
            for number, commit in commits.items():
                if (entry := merges.merge_of(database, number)) is not None:
                    merges.finish(database, entry, commit, batch, self._runner, flaky=flaky)

        self._write(work)

    def send_back(
        self, entry: QueuedMerge, batch: int, why: str, tail: str, *, refused: bool, repeats: bool
    ) -> bool:
        """Return an entry to its task; return False if it waits for the user."""
        project = Project(self._root)
        if repeats and not refused and not may_block(project.schema):
            self.note([entry.number], why)
            return False
        reason = f"its work did not merge twice: {plain(why)}" if repeats else ""
        reason = plain(why) if refused else reason
        facts: Any = {"batch": batch, "runner": self._runner, "tail": tail, "reason": reason}
        return_work(project, entry, why, **facts)
        return True

    def note(self, numbers: Collection[int], why: str, /) -> None:
        """Record why entries still wait."""

        def work(database: Any) -> None:
            for number in numbers:
                merges.note_obstacle(database, number, why)

        self._write(work)

    def _write(self, work: Any, *values: Any, **named: Any) -> Any:
        with opened_database(self._root) as database:
            return database.writing(lambda: work(database, *values, **named))
