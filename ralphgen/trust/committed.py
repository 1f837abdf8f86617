"""What commits hold of a file, and so a pull may have brought."""

import os
from collections.abc import Sequence
from pathlib import Path

from ralphgen.project.git import ask_git, read_files_of_git, work_tree_around

CONVERTING = ("ident", "working-tree-encoding")  # attributes by which git changes a file
REVISIONS = (b"HEAD", b"MERGE_HEAD")  # the second while a merge waits for its commit


def committed_texts(path: Path) -> tuple[bytes, ...] | None:
    """Return the file as the commits of its repository have it that the work tree comes from.

    Empty where none has it, and for a file in no repository; None where nobody can say, such as
    without a git. Links are followed first: git knows their targets.
    """
    try:
        place = path.resolve()
    except (OSError, RuntimeError):
        return None
    top = work_tree_around(place)
    if top is None:
        return ()
    inside = os.fsencode(place.relative_to(top))
    texts = read_files_of_git(top, [revision + b":" + inside for revision in REVISIONS])
    return None if texts is None else tuple(text for text in texts if text is not None)


def checked_out_texts(path: Path, *, filtered: bool) -> tuple[bytes, ...] | None:
    """Return what `committed_texts` does, and each as a work tree has it whose lines end in CRLF.

    None also where attributes of git may have other bytes checked out than were committed; where
    they name a filter, only if the file may be `filtered`.
    """
    texts = committed_texts(path)
    if not texts:
        return texts
    if _is_converted(path, (*CONVERTING, "filter") if filtered else CONVERTING):
        return None
    ends = [text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") for text in texts]
    return (*texts, *ends)


def _is_converted(path: Path, attributes: Sequence[str]) -> bool:
    """Return whether a committed file has one of these attributes of git, or nobody can say."""
    place = path.resolve()
    top = work_tree_around(place)
    if top is None:
        return False
    inside = os.fspath(place.relative_to(top))
    answer = ask_git(top, ["check-attr", "-z", *attributes, "--", inside])
    if answer is None:
        return True
    values = answer.split(b"\0")[2::3]  # of path, attribute and value
    return any(value not in {b"unspecified", b"unset"} for value in values)


def in_repository(root: Path) -> bool:
    """Return whether the folder is in a repository of git."""
    return work_tree_around(root.resolve() / ".git") is not None
