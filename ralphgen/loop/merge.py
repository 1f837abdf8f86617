"""Merges the work of tasks into the base branch, once the checks pass on the merged files."""

import json
import os
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import NamedTuple

from filelock import FileLock

from ralphgen.agents.calls import open_server
from ralphgen.emit.trust import content_items, record_items
from ralphgen.errors import ProgramError, ProjectError, Say
from ralphgen.files import FULL, WRITE_HINT, refuse_full_disk
from ralphgen.kits.registry import read_settings
from ralphgen.loop.git import Git, base_branch, top_of, tree_at
from ralphgen.loop.kept import (
    Kept,
    drop_continued,
    forget_kept,
    marked_files,
    read_kept,
    write_kept,
)
from ralphgen.loop.trees import (
    BRANCH,
    DISCIPLINES,
    MERGE,
    RemoteError,
    Worktree,
    base_of,
    changed_in,
    checkout,
    checkout_of,
    create_branch,
    delete_branch,
    fetch_base,
    forget,
    held_for,
    is_held_for,
    is_own,
    keep_leftover,
    merge_commits,
    move_base,
    next_name,
    one_of_each,
    protection_problem,
    record_merge,
    refuse_changed,
    refused_files,
    release,
    set_aside,
    staged_tree,
    submodule_changes,
    tasks_of_refs,
    unlock,
    unmerged,
    unreachable,
    users_checkout,
    worktrees_folder,
)
from ralphgen.project.config import LoopConfig
from ralphgen.project.database import open_database
from ralphgen.project.root import ProjectPlace
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files.checkout import WORK, Checkout, TreeError, write_tree
from ralphgen.runtime.files.work_tree import nested_repositories
from ralphgen.runtime.tasks.status import RecordedTree
from ralphgen.sessions.snapshot import recorded_tree, worktree_git

KIT, TOOL = "ralph", "run_checks"
ALL = "the checks"


class CheckFailure(NamedTuple):
    """A check that failed: its name, and the end of its output."""

    name: str
    tail: str


def failed_check(
    root: Path, place: Path, task: int, *, trust_edited: bool, say: Say
) -> CheckFailure | None:
    """Return the first check of a task that fails on the files in `place`, or None.

    The results are stored as evidence. A project without checks has none that could fail. Raises
    `ProgramError` if the checks change files: they could prove no work then.
    """
    if not read_settings(root).done.checks:
        return None
    at = ProjectPlace(root, place, root)
    with open_server(at, KIT, TOOL, None, trust_edited=trust_edited, say=say, apart=True) as server:
        answer = server.call(TOOL, {"task": task})
    if answer.refused:
        return CheckFailure(ALL, answer.text)
    said = json.loads(answer.text)
    if said["passed"]:
        return None
    red = next((one for one in said["checks"] if one["exit_code"] != 0), None)
    if red is None:
        raise ProgramError(f"the checks give no proof: {said.get('not_proved', '')}")
    return CheckFailure(str(red["name"]), str(red["tail"]))


COMMIT = "commit"  # the failed step if the work cannot be committed
SETUP = "setup"  # the failed step if it fails on the merged files only
PUSHES = 5  # times that a merge is repeated because of other pushes
NO_PROOF = "its session recorded no tree: the task was not closed by the server"
LOST = "the repository has lost the recorded tree: check the files, and close the task again"
NO_WORD = re.compile(r"[\s=]+")  # in the name of a check, which a trailer has as a word
TRAILER = re.compile(r"[A-Za-z0-9-]+: ")
SUBJECTS = 50  # of the agent's commits, in the message of ours


@dataclass(frozen=True, slots=True)
class Merged:
    """The work is in the base branch, by this commit, whose trailers name its task and proof.

    `recorded` are files that agents follow or run, and whose new content is now trusted. `late` is
    the branch with changes from after the task was closed, or empty. `is_checked` means that a
    check ran on the merged files.
    """

    commit: str
    recorded: tuple[str, ...] = ()
    late: str = ""
    is_checked: bool = True


@dataclass(frozen=True, slots=True)
class Refused:
    """The work changes files that decide what sessions may do; it is kept on `branch`.

    No further attempt makes it better, so it `is_last`.
    """

    files: tuple[str, ...]
    branch: str
    is_last: bool = True


