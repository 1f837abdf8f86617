"""Merges the work of tasks into the base branch, once the checks pass on the merged files."""

import json
import os
from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ralphgen.agents.calls import open_server
from ralphgen.agents.sandbox import current_rules
from ralphgen.errors import ProgramError, ProjectError, Say
from ralphgen.kits.registry import read_settings
from ralphgen.loop.git import Git, base_branch, top_of, tree_at
from ralphgen.loop.kept import (
    Kept,
    conflict_files,
    read_kept,
    store_kept_work,
)
from ralphgen.loop.trees import (
    BRANCH,
    MERGE,
    Worktree,
    base_of,
    branch_of_tree,
    changed_in,
    checkout_of,
    create_branch,
    fetch_base,
    forget,
    is_held_for,
    is_own,
    keep_leftover,
    merge_commits,
    next_name,
    refuse_changed,
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
from ralphgen.runtime.files.checkout import WORK, TreeError, write_tree
from ralphgen.runtime.files.work_tree import nested_repositories
from ralphgen.runtime.tasks.merges import waiting as waiting_merges
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
    options: Any = {"trust_edited": trust_edited, "say": say, "sandbox": current_rules()}
    with open_server(at, KIT, TOOL, None, apart=True, **options) as server:
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
NO_PROOF = "its session recorded no tree: the task was not closed by the server"
LOST = "the repository has lost the recorded tree: check the files, and close the task again"
SUBJECTS = 50  # of the agent's commits, in the message of ours


@dataclass(frozen=True, slots=True)
class Merged:
    """The work is in the base branch, by this commit, whose trailers name its task and proof.

    `recorded` are files that agents follow or run, and whose new content is now trusted.
    `is_checked` means that a check had to pass on the merged files, and `flaky` names one that
    failed there once.
    """

    commit: str
    recorded: tuple[str, ...] = ()
    is_checked: bool = True
    flaky: str = ""


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
class Work:
    """The proved work of a session: one commit of the recorded tree, on a branch of the loop.

    Its parent is the commit at which the session began.
    """

    commit: str
    branch: str


Failed = Conflict | RedCheck | Refused


def aside(git: Git, branch: str, say: Say) -> str:
    """Keep a branch under the number of the attempt; return its new name."""
    return set_aside(git, branch, say) or branch


def remaining_conflicts(git: Git, task: int, commit: str) -> tuple[str, ...]:
    """Return the files that still have the conflict markers with which the session started."""
    kept = read_kept(git, task)
    return () if kept is None else tuple(conflict_files(git, commit, kept.conflicts))


def record_failure(git: Git, task: int, session_id: str, outcome: Failed) -> Failed:
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
        earlier = () if before is None else before.continued(session_id)
        kept = Kept(commit, session_id, failures, conflicts, earlier=earlier)
        store_kept_work(git, task, kept)
    if failures > 1:  # its refs remain, if the schema has no blocked tasks
        return replace(outcome, is_last=True)
    forget(git, task)
    return outcome


def merge_message(config: LoopConfig, title: str, task: int | None) -> str:
    """Return the message of the settings for the commits of a task, empty without one."""
    if task is None:
        return ""
    return (config.message or "").format(title=one_line(title) or "Work", task=task)


def recorded_work(
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
    elif git.run_quietly("rev-list", "--objects", "--quiet", proof.tree).code:
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
        message = merge_message(config, title, task) or f"{one_line(title) or 'Work'} (task {task})"
        body = _subjects(git, proof)
        commit = git.commit_tree(f"{message}\n\n{body}".strip(), proof.tree, proof.base)
        git.say("update-ref", f"{WORK}{task}", commit)
    if held is not None:
        _keep_late(git, held, task, proof, say)
        head = held.say("rev-parse", "HEAD")
        held.say("checkout", "--quiet", "--force", "--detach", commit)
        held.say("clean", "--quiet", "-ffd")
        if tip is not None and tip != commit and not git.contains(head, tip):
            set_aside(git, tree.branch, say)  # the agent has left it
    branch = _labelled(git, branch, commit)
    if held is not None:
        release(held)
    return Work(commit, branch)


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


def _keep_late(git: Git, held: Git, task: int, proof: RecordedTree, say: Say) -> None:
    """Keep a worktree's changes besides the recorded tree on a branch, if there are any."""
    place = worktree_git(git.root, held.folder)
    try:
        found = write_tree(place, proof.base)[0]
    except TreeError:
        found = staged_tree(held, say)
    if found in (proof.tree, git.say("rev-parse", f"{proof.base}^{{tree}}")):
        return
    name = f"{BRANCH}{task}-late"
    for commit in git.branches(f"{name}*").values():
        if git.say("rev-parse", f"{commit}^{{tree}}") == found:
            return
    branch = name if git.commit(f"refs/heads/{name}") is None else next_name(git, name)
    head = held.say("rev-parse", "HEAD")
    create_branch(git, branch, git.commit_tree("Keep changes after the close", found, head))
    say(f'task {task} was changed after it was done: kept as "{branch}"')


def refuse_unmergeable(root: Path, config: LoopConfig, onto: str = "") -> str:
    """Return the base branch; raise `ProjectError` if nothing could be merged into it.

    `onto` replaces the branch that is checked out.
    It must be checked out in the project's tree, or nowhere. In that tree no tracked file may be
    changed, except the project's own ones; and git must have an author for commits.
    """
    top_of(root)
    git, base = Git(root), base_branch(root, onto)
    refuse_unmovable(git, base)
    if reason := fetch_base(git, base, config):
        raise ProjectError(reason, f'run "git pull --no-rebase {config.remote} {base}"')
    refuse_changed(root)
    return base


def refuse_unmovable(git: Git, base: str) -> None:
    """Raise `ProjectError` if git has no author, or tracked files of the branch were changed."""
    if (
        git.run_quietly("var", "GIT_COMMITTER_IDENT").code
        or git.run_quietly("var", "GIT_AUTHOR_IDENT").code
    ):
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


def unqueued_merges(
    root: Path, live: Container[int] = (), say: Say | None = None, onto: str = ""
) -> list[tuple[Worktree, int, str]]:
    """Return finished work that has not entered the queue: work tree, task and session of each.

    Tasks of `live` are left out: a running session has them. Work for another branch is left out
    too, and reported to `say`. The refs of all other tasks are deleted.
    """
    with open_database(root) as connection:
        entered = {one.task for one in waiting_merges(connection)}
    waiting = [one for one in unmerged(root) if one.task not in live and one.task not in entered]
    git = Git(root)
    for task in tasks_of_refs(git) - {one.task for one in waiting}:
        if task not in live and task not in entered:
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
        if tree is not None and (held := branch_of_tree(tree)).startswith(f"{branch}-"):
            branch = held
        found.append((Worktree(path, one.worktree, branch, base, began), one.task, one.session_id))
    return found
