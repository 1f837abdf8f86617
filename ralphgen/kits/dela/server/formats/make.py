"""Finds the targets that can be made by name: those of a Makefile, and CMake's custom ones."""

from __future__ import annotations

import os
import re

from ..folder import UnreadableError
from ..runners import inherited
from ..task import Task, one_line, with_names
from .make_lines import Fault, Include, Makefile, MakeRule, RecipePrefix
from .make_variables import GLOB, Variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..folder import Folder

FILES = ("GNUmakefile", "makefile", "Makefile")  # in the order in which make looks for them
HERE = re.compile(r"(?:\./+)+")  # which make takes off the front of a name

# Neither options, assignments and patterns, nor names that only make knows or that are made of
# others; what starts with a dot or an underscore is not meant to be made by name.
GOAL = re.compile(r"[^-._~%$=*?\[()][^%$=*?\[()]*(?<!\\)")
MOST_INCLUDED = 2000  # names of files
MOST_PATTERNS = 200  # that are looked at to see whether one of them makes a file
_VARIABLES = re.compile(
    r"""
      \$\$?[({]([\w.-]+)[)}] | \$\$?([A-Za-z_]\w*)
    | \$\$?\((?:[^()]|\([^()]*\))*\) | \$\$?\{[^{}]*\}
    """,
    re.VERBOSE,
)
_CMAKE_VARIABLES = re.compile(r"\$\{([\w.-]+)\}|\$<[^<>]*>")
_A_VALUE = 6  # characters of a Makefile that take as long as a value of YAML
UNKNOWN = re.compile(r"[$*?\[~]")  # in the name of an include: only make knows which file it is

_COMMAND = "add_custom_target"
_CMAKE_FILES = ("include", "add_subdirectory")
MOST_CMAKE_FILES = 500
_TARGET = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*")  # CMake's rule, but for options
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPACES = {"n": " ", "r": " ", "t": " ", "\n": ""}
_TOKEN = re.compile(
    r"""
      \#\[(?P<level>=*)\[.*?(?:\](?P=level)\]|\Z)          # a bracket comment
    | \#[^\n]*                                             # a comment
    | \[(?P<depth>=*)\[(?P<verbatim>.*?)(?:\](?P=depth)\]|\Z)
    | "(?P<quoted>(?>[^"\\]|\\.)*+)(?:"|\\?\Z)
    | (?P<bare>[()]|(?:[^\s()#"\\]|\\.)++)
    """,
    re.DOTALL | re.VERBOSE,
)


def make_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the targets of the folder's Makefile and of the files that it includes.

    The file is read by rules of our own, since make itself runs what `$(shell ...)` holds even
    where it only lists. Variables, functions of plain text and conditions are followed; of a
    condition that only make knows, both sides are tasks. Those of the Makefile come first, then
    those of included files; the first rule for a name is where it is defined. A description is
    `## text` behind the target, else the comment directly above, else what the first line of the
    recipe says with `@echo`. Raises `UnreadableError`; an include that cannot be used is reported.
    """
    makefile = folder.first(*FILES)
    rules = _Reader(folder).read(makefile)
    own = os.path.realpath(makefile or folder.path)
    tasks: dict[str, Task] = {}
    for path, rule in sorted(rules, key=lambda found: found[0] != own):
        for name in map(_without_here, rule.targets):
            if not GOAL.fullmatch(name) or not name.isprintable():
                continue
            if name not in tasks:
                tasks[name] = Task(name, runner="make", argv=("make", name), path=path)
            tasks[name].description = tasks[name].description or _described(rule, name)
    yield from tasks.values()


class _Reader:
    """Reads a Makefile and what it includes, each file once, however they include each other."""

    __slots__ = (
        "_before",
        "_folder",
        "_included_names",
        "_missing",
        "_prefix",
        "_rules",
        "_seen",
        "_variables",
    )

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._included_names = 0
        self._missing: list[tuple[str, int, str]] = []  # (including file, line, name)
        self._prefix = RecipePrefix()
        self._rules: list[tuple[str, MakeRule]] = []  # (defining file, rule)
        self._seen: set[str] = set()
        environment = inherited(folder)
        self._before = environment.get("MAKEFILES", "").split()
        self._variables = Variables(folder, environment)

    def read(self, makefile: str | None) -> list[tuple[str, MakeRule]]:
        """Return all rules with the real paths of their files, as make reads them.

        Those that the variable MAKEFILES of the environment names come before the Makefile.
        """
        files = [self._open(makefile)] if makefile else []
        before = Include(0, self._before, is_needed=False)
        files += reversed(list(self._included(makefile or self._folder.path, before)))
        while files:
            path, statements = files[-1]
            statement = next(statements, None)
            if statement is None:
                files.pop()
            elif isinstance(statement, MakeRule):
                self._rules.append((path, statement))
            elif isinstance(statement, Fault):
                self._folder.report(path, statement.why)
            else:
                files += reversed(list(self._included(path, statement)))
        self._report_missing()
        return self._rules

    def _open(self, path: str) -> tuple[str, Iterator[MakeRule | Include | Fault]]:
        real = os.path.realpath(path)
        self._seen.add(real)
        self._variables.note_file(os.path.relpath(path, self._folder.path))
        text = self._folder.text(path)
        self._folder.spend("values", len(text) // _A_VALUE)
        return real, Makefile(text, self._prefix, self._variables).statements()

    def _included(
        self, path: str, include: Include
    ) -> Iterator[tuple[str, Iterator[MakeRule | Include | Fault]]]:
        """Yield the files of an include; their paths are relative to where make runs."""
        for name in self._names(path, include):
            place = self._folder.place(name)
            if not self._folder.is_inside(place):
                why = f"line {include.line}: includes '{name}', which is outside of the project"
                self._folder.report(path, why)
            elif not self._folder.is_file(place):
                if include.is_needed:
                    self._missing.append((path, include.line, name))
            elif os.path.realpath(place) not in self._seen:
                try:
                    yield self._open(place)
                except UnreadableError as error:
                    self._folder.report(error.path, error.why)

    def _names(self, path: str, include: Include) -> Iterator[str]:
        """Yield the names of the files that an include means, as far as they are known."""
        for written in include.names:
            names = self._variables.matching(written) if GLOB.search(written) else [written]
            for name in names:
                if UNKNOWN.search(name) or not name.isprintable():
                    continue
                self._included_names += 1
                if self._included_names > MOST_INCLUDED:
                    why = f"includes more than {MOST_INCLUDED:,} files: the rest is not read"
                    self._folder.report(path, why)
                    return
                yield name

    def _report_missing(self) -> None:
        """Report the includes that are not there and that no rule makes."""
        targets = {_without_here(target) for _, rule in self._rules for target in rule.targets}
        patterns = [target.partition("%") for target in targets if "%" in target]
        if len(patterns) > MOST_PATTERNS:
            return  # so many may make anything
        for path, line, name in self._missing:
            wanted = _without_here(name)
            is_made = wanted in targets or any(
                wanted.startswith(start) and wanted.endswith(end) for start, _, end in patterns
            )
            if not is_made:
                self._folder.report(path, f"line {line}: includes '{name}', which is not there")


def _described(rule: MakeRule, name: str) -> str | None:
    """Return what describes a target: the target itself is known, no other variable."""
    text = rule.description and rule.description.replace("$@", name).replace("$(@)", name)
    return with_names(text, _VARIABLES)


def _without_here(name: str) -> str:
    return HERE.sub("", name, count=1) if name.startswith("./") else name


def cmake_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each custom target whose name is written out, with its COMMENT.

    Those of files that are included and of folders that are added come after the commands of the
    file that names them. Other targets and those whose name is computed are not listed. Raises
    `UnreadableError`; a file that is named and cannot be used is reported.
    """
    path = folder.first("CMakeLists.txt")
    if path is None:
        return
    found: dict[str, Task] = {}
    files = [(path, folder.path)]  # with the folder that counts as the current one
    for number, (file, place) in enumerate(files):
        try:
            calls = list(_calls(_tokens(folder.text(file))))
        except UnreadableError as error:
            if not number:
                raise
            folder.report(error.path, error.why)
            continue
        for command, arguments in calls:
            name = arguments[0] if arguments else ""
            if command == _COMMAND and _TARGET.fullmatch(name) and name not in found:
                found[name] = _cmake_task(file, arguments)
            elif command in _CMAKE_FILES and name and len(files) < MOST_CMAKE_FILES:
                named = _cmake_file(folder, file, place, command, arguments)
                files += [named] if named and named not in files else []
    yield from found.values()


