"""The lock of a server, and the location of the environment of a lock."""

import os
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ralphgen.environment import base_interpreter
from ralphgen.errors import ProjectError
from ralphgen.runtime.encoding import sha256_hex

LOCKS = Path(__file__).with_name("locks")
ENTRY = re.compile(r"^\S.*\n(?: .*\n)*", re.MULTILINE)


def merged_lock(needs: Collection[str]) -> str:
    """Return the lock of a server, empty if it needs no packages.

    `needs` are the names of its kits, its engine and "http"; a name without a lock needs no
    packages. All locks pin the same versions.
    """
    entries = {
        entry
        for path in LOCKS.glob("*.lock")
        if path.stem in needs
        for entry in ENTRY.findall(path.read_text(encoding="utf-8"))
    }
    return "".join(sorted(entries))


COMPLETE = "complete"
HOME_VARIABLE = "RALPHGEN_HOME"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment: its folder, the interpreter in it, and the one it is made with."""

    folder: Path
    python: Path
    base: Path


def environment_for(lock: str) -> Environment:
    """Return the user's one environment for this lock and the base interpreter, made or not.

    It is in `$RALPHGEN_HOME` (`~` is expanded, and a relative path starts in the working
    directory), or else in the user's cache folder. Raises `ProjectError` for `~nobody`, for a user
    without a home, and as `base_interpreter` does.
    """
    base, tag = base_interpreter()
    name = f"{sha256_hex(lock.encode())[:16]}-{tag}"
    folder = user_folder().absolute() / "environments" / name
    program = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    return Environment(folder, folder / program, Path(base))


def is_complete(environment: Environment) -> bool:
    """Return whether it was built to its end and its base interpreter is still there.

    Starts nothing.
    """
    try:
        base = (environment.folder / COMPLETE).read_text(encoding="utf-8").rstrip("\n")
        return base != "" and Path(base).is_file() and environment.python.is_file()
    except (OSError, ValueError):
        return False


def user_folder() -> Path:
    """Return the user's folder for environments and for bytecode of servers, as given.

    Raises `ProjectError` if the user has no home.
    """
    asked = os.environ.get(HOME_VARIABLE, "")
    if not asked:
        from platformdirs import user_cache_path

        hint = f"set HOME, or {HOME_VARIABLE} to an absolute path"
        try:
            caches = user_cache_path("ralphgen", appauthor=False)
        except RuntimeError as error:
            raise ProjectError(f"there is no place for environments: {error}", hint) from error
        if not caches.is_absolute():  # a clone could bring it along
            text = f'there is no place for environments: "{caches}" is not absolute'
            raise ProjectError(text, hint)
        return caches
    try:
        return Path(asked).expanduser()
    except RuntimeError as error:
        text = f'the home folder in {HOME_VARIABLE}, "{asked}", is not known'
        raise ProjectError(text, f"set {HOME_VARIABLE} to an absolute path") from error
