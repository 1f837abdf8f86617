"""Starts a server from verified bytecode, and runs nothing else of the server's folder.

`server.py` compiles this file at every start, so that it is short: it reads what an earlier start
has kept, or lets `bytecode` compare the sources with the manifest; `modules` does the imports.
"""

import _imp
import gc
import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

FORM = f"1 {sys.implementation.cache_tag} {sys.hexversion:x}\0"  # whose bytecode it is
KEY = 8  # of the checksums, which tell a file of which a crash or a full disk left a half
HEAD = 12  # bytes: the checksum of the facts, and their length
HOMES = {"darwin": "~/Library/Caches/ralphgen", "win32": "~/AppData/Local/ralphgen/Cache"}


def start(arguments: "Sequence[str]", folder: str, kits: "Sequence[str]") -> int:
    """Verify the server in `folder`, run it and return its exit code, 2 where it must not start."""
    gc.disable()  # what is made until the first request lives to the end
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != folder]
    kit = next((word for word in arguments if word in kits), kits[0])
    try:
        with open(f"{folder}/manifest.json", "rb") as file:
            manifest = file.read()
        kept = open_kept(name_of(folder, manifest))
        if kept is not None and kept.facts[:2] != (folder, manifest):
            kept = None
        finder = run("modules", folder, kept).Modules(folder, manifest, kept)
        finder.require("", "runtime", f"runtime/{kit}")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"server.py: {error}\n")
        return 2
    sys.meta_path.insert(0, finder)
    __import__("runtime.start")
    status: int = sys.modules["runtime.start"].start(arguments, folder, kits)
    return status


def run(name: str, folder: str, kept: "Kept | None" = None) -> "Any":
    """Return a module of the runtime, which runs without a finder: from its source if need be."""
    path = f"{folder}/runtime/{name}.py"
    code = kept.code(f"runtime/{name}.py") if kept is not None else None
    if code is None:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
    module = sys.modules[f"runtime.{name}"] = type(sys)(f"runtime.{name}")
    module.__package__ = "runtime"
    exec(code, vars(module))
    return module


class Kept:
    """A file of the cache: some facts, and bytecode that is read when it is wanted."""

    def __init__(self, file: "Any", facts: bytes) -> None:
        self._file = file
        self._start = HEAD + len(facts)
        self.facts, self._index = marshal.loads(facts)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def code(self, name: str) -> "Any":
        """Return the code of a source file, None where it is not there or was damaged."""
        offset, size, checksum = self._index.get(name, (0, 0, b""))
        self._file.seek(self._start + offset)
        data = self._file.read(size)
        return marshal.loads(data) if _imp.source_hash(KEY, data) == checksum else None


def open_kept(name: str) -> Kept | None:
    """Return what is kept under a name, None for what is not there, damaged or anybody's to write.

    The user's own bytecode counts alone, in a folder that is the user's own.
    """
    folder = cache_folder()
    try:
        file = open(f"{folder}/{name}", "rb", buffering=0)
        head = file.read(HEAD)
        facts = file.read(int.from_bytes(head[KEY:], "little"))
        private = is_private(os.lstat(folder)) and is_private(os.fstat(file.fileno()))
        if private and _imp.source_hash(KEY, facts) == head[:KEY]:
            return Kept(file, facts)
        file.close()
    except (OSError, EOFError, ValueError, TypeError):
        pass
    return None


def name_of(folder: str, manifest: bytes) -> str:
    """Return the name under which the project's part of a server is kept."""
    whole = FORM.encode() + os.fsencode(folder) + manifest
    return f"project-{_imp.source_hash(KEY, whole).hex()}"


def cache_folder() -> str:
    """Return where bytecode is kept: `bytecode`, beside the `environments` of the user."""
    caches = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    home = os.environ.get("RALPHGEN_HOME") or HOMES.get(sys.platform) or f"{caches}/ralphgen"
    return os.path.abspath(os.path.expanduser(f"{home}/bytecode"))


def is_private(about: os.stat_result) -> bool:
    """Return whether what has this `stat` belongs to this user, and nobody else may write it."""
    return os.name != "posix" or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)
