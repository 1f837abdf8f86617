"""The part of `os` that is written in C, and a check whether `ralphgen launch` started us.

`os` imports `collections.abc`, which takes a tenth of the start of a server. This module has the
`os.path` functions that a start needs, for plain paths; other paths are left to `os`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

else:
    ModuleType = type(sys)


__all__ = ["os", "variable"]

KIND, FOLDER, FILE, LINK = 0o170000, 0o040000, 0o100000, 0o120000  # bits of a file's mode


class Part(ModuleType):
    """A partial module that loads the rest when a missing attribute is used."""

    def __getattr__(self, name: str) -> Any:
        """Load the whole module and return the missing attribute."""
        whole = __import__("os")
        vars(os).update(vars(whole))
        return getattr(whole.path if self.__name__ == "path" else whole, name)


def variable(name: str) -> str | None:
    """Return a variable of the environment, or None."""
    whole = sys.modules.get("os")
    key = name if whole else name.encode()
    value: Any = vars(whole or sys.modules["posix"])["environ"].get(key)
    return value.decode(errors="surrogateescape") if type(value) is bytes else value


def join(path: str, *more: str) -> str:
    """Return paths as one; each is below the one before, unless it is absolute."""
    for name in more:
        path = name if name[:1] == "/" or not path else f"{path.removesuffix('/')}/{name}"
    return path


def isabs(path: str) -> bool:
    """Return whether the path begins at the root."""
    return path[:1] == "/"


def dirname(path: str) -> str:
    """Return the path without its last part."""
    head = path[: path.rfind("/") + 1]
    return head.rstrip("/") or head


def basename(path: str) -> str:
    """Return the last part of the path."""
    return path[path.rfind("/") + 1 :]


def lexists(path: str) -> bool:
    """Return whether anything is there, be it a link to nothing."""
    return _mode(os.lstat, path) != 0


def exists(path: str) -> bool:
    """Return whether a file or a folder is there."""
    return _mode(os.stat, path) != 0


def isdir(path: str) -> bool:
    """Return whether a folder is there."""
    return _mode(os.stat, path) & KIND == FOLDER


def isfile(path: str) -> bool:
    """Return whether a file is there."""
    return _mode(os.stat, path) & KIND == FILE


def getsize(path: str) -> int:
    """Return the bytes of a file."""
    return os.stat(path).st_size


def normpath(path: str) -> str:
    """Return the path without redundant parts."""
    return path if _is_plain(path) else str(__import__("os").path.normpath(path))


def realpath(path: str) -> str:
    """Return the path without links."""
    end = len(path) if _is_plain(path) else -1
    while end > 0 and _mode(os.lstat, path[:end]) & KIND not in {0, LINK}:
        end = path.rfind("/", 0, end)
    return path if end == 0 else str(__import__("os").path.realpath(path))


def _is_plain(path: str) -> bool:
    """Return whether a path is absolute, and each of its parts a name."""
    return path[:1] == "/" and not {"", ".", ".."} & {*path[1:].split("/")}


def _mode(stat: Callable[[str], Any], path: str) -> int:
    try:
        return int(stat(path).st_mode)
    except (OSError, ValueError):
        return 0


if not TYPE_CHECKING:
    if "os" in sys.modules or "posix" not in sys.modules:
        import os
    else:
        os = Part("os")
        vars(os).update(vars(sys.modules["posix"]))
        del os.environ  # holds bytes
        os.SEEK_SET, os.devnull = 0, "/dev/null"
        os.path = Part("path")
        for function in (
            isabs,
            join,
            dirname,
            basename,
            lexists,
            exists,
            isdir,
            isfile,
            getsize,
            normpath,
            realpath,
        ):
            setattr(os.path, function.__name__, function)


SESSION_VARIABLE = "RALPHGEN_SESSION"  # the session's id, in every process that `launch` starts


def is_below_launch() -> bool:
    """Return whether this process belongs to an agent that `ralphgen launch` has started.

    Seen is what has the session's mark in its environment, or in that of a process above it. What
    cuts itself loose from both is not seen: that is for the permissions of the agent's shell.
    """
    return variable(SESSION_VARIABLE) is not None or launched_session() != ""


def launched_session() -> str:
    """Return the id of the session that this process belongs to, empty if there is none.

    The farthest marked process above this one decides: an agent can set the variable for its
    children, but not for the process that has started the agent.
    """
    for process in reversed(_ancestors()):
        if found := _mark(process):
            return found
    return variable(SESSION_VARIABLE) or ""


def _mark(process: int) -> str:
    """Return the session's id in the environment of a process, as far as that may be read."""
    try:
        variables = b"\0" + _read(f"/proc/{process}/environ")
    except OSError:
        return ""
    found = variables.partition(f"\0{SESSION_VARIABLE}=".encode())[2]
    return found.partition(b"\0")[0].decode(errors="surrogateescape")


def _ancestors() -> list[int]:
    """Return the processes above this one, nearest first, as far as the system reports them."""
    found = [os.getppid()]
    while found[-1] > 1:
        try:
            status = _read(f"/proc/{found[-1]}/stat").decode("utf-8", "replace")
        except OSError:
            break
        found.append(int(status.rpartition(")")[2].split()[1]))
    return found


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
