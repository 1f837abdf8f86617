"""Tells the content of a work tree by one digest, and which of its files differ between two looks.

git only lists the files: it runs no filter and writes nothing, and what an agent can tell it of a
file (`update-index --assume-unchanged`, an `exclude` beside the repository) does not count. Path,
mode and bytes are read here. The files of a repository within the tree count as ordinary files.
"""

from __future__ import annotations

import os
import re
import stat

from ..values.encoding import sha256, sha256_hex
from . import AT_ONCE, NO_LINK
from .git import run_git
from .main_tree import opened_tree, repository_of
from .protection import PROTECTED, RALPH, is_of_git, pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from .main_tree import Repository

# What is never part of a tree, tracked or not: it changes while work is done and recorded.
OWN_FOLDERS = ("backups", "db", "mcp/sessions", "sessions", "worktrees")
OWN_FILES = ("learnings.txt", "mcp/context.json", "progress.txt")
SPEC_FILES = frozenset({".progress.md", ".ralph-state.json", ".current-spec"})
TICKED = "tasks.md"
UNPROTECTED = ("mcp/.commit", "mcp/.lock", "mcp/.new", "mcp/context.json", "mcp/sessions")
WRITTEN = f"{RALPH}/mcp/sessions/written-files.json"  # untracked files of the last checks
SUCCESSES = (0, 1)  # the second of `check-ignore` if nothing is ignored
GITLINK = "160000"  # the mode of a submodule in an index and in a tree of git
CHUNK = 1 << 20
_TICK = rb"(?m)^(\s*[-*+] \[)[xX]\]"


def tree_files(root: str) -> dict[str, str]:
    """Return what stands for each file of the work tree in `root`, by its path, sorted.

    The files are those that git tracks and those that no `.gitignore` of the tree leaves out, in
    nested repositories too; without git or outside of a repository they are all. A link is told by
    its target. Database, state files and sessions are no part of it.
    """
    found: dict[str, str] = {}
    for path in sorted({*_listed(root)}):
        mark = "" if _is_own(path) else mark_of(os.path.join(root, path))
        if mark:
            found[path] = mark
    return found


def tree_digest(files: Mapping[str, str]) -> str:
    """Return one sha256, in hex, over files as `tree_files` returns them."""
    return sha256_hex("".join(f"{files[path]} {path}\0" for path in sorted(files)).encode(*_NAMES))


def changed_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the files of `before` that differ in `after` or are gone, sorted."""
    return sorted(path for path, mark in before.items() if after.get(path) != mark)


def differing_files(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the files that differ, are gone or are new, sorted."""
    both = {*before, *after}
    return sorted(path for path in both if before.get(path) != after.get(path))


def untracked_files(root: str, paths: Iterable[str]) -> list[str]:
    """Return those of the paths that git neither tracks nor ignores, sorted; none without git."""
    tree = repository_of(root)
    tracked = None if tree is None else _tracked(tree, root)
    others = None if tree is None or tracked is None else _untracked(tree, root)
    if not others or tracked is None:
        return []
    return sorted({*paths} & (others - {path for _, path in tracked}))


def ignoring_lines(paths: Iterable[str], files: Iterable[str]) -> list[str]:
    """Return the lines of `.gitignore` that ignore these paths and none of the other files.

    A folder without any of the other files is ignored as a whole.
    """
    names = {*paths}
    kept = {folder for path in {*files} - names for folder in _folders(path)}
    lines = set()
    for path in names:
        folder = next((folder for folder in _folders(path) if folder not in kept), None)
        shown = re.sub(r"([\\*?\[\]])", r"\\\1", path if folder is None else folder)
        shown = re.sub(r" $", r"\\ ", shown).replace("\n", "?")
        lines.add(f"/{shown}" if folder is None else f"/{shown}/")
    return sorted(lines)


