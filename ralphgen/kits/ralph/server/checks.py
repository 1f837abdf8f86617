"""The tool that runs the checks of a task, and records the results as evidence."""

from __future__ import annotations

import _thread
import os
import time

from ralphgen.runtime.deferred import DeferredResult, report_progress
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.tasks import now
from ralphgen.runtime.tasks.status import (
    add_runs,
    checks_for,
    new_rules,
    quoted_names,
    refused_files,
    refused_protected,
)
from ralphgen.runtime.values import fitted

from .proof import inner_path, look_at_tree, worktree_git
from .workspace import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.processes import Job, Jobs, Tail
    from ralphgen.runtime.tasks.status import Check, Look

    from .workspace import Workspace

TAIL = 4_000  # characters of the output that are kept
SHORT_TAIL = 400  # of a check that has passed, in an answer
KEPT = 1 << 16  # bytes of the output that are looked at for them
LOOK = 0.5  # seconds between two looks at which check runs
SETUP_SECONDS = 3_600.0
SETUP_TAIL = 2_000  # characters of the output of a setup that fails
GRACE = 5.0  # seconds between asking a check to end and ending it
NOT_STARTED = 127  # the exit code that shells give to a command that is not there
BY_SIGNAL = 128  # what they add to a signal's number
NO_PROOF = (
    "the login of this session writes no proof: a person, `ralphgen launch`, `ralphgen loop` or "
    "the server over HTTP runs the checks, and closes the task"
)


def run_checks(workspace: Workspace, arguments: dict[str, Any]) -> DeferredResult:
    """Run the checks of a task in the directory of the project, and wait for the results.

    A call during a run waits for the same run. The results of the last run are returned again if
    the files are unchanged and it passed, or if no call received them. Raises `ToolError` while the
    checks of another task run.
    """
    task = arguments["task"]
    discipline = _discipline(workspace, {"task": task})["discipline"]
    run = workspace.checks_run
    if run is not None and not run.over:
        if run.task != task:
            raise ToolError(
                f"the checks of task {run.task} are still running: call again when they end"
            )
        return run.answer()
    look = look_at_tree(workspace, for_run=True)
    if refusals := refused_files(look):
        raise ToolError(". ".join(refusals))
    from ralphgen.runtime.files.work_tree import mapped_files

    if mapped := mapped_files(look.work_tree, look.stamps):
        raise ToolError(
            "another program has these files open for writing or mapped into its memory: "
            f"{quoted_names(mapped)}: end it, then call again"
        )
    if run is None or run.task != task or not run.answers(look):
        kind = CheckRun if workspace.tree_rules is None else TreeRun
        run = workspace.checks_run = kind(workspace, task, checks_for(workspace.done, discipline))
        run.start(look)
    return run.answer()


@reading
def _discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    (discipline,) = workspace.task(arguments["task"], ["discipline"])
    return {"discipline": discipline}


