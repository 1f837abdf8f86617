"""Serves workers: machines that take tasks, prove them and report, without the database.

A worker's token opens these addresses alone. Each call names its sessions, and a repeated call gets
the first answer, so that a worker may repeat a call after a lost connection.
"""

from __future__ import annotations

import json
import re
import time
from calendar import timegm
from functools import partial

from ..encoding import read_json, sha256_hex
from ..engine.ledger import (
    NEWEST,
    SESSION_ID,
    Evidence,
    add_evidence,
    close_session,
    evidence_of,
    open_session,
    passing_checks,
)
from ..errors import StartError, ToolError, log, one_line
from ..tasks import task_row
from ..tasks.assignment import NO_ATTEMPT, claim_next, end_claim, return_merge
from ..tasks.claims import Claim, TaskFilter, claim_of, hand_over, live_claims, moment, renew
from ..tasks.merges import (
    COLUMNS,
    LEASE,
    MOST_WAITING,
    WAITING,
    claim_landing,
    close_run,
    end_lease,
    end_stale_runs,
    enter,
    entered_sessions,
    finish,
    lease_of,
    lease_runner,
    merge_of,
    next_batch,
    note_obstacle,
    open_run,
    release_landing,
    run_of,
    runner_of,
    waiting,
    was_returned,
)
from ..tasks.status import checks_for, definition_of, recorded_tree
from .app import HttpError
from .metrics import READING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from ..engine import Database
    from ..tasks.merges import QueuedMerge
    from .app import Verifier
    from .sessions import Kits

    Facts = dict[str, Any]

RECIPE = "task_execution"  # the profile of the recipes of sessions on a worker
DONE = "done"
HEX = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"  # of a commit or a tree of git
TREE = rf"{HEX}(?: [0-9a-f]{{64}})?"  # with the digest of ignored protected files
MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z"
BRANCH = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}"
NAME = r"[^\x00-\x1f\x7f]{1,100}"
NUMBER, COST = 2**31, 1e6
MOST, MOST_SESSIONS, MOST_TASKS = 100, 64, 1_000  # checks, sessions and tasks that a call names
_HELD = (
    "SELECT count(*) FROM ralphgen_claims AS claim JOIN ralphgen_sessions AS own "
    "ON own.id = claim.session WHERE own.worker = ?"
)
_LEFT = (
    "SELECT own.id, own.task_id FROM ralphgen_claims AS claim JOIN ralphgen_sessions AS own "
    "ON own.id = claim.session WHERE own.worker IS NOT NULL AND claim.expires <= ?"
)
NOT_ENTERED = "Its worker was lost before the work entered the merge queue."
TAIL, COMMENT = 4_000, 8_000  # characters


