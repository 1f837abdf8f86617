"""The project that a loop works on: makes sessions, lets agents work in them, says what came."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from ralphgen.agents.agent import BLOCKED, DONE, Agent, AgentLine, LaunchOptions
from ralphgen.agents.launch import SessionEnd, launch_session
from ralphgen.emit.trust import content_items, record_items, untrusted
from ralphgen.errors import ProgramError, ProjectError, RalphgenError
from ralphgen.files import FULL, refuse_full_disk, reserved_space
from ralphgen.ledger.record import blocked_since, last_entry
from ralphgen.loop.run import Assignment, Event, Result, Tell, event
from ralphgen.project.database import is_away
from ralphgen.project.git import branch_in
from ralphgen.project.model import Schema
from ralphgen.project.root import FOLDER, project_home
from ralphgen.project.rows import open_rows
from ralphgen.sessions.claims import NOT_MADE, NothingReadyError, end_claim, keep_claim, next_tasks
from ralphgen.sessions.create import create_session
from ralphgen.sessions.decide import Request
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.store import remove
from ralphgen.worktrees.git import refuse_task_branch

RECIPE, REVIEW = "task_execution", "opus_review"


class ProjectWorkplace:
    """The project's own folder, in which all sessions work."""

    def __init__(
        self,
        root: Path,
        schema: Schema,
        agent: Agent,
        tell: Tell,
        stop: threading.Event,
        *,
        trust_edited: bool,
    ) -> None:
        """Let `agent` work in `root`; `tell` takes what happens, and `stop` ends all sessions."""
        self._root = root
        self._schema = schema
        self._agent = agent
        self._tell = tell
        self._stop = stop
        self._held: list[tuple[PreparedSession, str, str]] = []
        self._trust_edited = trust_edited
        self._reserve: ExitStack | None = None
        self.recorded: list[str] = []
        self._entry = 0  # the newest one of the journal when the loop began

    def merges(self, _worker: int) -> list[tuple[int, str]]:
        """Return nothing: where all work in one tree, nothing is merged."""
        return []

    def is_away(self) -> bool:
        """Return whether the database cannot be reached now; a file is never so."""
        return is_away(self._root)

    def target(self) -> Event:
        """Return the folder in which agents work, and its branch, which is empty if it has none.

        Raises `ProjectError` for a branch that the loop may create for a task.
        """
        branch = branch_in(self._root)
        refuse_task_branch(branch)
        return event("target", branch=branch, folder=str(self._root), merges=False)

    def notes(self) -> list[str]:
        """Return the lines that a loop here begins with."""
        return []

    def begin(self, _tasks: Sequence[int]) -> None:
        """Make the place ready for these tasks; raise `ProjectError` where none could be done."""
        self._entry = last_entry(self._root)

    def left_for_user(self) -> set[int]:
        """Return the tasks that sessions have blocked since the beginning; none if unreadable."""
        with suppress(ProjectError):
            return blocked_since(self._root, self._entry)
        return set()

    def session(self, job: Assignment, worker: int) -> Result:
        """Do one session; raise `NothingReadyError` where there is no task for it."""
        self._return_held(worker)
        session = self._made(job, worker)
        self._reserve = self._reserve or reserved_space(project_home(self._root) / FOLDER)
        try:
            with ExitStack() as held:
                lost = held.enter_context(keep_claim(session.claim))
                end = self._launched(session, job, worker, lost)
                outcome = self._concluded(session, end, worker, held)
        except BaseException:
            self._let_go(session, NOT_MADE, "", worker)
            remove(session.folder)  # nothing runs in it
            raise
        return Result(session.task, outcome, end.usage.cost, end.fault)

    def disk_fault(self, error: RalphgenError) -> ProgramError | None:
        """Return the error of a full disk if that can be why a session was broken off."""
        if FULL.search(str(error)):
            return ProgramError(str(error))
        try:
            refuse_full_disk((project_home(self._root) / FOLDER,))
        except ProgramError as full:
            return full
        return None

    def _concluded(
        self, session: PreparedSession, end: SessionEnd, worker: int, _held: ExitStack
    ) -> str:
        """Let the task of a session go; return what came of it, in a word.

        What agents follow or run, and one whose checks passed has changed, is put on record.
        """
        if end.outcome.word == DONE and (new := untrusted(self._root, content_items(self._root))):
            record_items(self._root, new)
            self.recorded += [os.path.relpath(item.file, self._root) for item in new]
        self._let_go(session, end.outcome.word, end.comment, worker)
        return end.outcome.word

    def _let_go(self, session: PreparedSession, outcome: str, comment: str, worker: int) -> None:
        """Give a task back; where the database is away, as soon as it answers again."""
        try:
            try:
                status = end_claim(session, outcome, comment, reopens=bool(comment))
            except ProjectError:
                if not self._reserve:
                    raise
                self._reserve.close()  # a full disk has room for this now
                self._reserve = None
                status = end_claim(session, outcome, comment, reopens=bool(comment))
            self._say_given_up(session.task, status, outcome, worker)
        except ProjectError as error:  # its lease ends without us
            self._note(worker, f"warning: {error.problems[0].text}")
            if self.is_away():
                self._held.append((session, outcome, comment))

    def _say_given_up(
        self, task: int | None, status: str | None, outcome: str, worker: int
    ) -> None:
        """Name a task that is blocked now, though its agent has left it open."""
        if status == BLOCKED and outcome != BLOCKED:
            self._note(
                worker, f'task {task} is blocked; for the reason, see "ralphgen task show {task}"'
            )

    def _return_held(self, worker: int) -> None:
        """Give the tasks back that nobody could give back; raise `ProjectError` where none can."""
        while self._held:
            with suppress(IndexError):  # another worker was faster
                self._let_go(*self._held.pop(), worker)
            if self._held and self.is_away():
                raise ProjectError("the database cannot be reached")

    def _tree_of(self, _worker: int) -> Callable[[int], Path] | None:
        """Return what makes a work tree ready for a task; None where all work in the project's."""
        return None

    def next_tasks(self) -> list[int]:
        """Return the tasks that can be begun, the next one first."""
        return next_tasks(self._root, self._schema)

    def counts(self) -> dict[str, int]:
        """Return how many tasks are ready, and how many blocked; empty where nobody can say now."""
        try:
            ready = len(self.next_tasks())
            with open_rows(self._root) as rows:
                return {"ready": ready, "blocked": rows.count("blocked")}
        except ProjectError:
            return {}

    def _made(self, job: Assignment, worker: int) -> PreparedSession:
        request = Request(REVIEW) if job.review else Request(RECIPE, next=True, behind=job.behind)
        try:
            session = create_session(
                self._root,
                request,
                say=lambda line: self._note(worker, line),
                ask=lambda _shown: False,  # a person was asked before the first session
                work_tree=None if job.review else self._tree_of(worker),
                trust_edited=self._trust_edited,
                leaves_out=self._agent.leaves_out_settings,
            )
        except NothingReadyError:
            raise
        except RalphgenError as error:  # it is tried again: what is in the way is told
            self._note(worker, f"no session could be created: {error.problems[0].text}")
            raise
        for warning in session.warnings:
            self._note(worker, warning)
        self._tell(
            event(
                "session",
                worker=worker,
                session=session.session_id,
                task=session.task,
                title=self._title(session.task),
            )
        )
        return session

    def _launched(
        self, session: PreparedSession, job: Assignment, worker: int, lost: threading.Event
    ) -> SessionEnd:
        began = time.monotonic()

        def out(line: AgentLine) -> None:
            if line.tool:
                self._tell(event("call", worker=worker, tool=line.tool))

        end = launch_session(
            session,
            self._agent,
            LaunchOptions(session.prompt, printing=True, max_cost=job.cost),
            timeout=job.seconds,
            out=out,
            say=lambda line: self._note(worker, line),
            stop=self._stop,
            lost=lost,
        )
        self._tell(
            event(
                "end",
                worker=worker,
                session=session.session_id,
                task=session.task,
                outcome=end.outcome.word,
                turns=end.usage.turns,
                cost_usd=end.usage.cost,
                changed=None if end.changed is None else list(end.changed),
                checks=dict(end.checks),
                seconds=round(time.monotonic() - began, 3),
            )
        )
        return end

    def _title(self, task: int | None) -> str:
        if task is None:
            return ""
        with suppress(ProjectError), open_rows(self._root) as rows:
            return dict(rows.titles(str(task), 1)).get(task, "")
        return ""

    def _note(self, worker: int, line: str) -> None:
        self._tell(event("note", worker=worker, text=line))
