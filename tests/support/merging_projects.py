"""Projects in repositories, whose tasks are worked on in work trees of git."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from driving import query
from proved_projects import TESTS, git, proved_project

from ralphgen.emit.trust import git_items
from ralphgen.errors import Say
from ralphgen.kits.project import Project
from ralphgen.kits.registry import read_settings
from ralphgen.loop.merges import (
    MergeQueue,
    Outcome,
    Waits,
    enter_session,
    give_back,
)
from ralphgen.loop.run import PushRefusedError
from ralphgen.loop.trees import Worktree, prepare
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import LoopConfig
from ralphgen.project.database import open_database
from ralphgen.runtime.engine.ledger import RECORDED
from ralphgen.runtime.files.checkout import TreeError, write_tree
from ralphgen.runtime.tasks.claims import waiting_merge
from ralphgen.runtime.tasks.merges import QueuedMerge
from ralphgen.runtime.tasks.status import definition_of
from ralphgen.sessions.model import TaskClaim
from ralphgen.sessions.snapshot import worktree_git

SETTLED = LoopConfig()


def say(_line: str) -> None:
    """Takes the place of progress."""


def merging_project(root: Path, config: str = TESTS) -> Path:
    """Return a project with its files tracked by git, except ralphgen's state, and an author."""
    (root / ".git" / "info").mkdir(parents=True)
    (root / ".git" / "info" / "exclude").write_text("/.ralph/db\n", encoding="utf-8")
    proved_project(root, config)
    git(root, "config", "user.name", "A Person")
    git(root, "config", "user.email", "person@example.org")
    return root


def worked(root: Path, task: int, files: Iterable[tuple[str, str]], number: int = 1) -> Worktree:
    """Return a worktree where a session has written these files and has closed its task."""
    tree = prepare(root, number, task, SETTLED, say)
    for path, text in files:
        (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / path).write_text(text, encoding="utf-8")
    closed(root, tree, task)
    return tree


def closed(root: Path, tree: Worktree, task: int) -> None:
    """Record the traces of a session that has closed a task: its row, and its claim."""
    query(root, "UPDATE tasks SET status = 'done' WHERE id = ?", task)
    query(
        root,
        "INSERT OR REPLACE INTO ralphgen_sessions (id, recipe, task_id, started, worktree) "
        "VALUES (?, 'task_execution', ?, '2026-02-10T00:00:00Z', ?)",
        f"s{task}",
        task,
        str(tree.root),
    )
    query(
        root,
        "INSERT OR REPLACE INTO ralphgen_claims (task_id, session, token) VALUES (?, ?, 1)",
        task,
        f"s{task}",
    )
    record(root, tree, task)


def record(root: Path, tree: Worktree, task: int) -> None:
    """Put on record the tree of a task that is closed, and that a check passed on it."""
    git = worktree_git(root, tree.path)
    with suppress(TreeError):
        found = write_tree(git, tree.began)[0]
        facts = {"base": tree.began, "head": git.say("rev-parse", "HEAD").decode().strip()}
        checks = [
            (one.name, definition_of({"run": one.run}), "")
            for one in read_settings(root).done.checks
        ]
        for name, definition, tail in (*checks, (RECORDED, "", json.dumps(facts))):
            query(
                root,
                "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, "
                "exit_code, started, seconds, tree, tail) VALUES (?, ?, ?, ?, 0, ?, 0, ?, ?)",
                *(task, f"s{task}", name, definition, "2026-02-10T00:00:00Z", found, tail),
            )


def move_base(root: Path) -> None:
    """Let a commit of the user be on the base branch, so that merges have to pass their checks."""
    name = f"meanwhile-{base(root)[:7]}"
    (root / name).write_text("", encoding="utf-8")
    git(root, "add", "--", name)
    git(root, "commit", "--quiet", "--message", "meanwhile")


@dataclass(frozen=True, slots=True)
class RefusedPush(Waits):
    """The entry waits because the remote refuses the push."""


def entered(
    root: Path,
    tree: Worktree,
    task: int,
    config: LoopConfig = SETTLED,
    session: str = "",
    tell: Say = say,
) -> int | Outcome:
    """Enter the work of a session on a task, unless it has entered; return its number."""
    with open_database(root) as database:
        if (number := waiting_merge(database, task)) is not None:
            return number
    claim = TaskClaim(Project(root), session or f"s{task}", task, 1)
    found = enter_session(root, tree, claim, "Do it", config, tell)
    if not isinstance(found, int):
        give_back(claim, found)
    return found


def refuse_red(root: Path, tasks: Sequence[int]) -> None:
    """Raise `ProgramError` if the base branch fails a check of these tasks."""
    MergeQueue(root, branch_of(root), SETTLED, say).refuse_failing(tasks)


def emptied(root: Path, base: str, config: LoopConfig = SETTLED) -> dict[int, Outcome]:
    """Run the merge queue of a branch; return the outcome of each entry."""
    found: dict[int, Outcome] = {}

    def ended(entry: QueuedMerge, outcome: Outcome) -> None:
        found[entry.number] = outcome

    queue, wait = MergeQueue(root, base, config, say, ended=ended), Waits
    try:
        assert queue.empty()
    except PushRefusedError:
        wait = RefusedPush
    for one in queue.waiting():
        found[one.number] = wait(queue.obstacle)
    return found


def merged(
    root: Path,
    tree: Worktree,
    task: int,
    config: LoopConfig = SETTLED,
    session: str = "",
    tell: Say = say,
) -> Outcome:
    """Return the outcome of merging the work of a session on a task."""
    found = entered(root, tree, task, config, session, tell)
    return emptied(root, tree.base, config)[found] if isinstance(found, int) else found


def with_origin(root: Path) -> LoopConfig:
    """Return the settings of a project with a bare remote next to it, whose address is trusted."""
    origin = root.parent / "origin"
    git(root.parent, "clone", "--quiet", "--bare", str(root), str(origin))
    git(root, "remote", "add", "origin", str(origin))
    add_to_record(root, [item.digest for item in git_items(root, remote=True)])
    return LoopConfig(remote="origin")


def refusing_hook(repository: Path, name: str) -> None:
    """Let a bare repository take no push."""
    hook = repository / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not on Fridays >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)


def branch_of(root: Path) -> str:
    """Return the branch that is checked out in the project."""
    return git(root, "symbolic-ref", "--short", "HEAD").strip()


def base(root: Path) -> str:
    """Return the commit that is checked out in the project."""
    return git(root, "rev-parse", "HEAD").strip()


def branches(root: Path) -> list[str]:
    """The branches that sessions have."""
    listed = git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads/ralph")
    return listed.split()


def files_of(root: Path) -> set[str]:
    """Return the names of the entries of a folder."""
    return {path.name for path in root.iterdir()}
