"""Finds the targets of a Makefile, with the variables that are known without running it."""

from __future__ import annotations

import os
import re

from ..runners import inherited
from ..task import Task, UnreadableError, one_line, with_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import ClassVar

    from ..task import Folder


MODIFIERS = r"(?:(?:export|override|private)\s+)*"
ASSIGNMENT = re.compile(rf"{MODIFIERS}[^\s:=#]+\s*(?::{{1,3}}|[+?!])?=", re.ASCII)
PREFIX = re.compile(rf"{MODIFIERS}\.RECIPEPREFIX\s*:{{0,3}}=\s*(.*)", re.ASCII)
DEFINITION = re.compile(rf"{MODIFIERS}(un)?define(?!\S)", re.ASCII)
CONDITIONS = frozenset(("ifdef", "ifndef", "ifeq", "ifneq", "else", "endif"))
INCLUDES = {"include": True, "-include": False, "sinclude": False}  # must the file exist?
DIRECTIVES = ("export", "unexport", "vpath", "load", "-load")

TARGETS = re.compile(r"((?:[^\\:]|\\.)*):")
WORD = re.compile(r"(?:[^\s\\]|\\.)+", re.ASCII)
ESCAPED = re.compile(r"\\([\s:#])", re.ASCII)
NOTABLE = re.compile(r"\\[^$]|[$#;]")  # an escape, a reference, or an end of what make reads first

ECHO = re.compile(r"@\s*echo\s+(?:-[neE]+\s+)*(.*)", re.DOTALL)
END = r"(?:$|[;&|]|>\s*&\s*2)"  # the visible end of an echo
ECHOED = re.compile(
    rf"""(?:"((?:[^"\\]|\\.)*)"\s*|'([^']*)'\s*|([^"'`()\\<>;&|]+)){END}""", re.DOTALL
)


class MakeRule:
    """A rule: the words before its colon and its description.

    The words have no escapes; a "$" in one represents a reference that only make can resolve.
    `phony` are the targets that the rule declares.
    """

    __slots__ = ("_has_recipe", "description", "phony", "targets")

    def __init__(self, targets: Sequence[str], description: str | None) -> None:
        self.targets = tuple(targets)
        self.phony: tuple[str, ...] = ()
        self.description = description
        self._has_recipe = False

    def add_recipe(self, line: str) -> None:
        """Use the message in the first line of its recipe as description, if there is no other."""
        if self._has_recipe or not line.strip():
            return
        self._has_recipe = True
        if self.description is None:
            self.description = _message(line)


class Include:
    """The names of files included by a line; `is_needed` if one must exist.

    No file is needed if a condition decides whether the line counts.
    """

    __slots__ = ("is_needed", "line", "names")

    def __init__(self, line: int, names: Sequence[str], *, is_needed: bool) -> None:
        self.line = line
        self.names = tuple(names)
        self.is_needed = is_needed


