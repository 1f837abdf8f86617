"""The places that a loop works in: the project's own directory, or worktrees for its tasks.

A place creates sessions, lets agents work in them, and ends or merges their work.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ralphgen.agents.agent import (
    BLOCKED,
    DONE,
    NOTHING_USED,
    OUT_OF_BUDGET,
    OUT_OF_TIME,
    STOPPED,
    Agent,
    AgentLine,
    LaunchOptions,
    Outcome,
)
from ralphgen.agents.launch import SessionEnd, close_record, launch_session, record_estimate
from ralphgen.agents.sandbox import current_rules, current_sandbox
from ralphgen.emit.trust import TrustItem, content_items, record_items, untrusted
from ralphgen.errors import ProgramError, ProjectError, RalphgenError
from ralphgen.exchange.branch import keep_rows
from ralphgen.files import FULL, refuse_full_disk, reserved_space
from ralphgen.kits.project import Project
from ralphgen.ledger.record import blocked_since, cost_of_task, last_entry
from ralphgen.loop.cost import HourlyRates, cost_words
from ralphgen.loop.git import Git, base_branch, refuse_task_branch, skipped_hooks
from ralphgen.loop.kept import KEEPS, keep_work, start_from_kept_work
from ralphgen.loop.merge import (
    foreign_commits,
    refuse_missing_script,
    refuse_uncommittable,
    refuse_unmergeable,
)
from ralphgen.loop.merges import (
    NOT_MERGED,
    enter_session,
    enter_unqueued_work,
    give_back,
    words_of,
)
from ralphgen.loop.merging import LoopQueue, blocked_note
from ralphgen.loop.run import (
    LEAST,
    PENDING,
    Assignment,
    Event,
    Result,
    Tell,
    event,
)
from ralphgen.loop.trees import (
    Worktree,
    create_target,
    free_number,
    landing,
    prepare,
    refuse_target,
)
from ralphgen.project.database import is_away, opened_database
from ralphgen.project.git import branch_in
from ralphgen.project.root import FOLDER, project_home
from ralphgen.project.schema import open_rows
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.tasks.claims import live_claims
from ralphgen.runtime.tasks.merges import MOST_WAITING
from ralphgen.sessions.claims import (
    ASKED,
    INTERRUPTED,
    NO_ATTEMPT,
    NOT_MADE,
    RUN_ENDED,
    NothingReadyError,
    end_claim,
    keep_claim,
    next_tasks,
)
from ralphgen.sessions.create import create_session, project_items
from ralphgen.sessions.decide import Request
from ralphgen.sessions.model import PreparedSession, TaskClaim
from ralphgen.sessions.questions import open_questions
from ralphgen.sessions.store import remove

RECIPE, REVIEW = "task_execution", "opus_review"
NOT_COUNTED = (*NO_ATTEMPT, STOPPED)  # outcomes of sessions whose unknown cost does not count


class ProjectWorkplace:
    """The project's own folder, where all sessions work."""

    def __init__(
        self,
        project: Project,
        agents: Sequence[Agent],
        tell: Tell,
        stop: threading.Event,
        *,
        trust_edited: bool,
        max_task_cost: float | None = None,
    ) -> None:
        """Let `agents` work in the project; `tell` takes events, and `stop` ends all sessions.

        With `max_task_cost`, all sessions of a task together may cost that many US dollars.
        """
        self._project = project
        self._root = project.root
        self._agents = {one.name: one for one in agents}
        self._tell = tell
        self._stop = stop
        self._unreleased: list[tuple[PreparedSession, str, str]] = []
        self._trust_edited = trust_edited
        self._reserve: ExitStack | None = None
        self.recorded: list[str] = []
        self._max_task_cost = max_task_cost
        self._unreported: dict[int, float] = {}  # shares of sessions whose cost is unknown, by task
        self._rates = HourlyRates(project.settings.launch.cost_per_hour)
        self._shares = project.settings.loop.remote is not None
        self._entry = 0  # the newest one of the journal when the loop began

    def trust_items(self) -> list[TrustItem]:
        """Return the items that every session here requires."""
        return project_items(self._root)

    def merge_waiting(self) -> list[tuple[int, str]]:
        """Return nothing: in a shared tree, nothing is merged."""
        return []

    def is_merging(self) -> bool:
        """Return whether work waits to be merged: never in a shared tree."""
        return False

    def is_away(self) -> bool:
        """Return whether the database cannot be reached now; a file is never so."""
        return is_away(self._root)

    def target(self) -> Event:
        """Return the agents' folder, and its branch, which may be empty.

        Raises `ProjectError` for a branch that the loop may create for a task.
        """
        branch = branch_in(self._root)
        refuse_task_branch(branch)
        return event("target", branch=branch, folder=str(self._root), merges=False)

    def notes(self) -> list[str]:
        """Return the lines that a loop here begins with."""
        return []

    def begin(self, _tasks: Sequence[int]) -> None:
        """Prepare the place for these tasks; raise `ProjectError` if no task could be done."""
        self._entry = last_entry(self._root)

    def tasks_for_user(self) -> set[int]:
        """Return the tasks that sessions have blocked since the beginning, or with open questions.

        Return none if the database is unreadable.
        """
        found = set[int]()
        with suppress(ProjectError):
            found |= blocked_since(self._root, self._entry)
        with suppress(ProjectError):
            found.update(one.task for one in open_questions(self._root))
        return found

    def session(self, job: Assignment, worker: int) -> Result:
        """Run one session; raise `NothingReadyError` if there is no task for it."""
        self._release_rest(worker)
        session = self._prepare_session(job, worker)
        job.begins()
        self._reserve = self._reserve or reserved_space(project_home(self._root) / FOLDER)
        try:
            if self._used_up(session.task):
                self._release(session, OUT_OF_BUDGET.word, "", worker)
                close_record(
                    session, OUT_OF_BUDGET, NOTHING_USED, "", self._worker_reporter(worker)
                )
                remove(session.folder)
                return Result(session.task, BLOCKED, 0.0)
            job = replace(job, cost=self._cost(session.task, job.cost))
            with ExitStack() as held:
                lost = held.enter_context(keep_claim(session.claim))
                end, estimate = self._launched(session, job, worker, lost)
                end = self._of_run(end, job)
                if estimate is None:
                    self._count_share(session.task, end, job.cost)
                outcome = self._concluded(session, end, worker, held)
        except BaseException:
            self._release(session, NOT_MADE, "", worker)
            remove(session.folder)  # nothing runs in it
            raise
        keep_rows(self._root, partial(self._note, worker), syncs=self._shares and outcome == DONE)
        return Result(
            *(session.task, outcome, end.usage.cost, end.fault, end.limit, end.unavailable),
            estimate=estimate,
        )

    def _of_run(self, end: SessionEnd, job: Assignment) -> SessionEnd:
        """Return the end of a session, with another outcome if the end of the run caused it."""
        word = end.outcome.word
        if word == OUT_OF_TIME and job.ends_run:
            word = RUN_ENDED
        elif word == STOPPED and self._stop.is_set():
            word = INTERRUPTED
        return replace(end, outcome=Outcome(word, end.outcome.exit_code))

    def _cost(self, task: int | None, share: float | None) -> float | None:
        """Return the budget of a session: its share, but at most the rest of its task's budget."""
        if task is None or self._max_task_cost is None:
            return share
        left = max(self._max_task_cost - sum(self._spent_on(task)), 0.0)
        return left if share is None else min(share, left)

    def _spent_on(self, task: int) -> tuple[float, float]:
        """Return the reported cost of a task's sessions, and the charge for the others."""
        known, estimated = cost_of_task(self._root, task, NOT_COUNTED)
        return known or 0.0, (estimated or 0.0) + self._unreported.get(task, 0.0)

    def _count_share(self, task: int | None, end: SessionEnd, share: float | None) -> None:
        """Count the share of the budget of a session whose cost is unknown.

        A session that a limit or the user ended must not use up the budget of its task.
        """
        if task is not None and end.usage.cost is None and end.outcome.word not in NOT_COUNTED:
            self._unreported[task] = self._unreported.get(task, 0.0) + (share or 0.0)

    def _used_up(self, task: int | None) -> str:
        """Return the reason why the budget of a task is used up, empty if it is not."""
        if task is None or self._max_task_cost is None:
            return ""
        known, charged = self._spent_on(task)
        if self._max_task_cost - known - charged >= LEAST:
            return ""
        spent = cost_words(known, charged or None)
        return f"its sessions used up {spent} of --max-task-cost {self._max_task_cost:g}"

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
        """Release the task of a session; return the outcome in a word.

        If its checks passed, changed files that agents follow or run are recorded as trusted.
        """
        if end.outcome.word == DONE and (new := untrusted(self._root, content_items(self._root))):
            record_items(self._root, new)
            self.recorded += [os.path.relpath(item.file, self._root) for item in new]
        self._release(session, end.outcome.word, end.comment, worker)
        return end.outcome.word

    def _release(self, session: PreparedSession, outcome: str, comment: str, worker: int) -> None:
        """Release a task; without a database connection, as soon as it responds again."""
        try:
            reason = self._used_up(session.task)
            end = partial(
                end_claim, session, outcome, comment, reopens=bool(comment), reason=reason
            )
            try:
                status = end()
            except ProjectError:
                if not self._reserve:
                    raise
                self._reserve.close()  # a full disk has room for this now
                self._reserve = None
                status = end()
            self._say_given_up(session.task, status, outcome, worker)
        except ProjectError as error:  # its lease expires
            self._note(worker, f"warning: {error.problems[0].text}")
            if self.is_away():
                self._unreleased.append((session, outcome, comment))

    def _say_given_up(
        self, task: int | None, status: str | None, outcome: str, worker: int
    ) -> None:
        """Name a task that is blocked now, though its agent has left it open."""
        if task is not None and status == BLOCKED and outcome not in (BLOCKED, ASKED):
            self._tell(blocked_note(task, worker))

    def _release_rest(self, worker: int) -> None:
        """Release the tasks that could not be released earlier; raise `ProjectError` on failure."""
        while self._unreleased:
            with suppress(IndexError):  # another worker was faster
                self._release(*self._unreleased.pop(), worker)
            if self._unreleased and self.is_away():
                raise ProjectError("the database cannot be reached")

    def _tree_of(self, _job: Assignment, _worker: int) -> Callable[[int, str], Path] | None:
        """Return a function that prepares a task's worktree; None if sessions share the tree."""
        return None

    def next_tasks(self) -> list[int]:
        """Return the tasks that can be begun, the next one first."""
        return next_tasks(self._root, self._project.schema)

    def counts(self) -> dict[str, int]:
        """Return the numbers of ready and blocked tasks; empty if they are unknown now."""
        try:
            ready = len(self.next_tasks())
            with open_rows(self._root) as rows:
                return {"ready": ready, "blocked": rows.count("blocked")}
        except ProjectError:
            return {}

    def _prepare_session(self, job: Assignment, worker: int) -> PreparedSession:
        request = Request(REVIEW) if job.review else Request(RECIPE, next=True, behind=job.behind)
        try:
            session = create_session(
                self._root,
                request,
                say=self._worker_reporter(worker),
                ask=lambda _shown: False,  # the user was asked before the first session
                work_tree=None if job.review else self._tree_of(job, worker),
                trust_edited=self._trust_edited,
                leaves_out=self._agents[job.agent].leaves_out_settings,
                sandbox=current_rules(),
            )
        except NothingReadyError:
            raise
        except RalphgenError as error:  # it is retried; the obstacle is reported
            self._note(worker, f"no session could be created: {error.problems[0].text}")
            raise
        for warning in session.warnings:
            self._note(worker, warning)
        return session

    def _launched(
        self, session: PreparedSession, job: Assignment, worker: int, lost: threading.Event
    ) -> tuple[SessionEnd, float | None]:
        """Run the agent of a session; return its end, and its cost if that is estimated."""
        self._tell(
            event(
                "session",
                worker=worker,
                session=session.session_id,
                task=session.task,
                agent=job.agent,
                title=self._title(session.task),
            )
        )
        began = time.monotonic()

        def out(line: AgentLine) -> None:
            if line.tool:
                self._tell(event("call", worker=worker, tool=line.tool))

        end = launch_session(
            session,
            self._agents[job.agent],
            LaunchOptions(self._prompt(session, worker), printing=True, max_cost=job.cost),
            timeout=job.seconds,
            out=out,
            say=self._worker_reporter(worker),
            stop=self._stop,
            lost=lost,
            sandbox=current_sandbox(),
        )
        seconds = time.monotonic() - began
        estimate = self._rates.estimate(job.agent, end.usage.cost, seconds)
        if estimate is not None:
            record_estimate(session, estimate, self._worker_reporter(worker))
        self._tell(
            event(
                "end",
                worker=worker,
                session=session.session_id,
                task=session.task,
                outcome=end.outcome.word,
                turns=end.usage.turns,
                cost_usd=end.usage.cost,
                estimated_usd=estimate,
                changed=None if end.changed is None else list(end.changed),
                checks=dict(end.checks),
                seconds=round(seconds, 3),
            )
        )
        if end.question is not None:
            self._tell(event("question", task=session.task, question=end.question))
        return end, estimate

    def _prompt(self, session: PreparedSession, _worker: int) -> str:
        return session.prompt

    def _title(self, task: int | None) -> str:
        if task is None:
            return ""
        with suppress(ProjectError), open_rows(self._root) as rows:
            return dict(rows.titles(str(task), 1)).get(task, "")
        return ""

    def _note(self, worker: int, line: str) -> None:
        self._tell(event("note", worker=worker, text=line))

    def _worker_reporter(self, worker: int) -> Callable[[str], None]:
        return partial(self._note, worker)


