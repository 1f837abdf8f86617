"""Compares the server's sources with its manifest, and keeps their bytecode for the next starts."""

from __future__ import annotations

import _ast
import _thread
import json
import marshal
import os
import sys
import time
from _imp import source_hash
from contextlib import suppress
from hashlib import sha256

from .kept import cache_folder, open_kept
from .loader import FORM, KEY, LENGTH, is_private, name_of
from .modules import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import CodeType
    from typing import Any

    from .kept import Kept, Parts, Stamp

ANNOTATIONS = 1 << 24  # the compiler's flag for `from __future__ import annotations`
UNSETTLED = 50_000_000  # nanoseconds in which another write may leave the same stamp
MOST = {
    "project-": 100,
    "runtime-": 60,
    "schema-": 200,
    "answers-": 100,
}  # files that are kept, by the beginning of their names
FIRST = "runtime/kept.py"  # what `loader` runs of what is kept
EARLY = ("runtime/modules.py",)  # runs before there is a finder, as that does
UNKEPT = (OSError, RecursionError, SyntaxError, ValueError)  # the last for a file that is no Python
FIX = 'run "ralphgen regen --force"'


def verified(
    folder: str, manifest: bytes, *, trusting: bool = False
) -> tuple[Parts, Callable[[str], CodeType]]:
    """Return the parts of the server that `manifest` describes, and what gives a file's code.

    Raises ValueError, in one line, for a module that is missing, or that is not as it was generated
    unless `trusting`: then nothing is kept either.
    """
    digests = _digests(os.path.join(folder, "manifest.json"), manifest)
    sources: dict[str, bytes] = {}
    stamps: dict[str, dict[str, Stamp | None]] = {"": {}, "runtime": {}}
    for file, digest in digests.items():
        found = _source(os.path.join(folder, file), None if trusting else digest)
        sources[file], stamps.setdefault(_part(file, digests), {})[file] = found
    parts = {
        part: (_name({file: digests[file] for file in files}) if part else "", files)
        for part, files in stamps.items()
    }

    def compiled(file: str) -> CodeType:
        return _compiled(sources[file], file)

    opened: dict[str, Kept | None] = {}  # what any project has kept of these very sources

    def code(file: str) -> CodeType:
        name = parts[_part(file, digests)][0]
        if name not in opened:
            opened[name] = open_kept(name) if name else None
        kept = opened[name]
        return (kept and kept[1](file)) or compiled(file)

    if trusting:
        return parts, compiled
    for name, files in parts.values():
        kept = open_kept(name) if name else None
        if kept is not None:
            kept[2]()
        elif name:
            keep(name, None, files, compiled)
    early = (*parts[""][1], *(file for file in EARLY if file in sources))
    if FIRST in sources:
        facts = (folder, manifest, parts, compiled(FIRST))
        keep(name_of(folder, manifest), facts, early, compiled)
    return parts, code


def keep_also(kept: Kept, name: str, piece: Any) -> None:
    """Keep `piece` with what is kept of the project's part of a server already."""
    (folder, manifest, parts, _), code, _ = kept
    kits = {file.partition("/")[0] for file in parts[""][1]}
    names = (*parts[""][1], *EARLY, *(f"first/{kit}" for kit in sorted(kits)))
    pieces = {**{file: code(file) for file in names}, name: piece}
    there = [file for file, found in pieces.items() if found is not None]
    keep(name_of(folder, manifest), kept[0], there, pieces.__getitem__)


