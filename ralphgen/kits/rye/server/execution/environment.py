"""Makes the environment of a tool's process: little of the server's, and what the chain sets.

A server's environment holds secrets, so only variables that are allowed are passed on.
"""

from __future__ import annotations

import os
import sys

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import is_within

from ..values import EXECUTION_FAILED, VALIDATION_FAILED
from .config import Filling, choice_at, mapping_at, scalar_at, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

# Where programs are, who we are, where temporary files go, and in what language to speak.
ALLOWED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP"),
        *("SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT"),
    )
)
ALLOWED_PREFIX = "LC_"
VENV, BINARY = "venv_python", "system_binary"
VENV_PATH = ".venv"
MOST = 1 << 20  # characters of all that the chain sets: each variable may name another one twice


class ToolEnvironment:
    """The variables of a tool's processes; `interpreters` are those that name a program.

    `unset` collects the variables that an author named and that are not there. Without `venvs` no
    environment of the project is used: it is code that nobody has signed; `unused` are such.
    """

    __slots__ = ("_project", "_room", "_venvs", "interpreters", "unset", "unused", "variables")

    def __init__(self, project: str, further: Iterable[str], *, venvs: bool = True) -> None:
        self._project = project
        self._venvs = venvs
        self.unused: list[str] = []
        self._room = MOST
        self.variables = allowed(os.environ, frozenset(further))
        self.interpreters: dict[str, str] = {}
        self.unset: dict[str, None] = {}

    def add(self, where: str, said: object) -> None:
        """Take in what one element of a chain says of its interpreter and its variables.

        The primitive's comes first, the tool's last: so the one nearer to the tool wins, and may
        use what the others have set. Raises `CodedError`.
        """
        members = mapping_at(f"env_config of {where}", said)
        if members.get("interpreter") is not None:
            self._add_interpreter(f"env_config.interpreter of {where}", members["interpreter"])
        if members.get("env") is not None:
            self.extend(f"env_config.env of {where}", members["env"])

    def extend(self, where: str, said: object) -> None:
        """Set variables, each by a text that may name those before it; raises `CodedError`."""
        for name, text in mapping_at(where, said).items():
            filling = Filling({}, variables=self.variables)
            flat = str(text).lower() if isinstance(text, bool) else text
            value = filling.text(scalar_at(f"{where}.{name}", flat))
            self._room -= len(value)
            if self._room < 0:
                why = f'"{where}" sets variables of more than {MOST:,} characters: shorten them'
                raise CodedError(VALIDATION_FAILED, why)
            self.variables[checked_name(where, name)] = value
            self.unset |= filling.unset

    def _add_interpreter(self, where: str, said: object) -> None:
        members = mapping_at(where, said)
        name = checked_name(where, text_at(f"{where}.var", members.get("var")))
        kind = choice_at(f"{where}.type", members.get("type"), (VENV, BINARY))
        if kind == VENV:
            found = self._venv(where, members)
        else:
            found = self._which(text_at(f"{where}.binary", members.get("binary")))
        fallback = members.get("fallback")
        if not found and fallback is not None:
            text_at(f"{where}.fallback", fallback)
            # In the place of another Python, the one that runs this server.
            found = self._which(fallback) or (sys.executable if kind == VENV else "") or fallback
        if not found:
            raise CodedError(EXECUTION_FAILED, f'no interpreter matches "{where}": install one')
        self.variables[name] = self.interpreters[name] = found

    def _venv(self, where: str, members: Mapping[str, Any]) -> str:
        """Return the Python of an environment in the project, which is a link to one elsewhere."""
        written = text_at(f"{where}.venv_path", members.get("venv_path", VENV_PATH))
        folder = os.path.normpath(os.path.join(self._project, written))
        if folder == self._project or not is_within(folder, self._project):
            raise CodedError(
                VALIDATION_FAILED, f'"{where}.venv_path" must be a directory inside the project'
            )
        for path in (f"{folder}/bin/python", f"{folder}/Scripts/python.exe"):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                if self._venvs:
                    return path
                self.unused.append(written)
                break
        return ""

    def _which(self, name: str) -> str:
        """Return the path of a program that the child would find by its name; empty for none."""
        from shutil import which

        return which(name, path=self.variables.get("PATH", os.defpath)) or ""


def allowed(server: Mapping[str, str], further: frozenset[str]) -> dict[str, str]:
    """Return the variables of a server's environment that are passed on."""
    names = ALLOWED | further
    return {
        name: value
        for name, value in server.items()
        if name in names or name.startswith(ALLOWED_PREFIX)
    }


def checked_name(where: str, name: str) -> str:
    """Return the name of a variable; raises `CodedError` for one that no environment can hold."""
    if not name or "=" in name or not name.isprintable() or not name.isascii():
        raise CodedError(VALIDATION_FAILED, f'"{where}" contains an invalid variable name')
    return name
