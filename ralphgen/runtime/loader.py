"""Runs a server from verified bytecode, and finds only the modules that its manifest lists.

A start compares every listed source with the manifest and compiles the compared bytes. It keeps a
record in the user's cache, with which later starts compare only what `stat` reports of the sources.
"""

from __future__ import annotations

import _imp
import gc
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from marshal import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from io import FileIO
    from types import CodeType, ModuleType
    from typing import Any

    Stamp = tuple[int, int, int, int]
    # The server's folder and manifest; the code of this module; the stamp of each source; the file
    # of each module; digests of database schemas; where the other pieces are, with a checksum.
    Facts = tuple[
        str,
        bytes,
        bytes,
        dict[str, Stamp],
        dict[str, str],
        tuple[str, ...],
        dict[str, tuple[int, int, bytes]],
    ]
else:  # `os` imports `collections.abc`, which takes a tenth of a start
    os = sys.modules.get("posix") or __import__("os")
    ModuleType = type(sys)

UNKNOWN = (0, 0, 0, 0)  # a stamp that no file has
KEY = 9  # of the checksums, which detect files that a crash or a full disk cut off
UNSETTLED = 50_000_000  # nanoseconds in which another write may leave the same stamp
PATIENCE = 3.0  # seconds for a `regen` to replace the files
MOST, MOST_SCHEMAS = 50, 8  # records in the cache, and schemas in a record
STARTS = "start of "  # names a piece that holds all modules which a start of a kit runs
ANNOTATIONS = 1 << 24  # the flag of the compiler for `from __future__ import annotations`
FIX = 'run "ralphgen regen --force"'


def start(
    arguments: Sequence[str],
    folder: str,
    kits: Sequence[str],
    record: tuple[Facts, FileIO] | None,
) -> int:
    """Run the server in `folder` and return its exit code, 2 if its files are not as generated.

    `record` is that of an earlier start, if one fits.
    """
    gc.disable()  # what is made until the first request lives to the end
    if not sys.flags.isolated:
        absolute = __import__("os").path.abspath
        sys.path[:] = [place for place in sys.path if absolute(place) != absolute(folder)]
    manifest = record[0][1] if record else b""
    try:
        manifest = manifest or _manifest(folder)
        modules = Modules(folder, record, trusting="--trust-edited" in arguments)
        sys.meta_path.insert(0, modules)
        modules.run_start(next((word for word in arguments if word in kits), kits[0]))
        __import__("runtime.start")
    except (OSError, ValueError) as error:
        start_again(folder, manifest)
        text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in str(error))
        sys.stderr.write(f"server.py: {text}\n")
        return 2
    if {"", ".", ".."} & {*folder[1:].split("/")}:
        folder = __import__("os").path.abspath(folder)
    status: int = sys.modules["runtime.start"].start(arguments, folder, kits)
    return status


