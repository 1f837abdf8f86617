"""Finds the modules that a server's manifest lists, and runs them from verified bytecode.

No other file of the server's folder is ever a module, whatever its name and its ending.

A server lists its tools before any runs, and mostly knows the list from an earlier start. So while
a kit's package or a table of its tools runs, the tables, and functions of the kit that it names,
are stood in for by values that import them when they are needed.
"""

from __future__ import annotations

import _imp
import _thread
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader

from .kept import open_kept, run
from .loader import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType, ModuleType
    from typing import Any

    from .kept import Kept, Parts, Stamp

    Code = Callable[[str], CodeType | None]  # of a file
else:
    from .loader import os

    ModuleType = type(os)

OBJECTS = ("RESOURCES", "SERVICES", "TOOLS")  # the values of a kit that are no functions
_lock = _thread.RLock()  # held while a module runs that was named in a table


def start(
    arguments: Sequence[str], folder: str, kits: Sequence[str], manifest: bytes, kept: Kept | None
) -> int:
    """Verify the server in `folder`, run it and return its exit code, 2 where it must not start.

    `manifest` are the bytes of its manifest, and `kept` what an earlier start has kept under it.
    """
    kit = next((word for word in arguments if word in kits), kits[0])
    if not sys.flags.isolated:
        absolute = __import__("os").path.abspath
        sys.path[:] = [place for place in sys.path if absolute(place) != folder]
    try:
        finder = Modules(folder, manifest, kept, kit, trusting="--trust-edited" in arguments)
        finder.require("", "runtime", f"runtime/{kit}")
    except (OSError, ValueError) as error:
        text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in str(error))
        sys.stderr.write(f"server.py: {text}\n")
        return 2
    sys.meta_path.insert(0, finder)
    finder.run_first()
    __import__("runtime.start")
    status: int = sys.modules["runtime.start"].start(arguments, folder, kits)
    return status


def kept_name() -> str:
    """Return the name of what is kept of the server; empty where this start had to compare it."""
    finder = sys.meta_path[0]
    if not isinstance(finder, Modules) or "runtime.bytecode" in sys.modules:
        return ""
    return finder.kept_name


def to_keep_as_one() -> tuple[Kept, str, Sequence[tuple[str, str, CodeType | None]]] | None:
    """Return the modules that have run until now, where every start runs them, and no more.

    They come with what is kept, and the name to keep them under with that; None where they are
    kept already, and where sources or tables were compared, for which other modules run besides.
    """
    finder = sys.meta_path[0]
    if not isinstance(finder, Modules) or "runtime.bytecode" in sys.modules:
        return None
    return finder.to_keep_as_one()