class Fault:
    """Why make refuses the file, as a sentence without its path."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


class RecipePrefix:
    """The character that a line of a recipe starts with; one for a file and all it includes."""

    __slots__ = ("character",)

    def __init__(self) -> None:
        self.character = "\t"

    def follow(self, line: str) -> None:
        """Update the character after an assignment to `.RECIPEPREFIX`, if its value is known."""
        if found := PREFIX.match(line):
            value = found[1].replace("$()", "").replace("${}", "")
            if not value.startswith("$"):
                self.character = "\t" if value[:1] in {"", "#"} else value[0]


class Makefile:
    """Reads the statements of one Makefile, in the order and by the rules of GNU make 4.3."""

    __slots__ = ("_branches", "_comment", "_lines", "_prefix", "_rule", "_variables")

    def __init__(self, text: str, prefix: RecipePrefix, variables: Variables) -> None:
        self._variables = variables
        self._lines = _logical_lines(text)
        self._prefix = prefix
        self._comment: str | None = None  # directly above the current line
        # For each open condition: whether make reads this branch, and whether it has read one; None
        # if only make can evaluate it.
        self._branches: list[tuple[bool | None, bool | None]] = []
        self._rule: MakeRule | None = None  # a recipe may follow

    def statements(self) -> Iterator[MakeRule | Include | Fault]:
        """Yield the statements, in order; a rule gets its description while later lines are read.

        Only the first fault is yielded.
        """
        is_sound = True
        for number, pieces in self._lines:
            if self._rule and pieces[0].startswith(self._prefix.character):
                if not self._is_skipped():
                    followers = [piece.removeprefix(self._prefix.character) for piece in pieces]
                    self._rule.add_recipe("".join(followers))
                self._comment = None
                continue
            statement = self._statement(number, _joined(pieces))
            yield from self._evaluated(number)
            if statement and (is_sound or not isinstance(statement, Fault)):
                yield statement
            is_sound = is_sound and not isinstance(statement, Fault)
        if is_sound and self._branches:
            yield Fault("has a condition without an 'endif'")

    def _evaluated(self, number: int) -> Iterator[MakeRule | Include | Fault]:
        """Yield the statements of the texts that the previous line passed to `eval`."""
        texts = "\n".join(self._variables.evaluated)
        self._variables.evaluated.clear()
        if not texts:
            return
        inner = Makefile(texts, self._prefix, self._variables)
        inner._branches = [] if self._is_certain() else [(None, None)]
        for statement in inner.statements():
            if isinstance(statement, Include):
                statement.line = number
            if not isinstance(statement, Fault):
                yield statement

    def _statement(self, number: int, line: str) -> MakeRule | Include | Fault | None:
        comment, self._comment = self._comment, None
        if not line or line.startswith("#"):
            self._comment = _remark(line)
            return None
        head, tail = _split(line)
        word = _first_word(head)
        assignment = ASSIGNMENT.match(head)
        is_condition = word in CONDITIONS and not assignment
        if is_condition:
            self._branch(word, COMMENT.sub("", line)[len(word) :].strip())
        if is_condition or self._is_skipped():
            return None
        self._rule = None  # all other lines end a recipe
        if assignment:
            self._prefix.follow(line)
            self._variables.assign(line, is_certain=self._is_certain())
        elif found := DEFINITION.match(head):
            return self._define(number, head[found.end() :].strip(), is_empty=bool(found[1]))
        elif word in INCLUDES:
            is_needed = INCLUDES[word] and self._is_certain()
            names = _words(self._expanded(line)[len(word) :])
            return Include(number, names, is_needed=is_needed)
        elif word not in DIRECTIVES:
            return self._read_rule(number, head, self._expanded(line), tail, comment)
        return None

    def _branch(self, word: str, rest: str) -> None:
        """Follow a line of a condition."""
        if word in {"endif", "else"} and not self._branches:
            return
        before: bool | None = False
        if word in {"endif", "else"}:
            _, before = self._branches.pop()
        if word == "endif":
            return
        if word == "else":
            word, _, rest = rest.partition(" ")
        holds = self._variables.holds(word, rest.strip()) if word else True
        if before is not False and holds is not False:
            holds = None if before is None else False
        has_read = next((each for each in (True, None) if each in (before, holds)), False)
        self._branches.append((holds, has_read))

    def _is_skipped(self) -> bool:
        """Return whether make does not read the line, by a condition."""
        return any(is_read is False for is_read, _ in self._branches)

    def _is_certain(self) -> bool:
        """Return whether make reads the line regardless of unknown conditions."""
        return all(is_read for is_read, _ in self._branches)

    def _expanded(self, line: str) -> str:
        """Return the first part of `_split`, with the values of known references."""
        return _split(line, self._variables)[0]

    def _read_rule(
        self, number: int, head: str, expanded: str, tail: str, comment: str | None
    ) -> MakeRule | Fault | None:
        found = TARGETS.match(expanded)
        if not found:
            is_certain = "$" not in head and self._is_certain()
            return (
                Fault(f"line {number}: is not a rule, assignment or recipe") if is_certain else None
            )
        if ASSIGNMENT.match(expanded[found.end() :].removeprefix(":").lstrip()):
            return None  # a variable for these targets only
        targets = _words(found[1].removesuffix("&"))
        is_help = tail.startswith("#") and "##" in tail
        words_of_help = _remark(tail[tail.find("##") :]) if is_help else None
        self._rule = MakeRule(targets, words_of_help or comment)
        if tail.startswith(";"):
            self._rule.add_recipe(tail[1:])
        if ".PHONY" in targets:
            words = _words(expanded[found.end() :].removeprefix(":"))
            self._rule.phony = tuple(word for word in words if word != "|")
        if targets == [".PHONY"]:
            self._comment = comment  # it describes the target that was declared in between
        return self._rule

    def _define(self, number: int, head: str, *, is_empty: bool) -> Fault | None:
        """Read the lines of a definition, which are the value of a variable; `undefine` has none.

        The head is the name, with an operator behind it or not.
        """
        name, _, operator = head.partition(" ")
        operator = operator.strip().removesuffix("=")
        depth = 0 if is_empty else 1
        lines: list[str] = []
        for _, pieces in self._lines if depth else ():
            is_recipe = pieces[0].startswith(self._prefix.character)
            word = "" if is_recipe else _first_word(_joined(pieces))
            depth += (word == "define") - (word == "endef")
            if not depth:
                break
            lines.append("\\\n".join(pieces))
        if not depth:
            text = "\n".join(lines)
            self._variables.set(name, operator, text, is_certain=self._is_certain())
            return None
        return Fault(f"line {number}: has a 'define' without an 'endef'")


def _logical_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each line with the number of its first piece, without backslashes at their ends."""
    pieces: list[str] = []
    start = 1
    for number, line in enumerate(text.split("\n"), 1):
        start = start if pieces else number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2
        pieces.append(line[:-1] if goes_on else line)
        if not goes_on:
            yield start, pieces
            pieces = []
    if pieces:
        yield start, pieces


