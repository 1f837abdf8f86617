"""Whether a task is proved to be done: its checks, its dependencies and the protected files."""

from __future__ import annotations

import _thread
import os

from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.tasks.readiness import prerequisites, rows_by_id, unmerged_tasks
from ralphgen.runtime.tasks.rows import plain
from ralphgen.runtime.values.arguments import shortened
from ralphgen.runtime.values.encoding import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.engine import Database
    from ralphgen.runtime.files.checkout import TreeGit

    from .workspace import Workspace

    Check = Mapping[str, Any]

SNAPSHOT = "snapshot.json"  # beside the context of a session
PATIENCE = 5.0  # seconds to wait for other writers as a client comes or leaves
MERGE = "merge"  # the worktree in which a loop merges
LISTED = 20  # files or tasks that are named
OVERRULED = "(overruled)"  # in place of a check's name, in the record of a person's own word


class Look:
    """What a work tree holds at one moment.

    `files` are as `tree_files` returns them, and `tree` is their digest. `protected` and `watched`
    are such files that differ from what they were when the session was made. `nested` are the
    repositories within the tree that git neither ignores nor had as submodules then, and `unlisted`
    files that git does not list, such as pipes. `rules` are
    those of the session's start, None without a session. `stamps` are from before the files were
    read. `earlier` are protected files that an earlier session changed.

    In a worktree of ours, `files` is empty, `tree` begins with the id of the tree that git would
    commit, and `head` is the commit that is checked out.
    """

    __slots__ = (
        *("earlier", "files", "head", "nested", "protected", "rules", "stamps", "tree"),
        *("unlisted", "watched"),
    )

    def __init__(
        self,
        files: Mapping[str, str],
        tree: str,
        protected: Sequence[str],
        watched: Sequence[str],
        nested: Sequence[str],
        rules: Mapping[str, Any] | None,
        stamps: Mapping[str, tuple[int, ...]],
        earlier: Sequence[str] = (),
        head: str = "",
        unlisted: Sequence[str] = (),
    ) -> None:
        self.earlier = earlier
        self.rules = rules
        self.stamps = stamps
        self.files = files
        self.head = head
        self.nested = nested
        self.tree = tree
        self.unlisted = unlisted
        self.protected = protected
        self.watched = watched


def look_at_tree(workspace: Workspace, *, for_run: bool = False) -> Look:
    """Return what the work tree holds now, with stamps `for_run` of checks that begins next.

    Raises `DeferError` on the thread that reads requests, since that takes its time, and
    `ToolError` where what the session began with is not known any more.
    """
    take_time()
    if workspace.tree_rules is not None:
        return _look_at_worktree(workspace, workspace.tree_rules)
    from ralphgen.runtime.files.work_tree import (
        differing_files,
        listed_files,
        marked_files,
        nested_repositories,
        protected_elsewhere,
        protected_files,
        settled_stamps,
        submodules,
        tree_digest,
        unlisted_files,
        watched_files,
    )

    done, root = workspace.done or {}, workspace.work_tree
    began = _snapshot(workspace)
    rules, globs = _with_new_trees(workspace, began), done.get("protect", ())
    names, ticked = listed_files(root, rules, globs)
    stamps = settled_stamps(root, names) if for_run else {}
    files = marked_files(root, names, ticked)
    digest, unlisted = tree_digest(files), unlisted_files(root, rules)
    if began is None:
        nested = nested_repositories(root, submodules(root))
        return Look(files, digest, (), (), nested, rules, stamps, unlisted=unlisted)
    protected = protected_files(root, globs, files)
    protected |= protected_elsewhere(root, (_project_of(workspace), workspace.root))
    commands = [check["run"] for check in done["checks"] if "run" in check]
    return Look(
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
        changed_paths,
        copied_marks,
        write_tree,
    )
    from ralphgen.runtime.files.protection import PROTECTED, RALPH, pattern_of
    from ralphgen.runtime.files.work_tree import (
        differing_files,
        nested_repositories,
        protected_elsewhere,
        protected_now,
        tree_digest,
    )

    done, began = workspace.done or {}, _snapshot(workspace) or {}
    git = worktree_git(workspace, rules)
    try:
        tree, paths = write_tree(git, rules["base"])
        differing = changed_paths(git, rules["base"], tree)
        head = git.say("rev-parse", "--verify", "--quiet", "HEAD", codes=1).decode("ascii").strip()
    except (TreeError, OSError) as error:
        raise ToolError(f"the files of the worktree cannot be recorded: {error}") from error
    inner = inner_path(workspace, git)
    own = inner and f"{inner}/"
    changed = [path.removeprefix(own) for path in differing if path.startswith(own)]
    globs = (*done.get("protect", ()), *(f"{RALPH}/{name}" for name in PROTECTED))
    patterns = [pattern_of(glob, workspace.work_tree) for glob in globs]
    protected = {path for path in changed if any(one.match(path) for one in patterns)}
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
        {},
        f"{tree} {tree_digest(ignored)}" if ignored else tree,
        sorted(protected),
        [path for path in changed if path in named or any(one.match(path) for one in watches)],
        nested_repositories(workspace.work_tree, began.get("rules", {}).get("nested", ())),
        None,
        {},
        head=head,
    )