def protected_files(root: str, globs: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """Return what stands for each file that no session may change, by path.

    `files` are those of the tree. A glob that begins with a folder's name finds what git ignores in
    there as well. The project's own server, settings, recipes, prompts and tools are always such.
    """
    patterns = [pattern_of(glob, root) for glob in globs]
    names = {path for path in files if any(pattern.match(path) for pattern in patterns)}
    for glob, pattern in zip(globs, patterns, strict=True):
        beginning = _beginning(glob)
        if beginning:
            names.update(path for path in _below(root, beginning) if pattern.match(path))
    for name in PROTECTED:
        names.update(
            path
            for path in _below(root, f"{RALPH}/{name}")
            if not _is_below(path.removeprefix(f"{RALPH}/"), UNPROTECTED)
            and "__pycache__" not in path.split("/")
        )
    marks = {path: mark_of(os.path.join(root, path)) for path in sorted(names)}
    return {path: mark for path, mark in marks.items() if mark}


def protected_elsewhere(work_tree: str, tops: Sequence[str]) -> dict[str, str]:
    """Return what stands for the files of ralphgen in other worktrees, by absolute path.

    These are settings and generated files in `tops`, without those in `work_tree`.
    """
    here = os.path.realpath(work_tree)
    others = dict.fromkeys(os.path.realpath(top) for top in tops)
    return {
        os.path.join(top, path): mark
        for top in others
        if top != here
        for path, mark in protected_files(top, (), {}).items()
    }


def watched_files(
    globs: Sequence[str], commands: Iterable[Sequence[str]], files: Mapping[str, str]
) -> dict[str, str]:
    """Return those of the tree's files that a glob matches, or that a word of a command names."""
    patterns = [pattern_of(glob) for glob in globs]
    named = {os.path.normpath(word) for command in commands for word in command}
    return {
        path: mark
        for path, mark in files.items()
        if path in named or any(pattern.match(path) for pattern in patterns)
    }


def mark_of(path: str) -> str:
    """Return what stands for a file: its kind and the digest of its bytes, empty where none is.

    Of an executable it says so; a link is told by its target, and never followed. What cannot be
    read is told as such. Ticks of a `tasks.md` do not count.
    """
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return f"link {sha256_hex(os.fsencode(os.readlink(path)))}"
        if not stat.S_ISREG(found.st_mode):
            return ""
        kind = "program" if found.st_mode & stat.S_IXUSR else "file"
        return f"{kind} {_digest(path)}"
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"unreadable {error.errno}"


_NAMES = ("utf-8", "surrogateescape")


def _digest(path: str) -> str:
    """Return the digest of the bytes of a regular file."""
    file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    try:
        if os.path.basename(path) == TICKED:
            with open(file, "rb", closefd=False) as stream:
                return sha256_hex(re.sub(_TICK, rb"\1 ]", stream.read()))
        digest = sha256()
        while data := os.read(file, CHUNK):
            digest.update(data)
        return digest.hexdigest()
    finally:
        os.close(file)


def _folders(path: str) -> list[str]:
    """Return the folders above a path, the topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


def _is_own(path: str) -> bool:
    """Return whether a path is of what ralphgen and specum write while work is done."""
    folder, _, rest = path.partition("/")
    if folder == RALPH and (rest in OWN_FILES or _is_below(rest, OWN_FOLDERS)):
        return True
    return path.rpartition("/")[2] in SPEC_FILES


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def submodules(root: str) -> list[str]:
    """Return the folders below `root` that the index has as submodules, by path from there."""
    tree = repository_of(root)
    return [] if tree is None else _submodules(_tracked(tree, root) or ())


def nested_repositories(root: str, expected: Iterable[str]) -> list[str]:
    """Return the repositories within a work tree that git does not ignore, but for the expected.

    `expected` are the submodules of the commit that the work began with.
    """
    tree = repository_of(root)
    if tree is None:
        return []
    entries = _untracked(tree, root) or set()
    folders = {*filter(None, map(_repository_in, entries))}
    folders |= {*_submodules(_tracked(tree, root) or ())}
    found = sorted(path for path in folders - {*expected} if not _is_own(path))
    if not found:
        return []
    asked = b"".join(os.fsencode(path) + b"\0" for path in found)
    words = ("check-ignore", "-z", "--stdin", "--no-index")
    ignored = _names(tree, words, folder=root, settings=(), given=asked) or ()
    return [path for path in found if path not in ignored]


def _repository_in(name: str) -> str:
    """Return the repository that a name listed by git means, empty if it means none.

    git marks a repository by a slash at the end. If its `.git` is spelled in another way, git lists
    its files and cannot add them: then the path of that directory is returned.
    """
    parts = name.split("/")
    ends = (at for at, part in enumerate(parts, 1) if is_of_git(part))
    end = next(ends, None) if is_of_git(name) else None
    if end is not None:
        return "/".join(parts[:end])
    return name.rstrip("/") if name.endswith("/") else ""


def _listed(root: str) -> Iterator[str]:
    """Yield the files of a work tree, by path from `root`."""
    tree = repository_of(root)
    untracked = None if tree is None else _untracked(tree, root)
    tracked = None if tree is None else _tracked(tree, root)
    if untracked is None or tracked is None:
        yield from _below(root, "")
        return
    for name in untracked | {path for _, path in tracked}:
        path = name.rstrip("/")
        if _is_own(path):
            continue
        if name.endswith("/") or _is_folder(os.path.join(root, path)):
            yield from _nested(root, path)
        else:
            yield path


def _nested(root: str, below: str) -> Iterator[str]:
    """Yield the files of a nested repository, by path from `root`: it has its own ignore rules.

    Without a readable index nothing tells which ignored files it tracks, and all count.
    """
    folder = os.path.join(root, below)
    tree = opened_tree(folder)
    untracked = None if tree is None else _untracked(tree, folder)
    tracked = None if tree is None else _tracked(tree, folder)
    if untracked is None or tracked is None:
        yield from _below(root, below)
        return
    for name in untracked | {path for _, path in tracked}:
        path = f"{below}/{name.rstrip('/')}"
        if name.endswith("/") or _is_folder(os.path.join(root, path)):
            yield from _nested(root, path)
        else:
            yield path


def _untracked(tree: Repository, folder: str) -> set[str] | None:
    """Return the files in a folder that no `.gitignore` of its tree leaves out, or None.

    git has an empty index for this, so it lists tracked files too. The name of a nested repository
    ends with a slash.
    """
    words = ("ls-files", "-z", "--others", "--exclude-per-directory=.gitignore")
    return _names(tree, words, folder=folder, hidden=("index", "info"))


def _tracked(tree: Repository, folder: str) -> list[tuple[str, str]] | None:
    """Return the mode and path of each entry of the index in a folder, or None.

    An ignored file counts if it is tracked.
    """
    entries = _names(tree, ("ls-files", "-z", "--stage"), folder=folder)
    if entries is None:
        return None
    parted = [entry.partition("\t") for entry in entries]
    return [(facts.partition(" ")[0], path) for facts, _, path in parted]


def _submodules(entries: Iterable[tuple[str, str]]) -> list[str]:
    return sorted(path for mode, path in entries if mode == GITLINK)


def _names(tree: Repository, words: Sequence[str], **options: Any) -> set[str] | None:
    """Return the names that git prints, which end with NUL; None if it fails."""
    try:
        done = run_git(tree, words, **options)
    except OSError:
        return None
    if done.code is None or done.code not in SUCCESSES:
        return None
    return {os.fsdecode(name) for name in done.output.split(b"\0") if name}


def _beginning(glob: str) -> str:
    """Return the folders that a glob begins with, as far as they are plain names."""
    parts = glob.strip("/").split("/")
    plain = next((at for at, part in enumerate(parts) if re.search(r"[*?[]", part)), len(parts))
    return "/".join(parts[:plain])


def _below(root: str, folder: str) -> Iterator[str]:
    """Yield the path of each file in a folder, or that of the file itself; no link is followed."""
    path = os.path.join(root, folder)
    if not _is_folder(path):
        if os.path.lexists(path):
            yield folder
        return
    for place, folders, files in os.walk(path):
        at = os.path.relpath(place, root)
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = sorted({*folders} - {*links, ".git"})
        for name in (*files, *links):
            yield name if at == "." else f"{at}/{name}"


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
