"""Finds, by the files of git, the main work tree of a repository from any of its linked ones."""

from __future__ import annotations

import os
import re

MARK = ".git"  # a folder in a main work tree, a file in a linked one
PROJECT = ".ralph"  # the folder that makes one a project
LARGEST = 1 << 16  # bytes of a file of git that is read here
_BARE = rb"(?im)^\s*bare\s*=\s*(true|yes|on|1)\s*$"


def main_root(root: str) -> str:
    """Return the folder of the project in `root` in the repository's main work tree.

    It is `root` itself where that lies in no linked work tree, or there is no project in the main
    one.
    """
    place = counterpart(root)
    return root if place is None or not os.path.isdir(os.path.join(place, PROJECT)) else place


def counterpart(folder: str) -> str | None:
    """Return the same folder in the main work tree, be it there or not; None in no linked one.

    For those of a bare repository the repository itself stands in place of the main work tree.
    """
    real = os.path.realpath(folder)
    top = tree_top(real)
    common = None if top is None else common_folder(top)
    if top is None or common is None:
        return None
    main = os.path.dirname(common) if os.path.basename(common) == MARK else common
    return os.path.normpath(os.path.join(main, os.path.relpath(real, top)))


def tree_top(folder: str) -> str | None:
    """Return the nearest folder, this one or one around it, that is the top of a work tree."""
    at = folder
    while not os.path.lexists(os.path.join(at, MARK)):
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above
    return at


def common_folder(top: str) -> str | None:
    """Return the folder of the repository that a linked work tree belongs to, by its top.

    None for a main work tree, for a submodule, and where the repository does not know of this tree:
    an archive may bring a `.git` file along that names any repository of this user.
    """
    mark = os.path.join(top, MARK)
    try:
        if os.path.islink(mark) or not os.path.isfile(mark):
            return None
        linked = os.path.realpath(os.path.join(top, _line(mark).removeprefix("gitdir:").strip()))
        common = os.path.realpath(os.path.join(linked, _line(os.path.join(linked, "commondir"))))
        known = os.path.realpath(os.path.join(linked, _line(os.path.join(linked, "gitdir"))))
    except (OSError, ValueError):
        return None
    is_ours = known == mark and os.path.dirname(linked) == os.path.join(common, "worktrees")
    return common if is_ours else None


def is_of_bare(folder: str) -> bool:
    """Return whether a folder lies in a work tree of a repository that has no main one."""
    top = tree_top(os.path.realpath(folder))
    common = None if top is None else common_folder(top)
    if common is None:
        return False
    try:
        with open(os.path.join(common, "config"), "rb") as file:
            return re.search(_BARE, file.read(LARGEST)) is not None
    except OSError:
        return os.path.basename(common) != MARK


def _line(path: str) -> str:
    with open(path, "rb") as file:
        return os.fsdecode(file.read(LARGEST)).strip()