@dataclass(frozen=True, slots=True)
class Conflict:
    """The work conflicts with the base branch; it is kept on `branch`.

    It `is_last` if work of an earlier session on the task did not merge either.
    """

    files: tuple[str, ...]
    branch: str
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class RedCheck:
    """A check failed on the merged files, or a hook did; the work is kept on `branch`.

    `is_last` is as in `Conflict`.
    """

    name: str
    tail: str
    branch: str
    is_last: bool = False


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


@dataclass(frozen=True, slots=True)
class Work:
    """The proved work of a session: one commit of the recorded tree, on a branch of the loop.

    Its parent is `base`, where the session began. `late` is as in `Merged`.
    """

    commit: str
    base: str
    branch: str
    late: str
    is_checked: bool


Failed = Conflict | RedCheck | Refused
Outcome = Merged | Failed | Pending


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
    """Merge the tree that a session recorded, run the task's checks, move the base branch.

    Merges are made one at a time. The base branch only ever moves to a tree that has passed: to the
    recorded tree if the session began at the base, else to one that passes the checks. The ledger
    records the commit that merged the session. If the merge fails, the branch is kept under the
    number of the attempt. The worktree's other changes are kept on another branch. A further call
    resumes an interrupted or pending merge. Raises `ProgramError` if the base branch fails too, or
    git does, and `ProjectError` when `stop` is set while the setup runs; the work is intact then.
    With `allow_failing_base`, a failing base branch does not stop the merge.
    """
    git = Git(root)
    with merging(root):
        work = _work_of(git, tree, task, session_id, title, config, say)
        if not isinstance(work, Work):
            return _unmerged(git, task, session_id, work)
        if marked := _marked(git, task, work.commit):
            return _unmerged(git, task, session_id, Conflict(marked, _aside(git, work, say)))
        for _ in range(PUSHES):
            outcome = _attempt(
                *(git, tree, work, task, session_id, title, config, say),
                *(trust_edited, stop, allow_failing_base),
            )
            if not isinstance(outcome, Behind):
                break
            say(f'"{tree.base}" has new commits: merging task {task} again')
        else:
            outcome = Pending(f'"{tree.base}" received {PUSHES} pushes while the checks ran')
        if isinstance(outcome, Merged):
            record_merge(root, session_id, outcome.commit)
            delete_branch(git, work.branch)
            if (kept := read_kept(git, task)) is not None:
                drop_continued(git, task, kept)
            forget_kept(git, task)
            forget(git, task)
        if isinstance(outcome, Merged | Pending):
            return outcome
        return _unmerged(git, task, session_id, replace(outcome, branch=_aside(git, work, say)))


def _aside(git: Git, work: Work, say: Say) -> str:
    return set_aside(git, work.branch, say) or work.branch


def _marked(git: Git, task: int, commit: str) -> tuple[str, ...]:
    """Return the files that still have the conflict markers with which the session started."""
    kept = read_kept(git, task)
    return () if kept is None else tuple(marked_files(git, commit, kept.conflicts))


def _unmerged(git: Git, task: int, session_id: str, outcome: Failed) -> Failed:
    """Record the branch of work that did not merge, from which the next session starts.

    The second session whose work does not merge is the last one. A loop that repeats the merge of
    the same session after a kill records the same.
    """
    before = read_kept(git, task)
    failures = 0 if before is None else before.failures
    if before is None or not failures or before.session != session_id:
        failures += 1
    if (commit := git.commit(f"refs/heads/{outcome.branch}")) is not None:
        conflicts = () if before is None else before.conflicts
        write_kept(git, task, Kept(commit, session_id, failures, conflicts))
    if failures > 1:  # its refs remain, if the schema has no blocked tasks
        return replace(outcome, is_last=True)
    forget(git, task)
    return outcome


def _message(config: LoopConfig, title: str, task: int) -> str:
    """Return the message of the settings for the commits of a task, empty without one."""
    return (config.message or "").format(title=one_line(title) or "Work", task=task)