def _joined(pieces: Sequence[str]) -> str:
    return " ".join(piece.strip() for piece in pieces).strip()


def _split(line: str, variables: Variables | None = None) -> tuple[str, str]:
    """Return the text before the first "#" or ";", with "$" for each reference, and the rest.

    With `variables`, a known value replaces its reference.
    """
    head: list[str] = []
    start = 0
    while found := NOTABLE.search(line, start):
        head.append(line[start : found.start()])
        if found[0] in "#;":
            return "".join(head), line[found.start() :]
        start = reference_end(line, found.end()) if found[0] == "$" else found.end()
        text = found[0]
        if text == "$" and variables is not None:
            before, behind = line[: found.start()][-1:], line[start : start + 1]
            is_alone = (not before or before.isspace()) and behind in {"", " ", "\t", ":", "&"}
            value = variables.words(line[found.start() : start], is_alone=is_alone)
            text = text if value is None or "$" in value else value.replace("#", "\\#")
        head.append(text)
    return "".join(head) + line[start:], ""


def _first_word(text: str) -> str:
    return (text.split(maxsplit=1) or [""])[0]


def _words(text: str) -> list[str]:
    return [ESCAPED.sub(r"\1", word) for word in WORD.findall(text)]


def _remark(comment: str) -> str | None:
    """Return the text of a comment; None for rulers, headings of a help target and "#!" lines."""
    if comment.startswith(("#!", "##@")):
        return None
    text = one_line(comment.lstrip("#")) or ""
    return text if re.search(r"\w", text) else None


def _message(recipe: str) -> str | None:
    """Return the text that a line of a recipe echoes, if the line itself is silent."""
    echo = ECHO.search(recipe)
    if not echo:
        return None
    text = echo[1].strip()
    if echoed := ECHOED.match(text):
        return one_line(echoed[1] or echoed[2] or echoed[3])
    return one_line(text.strip('"'))


FILES = ("GNUmakefile", "makefile", "Makefile")  # in the search order of make
HERE = re.compile(r"(?:\./+)+")  # make strips this from the front of a name

# Excludes options, assignments, patterns, and names that only make can resolve or that are built
# from others. Names that start with a dot or an underscore are not meant as goals.
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
UNKNOWN = re.compile(r"[$*?\[~]")  # in the name of an include: only make can resolve the file


def make_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the targets of the folder's Makefile and of the files that it includes.

    This module parses the file itself, since make runs the commands in `$(shell ...)` even for a
    mere listing. Variables, text functions and conditions are followed. If only make can evaluate a
    condition, the targets of both branches are tasks. The targets of the Makefile come first, then
    the targets of included files, then phony targets without a rule, which make accepts too. A
    target is defined by its first rule. A description is `## text` behind the target, else the
    comment directly above, else the text of `@echo` in the first line of the recipe. Raises
    `UnreadableError`; an include that cannot be used is reported.
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
            # The target itself is known, no other variable.
            text = rule.description and rule.description.replace("$@", name).replace("$(@)", name)
            tasks[name].description = tasks[name].description or with_names(text, _VARIABLES)
    yield from tasks.values()


