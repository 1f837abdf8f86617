"""A kit's server as a user whom no right of root helps."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driving import context_for, on_context
from wire import Wire

# Modules that are imported later must be imported before.
AS_NOBODY = """
import encodings.unicode_escape
import __future__, encodings.utf_8_sig, encodings.utf_16_le, gc, hashlib, json, os, pkgutil, re
import signal, sqlite3, stat, sys, time, traceback, unicodedata
try:
    import yaml
except ImportError:
    pass
if not os.getuid():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
with open(sys.argv[0], encoding="utf-8") as file:
    source = compile(file.read(), file.name, "exec")
exec(source, {"__name__": "__main__", "__file__": file.name})
"""


def without_rights() -> list[str]:
    """The start of a command that no right of root helps with files and processes."""
    if os.geteuid():
        return []
    rights = ",".join(f"-{one}" for one in ("dac_override", "dac_read_search", "sys_ptrace"))
    return ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]


@contextmanager
def unprivileged(
    root: Path, kit: str, environment: Mapping[str, str] | None = None
) -> Iterator[Wire]:
    """The kit's server as a process that may read and write only what everybody may."""
    context = context_for(root, "manual")
    context.chmod(0o644)
    server = str(root / ".ralph" / "mcp" / "server.py")
    command = [sys.executable, "-I", "-c", AS_NOBODY, server, kit, *on_context(context)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=root,
        encoding="utf-8",
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
    ) as process:
        try:
            wire = Wire(process)
            wire.shake_hands()
            yield wire
        finally:
            if process.poll() is None:
                process.kill()


def call_text(wire: Wire, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a call over bare frames failed, and its text."""
    result = wire.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
    (block,) = result["content"]
    return bool(result.get("isError")), str(block["text"])
