"""The manifest: which files are generated, and what their bytes were when they were written."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

Files = dict[str, str]
"""What generating yields: POSIX path relative to the generated folder → text."""

MANIFEST = "manifest.json"
NEW = ".new"
COMMIT = ".commit"
LOCK = ".lock"
SESSIONS = "sessions"

NEVER_GENERATED = frozenset({NEW, COMMIT, LOCK, SESSIONS, "context.json"})


def digest(data: bytes) -> str:
    """Return the sha256 of some bytes, in hex."""
    return sha256(data).hexdigest()


def legal(path: str) -> bool:
    """Return whether a path stays inside the folder and clear of what is no generated file.

    A manifest comes from a repository and says what may be deleted, so it is not trusted.
    """
    parts = path.split("/")
    inside = path.isprintable() and not any(mark in path for mark in '\\:*?"<>|')
    return (
        inside
        and all(part not in {"", ".", ".."} for part in parts)
        and parts[0].casefold() not in NEVER_GENERATED
    )


def seal(files: Mapping[str, str], facts: Mapping[str, object]) -> Files:
    """Return the files, sorted, with a manifest of `facts` and of the sha256 of every other file.

    `facts` are the manifest's other keys: the generator's version, the plan's digest, the schema.
    """
    rest = {path: text for path, text in files.items() if path != MANIFEST}
    digests = {path: digest(text.encode()) for path, text in rest.items()}
    manifest = json.dumps({**facts, "files": digests}, indent=2, sort_keys=True) + "\n"
    return dict(sorted({**rest, MANIFEST: manifest}.items()))


def listed(folder: Path) -> dict[str, str] | None:
    """Return what the manifest lists, path → sha256: empty without one, `None` if unreadable.

    Raises OSError where the file is there and cannot be opened.
    """
    try:
        return listed_in((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return {}


def listed_in(text: bytes) -> dict[str, str] | None:
    """Return what a manifest's text lists, path → sha256, `None` if it cannot be read."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    files: object = found.get("files") if isinstance(found, dict) else None
    if not isinstance(files, dict) or not all(map(_is_entry, files.items())):
        return None
    return dict(files)


def _is_entry(entry: tuple[object, object]) -> bool:
    path, value = entry
    return isinstance(path, str) and isinstance(value, str) and legal(path) and path != MANIFEST