class _Reader:
    """Reads a Makefile and its includes, each file once, even if they include each other."""

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
        """Return all rules with the real paths of their files, in the order of make.

        The files in the environment variable MAKEFILES come before the Makefile.
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
        self._report_absent_includes()
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
        """Yield the files of an include; their paths are relative to make's working directory."""
        for name in self._names(path, include):
            place = self._folder.place(name)
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

    def _names(self, path: str, include: Include) -> Iterator[str]:
        """Yield the known names of the files that an include refers to."""
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

    def _report_absent_includes(self) -> None:
        """Report the includes that are not there and that no rule makes."""
        targets = {_without_here(target) for _, rule in self._rules for target in rule.targets}
        patterns = [target.partition("%") for target in targets if "%" in target]
        if len(patterns) > MOST_PATTERNS:
            return  # this many patterns may make anything
        for path, line, name in self._missing:
            wanted = _without_here(name)
            is_made = wanted in targets or any(
                wanted.startswith(start) and wanted.endswith(end) for start, _, end in patterns
            )
            if not is_made:
                self._folder.report(path, f"line {line}: includes '{name}', which does not exist")


def _without_here(name: str) -> str:
    return HERE.sub("", name, count=1) if name.startswith("./") else name


MOST = 200_000  # characters in all expansions
_DEEPEST = 30
# Variables that make sets itself; their values depend on the machine.
_OF_MAKE = re.compile(
    r"\.\w+|MAKE\w*|M?FLAGS|GNUMAKEFLAGS|SHELL|SUFFIXES|\w*FLAGS|(?:COMPILE|LINK|LEX|YACC|LINT)\..*"
    r"|A[RS]|CC|CXX|CPP|FC|F77|M2C|OBJC|PC|CO|GET|LD|LEX|YACC|LINT|MAKEINFO|TEX|TEXI2DVI|C?WEAVE"
    r"|C?TANGLE|RM|OUTPUT_OPTION|LOADLIBES|LDLIBS|CHECKOUT,v|-\*-.*|[@%<?^+|*][DF]?"
)
_WRITTEN = re.compile(
    r"(?:(?:export|override|private)\s+)*([^\s:=#+?!$()]+)\s*(:{1,3}|[+?!])?=\s*(.*)", re.DOTALL
)
COMMENT = re.compile(r"(?<!\\)#.*", re.DOTALL)
_CALL = re.compile(r"([a-z-]+)\s+(.*)", re.DOTALL)
_CLOSING = {"(": ")", "{": "}"}
GLOB = re.compile(r"[*?\[]")


