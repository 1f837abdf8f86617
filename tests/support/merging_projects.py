"""Projects in repositories, whose tasks are worked on in work trees of git."""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from driving import query
from proved_projects import TESTS, git, proved_project

from ralphgen.emit.trust import git_items
from ralphgen.loop.merge import Outcome, merge
from ralphgen.loop.trees import Worktree, prepare
from ralphgen.project.approvals import add_to_record
from ralphgen.project.config import LoopConfig
from ralphgen.runtime.engine.ledger import RECORDED
from ralphgen.runtime.files.checkout import TreeError, write_tree
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
        for name, tail in (("tests", ""), (RECORDED, json.dumps(facts))):
            query(
                root,
                "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, "
                "exit_code, started, seconds, tree, tail) VALUES (?, ?, ?, '', 0, ?, 0, ?, ?)",
                *(task, f"s{task}", name, "2026-02-10T00:00:00Z", found, tail),
            )


def move_base(root: Path) -> None:
    """Let a commit of the user be on the base branch, so that merges have to pass their checks."""
    git(root, "commit", "--quiet", "--allow-empty", "--message", "meanwhile")


def merged(root: Path, tree: Worktree, task: int, config: LoopConfig = SETTLED) -> Outcome:
    """Return the outcome of merging the work of a session on a task."""
    return merge(root, tree, task, f"s{task}", config, say, title="Do it")


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
