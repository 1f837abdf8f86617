"""Looks, before any agent works in a work tree, whether its work could be merged at all."""

import os
from collections.abc import Container, Sequence
from pathlib import Path
from threading import Event

from ralphgen.errors import ProjectError, Say
from ralphgen.project.config import LoopConfig
from ralphgen.worktrees.git import Git, base_branch, top_of, tree_at
from ralphgen.worktrees.merge import merging, refuse_red
from ralphgen.worktrees.record import merge_commits, one_of_each, unmerged
from ralphgen.worktrees.trees import (
    BRANCH,
    MERGE,
    Worktree,
    base_of,
    changed_in,
    checkout_of,
    fetch_base,
    forget,
    held_for,
    refuse_changed,
    tasks_of_refs,
    unreachable,
    worktrees_folder,
)


def refuse_unmergeable(root: Path, config: LoopConfig) -> str:
    """Return the base branch; raise `ProjectError` where nothing could be merged into it.

    It must be checked out where the project is, or nowhere; there no file may be changed that git
    tracks, but for the project's own; and git must know who commits.
    """
    top_of(root)
    git, base = Git(root), base_branch(root)
    if git.asked("var", "GIT_COMMITTER_IDENT").code or git.asked("var", "GIT_AUTHOR_IDENT").code:
        hint = 'set it with "git config user.name …" and "git config user.email …"'
        raise ProjectError("git has no author for commits", hint)
    tree = checkout_of(git, base)
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
) -> None:
    """Raise `ProjectError` if a check of one of the tasks fails before an agent has worked.

    The checks run in the worktree for merges, at the end of the base branch. `allow_failing`
    prepares it without running them. When `stop` is set, and at Ctrl-C, its setup ends.
    """
    with merging(root):
        commit = Git(root).say("rev-parse", f"refs/heads/{base_branch(root)}")
        for task in one_of_each(root, tasks):
            refuse_red(
                root,
                commit,
                task,
                config,
                say,
                trust_edited,
                stop,
                allow_failing=allow_failing,
            )


def foreign_commits(root: Path, old: str, new: str, config: LoopConfig) -> list[str]:
    """Return the commits that have come into the base branch past merges, the newest first.

    Each has its short id and its subject. Commits of the remote in the settings are left out. If
    the branch has lost the commit `old`, that is named too.
    """
    git = Git(root)
    theirs = git.commit(f"refs/remotes/{config.remote}/{base_branch(root)}")
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
    root: Path, live: Container[int] = (), say: Say | None = None
) -> list[tuple[Worktree, int, str]]:
    """Return the merges that were not made or wait: work tree, task and session of each.

    Tasks of `live` are left out: they are in the hands of a session that runs. So is the work for
    another branch, which `say` gets. The refs of all other tasks are deleted.
    """
    waiting = [one for one in unmerged(root) if one.task not in live]
    git = Git(root)
    for task in tasks_of_refs(git) - {one.task for one in waiting}:
        if task not in live:
            forget(git, task)
    if not waiting:
        return []
    top = top_of(root)
    base = base_branch(root)
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
