"""Reads untrusted YAML: without types, and bounded in every way.

Some ten thousand levels of nesting crash the interpreter in the C parser, aliases make gigabytes of
a few lines, and thousands of directives take minutes. All of these are refused first.
"""

from __future__ import annotations

import re

from ..loader import add_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from yaml import Node

DEEPEST_YAML = 100  # values within each other
TOO_DEEP = f"holds values within each other more than {DEEPEST_YAML} levels deep"
LARGEST_YAML = 1 << 18  # characters: a million of brackets and commas take seconds
LARGEST_YAML_WITHOUT_C = 1 << 14  # where only the parser in Python is there

_MOST_DIRECTIVES = 100  # handles of tags: each is compared with all others
_AROUND = 2  # levels around all values: the stream and the document
_TAG = "tag:yaml.org,2002:"
_KINDS = {"scalar": f"{_TAG}str", "sequence": f"{_TAG}seq", "mapping": f"{_TAG}map"}
# Without such a line and with few brackets the nesting is not deep: a level in lines takes a
# character at the beginning of its line, and may hold a list of the same indentation.
_INDENTED = re.compile("(?:^|[\n\x85\u2028\u2029])[-?: \t]{21}")
_FEW = 40


class YamlError(Exception):
    """Text that cannot be read as YAML; its text ends a sentence that begins with the file's name.

    `line` is the number of the line at fault, 0 if there is no single one.
    """

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.line = line


class Texts:
    """The value of a YAML text with every scalar as a text; None for an empty one.

    `count` is its number of values; each alias counts as one. `tagged` is true if a tag gives any
    value another type than its apparent one, such as `!!binary`.
    """

    __slots__ = ("_known", "count", "tagged", "value")

    def __init__(self, root: Node | None) -> None:
        self.count = 0
        self.tagged = False
        self._known: dict[int, tuple[Any, int]] = {}
        self.value: Any = None if root is None else self._construct(root, 1)[0]

    def _construct(self, node: Any, depth: int) -> tuple[Any, int]:
        """Return the value of a node and its number of levels; an aliased node is made once."""
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
        pairs = [self._construct(item, depth) for item in node.value]
        return [value for value, _ in pairs], 1 + max([levels for _, levels in pairs], default=0)

    def _mapping(self, node: Any, depth: int) -> tuple[Any, int]:
        members: dict[str, Any] = {}
        deepest = 0
        for key, item in node.value:
            if key.id != "scalar":
                raise YamlError("a key must be a string", key.start_mark.line + 1)
            self._construct(key, depth)
            members[key.value], levels = self._construct(item, depth)
            deepest = max(deepest, levels)
        return members, deepest + 1


def read_texts(text: str, most: int = LARGEST_YAML) -> Texts:
    """Read a YAML text of at most `most` characters; its scalars have no types.

    `on` and `3` are texts, as are dates; of a key that is there twice, the last value counts.
    Raises `YamlError`.
    """
    return Texts(compose(text, most, typed=False))


def read_all(text: str) -> list[Texts]:
    """Read the documents of a YAML text as `read_texts` does. Raises `YamlError`."""
    return [Texts(root) for root in _parse(text, LARGEST_YAML, typed=False)]


def compose(text: str, most: int = LARGEST_YAML, *, typed: bool) -> Node | None:
    """Return the root node of a YAML text, None for an empty one; raises `YamlError`.

    With `typed`, a plain scalar has the tag of its apparent type. Aliases are the nodes that they
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
        if text.count("[") + text.count("{") > _FEW or _INDENTED.search(text):
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
    """Raise `YamlError` for nesting that is too deep for the recursive parser in C."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > DEEPEST_YAML + _AROUND:
            raise YamlError(TOO_DEEP)
