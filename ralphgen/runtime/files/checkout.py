"""Writes the tree that git would commit, and checks trees out where commands run on them.

An agent's worktree changes while checks run, and git obeys files in it. So the files are written
to a tree with an index of ours, and the tree is checked out in a private directory. Only ralphgen
writes there, and the commands that it runs there.
"""

from __future__ import annotations

import json
import os
import stat
import time

from ..encoding import sha256_hex
from . import AT_ONCE, NO_LINK, replace_file
from .git import run_git
from .main_tree import MARK, Repository, is_of_git, linked_trees, pattern_of
from .work_tree import (
    GITLINK,
    is_way,
    mark_of,
    moved,
    nested_repositories,
    settled_stamps,
    stamps,
    walk,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Self

    Run = Callable[[Sequence[str], str], None]
    """Runs a command of the setup in a directory. Raises an error if it fails."""

INDEX = "ralphgen-index"  # next to git's own index, which programs in the tree may write
STATE = "ralphgen-checkout"
WORK = "refs/ralph/work/"  # by task: the tree that its session recorded, or its commit
SUFFIX = "-checks"  # of the checkout that belongs to an agent's worktree
SECONDS = 3_600  # that a filter may take
TICK = 0.02  # seconds; two changes of a file within them may get the same time
# A program can restore the size and the modification time of a file, but not its change time.
STRICT = ("-c", "core.trustCtime=true", "-c", "core.checkStat=default")
_CLONE = 0x40049409  # FICLONE of Linux: a copy that shares its blocks
_TAIL = 2_000
CONVERTING = ("text", "eol", "crlf", "ident", "working-tree-encoding", "filter")  # attributes
MANY = 500  # paths in one command line


class TreeError(Exception):
    """git cannot write or check out a tree."""


# Submodules are listed, too, whatever `.gitmodules` says: an agent can write that.
CHANGED = ("diff-tree", "-r", "--name-only", "--no-renames", "--ignore-submodules=none")


class TreeGit:
    """git in one worktree, with an index of ours.

    `settings` and `variables` are as `run_git` takes them.
    """

    __slots__ = ("index", "repository", "settings", "variables")

    def __init__(
        self,
        repository: Repository,
        settings: Iterable[tuple[str, str]],
        variables: Mapping[str, str],
    ) -> None:
        self.repository = repository
        self.settings = [(str(key), str(value)) for key, value in settings]
        self.variables = variables
        self.index = os.path.join(repository.git_dir, INDEX)

    def say(self, *words: str, given: bytes = b"", index: str = "", codes: int = 0) -> bytes:
        """Return the output of git; raise `TreeError` if its exit code is higher than `codes`."""
        done = run_git(
            self.repository,
            (*STRICT, *words),
            settings=self.settings,
            given=given,
            index=index or self.index,
            seconds=SECONDS,
            variables=self.variables,
        )
        if done.code is None or done.code > codes:
            text = os.fsdecode(done.errors).strip()[-_TAIL:]
            raise TreeError(f"git {words[0]} failed: {text}" if text else f"git {words[0]} failed")
        return done.output

    def names(self, *words: str, index: str = "") -> list[str]:
        """Return the paths that git lists with `-z`."""
        listed = self.say(*words, "-z", index=index)
        return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def write_tree(git: TreeGit, base: str) -> tuple[str, set[str]]:
    """Return the id of the tree that git would commit in a worktree, and its paths from the top.

    The work began at the commit `base`. Ignored files are left out unless `base` or the index of
    the worktree has them. Submodules keep their state in `base`, and repositories within the tree
    are left out. Raises `TreeError` if git cannot add a file.
    """
    from shutil import copy2

    own = f"{git.index}-{os.getpid()}-{os.urandom(4).hex()}"
    is_known = os.path.exists(git.index)
    try:
        if is_known:  # it saves reading the files that are unchanged
            copy2(git.index, own)  # keeps the index's time, which git compares with the files
        git.say("read-tree", "--reset", base, index=own)
        known = _submodules(git, own)
        top = git.repository.top
        nested = nested_repositories(top, known)
        skipped = [f":(top,exclude,literal){path}" for path in (*nested, *known)]
        git.say("add", "--all", "--", ":/", *skipped, index=own)
        names = {*git.names("ls-files", index=own)}
        more = {*git.names("ls-files", index=os.path.join(git.repository.git_dir, "index"))}
        outside = [f"{path}/" for path in (*nested, *known)]
        forced = [
            path
            for path in sorted(more - names - {*known, *nested})
            if not is_of_git(path)
            and not path.startswith(tuple(outside))
            and is_way(top, path)
            and _is_file(os.path.join(top, path))
        ]
        if forced:
            given = b"".join(os.fsencode(path) + b"\0" for path in forced)
            git.say("update-index", "--add", "-z", "--stdin", given=given, index=own)
        tree = git.say("write-tree", index=own).decode("ascii").strip()
        os.replace(own, git.index)
        return tree, names | {*forced}
    except TreeError:
        if not is_known:
            raise
        discard(git.index)  # `git gc --prune` removes objects that this index alone names
        return write_tree(git, base)
    finally:
        discard(own)
        discard(f"{own}.lock")


def changed_paths(git: TreeGit, old: str, new: str) -> list[str]:
    """Return the paths from the top that differ between two trees or commits."""
    return git.names(*CHANGED, old, new)


def attribute_changes(
    git: TreeGit, old: str, new: str, changed: Iterable[str], is_protected: Callable[[str], bool]
) -> list[str]:
    """Return the changed `.gitattributes` if git would check out protected files in another way.

    `old` and `new` are trees or commits that differ in the `changed` paths. All paths are from the
    top.
    """
    files = [path for path in changed if path.rpartition("/")[2].casefold() == ".gitattributes"]
    if not files:
        return []
    listed = git.names("ls-tree", "-r", "--name-only", new)
    given = b"".join(os.fsencode(path) + b"\0" for path in listed if is_protected(path))
    own = f"{git.index}-{os.getpid()}-{os.urandom(4).hex()}"
    answers = set()
    try:
        for tree in (old, new):
            git.say("read-tree", "--reset", tree, index=own)
            words = ("check-attr", "--cached", "--stdin", "-z", *CONVERTING)
            answers.add(git.say(*words, given=given, index=own) if given else b"")
    finally:
        discard(own)
    return files if len(answers) > 1 else []


def unlike_commit(git: TreeGit, commit: str, paths: Sequence[str]) -> list[str]:
    """Return the paths from the top whose files in the worktree are not as in a commit.

    The index of the worktree does not count: it can hide a change.
    """
    own = f"{git.index}-{os.getpid()}-{os.urandom(4).hex()}"
    top, found = git.repository.top, []
    try:
        git.say("read-tree", commit, index=own)
        known = {*git.names("ls-files", index=own)}
        for at in range(0, len(paths), MANY):
            some = paths[at : at + MANY]
            found += [path for path in some if path not in known and _is_file(f"{top}/{path}")]
            words = ("diff", "--name-only", "--no-ext-diff", "-z", commit, "--")
            literal = [f":(top,literal){path}" for path in some]
            listed = git.say(*words, *literal, index=own)
            found += [os.fsdecode(name) for name in listed.split(b"\0") if name]
    finally:
        discard(own)
    return found


def copied_marks(source: str, copy: Sequence[str], protect: Sequence[str]) -> dict[str, str]:
    """Return a mark for each protected file that checkouts copy, by its absolute path."""
    patterns = [pattern_of(glob, source) for glob in protect]
    paths = matching_files(source, copy) if patterns else ()
    return {
        os.path.join(source, path): mark_of(os.path.join(source, path))
        for path in paths
        if any(one.match(path) for one in patterns)
    }


def matching_files(root: str, globs: Sequence[str]) -> list[str]:
    """Return the files below a directory that a glob matches, sorted; no link is followed.

    Files of git and of ralphgen are left out.
    """
    patterns = [pattern_of(glob, root) for glob in globs]
    plain = [glob for glob in globs if not {*"*?["} & {*glob}]
    plain = [glob for glob in plain if not os.path.isdir(os.path.join(root, glob))]
    found = {glob for glob in plain if os.path.lexists(os.path.join(root, glob))}
    if len(plain) < len(globs):
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in (MARK, ".ralph")]
            at = os.path.relpath(folder, root)
            paths = [name if at == "." else f"{at}/{name}" for name in files]
            found |= {path for path in paths if any(one.match(path) for one in patterns)}
    return sorted(path for path in found if _is_file(os.path.join(root, path)))


