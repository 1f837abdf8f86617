"""Runs a server from verified bytecode, and finds only the modules that its manifest lists.

A start without a record in the user's cache verifies the sources and makes one (`verification`).
Later starts compare only what `stat` reports of the sources.
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
    # The server's folder and manifest; the file of each module; the stamps of these files, in the
    # format of `marshal`; the manifest's stamp and values; digests of database schemas.
    Facts = tuple[str, bytes, dict[str, str], bytes, tuple[Stamp, dict[str, Any]], tuple[str, ...]]
    # Positions of pieces in a record, with checksums.
    Index = dict[str, tuple[int, int, bytes]]
else:  # `os` imports `collections.abc`, which takes a tenth of a start
    os = sys.modules.get("posix") or __import__("os")
    ModuleType = type(sys)

KEY = 9  # of the checksums, which detect files that a crash or a full disk cut off
PLAIN = 0  # the format of `marshal` in which equal values have the same bytes
MOST_SCHEMAS = 8  # in a record
PATIENCE = 3.0  # seconds for a `regen` to replace the files
VERIFICATION = __name__.replace("loader", "verification")
STARTS = "start of "  # names a piece that holds all modules which a start of a kit runs


def start(
    arguments: Sequence[str],
    folder: str,
    kits: Sequence[str],
    manifest: bytes,
    record: FileIO | None,
) -> int:
    """Run the server in `folder` and return its exit code, 2 if its files are not as generated.

    `record` is that of an earlier start, if this code is from one: its other parts follow.
    """
    gc.disable()  # objects created before the first request live to the end
    if not sys.flags.isolated:
        absolute = __import__("os").path.abspath
        sys.path[:] = [place for place in sys.path if absolute(place) != absolute(folder)]
    try:
        manifest = manifest or read_manifest(folder)
        modules = Modules(folder, manifest, record, trusting="--trust-edited" in arguments)
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

    def __init__(
        self, folder: str, manifest: bytes, record: FileIO | None, *, trusting: bool
    ) -> None:
        self.folder = folder
        self.trusting = trusting
        self.pieces: dict[str, bytes] = {}  # read or compiled by this process
        self.is_usual = True  # whether later starts do the same as this one
        self.uses_packages = False
        self.ran: list[str] = []
        self.extensions: dict[str, str] = {}  # the files of modules that are written in C
        self.file: FileIO | None = None
        self.index: Index = {}
        self.rest = b""  # of the index
        if record is not None and (part := read_part(record)):
            facts, index, rest = loads(part)
            if facts[:2] == (folder, manifest):
                self.facts, self.index, self.rest = facts, index, rest
                self.file, self.begin = record, record.tell()
                if stamps(folder, facts[2]) == facts[3]:
                    return
        self.verify()

    def verify(self) -> None:
        """Compile the sources and keep the result."""
        verified = self.verification().verified
        self.facts, self.pieces = verified(self.folder, trusting=self.trusting)
        self.index, self.rest = {}, b""
        self.is_usual = False
        self.keep()

    def keep(self) -> None:
        """Write the record, unless edited sources may run."""
        if not self.trusting:
            names = {**self.positions(), **self.pieces}
            keep = self.verification().keep
            keep(self.facts, {name: self.piece(name) for name in names})

    def verification(self) -> Any:
        """Return the module that verifies sources: that of the record, or else of the folder."""
        if VERIFICATION in sys.modules:
            return sys.modules[VERIFICATION]
        path = f"{self.folder}/runtime/verification.py"
        module = ModuleType(VERIFICATION)
        module.__package__, module.__file__ = "runtime", path
        try:
            data = self.recorded_bytes(VERIFICATION)
            if data:
                code = loads(data)
            else:
                with open(path, "rb") as source:
                    code = compile(source.read(), path, "exec")
            exec(code, vars(module))
            _ = module.verified
        except Exception as error:
            text = f"cannot load {path!a} ({type(error).__name__}: {error})"
            raise ValueError(f'{text}: run "ralphgen regen --force"') from error
        sys.modules[VERIFICATION] = module
        return module

    def positions(self) -> Index:
        """Return the positions of all pieces in the record; a usual start needs only one."""
        if self.rest:
            self.index, self.rest = {**self.index, **loads(self.rest)}, b""
        return self.index

    def recorded_bytes(self, name: str) -> bytes:
        """Return the bytes of a module or of a start from the record, empty if it has none."""
        index = self.index if name in self.index else self.positions()
        if self.file is None or name not in index:
            return b""
        offset, size, checksum = index[name]
        try:
            data = os.pread(self.file.fileno(), size, self.begin + offset)
        except OSError:  # such as of a network's file that another machine has replaced
            return b""
        return data if _imp.source_hash(KEY, data) == checksum else b""

    def piece(self, name: str) -> bytes:
        """Return the bytes of a module or of a start; they are compiled again if damaged."""
        if name not in self.pieces:
            if data := self.recorded_bytes(name):
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
        file = self.facts[2].get(name)
        is_package = file is not None and file.endswith("/__init__.py")
        return ModuleSpec(name, loader, is_package=is_package) if file else None

    def create_module(self, _spec: ModuleSpec) -> None:
        """Leave it to the import system to make a module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's verified code."""
        self.run(module, loads(self.piece(module.__name__)))

    def run(self, module: ModuleType, code: CodeType) -> None:
        """Run code in a module."""
        module.__file__ = f"{self.folder}/{self.facts[2][module.__name__]}"
        exec(code, vars(module))
        self.ran.append(module.__name__)

    def run_start(self, kit: str) -> None:
        """Run all modules that an earlier start of the kit ran, in their order.

        They are read as one piece, and none of them is looked for: half of the time of imports.
        """
        piece = self.piece(f"{STARTS}{kit}") if f"{STARTS}{kit}" in self.index else b""
        codes, extensions = loads(piece) if piece else ([], {})
        self.extensions = {  # the import system would look for them there, too
            name: place
            for name, place in extensions.items()
            if place.rpartition("/")[0] in sys.path and stamp(place)
        }
        for name, _ in codes:
            module = sys.modules[name] = ModuleType(name)
            module.__package__ = name.rpartition(".")[0]
            if self.facts[2][name].endswith("/__init__.py"):
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
        elif kit and f"{STARTS}{kit}" not in self.index:
            codes = [(name, loads(self.piece(name))) for name in self.ran]
            if self.uses_packages:  # a module may import them before they are added
                return
            if "posix" in sys.modules:
                __import__("fcntl")  # the start of a prepared session needs it too
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
    """Make `settle` record that definitions with this digest match the manifest."""
    modules = sys.meta_path[0]
    if schema and isinstance(modules, Modules):
        schemas = (schema, *modules.facts[5])[:MOST_SCHEMAS]
        modules.facts = (*modules.facts[:5], schemas)
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
        is_new = read_manifest(folder) != manifest
    except OSError:
        return
    if is_new and "posix" in sys.modules:
        __import__("os").execv(sys.executable, sys.orig_argv)


def read_manifest(folder: str) -> bytes:
    """Return the manifest of the server; raises OSError."""
    with open(f"{folder}/manifest.json", "rb", buffering=0) as file:
        return file.read()


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


def read_part(record: FileIO) -> bytes:
    """Return the next part of a record, empty if it is damaged."""
    try:
        checksum, size = record.read(8), record.read(4)
        data = record.read(int.from_bytes(size, "little"))
    except (MemoryError, OSError):
        return b""
    return data if _imp.source_hash(KEY, data) == checksum else b""


def cached_manifest(known: Stamp) -> dict[str, Any] | None:
    """Return the values of the manifest, or None if the verified one had another stamp."""
    modules = sys.meta_path[0]
    if not isinstance(modules, Modules):
        return None
    verified, values = modules.facts[4]
    return values if verified == known else None


def stamps(folder: str, files: Mapping[str, str]) -> bytes:
    """Return the stamps of the modules' files in a folder, in the format of `marshal`."""
    return dumps([stamp(f"{folder}/{file}") for file in files.values()], PLAIN)


def stamp(path: str) -> Stamp | None:
    """Return values that detect a write to a file or another file in its place; None on error."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino
