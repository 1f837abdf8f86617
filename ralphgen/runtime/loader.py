"""Starts a server from verified bytecode, and runs nothing else of the server's folder.

`server.py` compiles this file at every start, so that it is short, without f-strings, which are
compiled twice: it finds what an earlier start has kept, and runs `modules`, which does the rest.
"""

import gc
import marshal
import sys
from _imp import source_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import Any
else:  # what is written in C; `os` imports `collections.abc`, which takes a tenth of a start
    os = sys.modules.get("posix") or __import__("os")

FORM = "2 " + sys.version + "\0"  # whose bytecode it is
KEY = 8  # of the checksums, which tell a file of which a crash or a full disk left a half
HEAD = 12  # bytes: the checksum of the facts, and their length
HOMES = {"darwin": "~/Library/Caches/ralphgen", "win32": "~\\AppData\\Local\\ralphgen\\Cache"}


def start(arguments: "Sequence[str]", folder: str, kits: "Sequence[str]") -> int:
    """Verify the server in `folder`, run it and return its exit code, 2 where it must not start."""
    gc.disable()  # what is made until the first request lives to the end
    if {"", ".", ".."} & {*folder[1:].split("/")}:
        folder = __import__("os").path.abspath(folder)
    try:
        with open(folder + "/manifest.json", "rb") as file:
            manifest = file.read()
        kept = None if "--trust-edited" in arguments else open_kept(name_of(folder, manifest))
        if kept and kept[0][:2] != (folder, manifest):
            kept = None
        modules = run("modules", folder, kept)
    except OSError as error:
        sys.stderr.write("server.py: " + str(error) + "\n")
        return 2
    status: int = modules.start(arguments, folder, kits, manifest, kept)
    return status


def run(name: str, folder: str, kept: "Any" = None) -> "Any":
    """Return a module of the runtime, which runs without a finder: from its source if need be."""
    file = "runtime/" + name + ".py"
    code = kept and kept[1](file)
    if not code:
        path = folder + "/" + file
        with open(path, "rb") as source:
            code = compile(source.read(), path, "exec")
    module = sys.modules["runtime." + name] = type(sys)("runtime." + name)
    module.__package__ = "runtime"
    exec(code, vars(module))
    return module


def open_kept(name: str) -> "tuple[Any, Callable[[str], Any], Callable[[], None]] | None":
    """Return what is kept under a name: facts, what returns code by its file, and what closes it.

    That is None for code that is not there or was damaged, and all is where a file is not there,
    damaged or anybody's to write: the user's own counts alone, in a folder that is the user's own.
    """
    folder = cache_folder()
    try:
        file = open(folder + "/" + name, "rb", buffering=0)
        head = file.read(HEAD)
        begin = HEAD + int.from_bytes(head[KEY:], "little")
        data = file.read(begin - HEAD)
        private = is_private(os.lstat(folder)) and is_private(os.fstat(file.fileno()))
        if not private or source_hash(KEY, data) != head[:KEY]:
            file.close()
            return None
        facts, index = marshal.loads(data)
    except (OSError, EOFError, ValueError, TypeError):
        return None

    def code(name: str) -> "Any":
        offset, size, checksum = index.get(name, (0, 0, b""))
        file.seek(begin + offset)
        data = file.read(size)
        return marshal.loads(data) if source_hash(KEY, data) == checksum else None

    return facts, code, file.close


def name_of(folder: str, manifest: bytes) -> str:
    """Return the name under which the project's part of a server is kept."""
    whole = (FORM + folder).encode(errors="surrogateescape") + manifest
    return "project-" + source_hash(KEY, whole).hex()


def cache_folder() -> str:
    """Return where bytecode is kept: `bytecode`, beside the `environments` of the user."""
    caches = variable("XDG_CACHE_HOME").strip() or "~/.cache"
    home = variable("RALPHGEN_HOME") or HOMES.get(sys.platform) or caches + "/ralphgen"
    if home[:2] == "~/" and variable("HOME")[:1] == "/":
        home = variable("HOME") + home[1:]
    if home[:1] != "/":
        path = __import__("os").path
        home = path.abspath(path.expanduser(home))
    return home + "/bytecode"


def variable(name: str) -> str:
    """Return a variable of the environment, empty where it is not set."""
    found: Any = os.environ
    value = found.get(name.encode()) or found.get(name, "")
    return value if type(value) is str else value.decode(errors="surrogateescape")


def is_private(about: "os.stat_result") -> bool:
    """Return whether what has this `stat` belongs to this user, and nobody else may write it."""
    return sys.platform == "win32" or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)
