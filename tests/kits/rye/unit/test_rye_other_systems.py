"""The kit is imported on systems that lack what POSIX has."""

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
    # The shim is no module but a program.
    if path.name not in ("__init__.py", "python_shim.py")
]
# What a Python on Windows has not; the modules that are imported are blocked as well.
LACKING = """
import importlib, os, signal, sys
import asyncio, selectors, shutil, socket, subprocess, tempfile
for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "geteuid", "getuid", "killpg",
             "setsid", "fork", "getpgid", "WNOHANG"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGCHLD", "SIGSTOP", "SIGCONT", "SIGQUIT"):
    delattr(signal, name)
for name in ("fcntl", "pwd", "grp", "resource", "termios", "pty"):
    sys.modules[name] = None
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


@pytest.mark.parametrize(
    "modules",
    [MODULES, *(pytest.param([one], id=one, marks=pytest.mark.thorough) for one in MODULES)],
    ids=lambda _modules: "all",
)
def test_modules_are_imported_where_the_system_is_no_posix(modules: list[str]) -> None:
    """All in one process; in the thorough lane each in its own."""
    command = [sys.executable, "-c", LACKING, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})

    assert "" == done.stderr