class Modules:
    """The finder and loader of a server's modules; raises ValueError if a source was edited.

    If it is `trusting`, edited sources run too, and nothing is kept.
    """

    def __init__(self, folder: str, record: tuple[Facts, FileIO] | None, *, trusting: bool) -> None:
        self.folder = folder
        self.trusting = trusting
        self.pieces: dict[str, bytes] = {}  # read or compiled by this process
        self.is_usual = True  # whether later starts do the same as this one
        self.uses_packages = False
        self.ran: list[str] = []
        self.extensions: dict[str, str] = {}  # the files of modules that are written in C
        if record is not None:
            self.facts, self.file = record
            self.begin = self.file.tell()
            if all(stamp(f"{folder}/{name}") == known for name, known in self.facts[3].items()):
                return
        self.verify()

    def verify(self) -> None:
        """Compile the sources and keep the result."""
        self.facts, self.pieces = verified(self.folder, trusting=self.trusting)
        self.is_usual = False
        self.keep()

    def keep(self) -> None:
        """Write the record, unless edited sources may run."""
        if not self.trusting:
            names = {**self.facts[6], **self.pieces}
            keep(self.facts, {name: self.piece(name) for name in names})

    def piece(self, name: str) -> bytes:
        """Return the bytes of a module or of a start; they are compiled again if damaged."""
        if name not in self.pieces:
            offset, size, checksum = self.facts[6][name]
            try:
                data = os.pread(self.file.fileno(), size, self.begin + offset)
            except OSError:  # such as of a network's file that another machine has replaced
                data = b""
            if _imp.source_hash(KEY, data) == checksum:
                return data
            self.verify()
        return self.pieces.get(name, b"")

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return the specification of a listed module, or None."""
        if name in self.extensions:
            place = self.extensions[name]
            return ModuleSpec(name, ExtensionFileLoader(name, place), origin=place)
        loader: Any = self
        file = self.facts[4].get(name)
        is_package = file is not None and file.endswith("/__init__.py")
        return ModuleSpec(name, loader, is_package=is_package) if file else None

    def create_module(self, _spec: ModuleSpec) -> None:
        """Leave it to the import system to make a module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's verified code."""
        self.run(module, loads(self.piece(module.__name__)))

    def run(self, module: ModuleType, code: CodeType) -> None:
        """Run code in a module."""
        module.__file__ = f"{self.folder}/{self.facts[4][module.__name__]}"
        exec(code, vars(module))
        self.ran.append(module.__name__)

    def run_start(self, kit: str) -> None:
        """Run all modules that an earlier start of the kit ran, in their order.

        They are read as one piece, and none of them is looked for: half of the time of imports.
        """
        piece = self.piece(f"{STARTS}{kit}") if f"{STARTS}{kit}" in self.facts[6] else b""
        codes, extensions = loads(piece) if piece else ([], {})
        self.extensions = {  # the import system would look for them there, too
            name: place
            for name, place in extensions.items()
            if place.rpartition("/")[0] in sys.path and stamp(place)
        }
        for name, _ in codes:
            module = sys.modules[name] = ModuleType(name)
            module.__package__ = name.rpartition(".")[0]
            if self.facts[4][name].endswith("/__init__.py"):
                module.__package__, module.__path__ = name, []
        for name, _ in codes:
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, sys.modules[name])
        for name, code in codes:
            self.run(sys.modules[name], code)

    def settle(self, kit: str) -> None:
        """Keep the modules of this start for later ones, or a schema that was compared."""
        if not self.is_usual:
            self.keep()
        elif kit and f"{STARTS}{kit}" not in self.facts[6]:
            codes = [(name, loads(self.piece(name))) for name in self.ran]
            if self.uses_packages:  # a module may import them before they are added
                return
            extensions = {
                name: spec.origin
                for name, module in sys.modules.items()
                if (spec := getattr(module, "__spec__", None))  # "typing.io" has none
                and isinstance(spec.loader, ExtensionFileLoader)
            }
            self.pieces[f"{STARTS}{kit}"] = dumps((codes, extensions))
            self.keep()


def settle(kit: str) -> None:
    """Keep what later starts of the kit can use, or only the schema if the kit is empty."""
    if isinstance(sys.meta_path[0], Modules):
        sys.meta_path[0].settle(kit)


def is_known(schema: str) -> bool:
    """Return whether an earlier start compared these definitions of a database with the manifest.

    Otherwise the columns have to be read, which takes as long as the rest of a start.
    """
    modules = sys.meta_path[0]
    return isinstance(modules, Modules) and schema in modules.facts[5]


def remember(schema: str) -> None:
    """Have `settle` record that definitions with this digest are those of the manifest."""
    modules = sys.meta_path[0]
    if schema and isinstance(modules, Modules):
        schemas = (schema, *modules.facts[5])[:MOST_SCHEMAS]
        modules.facts = (*modules.facts[:5], schemas, modules.facts[6])
        modules.is_usual = False


def start_again(folder: str, manifest: bytes) -> None:
    """Replace this process by a new start if `regen` has replaced the files since the manifest.

    Waits until it is done; returns if it is not done in time, or if there was none.
    """
    import time

    end = time.monotonic() + PATIENCE
    while is_replaced(folder):
        if time.monotonic() > end:
            return
        time.sleep(0.02)
    try:
        is_new = _manifest(folder) != manifest
    except OSError:
        return
    if is_new and "posix" in sys.modules:
        __import__("os").execv(sys.executable, sys.orig_argv)


def is_replaced(folder: str) -> bool:
    """Return whether a `regen` is replacing the files, or was interrupted at it."""
    return stamp(f"{folder}/.commit") is not None


def add_packages() -> None:
    """Make installed packages importable, which `-S` leaves out; later calls cost nothing."""
    if isinstance(sys.meta_path[0], Modules):
        sys.meta_path[0].uses_packages = True
    if "site" not in sys.modules:
        import site

        site.main()


