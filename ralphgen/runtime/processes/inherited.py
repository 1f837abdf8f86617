"""Says which variables are passed on to what is started: not the keys of servers and of people."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What signs tokens of sessions, opens the database, as a server or as its owner, and is a session.
SECRETS = ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "RALPH_TOKEN")


def passed_on(folder: str, *, to_agent: bool = False) -> dict[str, str]:
    """Return the variables of this process without secrets of the project.

    `folder` is that of the emitted server, whose facts may have other names for them. An agent
    keeps what opens the database where its own servers need it.
    """
    config = _config(folder)
    database = str(config.get("postgresql", {}).get("dsn_env", ""))
    secrets = {*SECRETS, str(config.get("http", {}).get("key_env", "")), database}
    if to_agent:
        secrets.discard(database)
    return {name: value for name, value in os.environ.items() if name not in secrets}


def _config(folder: str) -> dict[str, Any]:
    """Return what the facts of a server say of the config; nothing where there are none."""
    try:
        with open(os.path.join(folder, "project.json"), encoding="utf-8") as file:
            config = json.load(file)["config"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    found = config if isinstance(config, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, dict)}