def keep(
    name: str,
    facts: Any = None,
    files: Collection[str] = (),
    code: Callable[[str], Any] | None = None,
) -> None:
    """Keep facts, and the code of files, under a name, whole or not at all.

    Where that fails, nothing but time is lost: the next start does the same again.
    """
    folder = cache_folder()
    new = os.path.join(folder, f"{name}.{os.getpid()}.new")
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        if not is_private(os.lstat(folder)):
            return
        with open(new, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as target:
            pieces = {file: marshal.dumps(code(file)) for file in files} if code else {}
            index, size = {}, 0
            for file, piece in pieces.items():
                index[file] = (size, len(piece), source_hash(KEY, piece))
                size += len(piece)
            head = marshal.dumps((facts, index))
            length = len(head).to_bytes(LENGTH, "little")
            target.write(b"".join((source_hash(KEY, head), length, head, *pieces.values())))
        os.replace(new, os.path.join(folder, name))
        _remove_oldest(folder)
    except UNKEPT:
        with suppress(OSError):
            os.unlink(new)


# CPython 3.11 counts the depth of all threads' trees as one: where a collection of garbage lets
# another thread make its own, both end in "AST constructor recursion depth mismatch".
_MAKING_TREES = _thread.allocate_lock()


def _compiled(source: bytes, file: str) -> CodeType:
    """Return the code of a source: optimized, and without what only type checkers read."""
    flags = ANNOTATIONS | _ast.PyCF_ONLY_AST
    with _MAKING_TREES:
        tree = compile(source, file, "exec", flags, dont_inherit=True)
        tree.body = [left for node in tree.body for left in _for_a_run(node)]
        code: CodeType = compile(tree, file, "exec", ANNOTATIONS, dont_inherit=True, optimize=2)
    return code


def _for_a_run(node: _ast.stmt) -> list[_ast.stmt]:
    """Return what a statement at the top of a module comes to when no checker reads it."""
    if isinstance(node, _ast.ImportFrom) and node.module == "__future__":
        return []
    test = node.test if isinstance(node, _ast.If) else None
    if isinstance(node, _ast.If) and isinstance(test, _ast.Name) and test.id == "TYPE_CHECKING":
        return node.orelse
    return [node]


def _digests(path: str, manifest: bytes) -> dict[str, str]:
    """Return the sha256 of every module that the manifest lists."""
    problem = ""
    try:
        files = json.loads(manifest)["files"]
        digests = {str(file): str(files[file]) for file in files if file.endswith(".py")}
    except (ValueError, RecursionError) as error:
        problem = f"it is not valid JSON: {error}"
    except (LookupError, TypeError, AttributeError):
        problem = "it does not name the schema it was built for"
    if problem:
        raise ValueError(f'the manifest "{path}" cannot be used ({problem}): {FIX}')
    for file in digests:
        if file.partition("/")[0].removesuffix(".py") in sys.stdlib_module_names:
            raise ValueError(f"{file!a} has the name of a standard library module: {FIX}")
    return digests


def _part(file: str, digests: Mapping[str, str]) -> str:
    """Return the part of a file: the project's, the core of the runtime, or a kit's runtime."""
    first, second, *_ = f"{file}/".split("/")
    if first != "runtime":
        return ""
    return f"runtime/{second}" if f"{second}/__init__.py" in digests else "runtime"


def _name(digests: Mapping[str, str]) -> str:
    """Return the name under which the bytecode of these files is kept, whatever project it is."""
    whole = json.dumps([FORM, sorted(digests.items())])
    return f"runtime-{sha256(whole.encode()).hexdigest()[:32]}"


def _source(path: str, digest: str | None) -> tuple[bytes, Stamp | None]:
    """Return the bytes of a listed file with its stamp, None where it was written just now."""
    shown = path.encode("unicode_escape").decode()
    known = stamp(path)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise ValueError(f'cannot read "{shown}" ({error.strerror}): {FIX}') from error
    if digest is not None and sha256(source).hexdigest() != digest:
        raise ValueError(f'"{shown}" was changed after it was generated: restore it, or {FIX}')
    written = max(known[1:3]) if known else time.time_ns()
    return source, known if time.time_ns() - written > UNSETTLED else None


def _remove_oldest(folder: str) -> None:
    """Bound how many files are kept."""
    with os.scandir(folder) as files:  # closed also where another server takes a file away
        found = sorted((file.stat().st_mtime_ns, file.name) for file in files)
    for prefix, most in MOST.items():
        names = [name for _, name in found if name.startswith(prefix)]
        for name in names[:-most]:
            os.unlink(os.path.join(folder, name))
