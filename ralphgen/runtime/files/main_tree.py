"""Finds the repository of a folder, and the main work tree of a linked one, by the files of git."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = ".git"  # a folder in a main work tree, a file in a linked one
PROJECT = ".ralph"  # the folder that makes one a project
TREES = f"{os.sep}{PROJECT}{os.sep}worktrees{os.sep}"  # where agents have work trees
LARGEST = 1 << 16  # bytes of a file of git that is read here
_BARE = rb"(?im)^\s*bare\s*=\s*(true|yes|on|1)\s*$"


class Repository:
    """One work tree, by real paths.

    `top` is the top directory of the tree, `git_dir` holds its index and `HEAD`, and `common` is
    shared by all work trees of the repository.
    """

    __slots__ = ("common", "git_dir", "top")

    def __init__(self, top: str, git_dir: str, common: str) -> None:
        self.top = top
        self.git_dir = git_dir
        self.common = common


def repository_of(folder: str) -> Repository | None:
    """Return the repository that a folder belongs to, or None.

    An agent can write everything in its work tree in `.ralph/worktrees`, including `.git`. For
    such a folder, the main repository alone says which tree it is.
    """
    real = os.path.realpath(folder)
    main, is_agents, rest = (real + os.sep).partition(TREES)
    name = rest.partition(os.sep)[0]
    if is_agents and name:
        around = repository_of(main)
        return None if around is None else linked_tree(around.common, main + TREES + name)
    top = tree_top(real)
    return None if top is None else opened_tree(top)


def linked_tree(common: str, top: str) -> Repository | None:
    """Return the linked work tree at `top` as its repository has it on record, or None."""
    return next((tree for tree in linked_trees(common) if tree.top == top), None)


def linked_trees(common: str) -> Iterator[Repository]:
    """Yield the linked work trees that a repository has on record; their folders may be gone."""
    folder = os.path.join(common, "worktrees")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        git_dir = os.path.join(folder, name)
        try:
            mark = os.path.join(git_dir, _line(os.path.join(git_dir, "gitdir")))
        except (OSError, ValueError):
            continue
        yield Repository(os.path.realpath(os.path.dirname(mark)), git_dir, common)


def main_root(root: str) -> str:
    """Return the folder of the project in `root` in the repository's main work tree.

    It is `root` itself where that lies in no linked work tree, or there is no project in the main
    one.
    """
    place = counterpart(root)
    return root if place is None or not os.path.isdir(os.path.join(place, PROJECT)) else place


def counterpart(folder: str) -> str | None:
    """Return the same folder in the main work tree, be it there or not; None in no linked one.

    For an agent's work tree, the main one is the tree around it. For other work trees of a bare
    repository, the repository itself stands in for the main one.
    """
    real = os.path.realpath(folder)
    tree = repository_of(real)
    if tree is None or tree.git_dir == tree.common:
        return None
    return os.path.normpath(os.path.join(main_top(tree), os.path.relpath(real, tree.top)))


def main_top(tree: Repository) -> str:
    """Return the top of the main work tree of any work tree."""
    around, is_agents, _ = tree.top.partition(TREES)
    if is_agents:
        main = repository_of(around)
        return around if main is None else main.top
    if tree.git_dir == tree.common:
        return tree.top
    return os.path.dirname(tree.common) if _is_beside_main(tree) else tree.common


def is_of_bare(folder: str) -> bool:
    """Return whether a folder lies in a work tree of a repository that has no main one."""
    tree = repository_of(folder)
    if tree is None or tree.git_dir == tree.common:
        return False
    try:
        with open(os.path.join(tree.common, "config"), "rb") as file:
            return re.search(_BARE, file.read(LARGEST)) is not None
    except OSError:
        return not _is_beside_main(tree)


def _is_beside_main(tree: Repository) -> bool:
    return os.path.basename(tree.common) == MARK


def tree_top(folder: str) -> str | None:
    """Return the nearest folder, this one or one around it, that has a `.git`."""
    at = folder
    while not os.path.lexists(os.path.join(at, MARK)):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def opened_tree(top: str) -> Repository | None:
    """Return the repository that the `.git` of a work tree names.

    None if that repository has another tree on record: an archive may contain a `.git` file that
    names any repository of the user.
    """
    mark = os.path.join(top, MARK)
    try:
        git_dir = mark
        if os.path.isfile(mark):
            if os.path.islink(mark):
                return None
            git_dir = os.path.join(top, _line(mark).removeprefix("gitdir:").strip())
        git_dir = os.path.realpath(git_dir)
        shared = os.path.join(git_dir, "commondir")
        if not os.path.lexists(shared):
            return Repository(top, git_dir, git_dir)
        common = os.path.realpath(os.path.join(git_dir, _line(shared)))
    except (OSError, ValueError):
        return None
    tree = linked_tree(common, top)
    return tree if tree is not None and tree.git_dir == git_dir else None


def _line(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read(LARGEST)).strip()
