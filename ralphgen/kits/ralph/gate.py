"""Runs checks on the files of a directory, without a server, a database or evidence."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

from ralphgen.errors import ProjectError, UsageError
from ralphgen.kits.ralph.server.checks import CheckRun, TreeRun
from ralphgen.kits.ralph.server.proof import look_at_tree
from ralphgen.project.root import FOLDER
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.work_tree import mapped_files
from ralphgen.runtime.session import DEFAULT_FILE
from ralphgen.runtime.tasks.status import Look, checks_for, quoted_names, refused_files

RUN_CHECKS = "run_checks"
REPORTED = ("exit_code", "seconds", "started", "tail")


class GateRun(CheckRun):
    """One run of checks that stores no evidence."""

    __slots__ = ()

    def _keep(self, *_: object) -> bool:
        return True


class ReportedRun(TreeRun):
    """One run of checks whose results go to a server."""

    __slots__ = ()

    def _keep(self, results: Sequence[dict[str, Any]], after: Look, protected: list[str]) -> bool:
        runs = {one["name"]: {name: one[name] for name in REPORTED} for one in results}
        workspace: Any = self._workspace
        workspace.report(after.tree, after.base, protected, runs)
        return True

    @property
    def tree(self) -> str:
        """The tree on which all checks have passed, empty if they have not."""
        return self._tree if self.over and self._answer.get("passed") else ""

    def results(self) -> dict[str, str]:
        """Return the result of each check in words."""
        codes = {one["name"]: one["exit_code"] for one in self._answer.get("checks", ())}
        return {
            name: "passed" if code == 0 else f"exit code {code}" for name, code in codes.items()
        }


class WorkerChecks:
    """Runs the checks of one task on a worker, in a private checkout, and reports each run.

    `report` takes the tree, the commit at which the work began, the changed protected files, and
    the results by check. It raises `ToolError` if the server does not accept them.
    """

    def __init__(
        self,
        root: Path,
        work_tree: Path,
        task: int,
        discipline: object,
        report: Callable[..., None],
    ) -> None:
        """Prepare the checks for the worktree of a session; `begin` gives them its rules."""
        self._discipline = discipline
        self._lock = Lock()
        self._run: ReportedRun | None = None
        self._task = task
        self._workspace: Any = SimpleNamespace(
            root=str(root), work_tree=str(work_tree), folder=str(root / FOLDER), report=report
        )

    def begin(self, context: Path, done: Mapping[str, Any]) -> None:
        """Use the rules in the context of the session.

        Raises `ProjectError` for a check that runs a task of dela, whose server a task needs.
        """
        session = SimpleNamespace(done=done, context=str(context), worker=None, sandbox=None)
        vars(self._workspace).update(session=session, done=done, tree_rules=done["tree"])
        if dela := [check["name"] for check in self._checks if "dela" in check]:
            text = f'the check "{dela[0]}" runs a task of dela, which needs the database'
            raise ProjectError(text, "set run in place of dela")

    @property
    def _checks(self) -> list[Mapping[str, Any]]:
        return checks_for(self._workspace.done, self._discipline)

    def run(self) -> dict[str, Any]:
        """Return the answer of `run_checks`; a call during a run waits for the same run.

        Raises `ToolError` if the checks cannot be run or reported.
        """
        with self._lock:
            if self._run is None or self._run.over:
                look = look_at_tree(self._workspace, for_run=True)
                if refusals := refused_files(look):
                    raise ToolError(". ".join(refusals))
                if self._run is None or not self._run.answers(look):
                    self._run = ReportedRun(self._workspace, self._task, self._checks)
                    self._run.start(look)
            run = self._run
        answer: dict[str, Any] = run.answer().outcome()
        return answer

    def proved_tree(self) -> str:
        """Return the current tree if all checks have passed on it; raises `ToolError` if not."""
        look = look_at_tree(self._workspace)
        if not self._checks:
            self._workspace.report(look.tree, look.base, [*look.protected], {})
        elif self._run is None or self._run.tree != look.tree:
            text = f"task {self._task} is not done: its checks have not passed on the current files"
            raise ToolError(f"{text}: call {RUN_CHECKS}, then set it to done")
        return look.tree.split()[0]

    def results(self) -> dict[str, str]:
        """Return the result of each check of the last run in words."""
        return {} if self._run is None or not self._run.over else self._run.results()

    def close(self) -> None:
        """Stop the checks that run."""
        if self._run is not None:
            self._run.close()


def checked_files(
    root: Path,
    work_tree: Path,
    done: Mapping[str, Any],
    checks: Sequence[Mapping[str, Any]],
    sandbox: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the answer of `run_checks` for the files in `work_tree`.

    `done` has the rules on done, as in the emitted facts, and `checks` are the ones to run, by the
    rules of a `sandbox` if there is one. Raises
    `UsageError` for a check that runs a task of dela, whose server a task needs.
    """
    if dela := [check["name"] for check in checks if "dela" in check]:
        text = f'the check "{dela[0]}" runs a task of dela, which needs the database'
        raise UsageError(text, "pass --task, or set run in place of dela")
    workspace: Any = SimpleNamespace(
        root=str(root),
        work_tree=str(work_tree),
        folder=str(root / FOLDER),
        session=SimpleNamespace(done=None, context=None, worker=None, sandbox=sandbox),
        done=done,
        tree_rules=None,
    )
    try:
        look = look_at_tree(workspace, for_run=True)
        reasons = refused_files(look)
        if mapped := mapped_files(look.work_tree, look.stamps):
            text = "another program has these files open for writing or mapped into its memory"
            reasons.append(f"{text}: {quoted_names(mapped)}")
        if reasons:
            return {"passed": False, "checks": [], "not_proved": ". ".join(reasons)}
        run = GateRun(workspace, 0, checks)
        run.start(look)
        answer: dict[str, Any] = run.answer().outcome()
    except ToolError as error:
        raise ProjectError(str(error)) from error
    return answer


def session_protected(
    root: Path, work_tree: Path, folder: Path, done: Mapping[str, Any]
) -> list[str]:
    """Return the protected files that differ from the start of the session in `folder`.

    `done` has the rules in its context. Raises `ProjectError` if the record of the start is gone.
    """
    workspace: Any = SimpleNamespace(
        root=str(root),
        work_tree=str(work_tree),
        folder=str(root / FOLDER),
        session=SimpleNamespace(done=done, context=str(folder / DEFAULT_FILE), worker=None),
        tables=SimpleNamespace(ledger=False),
        done=done,
        tree_rules=done.get("tree"),
    )
    try:
        return [*look_at_tree(workspace).protected]
    except ToolError as error:
        raise ProjectError(str(error)) from error