class Variables:
    """The variables of a Makefile at the current line.

    `None` is the value of a variable that only make can resolve, such as the output of a command. A
    variable assigned under a condition has all its possible values, as one list.
    """

    __slots__ = (
        "_environment",
        "_folder",
        "_is_exact",
        "_left",
        "_values",
        "evaluated",
    )

    def __init__(self, folder: Folder, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {"MAKELEVEL": "0", **environment}
        self._left = MOST
        self._is_exact = False  # a value that varies is not known
        self.evaluated: list[str] = []  # the texts of `eval` that are still to be read
        # By name: the text, whether it is expanded at each use, whether it varies.
        self._values: dict[str, tuple[str | None, bool, bool]] = {
            "CURDIR": (folder.path, False, False),
        }

    def assign(self, line: str, *, is_certain: bool) -> None:
        """Follow an assignment; `is_certain` is false if a condition decides on it."""
        found = _WRITTEN.fullmatch(line)
        if found is not None:
            self.set(found[1], found[2] or "", COMMENT.sub("", found[3]), is_certain=is_certain)

    def set(self, name: str, operator: str, written: str, *, is_certain: bool) -> None:
        """Assign a text to a variable; `operator` is the text before `=`, such as `:`."""
        before = self._values.get(name)
        if operator == "?" and (before or name in self._environment):
            return
        value: str | None = written
        is_lazy = operator in {"", "?"} or (operator == "+" and (before is None or before[1]))
        if operator == "!":
            value = None
        elif not is_lazy:
            value = self.expand(written)
        if operator == "+":
            old = before[0] if before else self._environment.get(name, "")
            value = None if old is None or value is None else f"{old} {value}"
        elif not is_certain and before and before[0] is not None and value is not None:
            value = f"{before[0]} {value}"
        varies = not is_certain or (operator == "+" and before is not None and before[2])
        self._values[name] = value, is_lazy, varies

    def note_file(self, name: str) -> None:
        """Record that make reads a file now, under this path."""
        files, _, _ = self._values.get("MAKEFILE_LIST", ("", False, False))
        self._values["MAKEFILE_LIST"] = f"{files} {name}", False, False

    def expand(self, text: str, depth: int = 0) -> str | None:
        """Return the text with its references filled in, or None if only make can resolve them."""
        parts: list[str] = []
        at = 0
        while (sign := text.find("$", at)) >= 0:
            end = reference_end(text, sign + 1)
            value = self._reference(text[sign + 1 : end], depth)
            alone = (
                text[:sign][-1:].isspace() or not sign,
                text[end : end + 1].isspace() or end == len(text),
            )
            if value is None or (
                self._values.get(text[sign + 1 : end].strip("(){}"), ("", False, False))[2]
                and (self._is_exact or not all(alone))
            ):
                return None
            parts += [text[at:sign], value]
            at = end
            self._left -= len(value) + 1
            if self._left < 0:
                return None
        return "".join(parts) + text[at:]

    def words(self, reference: str, *, is_alone: bool) -> str | None:
        """Return the value of a reference, or None; a varying value requires `is_alone`.

        Also return None for several lines, which make does not read as words.
        """
        value = self.expand(reference) if is_alone else self._exact(reference)
        return None if value and "\n" in value else value

    def _exact(self, text: str) -> str | None:
        """Return the text with its references filled in, or None if a value varies."""
        self._is_exact = True
        try:
            return self.expand(text)
        finally:
            self._is_exact = False

    def holds(self, word: str, rest: str) -> bool | None:
        """Return whether a condition such as `ifeq (a,b)` is true; None if only make can tell."""
        if word in {"ifdef", "ifndef"}:
            name = self._exact(rest)
            found = None if name is None else self._is_defined(name.strip())
        else:
            sides = [self._exact(side) for side in _sides(rest)]
            is_known = len(sides) == len(("left", "right")) and None not in sides
            found = sides[0] == sides[1] if is_known else None
        return found if found is None or word in {"ifdef", "ifeq"} else not found

    def _is_defined(self, name: str) -> bool | None:
        if name in self._values:
            text, _, varies = self._values[name]
            return None if text is None or varies else bool(text)
        if name in self._environment:
            return bool(self._environment[name])
        return None if _OF_MAKE.fullmatch(name) else False

    def matching(self, pattern: str) -> list[str]:
        """Return the files in the folder of the project that a pattern of paths fits, sorted."""
        from fnmatch import fnmatchcase

        found = [""]
        parts = pattern.split("/")
        for number, part in enumerate(parts):
            if not GLOB.search(part):
                ends = [f"{start}{part}" for start in found]
            else:
                ends = [
                    f"{start}{name}"
                    for start in found
                    for name in self._folder.entries(self._folder.place(start or "."))
                    if fnmatchcase(name, part) and name.startswith(".") == part.startswith(".")
                ]
            is_last = number == len(parts) - 1
            found = ends if is_last else [f"{end}/" for end in ends]
        there = (self._folder.place(path) for path in found)
        return [
            path
            for path, place in zip(found, there, strict=True)
            if self._folder.is_inside(place) and os.path.exists(place)
        ]

    def _reference(self, reference: str, depth: int) -> str | None:
        """Return the value of the text behind a "$"."""
        if reference == "$" or depth > _DEEPEST:
            return "$" if reference == "$" else None
        inner = reference[1:-1] if reference[:1] in _CLOSING else reference
        call = _CALL.fullmatch(inner)
        if call is not None:
            return self._call(call[1], call[2], depth + 1)
        expanded = self.expand(inner, depth + 1)
        return None if expanded is None else self._changed(expanded, depth + 1)

    def _changed(self, reference: str, depth: int) -> str | None:
        """Return the value of a variable, changed by the substitution behind its colon."""
        name, colon, change = reference.partition(":")
        old, sign, new = change.partition("=")
        value = self._value(name, depth)
        if value is None or not colon or not sign:
            return None if colon and not sign else value
        old, new = (old, new) if "%" in old else (f"%{old}", f"%{new}")
        return _each(value, lambda word: _replaced(old, new, word))

    def _value(self, name: str, depth: int) -> str | None:
        if name not in self._values:
            if name in self._environment:
                return self._environment[name]
            return None if _OF_MAKE.fullmatch(name) else ""
        text, is_lazy, _ = self._values[name]
        return self.expand(text, depth) if text is not None and is_lazy else text

    def _call(self, function: str, written: str, depth: int) -> str | None:
        """Return the result of a function, or None if it is not supported here."""
        arguments = _arguments(written)
        if function == "foreach":
            return self._foreach(arguments, depth)
        if function in {"if", "and", "or"}:
            return self._condition_result(function, arguments, depth)
        expanded = [self.expand(argument, depth) for argument in arguments]
        texts = [text for text in expanded if text is not None]
        if len(texts) < len(expanded):
            return None
        own = self._own_functions.get(function)
        if own is not None:
            return own(self, texts, depth)
        count, make = _FUNCTIONS.get(function, (len(texts) + 1, None))
        if make is None or len(texts) < count:
            return None
        return make(*texts[: count - 1], ",".join(texts[count - 1 :]))

    def _wildcard(self, texts: Sequence[str], _: int) -> str:
        return " ".join(file for word in _words_of(texts) for file in self.matching(word))

    def _paths(self, texts: Sequence[str], _: int) -> str:
        return " ".join(map(self._folder.place, _words_of(texts)))

    def _expand_function_text(self, texts: Sequence[str], _: int) -> str | None:
        return self._values.get(texts[0], ("", False, False))[0]

    def _evaluate(self, texts: Sequence[str], _: int) -> str:
        self.evaluated.append(",".join(texts))
        return ""

    def _condition_result(self, function: str, arguments: Sequence[str], depth: int) -> str | None:
        """Return the result of a condition; arguments are expanded only as needed, as make does."""
        value: str | None = ""
        for number, argument in enumerate(arguments):
            value = self.expand(argument.strip(), depth)
            if value is None:
                return None
            if function == "if":
                rest = arguments[1:2] if value else [",".join(arguments[2:])]
                return self.expand(rest[0], depth) if rest and not number else ""
            if bool(value) == (function == "or"):
                break
        return value

    def _called(self, texts: Sequence[str], depth: int) -> str | None:
        """Return the value of a variable, or the result of a function, with these arguments."""
        name = texts[0].strip()
        if name in _FUNCTIONS:
            return self._call(name, ",".join(texts[1:]), depth)
        before = self._values
        arguments = {str(at): (text, False, False) for at, text in enumerate(texts)}
        numbers = {name for name in before if name.isdigit()}
        self._values = {**before, **dict.fromkeys(numbers, ("", False, False)), **arguments}
        try:
            return self._value(name, depth)
        finally:
            self._values = before

    _own_functions: ClassVar[dict[str, Callable[[Variables, Sequence[str], int], str | None]]] = {
        "abspath": _paths,
        "call": _called,
        "eval": _evaluate,
        "realpath": _paths,
        "value": _expand_function_text,
        "wildcard": _wildcard,
    }

    def _foreach(self, arguments: Sequence[str], depth: int) -> str | None:
        name, *others = arguments
        words = self.expand(others[0], depth) if others else None
        if words is None:
            return None
        body = ",".join(others[1:])
        before = self._values.pop(name.strip(), None)
        parts: list[str] = []
        for word in words.split():
            self._values[name.strip()] = word, False, False
            part = self.expand(body, depth)
            if part is None:
                return None
            parts.append(part)
        self._values.pop(name.strip(), None)
        if before is not None:
            self._values[name.strip()] = before
        return " ".join(parts)


def reference_end(line: str, start: int) -> int:
    """Return the end of a reference, with its "$" directly before `start`."""
    closing = _CLOSING.get(line[start : start + 1])
    if closing is None:
        return start + 1
    depth = 0
    for at in range(start, len(line)):
        depth += (line[at] == line[start]) - (line[at] == closing)
        if not depth:
            return at + 1
    return len(line)


def _sides(rest: str) -> list[str]:
    """Return the two texts that a condition compares."""
    if rest.startswith("("):
        left, *right = _arguments(rest[1:].rstrip().removesuffix(")"))
        return [left.rstrip(), ",".join(right).lstrip()] if right else []
    return [one or other for one, other in re.findall(r"""'([^']*)'|"([^"]*)\"""", rest)]


def _arguments(text: str) -> list[str]:
    """Return the arguments of a function: commas within parentheses do not part them."""
    arguments, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in _CLOSING) - (letter in _CLOSING.values())
        if letter == "," and not depth:
            arguments.append(text[start:at])
            start = at + 1
    return [*arguments, text[start:]]