def _work_of(
    git: Git,
    tree: Worktree,
    task: int,
    session_id: str,
    title: str,
    config: LoopConfig,
    say: Say,
) -> Work | RedCheck:
    """Return the commit of the recorded tree, and let the worktree go; or why there is none.

    Whatever else the worktree or the branch has is kept on other branches.
    """
    own = tree_at(git.root, tree.path)
    held = own if own is not None and is_held_for(own, tree.branch) else None
    proof = recorded_tree(git.root, session_id, task)
    if held is not None:
        unlock(held)
    if proof is None:
        problem = NO_PROOF
    elif git.asked("rev-list", "--objects", "--quiet", proof.tree).code:
        problem = LOST
    else:
        problem = "" if held is None else _problem(held, proof.base, say)
    if problem or proof is None:
        if held is not None:
            keep_leftover(held, say)
            release(held)
        return RedCheck(COMMIT, problem, set_aside(git, tree.branch, say) or tree.branch)
    tip, branch = git.commit(f"refs/heads/{tree.branch}"), tree.branch
    fields = "--format=%(objectname) %(refname:lstrip=2) %(tree) %(parent)"
    earlier = git.say("for-each-ref", fields, f"refs/heads/{BRANCH}{task}-*", f"{WORK}{task}")
    for line in earlier.splitlines():  # set aside, waiting, or broken off by a kill
        found, name, *content = line.split(" ")
        if content == [proof.tree, proof.base]:
            commit, branch = found, name if name.startswith(BRANCH) else branch
            break
    else:
        message = _message(config, title, task) or f"{one_line(title) or 'Work'} (task {task})"
        body = _subjects(git, proof)
        commit = git.commit_tree(f"{message}\n\n{body}".strip(), proof.tree, proof.base)
        git.say("update-ref", f"{WORK}{task}", commit)
    late = ""
    if held is not None:
        late = _late(git, held, task, proof, say)
        head = held.say("rev-parse", "HEAD")
        held.say("checkout", "--quiet", "--force", "--detach", commit)
        held.say("clean", "--quiet", "-ffd")
        if tip is not None and tip != commit and not git.contains(head, tip):
            set_aside(git, tree.branch, say)  # the agent has left it
    branch = _labelled(git, branch, commit)
    if held is not None:
        release(held)
    return Work(commit, proof.base, branch, late, proof.has_checks)


def _labelled(git: Git, branch: str, commit: str) -> str:
    """Let a branch of the loop be at a commit; return its name, another one if it must not move."""
    tip = git.commit(f"refs/heads/{branch}")
    if tip is not None and tip != commit:
        if is_own(git, branch) and checkout_of(git, branch) is None:
            git.say("update-ref", f"refs/heads/{branch}", commit, tip)
            return branch
        branch = next_name(git, branch)
        tip = None
    if tip is None:
        create_branch(git, branch, commit)
    return branch


def _subjects(git: Git, proof: RecordedTree) -> str:
    """Return the first subjects of the agent's commits, one per line."""
    if not proof.head or proof.head == proof.base or git.commit(proof.head) is None:
        return ""
    words = ("log", "--reverse", "--format=%s", f"{proof.base}..{proof.head}")
    subjects = git.say(*words).splitlines()
    return "\n".join(f"- {one_line(subject)}" for subject in subjects[:SUBJECTS])


def _problem(held: Git, base: str, say: Say) -> str:
    """Return why the work in a worktree cannot be merged, empty if it can."""
    known = held.gitlinks("ls-tree", "-r", base)
    links = held.gitlinks("ls-files", "--stage")
    moved = {path for path, _ in {*links.items()} ^ {*known.items()}}
    changed, new = submodule_changes(held)
    if changed := [*changed, *sorted(moved - {*changed})]:
        return f"a task cannot change a submodule: {', '.join(changed[:3])}"
    if nested := nested_repositories(str(held.folder), known):
        return f"a nested repository cannot be merged: {', '.join(nested)}"
    if new:
        say(f"new files in a submodule are not merged: {', '.join(new[:3])}")
    return ""


