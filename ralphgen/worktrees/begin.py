"""Looks, before any agent works in a work tree, whether its work could be merged at all."""

from collections.abc import Container, Sequence
from pathlib import Path
from threading import Event

from ralphgen.errors import ProjectError, Say
from ralphgen.project.config import LoopConfig
from ralphgen.worktrees.checks import failed_check
from ralphgen.worktrees.git import Git, base_branch, top_of
from ralphgen.worktrees.merge import merge_tree, merging
from ralphgen.worktrees.record import one_of_each, unmerged
from ralphgen.worktrees.trees import (
    BRANCH,
    Worktree,
    changed_in,
    checkout_of,
    fetch_base,
    kept_branches,
    move_branch,
)


def refuse_unmergeable(root: Path, config: LoopConfig) -> str:
    """Return the base branch; raise `ProjectError` where nothing could be merged into it.

    It must be checked out where the project is, or nowhere; there no file may be changed that git
    tracks, but for the project's own; and git must know who commits.
    """
    top_of(root)
    git, base = Git(root), base_branch(root)
    if git.asked("var", "GIT_COMMITTER_IDENT").code or git.asked("var", "GIT_AUTHOR_IDENT").code:
        hint = 'say it with "git config user.name …" and "git config user.email …"'
        raise ProjectError("git does not know who commits", hint)
    tree = checkout_of(git, base)
    changed = [] if tree is None else changed_in(tree)
    if tree is not None and changed:
        shown = ", ".join(f'"{path}"' for path in changed[:3])
        more = f" and {len(changed) - 3} more" if changed[3:] else ""
        text = (
            f'files were changed in "{tree.folder}", where "{base}" is checked out: {shown}{more}'
        )
        raise ProjectError(text, "commit them, or put them aside with git stash")
    if reason := fetch_base(git, base, config):
        raise ProjectError(reason, "bring both together first")
    return base


def refuse_red_base(
    root: Path,
    tasks: Sequence[int],
    config: LoopConfig,
    say: Say,
    *,
    trust_edited: bool = False,
    stop: Event | None = None,
) -> None:
    """Raise `ProjectError` where a check of one of the tasks is red before anybody has worked.

    The checks run in the work tree in which merges are made, at the end of the base branch. When
    `stop` is set the setup of that ends, and by Ctrl-C.
    """
    with merging(root):
        commit = Git(root).say("rev-parse", f"refs/heads/{base_branch(root)}")
        _, place = merge_tree(root, commit, config, say, stop)
        for task in one_of_each(root, tasks):
            failure = failed_check(root, place, task, trust_edited=trust_edited, say=say)
            if failure is not None:
                text = f'the check "{failure.name}" is red before anybody has worked'
                raise ProjectError(text, "mend the base branch first", failure.tail)


def left_merges(root: Path, live: Container[int] = ()) -> list[tuple[Worktree, int, str]]:
    """Return the merges that were not made or wait: work tree, task and session of each.

    What a kill left under the number of an attempt gets its branch back, to be merged once more.
    Tasks of `live` are left out: they are in the hands of a session that runs.
    """
    waiting = [one for one in unmerged(root) if one.task not in live]
    if not waiting:
        return []
    top = top_of(root)
    git, base = Git(root), base_branch(root)
    inner = root.resolve().relative_to(top)
    found = []
    for one in waiting:
        branch = f"{BRANCH}{one.task}"
        began = git.say("rev-parse", f"refs/heads/{base}")
        if git.commit(f"refs/heads/{branch}") is None and (kept := kept_branches(git, one.task)):
            move_branch(git, kept[-1], branch)
        if git.commit(f"refs/heads/{branch}") is not None:
            began = git.say("merge-base", began, f"refs/heads/{branch}")
        path = one.worktree
        for _ in inner.parts:
            path = path.parent
        found.append((Worktree(path, one.worktree, branch, base, began), one.task, one.session_id))
    return found
