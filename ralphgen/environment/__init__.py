"""The interpreter of emitted servers.

Each start of `ralphgen serve` asks for it, so that this module imports little.
"""

from __future__ import annotations

import os
import sys

PYTHON_VARIABLE = "RALPHGEN_PYTHON"
INTERPRETER_OPTIONS = ("-I", "-S")  # isolated; packages are added at their first use
LOCK_NAME = "requirements.lock"
OLDEST = (3, 11)  # Python that can run a server
# Run by another interpreter: its version, and the tag that `_tag` returns for this one.
_PROBE = """\
import platform, sys
major, minor = sys.version_info[:2]
abi = "cp%d%d%s" % (major, minor, getattr(sys, "abiflags", ""))
print("%d %d %s-%s-%s" % (major, minor, abi, sys.platform, platform.machine().lower()))
"""


def base_interpreter() -> tuple[str, str]:
    """Return the interpreter of servers, and its version, ABI and machine.

    That is `$RALPHGEN_PYTHON`, or else the interpreter below ralphgen's, outside of the virtual
    environment that ralphgen runs in, which upgrades remove. Preferred is the one named after its
    version in the installation's own folder, since names such as `python3` move on to the next
    version, and wrappers such as pyenv's to any. Raises `ProjectError` if the variable names none
    that can run a server.
    """
    if chosen := os.environ.get(PYTHON_VARIABLE):
        return chosen, _tag_of(chosen)
    running = getattr(sys, "_base_executable", "") or sys.executable
    major, minor = sys.version_info[:2]
    name = f"python{major}.{minor}{getattr(sys, 'abiflags', '')}"
    installed = os.path.join(sys.base_prefix, "bin", name)
    for candidate in (installed, running, os.path.realpath(running)):
        settings = os.path.join(os.path.dirname(os.path.dirname(candidate)), "pyvenv.cfg")
        if os.path.isfile(candidate) and not os.path.exists(settings):
            return candidate, _tag()
    return running, _tag()


def _tag_of(python: str) -> str:
    """Return the tag of the interpreter that the variable names.

    Raises `ProjectError` if it is unusable.
    """
    import subprocess

    from ralphgen.errors import ProjectError

    hint = f"set {PYTHON_VARIABLE} to the absolute path of Python {OLDEST[0]}.{OLDEST[1]} or later"
    if not os.path.isabs(python):  # a clone could bring it along
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
    return tag


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
