"""How the files of a session's work tree differ by now, as git says; text alone, and not all."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralphgen.board.stored_text import line
from ralphgen.project.git import ask_git, begin_of_git
from ralphgen.runtime.files import AT_ONCE, NO_LINK
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.files.main_tree import home_of, repository_of

MOST = 200_000  # bytes of a diff
FILES = 100  # that are shown, and as many new ones
NEW = 20_000  # bytes of a new file
PLAIN = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
    *("--submodule=short", "--ignore-submodules=dirty"),  # git would start filters in them
)
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BEGIN = re.compile(r"^diff --git ", re.MULTILINE)
HUNK = re.compile(r"^@@", re.MULTILINE)
GONE = "its worktree has moved on to other work, or no longer exists"
NO_GIT = "git has no record of its files"


@dataclass(frozen=True, slots=True)
class FileDifference:
    """How a file differs; `added` and `removed` count lines of what is shown."""

    path: str
    text: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class TreeDiff:
    """How a work tree differs from `base`, the begin of a commit; `problem` says why none shows.

    `cut` says that there is more than is shown.
    """

    base: str
    files: tuple[FileDifference, ...]
    cut: bool
    problem: str = ""


def tree_diff(root: Path, tree: str | None, base: str | None) -> TreeDiff:
    """Return how a session's work tree differs by now from what it was at the commit `base`.

    `tree` is on record, None for the project's own folder; nothing is asked of a folder that is no
    linked work tree of the project's repository. Without a base it is the last commit.
    """
    place = root if tree is None else Path(tree)
    if tree is not None and home_of(tree) != home_of(str(root)):
        return TreeDiff("", (), cut=False, problem=GONE)
    repository = repository_of(str(place))
    if repository is None:
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    top = Path(repository.top)
    since = base if base is not None and COMMIT.fullmatch(base) else "HEAD"
    commit = (ask_git(top, ["rev-parse", "--verify", since]) or b"").decode().strip()
    text = begin_of_git(top, ["diff", *PLAIN, commit, "--"], MOST) if commit else None
    if text is None:
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    listed = begin_of_git(top, ["ls-files", "-z", "--others", "--exclude-standard"], MOST)
    new = [os.fsdecode(name) for name in (listed or b"").split(b"\0")[:-1]]  # the last may be cut
    changed = [*_files(text.decode(errors="replace"))]
    made = [_new_file(top, name) for name in new[:FILES]]
    cut = len(text) >= MOST or len(changed) > FILES or len(new) > FILES
    return TreeDiff(since[:10], (*changed[:FILES], *made), cut=cut)


def merge_diff(root: Path, merged: str) -> TreeDiff:
    """Return what the commit that merged a session's work has changed in the base branch."""
    repository = repository_of(str(root))
    if repository is None or not COMMIT.fullmatch(merged):
        return TreeDiff("", (), cut=False, problem=NO_GIT)
    top = Path(repository.top)
    text = begin_of_git(top, ["diff", *PLAIN, f"{merged}^1", merged, "--"], MOST)
    if text is None:
        return TreeDiff("", (), cut=False, problem=f"git has no commit {merged[:10]}")
    changed = [*_files(text.decode(errors="replace"))]
    cut = len(text) >= MOST or len(changed) > FILES
    return TreeDiff(f"{merged[:10]}^", tuple(changed[:FILES]), cut=cut)


def _files(text: str) -> Iterator[FileDifference]:
    """Yield the parts of a diff, each of one file."""
    for part in BEGIN.split(text)[1:]:
        head, _, rest = part.partition("\n")
        hunk = HUNK.search(rest)
        yield _file_diff(head.rpartition(" b/")[2] or head, rest[hunk.start() :] if hunk else rest)


def _new_file(top: Path, name: str) -> FileDifference:
    """Return a file that git does not track as a diff in which all is new; no link is followed."""
    try:
        file = os.open(top / name, os.O_RDONLY | AT_ONCE | NO_LINK)
        try:
            data = os.read(file, NEW)
        finally:
            os.close(file)
    except OSError:
        return FileDifference(line(name), "a new file that cannot be read", 0, 0)
    if b"\0" in data:
        return FileDifference(line(name), "a new binary file", 0, 0)
    lines = data.decode(errors="replace").splitlines()
    more = "\n…" if len(data) == NEW else ""
    return _file_diff(name, "\n".join(f"+{one}" for one in lines) + more)


def _file_diff(name: str, body: str) -> FileDifference:
    lines = without_controls(body).rstrip("\n").split("\n")
    added, removed = (sum(one[:1] == sign for one in lines) for sign in "+-")
    return FileDifference(line(name.strip('"')), "\n".join(lines), added, removed)