def _late(git: Git, held: Git, task: int, proof: RecordedTree, say: Say) -> str:
    """Keep a worktree's changes besides the recorded tree; return the branch, empty if none."""
    place = worktree_git(git.root, held.folder)
    try:
        found = write_tree(place, proof.base)[0]
    except TreeError:
        found = staged_tree(held, say)
    if found in (proof.tree, git.say("rev-parse", f"{proof.base}^{{tree}}")):
        return ""
    name = f"{BRANCH}{task}-late"
    for branch, commit in git.branches(f"{name}*").items():
        if git.say("rev-parse", f"{commit}^{{tree}}") == found:
            return branch
    branch = name if git.commit(f"refs/heads/{name}") is None else next_name(git, name)
    head = held.say("rev-parse", "HEAD")
    create_branch(git, branch, git.commit_tree("Keep changes after the close", found, head))
    say(f'task {task} was changed after it was done: kept as "{branch}"')
    return branch


def _attempt(
    git: Git,
    tree: Worktree,
    work: Work,
    task: int,
    session_id: str,
    title: str,
    config: LoopConfig,
    say: Say,
    trust_edited: bool,
    stop: Event | None,
    allow_failing_base: bool,
) -> Outcome | Behind:
    """Merge the work into the base branch as the remote has it now.

    Work that the base contains already, after a kill or a manual merge, must still pass there.
    """
    root = git.root
    try:
        reason = fetch_base(git, tree.base, config)
    except RemoteError as error:
        reason = _one_line(error)
    if reason := reason or protection_problem(root):
        return Pending(reason)
    old = git.say("rev-parse", f"refs/heads/{tree.base}")
    message = _message(config, title, task) or f"Merge task {task}"
    result, checks = git.say("rev-parse", f"{work.commit}^{{tree}}"), None
    if old != work.base or (not work.is_checked and read_settings(root).done.checks):
        checks = checkout(root, MERGE, config, say, stop)
        found = _united(root, checks, old, work.commit, task)
        if not isinstance(found, str):
            return found
        result = found  # else the checks have run on this very tree
    is_new = result != git.say("rev-parse", f"{old}^{{tree}}")
    new = old
    if is_new:
        names = _required_checks(root, task) if checks is not None or work.is_checked else ()
        trailers = _trailers(task, session_id, names, result)
        new = git.commit_tree(_with_trailers(message, trailers), result, old, work.commit)
    changed = git.names("diff", "--name-only", "--no-renames", old, new)
    if refused := refused_files(root, changed, old, new):
        return Refused(refused, work.branch)
    if checks is not None and (failure := _failure(root, checks, new, task, say, trust_edited)):
        # Without a new commit, the agent has moved the base branch itself.
        if not allow_failing_base and (is_new or old == work.base):
            refuse_red(root, tree.base, old, task, config, say, trust_edited, stop)
        return RedCheck(failure.name, failure.tail, work.branch)
    return _moved(git, tree.base, work, (old, new), changed, config)


def _required_checks(root: Path, task: int) -> tuple[str, ...]:
    """Return the names of the checks that a task has to pass."""
    with open_database(root) as connection:
        rows = connection.rows(DISCIPLINES.format(marks="?"), [task])
    own = {discipline for _, discipline in rows}
    checks = read_settings(root).done.checks
    return tuple(one.name for one in checks if not one.disciplines or own & {*one.disciplines})


def _trailers(task: int, session_id: str, checks: Sequence[str], tree: str) -> str:
    """Return the lines of a merge commit that name the task, its session and its proof."""
    results = " ".join(f"{NO_WORD.sub('-', name)}=0" for name in checks)
    return (
        f"Ralphgen-Task: {task}\nRalphgen-Session: {one_line(session_id)}\n"
        f"Ralphgen-Proof: {results}{' ' * bool(results)}tree={tree}"
    )


def _with_trailers(message: str, trailers: str) -> str:
    """Return a message with trailers; git reads only those of the last paragraph."""
    _, *others = message.rstrip().split("\n\n")
    is_block = bool(others) and all(map(TRAILER.match, others[-1].splitlines()))
    separator = "\n" if is_block else "\n\n"
    return f"{message.rstrip()}{separator}{trailers}"


def _moved(
    git: Git,
    base: str,
    work: Work,
    commits: tuple[str, str],
    changed: list[str],
    config: LoopConfig,
) -> Merged | Pending | Behind:
    """Push the second commit and move the base branch to it from the first one."""
    old, new = commits
    if new == old:
        return Merged(old, (), work.late, work.is_checked)
    if (unpushed := _unpushed(git, new, base, config)) is not None:
        return unpushed
    if (reason := move_base(git, base, old, new)) is not None:
        return Pending(reason)
    return Merged(new, _recorded(git.root, changed), work.late, work.is_checked)