class Fleet:
    """Answers workers with the kit that has tasks; `kit` is empty if the server has none.

    `settings` are those of HTTP, with the lease of claims and the attempts on a task. `revoke`
    revokes the token of a session.
    """

    def __init__(
        self,
        kits: Kits,
        verifier: Verifier,
        settings: Mapping[str, Any],
        revoke: Callable[[str], None],
    ) -> None:
        self.kit = next((name for name in kits.names if kits.has_tasks(name)), "")
        self.verbs: Mapping[str, Callable[[WorkerCall], Facts]] = {
            "take": self._take,
            "renew": self._renew,
            "prove": self._prove,
            "enter": self._enter,
            "queue": self._queue,
            "runner": self._runner,
            "batch": self._batch,
            "proved": self._proved,
            "run": self._run,
            "ran": self._ran,
            "landing": self._landing,
            "landed": self._landed,
            "returned": self._returned,
            "waits": self._waits,
            "end": self._end,
        }
        self._kits = kits
        self._lease: int = settings["lease"]
        self._attempts: int = settings["attempts"]
        self._revoke = revoke
        self._verifier = verifier

    def close(self) -> None:
        """Let go of everything: each call has a separate connection."""

    def answer(self, verb: str, body: bytes, claims: Mapping[str, Any]) -> Facts:
        """Return the answer to a call of a worker; raises `HttpError`."""
        if verb not in self.verbs:
            raise HttpError(404, "there is nothing at this address")
        try:
            given = read_json(body.decode())
        except (ValueError, RecursionError) as error:
            raise HttpError(400, "the body is not valid JSON") from error
        if type(given) is not dict:
            raise HttpError(400, "the body is not an object")
        try:
            workspace: Any = self._kits.handlers(self.kit, READING).workspace
            try:
                if not workspace.tables.ledger:
                    raise HttpError(409, "workers require the ledger")
                database = workspace.database.another()
                try:
                    return self.verbs[verb](WorkerCall(workspace, database, claims, given))
                finally:
                    database.close()
            finally:
                workspace.close()
        except (OSError, StartError, ToolError) as error:
            log("error", self.kit, f"a worker cannot be answered: {error}")
            raise HttpError(503, "the database cannot be used now: try again") from error

    def _take(self, call: WorkerCall) -> Facts:
        """Claim the next task for a new session, or repeat the answer for a known one."""
        session, recipe = call.text("session", SESSION_ID), call.text("recipe", NAME)
        agent, host = call.text("agent", NAME, ""), call.text("host", NAME, "")
        brief = call.given.pop("brief", {})
        skipped = call.numbers("skip")
        call.end_of_body()
        if self._kits.profile(recipe) != RECIPE or type(brief) is not dict:
            raise HttpError(400, f'"recipe" is not a recipe of the kind "{RECIPE}"')
        database, tables = call.database, call.workspace.tables
        base = self._base(call)

        def name(task: int) -> str:
            call.require(host=host)
            ((held,),) = database.rows(_HELD, [call.worker])
            if held >= MOST_SESSIONS:
                raise HttpError(409, f"a worker works on at most {MOST_SESSIONS} tasks")
            if database.row("SELECT 1 FROM ralphgen_sessions WHERE id = ?", [session]):
                raise HttpError(409, "there is a session of this id")
            feature, discipline = task_row(database, tables, task, ["feature", "discipline"])
            facts = {
                "recipe": recipe,
                "discipline": discipline,
                "task_id": task,
                "feature": feature,
                "agent": agent or None,
                "started": moment(),
                "base_commit": base,
                # As in a worktree of the loop: the task is not merged yet.
                "worktree": f"{call.worker}:/.ralph/worktrees/{session}",
                "worker": call.worker,
            }
            open_session(database, session, facts)
            return session

        def revoke(lost: str) -> None:
            row = database.reading(lambda: call.session_row(lost))
            if row and row["worker"]:
                self._revoke(lost)

        known = database.writing(lambda: call.session_row(session))
        if known is None:
            wanted = TaskFilter(behind=skipped)
            database.writing(lambda: call.require(host=host))
            self._reopen_unqueued_tasks(call)
            taken, is_full = None, database.reading(lambda: len(waiting(database))) >= MOST_WAITING
            if not is_full:
                limits = (self._lease, self._attempts)
                taken = claim_next(database, tables, wanted, name, *limits, revoke)
            if taken is None:
                running = database.reading(lambda: len(live_claims(database)))
                return {"task": None, "running": running + is_full}
        found = database.writing(lambda: call.own(session))
        claim = database.writing(
            lambda: self._claim_without_process(call, session, found["task_id"])
        )
        return self._session(call, found, claim, recipe, brief)

    def _reopen_unqueued_tasks(self, call: WorkerCall) -> None:
        """Let the done tasks be pending whose worker was lost before their work entered the queue.

        A worker that is back earlier enters its work.
        """
        database = call.database

        def unqueued_rows() -> list[tuple[Any, ...]]:
            rows = database.rows(_LEFT, [moment()])
            return [row for row in rows if call.status(row[1]) == DONE]

        def end(session: str, task: int) -> None:
            status = end_claim(
                *(database, call.workspace.tables, session, task, NOT_ENTERED),
                attempts=self._attempts,
                counts=True,
                reopens=True,
            )
            if status != DONE:
                close_session(database, session, {"ended": moment(), "outcome": "failed"})

        for session, task in database.reading(unqueued_rows):
            self._revoke(session)  # first: no later start finds a session whose claim has ended
            database.writing(partial(end, session, task))

    def _session(
        self, call: WorkerCall, row: Facts, claim: Claim, recipe: str, brief: Mapping[str, Any]
    ) -> Facts:
        """Return what a worker needs for its session: the same for each call."""
        from ..protocol.calls import described
        from ..session import brief_problem

        subject = {
            "jti": row["id"],
            "sub": call.worker,
            "rec": recipe,
            "dis": row["discipline"],
            "fea": row["feature"],
            "tsk": row["task_id"],
            "cla": claim.token,
            "lea": self._lease,
            "wrk": call.worker,
            "wti": call.claims["jti"],
        }
        began = timegm(time.strptime(row["started"][:19], "%Y-%m-%dT%H:%M:%S"))
        token = self._verifier.signed(subject, call.claims["exp"] - began, began)
        if problem := brief_problem(brief):
            raise HttpError(400, problem)
        own = {key: value for key, value in subject.items() if value is not None}
        handlers = self._kits.handlers(self.kit, {**own, "brief": brief})
        try:
            description = json.loads(described(handlers, handlers.seen))
        finally:
            handlers.workspace.close()
        tables, database = call.workspace.tables, call.database
        (title,) = database.reading(lambda: task_row(database, tables, row["task_id"], ["title"]))
        return {
            "task": row["task_id"],
            "title": str(title),
            "session": row["id"],
            "feature": row["feature"],
            "discipline": row["discipline"],
            "token": token,
            "kit": self.kit,
            "lease": self._lease,
            "describe": description,
            "base": row["base_commit"],
            "rules": sha256_hex(_rules(call.workspace.done)),
        }

    def _renew(self, call: WorkerCall) -> Facts:
        """Renew the claims of a worker's sessions; return for each when it expires, or its loss."""
        sessions = call.texts("sessions", SESSION_ID, MOST_SESSIONS)
        host = call.text("host", NAME, "")
        call.end_of_body()

        def one(session: str) -> Facts:
            row = call.own(session)
            task = row["task_id"]
            claim = claim_of(call.database, task)
            status = call.status(task)
            if claim is None or claim.session != session or row["ended"] is not None:
                return {"lost": True, "status": status}
            renew(call.database, task, session, claim.token, self._lease, anywhere=True)
            hand_over(call.database, task, session)
            return {"expires": moment(self._lease), "status": status}

        def work() -> Facts:
            call.require(host=host)
            return {"sessions": {session: one(session) for session in sessions}}

        return call.database.writing(work)

    def _prove(self, call: WorkerCall) -> Facts:
        """Store the results of checks on one tree, which the worker reports for its session."""
        session = call.text("session", SESSION_ID)
        tree, base = call.text("tree", TREE), call.text("base", HEX)
        protected = call.texts("protected", r"[^\x00]{1,1000}", MOST)
        runs = call.results()
        call.end_of_body()
        done = call.workspace.done

        def work() -> Facts:
            call.require()
            row = call.own(session)
            task = row["task_id"]
            self._claim_without_process(call, session, task)
            checks = {one["name"]: one for one in checks_for(done, row["discipline"])}
            if unknown := sorted(runs.keys() - checks.keys()):
                raise HttpError(400, f"no check of this task: {unknown[0][:100]}")
            known = [one for one in evidence_of(call.database, task) if one.session == session]
            earlier = {(one.check, one.tree, one.started) for one in known}
            if len(known) + len(runs) > NEWEST:
                raise HttpError(409, f"a session can report {NEWEST} runs of checks")
            for name, run in runs.items():
                if (name, tree, run["started"]) in earlier:
                    continue
                evidence = Evidence(
                    task=task,
                    session=session,
                    check=name,
                    definition=definition_of(checks[name]),
                    tree=tree,
                    protected=protected,
                    worker=call.worker,
                    **run,
                )
                add_evidence(call.database, evidence)
            sql = "UPDATE ralphgen_sessions SET base_commit = ? WHERE id = ?"
            call.database.change(sql, [base, session])
            return {"accepted": True}

        return call.database.writing(work)

    def _enter(self, call: WorkerCall) -> Facts:
        """Enter the pushed commit of a session into the merge queue; return its number."""
        session = call.text("session", SESSION_ID)
        commit, tree = call.text("commit", HEX), call.text("tree", HEX)
        branch = call.text("branch", BRANCH)
        call.end_of_body()
        target = self._branch(call) or branch
        database = call.database

        def work() -> Facts:
            call.require()
            task = call.own(session)["task_id"]
            recorded = recorded_tree(database, session, task)
            if recorded is None or recorded.tree not in ("", tree):
                raise HttpError(409, "this session has not closed its task with this tree")
            if session not in entered_sessions(database):
                self._claim_without_process(call, session, task)
            facts = {"work": commit, "target": target, "task": task, "session": session}
            try:
                return {"number": enter(database, **facts, worker=call.worker, tree=tree)}
            except ToolError as error:
                raise HttpError(409, str(error)) from error

        return database.writing(work)

    def _queue(self, call: WorkerCall) -> Facts:
        """Return the entries of a queue that wait, or those of the numbers `entries`.

        Each has the title, the discipline and the status of its task, null if it is gone, and what
        has passed on its tree, as `proved` returns it.
        """
        target, numbers = call.text("branch", BRANCH), call.numbers("entries")
        call.end_of_body()
        database, tables = call.database, call.workspace.tables
        names = ("title", "discipline", "status")
        known = tables.tasks.available_columns(names)

        def facts(one: QueuedMerge) -> Facts:
            sql = tables.tasks.select(known, "WHERE id = ?")
            row = None if one.task is None else database.row(sql, [one.task])
            own = {} if row is None else dict(zip(known, row, strict=True))
            found = {name: getattr(one, name) for name in COLUMNS}
            proved = passing_checks(database, one.tree, one.task, call.worker) if one.tree else ()
            return {**found, **{name: own.get(name) for name in names}, "proved": sorted(proved)}

        def work() -> Facts:
            call.require(merges=True)
            named = [merge_of(database, number) for number in sorted(numbers)]
            found = [*filter(None, named)] if numbers else waiting(database, target)
            return {"entries": [*map(facts, found)]}

        return database.writing(work)

    def _runner(self, call: WorkerCall) -> Facts:
        """Take, renew or end the lease on a queue, as `state` says; null if another runner has it.

        A runner that begins ends the open runs, whose runner was killed.
        """
        target = call.text("branch", BRANCH)
        state = call.text("state", "begin|keep|end")
        call.end_of_body()
        database = call.database

        def work() -> Facts:
            call.require(merges=True)
            if state == "end":
                end_lease(database, target, call.owner)
                return {"lease": None}
            if not lease_runner(database, target, call.owner):
                return {"lease": None}
            if state == "begin":
                end_stale_runs(database, target)
            return {"lease": LEASE}

        return database.writing(work)

    def _batch(self, call: WorkerCall) -> Facts:
        """Return the number of a new batch; the worker must have the server's rules on done."""
        target, rules = call.text("branch", BRANCH), call.text("rules", "[0-9a-f]{64}")
        call.end_of_body()
        if rules != sha256_hex(_rules(call.workspace.done)):
            raise HttpError(409, "the clone of this worker has other rules on done than the server")

        def work() -> Facts:
            call.require_lease(target)
            return {"batch": next_batch(call.database, target)}

        return call.database.writing(work)

    def _proved(self, call: WorkerCall) -> Facts:
        """Return name and definition of the checks that passed on a tree, here or on the worker."""
        tree, task = call.text("tree", HEX), call.whole_or_none("task")
        call.end_of_body()

        def work() -> Facts:
            call.require(merges=True)
            return {"checks": sorted(passing_checks(call.database, tree, task, call.worker))}

        return call.database.writing(work)

    def _run(self, call: WorkerCall) -> Facts:
        """Record the start of a run of checks by the queue; return its number."""
        target, batch = call.text("branch", BRANCH), call.whole("batch")
        commits = {name: call.text(name, HEX) for name in ("base", "head", "tree")}
        members = sorted(call.numbers("entries"))
        call.end_of_body()

        def work() -> Facts:
            call.require_lease(target)
            facts: Facts = {**commits, "target": target, "members": members, "worker": call.worker}
            return {"run": open_run(call.database, batch=batch, **facts)}

        return call.database.writing(work)

    def _ran(self, call: WorkerCall) -> Facts:
        """Store the results of a run of the queue, and whether it `passed`."""
        number, passed = call.whole("run"), call.given.pop("passed", None)
        runs = call.results()
        call.end_of_body()
        if type(passed) is not bool:
            raise HttpError(400, '"passed" is missing or invalid')
        checks = {one["name"]: one for one in (call.workspace.done or {}).get("checks", ())}
        if unknown := sorted(runs.keys() - checks.keys()):
            raise HttpError(400, f"no check of this project: {unknown[0][:100]}")

        def work() -> Facts:
            call.require(merges=True)
            run = run_of(call.database, number)
            if run is None or run.worker != call.worker:
                raise HttpError(409, "this worker has no such run")
            call.require_lease(run.target)
            if close_run(call.database, number, passed=passed):
                for name, result in runs.items():
                    evidence = Evidence(
                        task=None,
                        session=None,
                        check=name,
                        definition=definition_of(checks[name]),
                        tree=run.tree,
                        worker=call.worker,
                        run=number,
                        **result,
                    )
                    add_evidence(call.database, evidence)
            return {"accepted": True}

        return call.database.writing(work)

    def _landing(self, call: WorkerCall) -> Facts:
        """Record the merge commits of `entries` before the branch moves to the last one.

        An entry that changes nothing has an empty one. Nothing is `claimed` if one was dropped.
        Without a `batch`, the entries wait again: their commits are not in the branch.
        """
        batch, commits = call.whole_or_none("batch"), _commits(call, f"(?:{HEX})?")
        call.end_of_body()

        def work() -> Facts:
            merges = self._queued(call, commits)
            if batch is None:
                release_landing(call.database, [one.number for one in merges])
                return {"claimed": False}
            return {"claimed": claim_landing(call.database, commits, batch)}

        return call.database.writing(work)

    def _landed(self, call: WorkerCall) -> Facts:
        """Record the commit by which each of the `entries` was merged; return their numbers.

        `flaky` is a check that failed once on them, and `batch` is null if it is unknown.
        """
        batch, found = call.whole_or_none("batch"), _commits(call, HEX)
        flaky = call.text("flaky", rf"[^\x00]{{0,{TAIL}}}", "")
        call.end_of_body()

        def work() -> Facts:
            merges = self._queued(call, found)
            for one in merges:
                finish(call.database, one, found[one.number], batch, call.worker, flaky=flaky)
            return {"entries": [one.number for one in merges]}

        return call.database.writing(work)

    def _returned(self, call: WorkerCall) -> Facts:
        """Return an entry to its task, which is pending again; return whether it has ended.

        The second failure of a task blocks it, and so does work that was `refused`, since it
        changes files that tasks must not change. Without blocked tasks, the entry of a second
        failure waits for the user.
        """
        batch, number = call.whole("batch"), call.whole("entry")
        why = call.text("reason", rf"[^\x00]{{1,{TAIL}}}")
        tail = call.text("output", rf"[^\x00]{{0,{TAIL}}}", "")
        refused = call.given.pop("refused", False)
        call.end_of_body()
        if type(refused) is not bool:
            raise HttpError(400, '"refused" is not true or false')
        database, tables = call.database, call.workspace.tables

        def work() -> Facts:
            merges = self._queued(call, [number])
            for one in merges:
                repeats = one.task is not None and was_returned(database, one.task)
                if repeats and not refused and not tables.may_block:
                    note_obstacle(database, number, why)
                    return {"ended": False}
                reason = f"its work did not merge twice: {one_line(why)}" if repeats else ""
                reason = one_line(why) if refused else reason
                facts: Facts = {"batch": batch, "runner": call.worker, "tail": tail}
                return_merge(database, tables, one, why, reason=reason, **facts)
            return {"ended": True}

        return database.writing(work)

    def _waits(self, call: WorkerCall) -> Facts:
        """Record why the `entries` still wait; return their numbers."""
        numbers, why = call.numbers("entries"), call.text("reason", rf"[^\x00]{{1,{TAIL}}}")
        call.end_of_body()

        def work() -> Facts:
            merges = self._queued(call, numbers)
            for one in merges:
                note_obstacle(call.database, one.number, why)
            return {"entries": [one.number for one in merges]}

        return call.database.writing(work)

    def _queued(self, call: WorkerCall, numbers: Collection[int]) -> list[QueuedMerge]:
        """Return entries of the queue that the worker runs, without those that have ended."""
        call.require(merges=True)
        found = [merge_of(call.database, number) for number in sorted(numbers)]
        merges = [one for one in found if one is not None]
        if len(merges) < len(numbers):
            raise HttpError(409, "there is no such merge")
        for target in {one.target for one in merges}:
            call.require_lease(target)
        return [one for one in merges if one.state == WAITING]

    def _end(self, call: WorkerCall) -> Facts:
        """Record the end of a session and release its task; return the task's status.

        A task that the agent has closed is pending again if the worker reports another outcome.
        """
        session, outcome = call.text("session", SESSION_ID), call.text("outcome", NAME)
        comment = call.text("comment", rf"[^\x00]{{0,{COMMENT}}}", "")
        numbers = ("turns", "input_tokens", "output_tokens")
        usage: Facts = {name: call.number(name, NUMBER) for name in numbers}
        usage["cost_usd"] = call.number("cost", COST)
        usage["estimated_usd"] = call.number("estimate", COST)
        model = call.text("model", NAME, "")
        call.end_of_body()

        def work() -> Facts:
            call.require()
            return call.own(session)

        row = call.database.writing(work)
        self._revoke(session)  # first: a call that fails here is repeated
        if row["ended"] is not None:
            return {"status": call.database.reading(lambda: call.status(row["task_id"]))}
        text = f'The session "{session}" ended: {outcome}. {comment}'.strip()
        facts = {"outcome": outcome, **usage}
        facts |= {"model": model} if model else {}

        def end() -> str | None:
            status = end_claim(
                *(call.database, call.workspace.tables, session, row["task_id"], text),
                attempts=self._attempts,
                counts=outcome not in NO_ATTEMPT,
                reopens=outcome != DONE,
            )
            close_session(call.database, session, {"ended": moment(), **facts})
            return status

        return {"status": call.database.writing(end)}

    def _claim_without_process(self, call: WorkerCall, session: str, task: int) -> Claim:
        """Return the claim of a session, which no process holds; raises `HttpError` without it."""
        claim = claim_of(call.database, task)
        if claim is None or claim.session != session:
            raise HttpError(409, "this session has lost its claim: stop working on its task")
        if claim.pid is not None:  # any process may answer the next call
            hand_over(call.database, task, session)
        return claim

    def _base(self, call: WorkerCall) -> str | None:
        """Return the commit that is checked out in the project here, or None."""
        return self._git_output(call, "rev-parse", "--verify", "--quiet", "HEAD") or None

    def _branch(self, call: WorkerCall) -> str:
        """Return the branch that is checked out in the project here, empty if there is none."""
        return self._git_output(call, "symbolic-ref", "--quiet", "--short", "HEAD")

    def _git_output(self, call: WorkerCall, *words: str) -> str:
        """Return the output of git in the project here, empty if it fails."""
        from ..files.checkout import TreeError, TreeGit
        from ..files.main_tree import repository_of
        from ..processes.secrets import passed_on

        workspace = call.workspace
        repository = repository_of(workspace.root)
        if repository is None:
            return ""
        git = TreeGit(repository, (), passed_on(workspace.folder))
        try:
            return git.say(*words).decode().strip()
        except (TreeError, OSError, UnicodeDecodeError):
            return ""


