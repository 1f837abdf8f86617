"""Changed files of a merge, a branch or a worktree; "macros/diff.html.jinja" prints them."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralphgen.board.text import MORE, line
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files import read_file
from ralphgen.runtime.files.git import ATTRIBUTES, run_git
from ralphgen.runtime.files.main_tree import home_of, repository_of

LONGEST, LARGEST_NEW = 200_000, 20_000  # bytes of a diff that are parsed, and of a new file
LINES, LINE = 8_000, 500  # lines of all files together, and characters of one
FILES, NAMES = 100, 200  # files with their lines, and further ones by name
DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty"),
)
# Overrides attributes in the tree: an agent could hide its changes by calling a file binary.
EACH_FILE = ((ATTRIBUTES, "* !diff\n"),)
VERIFY = ("--verify", "--quiet", "--end-of-options")
COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BEGIN = re.compile(r"^diff --git ", re.MULTILINE)
FACT = re.compile(
    r"^((?:new|deleted) file mode|(?:old|new) mode|rename (?:from|to)|Binary) (.*)", re.MULTILINE
)
TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__)/|(?:^|/)test_[^/]*\.py$|_test\.[^/]*$|\.(?:spec|test)\.[^/]*$"
)
ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)")
ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
MODES = {"100755": ", executable", "120000": ", symbolic link", "160000": ", submodule"}
KINDS = {"+": "a", "-": "d", "@": "h", "\\": "h"}
NO_GIT = "git has no record of its files"
GONE = "its worktree has moved on to other work, or no longer exists"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of a diff; `note` is a change besides its lines, such as `new` or `binary`.

    `name` is as in git, `path` for people. `lines` are kinds and texts: `h` is a head, `a` an added
    line and `d` a removed one. Numbers are None for binary files. `test` is set if it is or was a
    test file, and `cut` if lines are left out.
    """

    name: bytes
    path: str
    note: str
    added: int | None
    removed: int | None
    test: bool
    lines: tuple[tuple[str, str], ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The changed files since `base`, a short commit id; `problem` is why there are none.

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

    `tree` is None for the project's own folder. Another folder is read only if it is a linked
    worktree of the same repository.
    """
    if tree is not None and home_of(tree) != home_of(str(root)):
        return FileChanges("", problem=GONE)
    place = root if tree is None else Path(tree)
    since = base if base is not None and COMMIT.fullmatch(base) else "HEAD"
    commit = _commit(place, "rev-parse", *VERIFY, f"{since}^{{commit}}")
    return _changes(place, [commit] if commit else [], commit[:10], with_new=True)


def _changes(
    place: Path, commits: Sequence[str], base: str, *, with_new: bool = False
) -> FileChanges:
    data = _git(place, [*DIFF, *commits, "--"]) if commits else None
    if data is None:
        return FileChanges("", problem=NO_GIT)
    found, listed = [*_parsed(data.decode("utf-8", "surrogateescape"))], []
    if len(data) == LONGEST and found:
        listed = [*_numbers(_git(place, [*DIFF, "--numstat", "-z", *commits, "--"]) or b"")]
        last = found.pop()
        known = next((one for one in listed if one.name == last.name), last)
        found.append(replace(last, added=known.added, removed=known.removed, cut=True))
    if with_new:
        found += _new_files(place, LONGEST - len(data))
    files, room = [], LINES
    for one in found[:FILES]:
        files.append(replace(one, lines=one.lines[:room], cut=one.cut or len(one.lines) > room))
        room -= len(files[-1].lines)
    rest = {one.name: replace(one, lines=()) for one in (*listed, *found[FILES:])}
    for one in files:
        rest.pop(one.name, None)
    more = tuple(rest.values())
    return FileChanges(base, tuple(files), more[:NAMES], len(more[NAMES:]))


def _git(place: Path, words: Sequence[str]) -> bytes | None:
    """Return the beginning of git's answer in the repository around a folder, None without one."""
    repository = repository_of(str(place))
    try:
        if repository is None:
            return None
        done = run_git(repository, words, settings=EACH_FILE, most=LONGEST)
    except (OSError, ValueError):  # no git, or a NUL in a name
        return None
    return None if done.code else done.output


def _commit(place: Path, *words: str) -> str:
    """Return the commit that git names; empty if there is none."""
    found = (_git(place, words) or b"").decode("ascii", "replace").strip()
    return found if COMMIT.fullmatch(found) else ""


def _parsed(text: str) -> Iterator[ChangedFile]:
    """Yield the files of a diff by their names in git; a last line without an end is left out."""
    for part in BEGIN.split(text)[1:]:
        head, hunk, body = part.partition("\n@@")
        facts = dict(FACT.findall(head))
        first = head.partition("\n")[0]  # `a/NAME b/NAME`, unless the file is renamed
        names = [_name(first[: len(first) // 2])[2:]]
        if "rename to" in facts:
            names = [_name(facts["rename from"]), _name(facts["rename to"])]
        notes = {
            "new file mode": "new" + MODES.get(facts.get("new file mode", ""), ""),
            "deleted file mode": "deleted",
            "rename from": f"renamed from {_path(names[0])}",
            "new mode": f"mode {facts.get('old mode')} to {facts.get('new mode')}",
            "Binary": "binary",
        }
        note = ", ".join(words for fact, words in notes.items() if fact in facts)
        lines = _lines(f"@@{body}".split("\n")[:-1] if hunk else [])
        numbers = [sum(kind == sign for kind, _ in lines) for sign in "ad"]
        yield _file(names, note, (None, None) if "Binary" in facts else numbers, lines)


def _numbers(listed: bytes) -> Iterator[ChangedFile]:
    """Yield the files of `git diff --numstat -z`; a last one without an end is left out."""
    fields = iter(listed.split(b"\0")[:-1])
    for field in fields:
        added, removed, name = field.split(b"\t", 2)  # or no name, and two behind it
        names = [name] if name else [next(fields, b""), next(fields, b"")]
        yield _file(names, "", [int(one) if one.isdigit() else None for one in (added, removed)])


def _new_files(place: Path, room: int) -> Iterator[ChangedFile]:
    """Yield the untracked files of a worktree; of all together, `room` bytes are read."""
    listed = _git(place, ["ls-files", "-z", "--others", "--exclude-standard"]) or b""
    repository = repository_of(str(place))
    top = place if repository is None else Path(repository.top)
    for name in listed.split(b"\0")[:-1]:
        path = top / os.fsdecode(name)
        try:
            data, size = read_file(str(path), max(min(room, LARGEST_NEW), 0), links=False)
        except OSError:
            yield _file([name], "new, not a readable file", (None, None))  # such as a link
            continue
        room -= len(data)
        is_binary, is_cut = b"\0" in data, size > len(data)
        texts = data.decode("utf-8", "surrogateescape").removesuffix("\n").split("\n")
        lines = _lines(f"+{one}" for one in texts) if data and not is_binary else ()
        numbers = (None, None) if is_binary else (None if is_cut else len(lines), 0)
        found = _file([name], "new, binary" if is_binary else "new", numbers, lines)
        yield replace(found, cut=is_cut)


def _file(
    names: Sequence[bytes],
    note: str,
    numbers: Sequence[int | None],
    lines: tuple[tuple[str, str], ...] = (),
) -> ChangedFile:
    (added, removed), paths = numbers, [*map(_path, names)]
    is_test = any(map(TEST.search, paths))
    return ChangedFile(names[-1], paths[-1], note, added, removed, is_test, lines)


def _lines(lines: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return lines with their kinds, long ones cut.

    Invisible characters are escaped: they could show code in another order than it runs in.
    """
    cut = (f"{one[:LINE]}{MORE if len(one) > LINE else ''}" for one in lines)
    return tuple((KINDS.get(one[:1], ""), "\t".join(map(one_line, one.split("\t")))) for one in cut)


def _path(name: bytes) -> str:
    return line(name.decode("utf-8", "surrogateescape"), 2 * LINE)


def _name(text: str) -> bytes:
    """Return the bytes of a name in a diff; git quotes special characters."""
    raw = text.encode("utf-8", "surrogateescape")
    return ESCAPE.sub(_character, raw[1:-1]) if raw.startswith(b'"') else raw


def _character(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) if code[1:] else ESCAPED.get(code[0], code[0])])
