"""Finds the custom targets of a CMake project, without running CMake.

Variables, conditions, loops, functions and macros are followed as far as plain text and the cache
of `build` allow. If only CMake can evaluate a condition, both branches count.
"""

from __future__ import annotations

import os
import re
import sys

from ..task import Task, UnreadableError, one_line, with_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..task import Folder

    Word = tuple[str, str | None, bool]  # its kind, its text if known, whether references made it

    _Argument = tuple[str, str]  # kind and text

    _Command = tuple[str, list[_Argument]]

_TRUE = frozenset(("1", "ON", "YES", "TRUE", "Y"))
_FALSE = frozenset(("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"))
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][\w.+-]*", re.ASCII)
_PLAIN = re.compile(r"[\w\s.^$*+?|()\[\]/:,=-]*", re.ASCII)  # same meaning in CMake
_UNARY = frozenset(
    (
        *("COMMAND", "DEFINED", "EXISTS", "IS_ABSOLUTE", "IS_DIRECTORY", "IS_SYMLINK", "POLICY"),
        *("TARGET", "TEST", "IS_READABLE", "IS_WRITABLE", "IS_EXECUTABLE"),
    )
)
_ORDERS: dict[str, Callable[[int], bool]] = {
    "EQUAL": lambda order: order == 0,
    "LESS": lambda order: order < 0,
    "GREATER": lambda order: order > 0,
    "LESS_EQUAL": lambda order: order <= 0,
    "GREATER_EQUAL": lambda order: order >= 0,
}
_KINDS = frozenset(("", "STR", "VERSION_"))
_BINARY = frozenset(
    (*(f"{kind}{order}" for kind in _KINDS for order in _ORDERS), "MATCHES", "IN_LIST")
)


