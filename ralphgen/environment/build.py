"""Builds and checks the Python environment in which emitted servers run; explains failures."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ralphgen.environment.location import (
    COMPLETE,
    HOME_VARIABLE,
    LOCK_NAME,
    Environment,
    is_complete,
)
from ralphgen.errors import Problem, ProjectError, Say
from ralphgen.runtime.processes.secrets import masked

CHECK_SECONDS = 60

# Where packages come from is the user's: indexes, mirrors, proxies, certificates and caches, both
# from variables and from the files of pip and uv (so no `--isolated`). Which packages are taken and
# where they go is ours: these variables are kept from the children. In pip's files `user` and
# `target` are overruled by options; whatever else leads packages astray, the last check finds.
_KEPT_BACK = frozenset(
    (
        *("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN"),
        *("PIP_CONSTRAINT", "PIP_REQUIREMENT", "PIP_NO_BINARY", "PIP_NO_DEPS", "PIP_NO_COMPILE"),
        *("UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_PROJECT", "UV_WORKING_DIR", "UV_PRERELEASE"),
        *("UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE", "UV_EXCLUDE_NEWER", "UV_RESOLUTION"),
        *("UV_NO_BINARY", "UV_NO_BINARY_PACKAGE", "UV_NO_VERIFY_HASHES"),
        *("FORCE_COLOR", "CLICOLOR_FORCE"),
    )
)

# Run by the environment's own interpreter, where no more than the standard library is sure.
_CHECK = """\
import importlib, importlib.metadata, json, marshal, os, sys
pins, modules = json.loads(sys.argv[1])
problems = []
for name, pinned in pins.items():
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found = "missing"
    if found != pinned:
        problems.append(f'"{name}" is {found}, the lock asks for {pinned}')
for module in modules:
    try:
        importlib.import_module(module)
    except Exception as error:
        problems.append(f'"{module}" cannot be imported ({type(error).__name__}: {error})')
cut = []
for folder, _, files in os.walk(sys.prefix):
    for name in files:
        if name.endswith(f".{sys.implementation.cache_tag}.pyc"):
            with open(os.path.join(folder, name), "rb") as file:
                file.seek(16)
                data = file.read()
            try:
                marshal.loads(data)
            except (EOFError, TypeError, ValueError):
                cut.append(name)
if cut:
    more = f" and {len(cut) - 1} more" if cut[1:] else ""
    problems.append(f'the bytecode "{min(cut)}"{more} is not whole: was the disk full?')
