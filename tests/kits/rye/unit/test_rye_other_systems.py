"""The kit can be imported on systems without POSIX functions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ralphgen.kits.rye.server

pytestmark = pytest.mark.slow

RUNTIME = Path(ralphgen.kits.rye.server.__file__).parent
MODULES = [
    ".".join(("ralphgen.kits.rye.server", *path.relative_to(RUNTIME).with_suffix("").parts))
    for path in sorted(RUNTIME.rglob("*.py"))
    # The shim is a program, not a module.
    if path.name not in ("__init__.py", "python_shim.py")
]
# Removes names and modules that Python on Windows lacks.
LACKING = """
import importlib, os, signal, sys
fork, wait = os.fork, os.waitpid
import asyncio, selectors, shutil, socket, subprocess, tempfile
for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "geteuid", "getuid", "killpg",
             "setsid", "fork", "getpgid", "WNOHANG"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGCHLD", "SIGSTOP", "SIGCONT", "SIGQUIT"):
    delattr(signal, name)
for name in ("fcntl", "pwd", "grp", "resource", "termios", "pty"):
    sys.modules[name] = None
"""
TOGETHER = """
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
ALONE = """
for name in sys.argv[1:]:
    child = fork()
    if not child:
        importlib.import_module(name)
        sys.exit()
    wait(child, 0)
"""


@pytest.mark.parametrize(
    "way", [TOGETHER, pytest.param(ALONE, marks=pytest.mark.thorough)], ids=["together", "alone"]
)
def test_modules_are_imported_where_the_system_is_no_posix(way: str) -> None:
    """Imports all in one process; thorough tests also import each in a separate process."""
    command = [sys.executable, "-c", LACKING + way, *MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})

    assert "" == done.stderr
