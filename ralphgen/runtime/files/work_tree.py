"""Digests the content of a work tree, and names the files that differ between two states.

git only lists the files: it runs no filter and writes nothing. Settings that an agent can make for
a file (`update-index --assume-unchanged`, the repository's own `exclude`) do not count. Path, mode
and bytes are read here. The files of a repository within the tree count as ordinary files.

A session keeps the rules of its start (`Rules`): an ignore rule that an agent adds hides nothing
from its own session.
"""

from __future__ import annotations

import os
import re
import stat
import time

from ..encoding import sha256, sha256_hex
from . import AT_ONCE, NO_LINK, read_file
from .git import run_git
from .main_tree import (
    MARK,
    PROTECTED,
    RALPH,
    Repository,
    is_of_git,
    linked_trees,
    opened_tree,
    pattern_of,
    repository_of,
    tree_top,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from typing import Any

    Rules = Mapping[str, Any]
    """What counts in a session, as `session_rules` returns it."""
    Stamp = tuple[int, ...]

# The files below `.ralph` that ralphgen writes while work is done, each with the form that it has.
# Only these are never part of a tree, and only in this form: a check could run code from any other.
_SESSION = r"mcp/sessions/(?P<session>[A-Za-z0-9_-]+-\d{8}T\d{6}Z-[0-9a-f]{4,})(?:\.new)?"
_LOOP = r"mcp/sessions/loop-\d{8}T\d{6}Z-[0-9a-f]{4}"
_WORD = rb"[\w./-]{0,199}\n?"
_JSON, _ENTRIES, _TEXT = "json", "entries", "text"  # JSON, lines of JSON, text of ralphgen
_OWN: Sequence[tuple[re.Pattern[str], bytes | str]] = [
    (re.compile(path), form)
    for path, form in (
        (r"worktrees/(?:\d+(?:-[a-z]+)?|merge|fetch)\.(?:held|lock)|mcp/\.lock", rb""),
        (rf"{_SESSION}/(?:dry-run|lock)", rb""),
        (rf"{_SESSION}/launched", rb"\d+\n[a-z\n]{0,99}"),
        (rf"{_SESSION}/client|trust/mark", _WORD),
        (rf"{_LOOP}\.asks(?:\.[0-9a-f]{{8}})?", rb"[a-z\n-]*"),
        (r"sessions/\.settings", rb"[\w .:/-]*(?:\n[\w .:/-]*)*"),
        (r"backups/ralph-\d{8}T\d{6}Z(?:-\d{1,3})?\.db", rb"(?s:SQLite format 3\0.*)"),
        (r"mcp/context\.json|mcp/sessions/written-files\.json", _JSON),
        (rf"{_SESSION}/(?:context|mcp|snapshot)\.json", _JSON),
        (rf"last-export\.jsonl|{_LOOP}\.jsonl|{_SESSION}/calls\.jsonl", _ENTRIES),
        (r"learnings\.txt|progress\.txt", _TEXT),
        (rf"{_SESSION}/(?:transcript\.jsonl|(?:system|prompt)\.md)", _TEXT),
        # Files that Gemini CLI keeps in its home.
        (rf"{_SESSION}/gemini/\.gemini/(?:.+/)?[^/]+\.(?:jsonl?|md|toml)", _TEXT),
        (rf"{_SESSION}/gemini/\.gemini/(?:installation_id|user_id|.+/shell_history)", _TEXT),
    )
]
_DATABASE = {  # the form of a database of SQLite, by the end of its name
    "": rb"(?s:(?:SQLite format 3\0.*)?)",
    "-wal": rb"(?s:(?:\x37\x7f\x06[\x82\x83].*)?)",
    "-shm": rb"(?s:(?:(?:\0{4}|\x18\xe2-\0|\0-\xe2\x18).*)?)",
    "-journal": rb"(?s:(?:(?:\xd9\xd5\x05\xf9\x20\xa1\x63\xd7|\0{8}).*)?)",
}
_descriptors: dict[str, int] = {}  # of a database's files that were read, by path
_UNFINISHED = re.compile(r"\.ralph/(?:.*/)?\.[^/]+\.\d+-[0-9a-f]{8}\.tmp")  # before it has its name
_MAPPED = re.compile(rb"(?m)^\S+ ...s \S+ ([0-9a-f]+):([0-9a-f]+) ([1-9]\d*)")  # shared
_USERS = re.compile(rb"(?m)^Uid:\s+(\d+)\s+(\d+)")  # of a process
RULES = ".gitignore"
# Files of specum, and their forms.
POINTER, STATES = ".current-spec", {".progress.md": _TEXT, ".ralph-state.json": _JSON}
TICKED = "tasks.md"
SPECS = "specs"
UNPROTECTED = ("mcp/.commit", "mcp/.lock", "mcp/.new", "mcp/context.json", "mcp/sessions")
WRITTEN = f"{RALPH}/mcp/sessions/written-files.json"  # untracked files of the last checks
SUCCESSES = (0, 1)  # the second of `check-ignore` if nothing is ignored
UNREADABLE = "unreadable"  # begins the mark of a file that cannot be read
ANY = "*"  # a name for any file in a directory
GITLINK = "160000"  # the mode of a submodule in an index and in a tree of git
CHUNK = 1 << 20
SECOND = 1_000_000_000
TRIES = 5
TICK = 50_000_000  # nanoseconds: more than a tick of the kernel's clock
LARGEST = 1 << 24  # bytes of a file with ignore rules
_TICK = rb"(?m)^(\s*[-*+] \[)[xX]\]"


def session_rules(
    root: str, home: str, specs: Iterable[str] = (), database: str | None = None
) -> dict[str, Any]:
    """Return the rules of a session that starts now in `root`, as JSON.

    `ignored` has the ignore rules by repository: the empty path stands for the one around `root`,
    any other is that of a repository within the tree. `forced` are tracked files that the rules
    ignore, `nested` the repositories that may be in the tree, `worktrees` the worktrees of agents.
    `top` is where the repository is. `specs` name specs besides the current one of the project in
    `home`, and `database` is its file of SQLite, empty if it has none.
    """
    tree = repository_of(root)
    rules: dict[str, Any] = {
        "top": _repository_around(root),
        "ignored": {},
        "forced": [],
        "nested": [],
        "worktrees": agents_trees(root),
        "specs": _own_specs(root, home, specs),
        "database": _database_of(root) if database is None else database,
    }
    if tree is None:
        return rules
    waiting = [("", tree)]
    for below, repository in waiting:
        folder = os.path.join(root, below) if below else root
        untracked, tracked = _untracked(repository, folder), _tracked(repository, folder)
        if untracked is None or tracked is None:
            continue
        place = os.path.relpath(folder, repository.top)
        rules["ignored"][below] = _ignore_rules(repository, folder, place, untracked)
        names = {path for _, path in tracked}
        own, others = _submodules(tracked), {*filter(None, map(_repository_in, untracked))}
        inner = others.union(own)
        if not below:  # a rule outside of the tree may ignore some
            rules["nested"] = sorted({*own, *_ignored_now(tree, root, sorted(others))})
        for path in sorted(inner):
            at = f"{below}/{path}" if below else path
            found = opened_tree(os.path.join(root, at))
            if found is not None:
                waiting.append((at, found))
        prefix = f"{below}/" if below else ""
        hidden = names - {name.rstrip("/") for name in untracked} - inner
        rules["forced"] += sorted(f"{prefix}{path}" for path in hidden)
    return rules


def tree_files(
    root: str, rules: Rules | None = None, protect: Sequence[str] = ()
) -> dict[str, str]:
    """Return a mark for the content of each file of the work tree in `root`, by its path, sorted.

    The files are the tracked ones and any other file that no `.gitignore` of the tree leaves out,
    in nested repositories too. Without git or outside of a repository, every file counts. With the
    `rules` of a session, its ignore rules count in place of the current ones. Every file below
    `.ralph` counts except ralphgen's own, and every file that a glob of `protect` matches. A link
    is marked by its target.
    """
    return file_marks(root, *counted_files(root, rules, protect))


def counted_files(
    root: str, rules: Rules | None = None, protect: Sequence[str] = ()
) -> tuple[list[str], frozenset[str]]:
    """Return the paths of a work tree that count, sorted, and those whose ticks do not count."""
    protected = {*_matching(root, protect, rules)}
    specs = _own_specs(root, root) if rules is None else rules["specs"]
    database = _database_of(root) if rules is None else rules["database"]
    forms: dict[str, bytes | str] = {}
    for spec in specs:
        forms |= {f"{spec}/{name}": form for name, form in STATES.items()}
        forms[f"{os.path.dirname(spec)}/{POINTER}"] = _WORD
    if database:
        forms |= {f"{database}{end}": form for end, form in _DATABASE.items()}
    for _ in range(TRIES):
        listed = {*_tree_files(root, rules)}
        if not any(map(_UNFINISHED.fullmatch, listed)):
            break
        time.sleep(TICK / SECOND)  # until it has its name; a leftover of a kill counts
    own = {path for path in forms if path in listed and _has_form(f"{root}/{path}", forms[path])}
    names = {path for path in listed - own if not _is_own(root, path, rules)}
    ticked = {f"{spec}/{TICKED}" for spec in specs} - protected
    return sorted(names | protected), frozenset(ticked)


def file_marks(root: str, names: Iterable[str], ticked: Collection[str]) -> dict[str, str]:
    """Return a mark for the content of each file by its path; ticks in `ticked` do not count."""
    marks = ((path, mark_of(os.path.join(root, path), ticks=path not in ticked)) for path in names)
    return {path: mark for path, mark in marks if mark}


def stamps(root: str, paths: Iterable[str]) -> dict[str, Stamp]:
    """Return stamps that change with any write to a file, or any move of a folder above, by path.

    A program can set the size and the times of a file, except its change time (ctime). Folders end
    with a slash. A missing file has no stamp.
    """
    found: dict[str, Stamp] = {}
    folders: set[str] = set()
    for path in paths:
        if path.endswith("/"):
            continue
        try:
            at = os.lstat(os.path.join(root, path))
        except OSError:
            continue
        found[path] = (at.st_dev, at.st_ino, at.st_ctime_ns)
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    above = os.path.realpath(root)
    around = [above]
    while os.path.dirname(above) != above:
        above = os.path.dirname(above)
        around.append(above)
    for name in (*folders, *around):
        try:
            at = os.lstat(os.path.join(root, name))
        except OSError:
            continue
        found[f"{name}/"] = (at.st_dev, at.st_ino, at.st_ctime_ns, at.st_mtime_ns)
    return found


def settled_stamps(root: str, paths: Sequence[str]) -> dict[str, Stamp]:
    """Return the stamps once a further write would change each of them.

    Two writes within one tick of the file system's clock leave the same time. A file that is
    written all the time is not waited for: its stamp changes anyway.
    """
    found: dict[str, Stamp] = {}
    for _ in range(TRIES):
        began = time.time_ns()
        found = stamps(root, paths)
        times = [stamp[2] for name, stamp in found.items() if not name.endswith("/")]
        newest = max(times, default=0)
        is_coarse = not any(moment % SECOND for moment in times)
        tick = 2 * SECOND if is_coarse else TICK
        if not began - tick < newest <= began + tick:  # a later one is of another clock
            break
        time.sleep(tick / SECOND)
    return found


def mapped_files(root: str, found: Mapping[str, Stamp]) -> list[str]:
    """Return the files that a process may change through its memory without a new change time.

    These are shared in its memory. If the map of a process of this user is unreadable, they are the
    files that any process has open for writing. Works only on Linux: its kernel sets the time when
    such memory is written for the first time.
    """
    places, has_secret = set(), False
    try:
        numbers = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for number in numbers:
        try:
            with open(f"/proc/{number}/maps", "rb") as file:
                places.update(_MAPPED.findall(file.read()))
        except PermissionError:
            has_secret = has_secret or _is_ours(number)
        except OSError:  # it has ended
            continue
    known = {
        (os.makedev(int(major, 16), int(minor, 16)), int(inode)) for major, minor, inode in places
    }
    return sorted(
        name
        for name, stamp in found.items()
        if stamp[:2] in known or (has_secret and _has_writer(os.path.join(root, name)))
    )


def _is_ours(process: str) -> bool:
    """Return whether a process is one of this user."""
    try:
        with open(f"/proc/{process}/status", "rb") as file:
            users = _USERS.search(file.read())
    except OSError:
        return False
    return users is not None and os.getuid() in map(int, users.groups())


def _has_writer(path: str) -> bool:
    """Return whether a process has a file open for writing; False if the file system cannot tell.

    The memory of a process keeps the file open.
    """
    from fcntl import F_RDLCK, F_SETLEASE, F_SETSIG, F_UNLCK, fcntl
    from signal import SIGURG

    try:
        file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return False
    try:
        fcntl(file, F_SETSIG, SIGURG)  # the default signal would end this process
        fcntl(file, F_SETLEASE, F_RDLCK)
        fcntl(file, F_SETLEASE, F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False


def moved(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> list[str]:
    """Return the files that were written, replaced or removed, and the folders that were moved.

    A new entry in a folder changes both of its times: that alone is not a move.
    """
    found = []
    for name, stamp in before.items():
        now = after.get(name, ())
        if now == stamp:
            continue
        if now[:2] == stamp[:2] and name.endswith("/"):
            is_renamed = now[2] != stamp[2] and (now[3] == stamp[3] or now[2] - now[3] > TICK)
            if not is_renamed:
                continue
        found.append(name)
    return sorted(found)


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


def untracked_files(root: str, paths: Iterable[str], rules: Rules | None = None) -> list[str]:
    """Return the given paths that git neither tracks nor ignores, sorted; none without git."""
    tree = repository_of(root)
    tracked = None if tree is None else _tracked(tree, root)
    ignored = None if rules is None else rules["ignored"].get("", "")
    others = None if tree is None or tracked is None else _untracked(tree, root, ignored)
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


def newly_ignored(root: str, paths: Iterable[str], rules: Rules) -> dict[str, str]:
    """Return the rule that ignores each path now, as file and pattern, if `rules` are older."""
    tree = repository_of(root)
    counted = set() if tree is None else _untracked(tree, root, rules["ignored"].get("", ""))
    names = sorted({*paths} & (counted or set()) - {*rules["forced"]})
    if tree is None or not names:
        return {}
    asked = b"".join(os.fsencode(path) + b"\0" for path in names)
    words = ("-c", f"core.excludesFile={os.devnull}", "check-ignore", "-v", "-z", "--stdin")
    try:
        done = run_git(tree, words, folder=root, hidden=("info",), given=asked)
    except OSError:
        return {}
    fields = [os.fsdecode(field) for field in done.output.split(b"\0")]
    found = zip(fields[0::4], fields[2::4], fields[3::4], strict=False)
    return {path: f"{file}: {pattern}" for file, pattern, path in found if pattern[:1] != "!"}


def protected_files(root: str, globs: Sequence[str], files: Mapping[str, str]) -> dict[str, str]:
    """Return the mark of each file that no session may change, by path.

    `files` are the files of the tree, including the files that the globs protect. The project's own
    server, settings, recipes, prompts and tools are always protected.
    """
    is_meant = _any_of(globs, root)
    found = {path: mark for path, mark in files.items() if is_meant(path)}
    for name in PROTECTED:
        for path in _below(root, f"{RALPH}/{name}"):
            inside = path.removeprefix(f"{RALPH}/")
            if not _is_below(inside, UNPROTECTED) and "__pycache__" not in path.split("/"):
                found[path] = files.get(path) or mark_of(os.path.join(root, path))
    return {path: found[path] for path in sorted(found) if found[path]}


def _any_of(globs: Sequence[str], root: str) -> Callable[[str], bool]:
    """Return a test of whether any of the globs matches a path."""
    patterns = [pattern_of(glob, root) for glob in globs]
    return lambda path: any(pattern.match(path) for pattern in patterns)


def _matching(root: str, globs: Sequence[str], rules: Rules | None) -> Iterator[str]:
    """Yield the paths that a glob matches, ignored or not, except worktrees of agents.

    Files that a session writes are never protected.
    """
    wanted: dict[str, list[str]] = {}
    for glob in globs:
        wanted.setdefault(_beginning(glob), []).append(glob)
    trees = _agent_worktrees(root, rules) if wanted else set()
    for beginning, fitting in wanted.items():
        is_meant = _any_of(fitting, root)
        for path in _below(root, beginning, every=True, without=trees):
            if is_meant(path) and not _is_own(root, path, rules):
                yield path


def protected_changes(
    root: str, before: Mapping[str, str], globs: Sequence[str]
) -> dict[str, list[str]]:
    """Return the marks before and now of each protected file that differs, by path.

    `before` are marks of the files that the `globs` and ralphgen protect.
    """
    now = protected_now(root, globs)
    return {
        path: [before.get(path, ""), now.get(path, "")] for path in differing_files(before, now)
    }


def protected_now(root: str, globs: Sequence[str]) -> dict[str, str]:
    """Return the mark of each protected file, as `protected_files`, ignored or not."""
    return protected_files(root, globs, file_marks(root, {*_matching(root, globs, None)}, ()))


def is_protected(root: str, path: str, globs: Sequence[str]) -> bool:
    """Return whether no session may change a path of the project in `root`."""
    own = [f"{RALPH}/{name}" for name in PROTECTED]
    return _is_below(path, own) or _any_of(globs, root)(path)


def protected_elsewhere(work_tree: str, tops: Sequence[str]) -> dict[str, str]:
    """Return the marks of the files of ralphgen in other worktrees, by absolute path.

    These are settings and generated files in `tops`, except in `work_tree`.
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
    """Return the tree's files that a glob matches or a word of a command names."""
    patterns = [pattern_of(glob) for glob in globs]
    named = {os.path.normpath(word) for command in commands for word in command}
    return {
        path: mark
        for path, mark in files.items()
        if path in named or any(pattern.match(path) for pattern in patterns)
    }


def mark_of(path: str, *, ticks: bool = True) -> str:
    """Return the mark of a file: its kind and the digest of its bytes, empty if there is no file.

    Executables, unreadable files and unreadable directories are marked as such. A link is marked by
    its target, and never followed. Ticked boxes count unless `ticks` is false.
    """
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return f"link {sha256_hex(os.fsencode(os.readlink(path)))}"
        if stat.S_ISDIR(found.st_mode) and not os.access(path, os.R_OK | os.X_OK):
            return UNREADABLE
        if not stat.S_ISREG(found.st_mode):
            return ""
        kind = "program" if found.st_mode & stat.S_IXUSR else "file"
        return f"{kind} {_digest(path, ticks=ticks)}"
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"{UNREADABLE} {error.errno}"


_NAMES = ("utf-8", "surrogateescape")


def _digest(path: str, *, ticks: bool) -> str:
    """Return the digest of the bytes of a regular file."""
    file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    try:
        if not ticks:
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


def _is_own(root: str, path: str, rules: Rules | None) -> bool:
    """Return whether a file has the path and form of ralphgen's own writes during work.

    Text is that of ralphgen in a session that the ledger has, if the `rules` name these sessions.
    """
    folder, _, rest = path.partition("/")
    if folder != RALPH:
        return False
    found = ((pattern.fullmatch(rest), form) for pattern, form in _OWN)
    match, form = next((one for one in found if one[0]), (None, ""))
    if match is None:
        return False
    if form == _TEXT:
        session, known = match.groupdict().get("session"), (rules or {}).get("sessions")
        if session is not None and known is not None and session not in known:
            return False
    return _has_form(os.path.join(root, path), form)


def _first_bytes(path: str) -> bytes:
    """Return the first bytes of a file, and keep it open while it has its name.

    To close a database or its index ends the locks of all connections of this process (POSIX).
    """
    if not hasattr(os, "pread"):
        with open(path, "rb") as file:
            return file.read(1 << 12)
    descriptor = _descriptors.get(path)
    if descriptor is None or not os.path.samestat(os.fstat(descriptor), os.stat(path)):
        if descriptor is not None:
            os.close(descriptor)
        descriptor = _descriptors[path] = os.open(path, os.O_RDONLY)
    return os.pread(descriptor, 1 << 12, 0)


def _has_form(path: str, form: bytes | str) -> bool:
    """Return whether a file is regular and has a form, or is not there."""
    import json

    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        if form == _TEXT:
            return True
        if isinstance(form, bytes):
            if form in _DATABASE.values():
                data = _first_bytes(path)
            else:
                size = 1 << 12 if b"(?s:" in form else -1  # the beginning decides
                with open(path, "rb") as file:
                    data = file.read(size)
            return re.fullmatch(form, data) is not None
        for left in reversed(range(2)):
            with open(path, "rb") as file:
                data = file.read()
            if form == _JSON or data[-1:] in (b"", b"\n") or not left:
                break
            time.sleep(TICK / SECOND)  # another process adds a line
        for text in [data] if form == _JSON else data.splitlines():
            json.loads(text)
    except FileNotFoundError:
        return True
    except (OSError, ValueError, RecursionError):
        return False
    return True


def _own_specs(root: str, home: str, names: Iterable[str] = ()) -> list[str]:
    """Return the folders of the current spec and of others in `root`; none if specum is off.

    The server in `home` has the settings.
    """
    import json

    try:
        with open(os.path.join(home, RALPH, "mcp", "project.json"), "rb") as file:
            config = json.load(file)["config"]
        around = os.path.join(config["settings"]["specum"]["root"], SPECS)  # there if it is on
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return []
    around = os.path.normpath(around)
    try:
        with open(os.path.join(root, around, POINTER), "rb") as file:
            current = file.read(1_000).decode("utf-8-sig", "replace").strip()
    except OSError:
        current = ""
    found = dict.fromkeys((current, *names))
    return [f"{around}/{name}" for name in found if re.fullmatch("[a-z0-9][a-z0-9-]{0,63}", name)]


def _database_of(root: str) -> str:
    """Return the file of the project's database by its path, as its settings name it."""
    usual = f"{RALPH}/db/ralph.db"
    try:
        import tomllib

        with open(os.path.join(root, RALPH, "ralphgen.toml"), "rb") as file:
            named: str = tomllib.load(file)["database"]["path"]
            return os.path.normpath(named)
    except (ImportError, OSError, ValueError, LookupError, TypeError, RecursionError):
        return usual


def agents_trees(root: str) -> list[str]:
    """Return the worktrees of agents that git has on record, by path from `.ralph/worktrees`."""
    tree = repository_of(root)
    inside = os.path.join(os.path.realpath(root), RALPH, "worktrees", "")
    found = [] if tree is None else [one.top for one in linked_trees(tree.common)]
    return sorted(os.path.relpath(top, inside[:-1]) for top in found if top.startswith(inside))


def _agent_worktrees(root: str, rules: Rules | None) -> set[str]:
    """Return the paths of the worktrees of agents, which do not belong to a tree."""
    found = agents_trees(root)
    known = found if rules is None else rules["worktrees"]
    return {f"{RALPH}/worktrees/{name}" for name in found if name in known}


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def submodules(root: str) -> list[str]:
    """Return the folders below `root` that the index has as submodules, by path from there."""
    tree = repository_of(root)
    return [] if tree is None else _submodules(_tracked(tree, root) or ())


def nested_repositories(
    root: str, expected: Iterable[str], rules: Rules | None = None
) -> list[str]:
    """Return the unexpected repositories within a work tree that git does not ignore.

    `expected` are the submodules of the commit that the work began with. With the `rules` of a
    session, its ignore rules count. A `.git` that takes the place of the session's repository is
    named by its path.
    """
    if rules is not None and _repository_around(root) != rules["top"]:
        return [os.path.relpath(os.path.join(tree_top(os.path.realpath(root)) or root, MARK), root)]
    tree = repository_of(root)
    if tree is None:
        return []
    ignored = None if rules is None else rules["ignored"].get("", "")
    folders = {*filter(None, map(_repository_in, _untracked(tree, root, ignored) or ()))}
    folders |= {*_submodules(_tracked(tree, root) or ())}
    kept = _agent_worktrees(root, rules)
    found = sorted(folders - {*expected} - kept)
    hidden = _ignored_now(tree, root, found) if rules is None else ()
    return [path for path in found if path not in hidden]


def unlisted_files(
    root: str, rules: Rules | None = None, files: Mapping[str, str] | None = None
) -> list[str]:
    """Return the files of a work tree whose content is unknown although a check could use them.

    These are pipes, sockets and devices, a `.git` that makes no repository for git, and directories
    that cannot be listed, which end with a slash. They do not count if the rules of the session, or
    the current ones without a session, ignore them. The `files` that count, with their marks, must
    be readable in any case.
    """
    unreadable = {path for path, mark in (files or {}).items() if mark.startswith(UNREADABLE)}
    trees, found, waiting = _agent_worktrees(root, rules), [], [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as entries:
                inside = [*entries]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            found.append(f"{folder}/")
            continue
        for entry in inside:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name == MARK:
                found += [path] * bool(folder)
            elif entry.is_dir(follow_symlinks=False):
                waiting += [path] * (path not in trees)
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                found.append(path)
    tree = repository_of(root) if found else None
    if tree is None or (rules is not None and _repository_around(root) != rules["top"]):
        return sorted(unreadable.union(found))
    ignored = None if rules is None else rules["ignored"].get("", "")
    inner = {*filter(None, map(_repository_in, _untracked(tree, root, ignored) or ()))}
    inner.update(() if rules is None else rules["ignored"])
    others = {*found} - {f"{folder}/{MARK}" for folder in inner}
    return sorted(unreadable | others - _ignored(tree, root, others, rules))


def _ignored(tree: Repository, root: str, paths: Iterable[str], rules: Rules | None) -> set[str]:
    """Return the paths that the rules ignore, whether git would list them or not.

    A directory, which ends with a slash, is ignored if every file in it is.
    """
    import tempfile

    start = os.path.relpath(os.path.realpath(root), tree.top)
    start = "" if start == os.curdir else f"{start}/"
    own = (path for path in paths if path.partition("/")[0] != RALPH)
    names = {f"{start}{path}{ANY if path.endswith('/') else ''}": path for path in own}
    given = b"".join(os.fsencode(f"{name}\0") for name in names)
    with tempfile.TemporaryDirectory(prefix="ralphgen-ignored-") as empty:
        file = os.path.join(empty, "rules") if rules is not None else os.devnull
        if rules is not None:  # no other rule may count
            tree = Repository(empty, tree.git_dir, tree.common)
            with open(file, "wb") as stream:
                stream.write(os.fsencode(rules["ignored"].get("", "")))
        words = ("-c", f"core.excludesFile={file}", "check-ignore", "-z", "--stdin", "--no-index")
        found = given and _names(
            tree, words, folder=tree.top, hidden=("index", "info"), given=given
        )
    return {names[name] for name in found or ()}


def _ignored_now(tree: Repository, root: str, paths: Sequence[str]) -> set[str]:
    """Return the paths that a rule ignores now, also one of the user."""
    if not paths:
        return set()
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    words = ("check-ignore", "-z", "--stdin", "--no-index")
    return _names(tree, words, folder=root, settings=(), given=asked) or set()


def _repository_around(root: str) -> list[str | None]:
    """Return the way to the top of the repository around `root`, and to the nearest `.git`."""
    tree, top = repository_of(root), tree_top(os.path.realpath(root))
    tops = (None if tree is None else tree.top, top)
    return [None if one is None else os.path.relpath(one, os.path.realpath(root)) for one in tops]


def _repository_in(name: str) -> str:
    """Return the repository that a name listed by git means, empty if it means none.

    git marks a repository by a slash at the end. If its `.git` is spelled in another way, git lists
    its files and cannot add them: then the path of that directory is returned.
    """
    if name[-1:] != "/" and name.isascii() and "git" not in name.lower():
        return ""  # true of nearly every name
    parts = name.split("/")
    ends = (at for at, part in enumerate(parts, 1) if is_of_git(part))
    end = next(ends, None) if is_of_git(name) else None
    if end is not None:
        return "/".join(parts[:end])
    return name.rstrip("/") if name.endswith("/") else ""


def _tree_files(root: str, rules: Rules | None) -> Iterator[str]:
    """Yield the files of a work tree, by path from `root`; below `.ralph`, all of them."""
    tree = repository_of(root)
    if rules is not None and _repository_around(root) != rules["top"]:
        tree = None
    ignored = None if rules is None else rules["ignored"].get("", "")
    untracked = None if tree is None else _untracked(tree, root, ignored)
    tracked = None if tree is None else _tracked(tree, root)
    trees = _agent_worktrees(root, rules)
    if untracked is None or tracked is None:
        yield from _below(root, "", without={*trees, RALPH})
    else:
        names = untracked | {path for _, path in tracked}
        for name in names if rules is None else names | {*rules["forced"]}:
            path = name.rstrip("/")
            if path == RALPH or path.startswith(f"{RALPH}/") or path in trees:
                continue
            if _is_repository(root, path, name, untracked):
                yield from _nested(root, path, rules)
            else:
                yield path
    yield from _below(root, RALPH, every=True, without=trees)


def _nested(root: str, below: str, rules: Rules | None) -> Iterator[str]:
    """Yield the files of a nested repository, by path from `root`: it has its own ignore rules.

    Without a readable index its tracked files are unknown, and all files count. The same holds for
    a repository that is newer than the session.
    """
    folder = os.path.join(root, below)
    ignored = None if rules is None else rules["ignored"].get(below)
    tree = opened_tree(folder) if rules is None or ignored is not None else None
    untracked = None if tree is None else _untracked(tree, folder, ignored)
    tracked = None if tree is None else _tracked(tree, folder)
    if untracked is None or tracked is None:
        yield from _below(root, below)
        return
    for name in untracked | {path for _, path in tracked}:
        path = f"{below}/{name.rstrip('/')}"
        if _is_repository(root, path, name, untracked):
            yield from _nested(root, path, rules)
        else:
            yield path


def _is_repository(root: str, path: str, name: str, untracked: Container[str]) -> bool:
    """Return whether git lists a nested repository by this name, and not one of its files."""
    return name.endswith("/") or (name not in untracked and _is_folder(os.path.join(root, path)))


def _untracked(tree: Repository, folder: str, ignored: str | None = None) -> set[str] | None:
    """Return the files in a folder that no `.gitignore` of its tree leaves out, or None.

    With `ignored`, these rules count in place of the files. git has an empty index for this, so it
    lists tracked files too. The name of a nested repository ends with a slash.
    """
    words = ("ls-files", "-z", "--others")
    if ignored is None:
        by_file = "--exclude-per-directory=.gitignore"
        return _names(tree, (*words, by_file), folder=folder, hidden=("index", "info"))
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="ralphgen-ignored-") as file:
        file.write(os.fsencode(ignored))
        file.flush()
        given = f"--exclude-from={file.name}"
        return _names(tree, (*words, given), folder=folder, hidden=("index", "info"))


def _ignore_rules(tree: Repository, folder: str, place: str, untracked: set[str]) -> str:
    """Return the rules of all `.gitignore` files around and in a folder of a tree, as one file.

    `place` is the folder by its path from the top, and `untracked` its files that are not ignored.
    """
    words = ("ls-files", "-z", "--others", "--ignored", "--directory")
    by_file = "--exclude-per-directory=.gitignore"
    ignored = _names(tree, (*words, by_file), folder=folder, hidden=("index", "info"))
    files = {name for name in {*untracked, *(ignored or ())} if name.rpartition("/")[2] == RULES}
    inside = "" if place == "." else f"{place}/"
    found = {f"{inside}{file}" for file in files}
    found |= {f"{above}/{RULES}" for above in _folders(f"{inside}{RULES}")} | {RULES}
    lines: list[str] = []
    for file in sorted(found, key=lambda path: (path.count("/"), path)):
        try:
            data, _ = read_file(os.path.join(tree.top, file), LARGEST, links=False)
        except OSError:
            continue
        lines += _rules_below(os.path.dirname(file), os.fsdecode(data))
    return "\n".join([*lines, ""])


def _rules_below(folder: str, text: str) -> Iterator[str]:
    """Yield the rules of a `.gitignore` in a folder as they read at the top of the tree."""
    start = re.sub(r"([\\*?\[])", r"\\\1", folder)
    for line in text.removeprefix("\ufeff").split("\n"):
        rule = line.removesuffix("\r")
        pattern = re.sub(r"(?<!\\) +$", "", rule.removeprefix("!"))
        if not pattern.strip("/") or rule.startswith("#") or "\n" in folder:
            continue
        if folder:
            is_anchored = "/" in pattern.rstrip("/")
            pattern = f"/{start}/{'' if is_anchored else '**/'}{pattern.removeprefix('/')}"
        yield f"!{pattern}" if rule.startswith("!") else pattern


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
    """Return the folders that a glob begins with, as far as their names are plain.

    A name with an accent may have another form on the disk.
    """
    parts = glob.strip("/").split("/")
    odd = re.compile(r"[*?[]|[^\x00-\x7f]")
    plain = next((at for at, part in enumerate(parts) if odd.search(part)), len(parts))
    return "/".join(parts[:plain])


def _below(
    root: str, folder: str, *, every: bool = False, without: Collection[str] = ()
) -> Iterator[str]:
    """Yield the path of each file in a folder, or that of the file itself; no link is followed.

    Folders called `.git` are left out; of `every` folder, only the one in `root` is. The folders
    `without` are left out too. A folder that cannot be listed is yielded in place of its files.
    """
    path = os.path.join(root, folder)
    if not _is_folder(path):
        if os.path.lexists(path) and is_way(root, folder):
            yield folder
        return
    if not is_way(root, folder):
        return
    unlisted: list[OSError] = []
    for place, folders, files in os.walk(path, onerror=unlisted.append):
        at = os.path.relpath(place, root)
        inside = "" if at == "." else f"{at}/"
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        left = {*links, *(name for name in folders if f"{inside}{name}" in without)}
        folders[:] = sorted({*folders} - left - ({MARK} if not every or not inside else set()))
        for name in (*files, *links):
            yield f"{inside}{name}"
    yield from (os.path.relpath(one.filename, root) for one in unlisted if not is_gone(one))


def walk(top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a directory as `os.walk` does; raise `OSError` if one below it cannot be listed."""

    def refuse(error: OSError) -> None:
        if not is_gone(error):
            raise error

    return os.walk(top, onerror=refuse)


def is_gone(error: OSError) -> bool:
    """Return whether a directory cannot be listed because it no longer exists."""
    return isinstance(error, FileNotFoundError | NotADirectoryError)


def is_way(root: str, path: str) -> bool:
    """Return whether no folder above a path is a link, which would lead out of the tree."""
    return not any(os.path.islink(os.path.join(root, above)) for above in _folders(path))


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
