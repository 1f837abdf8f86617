"""What the user permits: how far items are trusted, and what tools may reach.

It is in the file `rye.toml` of the user space, which no project can bring. A project's settings can
only take away from it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

OFF, WARN, INTEGRITY, TRUSTED = "off", "warn", "integrity", "trusted"
WORDS = (OFF, WARN, INTEGRITY, TRUSTED)  # from the loosest to the strictest
DEFAULT = {"directive": WARN, "tool": TRUSTED, "knowledge": WARN}
FILE = "rye.toml"


class Permissions:
    """What a session may do with items: the user's file, and what the project leaves of it.

    `policy` says by type of item how far it is trusted. Tools ask only `hosts` over HTTP, or if
    there are none public ones, and only `project_hosts` if there are some. `env` are variables that
    tools get. `problem` says why the user's file cannot be used; then nothing is permitted.
    """

    __slots__ = ("env", "hosts", "policy", "problem", "project_hosts")

    def __init__(self, user: str, project: Mapping[str, Any]) -> None:
        self.problem = ""
        own: Mapping[str, Any] = {}
        if user and os.path.lexists(os.path.join(user, FILE)):
            try:
                own = _read(user)
            except ValueError as error:
                self.problem = f'"{os.path.join(user, FILE)}" is invalid: {error}'
        policies = {**DEFAULT, **own.get("policy", {})}
        self.policy = {
            kind: max(policies[kind], project["policy"][kind], key=WORDS.index) for kind in DEFAULT
        }
        self.hosts: tuple[str, ...] = tuple(host.lower() for host in own.get("hosts", ()))
        self.project_hosts: tuple[str, ...] = tuple(project.get("hosts", ()))
        self.env = [name for name in project.get("env", ()) if name in own.get("env", ())]


def _read(user: str) -> dict[str, Any]:
    """Return what the user's file says; raises `ValueError` for a file that cannot be used."""
    import tomllib

    from .keys import KeyFolder, UnfitKeyError

    try:
        with KeyFolder(user) as folder:
            found = tomllib.loads(folder.public(FILE).decode())
    except (OSError, RecursionError, UnfitKeyError) as error:
        raise ValueError(str(error)) from error
    unknown = found.keys() - {"policy", "hosts", "env"}
    if unknown:
        raise ValueError(f'unknown key "{min(unknown)}": expected policy, hosts or env')
    policy = found.get("policy", {})
    if isinstance(policy, str):
        policy = dict.fromkeys(DEFAULT, policy)
    if not isinstance(policy, dict) or not policy.keys() <= DEFAULT.keys():
        raise ValueError(f'"policy" must be a string, or a table of {", ".join(DEFAULT)}')
    if not all(word in WORDS for word in policy.values()):
        raise ValueError(f'"policy" must be one of {", ".join(WORDS)}')
    for name in ("hosts", "env"):
        if not _is_names(found.get(name, [])):
            raise ValueError(f'"{name}" must be a list of names')
    return {**found, "policy": policy}


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
