"""Makes worktrees ready for tasks, and reads which of them wait for a merge."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import sleep

from filelock import FileLock, Timeout

from ralphgen.agents.sandbox import current_rules
from ralphgen.emit.trust import is_authority, trusted_settings
from ralphgen.errors import ProgramError, ProjectError, Say
from ralphgen.files import put, refuse_irregular
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.tables import state_of
from ralphgen.loop.git import (
    BASE,
    OWN_BRANCHES,
    Git,
    base_branch,
    hooks_among,
    run,
    top_of,
    tree_at,
    unmerged_branches,
)
from ralphgen.project.config import LoopConfig
from ralphgen.project.database import open_database
from ralphgen.project.git import ask_git, read_files_of_git, work_tree_around
from ralphgen.project.root import project_home
from ralphgen.runtime.engine.ledger import UNMERGED
from ralphgen.runtime.files.checkout import (
    SUFFIX,
    WORK,
    Checkout,
    add_worktree,
    attribute_changes,
    copy_file,
    discard,
    matching_files,
    setup_mark,
    write_git_file,
)
from ralphgen.runtime.files.main_tree import RALPH, is_of_git, linked_trees, pattern_of
from ralphgen.runtime.files.work_tree import (
    changed_files,
    mark_of,
    nested_repositories,
    submodules,
    tree_files,
)
from ralphgen.runtime.tasks.merges import merge_targets
from ralphgen.sessions.snapshot import (
    ACCEPT,
    BEGAN,
    accept_fetched,
    changed_protection,
    worktree_git,
)

_QUEUED = """
SELECT entry.task_id, coalesce(entry.session, ''), coalesce(own.worktree, '')
FROM ralphgen_merges AS entry LEFT JOIN ralphgen_sessions AS own ON own.id = entry.session
WHERE entry.state = 'waiting' AND entry.task_id IS NOT NULL
"""
_DONE = "SELECT id FROM tasks WHERE status = 'done'"
DISCIPLINES = "SELECT id, discipline FROM tasks WHERE id IN ({marks}) ORDER BY id"


@dataclass(frozen=True, slots=True)
class Unmerged:
    """A task that a session has done in a work tree, and whose merge is not on record."""

    task: int
    session_id: str
    worktree: Path


def merge_commits(root: Path) -> set[str]:
    """Return the commits that the queue made to merge work, or took it out again."""
    sql = "SELECT landing FROM ralphgen_merges UNION SELECT reverts FROM ralphgen_reviews"
    with open_database(root) as connection:
        return {commit for (commit,) in connection.rows(sql) if commit is not None}


def unmerged(root: Path) -> tuple[Unmerged, ...]:
    """Return the done tasks whose work is not merged, by number; entries of the queue count.

    Raises `ProjectError` if the database cannot be read.
    """
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return ()
        found = {*connection.rows(UNMERGED), *connection.rows(_QUEUED)}
        done = {task for (task,) in connection.rows(_DONE)}
    return tuple(Unmerged(row[0], row[1], Path(row[2])) for row in sorted(found) if row[0] in done)


def one_of_each(root: Path, tasks: Iterable[int]) -> list[int]:
    """Return the first of the tasks of each discipline, which have the same checks to pass."""
    wanted = [*tasks]
    sql = DISCIPLINES.format(marks=", ".join("?" * len(wanted)))
    with open_database(root) as connection:
        rows = connection.rows(sql, wanted)
    first: dict[object, int] = {}
    for task, discipline in rows:
        first.setdefault(discipline, task)
    return [*first.values()]


FOLDER = ".ralph/worktrees"
LINK_MODE = b"120000"  # of an entry in a tree
MOST_LINKS = 40  # that an operating system follows for one path
MERGE = "merge"  # the worktree for merges
BRANCH = f"{OWN_BRANCHES}task-"
LEFT = f"{OWN_BRANCHES}left-"
KEPT = re.compile(r"ralph/task-\d+-(?:late|\d+)")
SETUP = "ralphgen-setup"  # next to git's own files of a worktree: a record of its setup
NO_SUCH_REF = 2  # the exit code of `git ls-remote --exit-code` for a remote without the ref
FETCHES = 5  # attempts
SWITCHED = 3  # the exit code of `ADVANCE` if another branch was checked out meanwhile
# `git merge` would move whichever branch is checked out by then. One process group does all of it,
# so that a kill of the loop leaves no half. It can outlive its loop: the next one may move it too.
ADVANCE = f"""f() {{
checked_out() {{ test "$(git symbolic-ref --quiet HEAD)" = "$1"; }}
checked_out "$1" || exit {SWITCHED}
git update-index -q --refresh
git read-tree -m -u "$2" "$3" || exit 1
git update-ref -m "merge: fast-forward" "$1" "$3" "$2" || {{
    test "$(git rev-parse --quiet --verify "$1")" = "$3" && exit 0
    git read-tree -m -u "$3" "$2"
    exit 1
}}
checked_out "$1" || git read-tree -m -u "$3" "$2"
}}
f"""
PAUSE = 0.5  # seconds between two of them
SUBMODULES = "ralphgen-submodules"  # there too: the files of submodules at the beginning
HELD_FOR = "ralphgen-branch"  # beside them too: the branch of the task that it is there for


class RemoteError(ProjectError):
    """The remote of the base branch does not answer."""


@dataclass(frozen=True, slots=True)
class Worktree:
    """A worktree where an agent works on a task.

    `path` is its top, and `root` the project's folder in it. It is on `branch`, which began at the
    commit `began` of the branch `base`.
    """

    path: Path
    root: Path
    branch: str
    base: str
    began: str


@contextmanager
def landing(root: Path) -> Iterator[None]:
    """Move the base branch and record the merges, while no other process of this machine does."""
    with FileLock(worktrees_folder(root) / "landing.lock"):
        yield


@contextmanager
def free_number(root: Path) -> Iterator[int]:
    """The number of a work tree that no other worker has, as long as the block lasts."""
    for number in range(1, 1_000):
        with reserved_number(root, number) as is_free:
            if is_free:
                yield number
                return
    raise ProjectError("1,000 workers are running already", "stop a loop")


@contextmanager
def reserved_number(root: Path, number: int) -> Iterator[bool]:
    """Yield whether no worker has the work tree of this number; none gets it during the block."""
    lock = FileLock(worktrees_folder(root) / f"{number}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def prepare(
    root: Path,
    number: int,
    task: int,
    config: LoopConfig,
    say: Say,
    stop: Event | None = None,
    onto: str = "",
) -> Worktree:
    """Return the worktree of this number on a new branch for a task, at the tip of the base.

    `onto` replaces the branch that is checked out as the base.
    Leftovers of an earlier session are kept on a branch; files that git ignores remain. Raises
    `ProjectError` if it cannot be created or set up, and when `stop` is set meanwhile.
    """
    top = top_of(root)
    base, path = base_branch(root, onto), worktrees_folder(root) / str(number)
    git = opened_tree(root, path)
    keep_leftover(git, say)
    if any(submodule_changes(git)):  # git enters no submodule, so it cannot put these back
        _added_tree(Git(root), path)
        git = opened_tree(root, path)
    try:
        fetch_base(Git(root), base, config)
    except RemoteError as error:  # the session works on the local base
        say(f"{error.problems[0].text}: the merge will wait for it")
    refuse_changed(root)
    began = git.say("rev-parse", f"refs/heads/{base}")
    git.own_file(HELD_FOR).unlink(missing_ok=True)
    git.say("checkout", "--quiet", "--force", "--detach", began)
    git.say("clean", "--quiet", "-ffd")
    branch = _freed_branch(git, task, began, say)
    forget(git, task)
    git.say("symbolic-ref", f"{BASE}{task}", f"refs/heads/{base}")
    create_branch(git, branch, began)
    git.say("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    git.own_file(HELD_FOR).write_text(branch, encoding="utf-8")
    for nested in nested_repositories(str(path), git.submodules()):  # around tracked files
        discard(str(path / nested / ".git"))
    place = path / root.resolve().relative_to(top)
    make_ready(git, root, place, config, say, stop)
    git.own_file(SUBMODULES).write_text(json.dumps(_submodule_files(git)), encoding="ascii")
    if read_settings(root).done.checks:  # a setup that fails there ends no session
        with checkout(root, f"{number}{SUFFIX}", config, say, stop) as private:
            private.set_to(began, began, task)
    return Worktree(path, place, branch, base, began)


def _freed_branch(git: Git, task: int, began: str, say: Say) -> str:
    """Return an unused name for the branch of a task.

    A branch that the loop created is kept under another name, or removed if `began` contains it.
    Any other branch keeps its name, and so does one that is checked out somewhere.
    """
    branch = f"{BRANCH}{task}"
    left = git.commit(f"refs/heads/{branch}")
    if left is not None and is_own(git, branch) and checkout_of(git, branch) is None:
        if git.contains(began, left):
            delete_branch(git, branch)
        else:
            set_aside(git, branch, say)
    if git.commit(f"refs/heads/{branch}") is not None:
        return next_name(git, branch)
    return branch


def is_own(git: Git, branch: str) -> bool:
    """Return whether the loop created a branch, by a record that it keeps of each."""
    created = git.commit(f"{BEGAN}{branch}") if branch.startswith(OWN_BRANCHES) else None
    return created is not None and git.contains(f"refs/heads/{branch}", created)


def create_branch(git: Git, branch: str, commit: str) -> None:
    """Create a branch of the loop; raises `ProgramError` if it exists."""
    lines = (f"create refs/heads/{branch} {commit}", f"update {BEGAN}{branch} {commit}")
    git.say("update-ref", "--stdin", given="\n".join((*lines, "")).encode())


def delete_branch(git: Git, branch: str) -> None:
    """Delete a branch if the loop created it; there may be none."""
    if is_own(git, branch):
        delete_refs(git, f"refs/heads/{branch}", f"{BEGAN}{branch}")
    elif git.commit(f"refs/heads/{branch}") is None:
        delete_refs(git, f"{BEGAN}{branch}")


def delete_refs(git: Git, *refs: str) -> None:
    """Delete refs together, or one by one if one of them is locked; ignore missing ones."""
    lines = "".join(f"delete {ref}\n" for ref in refs)
    if git.run_quietly("update-ref", "--no-deref", "--stdin", given=lines.encode()).code:
        for ref in refs:
            git.run_quietly("update-ref", "--no-deref", "-d", ref)


def submodule_changes(git: Git) -> tuple[list[str], list[str]]:
    """Return the files of submodules that differ from the beginning or are gone, and new ones.

    A submodule that was empty then does not count.
    """
    try:
        began = json.loads(git.own_file(SUBMODULES).read_bytes())
    except (OSError, ValueError):
        return [], []
    filled = {path: files for path, files in began.items() if files}
    found = _submodule_files(git, filled)
    before = {path: mark for files in filled.values() for path, mark in files.items()}
    after = {path: mark for files in found.values() for path, mark in files.items()}
    return changed_files(before, after), sorted({*after} - {*before})


def _submodule_files(git: Git, names: Iterable[str] | None = None) -> dict[str, dict[str, str]]:
    """Return the marks of the files in submodules, by default in those of the index."""
    top = str(git.folder)
    wanted = [*(submodules(top) if names is None else names)]
    files = tree_files(top) if wanted else {}
    return {
        name: {path: mark for path, mark in files.items() if path.startswith(f"{name}/")}
        for name in wanted
    }


def opened_tree(root: Path, path: Path) -> Git:
    """Return git in the worktree at `path`, which is created if it is missing or incomplete.

    Its `.git` is written again if it names another repository: programs in the tree heed it.
    """
    git = tree_at(root, path)
    if git is None or git.commit("HEAD") is None:
        git = _added_tree(Git(root), path)
    write_git_file(git.repository)
    unlock(git)
    for what in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge", "rebase-apply"):
        if git.own_file(what).exists():
            git.say("reset", "--quiet", "--merge")
    return git


def _added_tree(main: Git, path: Path) -> Git:
    """Return git in a new worktree at the main one's commit; removes what was at its path."""
    add_worktree(main.repository.common, str(path), main.say("rev-parse", "HEAD"))
    git = Git(main.root, path)
    git.say("reset", "--quiet", "--hard")
    return git


