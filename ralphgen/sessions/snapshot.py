"""A session's rules for closing a task, and the files as they were at its start."""

import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ralphgen.errors import ProgramError
from ralphgen.ledger.tables import now, read_state
from ralphgen.project.database import open_database, opened_database
from ralphgen.project.inspect import FACTS
from ralphgen.project.root import FOLDER, database_path, is_on_server, project_home
from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.engine.ledger import (
    Baseline,
    baselines_at,
    change_baseline,
    drop_baseline,
    end_baseline,
    open_baseline,
)
from ralphgen.runtime.files.checkout import (
    TreeError,
    TreeGit,
    copied_marks,
    unlike_commit,
    write_tree,
)
from ralphgen.runtime.files.git import ATTRIBUTES
from ralphgen.runtime.files.main_tree import is_agents_tree, repository_of
from ralphgen.runtime.files.work_tree import (
    is_protected,
    mark_of,
    protected_changes,
    protected_elsewhere,
    protected_files,
    protected_now,
    session_rules,
    tree_files,
    watched_files,
)
from ralphgen.runtime.processes.secrets import passed_on
from ralphgen.runtime.tasks import status
from ralphgen.runtime.tasks.status import RecordedTree
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.store import CONTEXT, SNAPSHOT, launcher_of, stored_session

ACCEPT = 'review and accept with "ralphgen trust"'
BEGAN = "refs/ralph/branches/"  # by branch of the loop: the base commit that it was created at
# The settings of git that decide about the content of a tree or a checkout.
_OF_CONTENT = re.compile(
    rf"(?:core|extensions|filter|lfs)\..*(?<!sshcommand)(?<!gitproxy)|{ATTRIBUTES}", re.DOTALL
)


