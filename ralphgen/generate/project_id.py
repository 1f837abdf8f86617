"""Gives a project that is served over HTTP the id by which tokens name it."""

import os
from pathlib import Path
from uuid import uuid4

from ralphgen.errors import ProjectError
from ralphgen.files import put, read_text
from ralphgen.kits.registry import read_settings
from ralphgen.project.config import FILE, config_lock
from ralphgen.project.toml_edit import edited


def name_project(root: Path) -> bool:
    """Write an id into `[http]` of the config where it has none; return whether that was done.

    It stays the same from then on. Raises `ProjectError` where the config is not valid, or cannot
    be written without changing more than that.
    """
    path = root / FILE
    if not os.path.lexists(path) or not _lacks_id(root):
        return False
    with config_lock(root):
        if not _lacks_id(root):  # another has given it one meanwhile
            return False
        name = str(uuid4())
        try:
            put(path, edited(read_text(path, FILE), [(("http", "id"), name)]))
        except ValueError as error:
            hint = f'add this to [http] by hand: id = "{name}"'
            raise ProjectError(f"{FILE} cannot be changed: {error}", hint) from error
    return True


def _lacks_id(root: Path) -> bool:
    """Return whether the config has the project served over HTTP, and gives it no id."""
    http = read_settings(root).http
    return http is not None and http.id is None