class Modules:
    """A finder for `sys.meta_path`.

    The modules are verified in parts: the project's own, "", the core of the runtime, "runtime",
    and a kit's, "runtime/KIT". `kept` are the facts and the bytecode of an earlier start, `kit` is
    the one that is served. Every method raises ValueError where a file is not as it was generated,
    unless `trusting`.
    """

    def __init__(
        self, folder: str, manifest: bytes, kept: Kept | None, kit: str, *, trusting: bool
    ) -> None:
        self._trusting = trusting
        self._folder = folder
        self._manifest = manifest
        self._running: list[str] = []  # files, the innermost last
        self._codes: dict[str, Code] = {}  # by part that was verified
        self._kept = kept
        self.kept_name = name_of(folder, manifest) if kept else ""
        self._first = f"first/{kit}"  # what the modules are kept as that run at every start
        self._found: dict[str, str] = {}  # modules in the order to run them in, with their files
        self._ran: set[str] = set()  # those of their files that have run
        self._is_first_kept = False
        self._read: dict[str, CodeType] = {}  # by file, what was read with others and has not run
        if kept is None:
            self._verify()
        else:
            self._use(kept[0][2])

    def require(self, *parts: str) -> None:
        """Verify those of the parts that there are."""
        for part in parts:
            if part in self._parts and part not in self._codes:
                name, stamps = self._parts[part]
                if self._kept is not None and all(
                    stamp(f"{self._folder}/{file}") == known for file, known in stamps.items()
                ):
                    self._codes[part] = late_code(name) if name else self._kept[1]
                else:
                    self._verify()

    def find_spec(
        self, name: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        """Return what the import system has to know of a module, None for one not listed."""
        place = name.replace(".", "/")
        if f"{place}.py" in self._listed:
            file, is_package = f"{place}.py", False
        elif f"{place}/__init__.py" in self._listed:
            file, is_package = f"{place}/__init__.py", True
        else:
            return None
        kind = VerifiedLoader
        if self.in_table() and not is_package and self._listed[file] != "runtime":
            kind = LateLoader
        origin = f"{self._folder}/{file}"
        loader = kind(name, origin, self, file)
        return ModuleSpec(name, loader, origin=origin, is_package=is_package)

    def run(self, file: str, module: ModuleType) -> None:
        """Run the code of a file in a module."""
        part = self._listed[file]
        self.require(part)
        code: Any = self._read.pop(file, None) or self._codes[part](file)
        if code is None:  # the bytecode was damaged
            self._verify()
            code = self._codes[part](file)
        vars(_imp)["_fix_co_filename"](code, f"{self._folder}/{file}")
        module.__file__ = f"{self._folder}/{file}"
        self._running.append(file)
        try:
            exec(code, vars(module))
        finally:
            self._running.pop()
        if self._running:  # what it needs itself has run just before
            self._found.pop(module.__name__, None)
        self.note(module.__name__, file)
        self._ran.add(file)

    def note(self, name: str, file: str) -> None:
        """Take note that a module has run now, or could have."""
        self._found.setdefault(name, file)

    def run_first(self) -> None:
        """Run what ran at an earlier start, in that order, without looking for each module.

        Those that come without code were named in tables alone, and run later.
        """
        first = (self._kept and self._kept[1](self._first)) or ()
        self._is_first_kept = bool(first)
        for name, file, code in first:
            if code is not None:
                self._read[file] = code
            if file.endswith("/__init__.py"):
                package = sys.modules[name] = ModuleType(name)
                package.__package__ = name
                package.__path__ = []
        # A kit's own package, which imports all the rest, is there already, without its contents.
        for name, file, code in sorted(first, key=lambda one: not is_of_runtime(one[1])):
            parent, _, last = name.rpartition(".")
            module = sys.modules.get(name)
            if module is None:
                module = sys.modules[name] = LateModule(name) if code is None else ModuleType(name)
                module.__package__ = parent
                if code is None:
                    module.__loader__ = LateLoader(name, f"{self._folder}/{file}", self, file)
            if file in self._read:
                object.__setattr__(module, "__class__", ModuleType)
                self.run(file, module)
            if parent:
                setattr(sys.modules[parent], last, module)

    def to_keep_as_one(self) -> tuple[Kept, str, Sequence[tuple[str, str, CodeType | None]]] | None:
        """Return what has run until now, for `run_first`."""
        if self._kept is None or self._is_first_kept:
            return None
        first = []
        for name, file in self._found.items():
            code: Any = None  # of one that was named in a table
            if file in self._ran:
                code = self._codes[self._listed[file]](file)
                vars(_imp)["_fix_co_filename"](code, f"{self._folder}/{file}")
            first.append((name, file, code))
        return self._kept, self._first, first

    def in_table(self) -> bool:
        """Return whether it is a table of the project's tools that runs now."""
        return bool(self._running) and not self._listed[self._running[-1]]

    def _verify(self) -> None:
        """Compare every source with the manifest."""
        parts, code = run("bytecode", self._folder).verified(
            self._folder, self._manifest, trusting=self._trusting
        )
        self._use(parts)
        self._codes = dict.fromkeys(parts, code)

    def _use(self, parts: Parts) -> None:
        self._parts = parts
        self._listed = {file: part for part, (_, files) in parts.items() for file in files}


def is_of_runtime(file: str) -> bool:
    """Return whether a file is a package of the runtime, of whose contents others import."""
    return file.startswith("runtime/") and file.endswith("/__init__.py")


def late_code(name: str) -> Code:
    """Return what returns the code of a file that is kept under a name, which is opened then."""
    opened: list[Any] = []

    def code(file: str) -> CodeType | None:
        if not opened:
            opened.append(open_kept(name))
        found: CodeType | None = opened[0] and opened[0][1](file)
        return found

    return code


class VerifiedLoader(SourceFileLoader):
    """Runs a module's verified bytecode; its source is read for tracebacks only."""

    def __init__(self, name: str, path: str, modules: Modules, file: str) -> None:
        super().__init__(name, path)
        self.modules = modules
        self.file = file

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        self.modules.run(self.file, module)


class LateValue:
    """Stands for a value of a module that has not run yet: a function, an object, a collection."""

    __slots__ = ("_module", "_name")

    def __init__(self, module: LateModule, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return value_of(self._module, self._name)(*arguments)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the object."""
        return getattr(value_of(self._module, self._name), name)

    def __getitem__(self, key: Any) -> Any:
        """Return a value of the mapping."""
        return value_of(self._module, self._name)[key]

    def __iter__(self) -> Iterator[Any]:
        """Yield the values of the sequence."""
        return iter(value_of(self._module, self._name))


class LateModule(ModuleType):
    """A module that runs when anything but the tables of a project needs a value of it."""

    def __getattr__(self, name: str) -> Any:
        """Return a value of the module, or what stands for it in a table."""
        if name.startswith("__"):
            raise AttributeError(name)
        loader = vars(self)["__loader__"]
        if loader.modules.in_table() and (name.islower() or name in OBJECTS):
            return LateValue(self, name)
        return value_of(self, name)


def value_of(module: ModuleType, name: str) -> Any:
    """Return a value of a module, which runs before that and is then a module like any other."""
    with _lock:
        if type(module) is LateModule:
            object.__setattr__(module, "__class__", ModuleType)
            loader = vars(module)["__loader__"]
            loader.modules.run(loader.file, module)
    return getattr(module, name)


class LateLoader(VerifiedLoader):
    """Makes modules that run later."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the empty module."""
        return LateModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is."""
        self.modules.note(module.__name__, self.file)


def stamp(path: str) -> Stamp | None:
    """Return what differs after a write to a file, and for any other file in its place."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino


def add_packages() -> None:
    """Find what is installed, which a server with `-S` does not look for; later calls are free."""
    if "site" not in sys.modules:
        import site

        site.main()
