"""Tools of an attacker on the kit rye, and proof that an attack had no effect."""

import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

from rye_projects import EXTENSIONS, Rye, yaml_tool

from ralphgen.kits.rye.server.trust import Signature, digest_of, line_of, with_line

OFF = 'policy = "off"'
TRUSTED = 'policy = "trusted"'
INTEGRITY = 'policy = { tool = "integrity" }'
TIME = "2026-02-11T10:00:00Z"
SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], {**os.environ}, sys.stdin.read()]))"


def tree(folder: Path) -> dict[str, bytes]:
    """Return everything in a folder, by path: contents of files, targets of links, other kinds.

    Python's caches are excluded, and so are files of a server's session.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        if stat.S_ISREG(kind):
            found[str(path)] = path.read_bytes()
        elif stat.S_ISLNK(kind):
            found[str(path)] = os.fsencode(path.readlink())
        else:
            found[str(path)] = str(stat.S_IFMT(kind)).encode()
    return {path: content for path, content in found.items() if "__pycache__" not in path}


def items_of(rye: Rye) -> dict[str, bytes]:
    """Return everything in the spaces of the project and of the user, including the keys."""
    return {**tree(rye.project), **tree(rye.user)}


def marking(marker: Path) -> str:
    """Return Python code that writes a file whenever it runs."""
    return f"open({str(marker)!r}, 'a').write('ran')\ndef execute(params, project_path): return 1\n"


def stamped(text: str, extension: str = EXTENSIONS["tool"]) -> str:
    """A text with a signature that anybody can make."""
    return with_line(text, extension, line_of(Signature(digest_of(text), TIME), extension))


def showing(item_id: str, *arguments: Any, **values: Any) -> str:
    """Return a YAML tool whose command shows its arguments, its variables and its input."""
    config = {"command": sys.executable, "args": ["-I", "-c", SHOW, *arguments]}
    return yaml_tool(item_id, **{**values, "config": {**config, **values.get("config", {})}})


def shell(item_id: str, script: str, *, timeout: float = 60, **values: Any) -> str:
    """A YAML tool that runs a shell's script; `values` are more of its fields."""
    config = {"command": "sh", "args": ["-c", script], "timeout": timeout}
    return yaml_tool(item_id, config=config, **values)


def holding(path: Path) -> str:
    """Return the start of a shell script that holds a lifeline, and reports it."""
    return f"exec 3>{shlex.quote(str(path))}; echo >&3; "


def code(rye: Rye, tool: str, **arguments: Any) -> str:
    """The code of a refusal, or the status of a success."""
    failed, answer = rye.ask(tool, **arguments)
    return str(answer["error"]["code"] if failed else answer["status"])


def ran(rye: Rye, item_id: str, **parameters: Any) -> str:
    """What became of the execution of a tool: "success" or the code of its refusal."""
    return code(rye, "execute", item_type="tool", item_id=item_id, parameters=parameters)
