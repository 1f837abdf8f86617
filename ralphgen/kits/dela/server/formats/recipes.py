"""Finds the recipes of justfiles and the tasks of Taskfiles, as their own programs list them."""

from __future__ import annotations

import json
import os
import re
import sys

from ..runners import query
from ..task import (
    MAX_DOCUMENT,
    Task,
    UnreadableError,
    has_tags,
    is_word,
    mapping,
    merged,
    one_line,
    read_yaml,
    with_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from ..task import Folder


_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
    | (?P<text>[xf]?(?:
        '''.*?''' | \"\"\"(?:[^\\"]|\\.|"(?!""))*\"\"\" | '[^']*' | "(?:[^\\"]|\\.)*"
    ))
    | (?P<command>```.*?``` | `[^`]*`)
    | (?P<blank>[ \t]+ | \\\n)
    | (?P<open>["'`])
    | (?P<line>\n)
    | (?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    | (?P<sign>:= | :: | .)
    """,
    re.VERBOSE | re.DOTALL,
)
_BODY = re.compile(r"\n|\{\{(?:\{\{)?")
_ESCAPE = re.compile(r"\\(u\{[0-9A-Fa-f]{1,6}\}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\n": ""}
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::-([^}]*))?\})")
_SYSTEMS = frozenset(
    ("android", "dragonfly", "freebsd", "linux", "macos", "netbsd", "openbsd", "unix", "windows")
)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")

Token = tuple[str, str]  # kind and text
Attributes = dict[str, list[Token]]  # the arguments, by the name


class JustRecipe:
    """A recipe: its `name`, whether `just` shows it, and its description."""

    __slots__ = ("description", "is_private", "name")

    def __init__(self, name: str, *, is_private: bool, description: str | None) -> None:
        self.name = name
        self.is_private = is_private
        self.description = description


class JustInclude:
    """Another justfile that one names: an import, or, with a `module`, a module."""

    __slots__ = ("is_optional", "is_private", "module", "place")

    def __init__(
        self, place: str | None, *, module: str = "", is_optional: bool, is_private: bool = False
    ) -> None:
        self.place = place  # None for a module whose file has one of the usual names
        self.module = module
        self.is_optional = is_optional
        self.is_private = is_private


def read_statements(text: str) -> Iterator[JustRecipe | JustInclude]:
    """Yield the recipes, imports and modules that a justfile has on this system, in order."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    this_system = {system.rstrip("0123456789"), *(["unix"] if os.name == "posix" else [])}
    description: str | None = None
    attributes: Attributes = {}
    start = text.find("\n") if text.startswith("#!") else 0  # a shebang is not a description
    for line in _lines(text, max(0, start)):
        tokens = [token for token in line if token[0] != "comment"]
        if tokens and tokens[0][1] == "[":
            attributes |= dict(_attributes(tokens))
            continue
        systems = _SYSTEMS & attributes.keys()
        if tokens and (not systems or systems & this_system):
            statement = _statement(tokens, attributes, description)
            if statement is not None:
                yield statement
        attributes = {}
        description = one_line(line[0][1][1:]) if line and not tokens else None  # from a comment


def _lines(text: str, at: int) -> Iterator[list[Token]]:
    """Yield the tokens of each line outside of recipes; of a blank or indented line, none."""
    while at < len(text):
        line: list[Token] = []
        at = _body_end(text, at) if text[at] in " \t" else _read_line(text, at, line)
        yield line


def _read_line(text: str, at: int, line: list[Token]) -> int:
    """Put the tokens of a line into `line` and return its end; brackets may span lines."""
    depth = 0
    for kind, word, end in _tokens(text, at):
        depth = max(0, depth + (word in _OPENING) - (word in _CLOSING))
        if kind != "line":
            line.append((kind, word))
        elif not depth:
            return end
    return len(text)


def _tokens(text: str, at: int) -> Iterator[tuple[str, str, int]]:
    """Yield kind, text and end of each token from a position, without blanks.

    An unterminated string ends the tokens, because `just` rejects the file.
    """
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup == "open":
            return
        at = found.end()
        if found.lastgroup and found.lastgroup != "blank":
            yield found.lastgroup, found.group(), at


def _body_end(text: str, at: int) -> int:
    """Return the end of a recipe's line: strings in `{{...}}` may span many lines."""
    while found := _BODY.search(text, at):
        at = found.end()
        if found.group() == "\n":
            return at
        if found.group() == "{{":
            at = _interpolation_end(text, at)
    return len(text)


def _interpolation_end(text: str, at: int) -> int:
    depth = 0
    for kind, word, end in _tokens(text, at):
        if kind == "line" or (not depth and text.startswith("}}", end - 1)):
            return end - 1
        depth += (word == "{") - (word == "}")
    return len(text)


def _statement(
    tokens: Sequence[Token], attributes: Attributes, description: str | None
) -> JustRecipe | JustInclude | None:
    """Return the recipe, import or module of a line; None for others, such as an assignment."""
    words = [word if kind in {"name", "sign"} else "" for kind, word in tokens]
    colon = next((at for at, word in _outer(words) if word in {":", ":="}), None)
    if colon is not None:
        return _recipe(tokens, colon, attributes, description)
    is_optional = "?" in words[1:2]
    rest = tokens[1 + is_optional :]
    match words[0], [kind for kind, _ in rest]:
        case "import", ["text"]:
            return JustInclude(read_text(rest[0][1]), is_optional=is_optional)
        case "mod", ["name", *more] if more in ([], ["text"]):
            return JustInclude(
                read_text(rest[1][1]) if more else None,
                module=rest[0][1],
                is_optional=is_optional,
                is_private="private" in attributes,
            )
    return None


def _recipe(
    tokens: Sequence[Token], colon: int, attributes: Attributes, description: str | None
) -> JustRecipe | None:
    head = tokens[1:colon] if tokens[0][1] == "@" else tokens[:colon]
    if tokens[colon][1] == ":=" or not head or head[0][0] != "name":
        return None
    name = head[0][1]
    if "doc" in attributes:
        # If [doc(...)] is not a plain text, only `just` can evaluate it.
        literal = attributes["doc"][0] if len(attributes["doc"]) == 1 else ("", "")
        is_plain = literal[0] == "text" and not literal[1].startswith("f")
        description = one_line(read_text(literal[1])) if is_plain else None
    return JustRecipe(
        name,
        is_private="private" in attributes or name.startswith("_"),
        description=description,
    )


def _outer(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the words outside of all brackets, with their places."""
    depth = 0
    for at, word in enumerate(words):
        depth -= word in _CLOSING
        if depth <= 0:
            yield at, word
        depth += word in _OPENING


def _attributes(tokens: Sequence[Token]) -> Iterator[tuple[str, list[Token]]]:
    """Yield the attributes of a line of them, such as `[private, doc("...")]`."""
    words = [word if kind in {"name", "sign"} else "" for kind, word in tokens[1:-1]]
    ends = [at for at, word in _outer(words) if word == ","]
    for start, end in zip([-1, *ends], [*ends, len(words)], strict=True):
        part = list(tokens[start + 2 : end + 1])
        if part and part[0][0] == "name":
            yield part[0][1], [token for token in part[1:] if token[1] not in set("():")]


def read_text(literal: str) -> str:
    """Return the text of a justfile literal of the kinds that `just` accepts as paths."""
    from textwrap import dedent

    quoted = literal.lstrip("xf")
    indented = quoted.startswith(("'''", '"""'))
    text = dedent(quoted[3:-3].removeprefix("\n")) if indented else quoted[1:-1]
    if quoted.startswith('"'):
        text = _ESCAPE.sub(_escaped, text)
    if not literal.startswith("x"):
        return text
    return _VARIABLE.sub(
        lambda found: os.environ.get(found[1] or found[2], found[3] or ""), os.path.expanduser(text)
    )


def _escaped(found: re.Match[str]) -> str:
    letter = found[1]
    if letter.startswith("u{"):
        point = int(letter[2:-1], 16)
        return chr(point) if point <= sys.maxunicode else found[0]
    return _ESCAPED.get(letter, letter)


NAMES = frozenset(("justfile", ".justfile"))  # in any capitals
MOST_FILES = 200
MOST_NAMED = 500  # files, existing or not
_A_VALUE = 4  # characters of a justfile that take as long as a value of YAML
_DEEPEST = 20  # files that name each other in a chain
_POINTER = re.compile(r"\S+ \S+:[0-9]+:[0-9]+$")  # "-> justfile:1:1", with just's arrow
Listed = dict[str, tuple[str | None, str | None]]  # description and file of a module, by name


def just_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the recipes that `just --summary` names, including modules, in the file's order.

    This module parses the files itself to find the file of each recipe. If `just` is installed, its
    dump decides which recipes exist and how they are described; it evaluates nothing for a dump.
    Raises `UnreadableError`; an import that cannot be used is reported.
    """
    names = [name for name in folder.entries() if name.lower() in NAMES]
    paths = [path for path in map(folder.place, names) if folder.is_usable(path)]
    if len(paths) > 1:
        raise UnreadableError(paths[0], f'conflicts with "{names[1]}": just runs neither')
    path = next(iter(paths), None)
    if path is None:
        return
    sources = JustSources(folder)
    recipes = sources.read(path)
    listed = _just_dump(folder, path) if sources.is_whole else None
    for name, (recipe, place) in recipes.items():
        is_private = recipe.is_private or place.is_private
        if not is_private and (listed is None or name in listed):
            yield _recipe_task(name, place.path, listed[name][0] if listed else recipe.description)
    for name, (description, source) in (listed or {}).items():
        if name not in recipes and folder.is_inside(source or path):
            yield _recipe_task(name, source or path, description)


def _recipe_task(name: str, path: str, description: str | None) -> Task:
    real = os.path.realpath(path)
    return Task(name, runner="just", argv=("just", name), path=real, description=description)


def _just_dump(folder: Folder, path: str) -> Listed | None:
    """Return the recipes that `just` lists; None if it cannot be run or rejects the file."""
    words = ("--dump", "--dump-format", "json", "--justfile", path)
    return _runner_listing(
        folder, path, "just", words, (1, 1, "error: "), lambda said: _recipes(said, "")
    )


def _runner_listing(
    folder: Folder,
    path: str,
    runner: str,
    words: Sequence[str],
    refusals: tuple[int, int, str],
    read: Callable[[Any], Iterable[tuple[str, tuple[str | None, str | None]]]],
) -> Listed | None:
    """Return a runner's view of its file; None if the runner cannot be run or rejects the file.

    `refusals` are the first and last exit code of a refusal with a reason, and the prefix of that
    reason. The reason is reported without the prefix, with the place that `just` points to.
    """
    answer = query(folder, runner, *words)
    if answer is None:
        return None
    if answer.code:
        first, last, prefix = refusals
        if first <= answer.code <= last and answer.complaint:
            places = [line.split()[-1] for line in answer.complaint[1:] if _POINTER.match(line)]
            where = f" at {places[0]}" if places and runner == "just" else ""
            why = re.sub(f"^{prefix}", "", answer.complaint[0])
            folder.report(path, f"{runner} rejects it{where}: {why}")
        return None
    try:
        return dict(read(json.loads(answer.output)))
    except (LookupError, TypeError, ValueError, RecursionError):
        return None  # an older version, or another program of this name


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
    """The place of a file: its module, and the chain of files and imports that leads to it.

    `seen` are the files of the module; each is read once.
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
    """Reads justfiles once; files that they name but that cannot be read are reported.

    Afterwards `is_whole` is true if there were none.
    """

    __slots__ = ("_files", "_folder", "_found", "_named", "is_whole")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._found: dict[str, tuple[JustRecipe, _Place]] = {}
        self._files = 0
        self._named = 0
        self.is_whole = True

    def read(self, path: str) -> dict[str, tuple[JustRecipe, _Place]]:
        """Return the recipes of a justfile, in order.

        Their names include the paths of their modules. Raises `UnreadableError` if the file itself
        cannot be read.
        """
        self._add(_Place(path))
        return self._found

    def _add(self, place: _Place) -> None:
        """Add the definitions of a file and of the files that it names."""
        text = self._folder.text(place.path, MAX_DOCUMENT)
        self._folder.spend("values", len(text) // _A_VALUE)
        for statement in list(read_statements(text)):
            if isinstance(statement, JustInclude):
                self._follow(statement, place)
                continue
            name = place.prefix + statement.name
            other = self._found[name][1] if name in self._found else None
            # A recipe may be redefined: the nearest definition wins, then the first one, but within
            # one file the last one.
            if other is None or place.depth < other.depth or place.path == other.path:
                self._found[name] = statement, place

    def _follow(self, source: JustInclude, before: _Place) -> None:
        """Add the definitions of an import or a module."""
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
        """Return the file of an import or module, or None; a missing required file is reported."""
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
        if not is_inside:
            self._miss(before.path, f'names "{given}", which is outside the project')
        elif not source.is_optional:
            self._miss(before.path, f'names "{given}", which does not exist')
        return None

    def _candidates(self, source: JustInclude, place: str) -> Iterator[str]:
        """Yield the possible paths of an import or a module."""
        if source.place is not None:
            yield place
        if not source.module:
            return
        if source.place is None:
            yield f"{place}.just"
        for name in self._folder.entries(place):
            if name == "mod.just" or name.lower() in NAMES:
                yield os.path.join(place, name)

    def _miss(self, path: str, why: str) -> None:
        self.is_whole = False
        self._folder.report(path, why)


FILES = (
    "Taskfile.yml",
    "taskfile.yml",
    "Taskfile.yaml",
    "taskfile.yaml",
    "Taskfile.dist.yml",
    "taskfile.dist.yml",
    "Taskfile.dist.yaml",
    "taskfile.dist.yaml",
)
# Fields of a Taskfile except `dotenv`, because `task` runs commands to find the dotenv files.
_PLAIN = frozenset(
    (
        *("version", "includes", "tasks", "vars", "env", "output", "method", "silent", "set"),
        *("shopt", "run", "interval"),
    )
)
MOST_TASKS = 10_000
_MOST_FIELDS = 1000  # in one file
_YES = frozenset(("y", "yes", "on", "true"))
_SPECIAL = frozenset("{}$`~:\\'\"")  # characters of a template, a pattern or an address
_NAMED = re.compile(r"\{\{\s*(OS|ARCH)\s*\}\}")
_VALUE = re.compile(r"\{\{\s*\.(\w+)\s*\}\}")
_OWN_SYSTEMS = {"win32": "windows"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}
_VARIABLES = re.compile(r"\{\{-?\s*\.(\w+)\s*-?\}\}|\{\{[^{}]*\}\}")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_REFUSALS = (100, 255, "(?:task: )?(?:err: )?")  # exit codes of `task` on a Taskfile


def taskfile_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the tasks that `task --list-all` names and that can be run by their name.

    This module parses the files itself. If `task` is installed, its list decides which tasks exist
    and how they are described. It is not run if it might run commands or load files to answer: for
    a Taskfile with `dotenv` (it runs `sh:` variables then) or with any other special field, and for
    an include that is an address or a template. Raises `UnreadableError`; an include that cannot be
    used is reported.
    """
    path = folder.first(*FILES)
    if path is None:
        return
    sources = TaskfileSources(folder)
    tasks = sources.read(path)
    may_ask = sources.is_whole and sources.is_plain
    listed = _task_list(folder, path) if may_ask else None
    for found in tasks:
        if not found.is_internal and (listed is None or found.name in listed):
            title = listed[found.name][0] if listed else _title(merged(found.written))
            yield from _valid_tasks(
                found.name, found.path, title or _summary_of_commands(found.written)
            )
    known = {found.name for found in tasks}
    for name, (title, file) in (listed or {}).items():
        if name not in known and folder.is_inside(file or path):
            yield from _valid_tasks(name, file or path, title)


def _valid_tasks(name: str, path: str, description: str | None) -> Iterator[Task]:
    """Yield the task of a name, unless the name looks like an option or a variable."""
    if is_word(name) and "=" not in name:
        yield Task(
            name,
            runner="task",
            argv=("task", name),
            path=os.path.realpath(path),
            description=with_names(description, _VARIABLES),
            before_arguments=("--",),
        )


def _title(fields: dict[str, Any]) -> str | None:
    """Return a task's description: its `desc`, else the first line of its `summary`."""
    return _one_line(fields.get("desc")) or _first_line(fields.get("summary"))


def _summary_of_commands(written: object) -> str | None:
    """Return a summary of a task's commands, used if it has no description."""
    commands = written if isinstance(written, (str, list)) else merged(written).get("cmds")
    if commands is None:
        commands = merged(written).get("cmd")
    if not isinstance(commands, list):
        commands = [commands] if isinstance(commands, (str, dict)) else []
    if len(commands) > 1:
        return f"multiple commands: {len(commands)}"
    if not commands or isinstance(commands[0], list):
        return None
    if isinstance(commands[0], dict):
        return "complex command"
    command = _first_line(commands[0])
    return f"command: {command}" if command else None


def _one_line(text: object) -> str | None:
    found = one_line(text)
    return None if found in _NULLS else found


def _first_line(text: object) -> str | None:
    lines = text.split("\n") if isinstance(text, str) and text not in _NULLS else []
    return next(filter(None, map(_one_line, lines)), None)


def _task_list(folder: Folder, path: str) -> Listed | None:
    """Return the tasks that `task` lists; None if it cannot be run or rejects the file."""
    words = ("--taskfile", path, "--list-all", "--json", "--no-status")
    return _runner_listing(
        folder, path, "task", words, _REFUSALS, lambda said: _entries(mapping(said)["tasks"])
    )


def _entries(tasks: list[object]) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for task in map(mapping, tasks):
        file = mapping(task.get("location")).get("taskfile")
        yield str(task["task"]), (_title(task), file if isinstance(file, str) else None)


class FoundTask:
    """A task with its full `name`, its written definition and the path of its file.

    Only other tasks can call an internal task.
    """

    __slots__ = ("is_internal", "name", "path", "written")

    def __init__(self, name: str, written: object, path: str, *, is_internal: bool) -> None:
        self.name = name
        self.written = written
        self.path = path
        self.is_internal = is_internal


class TaskfileSources:
    """Reads Taskfiles once; includes that cannot be read are reported.

    Afterwards `is_whole` is true if there were none. `is_plain` is true if `task` can list the
    files without running any part of them: they have only known fields, and values without tags,
    which could change the meaning of a value.
    """

    __slots__ = ("_files", "_folder", "_tasks_read", "is_plain", "is_whole")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files = 0
        self._tasks_read = 0
        self.is_whole = True
        self.is_plain = True

    def read(self, path: str) -> list[FoundTask]:
        """Return the tasks of a Taskfile: its own, then the tasks of its includes, in order.

        Raises `UnreadableError` if the file itself cannot be read.
        """
        return self._tasks(path, (os.path.realpath(path),))

    def _tasks(self, path: str, way: tuple[str, ...]) -> list[FoundTask]:
        """Return the tasks of a file, by its own names; `way` are the files that led to it."""
        file = merged(read_yaml(self._folder, path), _MOST_FIELDS)
        plain = all(field in _PLAIN or field.startswith("x-") for field in file)
        self.is_plain = self.is_plain and plain and not has_tags(self._folder, path)
        texts = mapping(file.get("vars")).items()
        values = {name: text for name, text in texts if isinstance(text, str) and "{{" not in text}
        tasks = mapping(file.get("tasks"))
        self._tasks_read += len(tasks)
        if self._tasks_read > MOST_TASKS:
            raise UnreadableError(path, f"was not read: there are more than {MOST_TASKS:,} tasks")
        found = [
            FoundTask(name, task, path, is_internal=_is_true(merged(task).get("internal")))
            for name, task in tasks.items()
        ]
        for namespace, include in mapping(file.get("includes")).items():
            fields: dict[str, Any] = dict(merged(include))
            if isinstance(include, str):
                fields = {"taskfile": include}
            fields["taskfile"] = self._filled(fields.get("taskfile"), values)
            found += self._included(path, namespace, fields, way)
        unique: dict[str, FoundTask] = {}
        for task in found:
            if unique.setdefault(task.name, task) is not task:
                first = unique[task.name].path
                self._miss(task.path, f'task "{task.name}" is skipped: "{first}" has it too')
        return list(unique.values())

    def _filled(self, given: object, values: dict[str, str]) -> object:
        """Return the path of an include with variables of plain text filled in.

        For such a path, `task` evaluates every variable and runs the commands of its `sh`.
        """
        if not isinstance(given, str):
            return given
        filled = _VALUE.sub(lambda one: values.get(one[1], one[0]), given)
        self.is_plain = self.is_plain and filled == given
        return filled

    def _included(
        self, path: str, namespace: str, fields: dict[str, Any], way: tuple[str, ...]
    ) -> list[FoundTask]:
        """Return the tasks of an include, by their names in the file that includes them."""
        self._files += 1
        is_enough = self._files > MOST_FILES or len(way) > _DEEPEST
        file = None if is_enough else self._file(path, namespace, fields)
        if file is None and not is_enough:
            return []
        real = os.path.realpath(file or path)
        if file is None or real in way:
            self._miss(path, f'include "{namespace}" includes itself or too many files')
            return []
        try:
            tasks = self._tasks(file, (*way, real))
        except UnreadableError as error:
            self._miss(error.path, error.why)
            return []
        excludes = fields.get("excludes")
        listed = excludes if isinstance(excludes, list) else []
        excluded = {name for name in listed if isinstance(name, str)}
        prefix = "" if _is_true(fields.get("flatten")) else f"{namespace}:"
        is_internal = _is_true(fields.get("internal"))
        return [
            FoundTask(
                prefix + task.name,
                task.written,
                task.path,
                is_internal=is_internal or task.is_internal,
            )
            for task in tasks
            if task.name not in excluded
        ]

    def _file(self, path: str, namespace: str, fields: dict[str, Any]) -> str | None:
        """Return the file of an include, or None; a missing required file is reported."""
        given = fields.get("taskfile")
        plain = _NAMED.sub(_system_name, given) if isinstance(given, str) else ""
        if not plain or not plain.isprintable() or _SPECIAL.intersection(plain):
            self._miss(
                path, f'include "{namespace}" was not read: its taskfile is not a plain path'
            )
            return None
        place = os.path.normpath(os.path.join(os.path.dirname(path), plain))
        file: str | None = None
        if self._folder.is_inside(place):
            is_file = self._folder.is_file(place)
            file = place if is_file else self._folder.first(*FILES, folder=place)
        if not self._folder.is_inside(file or place):
            self._miss(path, f'include "{namespace}" is outside the project: "{given}"')
            return None
        if file is None and not _is_true(fields.get("optional")):
            self._miss(path, f'include "{namespace}" does not exist: "{given}"')
        return file

    def _miss(self, path: str, why: str) -> None:
        self.is_whole = False
        self._folder.report(path, why)


def _is_true(value: object) -> bool:
    return isinstance(value, str) and value.lower() in _YES


def _system_name(found: re.Match[str]) -> str:
    if found[1] == "OS":
        return _OWN_SYSTEMS.get(sys.platform, sys.platform.rstrip("0123456789"))
    machine = os.uname().machine
    return _MACHINES.get(machine, machine)