def unlock(git: Git) -> None:
    """Remove the locks of a killed git in an unused worktree."""
    for lock in ("index.lock", "HEAD.lock"):
        git.own_file(lock).unlink(missing_ok=True)


def branch_of_tree(git: Git) -> str:
    """Return the branch of the task that a work tree is there for, empty if it is for none.

    Which branch is checked out does not tell: an agent may have left its own.
    """
    try:
        return git.own_file(HELD_FOR).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def is_held_for(git: Git, branch: str) -> bool:
    """Return whether a work tree is still there for the task of a branch, and for no later one."""
    return branch_of_tree(git) == branch


def release(git: Git) -> None:
    """Detach a worktree from its task; its files remain, at their commit."""
    git.own_file(HELD_FOR).unlink(missing_ok=True)
    git.run_quietly("checkout", "--quiet", "--detach")


def keep_leftover(git: Git, say: Say) -> str:
    """Commit a worktree's leftovers on its branch, without files that git cannot add.

    Return the commit with the content of the worktree.
    """
    tree, head = staged_tree(git, say), git.say("rev-parse", "HEAD")
    if tree == git.say("rev-parse", f"{head}^{{tree}}"):
        return head
    made = git.commit_tree("Keep unfinished work", tree, head)
    branch = git.checked_out()
    if branch and is_held_for(git, branch) and is_own(git, branch):
        git.say("update-ref", f"refs/heads/{branch}", made, head)
    else:  # the agent has left the branch of its task
        name = f"{LEFT}{git.say('rev-parse', '--short', head)}"
        branch = name if git.commit(f"refs/heads/{name}") is None else next_name(git, name)
        create_branch(git, branch, made)
    say(f'kept the unfinished work of "{git.folder}" on the branch "{branch}"')
    return made