def setup_mark(place: str, setup: Sequence[Sequence[str]], setup_when: Sequence[str]) -> str:
    """Return a digest of the setup and of the files whose changes make it run again."""
    marks = {name: mark_of(os.path.join(place, name)) for name in matching_files(place, setup_when)}
    return sha256_hex(json.dumps([setup, marks], sort_keys=True).encode())


def add_worktree(common: str, path: str, commit: str) -> Repository:
    """Return a new worktree without files at a commit; a former one at `path` is removed.

    `git worktree add` would record the temporary directory that it takes for the common one.
    """
    for former in [*linked_trees(common)]:
        if former.top == path:
            discard(former.git_dir)
    discard(path)
    os.makedirs(path)
    folder = os.path.join(common, "worktrees")
    os.makedirs(folder, exist_ok=True)
    name = own = os.path.join(folder, os.path.basename(path))
    number = 0
    while os.path.lexists(own):
        number += 1
        own = f"{name}{number}"
    os.mkdir(own)
    for name, text in (("HEAD", commit), ("commondir", "../.."), ("gitdir", f"{path}/{MARK}")):
        with open(os.path.join(own, name), "wb") as file:
            file.write(os.fsencode(f"{text}\n"))
    return Repository(path, own, common)


def write_git_file(tree: Repository) -> None:
    """Let the `.git` of a linked worktree name its repository: programs in the tree heed it."""
    mark, expected = os.path.join(tree.top, MARK), os.fsencode(f"gitdir: {tree.git_dir}\n")
    if os.path.isfile(mark) and not os.path.islink(mark):
        with open(mark, "rb") as file:
            if file.read(len(expected) + 1) == expected:
                return
    discard(mark)
    with open(mark, "wb") as file:
        file.write(expected)