def _cmake_task(path: str, arguments: Sequence[str]) -> Task:
    following = dict(zip(reversed(arguments[:-1]), reversed(arguments), strict=False))
    text = with_names(one_line(following.get("COMMENT")), _CMAKE_VARIABLES)
    argv, real = ("cmake", "--build", "build", "--target", arguments[0]), os.path.realpath(path)
    return Task(arguments[0], runner="cmake", argv=argv, path=real, description=text)


def _cmake_file(
    folder: Folder, source: str, place: str, command: str, arguments: Sequence[str]
) -> tuple[str, str] | None:
    """Return the file that a command reads, with its current folder; None where there is none.

    A name without a path is that of a module, which CMake looks for elsewhere.
    """
    known = {
        "CMAKE_SOURCE_DIR": folder.path,
        "PROJECT_SOURCE_DIR": folder.path,
        "CMAKE_CURRENT_SOURCE_DIR": place,
        "CMAKE_CURRENT_LIST_DIR": os.path.dirname(source),
    }
    given = _CMAKE_VARIABLES.sub(lambda one: known.get(one[1] or "", one[0]), arguments[0])
    is_module = command == "include" and "/" not in given and not given.endswith(".cmake")
    if "$" in given or is_module or not given.isprintable():
        return None
    path = os.path.normpath(os.path.join(place, given))
    current = path if command == "add_subdirectory" else place
    path = os.path.join(path, "CMakeLists.txt") if command == "add_subdirectory" else path
    if not folder.is_inside(path):
        folder.report(source, f'{command} names "{given}", which is outside of the project')
    elif folder.is_file(path):
        return path, current
    elif "OPTIONAL" not in arguments:
        folder.report(source, f'{command} names "{given}", which is not there')
    return None


def _calls(tokens: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the calls of the known commands; nested parentheses are arguments too."""
    depth = 0
    named = ""
    arguments: list[str] | None = None
    command = ""
    for text, bare in tokens:
        sign = text if bare and text in {"(", ")"} else ""
        if sign == "(" and depth == 0:
            command, arguments = named, [] if named in {_COMMAND, *_CMAKE_FILES} else None
        elif sign == ")" and depth == 1 and arguments is not None:
            yield command, arguments
            arguments = None
        elif arguments is not None:
            arguments.append(text)
        depth = max(0, depth + (sign == "(") - (sign == ")"))
        named = text.lower()


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the words and parentheses of a file, and whether each stands without quotes."""
    for token in _TOKEN.finditer(text):
        verbatim, quoted, bare = token["verbatim"], token["quoted"], token["bare"]
        if verbatim is not None:
            yield verbatim, False
        elif quoted is not None:
            yield _ESCAPED.sub(lambda found: _SPACES.get(found[1], found[1]), quoted), False
        elif bare is not None:
            yield bare, True