def _united(
    root: Path, checks: Checkout, old: str, commit: str, task: int
) -> str | Conflict | RedCheck:
    """Merge a commit into another in the checkout of merges; return the tree, or why not."""
    with checks:
        checks.set_to(old, old, task)
        git = Git(root, Path(checks.git.repository.top))
        ended = git.asked("merge", "--quiet", "--no-commit", "--no-ff", commit)
        if not ended.code:
            return git.say("write-tree")
        files = git.names("diff", "--name-only", "--diff-filter=U")
    if files:
        return Conflict(tuple(files), "")
    git.refuse_unwritable()
    return RedCheck("merge", ended.tail, "")


def _failure(
    root: Path, checks: Checkout, commit: str, task: int, say: Say, trust_edited: bool
) -> CheckFailure | None:
    """Run the setup if needed, and the checks of a task; return the first failing one.

    Raises `ProgramError` if no work can pass now: the checks change files, or a disk is full.
    """
    with checks:
        try:
            checks.set_to(commit, commit, task)
        except ProgramError as error:
            return CheckFailure(SETUP, str(error))
        place = Path(checks.place)
        failure = failed_check(root, place, task, trust_edited=trust_edited, say=say)
        if failure is None and (changed := checks.changed()):
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
    base: str,
    commit: str,
    task: int,
    config: LoopConfig,
    say: Say,
    trust_edited: bool,
    stop: Event | None,
    *,
    allow_failing: bool = False,
) -> None:
    """Raise `ProgramError` if a check of a task fails on a commit of the base branch.

    The caller holds the lock of `merging`, whose checkout this uses. `allow_failing` prepares the
    checkout without running the checks.
    """
    checks = checkout(root, MERGE, config, say, stop)
    with checks:
        checks.set_to(commit, commit, task)
    if allow_failing:
        return
    failure = _failure(root, checks, commit, task, say, trust_edited)
    if failure is None:
        return
    if failure.name == ALL:
        raise ProgramError(f"the checks give no proof on the base branch: {failure.tail}")
    text = f'check "{failure.name}" already fails on {base}'
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


def _recorded(root: Path, changed: list[str]) -> tuple[str, ...]:
    """Record the content that a merge changed, so that no session asks for it; return its paths."""
    top, place = top_of(root), root.resolve()
    files = {top / path for path in changed}
    items = [item for item in content_items(place) if Path(item.file) in files]
    record_items(root, items)
    return tuple(Path(item.file).relative_to(place).as_posix() for item in items)


@contextmanager
def merging(root: Path) -> Iterator[None]:
    """Make no merge while another one is made, on this machine."""
    with FileLock(worktrees_folder(root) / f"{MERGE}.lock"):
        yield


def refuse_unmergeable(root: Path, config: LoopConfig, onto: str = "") -> str:
    """Return the base branch; raise `ProjectError` if nothing could be merged into it.

    `onto` replaces the branch that is checked out.
    It must be checked out in the project's tree, or nowhere. In that tree no tracked file may be
    changed, except the project's own ones; and git must have an author for commits.
    """
    top_of(root)
    git, base = Git(root), base_branch(root, onto)
    if git.asked("var", "GIT_COMMITTER_IDENT").code or git.asked("var", "GIT_AUTHOR_IDENT").code:
        hint = 'set it with "git config user.name …" and "git config user.email …"'
        raise ProjectError("git has no author for commits", hint)
    tree = users_checkout(git, base)
    changed = [] if tree is None else changed_in(tree)
    if tree is not None and changed:
        shown = ", ".join(f'"{path}"' for path in changed[:3])
        more = f" and {len(changed) - 3} more" if changed[3:] else ""
        text = (
            f'files were changed in "{tree.folder}", where "{base}" is checked out: {shown}{more}'
        )
        raise ProjectError(text, 'commit them, or run "git stash"')
    if reason := fetch_base(git, base, config):
        raise ProjectError(reason, f'run "git pull --no-rebase {config.remote} {base}"')
    refuse_changed(root)
    return base