def _words_of(texts: Sequence[str]) -> list[str]:
    """Return the words of arguments, whose commas are part of them."""
    return ",".join(texts).split()


def _each(text: str, change: Callable[[str], str]) -> str:
    return " ".join(map(change, text.split()))


def _replaced(pattern: str, new: str, word: str) -> str:
    """Return a word with the match of a "%" pattern replaced."""
    start, percent, end = pattern.partition("%")
    if not percent:
        return new if word == pattern else word
    if not _fits(pattern, word):
        return word
    return new.replace("%", word[len(start) : len(word) - len(end)], 1)


def _fits(pattern: str, word: str) -> bool:
    start, percent, end = pattern.partition("%")
    if not percent:
        return word == pattern
    return word.startswith(start) and word.endswith(end) and len(word) >= len(start + end)


def _whole(number: str) -> int:
    """Return the number of a word; invalid numbers are beyond all words."""
    return max(1, int(number)) if number.strip().isdecimal() else MOST


def _pairs(left: str, right: str) -> Iterator[tuple[str, str]]:
    from itertools import zip_longest

    return zip_longest(left.split(), right.split(), fillvalue="")


def _filter(patterns: str, text: str, *, fits: bool) -> str:
    return " ".join(w for w in text.split() if fits == any(_fits(p, w) for p in patterns.split()))


