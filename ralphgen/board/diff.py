"""Changed files of a merge, a branch or a worktree; "macros/diff.html.jinja" prints them."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

from ralphgen.board.text import MORE, line
from ralphgen.errors import RalphgenError
from ralphgen.loop.git import Git
from ralphgen.project.git import branch_in
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import read_file
from ralphgen.runtime.files.git import ATTRIBUTES, run_git
from ralphgen.runtime.files.main_tree import home_of, repository_of

LONGEST, LARGEST_NEW = 200_000, 20_000  # bytes of a diff that are parsed, and of a new file
LONGEST_CONFLICT = 30_000  # bytes of a diff with conflicts
LINES, LINE = 8_000, 500  # lines of all files together, and characters of one
FILES, NAMES = 100, 200  # files with their lines, and further ones by name
DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty"),
    *("--raw", "--numstat", "--patch", "-z"),
)
MERGES = (
    *("log", "--no-walk=unsorted", "--ignore-missing", "--diff-merges=first-parent"),
    *("--raw", "--numstat", "--no-renames", "-z", "--format=%H", "--stdin"),
)
CONFLICTS = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "HEAD")
# Overrides attributes in the tree: an agent could hide its changes by calling a file binary.
EACH_FILE = ((ATTRIBUTES, "* !diff\n"),)
VERIFY = ("--verify", "--quiet", "--end-of-options")
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BEGIN = re.compile(rb"^diff --git ", re.MULTILINE)
TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__)/|(?:^|/)test_[^/]*\.py$|_test\.[^/]*$|\.(?:spec|test)\.[^/]*$"
)
MODES = {"100755": ", executable", "120000": ", symbolic link", "160000": ", submodule"}
KINDS = {"+": "a", "-": "d", "@": "h", "\\": "h"}
NO_GIT = "git has no record of its files"
GONE = "its worktree has moved on to other work, or no longer exists"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a diff; `note` is a change besides its lines, such as `new` or `binary`.

    `status` is its letter in git. `lines` are texts with kinds: `h`ead, `a`dded or `d`eleted.
    Unknown numbers are None. `test` is set for a test file, and `cut` if lines are left out.
    """

    path: str
    status: str
    note: str = ""
    added: int | None = None
    removed: int | None = None
    test: bool = False
    lines: tuple[tuple[str, str], ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changed files since a commit, or why there are none.

    `more` are files without their lines, and `unnamed` is the least number of other ones.
    """

    base: str
    files: tuple[ChangedFile, ...] = ()
    more: tuple[ChangedFile, ...] = ()
    unnamed: int = 0
    problem: str = ""


def merge_diff(root: Path, commit: str) -> FileChanges:
    """Return the changes that a merge commit brought into its first parent."""
    known = bool(COMMIT.fullmatch(commit))
    return _changes(root, [f"{commit}^1", commit] if known else [], f"{commit[:10]}^")


def branch_diff(root: Path, branch: str) -> FileChanges:
    """Return the changes on a branch since it left the checked-out commit of the project."""
    tip = _commit(root, "rev-parse", *VERIFY, f"refs/heads/{branch}")
    base = tip and _commit(root, "merge-base", "HEAD", tip)
    return _changes(root, [base, tip] if base else [], base[:10])


def tree_diff(root: Path, tree: str | None, base: str | None) -> FileChanges:
    """Return the changes in a worktree since a commit (default: the last), and its new files.

    `tree` is None for the project's folder, or must be a worktree of the same repository.
    """
    if tree is not None and home_of(tree) != home_of(str(root)):
        return FileChanges("", problem=GONE)
    place = root if tree is None else Path(tree)
    since = base if base is not None and COMMIT.fullmatch(base) else "HEAD"
    commit = _commit(place, "rev-parse", *VERIFY, f"{since}^{{commit}}")
    return _changes(place, [commit] if commit else [], commit[:10], with_new=True)


def conflict_diff(root: Path, branch: str) -> FileChanges:
    """Return the files in which a branch conflicts with the checked-out one, as git merges them."""
    with suppress(RalphgenError):
        git = Git(root)
        ended = git.run_quietly(*CONFLICTS, f"refs/heads/{branch}")
        tree, *names = filter(None, ended.output.split("\0")) or [""]
        if ended.code == 1 and names:
            paths = [f":(top,literal){name}" for name in names]
            base = branch_in(git.folder) or "HEAD"
            return _changes(root, ["HEAD", tree], base, paths, most=LONGEST_CONFLICT)
    return FileChanges("")


@lru_cache(maxsize=8)
def merged_files(root: Path, commits: tuple[str, ...]) -> Mapping[str, Sequence[ChangedFile]]:
    """Return the files of known merges without their lines, in one look at git."""
    given = "\n".join(commits).encode()
    listed = _git(root, MERGES, most=None, given=given) if commits else None
    return _files_by_commit((listed or b"").split(b"\0")[:-1])


def _changes(
    place: Path,
    commits: Sequence[str],
    base: str,
    paths: Sequence[str] = (),
    *,
    most: int = LONGEST,
    with_new: bool = False,
) -> FileChanges:
    words = [*DIFF, *commits, "--", *paths]
    data = _git(place, words, most=LONGEST + most) if commits else None
    if data is None:
        return FileChanges("", problem=NO_GIT)
    listing, is_whole, patch = data.partition(b"\0\0")
    fields = listing.split(b"\0")
    listed = _files_by_commit(fields if is_whole else fields[:-1]).get("", [])
    found = [*_with_lines(listed, patch[:most])]
    rest = listed[len(found) :]
    if with_new:
        found += _new_files(place, LONGEST - len(data))
    files, room = list[ChangedFile](), LINES
    for one in found[:FILES]:
        lines = one.lines[:room]
        number = sum(kind in {"a", "d"} for kind, _ in lines)
        is_cut = one.cut or number < (one.added or 0) + (one.removed or 0)
        files.append(replace(one, lines=lines, cut=is_cut))
        room -= len(lines)
    more = [*(replace(one, lines=()) for one in found[FILES:]), *rest]
    return FileChanges(base, tuple(files), tuple(more[:NAMES]), len(more[NAMES:]))


def _git(
    place: Path, words: Sequence[str], *, most: int | None = LONGEST, given: bytes = b""
) -> bytes | None:
    """Return the beginning of git's answer in the repository around a folder, None without one."""
    repository = repository_of(str(place))
    try:
        if repository is None:
            return None
        done = run_git(repository, words, settings=EACH_FILE, given=given, most=most)
    except (OSError, ValueError):  # no git, or a NUL in a name
        return None
    return None if done.code else done.output


def _commit(place: Path, *words: str) -> str:
    """Return the commit that git names; empty if there is none."""
    found = (_git(place, words) or b"").decode("ascii", "replace").strip()
    return found if COMMIT.fullmatch(found) else ""


def _files_by_commit(listing: Iterable[bytes]) -> dict[str, list[ChangedFile]]:
    """Return the files in fields of `--raw --numstat -z` by commit, "" without one."""
    fields, commit = iter(listing), ""
    found: dict[str, dict[bytes, ChangedFile]] = {}
    for field in fields:
        text = field.decode("utf-8", "surrogateescape").strip("\n")
        commit = text if COMMIT.fullmatch(text) else commit
        files = found.setdefault(commit, {})
        if text.startswith(":"):
            old, new, _, _, status = text[1:].split(" ")
            names = [*islice(fields, 2 if status[0] in "RC" else 1)]
            paths = [*map(_path, names)]
            note = {"A": f"new{MODES.get(new, '')}", "D": "deleted"}.get(status[0], "")
            if not note:
                facts = [f"renamed from {one}" for one in paths[:-1]]
                note = ", ".join(facts + [f"mode {old} to {new}"] * (old != new))
            is_test = any(map(TEST.search, paths))
            files |= {
                name: ChangedFile(paths[-1], status[0], note, test=is_test) for name in names[-1:]
            }
        elif "\t" in text:
            added, removed, _ = text.split("\t", 2)
            name = field.split(b"\t", 2)[2] or [*islice(fields, 2), b"", b""][1]
            file = files.get(name)
            if file and added == "-":
                files[name] = replace(file, note=f"{file.note}, binary".removeprefix(", "))
            elif file:
                files[name] = replace(file, added=int(added), removed=int(removed))
    return {commit: [*files.values()] for commit, files in found.items()}


def _with_lines(files: Iterable[ChangedFile], patch: bytes) -> Iterator[ChangedFile]:
    """Yield the files with their lines in a patch; a last line without an end is left out."""
    parts = iter(BEGIN.split(patch)[1:])
    for file in files:
        own = [*islice(parts, 2 if file.status == "T" else 1)]
        if not own:
            return
        hunks = (part.partition(b"\n@@") for part in own)
        text = b"".join(b"@@" + body for _, mark, body in hunks if mark)
        yield replace(file, lines=_lines(_text(text).split("\n")[:-1]))


def _new_files(place: Path, room: int) -> Iterator[ChangedFile]:
    """Yield the untracked files of a worktree; of all together, `room` bytes are read."""
    listed = _git(place, ["ls-files", "-z", "--others", "--exclude-standard"]) or b""
    repository = repository_of(str(place))
    top = place if repository is None else Path(repository.top)
    for name in listed.split(b"\0")[:-1]:
        path = _path(name)
        file = ChangedFile(path, "A", "new", test=bool(TEST.search(path)))
        try:
            most = max(min(room, LARGEST_NEW), 0)
            data, size = read_file(str(top / os.fsdecode(name)), most, links=False)
        except OSError:
            yield replace(file, note="new, not a readable file")  # such as a link
            continue
        room -= len(data)
        if b"\0" in data:
            yield replace(file, note="new, binary")
            continue
        texts = _text(data).removesuffix("\n").split("\n") if data else []
        is_cut = size > len(data)
        added, removed = (None, None) if is_cut else (len(texts), 0)
        lines = _lines(f"+{one}" for one in texts)
        yield replace(file, added=added, removed=removed, lines=lines, cut=is_cut)


def _lines(lines: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return lines with their kinds; invisible characters, which could hide code, are escaped."""
    cut = (f"{one[:LINE]}{MORE if len(one) > LINE else ''}" for one in lines)
    return tuple((KINDS.get(one[:1], ""), "\t".join(map(one_line, one.split("\t")))) for one in cut)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _path(name: bytes) -> str:
    return line(_text(name), 2 * LINE)
