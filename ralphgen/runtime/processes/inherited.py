"""Selects the variables for programs that ralphgen starts, without the keys of servers."""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# What signs tokens of sessions, opens the database, as a server or as its owner, and is a session.
SECRETS = ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "RALPH_TOKEN")
# What a program needs on any machine, whatever the project lists.
STANDARD = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|TMPDIR|TMP|TEMP|TZ|TERM|COLORTERM|COLUMNS|LINES|NO_COLOR"
    r"|FORCE_COLOR|CI|LANG|LANGUAGE|LC_.*|XDG_.*|RALPHGEN_.*|RALPH_DATABASE"
    r"|(?:HTTP|HTTPS|ALL|NO|FTP)_PROXY|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE"
    r"|NODE_EXTRA_CA_CERTS|NODE_(?:ENV|PATH|OPTIONS)|NVM_DIR"
    r"|VIRTUAL_ENV|CONDA_PREFIX|PYENV_ROOT"
    r"|PYTHON(?:PATH|HOME|UTF8|HASHSEED|DONTWRITEBYTECODE|IOENCODING)"
    r"|GO(?:PATH|ROOT|CACHE|BIN|FLAGS|PROXY)|CARGO_HOME|RUSTUP_HOME|RUSTFLAGS"
    r"|(?:JAVA|M2|MAVEN|GRADLE|ANDROID)_HOME|GRADLE_USER_HOME|DOTNET_ROOT"
    r"|GEM_HOME|GEM_PATH|RBENV_ROOT|RUBYLIB|PERL5LIB|PHPRC"
    r"|SYSTEMROOT|WINDIR|COMSPEC|PATHEXT|USERPROFILE|APPDATA|LOCALAPPDATA|PROGRAMFILES"
)


def passed_on(folder: str, *, to_agent: bool = False, also: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of this process without secrets of the project.

    `folder` is that of the emitted server. Its facts may give these secrets other names, and may
    list the variables that are passed on; then only those, the standard ones and the names in
    `also` are. An agent keeps the variable that opens the database, which its servers need.
    """
    config = _config(folder)
    database = str(config.get("postgresql", {}).get("dsn_env", ""))
    secrets = {*SECRETS, str(config.get("http", {}).get("key_env", "")), database}
    if to_agent:
        secrets.discard(database)
    names = _listed(config)
    if names is not None:
        names = (*names, *also, *((database,) if to_agent else ()))
    return {
        name: value
        for name, value in os.environ.items()
        if name not in secrets and (names is None or _is_among(name, names))
    }


def _listed(config: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the variables that the project lists, None if it has no list."""
    names = config.get("environment", {}).get("variables")
    return tuple(map(str, names)) if isinstance(names, list) else None


def _is_among(name: str, names: Iterable[str]) -> bool:
    """Return whether a name is standard, or one of the names, of which some end with "*"."""
    if STANDARD.fullmatch(name.upper()):  # proxies have small letters as well
        return True
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in names)


def _config(folder: str) -> dict[str, Any]:
    """Return the settings in the facts of a server; nothing if they cannot be read."""
    try:
        with open(os.path.join(folder, "project.json"), encoding="utf-8") as file:
            config = json.load(file)["config"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    found = config if isinstance(config, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, dict)}