def stamp(path: str) -> Stamp | None:
    """Return values of which one differs after a write to a file, or for another file."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino


def is_private(about: os.stat_result) -> bool:
    """Return whether a file with this `stat` belongs to this user and no other can write it."""
    return sys.platform == "win32" or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)


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
    import time

    manifest = _manifest(folder)
    stamps: dict[str, Stamp] = {}
    files: dict[str, str] = {}
    codes: dict[str, bytes] = {}
    digests = _digests(f"{folder}/manifest.json", manifest)
    compiled = {} if trusting else _compiled(digests)
    for listed, digest in digests.items():
        path = f"{folder}/{listed}"
        printable = path.encode("unicode_escape").decode()
        about = stamp(path)
        try:
            with open(path, "rb") as opened:
                source = opened.read()
        except OSError as error:
            raise ValueError(f'cannot read "{printable}" ({error.strerror}): {FIX}') from error
        if not trusting and hashlib.sha256(source).hexdigest() != digest:
            raise ValueError(
                f'"{printable}" was changed after it was generated: restore it, or {FIX}'
            )
        is_settled = about and abs(time.time_ns() - about[2]) > UNSETTLED
        stamps[listed] = about if about and is_settled else UNKNOWN
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
    return (folder, manifest, codes.get("runtime.loader", b""), stamps, files, (), {}), codes


def _manifest(folder: str) -> bytes:
    with open(f"{folder}/manifest.json", "rb") as file:
        return file.read()


def _compiled(digests: Mapping[str, str]) -> dict[str, bytes]:
    """Return the bytecode of sources with these digests, by file, as far as records have it.

    A start after `regen` compiles only changed modules; a new project or clone, only its own.
    """
    import os
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
    with open(record.path, "rb") as file:
        checksum, head = file.read(8), file.read(int.from_bytes(file.read(4), "little"))
        begin = file.tell()
        if not is_private(os.fstat(file.fileno())) or _imp.source_hash(KEY, head) != checksum:
            return
        facts: Facts = loads(head)
        same = dict(_digests(record.path, facts[1]).items() & digests.items())
        if record.name != _record_name(facts[0], facts[1]) or "runtime/loader.py" not in same:
            return  # of another interpreter, or compiled in another way
        for name, listed in facts[4].items():
            if listed in same and listed not in found:
                offset, size, known = facts[6][name]
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


def _digests(path: str, manifest: bytes) -> dict[str, str]:
    """Return the sha256 of each module that the manifest at `path` lists."""
    import json

    problem = ""
    try:
        files = json.loads(manifest)["files"]
        digests = {str(file): str(files[file]) for file in files if file.endswith(".py")}
        problem = "" if "runtime/start.py" in digests else "it does not list the server's modules"
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


def _place() -> str:
    """Return the directory of records; the same as in `server.py`."""
    variable = __import__("os").environ.get
    caches = "/Library/Caches" if sys.platform == "darwin" else "/.cache"
    home = variable("XDG_CACHE_HOME") or (variable("HOME") or ".") + caches
    return f"{variable('RALPHGEN_HOME') or f'{home}/ralphgen'}/servers"


def _record_name(folder: str, manifest: bytes) -> str:
    """Return the name of the record of a folder's server for this interpreter."""
    whole = (sys.version + folder).encode(errors="surrogateescape") + manifest
    return _imp.source_hash(KEY, whole).hex()


def keep(facts: Facts, pieces: Mapping[str, bytes]) -> None:
    """Write a record into the user's cache, wholly or not at all; `server.py` looks for it there.

    A failure costs the next start the same work, and nothing else.
    """
    import os
    from contextlib import suppress

    place = _place()
    if "posix" not in sys.modules or place[0] != "/":  # a relative place may be anyone's
        return
    index, size = {}, 0
    for name, piece in pieces.items():
        index[name] = (size, len(piece), _imp.source_hash(KEY, piece))
        size += len(piece)
    head = dumps((*facts[:6], index))
    parts = (_imp.source_hash(KEY, head), len(head).to_bytes(4, "little"), head, *pieces.values())
    path = f"{place}/{_record_name(facts[0], facts[1])}"
    new = f"{path}.{os.getpid()}.new"
    try:
        os.makedirs(place, 0o700, exist_ok=True)
        if is_private(os.lstat(place)):
            with open(new, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(b"".join(parts))
            os.replace(new, path)
            with os.scandir(place) as records:
                by_age = sorted(records, key=lambda one: one.stat().st_mtime_ns)
            for oldest in by_age[:-MOST]:
                os.unlink(oldest)
    except (OSError, ValueError):
        with suppress(OSError):
            os.unlink(new)
