"""Runs checks on the files of a directory, without a server, a database or evidence."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ralphgen.errors import ProjectError, UsageError
from ralphgen.kits.ralph.server.checks import CheckRun
from ralphgen.kits.ralph.server.proof import look_at_tree
from ralphgen.project.root import FOLDER
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.work_tree import mapped_files
from ralphgen.runtime.session import DEFAULT_FILE
from ralphgen.runtime.tasks.status import refused_files

NO_SESSION = SimpleNamespace(done=None, context=None)


class GateRun(CheckRun):
    """One run of checks that stores no evidence."""

    __slots__ = ()

    def _keep(self, *_: object) -> bool:
        return True


def checked_files(
    root: Path, work_tree: Path, done: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the answer of `run_checks` for the files in `work_tree`.

    `done` has the rules on done, as in the emitted facts, and `checks` are the ones to run. Raises
    `UsageError` for a check that runs a task of dela, whose server a task needs.
    """
    if dela := [check["name"] for check in checks if "dela" in check]:
        text = f'the check "{dela[0]}" runs a task of dela, which needs the database'
        raise UsageError(text, "pass --task, or set run in place of dela")
    workspace: Any = SimpleNamespace(
        root=str(root),
        work_tree=str(work_tree),
        folder=str(root / FOLDER),
        session=NO_SESSION,
        done=done,
        tree_rules=None,
    )
    try:
        look = look_at_tree(workspace, for_run=True)
        reasons = refused_files(look)
        if mapped := mapped_files(look.stamps):
            reasons.append(f"another program has these files mapped to its memory: {mapped}")
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
        session=SimpleNamespace(done=done, context=str(folder / DEFAULT_FILE)),
        tables=SimpleNamespace(ledger=False),
        done=done,
        tree_rules=done.get("tree"),
    )
    try:
        return [*look_at_tree(workspace).protected]
    except ToolError as error:
        raise ProjectError(str(error)) from error
