"""Expands the variables of a Makefile as far as plain text goes; nothing is run for it."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import ClassVar

    from ..task import Folder

MOST = 200_000  # characters of all that is expanded
_DEEPEST = 30
# Variables that make sets itself; what is in them depends on the machine.
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
    """The variables of a Makefile, at the line that was read last.

    `None` is the value of a variable that only make can know, such as the output of a command. One
    that was assigned under a condition has all its possible values, as one list.
    """

    __slots__ = (
        "_environment",
        "_fixed",
        "_folder",
        "_is_exact",
        "_left",
        "_overriding",
        "_values",
        "evaluated",
        "included_from",
    )

    def __init__(self, folder: Folder, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {"MAKELEVEL": "0", **environment}
        self._left = MOST
        self._is_exact = False  # a value that varies is not known
        self.evaluated: list[str] = []  # the texts of `eval` that are still to be read
        flags = [environment.get(name, "") for name in ("GNUMAKEFLAGS", "MAKEFLAGS")]
        given = [word.partition("=") for word in " ".join(flags).split() if word[0] != "-"]
        # What the command line of a make around this one assigns goes before the file, and with
        # its option -e so does the environment.
        self.included_from: list[str] = []  # by its option -I
        has_e = [_options(text.split(), self.included_from) for text in flags]
        own = environment if any(has_e) else {}
        self._fixed = {**own, **{name: value for name, sign, value in given if sign}}
        self._overriding: set[str] = set()  # variables with `override`
        # By name: the text, whether it is expanded at each use, whether it varies.
        self._values: dict[str, tuple[str | None, bool, bool]] = {
            "CURDIR": (folder.path, False, False),
            **{name: (value, True, False) for name, value in self._fixed.items()},
        }

    def assign(self, line: str, *, is_certain: bool) -> None:
        """Follow an assignment; where it is not certain, a condition decides on it."""
        found = _WRITTEN.fullmatch(line)
        if found is None:
            return
        if "override" in line[: found.start(1)].split():
            self._overriding.add(found[1])
        if found[1] not in self._fixed or found[1] in self._overriding:
            self.set(found[1], found[2] or "", COMMENT.sub("", found[3]), is_certain=is_certain)

    def set(self, name: str, operator: str, written: str, *, is_certain: bool) -> None:
        """Assign a text to a variable with `=` and what stands before that, such as `:`."""
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
        """Note that make reads a file now, by the path at which it finds it."""
        files, _, _ = self._values.get("MAKEFILE_LIST", ("", False, False))
        self._values["MAKEFILE_LIST"] = f"{files} {name}", False, False

    def forget(self, name: str) -> None:
        """Note that only make knows the value of a variable."""
        self._values[name] = None, False, False

    def expand(self, text: str, depth: int = 0) -> str | None:
        """Return the text with its references filled in; None where only make can do that."""
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
                self._varies(text[sign + 1 : end]) and (self._is_exact or not all(alone))
            ):
                return None
            parts += [text[at:sign], value]
            at = end
            self._left -= len(value) + 1
            if self._left < 0:
                return None
        return "".join(parts) + text[at:]

    def words(self, reference: str, *, is_alone: bool) -> str | None:
        """Return the value of a reference; one that varies only has words if it is `is_alone`.

        None, too, for several lines, which are no words for make.
        """
        value = self.expand(reference) if is_alone else self._exact(reference)
        return None if value and "\n" in value else value

    def _exact(self, text: str) -> str | None:
        """Return the text with its references filled in; None where a value varies."""
        self._is_exact = True
        try:
            return self.expand(text)
        finally:
            self._is_exact = False

    def holds(self, word: str, rest: str) -> bool | None:
        """Return whether a condition such as `ifeq (a,b)` holds; None where only make knows."""
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

    def _varies(self, reference: str) -> bool:
        return self._values.get(reference.strip("(){}"), ("", False, False))[2]

    def _reference(self, reference: str, depth: int) -> str | None:
        """Return the value of what stands behind a "$"."""
        if reference == "$" or depth > _DEEPEST:
            return "$" if reference == "$" else None
        inner = reference[1:-1] if reference[:1] in _CLOSING else reference
        call = _CALL.fullmatch(inner)
        if call is not None:
            return self._call(call[1], call[2], depth + 1)
        expanded = self.expand(inner, depth + 1)
        return None if expanded is None else self._changed(expanded, depth + 1)

    def _changed(self, reference: str, depth: int) -> str | None:
        """Return the value of a variable, with the change in it that is written behind a colon."""
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
        """Return the result of a function; None for one that is not known here."""
        arguments = _arguments(written)
        if function == "foreach":
            return self._foreach(arguments, depth)
        if function in {"if", "and", "or"}:
            return self._chosen(function, arguments, depth)
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

    def _written(self, texts: Sequence[str], _: int) -> str | None:
        return self._values.get(texts[0], ("", False, False))[0]

    def _origin(self, texts: Sequence[str], _: int) -> str | None:
        name = texts[0]
        if name in self._overriding:
            return "override"
        if name in self._fixed:
            return "command line"
        if name in self._values:
            return None if self._values[name][2] or name == "CURDIR" else "file"
        if name in self._environment:
            return "environment"
        return None if _OF_MAKE.fullmatch(name) else "undefined"

    def _flavor(self, texts: Sequence[str], _: int) -> str | None:
        name = texts[0]
        if name in self._values:
            text, is_lazy, varies = self._values[name]
            return None if varies or text is None else "recursive" if is_lazy else "simple"
        if name in self._environment:
            return "recursive"
        return None if _OF_MAKE.fullmatch(name) else "undefined"

    def _evaluate(self, texts: Sequence[str], _: int) -> str:
        self.evaluated.append(",".join(texts))
        return ""

    def _chosen(self, function: str, arguments: Sequence[str], depth: int) -> str | None:
        """Return the result of a condition, of whose arguments make expands only what it needs."""
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
        "flavor": _flavor,
        "origin": _origin,
        "realpath": _paths,
        "value": _written,
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


def _options(flags: list[str], folders: list[str]) -> bool:
    """Return whether MAKEFLAGS have the option -e; add the folders of -I."""
    has_e = False
    if flags and not flags[0].startswith("-") and "=" not in flags[0]:
        flags[0] = f"-{flags[0]}"
    words = iter(flags)
    for word in words:
        if word == "--":
            break
        name, sign, value = word.partition("=")
        if name == "--include-dir":
            folders.append(value if sign else next(words, "."))
        elif not word.startswith("--"):
            letters, option, rest = word[1:].partition("I")
            has_e = has_e or (word.startswith("-") and "e" in letters)
            folders += [rest or next(words, ".")] if option and word.startswith("-") else []
        has_e = has_e or word == "--environment-overrides"
    return has_e


def reference_end(line: str, start: int) -> int:
    """Return where a reference ends whose "$" stands directly before `start`."""
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
    """Return a word with what a pattern with "%" fits replaced."""
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
    """Return a number of a word; what is no number is behind all words."""
    return max(1, int(number)) if number.strip().isdecimal() else MOST


def _pairs(left: str, right: str) -> Iterator[tuple[str, str]]:
    from itertools import zip_longest

    return zip_longest(left.split(), right.split(), fillvalue="")


def _filter(patterns: str, text: str) -> str:
    return " ".join(w for w in text.split() if any(_fits(p, w) for p in patterns.split()))


def _filter_out(patterns: str, text: str) -> str:
    return " ".join(w for w in text.split() if not any(_fits(p, w) for p in patterns.split()))


# By name, how many arguments a function takes, and what it makes of them.
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
    "filter": (2, _filter),
    "filter-out": (2, _filter_out),
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
