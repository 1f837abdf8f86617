"""Finds the Python environment of emitted servers by its lock, at no cost."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.runtime.values.encoding import sha256_hex

COMPLETE = "complete"
HOME_VARIABLE = "RALPHGEN_HOME"
INTERPRETER_OPTIONS = ("-I", "-S")  # alone, and without looking for packages at once
LOCK_NAME = "requirements.lock"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment: its folder, and the interpreter in it."""

    folder: Path
    python: Path


def environment_for(lock: str, home: Path | None = None) -> Environment:
    """Return the user's one environment for this lock, Python and kind of machine, made or not.

    `home` is `$RALPHGEN_HOME` if it is not given (`~` is expanded), or else the user's cache
    folder; a relative one counts from the working directory. Raises `ProjectError` for `~nobody`,
    and where this user has no home.
    """
    digest = sha256_hex(lock.encode())[:16]
    major, minor = sys.version_info[:2]
    abi = f"cp{major}{minor}{getattr(sys, 'abiflags', '')}"
    machine = f"{sys.platform}-{_machine().lower()}"
    folder = (home or _home()).absolute() / "environments" / f"{digest}-{abi}-{machine}"
    program = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    return Environment(folder, folder / program)


def is_complete(environment: Environment) -> bool:
    """Return whether it was built to its end and its base interpreter is still there.

    Starts nothing.
    """
    try:
        base = (environment.folder / COMPLETE).read_text(encoding="utf-8").rstrip("\n")
        return base != "" and Path(base).is_file() and environment.python.is_file()
    except (OSError, ValueError):
        return False


def _machine() -> str:
    if hasattr(os, "uname"):
        return os.uname().machine
    import platform

    return platform.machine()


def _home() -> Path:
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


def read_lock(engine: str = "sqlite") -> str:
    """Return the text of the lock that ships with this ralphgen, for servers on one engine."""
    name = LOCK_NAME if engine == "sqlite" else f"requirements-{engine}.lock"
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
