"""The files that a session has to prove a task on, compared with those at its start."""

from __future__ import annotations

import _thread
import os

from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.tasks.status import Look, look_at_files, look_of_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ralphgen.runtime.engine import Database
    from ralphgen.runtime.files.checkout import TreeGit

    from .workspace import Workspace

SNAPSHOT = "snapshot.json"  # beside the context of a session
PATIENCE = 5.0  # seconds to wait for other writers as a client comes or leaves
MERGE = "merge"  # the worktree in which a loop merges


def look_at_tree(workspace: Workspace, *, for_run: bool = False) -> Look:
    """Return what the work tree holds now, with stamps `for_run` of checks that begins next.

    Raises `DeferError` on the thread that reads requests, since that takes its time, and
    `ToolError` where what the session began with is not known any more.
    """
    take_time()
    if workspace.session.worker is not None:
        session, task = workspace.session, workspace.session.task or 0
        return workspace.database.reading(
            lambda: look_of_worker(workspace.database, session, task, workspace.done)
        )
    if workspace.tree_rules is not None:
        return _look_at_worktree(workspace, workspace.tree_rules)
    from ralphgen.runtime.files.work_tree import (
        counted_files,
        differing_files,
        file_marks,
        nested_repositories,
        protected_elsewhere,
        protected_files,
        settled_stamps,
        tree_digest,
        unlisted_files,
        watched_files,
    )

    began, root = _snapshot(workspace), workspace.work_tree
    if began is None:
        return look_at_files(root, workspace.done, for_run=for_run)
    done = workspace.done or {}
    rules, globs = _with_new_trees(workspace, began), done.get("protect", ())
    names, ticked = counted_files(root, rules, globs)
    stamps = settled_stamps(root, names) if for_run else {}
    files = file_marks(root, names, ticked)
    digest, unlisted = tree_digest(files), unlisted_files(root, rules, files)
    protected = protected_files(root, globs, files)
    protected |= protected_elsewhere(root, (_project_of(workspace), workspace.root))
    commands = [check["run"] for check in done["checks"] if "run" in check]
    return Look(
        root,
        workspace.done,
        files,
        digest,
        differing_files(began["protected"], protected),
        differing_files(began["watched"], watched_files(done["watch"], commands, files)),
        nested_repositories(root, began["rules"]["nested"], rules),
        rules,
        stamps,
        began["earlier"],
        unlisted=unlisted,
    )


def _look_at_worktree(workspace: Workspace, rules: Mapping[str, Any]) -> Look:
    """Return the tree that git would commit now, compared with the commit the session began at.

    Raises `ToolError` if git cannot write it.
    """
    from ralphgen.runtime.files.checkout import (
        TreeError,
        attribute_changes,
        changed_paths,
        copied_marks,
        write_tree,
    )
    from ralphgen.runtime.files.main_tree import PROTECTED, RALPH, pattern_of
    from ralphgen.runtime.files.work_tree import (
        differing_files,
        nested_repositories,
        protected_elsewhere,
        protected_now,
        tree_digest,
    )

    done, began = workspace.done or {}, _snapshot(workspace) or {}
    git = worktree_git(workspace, rules)
    inner = inner_path(workspace, git)
    own = inner and f"{inner}/"
    globs = (*done.get("protect", ()), *(f"{RALPH}/{name}" for name in PROTECTED))
    patterns = [pattern_of(glob, workspace.work_tree) for glob in globs]

    def is_protected(path: str) -> bool:
        return path.startswith(own) and any(one.match(path.removeprefix(own)) for one in patterns)

    try:
        tree, paths = write_tree(git, rules["base"])
        differing = changed_paths(git, rules["base"], tree)
        converting = attribute_changes(git, rules["base"], tree, differing, is_protected)
        head = git.say("rev-parse", "--verify", "--quiet", "HEAD", codes=1).decode("ascii").strip()
    except (TreeError, OSError) as error:
        raise ToolError(f"the files of the worktree cannot be recorded: {error}") from error
    changed = [path.removeprefix(own) for path in differing if path.startswith(own)]
    protected = {path.removeprefix(own) for path in differing if is_protected(path)}
    protected.update(path.removeprefix(own) for path in converting)
    marks = protected_now(workspace.work_tree, done.get("protect", ()))
    root = _project_of(workspace)
    elsewhere = protected_elsewhere(workspace.work_tree, (root, workspace.root))
    elsewhere |= copied_marks(root, rules["copy"], done.get("protect", ()))
    protected.update(differing_files(began.get("protected", {}), marks | elsewhere))
    ignored = {
        path: mark
        for path, mark in marks.items()
        if f"{own}{path}" not in paths and not path.startswith(f"{RALPH}/")
    }
    watches = [pattern_of(glob, workspace.work_tree) for glob in done.get("watch", ())]
    named = {
        os.path.normpath(word) for check in done.get("checks", ()) for word in check.get("run", ())
    }
    return Look(
        workspace.work_tree,
        workspace.done,
        {},
        f"{tree} {tree_digest(ignored)}" if ignored else tree,
        sorted(protected),
        [path for path in changed if path in named or any(one.match(path) for one in watches)],
        nested_repositories(workspace.work_tree, began.get("rules", {}).get("nested", ())),
        None,
        {},
        base=rules["base"],
        head=head,
        git=git,
    )


def worktree_git(workspace: Workspace, rules: Mapping[str, Any]) -> TreeGit:
    """Return git in the worktree of a session; raise `ToolError` if the worktree is gone."""
    from ralphgen.runtime.files.checkout import TreeGit
    from ralphgen.runtime.files.main_tree import repository_of
    from ralphgen.runtime.processes.secrets import passed_on

    repository = repository_of(workspace.work_tree)
    if repository is None:
        raise ToolError("git does not know the worktree of this session any more")
    variables = passed_on(workspace.folder, also=("*",))
    return TreeGit(repository, map(tuple, rules["settings"]), variables)