KINDS = dict.fromkeys(("post-checkout", "post-merge"), "a setup of [loop]")
MESSAGE_HOOKS = ("commit-msg", "prepare-commit-msg")
SHOWN = 5  # foreign commits that one line names


class TreeWorkplace(ProjectWorkplace):
    """Worktrees below the project's `.ralph`: one for each worker, and one for merges."""

    def __init__(
        self,
        *places: Any,
        workers: int,
        allow_failing_base: bool = False,
        onto: str = "",
        **options: Any,
    ) -> None:
        """Work as in a project, with so many workers.

        With `allow_failing_base`, tasks start even if a check fails on the base branch. `onto` is
        the branch to merge into, without it the branch that is checked out.
        """
        super().__init__(*places, **options)
        self._onto = onto
        self._allow_failing_base = allow_failing_base
        self._workers = workers
        self._numbers: list[int] = []  # of the workers' work trees
        self._locks = ExitStack()  # on these numbers, as long as we are
        self._trees: dict[int, Worktree] = {}
        self._starts: dict[int, str] = {}  # by worker: a text about the kept work in its tree
        self._merging: LoopQueue
        self._noticing = threading.Lock()
        self._seen = ""  # foreign commits are reported up to this commit of the base branch
        self._is_checked = True  # whether the checks have passed on these
        self._tasks: Sequence[int] = ()

    def target(self) -> Event:
        """Return the branch that work is merged into; raise `ProjectError` if there is none."""
        if self._onto:
            refuse_target(self._root, self._onto)
        branch = base_branch(self._root, self._onto)
        return event("target", branch=branch, folder=str(self._root), merges=True)

    def notes(self) -> list[str]:
        """Return the hooks of the repository that do not run, with replacements for each."""
        hooks = skipped_hooks(self._root)
        notes = [
            f"note: hook {name} does not run in the loop; make it {KINDS.get(name, 'a check')}"
            for name in hooks
        ]
        if self._project.settings.loop.message is None and not {*hooks}.isdisjoint(MESSAGE_HOOKS):
            notes.append('note: "message" of [loop] sets the message of its commits')
        return notes

    def begin(self, tasks: Sequence[int]) -> None:
        """Look whether the base can be merged into, and passes the checks of the tasks."""
        super().begin(tasks)
        if self._onto:
            create_target(self._root, self._onto)
        base = refuse_unmergeable(self._root, self._project.settings.loop, self._onto)
        self._refuse_second_machine()
        refuse_uncommittable(self._root, base, self._project.settings.loop)
        for _ in range(self._workers):
            self._numbers.append(self._locks.enter_context(free_number(self._root)))
        self._merging = self._queue_of(base)
        for number in enter_unqueued_work(
            self._root, self._project.settings.loop, self._worker_reporter(0), self._onto
        ):
            self._merging.enter(number)
        self._tasks = tasks
        self._seen = Git(self._root).say("rev-parse", f"refs/heads/{base}")
        if tasks:
            self._refuse_red(tasks)
            for agent in self._agents.values():
                refuse_missing_script(self._root, agent.script)

    def tasks_for_user(self) -> set[int]:
        """Return the tasks that this loop has blocked, and those whose merge is pending."""
        return super().tasks_for_user() | self._merging.waiting_tasks()

    def is_merging(self) -> bool:
        """Return whether work waits to be merged, and nothing prevents that now."""
        return self._merging.is_merging()

    def merge_waiting(self) -> list[tuple[int, str]]:
        """Merge what waits, as `LoopQueue.merge_waiting`."""
        return self._merging.merge_waiting()

    def _queue_of(self, base: str) -> LoopQueue:
        return LoopQueue(
            self._root,
            base,
            self._project.settings.loop,
            self._tell,
            stop=self._stop,
            recorded=self.recorded,
            allow_failing_base=self._allow_failing_base,
            trust_edited=self._trust_edited,
        )

    def session(self, job: Assignment, worker: int) -> Result:
        """Run one session, as in a project; raise the error that prevents merges."""
        if self._merging.error is not None:
            raise self._merging.error
        if len(self._merging.queue.waiting()) >= MOST_WAITING:
            raise NothingReadyError(f"{MOST_WAITING} tasks wait to be merged")
        result = super().session(job, worker)
        return replace(result, error=self._merging.error or result.error)

    def _tree_of(self, job: Assignment, worker: int) -> Callable[[int, str], Path]:
        def tree(task: int, session: str) -> Path:
            job.begins()  # before a setup, which may take minutes
            number, told = self._numbers[worker - 1], self._worker_reporter(worker)
            config, stop = self._project.settings.loop, self._stop
            self._trees[worker] = prepare(self._root, number, task, config, told, stop, self._onto)
            self._starts[worker] = start_from_kept_work(
                self._root, self._trees[worker], task, session, told
            )
            self._notice(worker)
            with self._noticing:
                if not self._is_checked and not self._allow_failing_base:
                    self._refuse_red([*self._tasks, task])
                self._is_checked = True
            return self._trees[worker].root

        return tree

    def _prompt(self, session: PreparedSession, worker: int) -> str:
        start = "" if session.claim is None else self._starts.get(worker, "")
        return f"{session.prompt}\n\n{start}" if start else session.prompt

    def _notice(self, worker: int) -> None:
        """Name the commits that have come into the base branch past merges."""
        with self._noticing:
            base = base_branch(self._root, self._onto)
            tip, found = self._foreign(base)
            if found:
                with landing(self._root):  # its commit may not be recorded yet
                    tip, found = self._foreign(base)
            self._seen = tip
            if found:
                self._is_checked = False
                more = f" and {len(found) - SHOWN} more" if found[SHOWN:] else ""
                shown = ", ".join(map(one_line, found[:SHOWN]))
                self._note(worker, f'"{base}" was changed by others: {shown}{more}')

    def _foreign(self, base: str) -> tuple[str, list[str]]:
        """Return the commit of the base branch, and the commits that did not come from merges."""
        tip = Git(self._root).say("rev-parse", f"refs/heads/{base}")
        return tip, foreign_commits(self._root, base, self._seen, tip, self._project.settings.loop)

    def _refuse_red(self, tasks: Sequence[int]) -> None:
        """Raise `ProjectError` if a check of one of the tasks fails on the base branch.

        With `--allow-failing-base`, only prepare the worktree for merges.
        """
        queue = self._queue_of(base_branch(self._root, self._onto)).queue
        queue.refuse_failing(tasks, allow_failing=self._allow_failing_base)

    def _concluded(
        self, session: PreparedSession, end: SessionEnd, worker: int, held: ExitStack
    ) -> str:
        self._notice(worker)
        if session.claim is None or end.outcome.word != DONE:
            if session.claim is not None:
                self._keep(session.claim, worker, continues=end.outcome.word in KEEPS)
            return super()._concluded(session, end, worker, held)
        return self._enter(session.claim, worker)

    def _keep(self, claim: TaskClaim, worker: int, *, continues: bool) -> None:
        """Keep the work of a session, while it still has the claim on its task."""
        tree, told = self._trees[worker], self._worker_reporter(worker)
        try:
            keep_work(self._root, tree, claim.task, claim.session_id, told, continues=continues)
        except ProjectError as error:  # such as of a full disk; the files remain in the worktree
            self._note(worker, f"warning: {error.problems[0].text}")

    def _enter(self, claim: TaskClaim, worker: int) -> str:
        """Enter the work of a session into the merge queue; return the outcome in a word.

        Work that cannot enter now enters in the next loop: its task is done until then.
        """
        tree, config = self._trees[worker], self._project.settings.loop
        facts = {"worker": worker, "task": claim.task, "session": claim.session_id}
        title, told = self._title(claim.task), self._worker_reporter(worker)
        try:
            entered = enter_session(self._root, tree, claim, title, config, told)
            if isinstance(entered, int):
                self._merging.enter(entered, worker)
                return PENDING
            outcome, text = NOT_MERGED, words_of(entered)[0]
            self._say_given_up(claim.task, give_back(claim, entered), outcome, worker)
        except ProgramError as error:  # no other work can enter either
            self._merging.error = error
            outcome, text = PENDING, error.problems[0].text
        except ProjectError as error:
            outcome, text = PENDING, str(error)
        self._tell(event("merge", **facts, outcome=outcome, text=text, commit=None))
        return outcome

    def _refuse_second_machine(self) -> None:
        """Raise `ProjectError` if agents work on another machine without a shared remote."""
        with opened_database(self._root) as database:
            live = database.reading(lambda: live_claims(database))
            hosts = {claim.host for claim in live.values()}
        others = sorted(host for host in hosts if host and host != os.uname().nodename)
        if others and self._project.settings.loop.remote is None:
            text = f'agents also work on the machine "{others[0]}", but there is no shared remote'
            raise ProjectError(text, 'set the remote of the base branch: [loop] remote = "origin"')