def staged_tree(git: Git, say: Say) -> str:
    """Return the tree of all files in a worktree, without files that git cannot add."""
    try:
        nested = git.stage()
    except ProgramError as error:
        git.refuse_unwritable()
        say(f'files in "{git.folder}" cannot be kept: {error.problems[0].output}')
        nested = git.stage(whole=False)
    files = [file for path in nested for file in _files_below(git.folder, path)]
    given = b"".join(os.fsencode(file) + b"\0" for file in files)
    git.say("update-index", "--add", "-z", "--stdin", given=given)
    return git.say("write-tree")


def _files_below(top: Path, path: str) -> Iterator[str]:
    """Yield the files of a repository within a worktree, without git's own."""
    for folder, folders, files in () if is_of_git(path) else os.walk(top / path):
        folders[:] = [name for name in folders if not is_of_git(name)]
        at = os.path.relpath(folder, top)
        yield from (f"{at}/{name}" for name in files if not is_of_git(name))


def set_aside(git: Git, branch: str, say: Say) -> str | None:
    """Keep the work of an attempt on a branch with its number; return the name, None without work.

    A branch that the loop did not create, or that is checked out somewhere, keeps its name.
    """
    commit = git.commit(f"refs/heads/{branch}")
    if commit is None or KEPT.fullmatch(branch) or not is_own(git, branch):
        return None if commit is None else branch
    if checkout_of(git, branch) is not None:
        return branch
    kept = next_name(git, branch)
    create_branch(git, kept, commit)
    delete_branch(git, branch)
    say(f'kept the branch "{branch}" as "{kept}"')
    return kept


