"""Reads Markdown by its lines, and YAML without types and bounded in every way.

In YAML, values nested some ten thousand levels deep end the interpreter in the parser in C, aliases
make gigabytes of a few lines, and thousands of directives take minutes: all of it is refused first.
"""

from __future__ import annotations

import re

from ..loader import add_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from yaml import Node

BYTE_ORDER_MARK = "\ufeff"  # at the beginning of some files

_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_FENCE = re.compile(r"([ \t]*(?:[-*+][ \t]+|[0-9]{1,9}[.)][ \t]+)?)(`{3,}|~{3,})(.*)")
_IN_ITEM = 2  # columns by which the content of a list item is indented at least
_CODE_INDENT = 4  # columns that make a line code without any fence
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*[.)]?[ \t]+")


class Line:
    """One line: where it begins in the text, what it says without its end, and if it is code."""

    __slots__ = ("fenced", "start", "text")

    def __init__(self, start: int, text: str) -> None:
        self.start = start
        self.text = text
        self.fenced = False


class Heading:
    """A heading: `level` counts its hashes, `line` is its place, `title` what it says."""

    __slots__ = ("level", "line", "title")

    def __init__(self, level: int, line: int, title: str) -> None:
        self.level = level
        self.line = line
        self.title = title

    def begins_with(self, words: str) -> bool:
        """Return whether the title begins with these whole words, in any case."""
        return bool(re.match(rf"{re.escape(words)}(?!\w)", self.title, re.IGNORECASE))


def read_lines(text: str, item: re.Pattern[str] | None = None) -> list[Line]:
    """Return the lines of a text; `fenced` are those of fenced code, with its fences.

    A fence ends with one of its kind that is no shorter. Without `item`, all is as CommonMark has
    it: a fence is indented by three columns at most, and one that is never closed goes on to the
    end. With `item`, a text of list items that people edit by hand is read so that a forgotten
    fence hides none of them: a fence may be indented at will, one in an item ends at the latest
    where a line matches `item`, and one that is never closed is none.
    """
    lines = list(_lines(text))
    # By the kind of fence, and whether it is in an item: the length that nothing ends from here on.
    endless: dict[tuple[str, bool], int] = {}
    at = 0
    while at < len(lines):
        fence = _opening(lines[at].text, in_items=item is not None)
        at += 1
        if fence is None or len(fence[2]) >= endless.get(_kind(fence), len(text) + 1):
            continue
        end = _end(lines, at, fence, item)
        if end is None:
            endless[_kind(fence)] = len(fence[2])
            continue
        for line in lines[at - 1 : end]:
            line.fenced = True
        at = end
    return lines


def indent_of(text: str) -> int:
    """Return the columns of white space before a line's first character."""
    whole = text.expandtabs(4)
    return len(whole) - len(whole.lstrip(" "))


def headings(text: str) -> list[Heading]:
    """Return the headings of a text in order, those that begin with hashes."""
    found: list[Heading] = []
    for place, line in enumerate(read_lines(text)):
        if not line.fenced and (heading := _HEADING.match(line.text)):
            title = re.sub(r"(^|[ \t]+)#+[ \t]*$", "", heading[2]).strip()
            found.append(Heading(len(heading[1]), place, title))
    return found


def section(text: str, title: str) -> list[str]:
    """Return the lines from the heading of that title to the next of its level or a higher one.

    A number before the title and its case do not count. Empty where there is no such heading.
    """
    known = headings(text)
    lines = [line.text for line in _lines(text)]
    for place, heading in enumerate(known):
        if _NUMBER.sub("", heading.title, count=1).casefold() == title.casefold():
            following = (other for other in known[place + 1 :] if other.level <= heading.level)
            end = next((other.line for other in following), len(lines))
            return lines[heading.line : end]
    return []