# By name, the number of arguments of a function, and its implementation.
_FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "addprefix": (2, lambda prefix, text: _each(text, lambda word: prefix + word)),
    "addsuffix": (2, lambda suffix, text: _each(text, lambda word: word + suffix)),
    "subst": (3, lambda old, new, text: text.replace(old, new) if old else text),
    "patsubst": (
        3,
        lambda old, new, text: _each(text, lambda word: _replaced(old.strip(), new.strip(), word)),
    ),
    "strip": (1, lambda text: " ".join(text.split())),
    "sort": (1, lambda text: " ".join(sorted(set(text.split())))),
    "filter": (2, lambda patterns, text: _filter(patterns, text, fits=True)),
    "filter-out": (2, lambda patterns, text: _filter(patterns, text, fits=False)),
    "firstword": (1, lambda text: " ".join(text.split()[:1])),
    "lastword": (1, lambda text: " ".join(text.split()[-1:])),
    "dir": (1, lambda text: _each(text, lambda word: word[: word.rfind("/") + 1] or "./")),
    "notdir": (1, lambda text: _each(text, lambda word: word[word.rfind("/") + 1 :])),
    "info": (1, lambda _: ""),
    "warning": (1, lambda _: ""),
    "findstring": (2, lambda part, text: part if part in text else ""),
    "words": (1, lambda text: str(len(text.split()))),
    "word": (2, lambda at, text: " ".join(text.split()[_whole(at) - 1 : _whole(at)])),
    "wordlist": (
        3,
        lambda start, end, text: " ".join(text.split()[_whole(start) - 1 : _whole(end)]),
    ),
    "join": (2, lambda left, right: " ".join(map("".join, _pairs(left, right)))),
    "suffix": (1, lambda text: _each(text, lambda word: os.path.splitext(word)[1])),
    "basename": (1, lambda text: _each(text, lambda word: os.path.splitext(word)[0])),
}
