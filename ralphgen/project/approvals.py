"""The user's record of trust in a project, in the user's own configuration.

Each start of `ralphgen serve` reads it, so this module imports little.
"""

from __future__ import annotations

import os
import stat
import sys

from ralphgen.runtime.encoding import read_json, sha256_hex
from ralphgen.runtime.files import replace_file
from ralphgen.runtime.files.main_tree import home_of
from ralphgen.runtime.verification import is_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

MOST = 1_000  # digests that are kept for a project, the newest

# Files that are installed, or run, before a server compares its files with its manifest.
STARTED = (
    "requirements.lock",
    "runtime/loader.py",
    "runtime/verification.py",
    "server.py",
)


CONTEXT = ".ralph/mcp/context.json"  # of a client that the user starts without a session
READING = "interactive"  # the recipe whose tools only read, which a client has without that file
MARK = ".ralph/trust/mark"  # in the project's folder: a word that only the record repeats
LONGEST_MARK = 100  # bytes
KINDS = ("authority", "content")
RUNNING = frozenset({"dela", "rye"})  # kits that run files of the project


class Record:
    """Digests that the user accepted in one project, oldest first.

    `settings` are the accepted settings, by key as JSON. `is_of_folder` is true if the folder is
    still the accepted one, and not another one put at its path.
    """

    __slots__ = ("authority", "content", "is_of_folder", "mark", "settings")

    def __init__(
        self,
        authority: tuple[str, ...] = (),
        content: tuple[str, ...] = (),
        mark: str = "",
        settings: Mapping[str, str] | None = None,
        *,
        is_of_folder: bool = False,
    ) -> None:
        self.authority = authority
        self.content = content
        self.mark = mark
        self.settings = settings or {}
        self.is_of_folder = is_of_folder

    @property
    def digests(self) -> frozenset[str]:
        """The digests of both kinds."""
        return frozenset((*self.authority, *self.content))


def read_record(root: str | Path) -> Record:
    """Return the record of the project in `root`; an empty one if none can be relied on.

    A file that others may write, or that cannot be read, does not count.
    """
    folder, path = approvals_place(root)
    try:
        is_known = os.path.isabs(folder)  # a clone could bring a relative one along
        if not (is_known and is_private(os.lstat(folder)) and is_private(os.lstat(path))):
            return Record()
        found = read_json(_read(path).decode())
        authority, content = (tuple(str(one) for one in found[kind]) for kind in KINDS)
        mark = str(found["mark"])
        settings = {str(key): str(value) for key, value in found.get("settings", {}).items()}
        is_of_folder = bool(mark) and mark == _mark_in(root)
        return Record(authority, content, mark, settings, is_of_folder=is_of_folder)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Record()


def database_digest(*outside: str) -> str:
    """Return the digest of a database that is not the project's, as `outside_database` has it."""
    import json

    return sha256_hex(json.dumps(["database", *outside]).encode())


def context_digest(root: str | Path) -> str:
    """Return the digest of the context of clients without a session; empty if it only reads."""
    try:
        return context_digest_of(_read(os.path.join(root, CONTEXT)))
    except OSError:
        return ""


def context_digest_of(data: bytes) -> str:
    """Return the digest of a context; empty if it only reads."""
    try:
        facts = read_json(data.decode())
        if {facts["recipe"], facts.get("base", READING)} == {READING}:
            return ""
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # no server starts with it
    return sha256_hex(f'["context", "{sha256_hex(data)}"]'.encode())


def add_to_record(
    root: Path,
    authority: Iterable[str],
    content: Iterable[str] = (),
    settings: Mapping[str, str] | None = None,
    *,
    marks: bool = False,
) -> None:
    """Record the digests and settings that the user accepted; raise `ProjectError` if that fails.

    Digests that are recorded already become the newest as well. If it `marks` the folder, the user
    has accepted everything in it: later edits there that git does not have are the user's own.
    """
    import json

    from ralphgen.errors import ProjectError

    folder, path = approvals_place(root)
    if not os.path.isabs(folder):
        text = f'no directory for approvals: "{folder}" is not an absolute path'
        raise ProjectError(text, "set HOME, or XDG_CONFIG_HOME to an absolute path")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not is_private(os.lstat(folder)):
            raise ProjectError(
                f'"{folder}" cannot store approvals: other users can write to it',
                f'take ownership of it, then run "chmod go-w {folder}"',
            )
        descriptor = _lock(folder)
        try:
            kept = read_record(root)
            is_new = marks and not kept.is_of_folder  # settings of another folder do not count
            facts = {
                "project": home_of(str(root)),
                "mark": _new_mark(root) if is_new else kept.mark,
                "authority": _newest(kept.authority, authority),
                "content": _newest(kept.content, content),
                "settings": {**({} if is_new else kept.settings), **(settings or {})},
            }
            text = json.dumps(facts, indent=2) + "\n"
            replace_file(path, text.encode(), mode=0o600)
        finally:
            if descriptor is not None:
                os.close(descriptor)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "check the permissions and the free disk space"
        raise ProjectError(f'"{path}" cannot be written: {reason}', hint) from error


def keep_record(
    root: Path,
    authority: Sequence[str],
    content: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    *,
    marks: bool = False,
) -> str:
    """Record as `add_to_record` does; return why that failed, or an empty string."""
    from ralphgen.errors import ProjectError

    kept = read_record(root)
    is_new = marks and not kept.is_of_folder
    is_known = {*authority} <= {*kept.authority} and {*content} <= {*kept.content}
    if not is_new and is_known and {**kept.settings, **(settings or {})} == kept.settings:
        return ""
    try:
        add_to_record(root, authority, content, settings, marks=marks)
    except ProjectError as error:
        return f"the approval was not recorded: {error.problems[0].text}"
    return ""


def _newest(kept: Sequence[str], digests: Iterable[str]) -> list[str]:
    new = dict.fromkeys(digests)
    return [*(one for one in kept if one not in new), *new][-MOST:]


def _mark_in(root: str | Path) -> str:
    """Return the mark in the project's folder, empty if there is none."""
    path = os.path.join(home_of(str(root)), MARK)
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LONGEST_MARK:
            return ""
        return _read(path).decode("ascii")
    except (OSError, ValueError):
        return ""


def _new_mark(root: Path) -> str:
    """Write a new mark into the project's folder, ignored by git, and return it."""
    path = os.path.join(home_of(str(root)), MARK)
    folder = os.path.dirname(path)
    for place in (folder, path):
        if os.path.islink(place):  # an archive may lead it anywhere
            os.unlink(place)
    os.makedirs(folder, exist_ok=True)
    mark = os.urandom(16).hex()
    replace_file(os.path.join(folder, ".gitignore"), b"*\n", mode=0o644)
    replace_file(path, mark.encode(), mode=0o600)
    return mark


def _lock(folder: str) -> int | None:
    """Keep other processes from changing a record until the descriptor is closed, if possible."""
    from contextlib import suppress

    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def approvals_place(root: str | Path) -> tuple[str, str]:
    """Return the user's directory for approvals, and the file of a project in it.

    All worktrees share the record of their home. Without a home directory, the path is relative.
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join("~", "AppData", "Local")
    elif not (base := os.environ.get("XDG_CONFIG_HOME", "").strip()):
        is_mac = sys.platform == "darwin"
        base = "~/Library/Application Support" if is_mac else "~/.config"
    folder = os.path.join(os.path.expanduser(base), "ralphgen", "trust")
    return folder, os.path.join(folder, f"{sha256_hex(os.fsencode(home_of(str(root))))[:32]}.json")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
