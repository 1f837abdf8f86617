"""Writes a session's folder, readable by its user alone, whole or not at all."""

import json
import re
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.output.single_file import WRITE_HINT
from ralphgen.project.root import FOLDER
from ralphgen.runtime.access.session_lock import LOCK
from ralphgen.runtime.files.write import write_new

SESSIONS = f"{FOLDER}/sessions"
CONTEXT = "context.json"
MCP_CONFIG = "mcp.json"
UNFINISHED = ".new"
OURS_ALONE = 0o600  # the mode of files that no other user can read
LONGEST = 40  # characters of a recipe's name and of a target in an id


def new_id(root: Path, recipe: str, target: str) -> str:
    """Return a new session id: the recipe, what it is about, the time, four hex digits."""
    while True:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        parts = [_legal(recipe), _legal(target), moment, secrets.token_hex(2)]
        name = "-".join(part for part in parts if part)
        taken = (root / SESSIONS / name, root / SESSIONS / f"{name}{UNFINISHED}")
        if not any(path.exists() for path in taken):
            return name


def make_folder(
    root: Path, session_id: str, context: Mapping[str, Any], mcp_config: Callable[[str], object]
) -> str:
    """Write a session's folder; returns the sha256 of its context in hex.

    `mcp_config` takes that digest and returns the config. Raises `ProjectError` where the folder
    cannot be written; nothing is left of it then.
    """
    folder = root / SESSIONS / session_id
    unfinished = folder.with_name(f"{session_id}{UNFINISHED}")
    text = _json(context)
    digest = sha256(text).hexdigest()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir(mode=0o700)
        files = {CONTEXT: text, MCP_CONFIG: _json(mcp_config(digest)), LOCK: b""}
        for name, data in files.items():
            write_new(str(unfinished / name), data, mode=OURS_ALONE)
        unfinished.rename(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(
            f'the session "{folder}" cannot be written: {reason}', WRITE_HINT
        ) from error
    return digest


def _legal(text: str) -> str:
    """Return the text as a part of a file's name on any machine."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:LONGEST]


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
