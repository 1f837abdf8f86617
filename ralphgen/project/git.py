"""Reads commits, the index and files with git; no setting of the repository counts."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ralphgen.runtime.files import read_file
from ralphgen.runtime.files.git import ATTRIBUTES, GitResult, listed_settings, run_git
from ralphgen.runtime.files.main_tree import LARGEST, repository_of, tree_top


def work_tree_around(place: Path) -> Path | None:
    """Return the top of the work tree around a resolved path, or None.

    A `.git` that names no repository counts: then nobody can tell which files are in commits.
    """
    tree = repository_of(str(place.parent))
    top = tree_top(str(place.parent)) if tree is None else tree.top
    return None if top is None else Path(top)


def ask_git(top: Path, arguments: Sequence[str], asked: bytes = b"") -> bytes | None:
    """Return the answer of git to `asked` in the work tree `top`; None without git or an answer."""
    done = _read(top, arguments, asked)
    return None if done is None or done.code else done.output


def branch_in(folder: Path) -> str:
    """Return the branch that is checked out around a folder, empty if none is."""
    found = ask_git(folder, ["symbolic-ref", "--quiet", "--short", "HEAD"]) or b""
    return os.fsdecode(found).rstrip("\n")


def begin_of_git(top: Path, arguments: Sequence[str], most: int) -> bytes | None:
    """Return the first bytes of the answer of git, as `ask_git` does.

    The user's own settings count here, such as ignored files and filters.
    """
    tree = repository_of(str(top))
    try:
        done = None if tree is None else run_git(tree, arguments, settings=(), most=most)
    except OSError:
        return None
    return None if done is None or done.code else done.output


def settings_of(top: Path) -> list[tuple[str, str]]:
    """Return the settings in the config of the repository of a work tree, and in its includes.

    Its file of attributes is one of them. None of them counts in any run of git by this.
    """
    tree = repository_of(str(top))
    if tree is None:
        return []
    file = Path(tree.common, "config")
    done = _read(top, ["config", "--file", str(file), "--includes", "--list", "-z"])
    found = [] if done is None or done.code else listed_settings(done.output)
    with suppress(OSError):
        lines, _ = read_file(str(Path(tree.common, ATTRIBUTES)), LARGEST)
        found += [(ATTRIBUTES, os.fsdecode(lines))] if lines.strip() else []
    return found


def _read(top: Path, arguments: Sequence[str], asked: bytes = b"") -> GitResult | None:
    tree = repository_of(str(top))
    try:
        done = None if tree is None else run_git(tree, arguments, given=asked)
    except OSError:
        return None
    return None if done is None or done.code is None else done


def read_files_of_git(top: Path, names: Sequence[bytes]) -> list[bytes | None] | None:
    """Return the files of these names, such as `HEAD:a/b`, each None where it is not there.

    None where nobody can say: without git, or for a name with a line end.
    """
    if any(b"\n" in name for name in names):
        return None
    answer = ask_git(top, ["cat-file", "--batch"], b"".join(name + b"\n" for name in names))
    if answer is None:
        return None
    found: list[bytes | None] = []
    for _ in names:  # `ID blob SIZE`, then the bytes and a line end; or a line that names none
        head, _, answer = answer.partition(b"\n")
        *_, kind, size = [b"", b"", *head.rsplit(b" ", 2)]
        found.append(answer[: int(size)] if kind == b"blob" and size.isdigit() else None)
        answer = answer[int(size) + 1 :] if size.isdigit() else answer
    return found