def base_of(git: Git, task: int) -> str | None:
    """Return the branch that the work on a task is for, None if that is not on record."""
    ended = git.run_quietly("symbolic-ref", "--quiet", f"{BASE}{task}")
    return None if ended.code else ended.output.strip().removeprefix("refs/heads/")


def forget(git: Git, task: int) -> None:
    """Delete the refs that keep the work on a task for its merge; there may be none."""
    delete_refs(git, f"{BASE}{task}", f"{WORK}{task}")


def tasks_of_refs(git: Git) -> set[int]:
    """Return the tasks with a ref that keeps their work for a merge."""
    words = ("for-each-ref", "--format=%(refname)", BASE, WORK)
    names = (ref.rpartition("/")[2] for ref in git.say(*words).splitlines())
    return {int(name) for name in names if name.isdecimal()}


def next_name(git: Git, branch: str) -> str:
    """Return the name for keeping a task's branch: with the number of the attempt."""
    number = 1
    while git.commit(f"refs/heads/{branch}-{number}") is not None:
        number += 1
    return f"{branch}-{number}"


def fetch_base(git: Git, base: str, config: LoopConfig) -> str | None:
    """Update the base branch from its remote, if there is one; return why that failed.

    A remote without that branch gets it by the first push. Raises `RemoteError` if the remote does
    not respond.
    """
    if config.remote is None:
        return None
    theirs = f"refs/remotes/{config.remote}/{base}"
    with FileLock(worktrees_folder(git.root) / "fetch.lock"):
        if not _fetched(git, config.remote, base, theirs):
            return None
        accept_fetched(git.root, theirs)
        with landing(git.root):
            old, new = git.say("rev-parse", f"refs/heads/{base}"), git.say("rev-parse", theirs)
            if git.contains(old, new):
                return None
            if not git.contains(new, old):
                return f'"{base}" and "{config.remote}/{base}" have diverged'
            reason = move_base(git, base, old, new)
        accept_fetched(git.root, theirs)
        return reason


