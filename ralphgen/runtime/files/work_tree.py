"""Tells the content of a work tree by one digest, and which of its files differ between two looks.

git only lists the files: it runs no filter and writes nothing, and what an agent can tell it of a
file (`update-index --assume-unchanged`, an `exclude` beside the repository) does not count. Path,
mode and bytes are read here.
"""

from __future__ import annotations

import os
import re
import stat

from ..values.encoding import sha256, sha256_hex
from . import AT_ONCE, NO_LINK
from .main_tree import tree_top
from .protection import PROTECTED, RALPH, pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# What is never part of a tree, tracked or not: it changes while work is done and recorded.
OWN_FOLDERS = ("backups", "db", "mcp/sessions", "sessions", "worktrees")
OWN_FILES = ("learnings.txt", "mcp/context.json", "progress.txt")
SPEC_FILES = frozenset({".progress.md", ".ralph-state.json", ".current-spec"})
TICKED = "tasks.md"
UNPROTECTED = ("mcp/.commit", "mcp/.lock", "mcp/.new", "mcp/context.json", "mcp/sessions")
SETTINGS = ("core.fsmonitor=false", "core.untrackedCache=false", "safe.directory=*")
GIT = ("git", *(word for one in SETTINGS for word in ("-c", one)), "ls-files", "-z")
SECONDS = 60  # for git to list the files
CHUNK = 1 << 20
_TICK = rb"(?m)^(\s*[-*+] \[)[xX]\]"


def tree_files(root: str) -> dict[str, str]:
    """Return what stands for each file of the work tree in `root`, by its path, sorted.

    The files are those that git tracks and those that no `.gitignore` of the tree leaves out, in
    nested repositories too; without git or outside of a repository they are all. A link is told by
    its target. Database, state files and sessions are no part of it.
    """
    found: dict[str, str] = {}
    for path in sorted({*_listed(root, "")}):
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


def protected_files(root: str, globs: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """Return what stands for each file that no session may change, by path.

    `files` are those of the tree. A glob that begins with a folder's name finds what git ignores in
    there as well. The project's own server, settings, recipes, prompts and tools are always such.
    """
    patterns = [pattern_of(glob) for glob in globs]
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


def _is_own(path: str) -> bool:
    """Return whether a path is of what ralphgen and specum write while work is done."""
    folder, _, rest = path.partition("/")
    if folder == RALPH and (rest in OWN_FILES or _is_below(rest, OWN_FOLDERS)):
        return True
    return path.rpartition("/")[2] in SPEC_FILES


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _listed(root: str, below: str) -> Iterator[str]:
    """Yield the files of a work tree, or of a nested one `below` its root, by path from the root.

    An entry that is a folder is a nested repository, which has ignore rules of its own.
    """
    folder = os.path.join(root, below) if below else root
    top = folder if below else tree_top(root)
    names = None if top is None else _git_files(folder, top)
    if names is None:
        yield from _below(root, below)
        return
    for name in names:
        path = f"{below}/{name.rstrip('/')}" if below else name.rstrip("/")
        if _is_own(path):
            continue
        if name.endswith("/") or _is_folder(os.path.join(root, path)):
            yield from _listed(root, path)
        else:
            yield path


def _git_files(folder: str, top: str) -> set[str] | None:
    """Return the files in a folder of the work tree `top`; None where git does not say.

    Those that are not ignored are found with an empty index and an empty repository of ours, so
    that no setting of the tree's own has a say; those that are tracked are added from its index,
    since a tracked file is never ignored.
    """
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ralphgen-") as empty:
        for name in ("objects", "refs"):
            os.mkdir(os.path.join(empty, name))
        with open(os.path.join(empty, "HEAD"), "w", encoding="ascii") as head:
            head.write("ref: refs/heads/none\n")
        own = {"GIT_DIR": empty, "GIT_INDEX_FILE": os.path.join(empty, "index")}
        untracked = _run_git(folder, top, own, "--others", "--exclude-per-directory=.gitignore")
    tracked = _run_git(folder, top, {}, "--cached")
    return None if untracked is None or tracked is None else untracked | tracked


def _run_git(folder: str, top: str, own: Mapping[str, str], *options: str) -> set[str] | None:
    """Return the paths, relative to the folder, that `git ls-files` lists; None where it fails."""
    import subprocess

    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settled = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_WORK_TREE": top}
    try:
        done = subprocess.run(
            [*GIT, *options],
            cwd=folder,
            env={**kept, **settled, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def _beginning(glob: str) -> str:
    """Return the folders that a glob begins with, as far as they are plain names."""
    parts = glob.strip("/").split("/")
    plain = next((at for at, part in enumerate(parts) if re.search(r"[*?]", part)), len(parts))
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
