"""Finds the custom targets of a CMake project, without running CMake.

Variables, loops, functions and macros are followed as far as plain text allows. Only CMake can
evaluate conditions, so every branch counts.
"""

from __future__ import annotations

import os
import re

from ..task import Task, UnreadableError, one_line, with_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..task import Folder

    _Argument = tuple[str, str]  # kind and text

    _Command = tuple[str, list[_Argument]]

MOST_FILES = 500
MOST_COMMANDS = 50_000  # that are followed, each time that a loop repeats one
_A_COMMAND = 100  # characters of arguments that take as long as a command
_DEEPEST = 30  # calls and files within each other
_LONGEST = 100_000  # characters of a value
_BLOCKS = {"foreach": "endforeach", "function": "endfunction", "macro": "endmacro"}
BUILD = "build"  # the directory of the targets
_TARGET = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*")  # CMake's rule, except options
_VARIABLES = re.compile(r"\$\{([\w.-]+)\}|\$<[^<>]*>")
_REFERENCE = re.compile(r"\$\{([\w./+-]+)\}")
_OF_A_FILE = ("CMAKE_CURRENT_LIST_DIR", "CMAKE_CURRENT_LIST_FILE")
_END_OF_SET = frozenset(("CACHE", "PARENT_SCOPE"))
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPACES = {"n": " ", "r": " ", "t": " ", "\n": ""}
_TOKEN = re.compile(
    r"""
      \#\[(?P<level>=*)\[.*?(?:\](?P=level)\]|\Z)          # a bracket comment
    | \#[^\n]*                                             # a comment
    | \[(?P<depth>=*)\[(?P<verbatim>.*?)(?:\](?P=depth)\]|\Z)
    | "(?P<quoted>(?>[^"\\]|\\.)*+)(?:"|\\?\Z)
    | (?P<sign>[()])
    | (?P<bare>(?:[^\s()#"\\]|\\.)++)
    """,
    re.DOTALL | re.VERBOSE,
)