def protection_problem(root: Path) -> str:
    """Return why nothing can be merged while protected files are an agent's, empty if none is."""
    files = changed_protection(root)
    if not files:
        return ""
    more = f" and {len(files) - 3} more" if files[3:] else ""
    text = f'protected files were changed in "{root}" while an agent worked'
    return f"{text}: {', '.join(files[:3])}{more}; {ACCEPT}"


def refuse_target(root: Path, onto: str) -> None:
    """Raise `ProjectError` if a loop cannot merge into the branch `onto`, which may be missing."""
    top_of(root)
    git = Git(root)
    if onto.startswith("-") or git.run_quietly("check-ref-format", f"refs/heads/{onto}").code:
        raise ProjectError(f'invalid branch "{onto}"', "use a name such as night/2026-11-26")
    if onto.casefold().startswith(OWN_BRANCHES):
        raise ProjectError(f'invalid branch "{onto}": branches in "{OWN_BRANCHES}" are for tasks')
    if (tree := users_checkout(git, onto)) is not None:
        text = f'"{onto}" is checked out in "{tree.folder}"'
        raise ProjectError(text, "choose another branch, or switch that worktree to another one")


def create_target(root: Path, onto: str) -> None:
    """Create the branch `onto` at the commit that is checked out, unless it exists."""
    git = Git(root)
    if git.commit(f"refs/heads/{onto}") is None:
        git.say("update-ref", f"refs/heads/{onto}", git.say("rev-parse", "HEAD"), "")


def refuse_changed(root: Path) -> None:
    """Raise `ProjectError` if protected files are an agent's."""
    if problem := protection_problem(root):
        raise ProjectError(problem, 'run "ralphgen trust"')


def _fetched(git: Git, remote: str, base: str, theirs: str) -> bool:
    """Fetch the base branch to the ref `theirs`; return whether the remote has it.

    Another git, such as an editor's, may fetch at the same moment: that is waited for.
    """
    for left in reversed(range(FETCHES)):
        fetched = git.run_quietly("fetch", "--quiet", "--", remote, f"+refs/heads/{base}:{theirs}")
        if not fetched.code:
            break
        listed = git.run_quietly("ls-remote", "--exit-code", "--", remote, f"refs/heads/{base}")
        if listed.code == NO_SUCH_REF:
            return False
        if listed.code:
            raise unreachable(remote, listed.tail)
        if not left:
            raise ProgramError(f'git fetch failed in "{git.folder}"', output=fetched.tail)
        sleep(PAUSE)
    return True


def unreachable(remote: str, words: str) -> RemoteError:
    """Return the error of a remote that does not answer, with the words of git."""
    return RemoteError(f'the remote "{remote}" cannot be reached', output=words)


def move_base(git: Git, base: str, old: str, new: str) -> str | None:
    """Move the base branch from one commit to a later one; return why not, None if it moved.

    A worktree with the branch is updated too, unless tracked files were changed there. No other
    branch moves, even if another one is checked out meanwhile.
    """
    tree = users_checkout(git, base)
    if tree is None:
        moved = git.run_quietly("update-ref", f"refs/heads/{base}", new, old)
        return f'"{base}" has changed in the meantime' if moved.code else None
    if changed := changed_in(tree):
        return f'files were changed in "{tree.folder}": {", ".join(changed[:3])}'
    if tree.commit("HEAD") != old:
        return f'"{base}" has changed in the meantime'
    words = (f"refs/heads/{base}", old, new)
    moved = tree.run_quietly("-c", f"alias.advance=!{ADVANCE}", "advance", *words)
    if moved.code == SWITCHED:
        return move_base(git, base, old, new)
    return f'"{tree.folder}" cannot be updated: {moved.tail}' if moved.code else None


