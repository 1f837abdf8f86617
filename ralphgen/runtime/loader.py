"""Starts a server from verified bytecode, and runs nothing else of the server's folder.

`server.py` compiles this file at every start, and a line of it takes a thousandth of that. So it is
short: it looks for what an earlier start has kept, in the usual place alone, and runs `kept`, which
knows all places, from there or from its source.
"""

import gc
import sys
from _imp import source_hash
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from io import FileIO
    from typing import Any

    Found = tuple[Any, dict[str, tuple[int, int, bytes]], FileIO]
else:  # what is written in C; `os` imports `collections.abc`, which takes a tenth of a start
    os = sys.modules.get("posix") or __import__("os")

FORM = "3 " + sys.version + "\0"  # whose bytecode it is
KEY = 8  # of the checksums, which tell a file of which a crash or a full disk left a half
LENGTH = 4  # bytes that say how long the facts are
CACHES = b"/Library/Caches" if sys.platform == "darwin" else b"/.cache"
UNREADABLE = OSError, EOFError, LookupError, TypeError, ValueError


def start(arguments: "Sequence[str]", folder: str, kits: "Sequence[str]") -> int:
    """Verify the server in `folder`, run it and return its exit code, 2 where it must not start."""
    gc.disable()  # what is made until the first request lives to the end
    path = folder + "/runtime/kept.py"
    try:
        found = None if "--trust-edited" in arguments else find(folder)
    except UNREADABLE:
        found = None
    try:
        code = found[0][3] if found else compile(open(path, "rb").read(), path, "exec")
    except OSError as error:
        return sys.stderr.write("server.py: " + str(error) + "\n") and 2
    module = sys.modules["runtime.kept"] = type(sys)("runtime.kept")
    module.__package__ = "runtime"
    exec(code, vars(module))
    status: int = module.start(arguments, folder, kits, found)
    return status


def find(folder: str) -> "Found | None":
    """Return what is kept of a server, as `read` does; None where it is that of another."""
    own: Any = os.environ.get
    with open(folder + "/manifest.json", "rb") as file:
        manifest = file.read()
    home = own(b"RALPHGEN_HOME") or (own(b"XDG_CACHE_HOME") or own(b"HOME") + CACHES) + b"/ralphgen"
    if home[:1] != b"/":  # where anybody's may be
        return None
    found = read(home.decode() + "/bytecode", name_of(folder, manifest))
    return found if found[0][:2] == (folder, manifest) else None


def read(folder: str, name: str) -> "Found":
    """Return the facts, the index and the open file that are kept under a name in a folder.

    Raises one of `UNREADABLE` where there is no such file, where it was damaged, and where it is
    anybody's to write: the user's own counts alone, in a folder that is the user's own.
    """
    file = open(folder + "/" + name, "rb", buffering=0)
    key = file.read(KEY)
    data = file.read(int.from_bytes(file.read(LENGTH), "little"))
    private = is_private(os.lstat(folder)) and is_private(os.fstat(file.fileno()))
    if not private or source_hash(KEY, data) != key:
        raise ValueError
    return *loads(data), file


def name_of(folder: str, manifest: bytes) -> str:
    """Return the name under which the project's part of a server is kept."""
    whole = (FORM + folder).encode(errors="surrogateescape") + manifest
    return "project-" + source_hash(KEY, whole).hex()


def is_private(about: "os.stat_result") -> bool:
    """Return whether what has this `stat` belongs to this user, and nobody else may write it."""
    return sys.platform == "win32" or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)
