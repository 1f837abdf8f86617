"""Which paths may be stored for a project's files, and in which form."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.arguments import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .workspace import Workspace

LONGEST = 1_000  # characters

# Patterns are compiled at their first use: a server starts without them.
_HIDDEN = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_URL = "[A-Za-z][A-Za-z0-9+.-]+://"
_DRIVE = "[A-Za-z]:"
_LOCK_FILES = frozenset(
    {"bun.lockb", "go.sum", "gradle.lockfile", "npm-shrinkwrap.json", "package-lock.json"}
    | {"packages.lock.json", "pnpm-lock.yaml"}
)
_NOISE_ENDINGS = (".lock", ".min.js", ".min.css", ".map", ".pyc", ".class", ".o")
_NOISE_FOLDERS = frozenset(
    {".cache", ".dart_tool", ".git", ".gradle", ".mypy_cache", ".next", ".nuxt", ".pytest_cache"}
    | {".ruff_cache", ".svelte-kit", ".tox", ".turbo", ".venv", "__pycache__", "build"}
    | {"coverage", "deriveddata", "dist", "node_modules", "out", "target", "venv"}
)


def checked_path(path: str, argument: str) -> str:
    """Return a path in normal form; raises `ToolError` where it may not be stored."""
    problem = path_problem(path)
    if problem:
        raise ToolError(f'"{argument}": {problem}')
    return normalise(path)


def path_warnings(workspace: Workspace, path: str) -> list[str]:
    """Return warnings on a path that may be stored all the same."""
    if is_noise(path):
        return [
            f"{shortened(path)} looks like a lock file or build output: it tells a reader little"
        ]
    if not os.path.exists(os.path.join(workspace.root, path)):
        return [f"{shortened(path)} does not exist in the project"]
    return []


def path_problem(path: str) -> str | None:
    """Return one sentence on why a path may not be stored, `None` where it may.

    A path is relative to the project, with "/" between its parts, and stays inside; "a..b.ts" is
    an ordinary name. It need not exist.
    """
    if not path.strip():
        return "a path must not be blank"
    if len(path) > LONGEST:
        return f"a path of {len(path)} characters is too long: {LONGEST} is the most"
    # Both forms: "./~/x" is stored as "~/x".
    what = _what_is_wrong(path) or _what_is_wrong(normalise(path))
    shown = json.dumps(path, ensure_ascii=re.search(_HIDDEN, path) is not None)
    return f"the path {shown} {what}" if what else None


def normalise(path: str) -> str:
    """Return a path in the form in which it is stored: no ".", no empty part, no "/" at its end."""
    return "/".join(part for part in path.split("/") if part not in {"", "."})


def is_noise(path: str) -> bool:
    """Return whether a path is a lock file, a dependency or build output."""
    *folders, name = normalise(path).lower().split("/")
    return (
        name in _LOCK_FILES
        or name.endswith(_NOISE_ENDINGS)
        or not _NOISE_FOLDERS.isdisjoint([*folders, name])
    )


def _what_is_wrong(path: str) -> str | None:
    """Return why a path is refused, `None` where it is not."""
    checks = (
        (re.search(_HIDDEN, path), "holds a control character"),
        (path != path.strip(), "begins or ends with a space"),
        (re.match(_URL, path), "is a URL: give the path of a file in the project"),
        (re.match(_DRIVE, path), "begins with a drive: give it relative to the project"),
        ("\\" in path, 'holds "\\": write "/" between its parts'),
        (path.startswith("/"), "is absolute: give it relative to the project"),
        (path.startswith("~"), 'begins with "~": give it relative to the project'),
        (".." in path.split("/"), 'has ".." as a part: it must stay inside the project'),
        (not normalise(path), "is the project itself: name a file in it"),
    )
    return next((what for wrong, what in checks if wrong), None)