def discard(path: str) -> None:
    """Remove a file, a link or a directory, regardless of its modes; there may be none."""
    if os.path.isdir(path) and not os.path.islink(path):
        from shutil import rmtree

        os.chmod(path, stat.S_IRWXU)
        for folder, folders, _ in os.walk(path):
            for name in folders:
                inner = os.path.join(folder, name)
                if not os.path.islink(inner):
                    os.chmod(inner, stat.S_IRWXU)
        rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


class Checkout:
    """A private worktree at `path` for running commands on one tree after the other.

    `inner` is the path of the project below the top, and `source` the project's directory that has
    the files to copy. `rules` has `copy`, `setup` and `setup_when` of `[loop]`, and `protect` of
    `[done]`. `run` runs a command of the setup. Use it as a context: no other process uses the
    checkout meanwhile.
    """

    def __init__(
        self,
        common: str,
        path: str,
        inner: str,
        source: str,
        rules: Mapping[str, Any],
        settings: Iterable[tuple[str, str]],
        variables: Mapping[str, str],
        run: Run,
    ) -> None:
        self._common = common
        self._path = path
        self._inner = "" if inner == "." else inner
        self._source = source
        self._rules = rules
        self._settings = [*settings]
        self._variables = variables
        self._run = run
        self._lock = -1
        self._index = ""  # the stamp of the index as this wrote it
        self._stamps: Mapping[str, tuple[int, ...]] = {}
        self.place = os.path.join(path, inner) if self._inner else path
        self.git: TreeGit

    def __enter__(self) -> Self:
        self._lock = os.open(f"{self._path}.held", os.O_RDWR | os.O_CREAT | AT_ONCE | NO_LINK)
        try:
            from fcntl import LOCK_EX, flock
        except ImportError:  # on Windows, agents do not work in parallel
            return self
        flock(self._lock, LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def set_to(self, tree: str, head: str, task: object) -> None:
        """Check out a tree, on the commit `head`, with the ignored files that it needs.

        Copied files, and files that the setup made, are restored if a command has changed them.
        Other ignored files remain while the `task` is the same and `protect` matches none of them.
        Raises `TreeError`, and the errors of `run`.
        """
        try:
            self._open(head)
            self._set(tree, head, task)
        except (OSError, TreeError):  # a command may have left anything
            self.git = TreeGit(
                add_worktree(self._common, self._path, head), self._settings, self._variables
            )
            write_git_file(self.git.repository)
            self._set(tree, head, task)

    def changed(self) -> list[str]:
        """Return the files of the tree that a command has written or removed, from the top.

        A file counts even if its content was restored, because its change time differs.
        """
        return moved(self._stamps, stamps(self._path, self._stamps))

    def _open(self, head: str) -> None:
        trees = [tree for tree in linked_trees(self._common) if tree.top == self._path]
        if trees and os.path.isdir(self._path):
            tree = trees[0]
        else:
            tree = add_worktree(self._common, self._path, head)
        write_git_file(tree)
        self.git = TreeGit(tree, self._settings, self._variables)
        for name in (f"{INDEX}.lock", "index.lock", "HEAD.lock"):
            discard(os.path.join(tree.git_dir, name))

    def _set(self, tree: str, head: str, task: object) -> None:
        from shutil import copy2

        git_dir, state = self.git.repository.git_dir, self._state()
        self._index = state.get("index", "")
        setup, globs = self._rules["setup"], self._rules["copy"]
        tracked = self._reset(tree)
        others = self._others(tracked)
        made: dict[str, str] = state["made"]
        copied: dict[str, list[str]] = state["copied"]
        mark = setup_mark(self.place, setup, self._rules["setup_when"]) if setup else ""
        is_damaged = any(others.get(path) != stamp for path, stamp in made.items())
        runs = bool(setup) and (mark != state["setup"] or is_damaged)
        planted = self._has_protected({*others} - {*copied, *made})
        if runs or planted or state["task"] != task:
            kept = {*copied} if is_damaged else {*copied, *made}
            self._remove([path for path in others if path not in kept])
        replace_file(os.path.join(git_dir, STATE), b"{}")  # a kill from here on starts over
        copied = self._copy(globs, copied, tracked)
        if runs:
            for command in setup:
                self._run(command, self.place)
            tracked = self._reset(tree)
        if runs or copied != state["copied"]:
            time.sleep(TICK)
        others = self._others(tracked)
        before = {path: stamps[1] for path, stamps in copied.items()}
        if runs:
            made = {path: stamp for path, stamp in others.items() if before.get(path) != stamp}
        copied = {path: [one[0], others.get(path, "")] for path, one in copied.items()}
        for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "rebase-merge", "rebase-apply"):
            discard(os.path.join(git_dir, name))
        copy2(self.git.index, os.path.join(git_dir, "index"))
        with open(os.path.join(git_dir, "HEAD"), "w", encoding="ascii") as file:
            file.write(f"{head}\n")
        made = made if setup else {}
        state = {"task": task, "setup": mark, "made": made, "copied": copied, "index": self._index}
        replace_file(os.path.join(git_dir, STATE), json.dumps(state).encode())
        names = tracked.difference(_submodules(self.git, self.git.index))
        self._stamps = settled_stamps(self._path, sorted(names))

    def _has_protected(self, paths: Iterable[str]) -> bool:
        """Return whether `protect` matches one of the paths from the top."""
        patterns = [pattern_of(glob, self.place) for glob in self._rules["protect"]]
        start = f"{self._inner}/" if self._inner else ""
        own = (path.removeprefix(start) for path in paths if path.startswith(start))
        return any(one.match(path) for path in own for one in patterns)

    def _state(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"task": None, "setup": None, "made": {}, "copied": {}}
        try:
            with open(os.path.join(self.git.repository.git_dir, STATE), "rb") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return empty
        return {**empty, **found}

    def _reset(self, tree: str) -> set[str]:
        """Set tracked files to the tree, remove untracked ones, and return the tracked paths."""
        top = self._path
        for nested in nested_repositories(top, _submodules(self.git, self.git.index)):
            discard(os.path.join(top, nested, MARK))
        is_ours = _stamp(self.git.index) == self._index
        self.git.say("read-tree", "--reset", "-u", tree)
        if not is_ours:  # it may hide changed files: only their content counts
            discard(self.git.index)
            self.git.say("read-tree", tree)
            self.git.say("update-index", "-q", "--really-refresh", codes=1)
            self.git.say("read-tree", "--reset", "-u", tree)
        self._index = _stamp(self.git.index)
        self.git.say("clean", "--quiet", "-ffd")
        return {*self.git.names("ls-files")}

    def _others(self, tracked: set[str]) -> dict[str, str]:
        """Return a stamp for each file that the tree does not have, by path from the top.

        Raises `OSError` for a directory that cannot be listed, where a command may hide any file.
        """
        found = {}
        for folder, folders, files in walk(self._path):
            at = os.path.relpath(folder, self._path)
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*files, *links):
                path = name if at == "." else f"{at}/{name}"
                if path not in tracked and path != MARK:
                    found[path] = _stamp(os.path.join(folder, name))
        return found

    def _remove(self, paths: Iterable[str]) -> None:
        folders = set()
        for path in paths:
            os.unlink(os.path.join(self._path, path))
            folders.add(os.path.dirname(path))
        for folder in sorted(folders, key=len, reverse=True):
            try:
                os.removedirs(os.path.join(self._path, folder))
            except OSError:  # it holds more
                continue

    def _copy(
        self, globs: Sequence[str], copied: Mapping[str, Sequence[str]], tracked: set[str]
    ) -> dict[str, list[str]]:
        """Copy files of the project that are new or differ; return the stamps of both by path."""
        found = {}
        for path in matching_files(self._source, globs):
            name = f"{self._inner}/{path}" if self._inner else path
            if name in tracked:
                continue
            source, target = os.path.join(self._source, path), os.path.join(self._path, name)
            stamps = [_stamp(source), _stamp(target)]
            if not stamps[1] or [*copied.get(name, ())] != stamps:
                # Make the directories above a path; a link or a file in the way is removed.
                at = self._path
                for part in name.split("/")[:-1]:
                    at = os.path.join(at, part)
                    if os.path.islink(at) or not os.path.isdir(at):
                        discard(at)
                        os.mkdir(at)
                discard(target)
                copy_file(source, target)
                stamps[1] = _stamp(target)
            found[name] = stamps
        self._remove(name for name in {*copied} - {*found} - tracked if self._is_there(name))
        return found

    def _is_there(self, name: str) -> bool:
        return _is_file(os.path.join(self._path, name))


def copy_file(source: str, target: str) -> None:
    """Copy a file or a link to a new path, with shared blocks if the file system can."""
    from shutil import copy2, copystat

    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    try:
        from fcntl import ioctl

        with open(source, "rb") as old, open(target, "xb") as new:
            ioctl(new, _CLONE, old.fileno())
        copystat(source, target)
    except (ImportError, OSError):
        discard(target)
        copy2(source, target, follow_symlinks=False)


def _submodules(git: TreeGit, index: str) -> list[str]:
    entries = (entry.partition("\t") for entry in git.names("ls-files", "--stage", index=index))
    return [path for facts, _, path in entries if facts.startswith(GITLINK)]


def _is_file(path: str) -> bool:
    return os.path.islink(path) or os.path.isfile(path)


def _stamp(path: str) -> str:
    """Return a value that changes with a file, even if its size and time are restored."""
    try:
        facts = os.lstat(path)
    except OSError:
        return ""
    return f"{facts.st_ctime_ns} {facts.st_ino} {facts.st_size} {facts.st_mode:o}"