def fixed_rules(
    root: Path, work_tree: Path, feature: str | None = None, *, settles: bool = True
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the rules that the server applies to tasks, for the context, and the file next to it.

    The rules are those of the project in `root`, the files those of `work_tree`, and ralphgen's own
    files those in the project's root and home. The context gets the rules under `done`; the file is
    a snapshot of files, by its name. The rules contain the snapshot's digest. Both are fixed by the
    digest of the session's context, so that no edit of the project loosens them. Both are empty in
    a project without checks, unless `work_tree` is in one of ralphgen's worktrees: then the rules
    define how its tree is recorded. A spec named like the `feature` belongs to the session. With
    `settles`, killed sessions are closed first.
    """
    tree = _tree_rules(root, work_tree) if is_agents_tree(str(work_tree)) else {}
    facts = _done_facts(root)
    if not facts:
        return ({"done": tree} if tree else {}), {}
    database = "" if is_on_server(root) else os.path.relpath(database_path(root), work_tree)
    directory = root if tree else work_tree
    rules = session_rules(str(work_tree), str(root), [feature] if feature else [], database)
    if tree:
        files: dict[str, str] = {}
        protected = protected_now(str(work_tree), facts["protect"])
        protected |= copied_marks(str(root), tree["tree"]["copy"], facts["protect"])
        own = protected_now(str(root), facts["protect"])
    else:
        files = tree_files(str(work_tree), rules, facts["protect"])
        own = protected = protected_files(str(work_tree), facts["protect"], files)
    if settles:
        _settle_sessions(root, directory)
    earlier = earlier_changes(root, directory)
    own = {path: mark for path, mark in {**own, **earlier}.items() if mark}
    if not tree:
        protected = {**own}
    protected |= protected_elsewhere(str(work_tree), (str(root), str(project_home(root))))
    commands = [check["run"] for check in facts["checks"] if "run" in check]
    snapshot: dict[str, Any] = {
        "protected": protected,
        "watched": watched_files(facts["watch"], commands, files),
        "rules": rules,
        "protect": facts["protect"],
        "own": own,
        "place": _place(root, directory),
        "earlier": sorted(earlier),
    }
    # Names of files need not be text: each such byte is spelled as half of a surrogate pair.
    data = json.dumps(snapshot, indent=0).encode()
    return {"done": {**facts, **tree, "snapshot": sha256_hex(data)}}, {SNAPSHOT: data}


def _done_facts(root: Path) -> dict[str, Any]:
    """Return the rules of the server in `root`, empty for none: its manifest lists their file."""
    try:
        facts: dict[str, Any] = json.loads((root / FACTS).read_bytes())["config"].get("done") or {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}
    return facts


def read_snapshot(folder: Path) -> dict[str, Any]:
    """Return the snapshot of the session in a folder; empty without one of this ralphgen."""
    try:
        facts = json.loads((folder / CONTEXT).read_bytes())["done"]
        data = (folder / SNAPSHOT).read_bytes()
        snapshot: dict[str, Any] = json.loads(data)
        is_whole = sha256_hex(data) == facts["snapshot"] and "rules" in snapshot
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return snapshot if is_whole else {}


def earlier_changes(root: Path, work_tree: Path) -> dict[str, str]:
    """Return the protected files that earlier agent sessions changed, with their marks before.

    A file counts while it is unchanged since the end of such a session, and until the user accepts
    it. Differences from the start of an open session are that session's changes; the same holds for
    a killed session, since no one recorded its end. A missing file has an empty mark. Empty in a
    project without a ledger.
    """
    before: dict[str, str] = {}
    facts = _done_facts(root)
    if read_state(root).version is None:
        return before
    place = _place(root, work_tree)
    with opened_database(root) as database:
        found = database.reading(lambda: baselines_at(database, place))
    ended = [one for one in found if not one.is_open]
    for one in ended:
        for path, (was, left) in one.files.items():
            if mark_of(str(work_tree / path)) == left:
                before[path] = was
    for one in reversed([one for one in found if one.is_open]):  # the oldest decides
        changes = protected_changes(str(work_tree), one.files, one.globs)
        before |= {path: was for path, (was, _) in changes.items()}
    globs = facts.get("protect", ())  # an agent can remove the rules, which are protected too
    return {path: was for path, was in before.items() if is_protected(str(work_tree), path, globs)}


def _settle_sessions(root: Path, work_tree: Path) -> None:
    """Record what sessions that were killed changed, so that later edits are the user's again."""
    place = _place(root, work_tree)

    def is_over(one: Baseline) -> bool:
        stored = stored_session(root, one.session)
        return stored is None or not (stored.running or launcher_of(stored.folder))

    _end_baselines(root, work_tree, place, is_over)


def begin_protection(session: PreparedSession) -> None:
    """Record the protected files as a session that begins has to leave them."""
    snapshot = read_snapshot(session.folder)
    if not snapshot.get("place") or read_state(session.root).version is None:
        return
    facts = (session.session_id, snapshot["place"], snapshot["own"], snapshot["protect"], now())
    with opened_database(session.root) as database:
        database.writing(lambda: open_baseline(database, *facts))


def end_protection(root: Path, work_tree: Path, session_id: str) -> None:
    """Record the protected files that a session changed, now that it has ended.

    In an agent's worktree, these are the project's own files in `root`.
    """
    directory = root if is_agents_tree(str(work_tree)) else work_tree
    place = _place(root, directory)
    _end_baselines(root, directory, place, lambda one: one.session == session_id)


def accept_fetched(root: Path, commit: str) -> None:
    """Accept the protected files of the project that are as in a commit of its remote."""
    if changed := earlier_changes(root, root):
        own = {*changed}.difference(_unlike(worktree_git(root, root), root, commit, changed))
        accept_changes(root, {path: mark_of(str(root / path)) for path in own})


def changed_protection(root: Path) -> list[str]:
    """Return the protected files that agents changed in the project's own directory or its branch.

    Files that the index of git hides count if they differ from the commit that is checked out.
    """
    changed, git = earlier_changes(root, root), worktree_git(root, root)
    protected = protected_now(str(root), _done_facts(root).get("protect", ()))
    return sorted({*changed, *_unlike(git, root, "HEAD", protected, only_hidden=True)})


def _unlike(
    git: TreeGit, root: Path, commit: str, paths: Iterable[str], *, only_hidden: bool = False
) -> list[str]:
    """Return the paths of the project whose files differ from a commit.

    With `only_hidden`, only the files that the index hides are compared.
    """
    inner = root.resolve().relative_to(git.repository.top)
    own = {(inner / path).as_posix(): path for path in paths}
    try:
        if only_hidden:
            words = ("ls-files", "-v", "--full-name")
            listed = git.names(*words, index=os.fspath(Path(git.repository.git_dir, "index")))
            hidden = {entry[2:] for entry in listed if entry[0] == "S" or entry[0].islower()}
            own = {path: own[path] for path in own.keys() & hidden}
        return [own[path] for path in unlike_commit(git, commit, [*own])] if own else []
    except TreeError as error:
        raise ProgramError(f'the files in "{root}" cannot be compared: {error}') from error


def accept_changes(root: Path, files: Mapping[str, str]) -> None:
    """Let later sessions begin with these protected files, by path and by the mark of each now."""
    with opened_database(root) as database:

        def accept() -> None:
            for one in baselines_at(database, _place(root, root)):
                known = {**one.files}
                for path, mark in files.items():
                    if not one.is_open and path in known and known[path][1] == mark:
                        del known[path]
                    elif one.is_open and is_protected(str(root), path, one.globs):
                        known[path] = mark
                known = {path: marks for path, marks in known.items() if marks}
                if not known and not one.is_open:
                    drop_baseline(database, one)
                elif known != one.files:
                    change_baseline(database, one, known)

        database.writing(accept)


def _end_baselines(
    root: Path, work_tree: Path, place: str, is_over: Callable[[Baseline], bool]
) -> None:
    if read_state(root).version is None:
        return
    with opened_database(root) as database:
        found = database.reading(lambda: baselines_at(database, place))
        for one in found:
            if one.is_open and is_over(one):
                changes = protected_changes(str(work_tree), one.files, one.globs)
                database.writing(partial(end_baseline, database, place, one, changes, now()))


def _place(root: Path, work_tree: Path) -> str:
    """Return a digest of a worktree's location, relative to the scope of its database.

    An SQLite file moves with its project; many machines share a database on a server.
    """
    facts = [os.path.relpath(work_tree.resolve(), project_home(root).resolve())]
    if is_on_server(root):
        facts += [socket.gethostname(), str(work_tree.resolve())]
    return sha256_hex(json.dumps(facts).encode())


def worktree_git(root: Path, work_tree: Path) -> TreeGit:
    """Return git in a worktree of the project in `root`, with an index of ours."""
    from ralphgen.emit.trust import trusted_settings

    repository = repository_of(str(work_tree))
    if repository is None:
        text = f'git does not know the worktree "{work_tree}"'
        raise ProgramError(text, 'run "git worktree list"')
    settings = [(key, value) for key, value in trusted_settings(root) if _OF_CONTENT.fullmatch(key)]
    return TreeGit(repository, settings, passed_on(str(root / FOLDER), also=("*",)))


def current_tree(root: Path, work_tree: Path) -> str:
    """Return the tree that git would commit in an agent's worktree, empty if it cannot."""
    git = worktree_git(root, work_tree)
    try:
        return write_tree(git, git.say("rev-parse", "--verify", "HEAD").decode("ascii").strip())[0]
    except TreeError:
        return ""


def recorded_tree(root: Path, session_id: str, task: int) -> RecordedTree | None:
    """Return the tree that a session recorded for a task last, None without one."""
    with open_database(root) as database:
        return status.recorded_tree(database, session_id, task)


def _tree_rules(root: Path, work_tree: Path) -> dict[str, Any]:
    """Return, under `tree`, the session's base commit and the setup for its checkouts."""
    from ralphgen.kits.registry import read_settings

    git, config = worktree_git(root, work_tree), read_settings(root).loop
    try:
        base = git.say("merge-base", "HEAD", _base_commit(root, git)).decode("ascii").strip()
    except TreeError as error:
        raise ProgramError(f'the worktree "{work_tree}" cannot be used: {error}') from error
    rules = {"base": base, "settings": git.settings, "copy": config.copy_files}
    return {"tree": {**rules, "setup": config.setup, "setup_when": config.setup_when}}


def _base_commit(root: Path, git: TreeGit) -> str:
    """Return the commit of the base branch that the work in an agents' worktree began at.

    That is on record for a branch of the loop. Otherwise, it is the commit that is checked out in
    the project.
    """
    branch = os.fsdecode(git.say("symbolic-ref", "--quiet", "--short", "HEAD", codes=1)).strip()
    words = ("rev-parse", "--verify", "--quiet", f"{BEGAN}{branch}^{{commit}}")
    began = git.say(*words, codes=1) if branch else b""
    head = began or worktree_git(root, root).say("rev-parse", "--verify", "HEAD")
    return head.decode("ascii").strip()
