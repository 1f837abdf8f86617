"""Finds the root of a project from a directory in it.

Each start of `ralphgen serve` does, so that this module takes paths as text and imports little.
"""

from __future__ import annotations

import os

from ralphgen.runtime.encoding import read_json
from ralphgen.runtime.files.main_tree import home_of, is_agents_tree, is_without_tree
from ralphgen.runtime.system import launched_session

FOLDER = ".ralph/mcp"
SESSIONS = f"{FOLDER}/sessions"
CONFIG = ".ralph/ralphgen.toml"
STRUCTURED = "--structured-output"  # for servers whose client uses structured content
DATABASE = ".ralph/db/ralph.db"
"""The database in the project's home, unless the settings name another file."""
DATABASE_VARIABLE = "RALPH_DATABASE"
"""The user's variable with the absolute path of the database."""


def find_project(folder: str) -> tuple[str, str] | None:
    """Return the root of the nearest project, and its directory in the current worktree.

    `folder` is a real path. Returns None outside of projects, and raises `ProjectError` as
    `project_place` does.
    """
    while (root := _root_at(folder)) is None:
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return root, folder


def _root_at(folder: str) -> str | None:
    """Return the root of the project that has a directory in one of its worktrees, or None."""
    home = home_of(folder)
    if not _is_project(folder) and not _is_project(home):
        return None
    if (root := _root_of_session(home)) is not None:
        return root
    if _has_settings(folder) and not is_agents_tree(folder):
        return folder
    root = home if _is_project(home) else folder
    if not _has_settings(root) and is_without_tree(home):
        from ralphgen.errors import ProjectError

        raise ProjectError(
            f'"{folder}" has no {CONFIG}, and "{home}" has no main worktree',
            "run the command in a worktree that has the settings",
        )
    return root


def _root_of_session(home: str) -> str | None:
    """Return the root that the context of the launched session names; None for another project."""
    session_id = launched_session()
    if not session_id or os.path.basename(session_id) != session_id:
        return None
    try:
        with open(os.path.join(home, SESSIONS, session_id, "context.json"), "rb") as file:
            root: str = read_json(file.read().decode())["project"]["root"]
        return root if os.path.isdir(root) and home_of(root) == home else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def refuse_linked(folder: str) -> None:
    """Raise `ProjectError` if the `.ralph` of a folder is a link, to keep writes out of it."""
    if os.path.islink(place := os.path.join(folder, ".ralph")):
        from ralphgen.errors import ProjectError

        hint = "replace the link with the directory itself"
        raise ProjectError(f'"{place}" is a link, expected a directory', hint)


def _is_project(folder: str) -> bool:
    refuse_linked(folder)
    return os.path.isdir(os.path.join(folder, ".ralph"))


def _has_settings(folder: str) -> bool:
    files = CONFIG, f"{FOLDER}/manifest.json"
    return any(os.path.isfile(os.path.join(folder, file)) for file in files)


def has_usual_database(root: str) -> bool:
    """Return whether the database is certainly the usual file, inside the project.

    Neither the settings nor the user name another one.
    """
    try:
        with open(os.path.join(root, CONFIG), "rb") as file:
            if b"database" in file.read():
                return False
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        return False
    home = home_of(root)
    inside = os.path.realpath(os.path.join(home, DATABASE)).startswith(os.path.join(home, ""))
    return inside and DATABASE_VARIABLE not in os.environ