print("\\n" + json.dumps(problems), flush=True)
os._exit(0)
"""
_MODULES = {
    "mcp": "mcp.server.lowlevel",
    "pyyaml": "yaml",
    "json5": "json5",
    "defusedxml": "defusedxml.ElementTree",
}
_PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)[ \t]*\\?$", re.MULTILINE)
_PACKAGE_LINE = re.compile(r"^(?:Collecting | \+ )(\S+)")
TAIL_LINES = 15
_LATER = '"ralphgen init --no-install" does without it for now'
_ELSEWHERE = f"{HOME_VARIABLE}=FOLDER puts it elsewhere"
_CAUSES = {
    r"No space left on device|Disk quota exceeded|os error (28|122)\b"
    r"|the bytecode .* is not whole|marshal data too short": Problem(
        "there is no disk space left for the server's environment",
        f"free some; {_ELSEWHERE}, {_LATER}",
    ),
    r"DO NOT MATCH THE HASHES|Hash mismatch": Problem(
        "a package is not the one that is locked: its hash differs, and nothing of it was kept",
        f"ask the operator of the package index or mirror; {_LATER}",
    ),
    r"ensurepip is not available|No module named '?(ensurepip|venv)\b": Problem(
        "this Python cannot make virtual environments",
        f'run "apt install python3-venv" (Debian, Ubuntu), or install uv; {_LATER}',
    ),
    r"NewConnectionError|ConnectTimeout|NameResolutionError|ReadTimeout|ProxyError|SSLError"
    r"|Failed to fetch|error sending request|network was disabled"
    r"|No matching distribution|No solution found": Problem(
        "the package index cannot be reached, or it lacks a locked package",
        f"go online, or set PIP_INDEX_URL (pip) or UV_DEFAULT_INDEX (uv) to a mirror; {_LATER}",
    ),
}


def build(environment: Environment, lock: str, say: Say) -> None:
    """Build the environment for this lock where it is not there; others may do so at the same time.

    Raises `ProjectError` when it cannot be built; nothing half-made is kept.
    """
    try:
        with _alone(environment, say):
            if not is_complete(environment):
                _build(environment, lock, say)
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        raise build_failure(f'cannot make "{environment.folder}"', str(error)) from error


def base_interpreter() -> Path:
    """Return the interpreter below every virtual environment: it outlives the one ralphgen runs in.

    Preferred is the one named after its version in the installation's own folder, since names such
    as `python3` move on to the next version, and wrappers such as pyenv's to any.
    """
    running = Path(getattr(sys, "_base_executable", "") or sys.executable)
    major, minor = sys.version_info[:2]
    name = f"python{major}.{minor}{getattr(sys, 'abiflags', '')}"
    for candidate in (Path(sys.base_prefix, "bin", name), running, running.resolve()):
        settings = candidate.parent.parent / "pyvenv.cfg"
        if candidate.is_file() and not settings.exists():
            return candidate
    return running


def check_environment(environment: Environment) -> list[str]:
    """Return what is broken, a sentence each: the interpreter, a locked version, an import."""
    if not is_complete(environment):
        return [f'the environment "{environment.folder}" is missing or was not built to its end']
    try:
        lock = (environment.folder / LOCK_NAME).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        return [f'the lock of the environment "{environment.folder}" cannot be read ({error})']
    return _contradictions(environment, lock)


@contextmanager
def _alone(environment: Environment, say: Say) -> Iterator[None]:
    """Hold the lock beside the folder; say so if somebody else has it."""
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(environment.folder.with_name(f"{environment.folder.name}.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say("another ralphgen is building the server's environment: waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(environment: Environment, lock: str, say: Say) -> None:
    started = time.monotonic()
    base = base_interpreter()
    uv = shutil.which("uv")
    version = platform.python_version()
    say(f"building the server's environment with {'uv' if uv else 'pip'} for Python {version}")
    _remove(environment.folder)
    try:
        _run(_creation(environment, base, uv), environment, say)
        (environment.folder / LOCK_NAME).write_text(lock, encoding="utf-8", newline="\n")
        _run(_installation(environment, uv), environment, say)
        _verify(environment, lock)
        (environment.folder / COMPLETE).write_text(f"{base}\n", encoding="utf-8", newline="\n")
    except BaseException:  # Ctrl-C as well
        _remove(environment.folder)
        raise
    say(f"the server's environment is ready: {time.monotonic() - started:.0f} s")


def _remove(folder: Path) -> None:
    """Moved away first: a child that outlived an interrupted build may still write there."""
    trash = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(trash, ignore_errors=True)
    with suppress(OSError):
        folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def _creation(environment: Environment, base: Path, uv: str | None) -> tuple[str, ...]:
    if uv:
        return (uv, "venv", "--no-project", "--python", f"{base}", f"{environment.folder}")
    return (f"{base}", "-I", "-m", "venv", f"{environment.folder}")


def _installation(environment: Environment, uv: str | None) -> tuple[str, ...]:
    python = f"{environment.python}"
    lock = f"{environment.folder / LOCK_NAME}"
    locked = ("--require-hashes", "--only-binary", ":all:", "-r", lock)
    if uv:
        return (uv, "pip", "install", "--python", python, "--compile-bytecode", *locked)
    # `-I`: packages on PYTHONPATH do not count as installed.
    pip = (python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input")
    ours = ("--no-user", "--target=", "--compile", "--progress-bar", "off")
    return (*pip, *ours, *locked)


def _run(command: tuple[str, ...], environment: Environment, say: Say) -> None:
    """Run one step of a build and pass on which package it is at; raises `ProjectError`."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=environment.folder.parent,  # no settings of the project around us
        env={name: text for name, text in os.environ.items() if name not in _KEPT_BACK},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as child:
        try:
            for line in child.stdout or ():
                lines.append(line.rstrip())
                if package := _PACKAGE_LINE.match(line):
                    say(f"  {package[1]}")
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        tool = Path(command[0]).name
        shown = masked("\n".join(lines)).splitlines()
        raise build_failure(f'"{tool}" failed with exit code {child.returncode}', *shown)


def _verify(environment: Environment, lock: str) -> None:
    if problems := _contradictions(environment, lock):
        raise build_failure("the server's environment does not match the lock file", *problems)


def _contradictions(environment: Environment, lock: str) -> list[str]:
    """Return where the environment is not what the lock says; one process of at most a minute."""
    pins = dict(_PIN.findall(lock))  # those for every machine
    modules = [module for name, module in _MODULES.items() if name in pins]
    command = (environment.python, "-I", "-c", _CHECK, json.dumps([pins, modules]))
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [f'the interpreter "{command[0]}" does not answer within {CHECK_SECONDS} s']
    except OSError as error:
        return [f'the interpreter "{command[0]}" does not run ({error})']
    last = (done.stdout.splitlines() or ["no output"])[-1]
    if done.returncode:
        return [f'the interpreter "{command[0]}" failed with exit code {done.returncode} ({last})']
    problems: list[str] = json.loads(last)
    return problems


# What a failure says, and what it means: the first that is found counts.


def explain_failure(output: str) -> Problem | None:
    """Return what the output of a failed pip, uv or venv means, with what helps.

    None if unknown.
    """
    found = (problem for pattern, problem in _CAUSES.items() if re.search(pattern, output))
    return next(found, None)


def build_failure(otherwise: str, *lines: str) -> ProjectError:
    """Return the cause that the lines name, or else a sentence of ours, and the last lines."""
    cause = explain_failure("\n".join(lines))
    problem = cause or Problem(otherwise, f"fix the problem above; {_ELSEWHERE}, {_LATER}")
    shown = "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])
    return ProjectError(f"{problem.text}:" if shown else problem.text, problem.hint, shown)