def worktree_git(workspace: Workspace, rules: Mapping[str, Any]) -> TreeGit:
    """Return git in the worktree of a session; raise `ToolError` if the worktree is gone."""
    from ralphgen.runtime.files.checkout import TreeGit
    from ralphgen.runtime.files.main_tree import repository_of
    from ralphgen.runtime.processes.inherited import passed_on

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


def checks_for(workspace: Workspace, discipline: object) -> list[Check]:
    """Return the checks that a task of a discipline has to pass, in the config's order."""
    checks: Sequence[Check] = (workspace.done or {}).get("checks", ())
    return [one for one in checks if discipline in one.get("disciplines", (discipline,))]


def command_of(check: Check) -> str:
    """Return what a check runs, as one would type it."""
    import shlex

    return shlex.join(check["run"]) if "run" in check else f"the task {check['dela']} of dela"


def definition_of(check: Check) -> str:
    """Return the digest of what a check runs."""
    import json

    return sha256_hex(json.dumps([check.get("run"), check.get("dela")]).encode())


def prove(workspace: Workspace, task: int, because: str | None, look: Look) -> list[str]:
    """Let a task become done, in a transaction that is open; return what has to be told with it.

    Raises `ToolError` where it is not proved and no person says `because` of what it is done.
    """
    if because is None:
        refuse_unproved(workspace, task, look)
        told = []
    else:
        from ralphgen.runtime.processes.launched import is_below_launch

        if is_below_launch():
            raise ToolError('"because" is for the user, and this is an agent\'s session')
        overrule(workspace, task, because, look)
        record_tree(workspace, task, look)
        told = [f"Done without proof: {because}"]
    if look.watched:
        told.append(f"Changed in this session: {listed(look.watched)}")
    return told


def refuse_unproved(workspace: Workspace, task: int, look: Look) -> None:
    """Raise `ToolError`, which says what lacks, where a task is not proved to be done.

    Runs in a transaction that is open, and records the tree that is proved. A person may rely on
    what any session has proved, an agent on its own evidence alone.
    """
    if workspace.done is None:
        record_tree(workspace, task, look)
        return
    tasks = workspace.tables.tasks
    columns = tasks.chosen(["discipline", "depends_on"])
    row = dict(zip(columns, workspace.task(task, columns), strict=True))
    lacking = [*_open_dependencies(workspace, row.get("depends_on"))]
    if look.protected:
        lacking.append(refused_protected(workspace, look, look.protected))
    lacking += refused_files(look)
    unproved = _unproved(workspace, task, checks_for(workspace, row["discipline"]), look)
    if unproved:
        lacking.append(f"{'; '.join(unproved)}: {_call(workspace, task)}")
        lacking += new_rules(workspace, look, look.files)
    if lacking:
        raise ToolError(f"task {task} is not done: {'. '.join(lacking)}")
    record_tree(workspace, task, look)


def record_tree(workspace: Workspace, task: int, look: Look) -> None:
    """Record the tree of a worktree of ours: a merge takes it, and no later change.

    A ref keeps git from pruning it until then.
    """
    rules = workspace.tree_rules
    if rules is None:
        return
    import json

    from ralphgen.runtime.engine.ledger import RECORDED
    from ralphgen.runtime.files.checkout import WORK, TreeError

    try:
        worktree_git(workspace, rules).say("update-ref", f"{WORK}{task}", look.tree.split()[0])
    except TreeError as error:
        raise ToolError(f"the files of the worktree cannot be recorded: {error}") from error
    tail = json.dumps({"base": rules["base"], "head": look.head})
    _record(workspace, RECORDED, exit_code=0, task=task, tree=look.tree, tail=tail)


def refused_protected(workspace: Workspace, look: Look, paths: Sequence[str]) -> str:
    """Return why nothing can be proved while these protected files differ."""
    earlier = [path for path in paths if path in look.earlier]
    own = [path for path in paths if path not in look.earlier]
    texts = [f"protected files were changed, put them back: {listed(own)}"] if own else []
    if earlier:
        texts.append(
            f"an earlier session changed protected files: {listed(earlier)}: put them back, or ask "
            'the user to accept them with "ralphgen trust" and to start a new session'
        )
    return ". ".join([*texts, *new_rules(workspace, look, paths)])


def new_rules(workspace: Workspace, look: Look, paths: Iterable[str]) -> list[str]:
    """Return a sentence on the paths that count although an ignore rule leaves them out now.

    Without a session, the current rules count, and there is no such path.
    """
    if look.rules is None:
        return []
    from ralphgen.runtime.files.work_tree import newly_ignored

    hidden = newly_ignored(workspace.work_tree, paths, look.rules)
    if not hidden:
        return []
    named = listed([*dict.fromkeys(hidden.values())])
    files = listed([*hidden])
    text = f"a new ignore rule takes effect with the next session ({named})"
    return [f"{text}, and these files count until then: {files}"]


