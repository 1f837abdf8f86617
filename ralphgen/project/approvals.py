"""The record of what this user trusts in a project, in the user's own configuration.

Each start of `ralphgen serve` reads it, so that it imports little.
"""

import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.runtime.files.main_tree import home_of
from ralphgen.runtime.files.write import replace_file
from ralphgen.runtime.loader import is_private
from ralphgen.runtime.values.encoding import sha256_hex

MOST = 1_000  # digests that are kept for a project, the newest

# What is installed, or runs, before a server itself compares its files with its manifest.
STARTED = (
    "requirements.lock",
    "runtime/bytecode.py",
    "runtime/kept.py",
    "runtime/loader.py",
    "runtime/modules.py",
    "server.py",
)


CONTEXT = ".ralph/mcp/context.json"  # of a client that the user starts without a session
READING = "interactive"  # the recipe whose tools only read, which a client has without that file
MARK = ".ralph/trust/mark"  # in the project's folder: a word that only the record repeats
LONGEST_MARK = 100  # bytes
KINDS = ("authority", "content")


@dataclass(frozen=True, slots=True)
class Record:
    """Digests that the user accepted in one project, oldest first.

    `is_of_folder` reports that the folder is the one that was accepted, and not another one that
    was put at its path.
    """

    authority: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    mark: str = ""
    is_of_folder: bool = False

    @property
    def digests(self) -> frozenset[str]:
        """The digests of both kinds."""
        return frozenset((*self.authority, *self.content))


def read_record(root: Path) -> Record:
    """Return the record of the project in `root`; an empty one where there is none to rely on.

    A file that others may write, or that cannot be read, says nothing.
    """
    try:
        path = _path(root)
        if not is_private(path.parent.lstat()) or not is_private(path.lstat()):
            return Record()
        found = json.loads(path.read_bytes())
        authority, content = (tuple(str(one) for one in found[kind]) for kind in KINDS)
        mark = str(found["mark"])
        return Record(authority, content, mark, bool(mark) and mark == _mark_in(root))
    except (OSError, ValueError, LookupError, TypeError, ProjectError):
        return Record()


def database_digest(*outside: str) -> str:
    """Return the digest of a database that is not the project's, as `outside_database` has it."""
    return sha256_hex(json.dumps(["database", *outside]).encode())


def context_digest(root: Path) -> str:
    """Return the digest of the context of clients without a session; empty if it only reads."""
    try:
        data = (root / CONTEXT).read_bytes()
        facts = json.loads(data)
        if {facts["recipe"], facts.get("base", READING)} == {READING}:
            return ""
    except OSError:
        return ""
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # no server starts with it
    return sha256_hex(json.dumps(["context", sha256_hex(data)]).encode())


def add_to_record(
    root: Path, authority: Iterable[str], content: Iterable[str] = (), *, marks: bool = False
) -> None:
    """Record that the user accepted these digests; raise `ProjectError` if that fails.

    Digests that are recorded already become the newest as well. If it `marks` the folder, the user
    has accepted everything in it: later edits there that git does not have are the user's own.
    """
    path = _path(root)
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder.lstat()):
            raise ProjectError(
                f'"{folder}" cannot store approvals: other users can write to it',
                f'take ownership of it, then run "chmod go-w {folder}"',
            )
        with _alone(folder):
            kept = read_record(root)
            mark = kept.mark if kept.is_of_folder or not marks else _new_mark(root)
            facts = {
                "project": str(_home(root)),
                "mark": mark,
                "authority": _newest(kept.authority, authority),
                "content": _newest(kept.content, content),
            }
            text = json.dumps(facts, indent=2) + "\n"
            replace_file(str(path), text.encode(), mode=0o600)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "check the permissions and the free disk space"
        raise ProjectError(f'"{path}" cannot be written: {reason}', hint) from error


def keep_record(
    root: Path, authority: Sequence[str], content: Sequence[str] = (), *, marks: bool = False
) -> str:
    """Record digests as `add_to_record` does; return why that failed, or an empty string."""
    kept = read_record(root)
    is_new = marks and not kept.is_of_folder
    if not is_new and {*authority} <= {*kept.authority} and {*content} <= {*kept.content}:
        return ""
    try:
        add_to_record(root, authority, content, marks=marks)
    except ProjectError as error:
        return f"the approval was not recorded: {error.problems[0].text}"
    return ""


def _newest(kept: Sequence[str], digests: Iterable[str]) -> list[str]:
    new = dict.fromkeys(digests)
    return [*(one for one in kept if one not in new), *new][-MOST:]


def _mark_in(root: Path) -> str:
    """Return the mark in the project's folder, empty if there is none."""
    try:
        path = _mark_place(root)
        if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > LONGEST_MARK:
            return ""
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


def _mark_place(root: Path) -> Path:
    """Return the path of the mark."""
    return _home(root) / MARK


def _new_mark(root: Path) -> str:
    """Write a new mark into the project's folder, where git ignores it, and return it."""
    path = _mark_place(root)
    if path.parent.is_symlink() or path.is_symlink():  # an archive may lead it anywhere
        path.unlink(missing_ok=True) if path.is_symlink() else path.parent.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = os.urandom(16).hex()
    replace_file(str(path.with_name(".gitignore")), b"*\n", mode=0o644)
    replace_file(str(path), mark.encode(), mode=0o600)
    return mark


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold off others who change a record meanwhile, where the system can."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _path(root: Path) -> Path:
    name = sha256_hex(os.fsencode(_home(root)))[:32]
    from platformdirs import user_config_path

    hint = "set HOME, or XDG_CONFIG_HOME to an absolute path"
    try:
        folder = user_config_path("ralphgen", appauthor=False)
    except RuntimeError as error:
        raise ProjectError(f"no directory for approvals: {error}", hint) from error
    if not folder.is_absolute():  # a clone could bring it along
        raise ProjectError(f'no directory for approvals: "{folder}" is not an absolute path', hint)
    return folder / "trust" / f"{name}.json"


def _home(root: Path) -> Path:
    """Return the home of the project, whose record all worktrees share."""
    return Path(home_of(str(root)))