class WorkerCall:
    """One call of a worker: its token's `claims`, and the rest of its body in `given`.

    Every check raises `HttpError`.
    """

    def __init__(
        self,
        workspace: Any,
        database: Database,
        claims: Mapping[str, Any],
        given: Facts,
    ) -> None:
        self.claims = claims
        self.database = database
        self.given = given
        self.worker: str = claims["wrk"]
        self.workspace = workspace

    @property
    def owner(self) -> str:
        """The worker as the owner of a lease on the merge queue."""
        return lease_of(self.worker)

    def require(self, *, host: str = "", merges: bool = False) -> None:
        """Require that the worker's token is the current one, in a transaction.

        With `merges`, it must be allowed to run the merge queue.
        """
        sql = "SELECT token, revoked, merge FROM ralphgen_workers WHERE name = ?"
        row = self.database.row(sql, [self.worker])
        if row is None or row[:2] != (self.claims["jti"], None):
            raise HttpError(
                401,
                "this worker was revoked",
                **{"www-authenticate": 'Bearer error="invalid_token"'},
            )
        if merges and not row[2]:
            raise HttpError(403, "this worker may not run the merge queue: its token lacks --merge")
        if host:
            sql = "UPDATE ralphgen_workers SET seen = ?, host = ? WHERE name = ?"
            self.database.change(sql, [moment(), host, self.worker])

    def require_lease(self, target: str) -> None:
        """Require that the worker runs the merge queue of a branch, in a transaction."""
        self.require(merges=True)
        if runner_of(self.database, target) != self.owner:
            raise HttpError(409, "this worker does not run the merge queue")

    def session_row(self, session: str) -> Facts | None:
        """Return the row of a session, None if there is none."""
        return (
            self.database.record("SELECT * FROM ralphgen_sessions WHERE id = ?", [session]) or None
        )

    def own(self, session: str) -> Facts:
        """Return the row of one of the worker's sessions."""
        row = self.session_row(session)
        if row is None or row["worker"] != self.worker:
            raise HttpError(409, "this worker has no such session")
        return row

    def status(self, task: int) -> str | None:
        """Return the status of a task, None if it is gone."""
        sql = self.workspace.tables.tasks.select(["status"], "WHERE id = ?")
        row = self.database.row(sql, [task])
        return None if row is None else str(row[0])

    def text(self, name: str, pattern: str, default: str | None = None) -> str:
        """Return a text of the body that matches a pattern, without half characters."""
        if default is not None and name not in self.given:
            return default
        return _matching(name, self.given.pop(name, None), pattern)

    def texts(self, name: str, pattern: str, most: int) -> list[str]:
        """Return a list of texts of the body, none if it is missing."""
        values = self.given.pop(name, [])
        if type(values) is not list or len(values) > most:
            raise HttpError(400, f'"{name}" is not a list of at most {most} texts')
        return [_matching(name, value, pattern) for value in values]

    def numbers(self, name: str) -> frozenset[int]:
        """Return the ids of tasks in the body, none if they are missing."""
        values = self.given.pop(name, [])
        if type(values) is not list or len(values) > MOST_TASKS:
            raise HttpError(400, f'"{name}" is not a list of at most {MOST_TASKS} numbers')
        if not all(type(value) is int and abs(value) < 2**63 for value in values):
            raise HttpError(400, f'"{name}" is not a list of numbers')
        return frozenset(values)

    def number(self, name: str, most: float) -> float | None:
        """Return a number of the body, None if it is missing."""
        value = self.given.pop(name, None)
        return None if value is None else _number(name, value, most)

    def whole(self, name: str) -> int:
        """Return a whole number of the body, such as that of an entry."""
        value = self.given.pop(name, None)
        if type(value) is not int or abs(value) >= 2**63:
            raise HttpError(400, f'"{name}" is missing or invalid')
        return value

    def whole_or_none(self, name: str) -> int | None:
        """Return a whole number of the body, None if it is missing."""
        if self.given.get(name) is None:
            self.given.pop(name, None)
            return None
        return self.whole(name)

    def results(self) -> dict[str, Facts]:
        """Return the results of checks in the body, in the form of evidence, by check."""
        results = self.given.pop("results", None)
        if type(results) is not dict or len(results) > MOST:
            raise HttpError(400, f'"results" is not an object of at most {MOST} checks')
        return {name: _result(name, result) for name, result in results.items()}

    def end_of_body(self) -> None:
        """Refuse what is left of the body."""
        if self.given:
            raise HttpError(400, f"unknown key: {next(iter(self.given))[:100]}")