def _project_of(workspace: Workspace) -> str:
    """Return the project's own directory, whose settings and copied files the session uses."""
    return os.path.dirname(os.path.dirname(workspace.folder))


def inner_path(workspace: Workspace, git: TreeGit) -> str:
    """Return the path of the project below the top of its worktree, empty at the top."""
    inner = os.path.relpath(os.path.realpath(workspace.work_tree), git.repository.top)
    return "" if inner == os.curdir else inner


def begin_protection(workspace: Workspace) -> None:
    """Record the protected files as a session has to leave them, if it is not on record."""
    _record_protection(workspace, _begin_baseline)


def end_protection(workspace: Workspace) -> None:
    """Record the protected files that a session changed, as its client leaves.

    `ralphgen launch` does so for its own sessions, once the agent has ended.
    """
    from ralphgen.runtime.engine.ledger import baselines_at, end_baseline
    from ralphgen.runtime.files.work_tree import protected_changes
    from ralphgen.runtime.system import is_below_launch
    from ralphgen.runtime.tasks import now

    if is_below_launch():
        return
    directory = workspace.work_tree if workspace.tree_rules is None else _project_of(workspace)

    def end(database: Database, session: str, began: Mapping[str, Any]) -> None:
        _begin_baseline(database, session, began)  # the client may have left at once
        for one in baselines_at(database, began["place"]):
            if one.is_open and one.session == session:
                changes = protected_changes(directory, one.files, one.globs)
                end_baseline(database, began["place"], one, changes, now())

    ended = _thread.allocate_lock()
    ended.acquire()

    def wait() -> None:
        try:
            _record_protection(workspace, end)
        finally:
            ended.release()

    _thread.start_new_thread(wait, ())  # the thread that reads requests does not wait for a writer
    ended.acquire(timeout=2 * PATIENCE)


def _begin_baseline(database: Database, session: str, began: Mapping[str, Any]) -> None:
    from ralphgen.runtime.engine.ledger import open_baseline
    from ralphgen.runtime.tasks import now

    open_baseline(database, session, began["place"], began["own"], began["protect"], now())


def _record_protection(
    workspace: Workspace, record: Callable[[Database, str, Mapping[str, Any]], None]
) -> None:
    """Change what is on record of the protected files; what fails is left to the next session."""
    from ralphgen.runtime.engine.ledger import EVIDENCE

    try:
        began = _snapshot(workspace) or {}
        if not began.get("place"):
            return
        database = workspace.database.another(PATIENCE)
    except (StartError, ToolError):
        return
    try:
        if database.reading(lambda: database.sql.may_add(database, EVIDENCE)):
            session = workspace.session.session_id
            database.writing(lambda: record(database, session, began))
    except ToolError:
        return
    finally:
        database.close()


def _with_new_trees(workspace: Workspace, began: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rules of a session's start, with worktrees that a loop has made since.

    The ledger has each session with its worktree: one that an agent made up does not count.
    """
    from ralphgen.runtime.files.work_tree import agents_trees

    rules: dict[str, Any] = began["rules"]
    new = {*agents_trees(workspace.work_tree)}.difference(rules["worktrees"])
    if not workspace.tables.ledger:
        return rules
    sessions = workspace.database.reading(
        lambda: workspace.database.rows("SELECT id FROM ralphgen_sessions")
    )
    known_sessions = [workspace.session.session_id, *(session for (session,) in sessions)]
    rules = {**rules, "sessions": known_sessions}
    if not new:
        return rules
    sql = (
        "SELECT DISTINCT worktree FROM ralphgen_sessions WHERE worktree LIKE '%/.ralph/worktrees/%'"
    )
    found = workspace.database.reading(lambda: workspace.database.rows(sql))
    known = {path.rpartition("/.ralph/worktrees/")[2].partition("/")[0] for (path,) in found}
    # Next to the worktree of number 1 may be those in which its checks run: "1-" and a word.
    made = {name for name in new if name.partition("-")[0] in known or (known and name == MERGE)}
    return {**rules, "worktrees": [*rules["worktrees"], *sorted(made)]}


def _snapshot(workspace: Workspace) -> dict[str, Any] | None:
    """Return protected and watched files and the rules as the session found them, or None."""
    session = workspace.session
    digest = (session.done or {}).get("snapshot")
    if digest is None or session.context is None:
        return None
    import json

    try:
        with open(os.path.join(os.path.dirname(session.context), SNAPSHOT), "rb") as file:
            data = file.read()
    except OSError:
        data = b""
    if sha256_hex(data) != digest:
        raise ToolError(
            "this session's record of the protected files was removed or changed: nothing can be "
            "proved here any more; start a new session"
        )
    snapshot: dict[str, Any] = json.loads(data)
    if "rules" not in snapshot:
        raise ToolError("an earlier ralphgen made this session: start a new one")
    return snapshot


def advice_of(workspace: Workspace, task: int) -> str:
    """Return how checks are run by who reads this."""
    session = workspace.session
    if "run_checks" not in session.enabled:
        closing = f'"ralphgen task check {task}", then "ralphgen task status {task} done"'
        return f"run {closing}" if session.profile == FULL else f"ask the user to run {closing}"
    bound = session.filled_arguments("run_checks").get("task")
    whole = "run_checks" if bound is not None else f"run_checks with task {task}"
    return f"call {whole}, then set it to done"