class CheckRun:
    """One run of the checks of one task, on a separate thread."""

    __slots__ = (
        "_answer",
        "_begun",
        "_checks",
        "_done",
        "_jobs",
        "_place",
        "_problem",
        "_told",
        "_tree",
        "_workspace",
        "task",
    )

    def __init__(self, workspace: Workspace, task: int, checks: Sequence[Check]) -> None:
        self._workspace = workspace
        self._checks = checks
        self._begun = -1  # the number of the check that runs
        self._answer: dict[str, Any] = {}
        self._problem: Exception | None = None
        self._jobs: Jobs | None = None
        self._place = workspace.work_tree
        self._told = False
        self._tree = ""
        self._done = _thread.allocate_lock()
        self._done.acquire()
        self.task = task

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return not self._done.locked()

    def start(self, look: Look) -> None:
        """Start; `look` is the current tree."""
        from ralphgen.runtime.processes import Jobs

        self._jobs = Jobs(most=1, sandbox=self._workspace.session.sandbox)
        _thread.start_new_thread(self._run, (look,))

    def answer(self) -> DeferredResult:
        """Return the deferred result of the run, which continues if the caller leaves.

        Its outcome raises `ToolError` if the checks could not be run.
        """
        left: list[None] = []

        def outcome() -> dict[str, Any]:
            reported = -1
            while not self._done.acquire(timeout=LOOK):
                if self._begun != reported:
                    reported = self._begun
                    about = f"the check {self._checks[reported]['name']} runs"
                    report_progress(reported, len(self._checks), about)
            self._done.release()
            self._told = self._told or not left
            if self._problem is not None:
                raise self._problem
            return self._answer

        return DeferredResult(outcome, lambda: left.append(None))

    def answers(self, look: Look) -> bool:
        """Return whether the run has ended and its results apply to the current tree."""
        is_same = self._problem is None and self._tree == look.tree
        return is_same and (self._answer["passed"] or not self._told)

    def alone(self) -> dict[str, Any]:
        """Run the first check immediately, and return the part of an answer about it."""
        from ralphgen.runtime.processes import Jobs

        self._jobs = Jobs(most=1, sandbox=self._workspace.session.sandbox)
        self._workspace.beside.append(self)
        try:
            return _check_fields(self._one(self._checks[0]))
        finally:
            self._workspace.beside.remove(self)
            self.close()

    def close(self) -> None:
        """Stop the run, without evidence."""
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.close()

    def _run(self, before: Look) -> None:
        try:
            self._answer = fitted(self._result(before))
        except (StartError, ToolError, OSError) as error:
            self._problem = ToolError(f"the checks could not be run: {error}")
        except BaseException as error:
            self._problem = error if isinstance(error, Exception) else ToolError("it was stopped")
            raise
        finally:
            self.close()
            self._done.release()

    def _result(self, before: Look) -> dict[str, Any]:
        """Run the checks one after the other; return the answer."""
        from ralphgen.runtime.files.main_tree import is_agents_tree
        from ralphgen.runtime.files.work_tree import (
            changed_files,
            differing_files,
            ignoring_lines,
            moved,
            stamps,
            untracked_files,
        )

        root = self._workspace.work_tree
        results: list[dict[str, Any]] = []
        rewrote: dict[str, int] = {}  # by file, the number of the last check that changed it
        last = before.stamps
        for number, check in enumerate(self._checks):
            self._begun = number
            results.append(self._one(check))
            if number + 1 < len(self._checks):
                found = stamps(root, before.stamps)
                rewrote |= dict.fromkeys(moved(last, found), number)
                last = found
        jobs = self._jobs
        if jobs is None:
            raise ToolError("the server is ending")
        jobs.close()  # what a check has left behind changes nothing any more
        after = look_at_tree(self._workspace)
        found = stamps(root, before.stamps)  # after the files were read
        rewrote |= dict.fromkeys(moved(last, found), len(results) - 1)
        differing = {*differing_files(before.files, after.files)}
        changed = {*changed_files(before.files, after.files), *moved(before.stamps, found)}
        if not is_agents_tree(root):  # a file may have been there for the checks alone
            changed |= differing
        written = untracked_files(root, differing | changed, before.rules)
        self._record_untracked_files(written)
        lines = quoted_names(ignoring_lines(written, after.files))
        protected = sorted({*before.protected, *after.protected})
        why = self._unproved(before, changed, written, rewrote, lines) if changed else ""
        at_fault = {rewrote[path] for path in changed if path in rewrote}
        note = ""
        if written:
            note = (
                f"the checks wrote new files that git does not ignore: {quoted_names(written)}; "
                f"add {lines} to .gitignore, or the next run cannot prove the task"
            )
        return self._answered(results, after, protected, why, at_fault, note)

    def _answered(
        self,
        results: Sequence[dict[str, Any]],
        after: Look,
        protected: list[str],
        why: str,
        at_fault: Collection[int],
        note: str = "",
    ) -> dict[str, Any]:
        """Store the evidence, and return the answer; `why` is the reason if nothing is proved.

        Then the checks with the numbers `at_fault` have changed files.
        """
        passed = all(result["exit_code"] == 0 for result in results)
        answer: dict[str, Any] = {
            "task": self.task,
            "passed": passed and not why and not protected,
            "checks": [_check_fields(result) for result in results],
        }
        if why:
            answer["not_proved"] = why
            self._keep_unproved(results, at_fault, after, why)
            return answer
        if protected:
            answer["not_proved"] = refused_protected(after, protected)
        if not results:
            note = "no check is for this task's discipline"
        if note:
            answer["note"] = note
        if after.watched:
            answer["watched"] = f"changed in this session: {quoted_names(after.watched)}"
        if self._keep(results, after, protected):
            self._tree = after.tree
        else:
            answer |= {"passed": False, "not_proved": NO_PROOF}
        return answer

    def _unproved(
        self,
        before: Look,
        changed: set[str],
        written: Sequence[str],
        rewrote: Mapping[str, int],
        lines: str,
    ) -> str:
        """Return why the changed files let a run prove nothing; git does not ignore `written`."""
        others = sorted(changed - {*written})
        reasons = []
        if others:
            numbers = sorted({rewrote[path] for path in others if path in rewrote})
            names = quoted_names([self._checks[number]["name"] for number in numbers])
            reasons.append(
                f"files were changed while the checks ran: {quoted_names(others)}"
                f"{names and f', by the check {names}'}; nothing is proved: let the checks "
                "change no file, or run them again if something else did"
            )
        if not changed.isdisjoint(written):
            again = "run them again" if before.rules is None else "start a new session"
            reasons.append(
                f"the checks write files that git does not ignore: {quoted_names(written)}; "
                f"nothing is proved: add to .gitignore {lines} if these are reports, then {again}"
            )
        return ". ".join([*reasons, *new_rules(before, sorted(changed))])

    def _record_untracked_files(self, written: list[str]) -> None:
        """Let `ralphgen doctor` know of untracked files that the checks write in the project."""
        workspace = self._workspace
        if not written or workspace.work_tree != workspace.root:
            return
        import json

        from ralphgen.runtime.files import replace_file
        from ralphgen.runtime.files.work_tree import WRITTEN

        path = os.path.join(workspace.root, WRITTEN)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            replace_file(path, json.dumps(written).encode())
        except OSError:  # only a note is lost
            return

    def _keep_unproved(
        self, results: Sequence[dict[str, Any]], numbers: Collection[int], after: Look, why: str
    ) -> None:
        """Store that the checks with these numbers prove nothing; without numbers, all of them."""
        from ralphgen.runtime.engine.ledger import UNPROVED

        ending = f"{UNPROVED}{why})"
        self._keep(
            [
                result | {"exit_code": None, "tail": f"{result['tail']}\n{ending}"}
                for number, result in enumerate(results)
                if number in numbers or not numbers
            ],
            after,
            [],
        )

    def _keep(self, results: Sequence[dict[str, Any]], after: Look, protected: list[str]) -> bool:
        """Store the evidence on the connection of this thread; return whether that is allowed."""
        workspace = self._workspace
        if workspace.evidence is None:  # one for all runs, since closing it would leak a file
            workspace.evidence = workspace.fenced(workspace.database.another())
        database, session = workspace.evidence, workspace.session
        return database.writing(
            lambda: add_runs(database, session, self.task, after, results, protected)
        )

    def _one(self, check: Check) -> dict[str, Any]:
        """Run a check to its end; return its name, exit code, seconds, start and output."""
        from ralphgen.runtime.processes.secrets import masked

        started, begun = now(), time.monotonic()
        try:
            job, tail = self._started(check)
        except (OSError, StartError, ToolError) as error:
            code: int | None = NOT_STARTED
            text = masked(f"it cannot be started: {getattr(error, 'strerror', None) or error}")
        else:
            code = self._ended(job, check["timeout"])
            text = masked(tail.text(), cut=tail.cut)
            if code is None:
                text += f"\n(stopped after {check['timeout']} seconds)"
        return {
            "name": check["name"],
            "exit_code": code,
            "seconds": round(time.monotonic() - begun, 1),
            "started": started,
            "tail": text[-TAIL:],
        }

    def _started(self, check: Check) -> tuple[Job, Tail]:
        from ralphgen.runtime.processes import Pipes, Tail
        from ralphgen.runtime.processes.secrets import passed_on

        jobs = self._jobs
        if jobs is None:
            raise ToolError("the server is ending")
        workspace = self._workspace
        command: dict[str, Any] = {"argv": check.get("run"), "cwd": self._place, "env": {}}
        if "dela" in check:
            command = _task_command(workspace, check["dela"], self._place)
        tail = Tail(KEPT)
        job = jobs.start(
            command["argv"],
            pipes=Pipes(tail),
            cwd=command["cwd"],
            environment={**passed_on(workspace.folder), **command["env"]},
        )
        return job, tail

    def _ended(self, job: Job, seconds: float) -> int | None:
        """Return the exit code of a process once it has ended; None after the time limit."""
        from ralphgen.runtime.processes import NotRunningError

        jobs = self._jobs
        if not job.wait(seconds) and jobs is not None:
            try:
                jobs.stop(job, GRACE)
            except NotRunningError:
                job.wait(GRACE)
            else:
                return None
        return BY_SIGNAL + job.signal if job.signal is not None else job.exit_code


