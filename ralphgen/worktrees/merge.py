"""Merges what an agent did into the base branch, once it has passed its checks there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from filelock import FileLock

from ralphgen.errors import ProgramError, Say
from ralphgen.output.disk import FULL, refuse_full_disk
from ralphgen.output.files import WRITE_HINT
from ralphgen.project.config import LoopConfig
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files.protection import RALPH, pattern_of
from ralphgen.runtime.files.work_tree import GITLINK
from ralphgen.trust.decide import content_items, record_items
from ralphgen.trust.files import is_authority
from ralphgen.trust.items import read_settings
from ralphgen.worktrees.checks import ALL, CheckFailure, failed_check
from ralphgen.worktrees.git import Git, base_branch, hooks_among, top_of, tree_at
from ralphgen.worktrees.record import record_merge
from ralphgen.worktrees.trees import (
    BASE,
    MERGE,
    RemoteError,
    Worktree,
    create_branch,
    delete_branch,
    fetch_base,
    held_since,
    is_held_for,
    make_ready,
    move_base,
    next_name,
    opened_tree,
    release,
    set_aside,
    submodule_changes,
    unlock,
    unreachable,
    worktrees_folder,
)

COMMIT = "commit"  # what failed where the work cannot be committed as it is
SETUP = "setup"  # what failed if it fails on the merged files alone
PUSHES = 5  # times that a merge is made on what others have pushed meanwhile


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
    """The work is whole and waits on its branch, for the user or for a remote.

    `refused` means that the remote does not take it, and no other work either.
    """

    reason: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Behind:
    """The remote got other commits while the checks ran: the merge has to be made once more."""


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
    allow_failing_base: bool = False,
) -> Outcome:
    """Commit what is in a work tree, merge it, run the task's checks on that, move the base branch.

    One merge is made at a time, in a work tree of its own. The base branch only ever moves to a
    tree that has passed; the ledger says by which commit the session was merged. Where that cannot
    be, the branch is kept under the number of the attempt. Called again after a kill, or for a
    merge that was pending, it goes on. Raises `ProgramError` if the base branch fails too, or git
    does, and `ProjectError` when `stop` is set while the setup runs; the work is whole then. With
    `allow_failing_base`, a failing base branch is no reason to stop.
    """
    git = Git(root)
    with merging(root):
        own = tree_at(root, tree.path)
        message = _message(config, title, task) or f"{one_line(title) or 'Work'} (task {task})"
        if own and (problem := _committed(own, tree, message, say)):
            release(own)
            return RedCheck(COMMIT, problem, set_aside(git, tree.branch, say) or tree.branch)
        for _ in range(PUSHES):
            outcome = _attempt(
                root, git, tree, task, title, config, say, trust_edited, stop, allow_failing_base
            )
            if not isinstance(outcome, Behind):
                break
            say(f'"{tree.base}" has new commits: merging task {task} again')
        else:
            outcome = Pending(f'"{tree.base}" received {PUSHES} pushes while the checks ran')
        if isinstance(outcome, Merged):
            record_merge(root, session_id, outcome.commit)
            _leave(git, tree, task)
        elif not isinstance(outcome, Pending):
            if own and is_held_for(own, tree.branch):
                release(own)
            set_aside(git, tree.branch, say)
        return outcome


def _message(config: LoopConfig, title: str, task: int) -> str:
    """Return the message of the settings for the commits of a task, empty without one."""
    return (config.message or "").format(title=one_line(title) or "Work", task=task)


def _attempt(
    root: Path,
    git: Git,
    tree: Worktree,
    task: int,
    title: str,
    config: LoopConfig,
    say: Say,
    trust_edited: bool,
    stop: Event | None,
    allow_failing_base: bool,
) -> Outcome | Behind:
    """Merge the work into the base branch as the remote has it now."""
    try:
        reason = fetch_base(git, tree.base, config)
    except RemoteError as error:
        reason = _one_line(error)
    if reason:
        return Pending(reason)
    old = git.say("rev-parse", f"refs/heads/{tree.base}")
    work = git.commit(f"refs/heads/{tree.branch}")
    if problem := _lost(git, tree, old, work) or _moved_submodules(git, old, work or old):
        has_branch = git.commit(f"refs/heads/{tree.branch}") is not None
        return RedCheck(COMMIT, problem, next_name(git, tree.branch) if has_branch else tree.branch)
    commits = (old, work or old)
    message = _message(config, title, task) or f"Merge task {task}"
    return _merged(
        root, tree, task, message, commits, config, say, trust_edited, stop, allow_failing_base
    )


def _merged(
    root: Path,
    tree: Worktree,
    task: int,
    message: str,
    commits: tuple[str, str],
    config: LoopConfig,
    say: Say,
    trust_edited: bool,
    stop: Event | None,
    allow_failing_base: bool,
) -> Outcome | Behind:
    """Merge the work into the base; the branch of one that failed is the caller's to keep.

    What the base has already, by a kill or by somebody's hand, has to pass there all the same.
    """
    old, work = commits
    kept = next_name(Git(root), tree.branch)
    git, place = merge_tree(root, old, config, say, stop)
    if (apart := _united(git, message, commits, kept)) is not None:
        return apart
    changed = git.names("diff", "--name-only", "--no-renames", old, "HEAD")
    if refused := _refused(root, changed):
        return Refused(refused, kept)
    new = git.say("rev-parse", "HEAD")
    failure = _failure(root, git, place, task, config, say, trust_edited, stop)
    if failure is not None:
        # Without a new commit, the agent has moved the base branch itself.
        if not allow_failing_base and (new != old or work == tree.began):
            refuse_red(root, old, task, config, say, trust_edited, stop)
        return RedCheck(failure.name, failure.tail, kept)
    if new == old:
        return Merged(old)
    if (unpushed := _unpushed(git, new, tree.base, config)) is not None:
        return unpushed
    recorded = _recorded(root, git, place, changed)
    reason = move_base(Git(root), tree.base, old, new)
    return Merged(new, recorded) if reason is None else Pending(reason)


def _refused(root: Path, changed: list[str]) -> tuple[str, ...]:
    """Return the changed files, by path from the top, that no task may change.

    These are protected files, hooks, and the files of ralphgen and of clients.
    """
    inner = root.resolve().relative_to(top_of(root)).as_posix()
    patterns = [pattern_of(glob) for glob in read_settings(root).done.protect]
    hooks = hooks_among(root, changed)

    def is_refused(path: str) -> bool:
        if is_authority(path) or RALPH in path.casefold().split("/") or path in hooks:
            return True
        own = path if inner == "." else path.removeprefix(f"{inner}/")
        is_below = inner == "." or own != path
        return is_below and any(pattern.match(own) for pattern in patterns)

    return tuple(filter(is_refused, changed))


def _united(
    git: Git, message: str, commits: tuple[str, str], kept: str
) -> Conflict | RedCheck | None:
    """Commit the merge of two commits in the work tree of merges; return why that cannot be."""
    ended = git.asked("merge", "--quiet", "--no-commit", "--no-ff", commits[1])
    if not ended.code:
        if git.own_file("MERGE_HEAD").exists():
            commit = git.commit_tree(message, git.say("write-tree"), *commits)
            git.say("update-ref", "--no-deref", "HEAD", commit)
            git.asked("merge", "--quit")
        return None
    files = git.names("diff", "--name-only", "--diff-filter=U")
    git.asked("merge", "--abort")
    if files:
        return Conflict(tuple(files), kept)
    git.refuse_unwritable()
    return RedCheck("merge", ended.tail, kept)


def _failure(
    root: Path,
    git: Git,
    place: Path,
    task: int,
    config: LoopConfig,
    say: Say,
    trust_edited: bool,
    stop: Event | None,
) -> CheckFailure | None:
    """Run the setup if it has to, and the checks of a task; return the first one that fails.

    Raises `ProgramError` if no work can pass now: the checks change files, or a disk is full.
    """
    try:
        make_ready(git, root, place, config, say, stop)
    except ProgramError as error:
        return CheckFailure(SETUP, str(error))
    failure = failed_check(root, place, task, trust_edited=trust_edited, say=say)
    if failure is None and (changed := git.changes()):
        text = f"files were changed while the checks ran: {', '.join(changed)}"
        raise ProgramError(f"the checks give no proof: {text}")
    if failure is not None:
        if FULL.search(failure.tail):
            raise ProgramError(
                f'"{failure.name}" failed: the disk is full', WRITE_HINT, failure.tail
            )
        refuse_full_disk((place,))
    return failure


def refuse_red(
    root: Path,
    commit: str,
    task: int,
    config: LoopConfig,
    say: Say,
    trust_edited: bool,
    stop: Event | None,
) -> None:
    """Raise `ProgramError` if a check of a task fails on a commit of the base branch.

    The caller holds the lock of `merging`, whose work tree this uses.
    """
    git, place = merge_tree(root, commit, config, say, stop)
    failure = _failure(root, git, place, task, config, say, trust_edited, stop)
    if failure is None:
        return
    if failure.name == ALL:
        raise ProgramError(f"the checks give no proof on the base branch: {failure.tail}")
    text = f'check "{failure.name}" already fails on {base_branch(root)}'
    hint = "fix it, or pass --allow-failing-base if a task fixes it"
    raise ProgramError(text, hint, failure.tail)


def _unpushed(git: Git, commit: str, base: str, config: LoopConfig) -> Pending | Behind | None:
    """Push a commit to the base branch of the remote, if there is one; return why not."""
    if config.remote is None:
        return None
    pushed = git.push(config.remote, commit, base)
    if pushed.outcome == "behind":
        return Behind()
    if pushed.outcome == "unreachable":
        return Pending(_one_line(unreachable(config.remote, pushed.words)))
    if pushed.outcome == "refused":
        words = "; ".join(pushed.words.splitlines())
        return Pending(f'"{config.remote}" rejects the push of "{base}": {words}', refused=True)
    return None


def _one_line(error: RemoteError) -> str:
    """Return the error of a remote with the words of git behind it."""
    (problem,) = error.problems
    return "; ".join([problem.text, *filter(None, map(str.strip, problem.output.splitlines()))])


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
    try:
        nested = git.stage()
    except ProgramError as error:
        git.refuse_unwritable()
        return error.problems[0].output  # such as a file that git may not read
    if nested:
        return f"a nested repository cannot be merged: {', '.join(nested)}"
    changed, new = submodule_changes(git)
    if changed:
        return f"a task cannot change a submodule: {', '.join(changed[:3])}"
    if new:
        say(f"new files in a submodule are not merged: {', '.join(new[:3])}")
    head = git.say("rev-parse", "HEAD")
    if git.say("write-tree") == git.say("rev-parse", f"{head}^{{tree}}"):
        return ""
    commit = git.commit_tree(message, git.say("write-tree"), head)
    git.say("update-ref", f"refs/heads/{tree.branch}", commit, head)
    return ""


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
            return "" if work is not None else f'the branch "{tree.branch}" no longer exists'
        git.say("update-ref", f"refs/heads/{tree.branch}", commit)
        return "the commits were not on a branch any more"
    if work is not None and work not in git.say("rev-list", "--first-parent", old).split():
        return ""  # the base has commits of it
    return f'the worktree "{tree.path}" was removed with its uncommitted work'


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
    if git.commit(name) is None:
        create_branch(git, tree.branch, now)
    else:
        git.say("update-ref", name, now)
    git.say("symbolic-ref", "HEAD", name)


def _leave(git: Git, tree: Worktree, task: int) -> None:
    """Take away a branch that was merged; the work tree stays, with what git ignores."""
    own = tree_at(git.root, tree.path)
    if own and is_held_for(own, tree.branch):
        release(own)
    delete_branch(git, tree.branch)
    git.asked("symbolic-ref", "--delete", f"{BASE}{task}")


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
