"""Merges what an agent did into the base branch, once it has passed its checks there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from filelock import FileLock

from ralphgen.errors import Say
from ralphgen.project.config import LoopConfig
from ralphgen.runtime.files.work_tree import GITLINK
from ralphgen.trust.decide import content_items, record_items
from ralphgen.trust.files import is_authority
from ralphgen.worktrees.checks import CheckFailure, failed_check
from ralphgen.worktrees.git import Git, top_of, tree_at
from ralphgen.worktrees.record import record_merge
from ralphgen.worktrees.trees import (
    MERGE,
    Worktree,
    fetch_base,
    held_since,
    is_held_for,
    make_ready,
    move_base,
    next_name,
    opened_tree,
    release,
    set_aside,
    unlock,
    worktrees_folder,
)

COMMIT = "commit"  # what failed where the work cannot be committed as it is


@dataclass(frozen=True, slots=True)
class Merged:
    """The work is in the base branch, by this commit.

    `recorded` are files that agents follow or run, whose new content is now on record.
    """

    commit: str
    recorded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The work changes files that decide what sessions may do; it is kept on `branch`."""

    files: tuple[str, ...]
    branch: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The work does not go with what the base branch has; it is kept on `branch`."""

    files: tuple[str, ...]
    branch: str


@dataclass(frozen=True, slots=True)
class RedCheck:
    """A check failed on the merged files, or a hook did; the work is kept on `branch`."""

    name: str
    tail: str
    branch: str


@dataclass(frozen=True, slots=True)
class Pending:
    """The work is whole and waits on its branch, because of what a person is about to do."""

    reason: str


Outcome = Merged | Conflict | RedCheck | Refused | Pending


def merge(
    root: Path,
    tree: Worktree,
    task: int,
    session_id: str,
    config: LoopConfig,
    say: Say,
    *,
    title: str = "",
    trust_edited: bool = False,
    stop: Event | None = None,
) -> Outcome:
    """Commit what is in a work tree, merge it, run the task's checks on that, move the base branch.

    One merge is made at a time, in a work tree of its own. The base branch only ever moves to a
    tree that has passed; the ledger says by which commit the session was merged. Where that cannot
    be, the branch is kept under the number of the attempt. Called again after a kill, or for a
    merge that was pending, it goes on. Raises `ProjectError` where git itself fails, and when
    `stop` is set while the setup runs.
    """
    git = Git(root)
    with merging(root):
        own = tree_at(root, tree.path)
        if own and (problem := _committed(own, tree, f"{title or 'Work'} (task {task})", say)):
            return RedCheck(COMMIT, problem, set_aside(git, tree.branch, say) or tree.branch)
        if reason := fetch_base(git, tree.base, config):
            return Pending(reason)
        old = git.say("rev-parse", f"refs/heads/{tree.base}")
        work = git.commit(f"refs/heads/{tree.branch}")
        if problem := _lost(git, tree, old, work) or _moved_submodules(git, old, work or old):
            return RedCheck(COMMIT, problem, set_aside(git, tree.branch, say) or tree.branch)
        commits = (old, work or old)
        outcome = _merged(root, tree, task, commits, config, say, trust_edited, stop)
        if isinstance(outcome, Merged):
            record_merge(root, session_id, outcome.commit)
            _leave(git, tree)
        elif not isinstance(outcome, Pending):
            set_aside(git, tree.branch, say)
        return outcome


def _merged(
    root: Path,
    tree: Worktree,
    task: int,
    commits: tuple[str, str],
    config: LoopConfig,
    say: Say,
    trust_edited: bool,
    stop: Event | None,
) -> Outcome:
    """Merge the work into the base; the branch of one that failed is the caller's to keep.

    What the base has already, by a kill or by somebody's hand, has to pass there all the same.
    """
    old, work = commits
    kept = next_name(Git(root), tree.branch)
    git, place = merge_tree(root, old, config, say, stop)
    message = f"Merge task {task}"
    ended = git.asked("merge", "--quiet", "--no-commit", "--no-ff", work)
    if not ended.code and git.own_file("MERGE_HEAD").exists():
        ended = git.record(message, old, work)
        git.asked("merge", "--quit")
    if ended.code:
        files = git.names("diff", "--name-only", "--diff-filter=U")
        git.asked("merge", "--abort")
        return Conflict(tuple(files), kept) if files else RedCheck("merge", ended.tail, kept)
    changed = git.names("diff", "--name-only", "--no-renames", old, "HEAD")
    if authority := [path for path in changed if is_authority(path)]:
        return Refused(tuple(authority), kept)
    make_ready(git, root, place, config, say, stop)
    failure = failed_check(root, place, task, trust_edited=trust_edited, say=say)
    if failure is None and git.changes():
        failure = CheckFailure("merge", "the checks changed files that git tracks")
    if failure is not None:
        return RedCheck(failure.name, failure.tail, kept)
    new = git.say("rev-parse", "HEAD")
    if new == old:
        return Merged(old)
    if config.remote is not None:
        pushed = git.push(config.remote, new, tree.base)
        if pushed.code:
            say(pushed.tail)
            return Conflict((), kept)
    recorded = _recorded(root, git, place, changed)
    reason = move_base(Git(root), tree.base, old, new)
    return Merged(new, recorded) if reason is None else Pending(reason)


def _recorded(root: Path, git: Git, place: Path, changed: list[str]) -> tuple[str, ...]:
    """Record the content that a merge changes, so that no session asks for it; return its paths."""
    files = {git.folder / path for path in changed}
    items = [item for item in content_items(place) if Path(item.file) in files]
    record_items(root, items)
    return tuple(Path(item.file).relative_to(place).as_posix() for item in items)


def _committed(git: Git, tree: Worktree, message: str, say: Say) -> str:
    """Commit all that is in a work tree on its branch; return why that cannot be, or nothing."""
    if not is_held_for(git, tree.branch):
        return ""  # it is gone or works on something else by now: the branch is what counts
    unlock(git)
    _return_to_branch(git, tree, say)
    if nested := git.stage():
        return f"a repository within the work tree cannot be merged: {', '.join(nested)}"
    head = git.say("rev-parse", "HEAD")
    if git.say("write-tree") == git.say("rev-parse", f"{head}^{{tree}}"):
        return ""
    ended = git.record(message, head)
    return (ended.tail or "the commit was refused") if ended.code else ""


def _moved_submodules(git: Git, old: str, work: str) -> str:
    """Return why a merge is refused that would change a submodule, or nothing."""
    began = git.say("merge-base", old, work)
    entries = git.names("diff-tree", "-r", "--no-renames", "--raw", began, work)
    pairs = zip(entries[::2], entries[1::2], strict=True)
    moved = [path for facts, path in pairs if GITLINK in facts.lstrip(":").split()[:2]]
    return f"a task cannot change a submodule: {', '.join(moved)}" if moved else ""


def _lost(git: Git, tree: Worktree, old: str, work: str | None) -> str:
    """Return why a branch without anything new is not all that was done; empty where it is.

    A commit that no branch has any more gets back the task's; the files of a work tree that is gone
    are lost.
    """
    if work is not None and not git.contains(old, work):
        return ""
    if own := tree_at(git.root, tree.path):
        commit = _left_behind(own, tree.branch)
        if commit is None:
            return "" if work is not None else f'the branch "{tree.branch}" is gone'
        git.say("update-ref", f"refs/heads/{tree.branch}", commit)
        return "what was committed was on no branch any more"
    if work is not None and work not in git.say("rev-list", "--first-parent", old).split():
        return ""  # the base has commits of it
    return f'the work tree "{tree.path}" is gone, with what was not committed in it'


def _left_behind(git: Git, branch: str) -> str | None:
    """Return the last commit that was made for the task of a branch, and that no branch has."""
    if not is_held_for(git, branch):
        return None
    since = held_since(git)
    made = []
    for line in git.say("log", "--walk-reflogs", "--date=unix", "--format=%H %gd").splitlines():
        commit, _, name = line.partition(" ")
        if int(name.rpartition("{")[2].rstrip("}")) < since:
            break
        made.append(commit)
    if not made:
        return None
    apart = git.say("rev-list", *made, "--not", "--branches", "--tags", "--remotes").split()
    return next((commit for commit in made if commit in apart), None)


def _return_to_branch(git: Git, tree: Worktree, say: Say) -> None:
    """Bring a work tree back onto its branch, with all that is in it, where its agent has left it.

    What the branch has and the work tree does not is kept under the number of the attempt.
    """
    name = f"refs/heads/{tree.branch}"
    left = git.commit(name)
    if left is not None and git.asked("symbolic-ref", "--quiet", "HEAD").output.strip() == name:
        return
    now = git.commit("HEAD") or left or tree.began
    if left is not None and left != tree.began and not git.contains(now, left):
        if git.contains(left, now) and not git.say(
            "status", "--porcelain", "--ignore-submodules=all"
        ):
            return  # it holds nothing that the branch has not
        set_aside(git, tree.branch, say)
    git.say("update-ref", name, now)
    git.say("symbolic-ref", "HEAD", name)


def _leave(git: Git, tree: Worktree) -> None:
    """Take away a branch that was merged; the work tree stays, with what git ignores."""
    own = tree_at(git.root, tree.path)
    if own and is_held_for(own, tree.branch):
        release(own)
    git.asked("branch", "--delete", "--force", tree.branch)


def merge_tree(
    root: Path, commit: str, config: LoopConfig, say: Say, stop: Event | None = None
) -> tuple[Git, Path]:
    """Return git in the work tree of merges, ready at a commit, and the project's folder there."""
    git = opened_tree(root, worktrees_folder(root) / MERGE)
    git.say("reset", "--quiet", "--hard")
    git.say("checkout", "--quiet", "--force", "--detach", commit)
    git.say("clean", "--quiet", "-ffd")
    place = git.folder / root.resolve().relative_to(top_of(root))
    make_ready(git, root, place, config, say, stop)
    return git, place


@contextmanager
def merging(root: Path) -> Iterator[None]:
    """Make no merge while another one is made, on this machine."""
    with FileLock(worktrees_folder(root) / f"{MERGE}.lock"):
        yield
