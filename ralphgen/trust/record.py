"""The record of what this user trusts in a project, in the user's own configuration.

Each start of `ralphgen serve` reads it, so that it imports little.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_config_path

from ralphgen.errors import ProjectError
from ralphgen.project.root import FOLDER
from ralphgen.runtime.files.main_tree import counterpart
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


@dataclass(frozen=True, slots=True)
class Record:
    """What is trusted in one project: digests, oldest first.

    `made_here` says that the project's first server was written on this machine, by this user.
    """

    digests: tuple[str, ...] = ()
    made_here: bool = False


def read_record(root: Path) -> Record:
    """Return the record of the project in `root`; an empty one where there is none to rely on.

    A file that others may write, or that cannot be read, says nothing.
    """
    try:
        path = _path(root)
        if not is_private(path.parent.lstat()) or not is_private(path.lstat()):
            return Record()
        found = json.loads(path.read_bytes())
        digests = tuple(str(digest) for digest in found["digests"])
        return Record(digests, found["made_here"] is True)
    except (OSError, ValueError, LookupError, TypeError, ProjectError):
        return Record()


def starts_as_recorded(root: Path, *, trust_edited: bool) -> bool:
    """Return whether the manifest is on record, and what starts the server is as it says.

    The latter is of no matter where edited files are trusted.
    """
    folder = root / FOLDER
    try:
        manifest = (folder / "manifest.json").read_bytes()
        if sha256_hex(manifest) not in read_record(root).digests:
            return False
        listed = json.loads(manifest)["files"]
        return trust_edited or all(
            listed[path] == sha256_hex((folder / path).read_bytes()) for path in STARTED
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False


def add_to_record(root: Path, digests: Iterable[str], *, made_here: bool = False) -> None:
    """Record that these digests are trusted in the project; raise `ProjectError` if it fails.

    Those that are recorded already become the newest as well.
    """
    path = _path(root)
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder.lstat()):
            raise ProjectError(
                f'"{folder}" is no place for a record: others than you may write there',
                f'make it your own, and run "chmod go-w {folder}"',
            )
        with _alone(folder):
            kept = read_record(root)
            new = tuple(dict.fromkeys(digests))
            old = tuple(one for one in kept.digests if one not in new)
            facts = {
                "project": str(_home(root)),
                "made_here": kept.made_here or made_here,
                "digests": [*old, *new][-MOST:],
            }
            text = json.dumps(facts, indent=2) + "\n"
            replace_file(str(path), text.encode(), mode=0o600)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "give yourself the right to write there and free disk space"
        raise ProjectError(f'"{path}" cannot be written: {reason}', hint) from error


def keep_record(root: Path, digests: Sequence[str], *, made_here: bool = False) -> str:
    """Record what is not on record, where work goes on without; return why that failed, or ""."""
    kept = read_record(root)
    if kept.made_here >= made_here and {*digests} <= {*kept.digests}:
        return ""
    try:
        add_to_record(root, digests, made_here=made_here)
    except ProjectError as error:
        return f"what is trusted was not recorded: {error.problems[0].text}"
    return ""


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
    hint = "set HOME, or XDG_CONFIG_HOME to an absolute path"
    try:
        folder = user_config_path("ralphgen", appauthor=False)
    except RuntimeError as error:
        raise ProjectError(f"there is no place for a record: {error}", hint) from error
    if not folder.is_absolute():  # a clone could bring it along
        raise ProjectError(f'there is no place for a record: "{folder}" is not absolute', hint)
    return folder / "trust" / f"{name}.json"


def _home(root: Path) -> Path:
    """Return the project's folder in the repository's main work tree, whose record all share."""
    place = root.resolve()
    return Path(counterpart(str(place)) or place)