def refused_files(look: Look) -> list[str]:
    """Return why nothing can be proved while such repositories and files are in the tree."""
    texts, paths = [], look.nested
    if [path for path in paths if path.rpartition("/")[2] == ".git"]:
        text = "the session did not start in this repository: remove or restore"
        texts.append(f"{text} {listed(paths)}")
    elif paths:
        texts.append(
            f"git cannot commit a repository within the tree: {listed(paths)}: remove its .git, "
            "or let a .gitignore cover it"
        )
    if look.unlisted:
        text = "a proof does not cover pipes, sockets, devices and .git folders: remove"
        texts.append(f"{text} {listed(look.unlisted)}")
    return texts


def overrule(workspace: Workspace, task: int, because: str, look: Look) -> None:
    """Record, in a transaction that is open, that a person closes a task without proof."""
    files = {"tree": look.tree, "protected": look.protected, "watched": look.watched}
    _record(workspace, OVERRULED, exit_code=None, task=task, tail=because, **files)


def _record(workspace: Workspace, check: str, **facts: Any) -> None:
    """Store evidence under a name in place of a check's, in a transaction that is open."""
    from ralphgen.runtime.engine.ledger import Evidence, add_evidence
    from ralphgen.runtime.tasks.rows import now

    session, started = workspace.session.session_id, now()
    evidence = Evidence(
        session=session, check=check, definition="", started=started, seconds=0.0, **facts
    )
    add_evidence(workspace.database, evidence)


def begin_protection(workspace: Workspace) -> None:
    """Record the protected files as a session has to leave them, if it is not on record."""
    _record_protection(workspace, _begin_baseline)


def end_protection(workspace: Workspace) -> None:
    """Record the protected files that a session changed, as its client leaves.

    `ralphgen launch` does so for its own sessions, once the agent has ended.
    """
    from ralphgen.runtime.engine.ledger import baselines_at, end_baseline
    from ralphgen.runtime.files.work_tree import protected_changes
    from ralphgen.runtime.processes.launched import is_below_launch
    from ralphgen.runtime.tasks.rows import now

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
    from ralphgen.runtime.tasks.rows import now

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


def listed(names: Sequence[str]) -> str:
    """Return names in quotes, the first of them where there are many."""
    shown = ", ".join(shortened(name) for name in names[:LISTED])
    return f"{shown} and {len(names) - LISTED} more" if names[LISTED:] else shown


def _with_new_trees(workspace: Workspace, began: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the rules of a session's start, with worktrees that a loop has made since.

    The ledger has each session with its worktree: one that an agent made up does not count.
    """
    from ralphgen.runtime.files.work_tree import agents_trees

    if began is None:
        return None
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


def _open_dependencies(workspace: Workspace, stored: object) -> list[str]:
    """Return a sentence on the tasks that a task waits for, if it does."""
    needed = prerequisites(stored)
    database, tables = workspace.database, workspace.tables
    rows = rows_by_id(database, tables, needed, ["status"])
    states = {task: str(plain(rows[task][0])) if task in rows else "missing" for task in needed}
    states |= dict.fromkeys(unmerged_tasks(database, tables, rows), "not merged")
    waits = [f"{task} ({shortened(state)})" for task, state in states.items() if state not in MET]
    return [f"it depends on tasks that are not done: {', '.join(waits[:LISTED])}"] if waits else []


def _unproved(workspace: Workspace, task: int, checks: Sequence[Check], look: Look) -> list[str]:
    """Return, for each of the checks that is not proved, what is known of it."""
    from ralphgen.runtime.engine.ledger import evidence_of, unproved_by

    session = workspace.session
    evidence = evidence_of(workspace.database, task) if checks else []
    lacking: list[str] = []
    for check in checks:
        name, definition = check["name"], definition_of(check)
        runs = [one for one in evidence if (one.check, one.definition) == (name, definition)]
        own = [one for one in runs if session.profile == FULL or one.session == session.session_id]
        now = next((one for one in own if one.tree == look.tree), None)
        if now is not None and now.exit_code == 0 and not now.protected:
            continue
        if now is None:
            what = "has not passed on the current files"
            what += " in this session" if runs and not own else ""
        elif now.protected:
            what = "was run while protected files were changed"
        elif reason := unproved_by(now):
            what = f"proves nothing: {reason}"
        else:
            what = f"ended with exit code {now.exit_code}"
            what = "was stopped" if now.exit_code is None else what
        lacking.append(f"check {shortened(name)} {what}")
    return lacking


def _call(workspace: Workspace, task: int) -> str:
    """Return how checks are run by who reads this."""
    session = workspace.session
    if "run_checks" not in session.enabled:
        closing = f'"ralphgen task check {task}", then "ralphgen task status {task} done"'
        return f"run {closing}" if session.profile == FULL else f"ask the user to run {closing}"
    bound = session.bound_arguments("run_checks").get("task")
    whole = "run_checks" if bound is not None else f"run_checks with task {task}"
    return f"call {whole}, then set it to done"
