"""Builds and checks the Python environment of servers with a lock; explains failures."""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ralphgen.environment import LOCK_NAME, PYTHON_VARIABLE
from ralphgen.environment.location import COMPLETE, HOME_VARIABLE, Environment, is_complete
from ralphgen.errors import Problem, ProjectError, Say
from ralphgen.runtime.processes.secrets import masked

CHECK_SECONDS = 60

# The user decides where packages come from: indexes, mirrors, proxies, certificates and caches, by
# variables and pip's files (so no `--isolated`). The lock decides which packages are installed, and
# ralphgen where: children do not get these variables. Options overrule `user` and `target` in pip's
# files; the last check finds whatever else leads packages astray.
_KEPT_BACK = frozenset(
    (
        *("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN"),
        *("PIP_CONSTRAINT", "PIP_REQUIREMENT", "PIP_NO_BINARY", "PIP_NO_DEPS", "PIP_NO_COMPILE"),
        *("FORCE_COLOR", "CLICOLOR_FORCE"),
    )
)

# Run by the interpreter of the environment, which may lack every package.
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
    "cryptography": "cryptography.hazmat.primitives.asymmetric.ed25519",
    "defusedxml": "defusedxml.ElementTree",
    "httpcore2": "httpcore2",
    "httptools": "httptools",
    "json5": "json5",
    "jsonschema": "jsonschema",
    "psycopg": "psycopg",
    "pyjwt": "jwt",
    "pyyaml": "yaml",
    "uvicorn": "uvicorn",
}
_PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)[ \t]*\\?$", re.MULTILINE)
_PACKAGE_LINE = re.compile(r"^Collecting (\S+)")
TAIL_LINES = 15
_AGAIN = 'then run "ralphgen regen"'
_CAUSES = {
    r"No space left on device|Disk quota exceeded"
    r"|the bytecode .* is not whole|marshal data too short": Problem(
        "no disk space left for the server's environment",
        f"free some, or set {HOME_VARIABLE} to another directory, {_AGAIN}",
    ),
    r"DO NOT MATCH THE HASHES|Hash mismatch": Problem(
        "a package is not the locked one: its hash differs, and nothing of it was kept",
        f"ask the operator of the package index or mirror, {_AGAIN}",
    ),
    r"ensurepip is not available|No module named '?(ensurepip|venv)\b": Problem(
        "this Python cannot make virtual environments",
        'run "apt install python3-venv" (Debian, Ubuntu), or set '
        f"{PYTHON_VARIABLE} to another Python, {_AGAIN}",
    ),
    r"NewConnectionError|ConnectTimeout|NameResolutionError|ReadTimeout|ProxyError|SSLError"
    r"|No matching distribution": Problem(
        "the package index cannot be reached, or it lacks a locked package",
        f"go online, or set PIP_INDEX_URL to a mirror, {_AGAIN}",
    ),
}


def build(environment: Environment, lock: str, say: Say) -> None:
    """Build the environment for this lock unless another process has built it meanwhile.

    Raises `ProjectError` if it cannot be built, and then leaves nothing behind.
    """
    try:
        with _alone(environment, say):
            if not is_complete(environment):
                _build(environment, lock, say)
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        raise build_failure(f'cannot make "{environment.folder}"', str(error)) from error


def check_environment(environment: Environment) -> list[str]:
    """Return the problems, one sentence each: the interpreter, a locked version, an import."""
    if not is_complete(environment):
        return [f'the environment "{environment.folder}" is missing or incomplete']
    try:
        lock = (environment.folder / LOCK_NAME).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        return [f'the lock of the environment "{environment.folder}" cannot be read ({error})']
    return _contradictions(environment, lock)


@contextmanager
def _alone(environment: Environment, say: Say) -> Iterator[None]:
    """Lock the folder; report if another process has it, and wait."""
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
    base, folder = f"{environment.base}", environment.folder
    say(f"building the server's environment with {base}")
    _remove(folder)
    try:
        _run((base, "-I", "-m", "venv", f"{folder}"), environment, say)
        (folder / LOCK_NAME).write_text(lock, encoding="utf-8", newline="\n")
        # `-I`: packages on PYTHONPATH do not count as installed.
        pip = (f"{environment.python}", "-I", "-m", "pip", "install", "--no-input", "--compile")
        quiet = ("--disable-pip-version-check", "--progress-bar", "off")
        here = ("--no-user", "--target=", "--require-hashes", "--only-binary", ":all:")
        _run((*pip, *quiet, *here, "-r", f"{folder / LOCK_NAME}"), environment, say)
        _verify(environment, lock)
        (folder / COMPLETE).write_text(f"{base}\n", encoding="utf-8", newline="\n")
    except BaseException:  # Ctrl-C as well
        _remove(folder)
        raise
    say(f"the server's environment is ready: {time.monotonic() - started:.0f} s")


def _remove(folder: Path) -> None:
    """Remove a folder, renamed first: a child of an interrupted build may still write to it."""
    trash = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(trash, ignore_errors=True)
    with suppress(OSError):
        folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def _run(command: tuple[str, ...], environment: Environment, say: Say) -> None:
    """Run one step of a build and report each package; raises `ProjectError`."""
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
    """Return how the environment differs from its lock; runs one process for at most a minute."""
    pins = dict(_PIN.findall(lock))  # without the pins of some machines alone
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


def explain_failure(output: str) -> Problem | None:
    """Return the problem behind the output of a failed pip or venv, or None if it is unknown."""
    found = (problem for pattern, problem in _CAUSES.items() if re.search(pattern, output))
    return next(found, None)


def build_failure(otherwise: str, *lines: str) -> ProjectError:
    """Return the error of a failed build: its known cause, else `otherwise`; and its last lines."""
    cause = explain_failure("\n".join(lines))
    problem = cause or Problem(
        otherwise, f"fix it, or set {HOME_VARIABLE} to another directory, {_AGAIN}"
    )
    shown = "\n".join(f"  {line}" for line in lines[-TAIL_LINES:])
    return ProjectError(f"{problem.text}:" if shown else problem.text, problem.hint, shown)
