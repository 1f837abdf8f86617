"""Reads the text of one justfile: the recipes it defines, and the files that it names."""

from __future__ import annotations

import os
import re
import sys

from ..task import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """A recipe: its `name`, whether `just` shows it, what it says of itself and what it needs."""

    __slots__ = ("description", "is_private", "name", "needs")

    def __init__(
        self, name: str, *, is_private: bool, description: str | None, needs: Sequence[str]
    ) -> None:
        self.name = name
        self.is_private = is_private
        self.description = description
        self.needs = tuple(needs)  # recipes, with the path of modules before the name


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
    description: str | None = None
    attributes: Attributes = {}
    start = text.find("\n") if text.startswith("#!") else 0  # a shebang is no description
    for line in _lines(text, max(0, start)):
        tokens = [token for token in line if token[0] != "comment"]
        if tokens and tokens[0][1] == "[":
            attributes |= dict(_attributes(tokens))
            continue
        systems = _SYSTEMS & attributes.keys()
        if tokens and (not systems or systems & _this_system()):
            statement = _statement(tokens, attributes, description)
            if statement is not None:
                yield statement
        attributes = {}
        description = one_line(line[0][1][1:]) if line and not tokens else None  # of a comment


def _lines(text: str, at: int) -> Iterator[list[Token]]:
    """Yield the tokens of each line outside of recipes; of a blank or indented line, none."""
    while at < len(text):
        line: list[Token] = []
        at = _body_end(text, at) if text[at] in " \t" else _read_line(text, at, line)
        yield line


def _read_line(text: str, at: int, line: list[Token]) -> int:
    """Put the tokens of a line into `line`; it goes on within brackets. Returns where it ends."""
    depth = 0
    for kind, word, end in _tokens(text, at):
        depth = max(0, depth + (word in _OPENING) - (word in _CLOSING))
        if kind != "line":
            line.append((kind, word))
        elif not depth:
            return end
    return len(text)


def _tokens(text: str, at: int) -> Iterator[tuple[str, str, int]]:
    """Yield kind, text and end of each token from a place on, blanks left out.

    A text that does not end is the end: `just` takes no such file.
    """
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup == "open":
            return
        at = found.end()
        if found.lastgroup and found.lastgroup != "blank":
            yield found.lastgroup, found.group(), at


def _body_end(text: str, at: int) -> int:
    """Return where the line of a recipe ends: strings in `{{...}}` may span many lines."""
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
        # Where [doc(...)] holds more than a plain text, only `just` knows what it says.
        literal = attributes["doc"][0] if len(attributes["doc"]) == 1 else ("", "")
        is_plain = literal[0] == "text" and not literal[1].startswith("f")
        description = one_line(read_text(literal[1])) if is_plain else None
    return JustRecipe(
        name,
        is_private="private" in attributes or name.startswith("_"),
        description=description,
        needs=list(_needs(tokens[colon + 1 :])),
    )


def _needs(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the recipes that stand behind the colon, without what is given to them."""
    words = [word if kind in {"name", "sign"} else "" for kind, word in tokens]
    depth, before = 0, ""
    path: list[str] = []
    for (kind, word), after in zip(tokens, [*words[1:], ""], strict=False):
        if kind == "name" and (not depth or (depth == 1 and before in {"(", "::"})):
            if before != "::":
                path.clear()
            path.append(word)
            if after != "::":
                yield "::".join(path)
        depth += (word in _OPENING) - (word in _CLOSING)
        before = word


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


def _this_system() -> set[str]:
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    return {system.rstrip("0123456789"), *(["unix"] if os.name == "posix" else [])}


def read_text(literal: str) -> str:
    """Return the text of a literal of a justfile, of those that `just` takes for paths."""
    from textwrap import dedent

    quoted = literal.lstrip("xf")
    indented = quoted.startswith(("'''", '"""'))
    text = dedent(quoted[3:-3].removeprefix("\n")) if indented else quoted[1:-1]
    if quoted.startswith('"'):
        text = _ESCAPE.sub(_escaped, text)
    return _expanded(text) if literal.startswith("x") else text


def _escaped(found: re.Match[str]) -> str:
    letter = found[1]
    if letter.startswith("u{"):
        point = int(letter[2:-1], 16)
        return chr(point) if point <= sys.maxunicode else found[0]
    return _ESCAPED.get(letter, letter)


def _expanded(text: str) -> str:
    """Return the text with `~`, `$NAME`, `${NAME}` and `${NAME:-...}` filled in."""
    return _VARIABLE.sub(
        lambda found: os.environ.get(found[1] or found[2], found[3] or ""), os.path.expanduser(text)
    )