def cmake_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each custom target with a known name, with its COMMENT.

    This includes the targets of included files and added directories, but no other targets. Raises
    `UnreadableError`; a named file that cannot be used is reported.
    """
    path = folder.first("CMakeLists.txt")
    if path is None:
        return
    project = _Project(folder)
    project.run(path, dict.fromkeys(("CMAKE_SOURCE_DIR", "CMAKE_CURRENT_SOURCE_DIR"), folder.path))
    yield from project.tasks.values()


class _ReturnError(Exception):
    """A file or a function ends before its last command."""


class _Project:
    """Follows the commands of the files of a project; `tasks` are its targets by name."""

    __slots__ = ("_bodies", "_depth", "_files", "_folder", "_left", "tasks")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._bodies: dict[str, tuple[str, list[str], list[_Command], str]] = {}
        self._depth = 0
        self._files: set[tuple[str, str]] = set()
        self._left = MOST_COMMANDS
        self.tasks: dict[str, Task] = {}

    def run(self, path: str, scope: dict[str, str]) -> None:
        """Follow a file. Raises `UnreadableError`."""
        commands = list(_commands(self._folder.text(path)))
        before = {name: scope.get(name) for name in _OF_A_FILE}
        scope |= dict(zip(_OF_A_FILE, (os.path.dirname(path), path), strict=True))
        try:
            self._follow(commands, path, scope)
        except _ReturnError:
            return
        finally:
            scope |= {name: value for name, value in before.items() if value is not None}

    def _follow(self, commands: Sequence[_Command], path: str, scope: dict[str, str]) -> None:
        if self._depth > _DEEPEST:
            return
        self._depth += 1
        try:
            self._follow_each(iter(commands), path, scope)
        finally:
            self._depth -= 1

    def _follow_each(self, remaining: Iterator[_Command], path: str, scope: dict[str, str]) -> None:
        conditions = 0
        for name, written in remaining:
            arguments = list(_filled(written, scope)) if self._left > 0 else []
            self._left -= 1 + sum(map(len, arguments)) // _A_COMMAND
            if self._left < 0:
                break
            conditions += (name in {"if", "while"}) - (name in {"endif", "endwhile"})
            if name in _BLOCKS:
                self._block(name, arguments, list(_body(remaining, name)), path, scope)
            elif name == "return" and not conditions:
                raise _ReturnError
            elif name in self._bodies:
                self._call(self._bodies[name], arguments, scope)
            elif name in {"include", "add_subdirectory"} and arguments:
                self._read(name, arguments, path, scope)
            elif name == "add_custom_target" and arguments and _TARGET.fullmatch(arguments[0]):
                following = dict(zip(reversed(arguments[:-1]), reversed(arguments), strict=False))
                task = Task(
                    arguments[0],
                    runner="cmake",
                    argv=("cmake", "--build", BUILD, "--target", arguments[0]),
                    path=os.path.realpath(path),
                    description=with_names(one_line(following.get("COMMENT")), _VARIABLES),
                )
                self.tasks.setdefault(arguments[0], task)
            elif arguments:
                _assign(name, arguments, scope)

    def _block(
        self,
        name: str,
        arguments: list[str],
        body: list[_Command],
        path: str,
        scope: dict[str, str],
    ) -> None:
        """Follow a loop, or note a function or macro."""
        if not arguments:
            return
        if name != "foreach":
            self._bodies[arguments[0].lower()] = name, arguments[1:], body, path
            return
        for item in _items(arguments[1:], scope):
            scope[arguments[0]] = item
            self._follow(body, path, scope)

    def _call(
        self,
        called: tuple[str, list[str], list[_Command], str],
        arguments: list[str],
        scope: dict[str, str],
    ) -> None:
        kind, names, body, path = called
        given = dict(zip(names, arguments, strict=False))
        given |= {f"ARGV{at}": text for at, text in enumerate(arguments)}
        given |= {"ARGC": str(len(arguments)), "ARGV": ";".join(arguments)}
        given |= {"ARGN": ";".join(arguments[len(names) :])}
        inner = {**scope, **given}
        try:
            self._follow(body, path, inner)
        except _ReturnError:
            if kind == "macro":
                raise
        if kind == "macro":
            scope |= {name: value for name, value in inner.items() if name not in given}

    def _read(self, command: str, arguments: list[str], source: str, scope: dict[str, str]) -> None:
        """Follow the file that a command reads; report an unusable file.

        A name without a path is a module, which CMake looks for elsewhere.
        """
        given = arguments[0]
        is_module = command == "include" and "/" not in given and not given.endswith(".cmake")
        if "$" in given or is_module or not given.isprintable():
            return
        path = os.path.normpath(os.path.join(scope["CMAKE_CURRENT_SOURCE_DIR"], given))
        if command == "add_subdirectory":
            scope = {**scope, "CMAKE_CURRENT_SOURCE_DIR": path}
            path = os.path.join(path, "CMakeLists.txt")
        key = path, scope["CMAKE_CURRENT_SOURCE_DIR"]
        if not self._folder.is_inside(path):
            self._folder.report(source, f'{command} names "{given}", which is outside the project')
        elif not self._folder.is_file(path):
            if "OPTIONAL" not in arguments:
                self._folder.report(source, f'{command} names "{given}", which does not exist')
        elif key not in self._files and len(self._files) < MOST_FILES:
            self._files.add(key)
            try:
                self.run(path, scope)
            except UnreadableError as error:
                self._folder.report(error.path, error.why)


def _assign(command: str, arguments: list[str], scope: dict[str, str]) -> None:
    """Follow a command that assigns variables; others change nothing."""
    name, *values = arguments
    match command, name:
        case "set", _:
            ends = [at for at, value in enumerate(values) if value in _END_OF_SET]
            value = ";".join(values[: ends[0]] if ends else values)
            if ends and values[-1] != "FORCE":
                if values[-1] != "PARENT_SCOPE":
                    scope.setdefault(name, value)
            else:
                scope[name] = value
        case "unset", _:
            scope.pop(name, None)
        case "project", _:
            scope["PROJECT_NAME"] = name
            scope.setdefault("CMAKE_PROJECT_NAME", name)
            scope["PROJECT_SOURCE_DIR"] = scope["CMAKE_CURRENT_SOURCE_DIR"]
            scope[f"{name}_SOURCE_DIR"] = scope["CMAKE_CURRENT_SOURCE_DIR"]
        case "list", "APPEND" if values:
            before = [scope[values[0]]] if scope.get(values[0]) else []
            scope[values[0]] = ";".join([*before, *values[1:]])[:_LONGEST]
        case "string", "TOLOWER" | "TOUPPER" if len(values) > 1:
            scope[values[1]] = values[0].lower() if name == "TOLOWER" else values[0].upper()


def _items(arguments: list[str], scope: dict[str, str]) -> list[str]:
    """Return the values of a loop."""
    if arguments[:1] == ["RANGE"] and all(word.isdecimal() for word in arguments[1:]):
        first, *more = map(int, arguments[1:]) if len(arguments) > 1 else (0,)
        start, end = (first, more[0]) if more else (0, first)
        step = more[1] if len(more) > 1 else 1
        return [str(number) for number in range(start, min(end + 1, start + _LONGEST), step or 1)]
    if arguments[:1] != ["IN"]:
        return arguments
    items: list[str] = []
    kind = ""
    for word in arguments[1:]:
        if word in {"LISTS", "ITEMS"}:
            kind = word
        elif kind == "LISTS":
            items += scope[word].split(";") if scope.get(word) else []
        else:
            items.append(word)
    return items


def _filled(arguments: Sequence[_Argument], scope: dict[str, str]) -> Iterator[str]:
    """Yield the arguments with known variables filled in; unquoted lists are split."""
    for kind, written in arguments:
        text = written
        for _ in range(_DEEPEST if kind != "verbatim" and "${" in text else 0):
            text = _REFERENCE.sub(lambda one: scope.get(one[1], one[0]), text)
            if "${" not in text or len(text) > _LONGEST:
                break
        text = text[:_LONGEST]
        if kind == "bare" and text != written:
            yield from filter(None, text.split(";"))
        else:
            yield text


def _body(remaining: Iterator[_Command], name: str) -> Iterator[_Command]:
    """Yield the commands up to the end of a block."""
    depth = 1
    for command in remaining:
        depth += (command[0] == name) - (command[0] == _BLOCKS[name])
        if not depth:
            return
        yield command


def _commands(text: str) -> Iterator[_Command]:
    """Yield the commands of a file with their arguments; nested parentheses are arguments too."""
    depth = 0
    named = command = ""
    arguments: list[_Argument] = []
    for kind, word in _tokens(text):
        sign = word if kind == "sign" else ""
        if sign == "(" and depth == 0:
            command, arguments = named, []
        elif sign == ")" and depth == 1:
            yield command, arguments
        elif depth:
            arguments.append((kind, word))
        depth = max(0, depth + (sign == "(") - (sign == ")"))
        named = word.lower() if kind == "bare" else ""


def _tokens(text: str) -> Iterator[_Argument]:
    """Yield the kind and text of each word and parenthesis of a file."""
    for token in _TOKEN.finditer(text):
        for kind in ("verbatim", "quoted", "sign", "bare"):
            word = token[kind]
            if word is None:
                continue
            if kind == "quoted":
                word = _ESCAPED.sub(lambda found: _SPACES.get(found[1], found[1]), word)
            yield kind, word
