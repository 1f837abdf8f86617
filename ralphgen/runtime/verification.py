"""Compares the sources of a server with its manifest, and keeps their bytecode in a record.

The compiled bytes are the compared ones. A start with a record that fits does not import this.
"""

from __future__ import annotations

import _imp
import os
import sys
from marshal import dumps, loads

from .loader import KEY, PLAIN, STARTS, read_manifest, read_part, stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType
    from typing import Any

    from .loader import Facts, Index, Stamp

UNKNOWN = (0, 0, 0, 0)  # a stamp that no file has
UNSETTLED = 50_000_000  # nanoseconds; another write within this time may leave the same stamp
MOST = 50  # records in the cache
ANNOTATIONS = 1 << 24  # the flag of the compiler for `from __future__ import annotations`
FIX = 'run "ralphgen regen --force"'


def keep_verified(folder: str) -> None:
    """Keep the record of a server before its first start; raises as `verified`."""
    import time

    time.sleep(UNSETTLED / 1e9)  # the sources were written just before
    keep(*verified(folder))


def verified(folder: str, *, trusting: bool = False) -> tuple[Facts, dict[str, bytes]]:
    """Return the facts of the server in `folder`, and the bytecode of its modules.

    A source that was written just before has no stamp, so that the next start compares it again.
    Raises OSError without a manifest, and ValueError for an invalid one and for a source that
    cannot be read or, unless `trusting`, was edited.
    """
    import hashlib

    known = _settled_stamp(f"{folder}/manifest.json")
    manifest = read_manifest(folder)
    values = _values(f"{folder}/manifest.json", manifest)
    stamps: list[Stamp] = []
    files: dict[str, str] = {}
    codes: dict[str, bytes] = {}
    digests = _digests(f"{folder}/manifest.json", values)
    compiled = {} if trusting else _compiled(digests)
    for listed, digest in digests.items():
        path = f"{folder}/{listed}"
        printable = path.encode("unicode_escape").decode()
        about = _settled_stamp(path)
        try:
            with open(path, "rb") as opened:
                source = opened.read()
        except OSError as error:
            raise ValueError(f'cannot read "{printable}" ({error.strerror}): {FIX}') from error
        if not trusting and hashlib.sha256(source).hexdigest() != digest:
            raise ValueError(
                f'"{printable}" was changed after it was generated: restore it, or {FIX}'
            )
        stamps.append(about)
        name = listed.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            if listed in compiled:
                code = _moved(loads(compiled[listed]), path)
            else:
                text = _for_a_run(source.decode())
                code = compile(text, path, "exec", ANNOTATIONS, dont_inherit=True, optimize=2)
        except (RecursionError, SyntaxError, ValueError) as error:  # refused if it is imported
            code = compile(f"raise SyntaxError({str(error)!r})", path, "exec")
        files[name], codes[name] = listed, dumps(code)
    del values["files"]
    return (folder, manifest, files, dumps(stamps, PLAIN), (known, values), ()), codes


def _settled_stamp(path: str) -> Stamp:
    """Return the stamp of a file, `UNKNOWN` if it was written just before or is missing."""
    import time

    about = stamp(path)
    return about if about and abs(time.time_ns() - about[2]) > UNSETTLED else UNKNOWN


def _values(path: str, manifest: bytes) -> Any:
    """Return the values of the manifest at `path`; raises ValueError if it is not JSON."""
    import json

    try:
        return json.loads(manifest)
    except (ValueError, RecursionError) as error:
        text = f'the manifest "{path}" cannot be used (it is not valid JSON: {error}): {FIX}'
        raise ValueError(text) from error


def _digests(path: str, values: Any) -> dict[str, str]:
    """Return the sha256 of each module that the manifest at `path` lists."""
    problem = ""
    try:
        files = values["files"]
        digests = {str(file): str(files[file]) for file in files if file.endswith(".py")}
        problem = "" if "runtime/start.py" in digests else "it does not list the server's modules"
    except (LookupError, TypeError, AttributeError):
        problem = "it does not name the schema it was built for"
    if problem:
        raise ValueError(f'the manifest "{path}" cannot be used ({problem}): {FIX}')
    for file in digests:
        if file.partition("/")[0].removesuffix(".py") in sys.stdlib_module_names:
            raise ValueError(f"{file!a} has the name of a standard library module: {FIX}")
    return digests


