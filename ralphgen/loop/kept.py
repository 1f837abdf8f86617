"""Keeps the work of a session that could not finish, and starts the next session from it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralphgen.agents.agent import OUT_OF_BUDGET, OUT_OF_TIME, RATE_LIMITED, UNAVAILABLE
from ralphgen.errors import ProgramError, Say
from ralphgen.loop.git import BASE, Git, tree_at
from ralphgen.loop.trees import (
    BRANCH,
    Worktree,
    create_branch,
    delete_branch,
    delete_refs,
    is_held_for,
    keep_leftover,
    next_name,
    refused_files,
    release,
    set_aside,
    unlock,
)
from ralphgen.runtime.files.checkout import WORK
from ralphgen.sessions.claims import ASKED, RUN_ENDED

# After these outcomes, the next session of a task starts from the work of this one.
KEEPS = frozenset(
    {RATE_LIMITED.word, UNAVAILABLE.word, ASKED, OUT_OF_TIME, RUN_ENDED, OUT_OF_BUDGET.word}
)
REF = "refs/ralph/kept/"  # by task: a blob with the facts of `Kept`
MARKER = "^<{7} "  # begins the first line of a conflict in a file
SHOWN = 20  # files that a brief names


@dataclass(frozen=True, slots=True)
class Kept:
    """The work on a task that the next session starts from.

    It is the commit of a branch, left by a session. `failures` counts the sessions whose work did
    not merge, and `conflicts` are the files that had conflicts when a session started from it.
    `continued_by` is the last session that started from all of it, empty without one. `earlier` are
    the commits of branches that it continues.
    """

    commit: str
    session: str
    failures: int = 0
    conflicts: tuple[str, ...] = ()
    continued_by: str = ""
    earlier: tuple[str, ...] = ()

    def continued(self, session: str) -> tuple[str, ...]:
        """Return the commits of kept work that the work of a session continues."""
        if session and session == self.continued_by:
            return (*self.earlier, self.commit)
        return self.earlier if session == self.session else ()


def read_kept(git: Git, task: int) -> Kept | None:
    """Return the kept work on a task; None without any, or if you deleted its branch."""
    ended = git.run_quietly("cat-file", "blob", f"{REF}{task}")
    try:
        facts = json.loads(ended.output)
        kept = Kept(
            str(facts["commit"]),
            str(facts["session"]),
            int(facts["failures"]),
            tuple(map(str, facts["conflicts"])),
            str(facts.get("continued_by", "")),
            tuple(map(str, facts.get("earlier", ()))),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return kept if kept.commit in git.branches(f"{BRANCH}{task}*").values() else None


def store_kept_work(git: Git, task: int, kept: Kept) -> None:
    """Record the kept work on a task, in place of earlier work."""
    facts = {
        "commit": kept.commit,
        "session": kept.session,
        "failures": kept.failures,
        "conflicts": kept.conflicts,
        "continued_by": kept.continued_by,
        "earlier": kept.earlier,
    }
    blob = git.say("hash-object", "-w", "--stdin", given=json.dumps(facts).encode())
    git.say("update-ref", f"{REF}{task}", blob)


def forget_kept_work(git: Git, task: int) -> None:
    """Start the next session of a task from the base branch; the kept branch remains."""
    delete_refs(git, f"{REF}{task}")


def branches_of_kept_work(root: Path, task: int) -> dict[str, str]:
    """Return the branches with the kept work on a task, each with its commit."""
    git = Git(root)
    kept = read_kept(git, task)
    found = git.branches(f"{BRANCH}{task}*") if kept is not None else {}
    return {name: commit for name, commit in found.items() if kept and commit == kept.commit}


def drop_kept_work(root: Path, task: int) -> None:
    """Delete the branches with the kept work on a task: its next session starts from the base."""
    git = Git(root)
    names = branches_of_kept_work(root, task)
    forget_kept_work(git, task)
    for name in names:
        delete_branch(git, name)


def keep_work(
    root: Path, tree: Worktree, task: int, session: str, say: Say, *, continues: bool = True
) -> None:
    """Keep the content of a worktree on a branch, for the next session if that `continues` it.

    Nothing is kept if the worktree has no changes, or belongs to another task now.
    """
    git, own = Git(root), tree_at(root, tree.path)
    if own is None or not is_held_for(own, tree.branch):
        return
    unlock(own)
    commit = keep_leftover(own, say)
    if not continues:
        release(own)  # so that git deletes the branch for the user
        return
    began = git.say("rev-parse", f"{tree.began}^{{tree}}")
    if git.say("rev-parse", f"{commit}^{{tree}}") != began:
        if git.commit(f"refs/heads/{tree.branch}") != commit:  # the agent has left the branch
            create_branch(git, next_name(git, f"{BRANCH}{task}"), commit)
        before = read_kept(git, task)
        kept = Kept(commit, session)
        if before is not None:
            earlier = before.continued(session)
            kept = replace(
                kept, failures=before.failures, conflicts=before.conflicts, earlier=earlier
            )
        store_kept_work(git, task, kept)
        if before is not None and not before.failures and git.contains(commit, before.commit):
            drop_continued(git, task, before, session)
    release(own)
    set_aside(git, tree.branch, say)


def drop_continued(git: Git, task: int, kept: Kept, session: str) -> None:
    """Delete the branches of kept work that the work of a session continues."""
    continued = kept.continued(session)
    for name, commit in git.branches(f"{BRANCH}{task}-*").items():
        if commit in continued:
            delete_branch(git, name)


def forget_merged(git: Git, works: Mapping[int, tuple[str, str]]) -> None:
    """Remove the branches, the refs and the kept work of merged tasks.

    Each task has its commit and its session. Kept work that the session did not continue remains on
    its branch.
    """
    branches = git.branches(f"{BRANCH}*")
    refs = git.say("for-each-ref", "--format=%(refname)", REF).splitlines()
    kept = {task: read_kept(git, task) for task in works if f"{REF}{task}" in refs}
    # First of all: once the merge is on record, another session may begin on its task.
    delete_refs(git, *(f"{ref}{task}" for task in works for ref in (REF, BASE, WORK)))
    for task, (work, session) in works.items():
        for name in branches:
            is_left = branches[name] == work and name.startswith(f"{BRANCH}{task}")
            if is_left and git.commit(f"refs/heads/{name}") == work:
                delete_branch(git, name)
        if (before := kept.get(task)) is not None:
            drop_continued(git, task, before, session)


def start_from_kept_work(root: Path, tree: Worktree, task: int, session: str, say: Say) -> str:
    """Merge the kept work on a task into its session's worktree; return a text for the brief.

    The text is empty if the session starts from the base branch: without kept work, or if work that
    was never merged before has conflicts now. Work that failed to merge starts with conflict
    markers in the files. Changes of files that no task may change, and of submodules, are left out,
    so that they remain as the session's rules expect them.
    """
    git, own = Git(root), Git(root, tree.path)
    kept = read_kept(git, task)
    if kept is None:
        return ""
    if git.contains(tree.began, kept.commit):  # you have merged it by hand
        forget_kept_work(git, task)
        return ""
    try:
        return _merged_start(git, own, tree, (task, session), kept, say)
    except ProgramError as error:  # an agent's files can make git fail: that stops no loop
        own.refuse_unwritable()
        why = error.problems[0].text
    unlock(own)
    own.say("symbolic-ref", "HEAD", f"refs/heads/{tree.branch}")
    own.say("update-ref", f"refs/heads/{tree.branch}", tree.began)
    own.say("reset", "--quiet", "--hard")
    own.say("clean", "--quiet", "-ffd")
    say(f'task {task} starts from "{tree.base}", not from its kept work: {why}')
    return ""


def _merged_start(
    git: Git, own: Git, tree: Worktree, start: tuple[int, str], kept: Kept, say: Say
) -> str:
    """Merge kept work into a worktree; raise `ProgramError` if the session cannot start from it."""
    task, session = start
    ended = own.run_quietly("merge", "--quiet", "--no-commit", "--no-ff", kept.commit)
    conflicts = own.names("diff", "--name-only", "--diff-filter=U")
    if ended.code and not (conflicts and kept.failures):
        why = f"conflict in {', '.join(conflicts[:3])}" if conflicts else ended.tail
        raise ProgramError(why)
    own.stage()
    dropped = _moved_submodules(own, tree.began)
    _restore(own, tree.began, dropped)
    changed = own.names("diff", "--cached", "--name-only", "--no-renames", tree.began)
    refused = refused_files(git.root, changed, tree.began, own.say("write-tree"))
    _restore(own, tree.began, refused)
    dropped = [*dropped, *refused]
    result = own.say("write-tree")
    made = own.commit_tree(f"Continue task {task}", result, tree.began, kept.commit)
    own.say("update-ref", f"refs/heads/{tree.branch}", made, tree.began)
    own.say("reset", "--quiet")
    conflicts = sorted({*conflicts, *conflict_files(git, made, kept.conflicts)} - {*dropped})
    by = "" if dropped else session
    store_kept_work(git, task, replace(kept, conflicts=tuple(conflicts), continued_by=by))
    say(f"task {task} starts from the work of session {kept.session}")
    return _brief(tree, kept, conflicts, dropped)


def conflict_files(git: Git, commit: str, files: Sequence[str]) -> list[str]:
    """Return the files with conflict markers in a commit."""
    if not files:
        return []
    paths = [f":(top,literal){path}" for path in files]
    ended = git.run_quietly("grep", "-l", "-z", "-a", "-E", MARKER, commit, "--", *paths)
    return [name.removeprefix(f"{commit}:") for name in ended.output.split("\0") if name]


def _moved_submodules(own: Git, began: str) -> list[str]:
    known = own.gitlinks("ls-tree", "-r", began)
    staged = own.gitlinks("ls-files", "--stage")
    return sorted({path for path, _ in {*known.items()} ^ {*staged.items()}})


def _restore(own: Git, commit: str, files: Sequence[str]) -> None:
    """Let files of a worktree and its index be as in a commit."""
    if not files:
        return
    paths = [f":(top,literal){path}" for path in files]
    own.say("rm", "--quiet", "--force", "--ignore-unmatch", "-r", "--", *paths)
    own.say("reset", "--quiet", commit, "--", *paths)
    known = own.say("ls-files", "-z", "--", *paths).split("\0")
    if known := [path for path in known if path]:
        own.say("checkout", "--quiet", "--", *(f":(top,literal){path}" for path in known))


def _brief(tree: Worktree, kept: Kept, conflicts: Sequence[str], dropped: Sequence[str]) -> str:
    """Return the text of the brief on the earlier work in a worktree."""
    lines = [f"This worktree contains earlier work on this task, by session {kept.session}."]
    lines.append(f'Continue it; "git diff {tree.began}" shows it.')
    if conflicts:
        lines.append(f"Resolve the conflicts with the base branch in: {_file_names(conflicts)}.")
    elif kept.failures:
        lines.append("It did not pass when it was merged: the last comment has the reason.")
    if dropped:
        lines.append(f"Changes of these files were left out: {_file_names(dropped)}.")
    return "\n".join(lines)


def _file_names(files: Sequence[str]) -> str:
    more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return f"{', '.join(map(json.dumps, files[:SHOWN]))}{more}"
