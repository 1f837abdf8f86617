"""Finds the interpreter of emitted servers, and the environment of a lock, at no cost."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.runtime.values.encoding import sha256_hex

COMPLETE = "complete"
HOME_VARIABLE = "RALPHGEN_HOME"
PYTHON_VARIABLE = "RALPHGEN_PYTHON"
INTERPRETER_OPTIONS = ("-I", "-S")  # isolated; packages are added at their first use
LOCK_NAME = "requirements.lock"
OLDEST = (3, 11)  # Python that can run a server
# Run by another interpreter: its version, and the tag that `_tag` returns for this one.
_PROBE = """\
import sys, platform
version = sys.version_info[:2]
abi = "cp%d%d%s" % (*version, getattr(sys, "abiflags", ""))
print(*version, f"{abi}-{sys.platform}-{platform.machine().lower()}")
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment: its folder, the interpreter in it, and the one it is made with."""

    folder: Path
    python: Path
    base: Path


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter outside of virtual environments, and its version, ABI and machine."""

    python: Path
    tag: str


def base_interpreter() -> Interpreter:
    """Return the interpreter of servers: `$RALPHGEN_PYTHON`, or else the one below ralphgen's.

    The latter is outside of the virtual environment that ralphgen runs in, which upgrades remove.
    Preferred is the one named after its version in the installation's own folder, since names such
    as `python3` move on to the next version, and wrappers such as pyenv's to any. Raises
    `ProjectError` if the variable names none that can run a server.
    """
    if chosen := os.environ.get(PYTHON_VARIABLE):
        return _chosen(Path(chosen))
    running = Path(getattr(sys, "_base_executable", "") or sys.executable)
    major, minor = sys.version_info[:2]
    name = f"python{major}.{minor}{getattr(sys, 'abiflags', '')}"
    for candidate in (Path(sys.base_prefix, "bin", name), running, running.resolve()):
        settings = candidate.parent.parent / "pyvenv.cfg"
        if candidate.is_file() and not settings.exists():
            return Interpreter(candidate, _tag())
    return Interpreter(running, _tag())


def environment_for(lock: str) -> Environment:
    """Return the user's one environment for this lock and the base interpreter, made or not.

    It is in `$RALPHGEN_HOME` (`~` is expanded, and a relative path starts in the working
    directory), or else in the user's cache folder. Raises `ProjectError` for `~nobody`, for a user
    without a home, and as `base_interpreter` does.
    """
    base = base_interpreter()
    name = f"{sha256_hex(lock.encode())[:16]}-{base.tag}"
    folder = _home().absolute() / "environments" / name
    program = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    return Environment(folder, folder / program, base.python)


def is_complete(environment: Environment) -> bool:
    """Return whether it was built to its end and its base interpreter is still there.

    Starts nothing.
    """
    try:
        base = (environment.folder / COMPLETE).read_text(encoding="utf-8").rstrip("\n")
        return base != "" and Path(base).is_file() and environment.python.is_file()
    except (OSError, ValueError):
        return False


def _chosen(python: Path) -> Interpreter:
    """Return the interpreter that the variable names; raise `ProjectError` if it is unusable."""
    import subprocess

    hint = f"set {PYTHON_VARIABLE} to the absolute path of Python {OLDEST[0]}.{OLDEST[1]} or later"
    if not python.is_absolute():  # a clone could bring it along
        raise ProjectError(f'{PYTHON_VARIABLE} is "{python}", not an absolute path', hint)
    try:
        done = subprocess.run(
            (python, "-I", "-S", "-c", _PROBE),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=True,
        )
        major, minor, tag = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ProjectError(
            f'"{python}" of {PYTHON_VARIABLE} is not a working Python', hint
        ) from error
    if (int(major), int(minor)) < OLDEST:
        text = f'"{python}" of {PYTHON_VARIABLE} is Python {major}.{minor}, too old for servers'
        raise ProjectError(text, hint)
    return Interpreter(python, tag)


def _tag() -> str:
    """Return the version, ABI and machine of the interpreter that runs this."""
    major, minor = sys.version_info[:2]
    abi = f"cp{major}{minor}{getattr(sys, 'abiflags', '')}"
    return f"{abi}-{sys.platform}-{_machine().lower()}"


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
