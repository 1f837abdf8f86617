"""Finds the targets of a Makefile that can be made by name."""

from __future__ import annotations

import os
import re

from ..folder import UnreadableError
from ..runners import inherited
from ..task import Task, with_names
from .make_lines import Fault, Include, Makefile, MakeRule, RecipePrefix
from .make_variables import GLOB, Variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
_A_VALUE = 6  # characters of a Makefile that take as long as a value of YAML
UNKNOWN = re.compile(r"[$*?\[~]")  # in the name of an include: only make knows which file it is


def make_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the targets of the folder's Makefile and of the files that it includes.

    The file is read by rules of our own, since make itself runs what `$(shell ...)` holds even
    where it only lists. Variables, functions of plain text and conditions are followed; of a
    condition that only make knows, both sides are tasks. Those of the Makefile come first, then
    those of included files, then phony targets without a rule, which make takes too; the first rule
    for a name is where it is defined. A description is
    `## text` behind the target, else the comment directly above, else what the first line of the
    recipe says with `@echo`. Raises `UnreadableError`; an include that cannot be used is reported.
    """
    makefile = folder.first(*FILES)
    rules = _Reader(folder).read(makefile)
    own = os.path.realpath(makefile or folder.path)
    tasks: dict[str, Task] = {}
    rules = sorted(rules, key=lambda found: found[0] != own)
    named = [(path, rule, name) for path, rule in rules for name in rule.targets]
    phony = [(path, None, name) for path, rule in rules for name in rule.phony]
    for path, rule, written in (*named, *phony):
        name = _without_here(written)
        if not GOAL.fullmatch(name) or not name.isprintable():
            continue
        if name not in tasks:
            tasks[name] = Task(name, runner="make", argv=("make", name), path=path)
        if rule is not None:
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
            place = self._place(name)
            if not self._folder.is_inside(place):
                why = f"line {include.line}: includes '{name}', which is outside the project"
                self._folder.report(path, why)
            elif not self._folder.is_file(place):
                if include.is_needed:
                    self._missing.append((path, include.line, name))
            elif os.path.realpath(place) not in self._seen:
                try:
                    yield self._open(place)
                except UnreadableError as error:
                    self._folder.report(error.path, error.why)

    def _place(self, name: str) -> str:
        """Return the path of a file to include: where make runs, else in a folder of its -I."""
        place = self._folder.place(name)
        others = (self._folder.place(one, name) for one in self._variables.included_from)
        if os.path.isabs(name) or os.path.exists(place):
            return place
        inside = filter(self._folder.is_inside, others)
        return next(filter(self._folder.is_file, inside), place)

    def _names(self, path: str, include: Include) -> Iterator[str]:
        """Yield the names of the files that an include means, as far as they are known."""
        for written in include.names:
            names = self._variables.matching(written) if GLOB.search(written) else [written]
            for name in names:
                if UNKNOWN.search(name) or not name.isprintable():
                    continue
                self._included_names += 1
                if self._included_names > MOST_INCLUDED:
                    why = f"includes more than {MOST_INCLUDED:,} files: the rest were not read"
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
                self._folder.report(path, f"line {line}: includes '{name}', which does not exist")


def _described(rule: MakeRule, name: str) -> str | None:
    """Return what describes a target: the target itself is known, no other variable."""
    text = rule.description and rule.description.replace("$@", name).replace("$(@)", name)
    return with_names(text, _VARIABLES)


def _without_here(name: str) -> str:
    return HERE.sub("", name, count=1) if name.startswith("./") else name