def users_checkout(git: Git, branch: str) -> Git | None:
    """Return git in the user's worktree in which a branch is checked out, None if none is.

    The worktrees of agents do not count: an agent can check out any branch in its own.
    """
    return checkout_of(git, branch, worktrees_folder(git.root))


def checkout_of(git: Git, branch: str, without: Path | None = None) -> Git | None:
    """Return git in the worktree in which a branch is checked out, None if none is.

    Worktrees in the directory `without` are left out.
    """
    main = Git(git.root)
    for tree in (main.repository, *linked_trees(main.repository.common)):
        if without is not None and Path(tree.top).is_relative_to(without):
            continue
        try:
            head = Path(tree.git_dir, "HEAD").read_bytes()
        except OSError:
            continue
        if head.strip() == os.fsencode(f"ref: refs/heads/{branch}") and Path(tree.top).is_dir():
            return main if tree is main.repository else Git(git.root, Path(tree.top))
    return None


def changed_in(tree: Git) -> list[str]:
    """Return the files of a worktree that differ from its commit, without ralphgen's own."""
    own = re.compile(r"(?:^|/)\.ralph/(?:db/|progress\.txt|learnings\.txt|mcp/context\.json)")
    return sorted(path for path in tree.changes() if not own.search(path))


def make_ready(
    git: Git, root: Path, place: Path, config: LoopConfig, say: Say, stop: Event | None = None
) -> None:
    """Copy ignored files into a work tree and run the setup there, where either is out of date.

    Raises `ProgramError` if the setup fails, `ProjectError` when `stop` is set while it runs.
    """
    for path in matching_files(str(root), config.copy_files):
        target = place / path
        if mark_of(str(root / path)) != mark_of(str(target)):
            target.parent.mkdir(parents=True, exist_ok=True)
            discard(str(target))
            copy_file(str(root / path), str(target))
    marker, now = git.own_file(SETUP), setup_mark(str(place), config.setup, config.setup_when)
    if not config.setup or (marker.exists() and marker.read_text(encoding="utf-8") == now):
        return
    marker.unlink(missing_ok=True)
    for command in config.setup:
        _set_up(root, command, place, say, stop)
    marker.write_text(now, encoding="utf-8")


def _set_up(root: Path, command: Sequence[str], place: Path, say: Say, stop: Event | None) -> None:
    """Run a command of the setup; raise `ProgramError` if it fails."""
    say(f"{place}: {' '.join(command)}")
    ended = run(command, place, root=root, stop=stop, sandbox=current_rules())
    if ended.code:
        text = f"[loop] setup {json.dumps([*command])} ended with exit code {ended.code}"
        raise ProgramError(f'{text} in "{place}"', "fix the command", ended.tail)


def checkout(
    root: Path, name: str, config: LoopConfig, say: Say, stop: Event | None = None
) -> Checkout:
    """Return the private checkout of this name, for running checks on trees.

    Its setup raises the errors of `make_ready`.
    """
    git = worktree_git(root, root)
    return Checkout(
        git.repository.common,
        str(worktrees_folder(root) / name),
        str(root.resolve().relative_to(top_of(root))),
        str(root),
        {
            "copy": config.copy_files,
            "setup": config.setup,
            "setup_when": config.setup_when,
            "protect": read_settings(root).done.protect,
        },
        trusted_settings(root),
        git.variables,
        lambda command, folder: _set_up(root, command, Path(folder), say, stop),
    )


def worktrees_folder(root: Path) -> Path:
    """Return the folder of the worktrees, which git ignores; it is created if it is missing."""
    folder = project_home(root) / FOLDER
    refuse_irregular(folder, [".gitignore"])  # a link in a clone may lead anywhere
    if not (folder / ".gitignore").exists():
        put(folder / ".gitignore", "*\n")
    return folder.resolve()


