"""Finds the folders of the documents and of the capabilities, anew at every call."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import ToolError

from .paths import expanded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# For each: the variable, the setting, the shared place of a person, and the project's own place.
DOCUMENTS = ("ACM_ROOT", "root", "~/code/_shared/acm", ".ralph/acm")
REGISTRY = (
    *("ACM_REGISTRY_ROOT", "registry"),
    *("~/code/_shared/capabilities-registry", ".ralph/acm/registry"),
)
Place = tuple[str, str, str, str]


def find_root(place: Place, project: str, settings: Mapping[str, Any]) -> str:
    """The real path of the first folder of a place's order that counts.

    A variable or a setting that is given counts whatever it names; the other two count where they
    are. Relative paths are the project's. Raises `ToolError`, which shows no path, where the
    folder is not there.
    """
    variable, setting, shared, own = place
    given = (
        (f"the variable {variable}", os.environ.get(variable, "")),
        (f'the setting "{setting}" of [acm] in .ralph/ralphgen.toml', str(settings[setting])),
    )
    for source, path in given:
        if path.strip():
            return _named(source, expanded(project, path))
    for path in (os.path.expanduser(shared), os.path.join(project, own)):
        if os.path.isdir(path):
            return os.path.realpath(path)
    raise ToolError(
        f'"{own}" is not there: ask a person to run "ralphgen init --kit acm", or to set {variable}'
    )


def lies_elsewhere(place: Place) -> bool:
    """Whether the machine has a folder that goes before a project's own one."""
    variable, _, shared, _ = place
    return bool(os.environ.get(variable, "").strip()) or os.path.isdir(os.path.expanduser(shared))


def _named(source: str, path: str) -> str:
    if not os.path.isdir(path):
        raise ToolError(f"{source} names no directory: ask a person to mend it")
    return os.path.realpath(path)
