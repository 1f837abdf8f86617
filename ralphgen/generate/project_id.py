"""Gives a project that is served over HTTP the id by which tokens name it."""

import os
from pathlib import Path
from uuid import uuid4

from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.output.files import put
from ralphgen.project.config import FILE, read_config
from ralphgen.project.files import read_text
from ralphgen.project.inspect import settings_models
from ralphgen.project.toml_edit import edited


def name_project(root: Path) -> bool:
    """Write an id into `[http]` of the config where it has none; return whether that was done.

    It stays the same from then on. Raises `ProjectError` where the config is not valid, or cannot
    be written without changing more than that.
    """
    path = root / FILE
    if not os.path.lexists(path):
        return False
    http = read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS)).values.http
    if http is None or http.id is not None:
        return False
    name = str(uuid4())
    try:
        put(path, edited(read_text(path, FILE), [(("http", "id"), name)]))
    except ValueError as error:
        hint = f'add this to [http] by hand: id = "{name}"'
        raise ProjectError(f"{FILE} cannot be added to: {error}", hint) from error
    return True