def refuse_uncommittable(root: Path, base: str, config: LoopConfig) -> None:
    """Raise `ProjectError` if git cannot commit, or cannot push the base branch to the remote.

    Both are tried without an effect. A rule of the remote, such as a protected branch, shows only
    when something is pushed.
    """
    git = Git(root)
    git.try_commit()
    if config.remote is None:
        return
    tried = git.try_push(config.remote, base)
    if tried.outcome == "unreachable":
        raise unreachable(config.remote, tried.words)
    if tried.outcome == "refused":
        text = f'"{base}" cannot be pushed to the remote "{config.remote}"'
        raise ProjectError(text, "check your permission to push", tried.words)


def refuse_red_base(
    root: Path,
    tasks: Sequence[int],
    config: LoopConfig,
    say: Say,
    *,
    trust_edited: bool = False,
    stop: Event | None = None,
    allow_failing: bool = False,
    onto: str = "",
) -> None:
    """Raise `ProjectError` if a check of one of the tasks fails before an agent has worked.

    The checks run in the worktree for merges, at the end of the base branch. `allow_failing`
    prepares it without running them. When `stop` is set, and at Ctrl-C, its setup ends.
    """
    with merging(root):
        base = base_branch(root, onto)
        commit = Git(root).say("rev-parse", f"refs/heads/{base}")
        for task in one_of_each(root, tasks):
            refuse_red(
                root,
                base,
                commit,
                task,
                config,
                say,
                trust_edited,
                stop,
                allow_failing=allow_failing,
            )


def foreign_commits(root: Path, base: str, old: str, new: str, config: LoopConfig) -> list[str]:
    """Return the commits that have come into the base branch past merges, the newest first.

    Each has its short id and its subject. Commits of the remote in the settings are left out. If
    the branch has lost the commit `old`, that is named too.
    """
    git = Git(root)
    theirs = git.commit(f"refs/remotes/{config.remote}/{base}")
    words = ["log", "--first-parent", "--format=%H %h %s", f"{old}..{new}"]
    listed = git.say(*words, *([f"^{theirs}"] if config.remote and theirs else []))
    merges = merge_commits(root)
    lines = (line.partition(" ") for line in listed.splitlines())
    found = [text for commit, _, text in lines if commit not in merges]
    return found if git.contains(new, old) else [*found, f"without {old}"]


def refuse_missing_script(root: Path, name: str) -> None:
    """Raise `ProjectError` if the project has a file of this name, and its work trees do not.

    The work tree of merges has to be ready at the base branch.
    """
    place = worktrees_folder(root) / MERGE / root.resolve().relative_to(top_of(root))
    if name and os.path.lexists(root / name) and not os.path.lexists(place / name):
        text = f'worktrees of agents lack "{name}", which their command runs'
        raise ProjectError(text, 'commit it, or add it to "copy" of [loop]')


def left_merges(
    root: Path, live: Container[int] = (), say: Say | None = None, onto: str = ""
) -> list[tuple[Worktree, int, str]]:
    """Return the merges that were not made or wait: work tree, task and session of each.

    Tasks of `live` are left out: a running session has them. Work for another branch is left out
    too, and reported to `say`. The refs of all other tasks are deleted.
    """
    waiting = [one for one in unmerged(root) if one.task not in live]
    git = Git(root)
    for task in tasks_of_refs(git) - {one.task for one in waiting}:
        if task not in live:
            forget(git, task)
    if not waiting:
        return []
    top = top_of(root)
    base = base_branch(root, onto)
    for one in [*waiting]:
        if (other := base_of(git, one.task) or base) != base:
            if say is not None:
                text = f'its work is for "{other}", not for "{base}"'
                say(f"task {one.task} is not merged here: {text}")
            waiting.remove(one)
    inner = root.resolve().relative_to(top)
    began = git.say("rev-parse", f"refs/heads/{base}")
    found = []
    for one in waiting:
        path = one.worktree
        for _ in inner.parts:
            path = path.parent
        tree = tree_at(root, path)
        branch = f"{BRANCH}{one.task}"
        if tree is not None and (held := held_for(tree)).startswith(f"{branch}-"):
            branch = held
        found.append((Worktree(path, one.worktree, branch, base, began), one.task, one.session_id))
    return found