class TreeRun(CheckRun):
    """One run of the checks of a task, on a private checkout of its tree."""

    __slots__ = ()

    def _result(self, before: Look) -> dict[str, Any]:
        from ralphgen.runtime.files.checkout import SUFFIX, Checkout, TreeError

        rules = self._workspace.tree_rules or {}
        git = worktree_git(self._workspace, rules)
        checkout = Checkout(
            git.repository.common,
            f"{git.repository.top}{SUFFIX}",
            inner_path(self._workspace, git),
            os.path.dirname(os.path.dirname(self._workspace.folder)),
            {**rules, "protect": (self._workspace.done or {}).get("protect", ())},
            git.settings,
            git.variables,
            self._set_up,
        )
        results: list[dict[str, Any]] = []
        rewrote: dict[str, int] = {}  # by file, the number of the check that changed it
        try:
            with checkout:
                if self._checks:
                    checkout.set_to(before.tree.split()[0], rules["base"], self.task)
                self._place = checkout.place
                for number, check in enumerate(self._checks):
                    self._begun = number
                    results.append(self._one(check))
                    rewrote |= dict.fromkeys({*checkout.changed()} - {*rewrote}, number)
                jobs = self._jobs
                if jobs is None:
                    raise ToolError("the server is ending")
                jobs.close()  # what a check has left behind changes nothing any more
                if self._checks:
                    last = len(results) - 1
                    rewrote |= dict.fromkeys({*checkout.changed()} - {*rewrote}, last)
        except TreeError as error:
            raise ToolError(f"the checkout for the checks cannot be made: {error}") from error
        why = ""
        if rewrote:
            names = quoted_names(
                [self._checks[number]["name"] for number in sorted({*rewrote.values()})]
            )
            why = (
                f"files were changed while the checks ran: {quoted_names(sorted(rewrote))}, "
                f"by the check {names}; nothing is proved: "
                "let the checks change no file that git tracks"
            )
        protected = [*before.protected]
        return self._answered(results, before, protected, why, {*rewrote.values()})

    def _set_up(self, command: Sequence[str], folder: str) -> None:
        """Run a command of the setup; raise `ToolError` if it fails."""
        import json

        from ralphgen.runtime.processes import Pipes, Tail
        from ralphgen.runtime.processes.secrets import masked, passed_on

        jobs = self._jobs
        if jobs is None:
            raise ToolError("the server is ending")
        tail = Tail(KEPT)
        text = f"[loop] setup {json.dumps([*command])}"
        try:
            job = jobs.start(
                [*command],
                pipes=Pipes(tail),
                cwd=folder,
                environment=passed_on(self._workspace.folder),
            )
        except (OSError, StartError) as error:
            raise ToolError(f"{text} cannot be started: {error}") from error
        code = self._ended(job, SETUP_SECONDS)
        if code != 0:
            output = masked(tail.text(), cut=tail.cut)[-SETUP_TAIL:]
            raise ToolError(f"{text} ended with exit code {code}: {output}")


def _task_command(workspace: Workspace, name: str, place: str) -> dict[str, Any]:
    """Return the command of a task of dela in `place`: `argv`, `cwd`, and further variables, `env`.

    Raises `StartError` if the server of that kit would not start, and `ToolError` if there is no
    such task.
    """
    from ralphgen.runtime.kit import open_offer

    session = workspace.session
    if place != workspace.work_tree:
        session = session.at(place)
    offer = open_offer("dela", workspace.folder, session)
    try:
        return offer.call("task_command", {"unique_name": name})
    finally:
        offer.close()


def _check_fields(result: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an answer about a check; the output of one that passed is shortened."""
    tail = result["tail"] if result["exit_code"] else result["tail"][-SHORT_TAIL:]
    if result["exit_code"] is None:
        tail = result["tail"]
    return {key: result[key] for key in ("name", "exit_code", "seconds")} | {"tail": tail}