def refused_files(root: Path, changed: list[str], old: str, new: str) -> tuple[str, ...]:
    """Return the files changed between two commits, from the top, that no task may change.

    These are protected files, hooks, the files of ralphgen and of clients, its installation, files
    to which links among these lead, and attributes that would make git check out such a file
    differently.
    """
    top = Git(root).folder
    inner = root.resolve().relative_to(top).as_posix()
    prefixes = (Path(folder).resolve() for folder in (sys.prefix, sys.base_prefix))
    installed = [folder for folder in prefixes if folder.is_relative_to(top)]
    patterns = [pattern_of(glob, str(root)) for glob in read_settings(root).done.protect]
    hooks = hooks_among(root, changed)

    def is_protected(path: str) -> bool:
        if is_authority(path) or RALPH in path.casefold().split("/") or path in hooks:
            return True
        if any((top / path).is_relative_to(folder) for folder in installed):
            return True
        own = path if inner == "." else path.removeprefix(f"{inner}/")
        is_below = inner == "." or own != path
        return is_below and any(pattern.match(own) for pattern in patterns)

    targets = _link_targets(top, old, is_protected)

    def is_refused(path: str) -> bool:
        return is_protected(path) or any(
            _is_at(path, target) or _is_at(target, path) for target in targets
        )

    place = worktree_git(root, root)
    return (
        *filter(is_refused, changed),
        *attribute_changes(place, old, new, changed, is_refused),
    )


def _is_at(path: str, place: str) -> bool:
    return place in (".", path) or path.startswith(f"{place}/")


def _link_targets(top: Path, commit: str, is_protected: Callable[[str], bool]) -> set[str]:
    """Return the paths from the top to which protected links of a commit lead, and these links.

    Links on the way to such a path, and below it, count too.
    """
    listed = ask_git(top, ["ls-tree", "-r", "-z", "--full-tree", commit])
    entries = [line for line in (listed or b"").split(b"\0") if line.startswith(LINK_MODE)]
    texts = read_files_of_git(top, [line.split(maxsplit=3)[2] for line in entries])
    if listed is None or texts is None:
        raise ProjectError(f'git cannot read the commit "{commit}"', 'run "git fsck" for details')
    links: dict[str, str] = {}  # from the top, to a path from there
    for line, text in zip(entries, texts, strict=True):
        path = os.fsdecode(line.partition(b"\t")[2])
        target = os.path.normpath(top / Path(path).parent / os.fsdecode(text or b""))
        if Path(target).is_relative_to(top):
            links[path] = Path(target).relative_to(top).as_posix()
    found: dict[str, int] = {}  # how many links lead to a path from the nearest start
    left = [(path, 0) for path in links if is_protected(path)]
    while left:
        path, count = left.pop()
        if count >= found.get(path, MOST_LINKS):
            continue
        found[path] = count
        left += [(target, 0) for link, target in links.items() if _is_at(link, path)]
        for link, target in links.items():
            if path != link and _is_at(path, link):
                below = os.path.normpath(target + path.removeprefix(link))
                left += [(link, 0), (below, count + 1)]
    return {*found}


def worktree_notes(root: Path) -> Iterator[str]:
    """Yield one sentence each on worktrees, kept branches and waiting merges, if there are any.

    Raises `ProjectError` if git or the database does not respond.
    """
    folder = project_home(root) / FOLDER
    paths = [path for path in sorted(folder.glob("*")) if not path.name.endswith(SUFFIX)]
    trees = [tree for path in paths if (tree := tree_at(root, path))]
    waiting = unmerged(root)
    if waiting:
        tasks = ", ".join(str(one.task) for one in waiting)
        yield f'done but not merged: task {tasks}; "ralphgen loop --worktrees" continues the merge'
    if trees:
        yield f"{len(trees)} in {FOLDER}, kept for the next loop"
    for tree in trees:
        words = ("--porcelain", "--ignore-submodules=all")
        is_agents = tree.folder.name != MERGE
        if is_agents and tree.run_quietly("--no-optional-locks", "status", *words).output:
            yield f'"{tree.folder}" contains uncommitted work'
    with open_database(root) as connection:
        has_ledger = state_of(connection).version is not None
        targets = merge_targets(connection) if has_ledger else {}
    if names := unmerged_branches(work_tree_around(root.resolve() / ".ralph"), targets.values()):
        yield f"unmerged branches: {', '.join(names)}"