def _result(name: str, result: object) -> Facts:
    """Return the result of one check in the form of evidence; raises `HttpError`."""
    keys = {"exit_code", "seconds", "started", "tail"}
    if not re.fullmatch(NAME, name) or type(result) is not dict or result.keys() != keys:
        raise HttpError(400, f'a result of "results" has other keys than {", ".join(sorted(keys))}')
    code = result["exit_code"]
    if code is not None and (type(code) is not int or abs(code) > NUMBER):
        raise HttpError(400, '"exit_code" is not a number or null')
    return {
        "exit_code": code,
        "seconds": float(_number("seconds", result["seconds"], NUMBER)),
        "started": _matching("started", result["started"], MOMENT),
        "tail": _matching("tail", result["tail"], rf"[^\x00]{{0,{TAIL}}}"),
    }


def _commits(call: WorkerCall, pattern: str) -> dict[int, str]:
    """Return the commits of `entries` by number, which is a key of JSON."""
    found = call.given.pop("entries", None)
    if type(found) is not dict or len(found) > MOST_TASKS:
        raise HttpError(400, '"entries" is missing or invalid')
    numbers = [_matching("entries", number, r"[1-9][0-9]{0,17}") for number in found]
    return {int(number): _matching("entries", found[number], pattern) for number in numbers}


def _matching(name: str, value: object, pattern: str) -> str:
    if type(value) is not str or not re.fullmatch(pattern, value, re.ASCII | re.DOTALL):
        raise HttpError(400, f'"{name}" is missing or invalid')
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise HttpError(400, f'"{name}" is not well-formed Unicode') from error
    return value


def _number(name: str, value: object, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise HttpError(400, f'"{name}" is not a number from 0 to {most:g}')
    return value


def _rules(done: Mapping[str, Any] | None) -> bytes:
    """Return the rules on done as bytes, which a clone has too."""
    return json.dumps(done or {"checks": ()}, sort_keys=True).encode()