def table(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of the first table in some lines, row by row, without the line of dashes."""
    rows: list[list[str]] = []
    for line in lines:
        if line.lstrip().startswith("|"):
            rows.append(_cells(line))
        elif rows:
            break
    return [row for place, row in enumerate(rows) if place != 1 or not _is_rule(row)]


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of rows, the first of which is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def _lines(text: str) -> Iterator[Line]:
    for match in _LINE.finditer(
        text, len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
    ):
        yield Line(match.start(), match[1])


def _opening(text: str, *, in_items: bool) -> re.Match[str] | None:
    """Return the fence that a line opens; backticks after its backticks make it code in a line."""
    match = _FENCE.match(text)
    if match is None or (match[2][0] == "`" and "`" in match[3]):
        return None
    is_plain = not match[1].strip() and indent_of(text) < _CODE_INDENT
    return match if in_items or is_plain else None


def _kind(fence: re.Match[str]) -> tuple[str, bool]:
    """Return its character, and whether it stands in a list item."""
    return fence[2][0], indent_of(fence[1]) >= _IN_ITEM or bool(fence[1].strip())


def _end(
    lines: list[Line], start: int, fence: re.Match[str], item: re.Pattern[str] | None
) -> int | None:
    """Return the position after the code that goes on at `start`, None where nothing ends it."""
    character, in_item = _kind(fence)
    closing = re.compile(rf"[ \t]*{character}{{{len(fence[2])},}}[ \t]*")
    for position in range(start, len(lines)):
        text = lines[position].text
        if closing.fullmatch(text) and (item is not None or indent_of(text) < _CODE_INDENT):
            return position + 1
        if item is not None and in_item and item.match(text):
            return position
    return len(lines) if item is None else None


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", inner)]


def _is_rule(row: Sequence[str]) -> bool:
    return all(re.fullmatch(":?-+:?", cell) for cell in row)


DEEPEST_YAML = 100  # values within each other
TOO_DEEP = f"holds values within each other more than {DEEPEST_YAML} levels deep"
LARGEST_YAML = 1 << 18  # characters: a million of brackets and commas take seconds
LARGEST_YAML_WITHOUT_C = 1 << 14  # where only the parser in Python is there

_MOST_DIRECTIVES = 100  # handles of tags: each is compared with all others
_AROUND = 2  # levels around all values: the stream and the document
_TAG = "tag:yaml.org,2002:"
_KINDS = {"scalar": f"{_TAG}str", "sequence": f"{_TAG}seq", "mapping": f"{_TAG}map"}
# Without a line like these and with few brackets nothing lies deep: a level in lines takes a
# character at the beginning of its line, and may hold a list of the same indentation.
_DEEP_LINE = re.compile("(?:^|[\n\x85\u2028\u2029])[-?: \t]{21}")
_FEW = 40


class YamlError(Exception):
    """Text that is not read as YAML; its text ends a sentence that begins with the file's name.

    `line` is the number of the line at fault, 0 where it is no single one.
    """

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.line = line


class Texts:
    """The value of a YAML text in which every scalar is a text; None for an empty one.

    `count` is how many values it took, each alias being one. `tagged` says whether any value has a
    tag that makes it another than it looks, such as `!!binary`.
    """

    __slots__ = ("_known", "count", "tagged", "value")

    def __init__(self, root: Node | None) -> None:
        self.count = 0
        self.tagged = False
        self._known: dict[int, tuple[Any, int]] = {}
        self.value: Any = None if root is None else self._made(root, 1)[0]

    def _made(self, node: Any, depth: int) -> tuple[Any, int]:
        """Return the value of a node and the levels in it; what has aliases is made once."""
        self.count += 1
        kind = node.id
        if node.tag != _KINDS[kind]:
            self.tagged = True
        if kind == "scalar":
            return node.value, 0
        made = self._known.get(id(node))
        if made is None:
            if depth > DEEPEST_YAML:
                raise YamlError(TOO_DEEP)
            make = self._list if kind == "sequence" else self._mapping
            made = self._known[id(node)] = make(node, depth + 1)
        if depth + made[1] > DEEPEST_YAML + 1:
            raise YamlError(TOO_DEEP)
        return made

    def _list(self, node: Any, depth: int) -> tuple[Any, int]:
        pairs = [self._made(item, depth) for item in node.value]
        return [value for value, _ in pairs], 1 + max([levels for _, levels in pairs], default=0)

    def _mapping(self, node: Any, depth: int) -> tuple[Any, int]:
        members: dict[str, Any] = {}
        deepest = 0
        for key, item in node.value:
            if key.id != "scalar":
                raise YamlError("a key must be a string", key.start_mark.line + 1)
            self._made(key, depth)
            members[key.value], levels = self._made(item, depth)
            deepest = max(deepest, levels)
        return members, deepest + 1


def read_texts(text: str, most: int = LARGEST_YAML) -> Texts:
    """Read a YAML text of at most `most` characters, in which no scalar has a type.

    `on` and `3` are texts, as are dates; of a key that is there twice, the last value counts.
    Raises `YamlError`.
    """
    return Texts(compose(text, most, typed=False))


def read_all(text: str) -> list[Texts]:
    """Read the documents of a YAML text as `read_texts` does. Raises `YamlError`."""
    return [Texts(root) for root in _parse(text, LARGEST_YAML, typed=False)]


def compose(text: str, most: int = LARGEST_YAML, *, typed: bool) -> Node | None:
    """Return the root node of a YAML text, None for an empty one; raises `YamlError`.

    With `typed`, a plain scalar has the tag of what it looks like. Aliases are the nodes that they
    stand for, so a few lines may hold any number of values: count while you make them.
    """
    return next(iter(_parse(text, most, typed=typed, is_single=True)))


def _parse(text: str, most: int, *, typed: bool, is_single: bool = False) -> list[Node | None]:
    """Return the root nodes of the documents; of a single one, also None if it is empty."""
    add_packages()
    import yaml

    names = ("CSafeLoader", "SafeLoader") if typed else ("CBaseLoader", "BaseLoader")
    fast = getattr(yaml, names[0], None)
    loader: Any = fast or getattr(yaml, names[1])
    most = most if fast else min(most, LARGEST_YAML_WITHOUT_C)
    if len(text) > most:
        raise YamlError(f"is YAML of more than {most} characters")
    if text.count("%TAG") > _MOST_DIRECTIVES:
        raise YamlError(f'contains "%TAG" more than {_MOST_DIRECTIVES} times')
    try:
        if text.count("[") + text.count("{") > _FEW or _DEEP_LINE.search(text):
            _check_depth(text, loader)
        if is_single:
            roots = [yaml.compose(text, Loader=loader)]
        else:
            roots = [*yaml.compose_all(text, Loader=loader)]
    except yaml.MarkedYAMLError as error:
        if "nesting depth" in (error.problem or ""):  # the limit of newer parsers in C
            raise YamlError(TOO_DEEP) from error
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise YamlError(f"is not valid YAML: {error.problem}", line) from error
    except (yaml.YAMLError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise YamlError(f"is not valid YAML: {why}") from error
    except RecursionError as error:
        raise YamlError(TOO_DEEP) from error
    return roots


def _check_depth(text: str, loader: Any) -> None:
    """Raise `YamlError` for what the parser in C calls itself too often for."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > DEEPEST_YAML + _AROUND:
            raise YamlError(TOO_DEEP)
