"""The merge queue in a loop: it runs between sessions, and its events tell what became of work."""

import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from ralphgen.agents.agent import BLOCKED, DONE
from ralphgen.errors import ProgramError, RalphgenError
from ralphgen.loop.merge import Merged
from ralphgen.loop.merges import NOT_MERGED, SHORT, Ended, MergeQueue, words_of
from ralphgen.loop.queued import LedgerRows, QueueRows
from ralphgen.loop.run import PENDING, Event, PushRefusedError, Tell, event
from ralphgen.project.config import LoopConfig
from ralphgen.runtime.tasks.merges import MERGED, RETURNED, WAITING, QueuedMerge


def blocked_note(task: int, worker: int, place: str = "") -> Event:
    """Return the event of a task that is blocked now, though its agent has left it open.

    `place` follows the command that shows the reason, if it works elsewhere.
    """
    text = f'task {task} is blocked; for the reason, see "ralphgen task show {task}"{place}'
    return event("note", worker=worker, text=text, blocked=task)


class LoopQueue:
    """The queue of the branch `target`, as one loop runs it; `error` is why nothing can be merged.

    `rows` are those of the project's ledger, unless they are elsewhere. `recorded` receives the
    files that agents follow or run and whose new content is trusted. The other values are as in
    `MergeQueue`.
    """

    def __init__(
        self,
        root: Path,
        target: str,
        config: LoopConfig,
        tell: Tell,
        *,
        stop: threading.Event,
        recorded: list[str],
        rows: QueueRows | None = None,
        allow_failing_base: bool = False,
        trust_edited: bool = False,
    ) -> None:
        self._rows: QueueRows = rows or LedgerRows(root, target)
        self._place = "" if rows is None else " on the server"
        self._tell, self._stop, self._recorded = tell, stop, recorded
        self.queue = MergeQueue(
            *(root, target, config, partial(self._note, 0)),
            rows=self._rows,
            ended=self._end,
            stop=stop,
            allow_failing_base=allow_failing_base,
            trust_edited=trust_edited,
        )
        self.error: RalphgenError | None = None
        self._entered: dict[int, int] = {}  # by entry of this loop that waits: its worker
        self._reported = set[int]()  # entries that have ended, perhaps before this loop noted them
        self._obstacles: dict[int, str] = {}  # by entry: the last reported reason to wait
        self._ended: list[tuple[int, str]] = []  # tasks whose entries ended, with their outcome

    def enter(self, number: int, worker: int = 0) -> None:
        """Take note of an entry of this loop, whose end the loop reports."""
        if number not in self._reported:
            self._entered[number] = worker
        self.queue.obstacle = ""

    def waiting_tasks(self) -> set[int]:
        """Return the tasks whose work waits here; none if the queue cannot be read.

        Work that only another machine has is merged there.
        """
        with suppress(RalphgenError):
            here = filter(self.queue.has, self.queue.waiting())
            return {one.task for one in here if one.task is not None}
        return set()

    def is_merging(self) -> bool:
        """Return whether work waits to be merged, and nothing prevents that now."""
        if self.error is not None or self.queue.obstacle or self._stop.is_set():
            return False
        with suppress(RalphgenError):
            return bool(self.queue.waiting())
        return False

    def merge_waiting(self) -> list[tuple[int, str]]:
        """Merge what waits; return the outcome of each task whose entry ended.

        Another process may run the queue. Raises `ProgramError` and `PushRefusedError` for an error
        that prevents further merges.
        """
        self._ended = []
        if self.error is not None or not (self._entered or self.queue.waiting()):
            return []
        try:
            self.queue.empty()
        except (ProgramError, PushRefusedError) as error:
            self.error = error
            raise
        finally:
            self._report_others()
        return self._ended

    def _report_others(self) -> None:
        """Report why entries wait, and entries of this loop that another process ended."""
        for entry in self.queue.waiting():
            if entry.reason:
                self._report_obstacle(entry, entry.reason)
        for entry, _ in self._rows.find([*self._entered]):
            if entry.state != WAITING:
                text = f"as {entry.merged[:SHORT]}" if entry.merged else entry.reason or ""
                word = {MERGED: DONE, RETURNED: NOT_MERGED}.get(entry.state, entry.state)
                self._report(entry, word, text, entry.merged)

    def _report_obstacle(self, entry: QueuedMerge, reason: str) -> None:
        """Report once why an entry still waits."""
        if self._obstacles.get(entry.number) != reason:
            self._obstacles[entry.number] = reason
            facts = {"task": entry.task, "session": entry.session, "commit": None}
            worker = self._entered.get(entry.number, 0)
            self._tell(event("merge", worker=worker, **facts, outcome=PENDING, text=reason))

    def _end(self, entry: QueuedMerge, outcome: Ended) -> None:
        """Report an entry that this process merged or returned."""
        merged = isinstance(outcome, Merged)
        self._recorded += outcome.recorded if isinstance(outcome, Merged) else ()
        commit = outcome.commit if isinstance(outcome, Merged) else None
        self._report(entry, DONE if merged else NOT_MERGED, words_of(outcome)[0], commit)

    def _report(self, entry: QueuedMerge, outcome: str, text: str, commit: str | None) -> None:
        self._reported.add(entry.number)
        worker = self._entered.pop(entry.number, 0)
        if entry.task is not None:
            self._ended.append((entry.task, outcome))
        word = "merged" if outcome == DONE else outcome
        facts = {"worker": worker, "task": entry.task, "session": entry.session}
        self._tell(event("merge", **facts, outcome=word, text=text, commit=commit))
        if outcome == NOT_MERGED and entry.task is not None:
            for _, status in self._rows.find([entry.number]):
                if status == BLOCKED:
                    self._tell(blocked_note(entry.task, worker, self._place))

    def _note(self, worker: int, line: str) -> None:
        self._tell(event("note", worker=worker, text=line))
