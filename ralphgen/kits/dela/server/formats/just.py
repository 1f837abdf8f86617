"""Finds the recipes of a justfile, of all that it imports and of its modules, as `just` does."""

from __future__ import annotations

import json
import os
import re

from ..folder import UnreadableError
from ..parsing import LARGEST, mapping
from ..runners import query
from ..task import Task, one_line
from .justfile import JustInclude, read_statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..folder import Folder
    from .justfile import JustRecipe

NAMES = frozenset(("justfile", ".justfile"))  # in any capitals
MOST_FILES = 200
MOST_NAMED = 500  # files, be they there or not
_A_VALUE = 4  # characters of a justfile that take as long as a value of YAML
_DEEPEST = 20  # files of which each names the next
_POINTER = re.compile(r"\S+ \S+:[0-9]+:[0-9]+$")  # "-> justfile:1:1", with an arrow of its own
Listed = dict[str, tuple[str | None, str | None]]  # description and file of a module, by the name


def just_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the recipes that `just --summary` names, with those of modules, in the file's order.

    The files are read by rules of our own, which know where each stands. Where `just` is there, its
    own dump decides which recipes there are and what describes them; it evaluates nothing for it.
    Raises `UnreadableError`; what is imported and cannot be used is reported.
    """
    path = _justfile(folder)
    if path is None:
        return
    sources = JustSources(folder)
    recipes = sources.read(path)
    listed = _listed(folder, path) if sources.is_whole else None
    for name, (recipe, place) in recipes.items():
        is_private = recipe.is_private or place.is_private
        if not is_private and (listed is None or name in listed):
            yield _task(name, place.path, listed[name][0] if listed else recipe.description)
    for name, (description, source) in (listed or {}).items():
        if name not in recipes and folder.is_inside(source or path):
            yield _task(name, source or path, description)


def _justfile(folder: Folder) -> str | None:
    """Return the path of the justfile. Raises `UnreadableError` where there are two, as `just`."""
    names = [name for name in folder.entries() if name.lower() in NAMES]
    paths = [path for path in map(folder.place, names) if folder.is_usable(path)]
    if len(paths) > 1:
        raise UnreadableError(paths[0], f'conflicts with "{names[1]}": just runs neither')
    return next(iter(paths), None)


def _task(name: str, path: str, description: str | None) -> Task:
    real = os.path.realpath(path)
    return Task(name, runner="just", argv=("just", name), path=real, description=description)


def _listed(folder: Folder, path: str) -> Listed | None:
    """Return what `just` itself finds; None where it cannot be run or does not take the file."""
    answer = query(folder, "just", "--dump", "--dump-format", "json", "--justfile", path)
    if answer is None:
        return None
    if answer.code:
        if answer.code == 1 and answer.complaint:
            folder.report(path, _refusal(answer.complaint))
        return None
    try:
        return dict(_recipes(json.loads(answer.output), ""))
    except (ValueError, RecursionError):
        return None


def _refusal(complaint: Sequence[str]) -> str:
    """Return why `just` does not take a file: its message and the place that it points to."""
    places = [line.split()[-1] for line in complaint[1:] if _POINTER.match(line)]
    where = f" at {places[0]}" if places else ""
    return f"just rejects it{where}: {complaint[0].removeprefix('error: ')}"


def _recipes(module: object, prefix: str) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    facts = mapping(module)
    source = facts.get("source")
    for name, recipe in mapping(facts.get("recipes")).items():
        if not mapping(recipe).get("private"):
            description = one_line(mapping(recipe).get("doc"))
            yield prefix + name, (description, source if isinstance(source, str) else None)
    for name, inner in mapping(facts.get("modules")).items():
        yield from _recipes(inner, f"{prefix}{name}::")


class _Place:
    """Where a file stands: in which module, and by which files and how many imports it is reached.

    `seen` are the files of the module, of which none is read twice.
    """

    __slots__ = ("depth", "is_private", "path", "prefix", "seen", "way")

    def __init__(
        self, path: str, before: _Place | None = None, source: JustInclude | None = None
    ) -> None:
        real = os.path.realpath(path)
        self.path = path
        self.way: tuple[str, ...] = (real,)
        self.prefix = ""
        self.is_private = False
        self.depth = 0
        self.seen: set[str] = {real}
        if before is None or source is None:
            return
        self.way = (*before.way, real)
        self.prefix = before.prefix
        self.is_private = before.is_private or source.is_private
        if source.module:
            self.prefix += f"{source.module}::"
        else:
            self.depth = before.depth + 1
            before.seen.add(real)
            self.seen = before.seen


class JustSources:
    """Reads justfiles, once; what they name and cannot be read is reported.

    `is_whole` says afterwards whether there was nothing of that kind.
    """

    __slots__ = ("_absent", "_files", "_folder", "_found", "_named", "is_whole")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._found: dict[str, tuple[JustRecipe, _Place]] = {}
        self._absent: set[str] = set()  # optional modules without a file
        self._files = 0
        self._named = 0
        self.is_whole = True

    def read(self, path: str) -> dict[str, tuple[JustRecipe, _Place]]:
        """Return the recipes of a justfile, in order, that need no absent optional module.

        Their names have the paths of their modules. Raises `UnreadableError` where the file itself
        cannot be read.
        """
        self._add(_Place(path))
        disabled = self._disabled()
        return {name: found for name, found in self._found.items() if name not in disabled}

    def _add(self, place: _Place) -> None:
        """Add what a file defines, and what the files define that it names."""
        text = self._folder.text(place.path, LARGEST)
        self._folder.spend("values", len(text) // _A_VALUE)
        for statement in list(read_statements(text)):
            if isinstance(statement, JustInclude):
                self._follow(statement, place)
                continue
            name = place.prefix + statement.name
            other = self._found[name][1] if name in self._found else None
            # The same recipe may be defined anew: what is nearer wins, then what comes first, but
            # within one file what comes last.
            if other is None or place.depth < other.depth or place.path == other.path:
                self._found[name] = statement, place

    def _follow(self, source: JustInclude, before: _Place) -> None:
        """Add what an import or a module defines."""
        self._named += 1
        if self._named > MOST_NAMED:
            self._miss(before.path, f"names more than {MOST_NAMED} files: the rest were not read")
            return
        path = self._file(source, before)
        if path is None:
            return
        real = os.path.realpath(path)
        if real in before.way:
            self._miss(before.path, f'names "{path}", which includes it again')
        elif source.module or real not in before.seen:
            self._files += 1
            if self._files > MOST_FILES or len(before.way) > _DEEPEST:
                self._miss(path, "was not read: files are nested too deeply")
                return
            try:
                self._add(_Place(path, before, source))
            except UnreadableError as error:
                self._miss(error.path, error.why)

    def _file(self, source: JustInclude, before: _Place) -> str | None:
        """Return the file that is meant; None where there is none, reported where it must be."""
        given = os.path.expanduser(source.place or source.module)
        place = os.path.normpath(os.path.join(os.path.dirname(before.path), given))
        is_inside = self._folder.is_inside(place)
        paths = [*self._candidates(source, place)] if is_inside and given.isprintable() else []
        is_inside = is_inside and all(map(self._folder.is_inside, paths))
        paths = [path for path in paths if self._folder.is_file(path)] if is_inside else []
        if paths:
            if len(paths) > 1:
                self._miss(before.path, f'names "{given}", which matches {len(paths)} files')
            return paths[0]
        if source.is_optional and source.module:
            self._absent.add(before.prefix + source.module)
        if not is_inside:
            self._miss(before.path, f'names "{given}", which is outside the project')
        elif not source.is_optional:
            self._miss(before.path, f'names "{given}", which does not exist')
        return None

    def _candidates(self, source: JustInclude, place: str) -> Iterator[str]:
        """Yield the paths at which the file of an import or a module may be."""
        if source.place is not None:
            yield place
        if not source.module:
            return
        if source.place is None:
            yield f"{place}.just"
        for name in self._folder.entries(place):
            if name == "mod.just" or name.lower() in NAMES:
                yield os.path.join(place, name)

    def _disabled(self) -> set[str]:
        """Return the recipes that cannot run: they need an absent module, or a recipe that does."""
        users: dict[str, list[str]] = {}
        pending: list[str] = []
        for name, (recipe, place) in self._found.items():
            for need in (place.prefix + need for need in recipe.needs):
                users.setdefault(need, []).append(name)
                parts = need.split("::", _DEEPEST + 1)
                modules = {"::".join(parts[:end]) for end in range(1, len(parts))}
                if need not in self._found and modules & self._absent:
                    pending.append(name)
        disabled: set[str] = set()
        while pending:
            name = pending.pop()
            if name not in disabled:
                disabled.add(name)
                pending += users.get(name, [])
        return disabled

    def _miss(self, path: str, why: str) -> None:
        self.is_whole = False
        self._folder.report(path, why)
