"""Finds the targets of a Makefile that can be made by name."""

from __future__ import annotations

import os
import re

from ..runners import inherited
from ..task import Task, UnreadableError, one_line, with_names
from .make_variables import COMMENT, GLOB, Variables, reference_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..task import Folder

MODIFIERS = r"(?:(?:export|override|private)\s+)*"
ASSIGNMENT = re.compile(rf"{MODIFIERS}[^\s:=#]+\s*(?::{{1,3}}|[+?!])?=", re.ASCII)
PREFIX = re.compile(rf"{MODIFIERS}\.RECIPEPREFIX\s*:{{0,3}}=\s*(.*)", re.ASCII)
DEFINITION = re.compile(rf"{MODIFIERS}(un)?define(?!\S)", re.ASCII)
CONDITIONS = frozenset(("ifdef", "ifndef", "ifeq", "ifneq", "else", "endif"))
INCLUDES = {"include": True, "-include": False, "sinclude": False}  # whether the file must be there
DIRECTIVES = ("export", "unexport", "vpath", "load", "-load")

TARGETS = re.compile(r"((?:[^\\:]|\\.)*):")
WORD = re.compile(r"(?:[^\s\\]|\\.)+", re.ASCII)
ESCAPED = re.compile(r"\\([\s:#])", re.ASCII)
NOTABLE = re.compile(r"\\[^$]|[$#;]")  # an escape, a reference, or an end of what make reads first

ECHO = re.compile(r"@\s*echo\s+(?:-[neE]+\s+)*(.*)", re.DOTALL)
END = r"(?:$|[;&|]|>\s*&\s*2)"  # of an echo, as far as it is seen
ECHOED = re.compile(
    rf"""(?:"((?:[^"\\]|\\.)*)"\s*|'([^']*)'\s*|([^"'`()\\<>;&|]+)){END}""",
    re.DOTALL,
)


class MakeRule:
    """A rule: the words before its colon and what describes it.

    The words are without their escapes; a "$" in one stands for a reference whose value only make
    knows. `phony` are targets that the rule makes by declaring them.
    """

    __slots__ = ("_has_recipe", "description", "phony", "targets")

    def __init__(self, targets: Sequence[str], description: str | None) -> None:
        self.targets = tuple(targets)
        self.phony: tuple[str, ...] = ()
        self.description = description
        self._has_recipe = False

    def add_recipe(self, line: str) -> None:
        """Describe the rule by what the first line of its recipe says, where nothing else does."""
        if self._has_recipe or not line.strip():
            return
        self._has_recipe = True
        if self.description is None:
            self.description = _message(line)


class Include:
    """The names of files that are read in at a line; `is_needed` if one must be there.

    None must where a condition decides whether the line counts.
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
        """Change with an assignment to `.RECIPEPREFIX`, where its value can be known."""
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
        self._comment: str | None = None  # that stands directly above
        # Of each open condition: whether make reads this branch, and whether it has read one;
        # None where only make knows.
        self._branches: list[tuple[bool | None, bool | None]] = []
        self._rule: MakeRule | None = None  # whose recipe may follow

    def statements(self) -> Iterator[MakeRule | Include | Fault]:
        """Yield the statements, in order; a rule gets its description when what follows is read.

        The first fault is the only one.
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
        """Yield the statements of the texts that the line before gave to `eval`."""
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
        """Return whether make reads the line, whatever only make knows."""
        return all(is_read for is_read, _ in self._branches)

    def _expanded(self, line: str) -> str:
        """Return what `_split` returns first, with the values of references that are known."""
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
            return None  # of a variable that only these targets have
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
    """Return what stands before the first "#" or ";", with "$" for each reference, and the rest.

    With `variables` a reference whose value is known is replaced by that.
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
    """Return what a comment says; None for rulers, headings of a help target and "#!" lines."""
    if comment.startswith(("#!", "##@")):
        return None
    text = one_line(comment.lstrip("#")) or ""
    return text if re.search(r"\w", text) else None


def _message(recipe: str) -> str | None:
    """Return what the line of a recipe echoes without being echoed itself."""
    echo = ECHO.search(recipe)
    if not echo:
        return None
    text = echo[1].strip()
    if echoed := ECHOED.match(text):
        return one_line(echoed[1] or echoed[2] or echoed[3])
    return one_line(text.strip('"'))


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