def of_the_system(cache: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that describe the target system; none for cross-compiling."""
    if cache.keys() & {"CMAKE_TOOLCHAIN_FILE", "CMAKE_SYSTEM_NAME"}:
        return {}
    name = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}.get(sys.platform)
    if name is None:
        return {}
    found = dict.fromkeys(("WIN32", "APPLE", "MSVC", "MINGW", "CYGWIN", "ANDROID", "IOS"), "")
    return found | {
        "UNIX": "" if name == "Windows" else "1",
        **({"WIN32": "1"} if name == "Windows" else {}),
        **({"APPLE": "1"} if name == "Darwin" else {}),
        "CMAKE_SYSTEM_NAME": name,
        "CMAKE_HOST_SYSTEM_NAME": name,
    }


def is_true(text: str) -> bool | None:
    """Return whether a text is a constant that is true or false; None for others."""
    upper = text.upper()
    if upper in _TRUE:
        return True
    if upper in _FALSE or upper.endswith("-NOTFOUND"):
        return False
    return float(text) != 0 if _NUMBER.fullmatch(text) else None


class Conditions:
    """Evaluates conditions from the known variables, targets and commands.

    `uncertain` are variables whose value only CMake can determine.
    """

    __slots__ = ("_at", "_commands", "_is_file", "_scope", "_targets", "_words", "uncertain")

    def __init__(
        self,
        targets: Mapping[str, object],
        commands: Mapping[str, object],
        is_file: Callable[[str], bool | None],
    ) -> None:
        self.uncertain: set[str] = set()
        self._targets = targets
        self._commands = commands
        self._is_file = is_file
        self._scope: Mapping[str, str] = {}
        self._words: Sequence[Word] = ()
        self._at = 0

    def holds(self, words: Sequence[Word], scope: Mapping[str, str]) -> bool | None:
        """Return whether a condition is true, or None if only CMake can evaluate it."""
        self._words, self._scope, self._at = words, scope, 0
        try:
            found = self._compound()
        except (IndexError, RecursionError):
            return None
        return found if self._at == len(words) else None

    def _compound(self) -> bool | None:
        found = self._single()
        while (sign := self._sign()) in {"AND", "OR"}:  # both have the same precedence
            self._at += 1
            other = self._single()
            decisive = sign == "OR"
            if decisive in (found, other):
                found = decisive
            elif None in (found, other):
                found = None
        return found

    def _single(self) -> bool | None:
        sign = self._sign()
        if sign == "NOT":
            self._at += 1
            found = self._single()
            return None if found is None else not found
        if sign == "(":
            self._at += 1
            found = self._compound()
            self._at += 1
            return found
        first = self._next()
        if sign in _UNARY and self._at < len(self._words) and self._sign() not in _BINARY:
            return self._unary(sign, self._next()[1])
        operator = self._sign()
        if operator in _BINARY:
            self._at += 1
            return self._binary(self._operand(first), operator, self._next())
        return self._constant(first)

    def _sign(self) -> str:
        """Return the next word if it may be one of the language: not within quotes."""
        if self._at == len(self._words):
            return ""
        kind, text, is_made = self._words[self._at]
        return text or "" if kind in {"bare", "sign"} and not is_made else ""

    def _next(self) -> Word:
        self._at += 1
        return self._words[self._at - 1]

    def _constant(self, word: Word) -> bool | None:
        kind, text, _ = word
        if text is None:
            return None
        found = is_true(text)
        if found is not None or kind != "bare":
            return bool(found)
        value = self._value(text)
        return None if value is None else is_true(value) is not False

    def _value(self, name: str) -> str | None:
        """Return the value of a variable, or None if it is unknown."""
        return None if name in self.uncertain else self._scope.get(name)

    def _operand(self, word: Word) -> str | None:
        """Return the left side of a comparison: a bare name is that of a variable."""
        kind, text, is_made = word
        if text is None or kind != "bare":
            return text
        if text in self._scope:
            return self._value(text)
        is_name = _NAME.fullmatch(text) is not None
        return None if is_name and not is_made else text

    def _unary(self, sign: str, text: str | None) -> bool | None:
        if text is None:
            return None
        if sign == "DEFINED":
            return True if self._value(text) else None
        if sign == "EXISTS":
            return self._is_file(text)
        known = {"TARGET": self._targets, "COMMAND": self._commands}.get(sign, {})
        return True if (text if sign == "TARGET" else text.lower()) in known else None

    def _binary(self, left: str | None, operator: str, word: Word) -> bool | None:
        kind, right, _ = word
        may_be_name = kind == "bare" or operator == "IN_LIST"
        if right is not None and may_be_name and right in self._scope:
            right = self._value(right)
        elif operator == "IN_LIST":
            return None
        if left is None or right is None:
            return None
        if operator == "IN_LIST":
            return left in right.split(";")
        if operator == "MATCHES":
            try:
                return bool(re.search(right, left)) if _PLAIN.fullmatch(right) else None
            except re.error:
                return None
        kind = next(one for one in ("STR", "VERSION_", "") if operator.startswith(one))
        order = _order(kind, left, right)
        return None if order is None else _ORDERS[operator.removeprefix(kind)](order)


def _order(kind: str, left: str, right: str) -> int | None:
    """Return the order of two values as -1, 0 or 1, or None if they are not comparable."""
    if kind == "STR":
        return (left > right) - (left < right)
    if kind == "VERSION_":
        sides = [[*_numbers(side)] for side in (left, right)]
        longest = max(map(len, sides))
        one, other = ([*side, *[0] * (longest - len(side))] for side in sides)
        return (one > other) - (one < other)
    if not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)):
        return None
    return (float(left) > float(right)) - (float(left) < float(right))


def _numbers(version: str) -> Iterator[int]:
    for part in version.split("."):
        digits = re.match("[0-9]{1,18}", part)
        if digits is None:
            return
        yield int(digits[0])


MOST_FILES = 500
MOST_COMMANDS = 50_000  # that are followed, each time that a loop repeats one
_A_COMMAND = 100  # characters of arguments that take as long as a command
_DEEPEST = 30  # calls and files within each other
_LONGEST = 100_000  # characters of a value
_BLOCKS = {
    "foreach": "endforeach",
    "function": "endfunction",
    "macro": "endmacro",
    "if": "endif",
    "while": "endwhile",
}
BUILD = "build"  # the directory of the targets
_LARGEST_CACHE = 1 << 22  # bytes
# Commands that change no variable, whichever they name.
_HARMLESS = frozenset(
    (
        *(
            "add_compile_definitions",
            "add_compile_options",
            "add_custom_command",
            "add_definitions",
        ),
        *("add_dependencies", "add_executable", "add_library", "add_link_options", "add_test"),
        *("enable_language", "enable_testing", "include_directories", "install", "link_libraries"),
        *("find_file", "find_library", "find_package", "find_path", "find_program"),
        *("cmake_minimum_required", "cmake_policy", "export", "mark_as_advanced", "message"),
        *("set_property", "set_source_files_properties", "set_target_properties"),
        *("set_tests_properties", "source_group", "target_compile_definitions"),
        *("target_compile_features", "target_compile_options", "target_include_directories"),
        *("target_link_libraries", "target_link_options", "target_sources"),
    )
)
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
    cache = _cache(folder)
    scope = {**of_the_system(cache), **cache, "CMAKE_SOURCE_DIR": folder.path}
    project = _Project(folder)
    project.run(path, {**scope, "CMAKE_CURRENT_SOURCE_DIR": folder.path})
    yield from project.tasks.values()


def _cache(folder: Folder) -> dict[str, str]:
    """Return the variables of the project's CMakeCache.txt in the build folder, if there is one."""
    path = folder.place(BUILD, "CMakeCache.txt")
    try:
        text = folder.text(path, _LARGEST_CACHE) if folder.is_file(path) else ""
    except UnreadableError as error:
        folder.report(error.path, error.why)
        text = ""
    lines = re.findall(r"^([^#/\s][^:=\n]*):[A-Z]+=(.*)$", text, re.MULTILINE)
    found = {name.strip('"'): value for name, value in lines}
    home = os.path.realpath(found.get("CMAKE_HOME_DIRECTORY", ""))
    return found if home == os.path.realpath(folder.path) else {}


class _ReturnError(Exception):
    """A file or a function ends before its last command."""


class _Project:
    """Follows the commands of the files of a project; `tasks` are its targets by name."""

    __slots__ = (
        "_bodies",
        "_calls",
        "_conditions",
        "_depth",
        "_doubts",
        "_files",
        "_folder",
        "_left",
        "_targets",
        "tasks",
    )

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._bodies: dict[str, tuple[str, list[str], list[_Command], str]] = {}
        self._depth = 0
        self._calls = 0  # nested functions and macros
        self._doubts = 0  # nested conditions that only CMake can evaluate
        self._targets: dict[str, None] = {}
        self._conditions = Conditions(self._targets, self._bodies, self._exists)
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
            self._follow_each(commands, path, scope)
        finally:
            self._depth -= 1

    def _follow_each(self, commands: Sequence[_Command], path: str, scope: dict[str, str]) -> None:
        remaining = iter(commands)
        for name, written in remaining:
            arguments = list(_filled(written, scope)) if self._left > 0 else []
            self._left -= 1 + sum(map(len, arguments)) // _A_COMMAND
            if self._left < 0:
                break
            if name == "if":
                self._branch(written, list(_body(remaining, name)), path, scope)
            elif name in _BLOCKS:
                body = list(_body(remaining, name))
                self._block(name, arguments, body, path, scope)
            elif name == "return" and not self._doubts:
                raise _ReturnError
            elif name in self._bodies:
                self._call(self._bodies[name], arguments, scope)
            elif name in {"include", "add_subdirectory"} and arguments:
                self._read(name, arguments, path, scope)
            elif name == "add_custom_target" and arguments and _TARGET.fullmatch(arguments[0]):
                self._targets[arguments[0]] = None
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
                self._assign(name, arguments, scope)

    def _branch(
        self, condition: list[_Argument], body: list[_Command], path: str, scope: dict[str, str]
    ) -> None:
        """Follow the branches of a condition that hold, or may."""
        before = self._doubts
        try:
            for words, commands in _branches(condition, body):
                holds = words is None or self._conditions.holds([*self._words(words, scope)], scope)
                if holds is False:
                    continue
                self._doubts += holds is None
                self._follow(commands, path, scope)
                if holds:
                    break
        finally:
            self._doubts = before

    def _words(self, arguments: Sequence[_Argument], scope: dict[str, str]) -> Iterator[Word]:
        """Yield the words of a condition; the text is None if it contains an unknown value."""
        for kind, written in arguments:
            names = _REFERENCE.findall(written) if kind != "verbatim" else []
            is_known = all(
                name in scope and name not in self._conditions.uncertain for name in names
            )
            if not is_known or "$ENV{" in written or "$<" in written:
                yield kind, None, True
                continue
            for text in _filled([(kind, written)], scope):
                yield kind, None if "${" in text else text, bool(names)

    def _exists(self, path: str) -> bool | None:
        """Return whether something is at a path in the project; None for others."""
        place = os.path.normpath(path)
        if not os.path.isabs(path) or not self._folder.is_inside(place):
            return None
        self._folder.look(place)
        return os.path.exists(place)

    def _assign(self, command: str, arguments: list[str], scope: dict[str, str]) -> None:
        """Follow a command that may assign variables."""
        if command in {"add_executable", "add_library"}:
            self._targets[arguments[0]] = None
        changed = _assigned(command, arguments, scope)
        if changed is None and command not in _HARMLESS:
            self._conditions.uncertain |= {*arguments} & scope.keys()
        elif changed and self._doubts:
            self._conditions.uncertain.add(changed)
        elif changed and not self._calls:
            self._conditions.uncertain.discard(changed)

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
        if name == "while":
            self._doubts += 1
            self._follow(body, path, scope)
            self._doubts -= 1
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
        self._calls += 1
        try:
            self._follow(body, path, inner)
        except _ReturnError:
            if kind == "macro":
                raise
        finally:
            self._calls -= 1
        if kind == "macro":
            scope |= {name: value for name, value in inner.items() if name not in given}

    def _read(self, command: str, arguments: list[str], source: str, scope: dict[str, str]) -> None:
        """Follow the file that a command reads; report an unusable file.

        A name without a path is a module, which CMake looks for elsewhere.
        """
        given = arguments[0]
        is_module = command == "include" and "/" not in given and not given.endswith(".cmake")
        if (command, given) == ("include", "CTest"):
            scope.setdefault("BUILD_TESTING", "ON")
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


def _branches(
    condition: list[_Argument], body: list[_Command]
) -> Iterator[tuple[list[_Argument] | None, list[_Command]]]:
    """Yield the branches of a condition, each with its own; that of `else` has none."""
    depth = 0
    own: list[_Argument] | None = condition
    commands: list[_Command] = []
    for name, arguments in body:
        depth += (name == "if") - (name == "endif")
        if depth or name not in {"else", "elseif"}:
            commands.append((name, arguments))
            continue
        yield own, commands
        own, commands = (arguments if name == "elseif" else None), []
    yield own, commands


def _assigned(command: str, arguments: list[str], scope: dict[str, str]) -> str | None:
    """Follow a command that assigns a variable, and return its name; None for other commands."""
    name, *values = arguments
    changed: str | None = name
    match command, name:
        case "set", _:
            ends = [at for at, value in enumerate(values) if value in _END_OF_SET]
            value = ";".join(values[: ends[0]] if ends else values)
            if values[-1:] == ["PARENT_SCOPE"]:
                changed = None
            elif ends and values[-1] != "FORCE":
                scope.setdefault(name, value)
            else:
                scope[name] = value
        case "option", _:
            scope.setdefault(name, values[1] if len(values) > 1 else "OFF")
        case "unset", _:
            scope.pop(name, None)
        case "project", _:
            scope["PROJECT_NAME"] = name
            scope.setdefault("CMAKE_PROJECT_NAME", name)
            scope["PROJECT_SOURCE_DIR"] = scope["CMAKE_CURRENT_SOURCE_DIR"]
            scope[f"{name}_SOURCE_DIR"] = scope["CMAKE_CURRENT_SOURCE_DIR"]
            is_top = scope["CMAKE_CURRENT_SOURCE_DIR"] == scope["CMAKE_SOURCE_DIR"]
            scope["PROJECT_IS_TOP_LEVEL"] = "ON" if is_top else "OFF"
        case "list", "APPEND" if values:
            before = [scope[values[0]]] if scope.get(values[0]) else []
            scope[values[0]] = ";".join([*before, *values[1:]])[:_LONGEST]
            changed = values[0]
        case "list", "FIND" | "GET" | "JOIN" | "LENGTH" | "SUBLIST" if values:
            changed = values[-1]
            scope.pop(changed, None)
        case "string", "TOLOWER" | "TOUPPER" if len(values) > 1:
            scope[values[1]] = values[0].lower() if name == "TOLOWER" else values[0].upper()
            changed = values[1]
        case _:
            changed = None
    return changed


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