def _compiled(digests: Mapping[str, str]) -> dict[str, bytes]:
    """Return the bytecode of sources with these digests, by file, as far as records have it.

    A start after `regen` compiles only changed modules; a new project or clone, only its own.
    """
    from contextlib import suppress

    found: dict[str, bytes] = {}
    try:
        if not is_private(os.lstat(_place())):
            return found
        with os.scandir(_place()) as records:
            newest = sorted(records, key=lambda one: one.stat().st_mtime_ns, reverse=True)
    except OSError:
        return found
    for entry in newest:
        if len(found) < len(digests):
            with suppress(EOFError, LookupError, MemoryError, OSError, TypeError, ValueError):
                _add_compiled(found, digests, entry)  # it may be written or removed meanwhile
    return found


def _add_compiled(
    found: dict[str, bytes], digests: Mapping[str, str], record: os.DirEntry[str]
) -> None:
    """Add the missing bytecode that a record has; raises one of several errors if it is damaged."""
    with open(record.path, "rb", buffering=0) as file:
        if not is_private(os.fstat(file.fileno())) or not read_part(file):
            return
        facts, _, rest = loads(read_part(file))
        begin, index = file.tell(), loads(rest)
        values = _values(record.path, facts[1])
        same = dict(_digests(record.path, values).items() & digests.items())
        if record.name != _record_name(facts[0], facts[1]) or "runtime/verification.py" not in same:
            return  # of another interpreter, or compiled in another way
        for name, listed in facts[2].items():
            if listed in same and listed not in found:
                offset, size, known = index[name]
                piece = os.pread(file.fileno(), size, begin + offset)
                if _imp.source_hash(KEY, piece) == known:
                    found[listed] = piece


def _moved(code: CodeType, path: str) -> CodeType:
    """Return the same code, as of the source at a path."""
    kind = type(code)
    parts = tuple(_moved(one, path) if type(one) is kind else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=parts)


def _for_a_run(source: str) -> str:
    """Return a source without the parts for type checkers, with the same numbers of lines."""
    lines = source.split("\n")
    is_skipped = False
    for number, line in enumerate(lines):
        is_skipped = is_skipped and line[:1] in ("", " ")
        if is_skipped or line == "from __future__ import annotations":
            lines[number] = ""
        elif line == "if TYPE_CHECKING:":
            lines[number], is_skipped = "if 0: pass", True
    return "\n".join(lines)


def keep(facts: Facts, pieces: Mapping[str, bytes]) -> None:
    """Write a record into the user's cache, wholly or not at all; `server.py` looks for it there.

    A failure costs the next start the same work, and nothing else.
    """
    from contextlib import suppress

    place = _place()
    if "posix" not in sys.modules or place[0] != "/":  # a relative place may be anyone's
        return
    starts: Index = {}
    modules: Index = {}
    size = 0
    for name, piece in pieces.items():
        index = starts if name.startswith(STARTS) else modules
        index[name] = (size, len(piece), _imp.source_hash(KEY, piece))
        size += len(piece)
    parts: list[bytes] = []
    for part in (pieces.get("runtime.loader", b""), dumps((facts, starts, dumps(modules)))):
        parts += (_imp.source_hash(KEY, part), len(part).to_bytes(4, "little"), part)
    path = f"{place}/{_record_name(facts[0], facts[1])}"
    new = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        if is_private(os.lstat(place)):
            with open(new, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(b"".join((*parts, *pieces.values())))
            os.replace(new, path)
            with os.scandir(place) as records:
                by_age = sorted(records, key=lambda one: one.stat().st_mtime_ns)
            for oldest in by_age[:-MOST]:
                os.unlink(oldest)
    except (OSError, ValueError):
        with suppress(OSError):
            os.unlink(new)


def is_private(about: os.stat_result) -> bool:
    """Return whether a file with this `stat` belongs to this user and no other can write it."""
    return sys.platform == "win32" or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)


def _place() -> str:
    """Return the directory of records; the same as in `server.py`."""
    variable = os.environ.get
    caches = "/Library/Caches" if sys.platform == "darwin" else "/.cache"
    home = variable("XDG_CACHE_HOME") or (variable("HOME") or ".") + caches
    return f"{variable('RALPHGEN_HOME') or f'{home}/ralphgen'}/servers"


def _record_name(folder: str, manifest: bytes) -> str:
    """Return the name of the record of a folder's server for this interpreter."""
    whole = (sys.version + folder).encode(errors="surrogateescape") + manifest
    return _imp.source_hash(KEY, whole).hex()
