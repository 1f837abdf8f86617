"""Finds what earlier starts have kept in the user's cache, wherever that is, and runs `modules`."""

from __future__ import annotations

import marshal
import sys
from _imp import source_hash

from .loader import KEY, UNREADABLE, name_of, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .loader import Found

    Stamp = tuple[int, int, int, int]
    # By the name of a part, the name under which its bytecode is kept, and what its files were like
    # when they were compared with the manifest, None for one that was written just before.
    Parts = Mapping[str, tuple[str, Mapping[str, Stamp | None]]]
    # The server's folder, its manifest and parts, and the code of this module.
    Facts = tuple[str, bytes, Parts, object]
    Kept = tuple[Facts, Callable[[str], Any], Callable[[], None]]
else:
    from .loader import os

HOMES = {"darwin": "~/Library/Caches/ralphgen", "win32": "~\\AppData\\Local\\ralphgen\\Cache"}


def start(arguments: Sequence[str], folder: str, kits: Sequence[str], found: Found | None) -> int:
    """Verify the server in `folder`, run it and return its exit code, 2 where it must not start.

    `found` is what was kept of it in the usual place.
    """
    if {"", ".", ".."} & {*folder[1:].split("/")}:
        folder = __import__("os").path.abspath(folder)
    try:
        with open(f"{folder}/manifest.json", "rb") as file:
            manifest = file.read()
        kept = None if found is None else readable(found)
        if kept is None and "--trust-edited" not in arguments:
            kept = open_kept(name_of(folder, manifest))
        if kept and kept[0][:2] != (folder, manifest):
            kept = None
        modules = run("modules", folder, kept)
    except OSError as error:
        sys.stderr.write(f"server.py: {error}\n")
        return 2
    status: int = modules.start(arguments, folder, kits, manifest, kept)
    return status


def run(name: str, folder: str, kept: Kept | None = None) -> Any:
    """Return a module of the runtime, which runs without a finder: from its source if need be."""
    file = f"runtime/{name}.py"
    code = kept and kept[1](file)
    if not code:
        path = f"{folder}/{file}"
        with open(path, "rb") as source:
            code = compile(source.read(), path, "exec")
    module = sys.modules[f"runtime.{name}"] = type(sys)(f"runtime.{name}")
    module.__package__ = "runtime"
    exec(code, vars(module))
    return module


def open_kept(name: str) -> Kept | None:
    """Return what is kept under a name: facts, what returns code by its file, and what closes it.

    That is None for code that is not there or was damaged, and all is where a file is not there,
    damaged or anybody's to write: the user's own counts alone, in a folder that is the user's own.
    """
    try:
        return readable(read(cache_folder(), name))
    except UNREADABLE:
        return None


def readable(found: Found) -> Kept:
    """Return what `open_kept` does, of a file that has been opened."""
    facts, index, file = found
    begin = file.tell()

    def code(name: str) -> Any:
        offset, size, checksum = index.get(name, (0, 0, b""))
        file.seek(begin + offset)
        data = file.read(size)
        return marshal.loads(data) if source_hash(KEY, data) == checksum else None

    return facts, code, file.close


def cache_folder() -> str:
    """Return where bytecode is kept: `bytecode`, beside the `environments` of the user."""
    caches = variable("XDG_CACHE_HOME").strip() or "~/.cache"
    home = variable("RALPHGEN_HOME") or HOMES.get(sys.platform) or f"{caches}/ralphgen"
    if home[:2] == "~/" and variable("HOME")[:1] == "/":
        home = variable("HOME") + home[1:]
    if home[:1] != "/":
        path = __import__("os").path
        home = path.abspath(path.expanduser(home))
    return f"{home}/bytecode"


def variable(name: str) -> str:
    """Return a variable of the environment, empty where it is not set."""
    found: Any = os.environ
    value = found.get(name.encode()) or found.get(name, "")
    return value if type(value) is str else value.decode(errors="surrogateescape")
