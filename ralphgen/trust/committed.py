"""What git has of a file, and so something else than the user's hand may have brought."""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ralphgen.project.git import ask_git, read_files_of_git, work_tree_around
from ralphgen.runtime.files.main_tree import PROJECT

CONVERTING = ("ident", "working-tree-encoding", "filter")  # attributes that change a file
HASHES = ("sha1", "sha256")  # by which a repository may name its objects
# What a merge, a pick or a fetch leaves behind besides refs.
HALF_DONE = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "FETCH_HEAD")
_SPECIAL, _ESCAPED = re.compile(r"([\\*?\[\]])"), r"\\\1"  # in a glob of git
_OBJECT = re.compile(rb"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")


def has_objects_of(path: Path, content: bytes, *, is_parsed: bool = False) -> bool:
    """Return whether the repository around a file has an object of this content, or cannot tell.

    Whatever a merge, a pick, a stash, a restore or an unpacked index brings, git has as an object;
    a file that the user edits, git has once it is staged. A file that git converts counts as known,
    unless it `is_parsed` and its parts are compared as well.
    """
    top = _top(path)
    if top is None:
        return False
    if top == Path() or (not is_parsed and _is_converted(top, path)):
        return True
    texts = {content, content.replace(b"\r\n", b"\n")}
    names = [_name(text, algorithm) for text in texts for algorithm in HASHES]
    answer = ask_git(top, ["cat-file", "--batch-check"], b"".join(name + b"\n" for name in names))
    if answer is None:
        return True
    return any(line.split(b" ")[1:2] == [b"blob"] for line in answer.splitlines())


def known_texts(path: Path) -> list[bytes] | None:
    """Return every version of a file that a ref, a reflog or an unfinished merge leads to.

    The project may be in another folder there. Empty outside of a repository; None if git cannot
    tell.
    """
    top = _top(path)
    if top is None:
        return []
    if top == Path():
        return None
    inside = os.fspath(path.resolve().relative_to(top))
    walk = ["log", "--ignore-missing", "--all", "--reflog", *HALF_DONE]
    shown = ["--full-history", "-m", "--root", "--raw", "--no-abbrev", "--format=", "--no-renames"]
    _, below, rest = f"/{inside}".partition(f"/{PROJECT}/")
    anywhere = f":(glob)**/{PROJECT}/{_SPECIAL.sub(_ESCAPED, rest)}"
    names = [f":(literal){inside}", *([anywhere] if below else [])]
    answer = ask_git(top, [*walk, *shown, "--", *names])
    if answer is None:
        return None
    objects = [*dict.fromkeys(_OBJECT.findall(answer)), b"HEAD:" + os.fsencode(inside)]
    texts = read_files_of_git(top, objects)
    return None if texts is None else [text for text in texts if text is not None]


def committed_texts(path: Path) -> tuple[bytes, ...] | None:
    """Return the file as `HEAD` has it; empty if it does not, None if git cannot tell."""
    top = _top(path)
    if top is None:
        return ()
    if top == Path():
        return None
    inside = os.fsencode(path.resolve().relative_to(top))
    texts = read_files_of_git(top, [b"HEAD:" + inside])
    return None if texts is None else tuple(text for text in texts if text is not None)


def has_outward_link(root: Path, path: Path) -> bool:
    """Return whether git has a link on the way to a file that leads out of the project in `root`.

    A link to another place in its own work tree does not count.
    """
    real = Path(os.path.realpath(path))
    home = Path(os.path.realpath(root))
    for link in () if real.is_relative_to(home) else (path, *path.parents):
        if link.is_symlink():
            place = link.parent / ".git"
            top = _top(place)
            is_inner = top is not None and real.is_relative_to(top) and not home.is_relative_to(top)
            target = os.fsencode(link.readlink())
            if not is_inner and has_objects_of(place, target, is_parsed=True):
                return True
    return False


def in_repository(root: Path) -> bool:
    """Return whether the folder is in a repository of git."""
    return work_tree_around(root.resolve() / ".git") is not None


def _top(path: Path) -> Path | None:
    """Return the top of the work tree around a file, None for no repository, "." if unknown."""
    try:
        return work_tree_around(path.resolve())
    except (OSError, RuntimeError):
        return Path()


def _name(content: bytes, algorithm: str) -> bytes:
    found = hashlib.new(algorithm, usedforsecurity=False)
    found.update(b"blob %d\0" % len(content))
    found.update(content)
    return found.hexdigest().encode()


def _is_converted(top: Path, path: Path, attributes: Sequence[str] = CONVERTING) -> bool:
    """Return whether git knows the file and changes its bytes on the way, or cannot tell."""
    inside = os.fspath(path.resolve().relative_to(top))
    answer = ask_git(top, ["check-attr", "-z", *attributes, "--", inside])
    if answer is None:
        return True
    values = answer.split(b"\0")[2::3]  # of path, attribute and value
    if all(value in {b"unspecified", b"unset"} for value in values):
        return False
    texts = known_texts(path)
    return texts is None or bool(texts)
